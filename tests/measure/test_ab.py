"""`ci-score ab` with real processes: what it measures, when it stops, what it makes of trouble."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
import termios
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ci_score.cli import console, execute
from ci_score.cli.session import stopped_by_signals
from ci_score.judge import planned_looks
from ci_score.judge.looks import share_of_look
from ci_score.launches.lines import Launch, read_launches
from ci_score.measure.session.schedule import Answer, goal_with, order_of
from ci_score.model.lists import share_in_words
from tests.builders import PROJECT, lives, until

Out = pytest.CaptureFixture[str]

# A script that lies outside of both sides: what it trains is each side's own.
SCRIPT = """
import side
side.train()
"""
# Steps that are told and not taken: a test of the session need not wait for them.
SIDE = """
import os
LAUNCH = int(os.environ["CI_SCORE_LAUNCH"])

def train(ms={ms}, steps=6):
    for step in range(steps):
        told = ms + 0.01 * ((3 * LAUNCH + step) % 5)
        print('{{"step_ms": %r, "tokens": 100}}' % told, flush=True)
{more}
"""


def write_side(folder: Path, ms: float, more: str = "") -> None:
    folder.mkdir(exist_ok=True)
    (folder / "side.py").write_text(SIDE.format(ms=ms, more=more), encoding="utf-8")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with both sides, of which head is 10 % slower, and a script."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setenv("PYTHONPATH", str(PROJECT))
    monkeypatch.chdir(tmp_path)
    write_side(tmp_path / "base", 10.0)
    write_side(tmp_path / "head", 11.0)
    (tmp_path / "bench.py").write_text(SCRIPT, encoding="utf-8")
    return tmp_path


def arguments(*more: str, command: str = "bench.py", profiled: bool = False) -> list[str]:
    profile = [] if profiled else ["--no-profile"]
    words = [sys.executable, *command.split()]
    return ["ab", "--base", "base", "--head", "head", *profile, *more, "--", *words]


def ab(*more: str, command: str = "bench.py", profiled: bool = False) -> int:
    return execute(arguments(*more, command=command, profiled=profiled))


def measure() -> int:
    """An untimed launch of head, and a timed one."""
    command = ["--", sys.executable, "bench.py"]
    return execute(["measure", "--dir", "head", "--launches", "1", *command])


def measured(here: Path) -> list[Launch]:
    return read_launches((here / "perf" / "measurements.jsonl").read_bytes(), "measurements")


def session(here: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((here / "perf" / "session.json").read_text("utf-8"))
    return found


# --- a session ----------------------------------------------------------------------------------


def test_session__of_an_unchanged_program_is_clear_at_the_first_look(
    here: Path, capsys: Out
) -> None:
    """Six pairs are enough where the machine is calm, and the plan is said before they begin."""
    write_side(here / "head", 10.0)
    assert ab() == 0
    said = capsys.readouterr().err
    assert said.startswith(
        "up to 12 pairs, looks after 6, 9 and 12; limit +5.0 % a step (+5.3 % if the script tells"
        " its tokens), from the built-in rules (base has no .github/ci-score.toml)\n"
    )
    assert "after 6 pairs it is clear: not slower than the limit (6 pairs measured)" in said
    assert "anything above +0.0 % is ruled out (95 %) (the limit is +5.3 %)" in said
    assert "judge it: ci-score run --measurements perf" in said
    assert len(measured(here)) == 12


def test_session__of_a_slowdown_stops_when_it_is_proven(here: Path, capsys: Out) -> None:
    """Six pairs cannot prove it: all of them say the same by luck once in 64 times; nine can."""
    write_side(here / "head", 14.0)
    assert ab() == 0
    said = capsys.readouterr().err
    assert "after 9 pairs it is clear: slower than the limit" in said
    assert "head's step takes +39.9 %" in said
    assert ab("--fresh", "--looks", "8") == 0
    assert "after 8 pairs it is clear: slower than the limit" in capsys.readouterr().err


def test_session__of_a_small_slowdown_says_that_it_is_within_the_limit(
    here: Path, capsys: Out
) -> None:
    """Beyond `warn` and not beyond `fail` is clear where both are settled, and not before."""
    write_side(here / "head", 10.4)
    assert ab() == 0
    assert "after 9 pairs it is clear: slower, and within the limit" in capsys.readouterr().err
    assert execute(["run", "--measurements", "perf"]) == 0
    assert "Warning: 4 % slower, within the 5.3 % limit" in capsys.readouterr().out


NOISY = "import random\nrandom.seed(LAUNCH * 2 + ('head' in __file__))\n"


def test_session__that_stays_unclear_uses_all_pairs(here: Path, capsys: Out) -> None:
    """A slowdown as large as the limit is neither proven nor ruled out, and more pairs may help."""
    for side, ms in (("base", 10.0), ("head", 10.5)):
        wobbling = f"{NOISY}def train(told=train): told({ms} * random.uniform(0.9, 1.1))"
        write_side(here / side, ms, wobbling)
    assert ab() == 0
    said = capsys.readouterr().err
    assert "all 12 pairs were measured\n" in said
    assert re.search(
        r"nothing is proven either way; (about \d+ pairs would probably settle it: --more-pairs \d"
        r"|even 64 pairs would probably not)",
        said,
    )


def test_session__too_short_to_be_judged_says_so(here: Path, capsys: Out) -> None:
    """How many sound pairs there are, and how many it takes to clear or to prove."""
    broken = "def train(told=train):\n    told() if LAUNCH < 1 else exit(5)"
    write_side(here / "head", 10.0, broken)
    assert ab() == 3
    assert capsys.readouterr().err.endswith(
        "it cannot be judged: 1 sound pair; 6 are needed to clear a change, and 8 to prove a"
        " slowdown\n"
    )


@pytest.mark.parametrize(
    ("share", "words"),
    [(0.032, "+3.2 %"), (-0.004, "\u22120.4 %"), (-0.0004, "+0.0 %"), (0.0, "+0.0 %")],
)
def test_words__a_share_has_no_zero_with_a_minus(share: float, words: str) -> None:
    """A hair below nothing is nothing."""
    assert share_in_words(share) == words


def test_session__is_judged_by_run(here: Path, capsys: Out) -> None:
    """What it leaves is what `run` reads: the slowdown is found, and no baseline is needed."""
    write_side(here / "head", 14.0)
    assert ab("--case", "small@cpu") == 0
    assert execute(["run", "--measurements", "perf"]) == 1
    out = capsys.readouterr().out
    assert "40 % slower" in out
    record = json.loads((here / "ci-score" / "ci-score.json").read_bytes())
    assert [case["name"] for case in record["cases"]] == ["small@cpu"]


# --- the coins ----------------------------------------------------------------------------------


def first_sides(here: Path) -> list[str]:
    """Which side of each pair ran first."""
    rows = sorted(measured(here), key=lambda one: one.order)
    pairs = list(zip(rows[::2], rows[1::2], strict=True))
    assert all(first.launch == second.launch for first, second in pairs), "one after the other"
    assert all(first.order % 2 == 0 for first, _ in pairs)
    return [first.side for first, _ in pairs]


def test_coin__of_each_pair_is_fair_and_its_own() -> None:
    """Whatever the seed: as often heads as tails, and the coin before tells nothing of the next."""
    for seed in range(3):
        thrown = [order_of(pair, seed)[0] == "head" for pair in range(4000)]
        assert sum(thrown) / 4000 == pytest.approx(0.5, abs=0.04)
        alike = [first == second for first, second in pairwise(thrown)]
        assert sum(alike) / len(alike) == pytest.approx(0.5, abs=0.04)


def test_coin__is_thrown_by_the_seed(here: Path) -> None:
    """The same seed repeats a session; another one makes another order."""
    write_side(here / "head", 10.0)
    assert ab("--seed", "3", "--looks", "6") == 0
    orders = [[order_of(pair, seed)[0] for pair in range(6)] for seed in (3, 4)]
    assert first_sides(here) == orders[0] != orders[1]


def test_coin__is_fresh_where_nobody_gives_a_seed(here: Path) -> None:
    """Nobody can fit the work to an order that nobody knows before; the session keeps its seed."""
    seeds = set()
    for _ in range(2):
        assert ab("--fresh", "--looks", "6") == 0
        seeds.add(session(here)["plan"]["seed"])
    assert len(seeds) == 2
    assert ab("--looks", "6", "--more-pairs", "4") == 0
    assert session(here)["plan"]["seed"] in seeds
    seed = session(here)["plan"]["seed"]
    assert first_sides(here) == [order_of(pair, seed)[0] for pair in range(12)]


# --- by which rules -----------------------------------------------------------------------------


def write_policy(side: Path, text: str) -> None:
    (side / ".github").mkdir(exist_ok=True)
    policy = f"schema = 1\nrules = 'training'\n{text}"
    (side / ".github" / "ci-score.toml").write_text(policy, encoding="utf-8")


def test_rules__are_the_bases(here: Path, capsys: Out) -> None:
    """Head's own policy cannot move its limit: 10 % is beyond the base's 5 %, and within its 40."""
    write_policy(here / "head", "")
    assert ab() == 0
    assert "slower than the limit" in capsys.readouterr().err
    write_policy(here / "base", "[measure]\nlooks = [7, 9]\ntests = 2\nfalse_fail = 0.01\n")
    write_policy(here / "head", "[metrics.throughput_tok_s]\nwarn = 0.1\nfail = 0.4\n")
    assert ab("--fresh") == 0
    said = capsys.readouterr().err
    assert "up to 9 pairs, looks after 7 and 9; limit +5.0 % a step (+5.3 % if the script" in said
    assert "(the limit is +5.3 %)" in said
    assert "after 9 pairs it is clear: slower than the limit" in said
    plan = session(here)["plan"]
    assert (plan["looks"], plan["tests"], plan["false_fail"]) == ([7, 9], 2, 0.01)
    assert {one.looks for one in measured(here)} == {(7, 9)}


@pytest.mark.parametrize(("tokens", "answer", "code"), [("", "SLOWER", 1), (100, "WITHIN", 0)])
def test_rules__are_those_that_run_judges_with(
    tokens: object, answer: str, code: int, here: Path, capsys: Out
) -> None:
    """5.15 % more time is 4.9 % less throughput; without tokens the step's time is judged."""
    write_policy(here / "base", "")
    for side, ms in (("base", 10.0), ("head", 10.515)):
        told = f"    print('{{\"step_ms\": {ms}}}', flush=True)\n" * 6
        write_side(here / side, ms, "" if tokens else f"def train():\n{told}")
    more = ["--tokens-per-step", str(tokens)] if tokens else []
    assert ab(*more) == 0
    said = capsys.readouterr().err
    assert f"limit {'+5.3 %' if tokens else '+5.0 %'} a step" in said
    assert f"it is clear: {Answer[answer].value}" in said
    policy = "base/.github/ci-score.toml"
    assert execute(["run", "--measurements", "perf", "--config", policy]) == code


