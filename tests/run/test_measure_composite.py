"""The composite `measure`: its own steps are run, and the gate reads what it uploads."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from typing import Any

import click
import pytest
import yaml

from ci_score.cli import cli
from tests.builders import PROJECT
from tests.builders.composite import SHELLS, Job, obeyed
from tests.builders.scene import Outcome, Scene, pull_request, tip
from tests.loopback_github import events

ACTION = yaml.safe_load((PROJECT / "measure" / "action.yml").read_text(encoding="utf-8"))
TELLS = "for _ in range(5):\n    print('{\"step_ms\": %r}', flush=True)\n"
QUIET = "schema = 1\n[environment]\nreject = ['nan']\n"
FEW = "--looks 8 --no-profile --config 'quiet policy.toml'"


class Machine:
    """A runner with the code of both sides, a Python with ci-score, and a store of artifacts."""

    def __init__(self, scene: Scene) -> None:
        self.scene, self.folder = scene, scene.folder / "machine"
        self.workspace, self.store = self.folder / "work", self.folder / "store"
        self.temporary = self.folder / "temporary"
        self.workspace.mkdir(parents=True)
        self.temporary.mkdir()
        self.refs: list[str] = []
        self.kept: dict[str, str] = {}
        (self.workspace / "quiet policy.toml").write_text(QUIET, encoding="utf-8")
        python = self.folder / "python"
        # Isolated, it would find an installed ci-score and not this one.
        own = f'[ "$1" != -I ] || shift\nPYTHONPATH={PROJECT} exec {sys.executable} "$@"\n'
        python.write_text(f"#!/bin/sh\n{own}", encoding="utf-8")
        python.chmod(0o755)
        self.pull = pull_request(scene)
        self.event = events.pull_request(scene.github, self.pull)
        self.instead = {"install": f'echo "python={python}" >> "$GITHUB_OUTPUT"'}
        self.has("head", TELLS % 10.0)

    def has(self, side: str, script: str, name: str = "train.py") -> None:
        """A file of a side's commit."""
        path = self.folder / f"code-{side}" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(script, encoding="utf-8")

    def checkout(self, given: Mapping[str, str]) -> None:
        """The code of one side."""
        self.refs.append(given.get("ref", ""))
        code = self.folder / f"code-{given['path']}"
        code.mkdir(exist_ok=True)
        shutil.copytree(code, self.workspace / given["path"])

    def upload(self, given: Mapping[str, str]) -> None:
        """Into the one store, as a download that merges finds it."""
        self.kept[given["name"]] = given["path"]
        shutil.copytree(self.workspace / given["path"], self.store, dirs_exist_ok=True)

    def measures(self, shell: str = "sh", **inputs: str) -> tuple[bool, Job]:
        """One use of the action."""
        environment = {
            **{name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ},
            **self.event.write(self.folder / "runner"),
            "GITHUB_TOKEN": self.scene.token,
            "XDG_STATE_HOME": str(self.folder / "state"),
            "RUNNER_TEMP": str(self.temporary),
        }
        foreign = {"actions/checkout": self.checkout, "actions/upload-artifact": self.upload}
        job = Job(self.workspace, environment, foreign, self.instead, shell)
        done = job.run("measure", **{"command": f"{sys.executable} train.py", "args": FEW} | inputs)
        return done, job

    def judged(self, result: str = "success") -> Outcome:
        """The gate on all that was uploaded."""
        shutil.copytree(self.store, self.scene.workspace / "perf", dirs_exist_ok=True)
        return self.scene.act(self.event, measurements="perf", producer=f"measure={result}")


@pytest.fixture
def machine(scene: Scene) -> Machine:
    return Machine(scene)


def cases_in(machine: Machine) -> list[str]:
    return sorted(path.parent.name for path in machine.store.glob("*/measurements.jsonl"))


# --- from the command to the verdict --------------------------------------------------------------


def test_measure__a_slower_head_is_a_red_check(machine: Machine) -> None:
    """Both sides are checked out and measured in turns, and the gate reads what was uploaded."""
    machine.has("base", TELLS % 10.0)
    machine.has("head", TELLS % 13.0)
    done, job = machine.measures()
    assert done, job.printed
    assert machine.refs == ["", tip(machine.scene).sha]
    assert machine.kept == {"perf-training~1": "ci-score-measure/"}
    assert cases_in(machine) == ["training~1"]
    judged = machine.judged()
    assert judged.code == 1
    assert "30 % slower" in judged.summary