def test_rules__say_how_many_steps_are_timed(here: Path) -> None:
    """A session with fewer than its own policy wants would be measured in vain."""
    write_policy(here / "base", "[measure]\ntimed_steps = 7\nwarmup_steps = 1\n")
    assert ab("--limit", "0.5", "--looks", "6") == 0
    assert session(here)["plan"]["steps"] == 7
    assert ab("--limit", "0.5", "--looks", "6", "--fresh", "--steps", "9") == 0
    assert session(here)["plan"]["steps"] == 9


def test_rules__of_looks_that_are_too_early_still_prove_a_slowdown(here: Path) -> None:
    """Six pairs prove nothing: the session adds a look, and the judge knows it."""
    write_side(here / "head", 14.0)
    write_policy(here / "base", "[measure]\nlooks = [6]\n")
    assert ab() == 0
    assert len(measured(here)) == 16
    policy = "base/.github/ci-score.toml"
    assert execute(["run", "--measurements", "perf", "--config", policy]) == 1


def test_rules__of_the_command_line_win(here: Path, capsys: Out) -> None:
    """`--limit` and `--looks`, over any policy."""
    write_policy(here / "base", "[measure]\nlooks = [7, 9]\n")
    assert ab("--limit", "0.5", "--looks", "6") == 0
    said = capsys.readouterr().err
    assert "up to 8 pairs, looks after 6 and 8; limit +50.0 % a step, from --limit" in said
    assert "after 6 pairs it is clear" in said


def test_rules__of_a_policy_that_is_named_win_over_the_bases(here: Path, capsys: Out) -> None:
    """`--config`, as for a checkout that holds the sides in subfolders."""
    write_policy(here / "base", "")
    Path("other.toml").write_text("schema = 1\n[metrics.step_time_ms]\nfail = 0.3\n", "utf-8")
    assert ab("--config", "other.toml") == 0
    assert "from other.toml" in capsys.readouterr().err


def test_rules__that_cannot_be_read_give_way_to_the_built_in_ones(here: Path, capsys: Out) -> None:
    """Else nobody could measure the change that repairs the base's policy."""
    write_policy(here / "base", "nonsense = true\n")
    assert ab() == 0
    said = capsys.readouterr().err
    assert "tokens), from the built-in rules (the base's policy cannot be used" in said


def test_rules__a_tight_limit_takes_more_pairs(here: Path, capsys: Out) -> None:
    """Three percent or less, as the policy writes it."""
    write_side(here / "head", 10.0)
    write_policy(here / "base", "[metrics.throughput_tok_s]\nwarn = 0.02\nfail = 0.03\n")
    assert ab() == 0
    said = capsys.readouterr().err
    assert "up to 24 pairs, looks after 8, 12 and 24; limit +3.0 % a step (+3.1 % if" in said
    assert "after 8 pairs it is clear" in said


@pytest.mark.parametrize(
    ("asked", "tests", "planned"),
    [
        (None, 1, (6, 9, 12)),
        (None, 16, (6, 9, 12)),
        (None, 17, (6, 9, 12, 13)),
        (None, 32, (6, 9, 12, 13)),
        ((6,), 1, (6, 8)),
        ((8,), 1, (8,)),
        ((64,), 256, (64,)),
    ],
)
def test_looks__can_prove_something_with_the_share_of_many_tests(
    asked: tuple[int, ...] | None, tests: int, planned: tuple[int, ...]
) -> None:
    """Where no planned look could, the least number of pairs that can is one more."""
    found = planned_looks(0.05, asked, 0.005, tests)
    assert found == planned
    shares = [share_of_look(pairs, found, 0.005, tests) for pairs in found]
    assert any(2.0**-pairs <= share for pairs, share in zip(found, shares, strict=True))


# --- more pairs ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "measured", "goal"),
    [(4, 12, 16), (8, 12, 20), (4, 6, 12), (8, 6, 16), (4, 16, 20), (60, 6, 68)],
)
def test_more_pairs__end_where_something_can_be_proven(more: int, measured: int, goal: int) -> None:
    """At the end of the plan, or a whole number of fours behind it."""
    assert goal_with(more, measured, (6, 12)) == goal


def test_more_pairs__are_added_to_a_finished_session(here: Path, capsys: Out) -> None:
    """Under its plan, and clear or not; the lines stay, and the words say what is spent."""
    assert ab("--looks", "8", "--limit", "0.5") == 0
    before = (here / "perf" / "measurements.jsonl").read_bytes()
    capsys.readouterr()
    assert ab("--looks", "8", "--limit", "0.5", "--more-pairs", "8") == 0
    said = capsys.readouterr().err
    assert "after 16 pairs it is clear" in said
    assert "pairs were added after the plan of 8: they spend what it has left of the" in said
    assert (here / "perf" / "measurements.jsonl").read_bytes().startswith(before)
    assert len(measured(here)) == 32
    assert [look["pairs"] for look in session(here)["looks"]] == [8, 16]
    assert {one.looks for one in measured(here)} == {(8,)}


def test_more_pairs__go_on_after_an_interruption(here: Path) -> None:
    """The same command measures what is left of them, and adds no more."""
    assert ab("--looks", "8") == 0
    before = session(here)
    assert ab("--looks", "8", "--more-pairs", "8") == 0
    lines = (here / "perf" / "measurements.jsonl").read_bytes().splitlines(keepends=True)
    (here / "perf" / "measurements.jsonl").write_bytes(b"".join(lines[:20]))
    state = {**before, "ending": None, "goal": 16, "was_extended": True, "next_pair": 10}
    (here / "perf" / "session.json").write_text(json.dumps(state), encoding="utf-8")
    assert ab("--looks", "8", "--more-pairs", "8") == 0
    assert len(measured(here)) == 32


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--more-pairs", "6"], "pairs are added in steps of 4, and nothing can be proven between"),
        (["--more-pairs", "6"], "give 8"),
        (["--more-pairs", "4"], "perf has none to add to; measure one first"),
        (["--more-pairs", "4", "--fresh"], "without --more-pairs and --fresh"),
    ],
)
def test_more_pairs__without_a_session_teach(capsys: Out, options: list[str], words: str) -> None:
    """There is nothing that they could be added to, or the number means nothing."""
    assert ab(*options) == 2
    assert words in capsys.readouterr().err


def test_more_pairs__are_not_for_what_measures_one_side(here: Path, capsys: Out) -> None:
    """It has no pairs to add to, which is said before all that its plan has otherwise."""
    assert execute(["measure", "--dir", "head", "--", sys.executable, "../bench.py"]) == 0
    assert ab("--more-pairs", "4") == 2
    assert "perf has none to add to; measure one first" in capsys.readouterr().err


def test_more_pairs__have_an_end(here: Path, capsys: Out) -> None:
    """A session has at most 64 pairs."""
    assert ab("--looks", "8") == 0
    assert ab("--looks", "8", "--more-pairs", "60") == 2
    assert "that makes 68 pairs, and a session has at most 64" in capsys.readouterr().err


def test_more_pairs__are_not_for_a_session_with_planned_ones_left(here: Path, capsys: Out) -> None:
    """Those come first, by the same command without the option."""
    write_side(here / "head", 10.0)
    assert ab() == 0
    state = session(here) | {"ending": "the time was used up"}
    (here / "perf" / "session.json").write_text(json.dumps(state), encoding="utf-8")
    assert ab("--more-pairs", "4") == 2
    assert "has measured 6 of 12 pairs; let the same command" in capsys.readouterr().err


# --- the command --------------------------------------------------------------------------------


def test_command__each_side_runs_its_own_copy_of_a_script(here: Path) -> None:
    """And not the one in the current folder, nor the other side's."""
    for side in ("base", "head"):
        (here / side / "bench.py").write_text(SCRIPT, encoding="utf-8")
    (here / "bench.py").write_text("raise SystemExit(9)", encoding="utf-8")
    assert ab("--looks", "6") == 0
    typical = {one.side: one.mean_ms for one in measured(here)}
    assert typical["head"] > typical["base"] + 0.9