def test_measure__the_change_that_adopts_ci_score_is_green(machine: Machine) -> None:
    """Base lacks the script, the branch knows no case: a new one."""
    done, job = machine.measures()
    assert done, job.printed
    assert "base cannot run the command, so head is measured alone" in job.printed
    judged = machine.judged()
    assert judged.code == 0
    assert "head was measured alone" in judged.summary


def test_measure__the_first_commit_has_no_base(machine: Machine) -> None:
    """No base is checked out, and head is measured alone."""
    machine.instead["base"] = 'echo "base=" >> "$GITHUB_OUTPUT"'
    done, job = machine.measures()
    assert done, job.printed
    assert machine.refs == [""]
    assert job.outcomes["Check out base"] == "skipped"
    assert "there is no base, so head is measured alone" in job.printed
    assert machine.judged().code == 0


def test_measure__two_cases_in_one_job(machine: Machine) -> None:
    """Each use has its own artifact; nothing of the first is uploaded again."""
    for case in ("small", "large@h100"):
        assert machine.measures(case=case)[0]
    assert sorted(machine.kept) == ["perf-large@h100~1", "perf-small~1"]
    left = [path.name for path in (machine.workspace / "ci-score-measure").iterdir()]
    assert left == ["large@h100~1"]
    assert cases_in(machine) == ["large@h100~1", "small~1"]


# --- how it ends ----------------------------------------------------------------------------------


# What a script may say last: each would be a command of its own if a step printed it carelessly.
LAST_WORDS = (
    "-n -e \\n::error::x first\n::error::x\r::warning::x\r\n\t ::add-mask::x\x0b::notice::x"
    " %0A::error::x %0D::error::x ##[error]x and ##[stop-commands]x \x1b[31m::error::x\x1b[1A\x07"
    " $(printf '\\n::error::x') `true` %s %d %n"
    r" \0012::error::x \x0a::error::x \r::error::x C:\n::error file=a::x\n::stop-commands::x\c"
)
LONG = "\n::error::x" * 5000 + "y" * 100_000


@pytest.mark.parametrize(
    ("words", "shell"),
    [*((LAST_WORDS, shell) for shell in SHELLS), (LONG, "sh")],
    ids=[*SHELLS, "long"],
)
def test_measure__a_head_that_fails_is_one_error_with_what_ab_said(
    machine: Machine, words: str, shell: str
) -> None:
    """Nothing was measured; no words of the script are a command, whichever shell `sh` is."""
    machine.has("base", TELLS % 10.0)
    ends = f"raise SystemExit({words!r} + ' no layer')\n"
    machine.has("head", f"print('::error::100 % fake')\n{ends}")
    done, job = machine.measures(shell)
    assert not done
    (line,) = obeyed(job.printed)
    assert line.startswith("::error title=Nothing was measured::")
    if words != LONG:  # of a long word nobody needs the end
        kept = ("-n -e", "::add-mask::x", "# #[error]x", "%250A", r"\0012", "stop-commands::x\\c")
        assert [one for one in kept if one not in line] == []
        assert "100 %25 fake" in line
        assert "no layer" in line


def test_measure__the_gate_says_why_it_failed(machine: Machine) -> None:
    """The sentence comes in a small file; it is quoted, and cannot be more than words."""
    machine.has("base", TELLS % 10.0)
    machine.has("head", "raise SystemExit('no such layer [x](https://elsewhere.example) @octocat')")
    assert not machine.measures()[0]
    judged = machine.judged("failure")
    assert judged.code == 3
    assert "`measure` failed" in judged.summary
    (said,) = [line for line in judged.summary.splitlines() if "no such layer" in line]
    assert said.startswith("- what measured training said last: “")
    assert "[x](" not in said
    assert "@octocat" not in said


def test_measure__what_can_be_judged_is_a_success_where_ab_ends_with_3(machine: Machine) -> None:
    """Head breaks while it is timed: the void launches are uploaded, and the gate blocks."""
    machine.has("base", TELLS % 10.0)
    counted = "import pathlib\nruns = pathlib.Path('runs')\nruns.open('a').write('x')\n"
    breaks = "if len(runs.read_text()) > 2:\n    raise SystemExit(5)\n"
    machine.has("head", counted + breaks + TELLS % 10.0)
    done, job = machine.measures()
    assert done, job.printed
    assert job.outcomes["Measure"] == "failure"
    assert machine.judged().code == 3