def test_command__that_runs_the_other_sides_code_is_found_out(
    here: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by an installation that points to head: base would be measured as head."""
    script = (
        "import sys, os\nsys.path.insert(0, os.path.join(os.environ['ROOT'], 'head'))\n"
        "import side\nfrom ci_score.measure import Recorder\n"
        "with Recorder() as recorder:\n    with recorder.step():\n        pass\n"
    )
    (here / "bench.py").write_text(script, encoding="utf-8")
    monkeypatch.setenv("ROOT", str(here))
    assert ab() == 3
    said = capsys.readouterr().err
    assert said.splitlines()[-1].startswith("base: it imported side from")
    assert "it imported side from the other side's folder" in said


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            [],
            "give the command that trains after --, as ci-score ab --base main --head . -- python",
        ),
        (["--"], "give the command that trains after --"),
        (
            ["python", "bench.py"],
            "write -- before your command, as ci-score ab --base main --head .",
        ),
    ],
)
def test_command__that_is_missing_is_wrong_use(
    capsys: Out, arguments: list[str], words: str
) -> None:
    """With an example of how it is written."""
    assert execute(["ab", "--base", "base", "--head", "head", *arguments]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["ab", "--", "true"], "--base is missing; write ci-score ab --base main --head . -- py"),
        (["ab", "--base", "x"], "--head is missing; write ci-score ab --base main --head . -- py"),
        (["measure"], "after --, as ci-score measure -- python train.py"),
        (["qualify", "python"], "before your command, as ci-score qualify -- python train.py"),
        (["measure", "--lanuches", "2"], "--launches"),
        (["measure", "python", "-m", "llm"], "behind --, as ci-score measure -- python train.py"),
        (["measure", "--", "no-such-program"], "head: there is no program no-such-program"),
    ],
)
def test_command__that_is_mistyped_gets_an_example_or_a_suggestion(
    capsys: Out, arguments: list[str], words: str
) -> None:
    """Exit 2; a command of one side knows no base."""
    assert execute(arguments) == 2
    assert words in capsys.readouterr().err


# --- a script that tells its own steps ----------------------------------------------------------


def test_timing__by_the_recorder(here: Path) -> None:
    """The line of the script itself, with its versions, loss and metrics."""
    (here / "bench.py").write_text(
        "import side\nfrom ci_score.measure import Recorder\n"
        "with Recorder(tokens_per_step=64, warmup_steps=1) as recorder:\n"
        "    for _ in range(4):\n        with recorder.step():\n            sum(range(2000))\n"
        "    recorder.loss(2.5)\n    recorder.metric('recompiles', 1)\n",
        encoding="utf-8",
    )
    assert ab("--looks", "6") == 0
    one = measured(here)[0]
    assert (len(one.step_ms), one.warmup_steps, one.tokens_per_step) == (4, 1, 64.0)
    assert (one.final_loss, one.metrics) == (2.5, {"recompiles": 1.0})
    environment = json.loads((here / "perf" / "environment.json").read_text("utf-8"))
    assert environment["versions"]["python"] == ".".join(map(str, sys.version_info[:3]))


def test_timing__the_options_fill_what_the_script_does_not_say(here: Path) -> None:
    """Warm-up and tokens of a script that knows neither."""
    for side in ("base", "head"):
        write_side(
            here / side, 10.0, "def train():\n    [print('{\"step_ms\": 5}') for _ in range(4)]"
        )
    assert ab("--looks", "6", "--warmup-steps", "2", "--tokens-per-step", "512") == 0
    one = measured(here)[0]
    assert (len(one.timed_ms), one.tokens_per_step) == (2, 512.0)


# --- trouble ------------------------------------------------------------------------------------


RECORD = """
def record(text):
    with open(os.environ["CI_SCORE_MEASUREMENTS"], "w") as stream:
        stream.write(text)
"""


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("print('no room'); raise SystemExit(3)", "it exited with 3\n  | no room"),
        ("record('{\"step_ms\": [0.0]}\\n')", "its steps took no time at all"),
        ("told(steps=2)", "2 timed steps of head, 6 of base"),
        ("record('{\"step_ms\": []}\\n'); print('no data')", "reported no steps\n  | no data"),
        ("print('warming up')", "it reported no steps\n  | warming up"),
        ("record('{\"step_ms\": [1.0], \"warmup_steps\": 1}\\n')", "declared as warm-up"),
    ],
)  # fmt: skip
def test_trouble__of_one_side_is_said_with_its_log(
    here: Path, capsys: Out, fault: str, words: str
) -> None:
    """The side, the pair, the reason and the end of its log; what was measured is kept."""
    more = f"""{RECORD}
def train(told=train):
    if LAUNCH < 2:
        return told()
    {fault}
"""
    write_side(here / "head", 11.0, more)
    assert ab() == 3
    said = capsys.readouterr().err
    assert words in said
    assert "pair 3" in said
    assert "(4 pairs measured)" in said
    assert "the head failed 2 times in a row" in said
    void = [one for one in measured(here) if one.failed]
    assert [(one.side, one.launch) for one in void] == [("head", 2), ("head", 3)]
    assert len(measured(here)) == 8


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("print('{\"step_ms\": 5}\\n{\"step_ms\": NaN}')", "step 2 is NaN; expected milliseconds"),
        ("print('{\"step_ms\": null}')", "step 1 is null"),
        ("record('{\"step_ms\": [1.0, -Infinity]}\\n')", "step 2 is -Infinity"),
        ("print('{\"step_ms\": \"fast\"}')", "no number in step_ms"),
        ("print('{\"step_ms\": -1}')", "step_ms"),
        ("print('{\"step_ms\": 5, \"cut')", "expected JSON"),
        ("record('{\"step_ms\": [1.0')", "half a line"),
        ("record('{\"step_ms\": [1.0]}\\n{\"step_ms\": [1.0]}\\n')", "2 lines"),
        ("record('{\"step_ms\": [1.0], \"failed\": \"its loss was NaN\"}\\n')", "its loss was NaN"),
        ("record('[]\\n')", "a JSON object"),
        ("import os; os.kill(os.getpid(), 9)", "it was ended by signal 9"),
        ("import nothing_like_this", "ModuleNotFoundError"),
    ],
)  # fmt: skip
def test_trouble__of_what_a_script_tells_is_named(
    here: Path, capsys: Out, fault: str, words: str
) -> None:
    """Already in the untimed launch, with the end of its log; nothing is timed."""
    write_side(here / "head", 11.0, f"{RECORD}\ndef train():\n    {fault}")
    assert measure() == 3
    said = capsys.readouterr().err
    assert said.startswith("head: ")
    assert words in said
    assert not (here / "perf" / "measurements.jsonl").exists()


def test_trouble__a_base_that_does_not_build_ends_the_session(here: Path, capsys: Out) -> None:
    """Nobody waits for twelve pairs of it."""
    (here / "base" / "side.py").write_text("this is no Python", encoding="utf-8")
    assert ab() == 3
    said = capsys.readouterr().err
    assert "\nbase: it failed with SyntaxError" in said
    assert "  | SyntaxError" in said
    assert "pair" not in said.partition("\n")[2]
    assert not (here / "perf" / "measurements.jsonl").exists()


def crashes_at(here: Path, launch: int, ms: float = 10.0) -> None:
    """A head with one launch that dies, after some steps."""
    dying = f"def train(told=train):\n    told({ms}, steps=6 if LAUNCH != {launch} else 2)\n"
    write_side(here / "head", ms, f"{dying}    LAUNCH == {launch} and exit(5)")


def test_trouble__of_one_launch_is_not_measured_away(here: Path, capsys: Out) -> None:
    """A head that crashes sometimes is never clear: its void launch is kept, with its steps."""
    crashes_at(here, 1)
    assert ab() == 0
    said = capsys.readouterr().err
    assert "pair 2: void: head, pair 2: it exited with 5" in said
    assert "a launch is void: nothing can be cleared any more, only a slowdown be proven" in said
    assert "all 12 pairs were measured" in said
    assert "nothing is proven either way\n" in said
    assert "void launches: 1" in said
    assert "ruled out" not in said
    (void,) = [one for one in measured(here) if one.failed]
    assert (void.side, void.launch, void.failed, len(void.step_ms)) == (
        "head",
        1,
        "it exited with 5",
        2,
    )
    assert sorted({one.launch for one in measured(here)}) == list(range(12))


def test_trouble__of_one_launch_hides_no_slowdown(here: Path, capsys: Out) -> None:
    """The other pairs can still prove it."""
    crashes_at(here, 1, 14.0)
    assert ab() == 0
    assert "after 12 pairs it is clear: slower than the limit" in capsys.readouterr().err


def test_trouble__ends_a_session_that_can_decide_nothing_any_more(here: Path, capsys: Out) -> None:
    """Eight pairs prove a slowdown only where all of them are slower, and one is void."""
    crashes_at(here, 2)
    assert ab("--looks", "8") == 3
    said = capsys.readouterr().err
    assert "nothing can be cleared, and no slowdown can be proven any more" in said
    assert "(3 pairs measured)" in said


@pytest.mark.parametrize("claim", ["shared", "nan"])
def test_trouble__a_script_does_not_say_itself_who_disturbed_it(
    here: Path, capsys: Out, claim: str
) -> None:
    """A slow launch could be measured again for that; one that calls itself disturbed is void."""
    more = f"""
def train():
    with open(os.environ["CI_SCORE_MEASUREMENTS"], "w") as stream:
        stream.write('{{"step_ms": [1.0], "disturbances": {{"{claim}": "it says"}}}}\\n')
"""
    write_side(here / "head", 10.0, more)
    assert ab() == 3
    assert f"head: {claim}: it says; expected a sound run" in capsys.readouterr().err


def test_trouble__fewer_steps_than_the_other_side_are_void(here: Path, capsys: Out) -> None:
    """A head that takes fewer steps than base cannot be compared."""
    write_side(here / "head", 10.0, "def train(told=train):\n    told(steps=3)")
    assert ab() == 3
    said = capsys.readouterr().err
    assert (
        "the head failed 2 times in a row: head, pair 2: 3 timed steps of head, 6 of base" in said
    )


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere orphans are not adopted")
def test_trouble__forks_that_hide_are_ended(here: Path, capsys: Out) -> None:
    """A process without parent, group, session and environment would slow the other side down."""
    pids = here / "pids"
    hidden = f"{sys.executable} -c 'import time; time.sleep(60)' & echo $! >> {pids}"
    more = f"""
def train(told=train):
    import subprocess
    subprocess.run(["/bin/sh", "-c", {hidden!r}], env={{}}, start_new_session=True)
    told()
"""
    write_side(here / "head", 10.0, more)
    assert measure() == 0
    assert "1 process outlived the launch, and had to be ended" in capsys.readouterr().err
    left = [int(pid) for pid in pids.read_text("utf-8").split()]
    assert len(left) == 2
    assert not any(map(lives, left))


# It forks and exits at once, and leaves a trace of each process.
CHANGES_ITS_ID = """
import os, time
end = time.monotonic() + 60
while time.monotonic() < end:
    os.write(1, b".")
    if os.fork():
        os._exit(0)
    os.setsid()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere orphans are not adopted")
def test_trouble__a_process_that_keeps_changing_its_id_is_ended(here: Path, capsys: Out) -> None:
    """Faster than we can look through all processes, and in a new session each time."""
    more = f"""
def train(told=train):
    import subprocess, sys
    with open({str(here / "trace")!r}, "a") as trace:
        command = [sys.executable, "-I", "-S", "-c", {CHANGES_ITS_ID!r}]
        subprocess.Popen(command, stdout=trace, env={{}}, start_new_session=True)
    told()
"""
    write_side(here / "head", 10.0, more)
    assert measure() == 0
    assert "1 process outlived the launch, and had to be ended" in capsys.readouterr().err
    long = (here / "trace").stat().st_size
    time.sleep(0.2)
    assert (here / "trace").stat().st_size == long > 0


def test_trouble__a_process_that_cannot_be_ended_voids_the_launch(
    here: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would load all launches that come, those of the other side, too."""
    more = f"""
def train(told=train):
    import subprocess
    child = subprocess.Popen(["sleep", "60"], start_new_session=True)
    with open({str(here / "pid")!r}, "w") as stream:
        stream.write(str(child.pid))
    told()
"""
    write_side(here / "head", 10.0, more)
    kill = os.kill
    monkeypatch.setattr(os, "kill", lambda pid, sign: pid == running(here) or kill(pid, sign))
    monkeypatch.setattr("ci_score.measure.machine.processes.GRACE_SECONDS", 0.1)
    assert measure() == 3
    kill(running(here), signal.SIGKILL)
    assert "head: a process of it could not be ended, and runs beside" in capsys.readouterr().err


def test_trouble__an_exit_code_counts_whoever_has_started_us(here: Path) -> None:
    """Some do not want to hear of their children, and neither would we then."""
    write_side(here / "head", 10.0, "def train(told=train):\n    told(); exit(5)")
    words = ["measure", "--dir", "head", "--", sys.executable, "bench.py"]
    done = subprocess.run(
        [sys.executable, "-m", "ci_score", *words],
        cwd=here,
        capture_output=True,
        check=False,
        preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN),
    )
    assert b"head: it exited with 5" in done.stderr


def test_trouble__a_helper_that_ends_with_the_launch_is_not_told(here: Path, capsys: Out) -> None:
    """As multiprocessing's tracker of resources does, a moment after its parent."""
    more = """
def train(told=train):
    import subprocess
    global helper
    helper = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    told()
"""
    write_side(here / "head", 10.0, more)
    assert measure() == 0
    assert "outlived" not in capsys.readouterr().err


def test_trouble__forks_that_linger_are_ended(here: Path, capsys: Out) -> None:
    """Also those with a session of their own; the launch counts, and they are told."""
    pids = here / "pids"
    more = f"""
def train(told=train):
    import subprocess
    for alone in (True, False):
        child = subprocess.Popen(["sleep", "60"], start_new_session=alone)
        with open({str(pids)!r}, "a") as stream:
            stream.write(f"{{child.pid}}\\n")
    told()
"""
    write_side(here / "head", 10.0, more)
    assert measure() == 0
    assert "2 processes outlived the launch, and had to be ended" in capsys.readouterr().err
    left = [int(pid) for pid in pids.read_text("utf-8").split()]
    assert len(left) == 4
    assert not any(map(lives, left))


def test_trouble__the_time_that_was_given_ends_it(here: Path, capsys: Out) -> None:
    """A launch that the end of the time cuts off is nobody's fault."""
    for side in ("base", "head"):
        write_side(here / side, 10.0, "import time\ntime.sleep(0.1)")
    assert ab("--max-minutes", "0.01") == 3
    said = capsys.readouterr().err
    assert "the time was used up" in said
    assert "void" not in said


def test_trouble__a_launch_that_hangs_until_the_end_of_the_time_is_void(
    here: Path, capsys: Out
) -> None:
    """There was time for a pair like those before: a slow one must not vanish."""
    write_side(here / "head", 10.0, "import time\ntime.sleep(60 if LAUNCH == 1 else 0)")
    assert ab("--max-minutes", "0.05") == 3
    assert "void: head, pair 2: it took longer than" in capsys.readouterr().err
    assert next((one.side, one.launch) for one in measured(here) if one.failed) == ("head", 1)


CLAIMS = (
    'Path(os.environ["CI_SCORE_MEASUREMENTS"]).write_text('
    '\'{"step_ms": [1.0], "disturbances": {"shared": "it says"}}\\n\')'
)


@pytest.mark.parametrize(("says", "by_others"), [("None", True), (CLAIMS, False)])
def test_trouble__a_launch_that_others_slow_until_the_end_of_the_time_is_not(
    here: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch, says: str, by_others: bool
) -> None:
    """What was measured before it is kept; that is not for the script to say."""
    hangs = here / "hangs"
    more = f"""
import time
from pathlib import Path
if LAUNCH == 1:
    Path({str(hangs)!r}).touch()
    {says}
    time.sleep(60)
"""
    write_side(here / "head", 10.0, more)

    def load(*_: Any, **__: Any) -> str:
        return "others used 2.0 of 2 CPUs" if by_others and hangs.exists() else ""

    monkeypatch.setattr("ci_score.measure.machine.environment.load_by_others", load)
    assert ab("--max-minutes", "0.05") == 3
    assert ("void: head, pair 2" in capsys.readouterr().err) is not by_others
    assert any(one.failed for one in measured(here)) is not by_others


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--looks", "5,8"], "give rising numbers of pairs from 6 to 64"),
        (["--looks", "8,4"], "rising"),
        (["--looks", "x"], "rising"),
        (["--case", "a b"], "use up to 64 letters"),
        (["--timeout", "0"], "0"),
        (["--false-fail", "0.5"], "0.5"),
        (["--limit", "0"], "0"),
        (["--config", "none.toml"], "none.toml"),
    ],
)
def test_options__that_are_wrong_are_named(capsys: Out, options: list[str], words: str) -> None:
    """With what they may be; exit 2."""
    assert ab(*options) == 2
    assert words in capsys.readouterr().err


def test_options__a_policy_without_a_limit_on_times_cannot_stop_a_session(
    here: Path, capsys: Out
) -> None:
    """It says what to gate."""
    metrics = ("throughput_tok_s", "step_time_ms")
    policy = "".join(["schema = 1\n", *(f"[metrics.{name}]\ngate = false\n" for name in metrics)])
    (here / "policy.toml").write_text(policy, encoding="utf-8")
    assert ab("--config", "policy.toml") == 2
    assert "fails on neither throughput nor step time" in capsys.readouterr().err


def test_out__is_no_folder_of_a_side(here: Path, capsys: Out) -> None:
    """A session clears its logs and profiles there, which may be the side's own."""
    (here / "head" / "logs").mkdir()
    assert ab("--out", "head", "--fresh") == 2
    assert "--out head is head's folder itself; give one of its own" in capsys.readouterr().err
    assert (here / "head" / "logs").is_dir()


def test_out__keeps_what_is_of_no_session(here: Path) -> None:
    """`--fresh` clears a session, and nothing of somebody else."""
    (here / "perf" / "profiles").mkdir(parents=True)
    (here / "perf" / "profiles" / "mine.json").touch()
    assert ab("--fresh", "--looks", "6") == 0
    assert (here / "perf" / "profiles" / "mine.json").exists()