def test_measure__a_setup_that_fails_says_so(machine: Machine) -> None:
    """The end of its log is the error."""
    machine.has("base", TELLS % 10.0)
    done, job = machine.measures(setup="echo no wheel for this Python; exit 4")
    assert not done
    assert "no wheel for this Python" in job.printed.partition("::error title")[2]


REFUSED = {
    "case": ["", "-a", "a-", "a/b", "a b", "a~2", "ä", "a\nb", "$(x)", "c" * 65, "a:b"],
    "name": ["", "a/b", "a~1", "a b", "a\nb"],
    "max_minutes": ["", "an hour", "1.2.3", ".", "-1"],
    "command": ["", "  ", "\n"],
}


@pytest.mark.parametrize(
    ("name", "text"), [(name, text) for name, texts in REFUSED.items() for text in texts]
)
def test_measure__refuses_a_wrong_input_before_anything_else(
    machine: Machine, name: str, text: str
) -> None:
    """Nothing is checked out, measured, removed or uploaded; the message does not repeat it."""
    (machine.workspace / "head").mkdir()
    done, job = machine.measures(**{name: text})
    assert not done
    assert (machine.refs, machine.kept) == ([], {})
    assert (machine.workspace / "head").exists()
    (line,) = job.printed.splitlines()
    assert line.startswith(f"::error title=ci-score measure::{name.replace('_', '-')}: ")


@pytest.mark.parametrize("case", ["a.b_c+d-e@".ljust(64, "c"), ".."])
def test_measure__takes_every_name_that_ab_takes(machine: Machine, case: str) -> None:
    """What the first step lets pass, no later one refuses."""
    done, job = machine.measures(case=case)
    assert done, job.printed
    assert machine.kept == {f"perf-{case}~1": "ci-score-measure/"}


# --- the command, which head alone shows: base lacks its script -----------------------------------


COMMANDS = {
    "lines": """WANTED="two words"
        {python} train.py --name "$WANTED" \\
            --other 'a $HOME "b"'
    """,
    "pipe": """{python} train.py --name "two words" --other 'a $HOME "b"' | cat""",
    "folder": """cd . && {python} train.py --name 'two words' --other 'a $HOME "b"'""",
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_command__is_read_as_the_lines_of_a_step(machine: Machine, command: str) -> None:
    """Quotes, variables, several lines, pipes."""
    wants = "['train.py', '--name', 'two words', '--other', 'a $HOME \"b\"']"
    script = f"import sys\nassert sys.argv == {wants}, sys.argv\n"
    machine.has("head", script + TELLS % 10.0)
    done, job = machine.measures(command=command.format(python=sys.executable))
    assert done, job.printed


@pytest.mark.parametrize("more", ["false\n{train}", "false | {train}", "{train} | false"])
def test_command__stops_at_its_first_error(machine: Machine, more: str) -> None:
    """As a step with `shell: bash` does, also within a pipe."""
    machine.has("base", TELLS % 10.0)
    done, _ = machine.measures(command=more.format(train=f"{sys.executable} train.py"))
    assert not done


def test_command__gets_no_token_and_none_of_the_step_s_variables(machine: Machine) -> None:
    """The training sees the job's environment, and nothing that the action itself works with."""
    names = ["PYTHON", "BASE", "OUT", "CASE", "COMMAND", "SETUP", "MINUTES", "ARGS"]
    script = f"import os\nassert not set({names}) & set(os.environ), os.environ\n"
    machine.has("head", script + TELLS % 10.0)
    done, job = machine.measures(setup=":")
    assert done, job.printed
    (step,) = [step for step in ACTION["runs"]["steps"] if step.get("id") == "measure"]
    assert not [text for text in step["env"].values() if "token" in text]


def test_command__tells_the_runner_nothing_by_files(machine: Machine) -> None:
    """A later step would believe such an output, and every later one such a PATH."""
    tells = "import os\nfor name in %s:\n    open(os.environ[name], 'a').write('kept=/x\\n')\n"
    for side in ("base", "head"):
        machine.has(side, tells % (events.FILE_COMMANDS,) + TELLS % 10.0)
    done, job = machine.measures(setup='echo "kept=/y" | tee -a "$GITHUB_ENV" > "$GITHUB_OUTPUT"')
    assert done, job.printed
    assert job.outputs["measure"]["kept"].startswith(str(machine.temporary))
    files = [machine.folder / "runner" / name.lower() for name in events.FILE_COMMANDS]
    assert [file.name for file in files if file.stat().st_size] == []


def test_args__are_words_and_no_script(machine: Machine) -> None:
    """Several lines with quotes are fine; nothing in them is executed or expanded."""
    machine.has("base", TELLS % 10.0)
    done, job = machine.measures(args=f"{FEW}\n--base-env 'A=$(touch ../made)'\n--limit 0.5")
    assert done, job.printed
    assert not list(machine.folder.rglob("made"))
    done, job = machine.measures(args="--limit '0.5")
    assert not done
    assert "::error title=Nothing was measured::args: a quote is not closed" in job.printed


# --- on machines that last ------------------------------------------------------------------------


def test_room__is_made_anew(machine: Machine) -> None:
    """What an earlier run left is gone, and where it is a link its target stays."""
    elsewhere = machine.folder / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "kept").touch()
    (machine.workspace / "base").symlink_to(elsewhere)
    old = machine.workspace / "ci-score-measure" / "training~7"
    old.mkdir(parents=True)
    (old / "measurements.jsonl").write_text("old", encoding="utf-8")
    assert machine.measures()[0]
    assert (elsewhere / "kept").exists()
    assert cases_in(machine) == ["training~1"]