def test_sides__in_one_folder_are_said_to_be_the_same(here: Path, capsys: Out) -> None:
    """Git knows nothing of it, and it is the same code all the same."""
    command = ["ab", "--base", "base", "--head", "./base", "--no-profile", "--looks", "6"]
    assert execute([*command, "--", sys.executable, "bench.py"]) == 0
    assert "base and head are the same code (in one folder), so" in capsys.readouterr().err


# --- interrupted, and going on ------------------------------------------------------------------


def start(here: Path, **options: Any) -> subprocess.Popen[bytes]:
    """A session whose launches take long enough to be interrupted."""
    more = (
        "import time\nif root := os.environ.get('ROOT'):\n"
        "    open(os.path.join(root, 'pid'), 'w').write(str(os.getpid()))\n"
    )
    # Both sides stay as they are when it goes on.
    for side in ("base", "head"):
        sleeps = "LAUNCH == 2 and os.environ.get('ROOT')"
        write_side(here / side, 10.0, f"{more}time.sleep(60 if {sleeps} else 0)")
    return subprocess.Popen(
        [sys.executable, "-m", "ci_score", *arguments()],
        cwd=here,
        env={**os.environ, "ROOT": str(here)},
        **options,
    )


def running(here: Path) -> int:
    """The process that told its number last."""
    return int((here / "pid").read_text(encoding="utf-8") or 0)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_interrupted__what_was_measured_is_kept(
    here: Path, capsys: Out, number: signal.Signals
) -> None:
    """By a person or a cancelled job: the script is ended, and the same command goes on."""
    process = start(here, stderr=subprocess.PIPE)
    lines = here / "perf" / "measurements.jsonl"
    until(lambda: lines.exists() and len(lines.read_bytes().splitlines()) == 4)
    until(lambda: len(list((here / "perf" / "logs").glob("03-*.log"))) == 1)
    until(lambda: lives(running(here)))
    process.send_signal(number)
    _, said = process.communicate(timeout=20)
    assert process.returncode == 3
    assert b"it was interrupted, what was measured is kept" in said
    assert not lives(running(here))
    assert session(here)["ending"] == "it was interrupted"
    assert ab() == 0
    assert sorted({one.launch for one in measured(here)}) == [0, 1, 3, 4, 5, 6]
    assert len(measured(here)) == 12


def test_interrupted__by_a_terminal_that_closes(here: Path) -> None:
    """Nothing can be printed any more, and all the same nothing is left running."""
    ours, theirs = pty.openpty()
    process = start(
        here,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(theirs)
    until(lambda: (here / "pid").exists() and lives(running(here)))
    os.close(ours)
    assert process.wait(20) == 3
    assert not lives(running(here))
    assert session(here)["ending"] in ("it was interrupted", None)


def test_interrupted__nohup_goes_on() -> None:
    """Whoever has said before that a closed terminal is no reason to stop."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stopped_by_signals() as stopped:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not stopped()
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("command", ["ab", "measure"])
def test_out__is_for_one_session_at_a_time(here: Path, capsys: Out, command: str) -> None:
    """The second one is refused, and the first one does not notice."""
    process = start(here, stderr=subprocess.DEVNULL)
    lines = here / "perf" / "session.json"
    until(lambda: lines.exists() and (here / "pid").exists())
    others = [] if command == "ab" else ["--dir", "head"]
    more = arguments()[1:] if command == "ab" else ["--", sys.executable, "bench.py"]
    assert execute([command, "--out", "perf", *others, *more]) == 2
    assert "another ci-score measures in perf now; wait for its end" in capsys.readouterr().err
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 3
    assert session(here)["ending"] == "it was interrupted"
    assert not list((here / "perf").glob(".*"))


def test_out__on_a_full_disk_is_nobodys_wrong_use(here: Path, capsys: Out) -> None:
    """Here a file has a largest size. What was measured is kept, and with room it goes on."""
    many = ["--looks", "40"]
    words = shlex.join([sys.executable, "-m", "ci_score", *arguments(*many)])
    done = subprocess.run(
        ["bash", "-c", f"ulimit -f 8; exec {words}"], cwd=here, capture_output=True, check=False
    )
    assert done.returncode == 3, done.stderr
    told = rb"there is no room for it .*; kept in perf: (\d+) launches; make some"
    kept = re.search(told, done.stderr)
    assert kept, done.stderr
    assert int(kept[1]) == len(measured(here)) > 0
    assert ab(*many, "--max-minutes", "0.01") == 0
    assert len(measured(here)) >= int(kept[1])
    assert "the time was used up" in capsys.readouterr().err


@pytest.mark.parametrize("alone", [False, True])
def test_interrupted__by_a_kill_its_launch_ends_too(here: Path, alone: bool) -> None:
    """Nobody is left who would wait for it, and it would run beside the next session."""
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    more = f"""
def train(told=train):
    import subprocess, time
    child = subprocess.Popen({command!r}, start_new_session={alone})
    with open({str(here / "pids")!r}, "w") as stream:
        stream.write(f"{{os.getpid()}} {{child.pid}}")
    time.sleep(60)
"""
    write_side(here / "base", 10.0, more)
    process = subprocess.Popen([sys.executable, "-m", "ci_score", *arguments()], cwd=here)
    until(lambda: (here / "pids").exists() and len(pids(here)) == 2)
    assert all(map(lives, pids(here)))
    process.kill()
    process.wait()
    until(lambda: not any(map(lives, pids(here))))


def pids(here: Path) -> list[int]:
    return [int(pid) for pid in (here / "pids").read_text("utf-8").split()]


def test_resumed__a_whole_session_is_not_measured_again(here: Path, capsys: Out) -> None:
    """The same command says what it found."""
    write_side(here / "head", 10.0)
    assert ab() == 0
    before = (here / "perf" / "measurements.jsonl").read_bytes()
    first = capsys.readouterr().err
    assert ab() == 0
    again = capsys.readouterr().err
    assert "after 6 pairs it is clear" in again
    assert all(line in first for line in again.splitlines())
    assert (here / "perf" / "measurements.jsonl").read_bytes() == before


@pytest.mark.parametrize("side", ["base", "head"])
def test_resumed__after_an_edit_is_refused(here: Path, capsys: Out, side: str) -> None:
    """Also where no git knows the folder; a file that was only saved again is the same code."""
    assert ab() == 0
    before = measured(here)
    os.utime(here / side / "side.py", (9, 9))
    (here / side / "results.json").touch()
    (here / side / "perf").mkdir()
    assert ab() == 0
    assert measured(here) == before
    write_side(here / side, 10.0, "# slower")
    assert ab() == 2
    assert f"of another plan ({side}'s code: " in capsys.readouterr().err
    assert ab("--fresh") == 0


def test_resumed__after_a_kill_in_the_middle_of_a_line(here: Path) -> None:
    """Half a line and half a pair are dropped, and what follows stands on lines of its own."""
    write_side(here / "head", 10.0)
    assert ab("--looks", "6") == 0
    lines = (here / "perf" / "measurements.jsonl").read_bytes().splitlines(keepends=True)
    state = session(here) | {"ending": None, "stopped": "", "looks": [], "next_pair": 2}
    (here / "perf" / "session.json").write_text(json.dumps(state), encoding="utf-8")
    (here / "perf" / "measurements.jsonl").write_bytes(b"".join(lines[:5]) + lines[5][:40])
    assert ab("--looks", "6") == 0
    assert sorted({one.launch for one in measured(here)}) == [0, 1, 2, 3, 4, 5]
    assert len(measured(here)) == 12


def test_resumed__another_plan_is_refused(here: Path, capsys: Out) -> None:
    """Pairs of two programs or two cases would be mixed; --fresh begins anew."""
    assert ab("--case", "other", "--looks", "6") == 0
    script, words = SCRIPT, "case: other"
    for case in ("mine", "other"):
        (here / "bench.py").write_text(script, encoding="utf-8")
        assert ab("--case", case, "--looks", "6") == 2
        said = capsys.readouterr().err
        assert "holds a session of another plan" in said
        assert words in said
        script, words = f"{SCRIPT}\n", "both sides read: "
    assert ab("--case", "mine", "--looks", "6", "--fresh") == 0


def test_resumed__a_damaged_session_is_refused(here: Path, capsys: Out) -> None:
    """It is named, and what was measured is left alone."""
    assert ab("--looks", "6") == 0
    before, sound = (here / "perf" / "measurements.jsonl").read_bytes(), session(here)
    changes: list[dict[str, Any]] = [
        {"plan": []}, {"looks": [{}]}, {"next_pair": "x"}, {"goal": 65}
    ]  # fmt: skip
    for change in changes:
        (here / "perf" / "session.json").write_text(json.dumps(sound | change), "utf-8")
        assert ab("--looks", "6") == 2, change
        assert "expected a session" in capsys.readouterr().err
        assert (here / "perf" / "measurements.jsonl").read_bytes() == before


@pytest.mark.parametrize("text", ["{}", "no JSON", "[1]", '{"schema": 1}'])
def test_resumed__what_is_no_session_is_refused(here: Path, capsys: Out, text: str) -> None:
    """It is named, and nothing is overwritten."""
    (here / "perf").mkdir()
    (here / "perf" / "session.json").write_text(text, encoding="utf-8")
    assert ab() == 2
    assert "session.json: found something else, expected a session" in capsys.readouterr().err


def test_resumed__measurements_of_no_session_are_left_alone(here: Path, capsys: Out) -> None:
    """They are somebody's, also where a fresh session is asked for."""
    (here / "perf").mkdir()
    (here / "perf" / "measurements.jsonl").write_text("{}", encoding="utf-8")
    assert ab("--fresh") == 2
    assert "give another --out" in capsys.readouterr().err


# --- profiles, progress -------------------------------------------------------------------------


def test_profile__runs_each_side_after_the_timing(here: Path, capsys: Out) -> None:
    """Where the launch finds its folder in the environment; a failure spoils nothing."""
    more = """
if folder := os.environ.get("CI_SCORE_PROFILE_DIR"):
    assert os.environ["CI_SCORE_SIDE"] == "base", "no profiler"
    open(folder + "/trace.json", "w").write("{}")
"""
    for side in ("base", "head"):
        write_side(here / side, 10.0, more)
    assert ab(profiled=True) == 0
    said = capsys.readouterr().err
    assert (here / "perf" / "profiles" / "base" / "trace.json").exists()
    assert "no profile of the base" not in said
    assert "no profile of the head: it exited with 1" in said
    assert "AssertionError: no profiler" in said


def test_progress__lives_on_a_terminal(here: Path) -> None:
    """What runs and for how long, with the running estimate; a line stays for each pair."""
    # One launch takes longer than a tick of the line.
    write_side(here / "head", 10.0, "import time\ntime.sleep(0.6 if LAUNCH == 4 else 0)")
    write_side(here / "base", 10.0)
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "ci_score", *arguments("--looks", "6")],
        env={**os.environ, "TERM": "xterm"},
        stderr=theirs,
    )
    os.close(theirs)
    seen = b""
    try:
        while part := os.read(ours, 4096):
            seen += part
    except OSError:
        pass  # Linux says so where nobody has the other end open any more.
    finally:
        os.close(ours)
    assert process.wait(20) == 0
    text = seen.decode()
    assert "\r0 of at most 8 pairs; " in text
    assert "\r1 of at most 8 pairs, so far base 10.02 ms, head 10.02 ms; " in text
    assert "4 of at most 8 pairs, so far base" in text
    assert "pair 1: base 10.0" in text
    assert "after 6 pairs it is clear" in text