def test_room__that_cannot_be_made_is_said(machine: Machine) -> None:
    """With the folder, and what to do."""
    programs = machine.folder / "programs"
    programs.mkdir()
    for name in ("rm", "sudo"):
        (programs / name).write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
        (programs / name).chmod(0o755)
    before = os.environ["PATH"]
    os.environ["PATH"] = f"{programs}:{before}"
    try:
        done, job = machine.measures()
    finally:
        os.environ["PATH"] = before
    assert not done
    assert "an earlier job left files in head that this user cannot remove" in job.printed
    assert machine.refs == []


def test_git__trusts_both_checkouts_and_keeps_the_user_s_settings(machine: Machine) -> None:
    """In a container they may belong to somebody else."""
    home = machine.folder / "home"
    home.mkdir()
    (home / ".gitconfig").write_text("[user]\n\tname = somebody\n", encoding="utf-8")
    script = (
        "import subprocess\n"
        "def of(key): return subprocess.check_output(['git', 'config', '--global', '--includes',"
        " '--get-all', key], text=True).split()\n"
        "assert of('user.name') == ['somebody']\n"
        f"assert of('safe.directory') == [{str(machine.workspace)!r} + '/head',"
        f" {str(machine.workspace)!r} + '/base']\n"
    )
    machine.has("head", script + TELLS % 10.0)
    before = os.environ["HOME"]
    os.environ["HOME"] = str(home)
    try:
        done, job = machine.measures()
    finally:
        os.environ["HOME"] = before
    assert done, job.printed


# --- the file -------------------------------------------------------------------------------------


def test_action__gives_ab_options_that_it_has() -> None:
    """Each option in the script exists."""
    (step,) = [step for step in ACTION["runs"]["steps"] if step.get("id") == "measure"]
    command = cli.get_command(click.Context(cli), "ab")
    assert command is not None
    known = {name for parameter in command.params for name in parameter.opts}
    words: set[str] = {word for word in step["run"].split() if word.startswith("--") and word[2:]}
    assert words <= known
    assert len(words) >= 7


def test_action__pins_foreign_actions_as_the_examples_do() -> None:
    """By commit, with the release beside it."""
    text = (PROJECT / "measure" / "action.yml").read_text(encoding="utf-8")
    examples = "".join(path.read_text("utf-8") for path in (PROJECT / "examples").glob("*.yml"))
    rows: list[Any] = [row.strip() for row in text.splitlines() if "uses: " in row]
    assert len(rows) == 3
    for row in rows:
        assert f"{row}\n" in examples


def test_action__keeps_no_credentials_in_a_checkout() -> None:
    """The code of a fork's pull request runs there."""
    for step in ACTION["runs"]["steps"]:
        if "checkout" in step.get("uses", ""):
            assert step["with"]["persist-credentials"] is False