def test_progress__is_a_line_a_pair_elsewhere(here: Path, capsys: Out) -> None:
    """A job's log has no line that lives."""
    assert ab("--looks", "6") == 0
    said = capsys.readouterr().err
    assert "\r" not in said
    assert said.count("pair 4: base 10.0") == 1


def test_progress__of_what_takes_long_is_a_line_elsewhere(
    here: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of an untimed launch: what runs, how much of it is done, and what is left."""
    monkeypatch.setattr(console, "LINE_EVERY", 0.05)
    for side in ("base", "head"):
        write_side(here / side, 10.0, "import time\ntime.sleep(0.3)")


def test_profile__is_found_by_run(here: Path, capsys: Out) -> None:
    """Each side's profile explains its own side; nothing of a session becomes a case."""
    more = """
def leave(folder):
    import json
    slow = os.environ["CI_SCORE_SIDE"] == "head"
    ops = {"gemm": 4.0, "softmax": 6.0 if slow else 2.0}
    ms = 2 * sum(ops.values())
    backward = {"total_ms": ms, "pct": 100.0, "avg_ms": ms}
    profile = {"steps": 5, "avg_step_ms": ms, "wall_coverage": 1.0,
        "phases": {"backward": backward},
        "per_layer": [{"layer": 0, "fwd_ms": 0.0, "bwd_ms": ms, "ops": ops}]}
    with open(folder + "/profile.json", "w") as stream:
        json.dump(profile, stream)
    with open(folder + "/events.jsonl", "w") as stream:
        stream.write("no measurement")

if "CI_SCORE_PROFILE_DIR" in os.environ:
    leave(os.environ["CI_SCORE_PROFILE_DIR"])
"""
    write_side(here / "base", 10.0, more)
    write_side(here / "head", 14.0, more)
    assert ab(profiled=True) == 0
    assert execute(["run", "--measurements", "perf"]) == 1
    record = json.loads((here / "ci-score" / "ci-score.json").read_bytes())
    assert [case["name"] for case in record["cases"]] == ["training"]
    contributions = {
        (row["kind"], row["name"]): row["head_ms"] - row["base_ms"]
        for row in record["cases"][0]["contributions"]
    }
    assert contributions[("op", "softmax")] == pytest.approx(4.0)
    assert ("op", "gemm") not in contributions


def test_profile__gives_way_to_profiles_that_are_named(here: Path) -> None:
    """What the user names explains the head, and nothing the base."""
    write_side(here / "head", 14.0)
    assert ab("--looks", "8") == 0
    session_profile = here / "perf" / "profiles" / "head"
    session_profile.mkdir(parents=True)
    (session_profile / "broken.json").write_text("{", encoding="utf-8")
    own = {"own": {"total_ms": 9.0, "pct": 45.0, "avg_ms": 9.0}}
    named = json.dumps({"steps": 2, "avg_step_ms": 20.0, "phases": own})
    (here / "own.json").write_text(named, encoding="utf-8")
    assert execute(["run", "--measurements", "perf", "--profiles", "own.json"]) == 1
    record = json.loads((here / "ci-score" / "ci-score.json").read_bytes())
    assert list(record["cases"][0]["phases"]) == ["own"]
    assert "broken.json" not in json.dumps(record)
