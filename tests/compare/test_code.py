"""The definition and the line that explain a change are named, and no other is."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ci_score.compare.code import code_changes
from ci_score.compare.code_lines import LONGEST_STATEMENT, DiffView, Span
from ci_score.model.code_changes import CodeChanges, DefinitionChange
from ci_score.model.code_diff import NO_DIFF, CodeDiff
from ci_score.model.step_code import CodeLine, CodeWork, Definition, StepCode
from tests.builders.code import At, diff_of, step_code

MODEL = """\
import torch


class Attention:
    def forward(self, x):
        q = self.q(x)
        k = self.k(x)
        scores = torch.softmax(q @ k, -1)
        return self.out(scores)


class Mlp:
    def forward(self, x):
        x = self.up(x)
        x = torch.nn.functional.gelu(x)
        return self.down(x)


def helper(x):
    return torch.tanh(x)


def train(model, x):
    loss = model(x).sum()
    loss.backward()
    return loss
"""
BASE = {"model.py": MODEL}
PARTS = "        q = self.q(x)\n        k = self.k(x)\n"
USUAL = (
    At("self.q(x)", 10.0),
    At("self.k(x)", 10.0),
    At("torch.softmax", 20.0),
    At("self.out(", 10.0),
    At("self.up(x)", 20.0),
    At("gelu(x", 10.0),
    At("self.down(x)", 20.0),
)


def edited(*changes: tuple[str, str]) -> dict[str, str]:
    text = MODEL
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return {"model.py": text}


def with_other(*others: At, but: tuple[str, ...] = ()) -> tuple[At, ...]:
    named = {one.text for one in others} | {*but}
    return (*(one for one in USUAL if one.text not in named), *others)


def changes_of(
    head: dict[str, str],
    *others: At,
    but: tuple[str, ...] = (),
    diff: CodeDiff | None = None,
    base: tuple[At, ...] = USUAL,
) -> CodeChanges:
    now = step_code(head, *with_other(*others, but=but))
    found = code_changes(now, step_code(BASE, *base), diff or diff_of(BASE, head))
    assert found is not None
    return found


def blamed(found: CodeChanges) -> DefinitionChange:
    assert found.time
    return found.definitions[found.time.definition]


def warned_at(found: CodeChanges) -> list[tuple[str, int]]:
    return [(one.file, one.line) for one in found.warned]


def line_of(files: dict[str, str], text: str) -> int:
    lines = files["model.py"].split("\n")
    return next(number for number, line in enumerate(lines, 1) if text in line)


def test_code_changes__warns_at_the_changed_line() -> None:
    """The warning stands on the very line of the diff that takes longer."""
    head = edited(("torch.softmax(q @ k, -1)", "torch.softmax((q @ k).double(), -1)"))
    found = changes_of(head, At("torch.softmax", 50.0))
    one = blamed(found)
    assert (one.name, one.touched) == ("Attention.forward", True)
    assert found.time
    line = one.lines[found.time.line or 0]
    assert (line.base_line, line.line) == (8, line_of(head, "double()"))
    assert warned_at(found) == [("model.py", line_of(head, "double()"))]
    assert found.warned[0].delta_ms == 30.0
    assert found.diff == "known"


def test_code_changes__of_lines_that_moved_down() -> None:
    """Lines below those that are new are the same lines as before."""
    head = edited(("import torch\n", "import torch\nimport math\nimport os\n"))
    found = changes_of(head)
    assert found.definitions == ()
    assert found.time is None
    assert found.warned == ()


def test_code_changes__of_an_untouched_function() -> None:
    """What grew and was not touched is named as that, and nothing is warned."""
    head = edited(("x = torch.nn.functional.gelu(x)", "x = torch.nn.functional.gelu(x + 0)"))
    found = changes_of(head, At("torch.softmax", 60.0))
    one = blamed(found)
    assert (one.name, one.touched) == ("Attention.forward", False)
    assert found.warned == ()


UNTOUCHED = """\
SLOW = False


class Net:
    def __init__(self):
        self.fast = True

    def forward(self, x):
        x = self.part(x)
        return x

    def part(self, x):
        x = self.usual(x) if self.fast else x
        return self.other(x)


def train(net, x):
    loss = net(x)
    return loss
"""
# What is edited, what `part` takes on either side -> the words of why, who calls it, and the place
# that is touched. Without its calls nothing is said of a function.
OTHER: dict[str, tuple[tuple[str, str], dict[str, float], dict[str, float], tuple[Any, ...]]] = {
    "called more often": (
        ("x = self.part(x)", "x = self.part(self.part(x))"),
        {"calls": 4, "launches": 10},
        {"calls": 8, "launches": 20},
        ("calls", "Net.forward", None),
    ),
    "called more often by what was not changed": (
        ("SLOW = False", "SLOW = True"),
        {"calls": 4, "launches": 10},
        {"calls": 8, "launches": 20},
        ("calls", "Net.forward", ("file", "n.py", 1)),
    ),
    "another path, by its class": (
        ("self.fast = True", "self.fast = False"),
        {"calls": 4, "launches": 10},
        {"calls": 4, "launches": 20},
        ("path", None, ("outer", "n.py", 6)),
    ),
    "another path, by its module": (
        ("SLOW = False", "SLOW = True"),
        {"calls": 4, "launches": 10},
        {"calls": 4, "launches": 20},
        ("path", None, ("file", "n.py", 1)),
    ),
    "another path, by another file": (
        ("", ""),
        {"calls": 4, "launches": 10},
        {"calls": 4, "launches": 20},
        ("path", None, ("diff", "config.py", 1)),
    ),
    "another path, by its caller": (
        ("x = self.part(x)", "x = self.part(x.T)"),
        {"calls": 4, "launches": 10},
        {"calls": 4, "launches": 20},
        ("path", "Net.forward", None),
    ),
    "other work in the same lines": (
        ("SLOW = False", "SLOW = True"),
        {"calls": 4, "launches": 10},
        {"calls": 4, "launches": 20},
        ("work", None, ("file", "n.py", 1)),
    ),
    "more of a backward pass": (
        ("SLOW = False", "SLOW = True"),
        {"calls": 4, "launches": 10, "backward": 10},
        {"calls": 4, "launches": 10, "backward": 20},
        ("backward", None, ("file", "n.py", 1)),
    ),
    "other launches, of calls that nobody counted": (
        ("self.fast = True", "self.fast = False"),
        {"launches": 10},
        {"launches": 20},
        (None, None, None),
    ),
    "nothing else": (
        ("self.fast = True", "self.fast = False"),
        {"calls": 4, "launches": 10},
        {"calls": 4, "launches": 10},
        (None, None, None),
    ),
}


@pytest.mark.parametrize("case", OTHER)
@pytest.mark.parametrize("slower", [True, False], ids=["slower", "faster"])
def test_code_changes__why_an_untouched_function_takes_another_time(
    case: str, slower: bool
) -> None:
    """It is called as often or not, and takes another path or not; what is touched is near."""
    (old, new), before, now, expected = OTHER[case]
    files: list[dict[str, str]] = [
        {"n.py": text, "config.py": f"FAST = {at}\n" if case.endswith("another file") else ""}
        for at, text in enumerate((UNTOUCHED, UNTOUCHED.replace(old, new, 1) if old else UNTOUCHED))
    ]
    works: list[dict[str, Any]] = [{"ms": 20.0, **before}, {"ms": 60.0, **now}]
    if not slower:
        files.reverse()
        works.reverse()
    paths = [(), (At("self.usual(", 5.0, launches=now["launches"] - before["launches"]),)]
    also = paths if "path" in case and slower else paths[::-1] if "path" in case else [(), ()]
    sides = [
        step_code(
            each, At("self.other(", by="Net.forward", **work), At("loss = net(x)", 50.0), *more
        )
        for each, work, more in zip(files, works, also, strict=True)
    ]
    found = code_changes(sides[1], sides[0], diff_of(*files))
    assert found
    assert found.time
    one = blamed(found)
    assert (one.name, one.touched) == ("Net.part", False)
    caller = None if found.time.called_from is None else one.callers[found.time.called_from].name
    near = found.time.near
    place = (near.within, near.file, near.line) if near else None
    assert (found.time.by, caller, place) == expected
    assert found.warned == ()


def test_code_changes__of_a_function_that_nobody_called_before() -> None:
    """It was there, so it is not new: its caller is named."""
    head = edited(("loss = model(x).sum()", "loss = model(helper(x)).sum()"))
    found = changes_of(head, At("torch.tanh", 60.0, by="train", calls=2))
    one = blamed(found)
    assert (one.name, one.status, one.touched) == ("helper", "new", False)
    assert found.time
    assert found.time.by == "calls"
    assert one.callers[found.time.called_from or 0].name == "train"


@pytest.mark.parametrize(
    ("head_ms", "shown"),
    [
        # helper, Attention and train, which do the same work in both.
        ((20.0, 50.0, 30.0), ["Mlp.forward", "helper"]),
        ((20.0, 50.0, 17.0), ["Mlp.forward"]),
        ((9.9, 50.0, 30.0), ["Mlp.forward"]),
        ((16.0, 100.0, 60.0), ["Mlp.forward"]),
        ((60.0, 100.0, 60.0), ["Mlp.forward", "helper"]),
    ],
    ids=["alone", "as much less elsewhere", "a little", "a busy machine", "alone on a busy one"],
)
def test_code_changes__of_the_same_work_may_be_noise(
    head_ms: tuple[float, float, float], shown: list[str]
) -> None:
    """A function that differs no more than others do is not among those whose time changed."""
    head = edited(("self.up(x)", "self.up(x.double())"))
    texts = ("torch.tanh", "torch.softmax", "loss.backward")
    same = [
        tuple(At(text, ms) for text, ms in zip(texts, times, strict=True))
        for times in ((8.0, 50.0, 30.0), head_ms)
    ]
    found = code_changes(
        step_code(head, At("self.up(", 150.0, launches=12), *same[1]),
        step_code(BASE, At("self.up(", 50.0), *same[0]),
        diff_of(BASE, head),
    )
    assert found
    assert [one.name for one in found.definitions] == shown
    assert found.left_out == 0


@pytest.mark.parametrize(("step", "shown"), [((100.0, 140.0), 2), ((100.0, 101.0), 1)])
def test_code_changes__of_the_same_work_in_a_disturbed_launch_is_noise(
    step: tuple[float, float], shown: int
) -> None:
    """All launches without marks hardly differ: what took longer in the one with marks is noise."""
    head = edited(("self.up(x)", "self.up(x.double())"))
    found = code_changes(
        step_code(head, At("self.up(", 55.0, launches=12), At("torch.softmax", 85.0)),
        step_code(BASE, At("self.up(", 50.0), At("torch.softmax", 50.0)),
        diff_of(BASE, head),
        step,
    )
    assert found
    assert len(found.definitions) == shown
    assert found.definitions[0].name == "Mlp.forward"


def test_code_changes__of_the_same_work_is_not_to_blame_beside_more_work() -> None:
    """However much longer it takes in one launch: a function that does more is the change."""
    head = edited(("self.up(x)", "self.up(x.double())"))
    same = At("torch.softmax", 20.0), At("torch.softmax", 60.0)
    for launches, name in ((12, None), (10, "Attention.forward")):
        text = head if launches == 12 else BASE
        up = At("self.up(", 30.0, launches=launches)
        found = code_changes(
            step_code(text, up, same[1]),
            step_code(BASE, At("self.up(", 20.0), same[0]),
            diff_of(BASE, text),
        )
        assert found
        assert (blamed(found).name if found.time else None) == name


def test_code_changes__of_the_same_work_has_its_memory() -> None:
    """That its time is noise is marked; a record has it for what it allocated."""
    head = edited(("self.up(x)", "self.up(x.double())"))
    base = with_other(At("torch.softmax", 20.0, peak=10**6))
    more = At("torch.softmax", 21.0, peak=9 * 10**6), At("self.up(", 50.0)
    found = changes_of(head, *more, but=("self.up(x)",), base=base)
    assert blamed(found).name == "Mlp.forward"
    one = next(row for row in found.definitions if row.name == "Attention.forward")
    assert (one.delta_bytes, one.is_noise) == (8 * 10**6, True)
    assert found.memory
    assert found.definitions[found.memory.definition] is one


def test_code_changes__of_another_state_of_the_files() -> None:
    """A diff whose text is not that of the measured files touches nothing."""
    head = edited(("torch.softmax(q @ k, -1)", "torch.softmax((q @ k).double(), -1)"))
    other = edited(("torch.softmax(q @ k, -1)", "torch.softmax((q @ k).half(), -1)"))
    found = changes_of(head, At("torch.softmax", 50.0), diff=diff_of(BASE, other))
    one = blamed(found)
    assert one.touched is None
    assert found.diff == "other commit"
    assert found.warned == ()


def test_code_changes__without_a_diff() -> None:
    """Without a diff the function is known, and not whether it was touched."""
    head = edited(("torch.softmax(q @ k, -1)", "torch.softmax((q @ k).double(), -1)"))
    found = changes_of(head, At("torch.softmax", 50.0), diff=NO_DIFF)
    one = blamed(found)
    assert (one.name, one.touched) == ("Attention.forward", None)
    assert (found.diff, found.warned) == ("not asked", ())


def test_code_changes__of_a_renamed_file() -> None:
    """A renamed file's functions are those that they were."""
    head = {"src/net.py": MODEL.replace("q @ k, -1", "q @ k + 0, -1")}
    now = step_code(head, *with_other(At("torch.softmax", 50.0)))
    diff = diff_of(BASE, head, {"model.py": "src/net.py"})
    found = code_changes(now, step_code(BASE, *USUAL), diff)
    assert found
    one = blamed(found)
    assert (one.file, one.was_file, one.status) == ("src/net.py", "model.py", "changed")
    assert warned_at(found) == [("src/net.py", 8)]


def test_code_changes__of_a_moved_function() -> None:
    """A function that stands in another file now is the one that it was."""
    body = MODEL[MODEL.index("class Mlp") : MODEL.index("def helper")]
    head = {"model.py": MODEL.replace(body, ""), "mlp.py": "import torch\n\n\n" + body}
    now = step_code(head, *with_other(At("gelu(x", 40.0)))
    found = code_changes(now, step_code(BASE, *USUAL), diff_of(BASE, head))
    assert found
    one = blamed(found)
    assert (one.name, one.file, one.was_file) == ("Mlp.forward", "mlp.py", "model.py")
    assert one.delta_ms == 30.0
    # Its line is new to the diff, and still the line that it was.
    assert found.warned == ()


@pytest.mark.parametrize(
    ("old", "new", "name"),
    [
        ("self.up(x)", "self.up(x * 1)", "Mlp.forward"),
        ("class Mlp:", "class Feed:", "Feed.forward"),
    ],
)
def test_code_changes__of_a_moved_function_that_was_changed(old: str, new: str, name: str) -> None:
    """It is known by its name, else by its body."""
    body = MODEL[MODEL.index("class Mlp") : MODEL.index("def helper")]
    head = {"model.py": MODEL.replace(body, ""), "mlp.py": "import torch\n\n\n" + body}
    head["mlp.py"] = head["mlp.py"].replace(old, new)
    lines = with_other(At("self.up(", 20.0), At("gelu(x", 40.0), but=("self.up(x)",))
    found = code_changes(step_code(head, *lines), step_code(BASE, *USUAL), diff_of(BASE, head))
    assert found
    one = blamed(found)
    assert (one.name, one.was_file, one.status) == (name, "model.py", "changed")
    assert one.delta_ms == 30.0


def test_code_changes__of_a_renamed_function() -> None:
    """A function with another name and the same body is the one that it was."""
    head = edited(("class Mlp:", "class Feed:"), ("self.up(x)", "self.up(x * 1)"))
    found = changes_of(head, At("self.up(x", 50.0), but=("self.up(x)",))
    one = blamed(found)
    assert (one.name, one.was_name) == ("Feed.forward", "Mlp.forward")
    assert warned_at(found) == [("model.py", line_of(head, "x * 1"))]


# --- no wrong line --------------------------------------------------------------------------------


def test_code_changes__of_a_statement_that_moved_within_its_function() -> None:
    """A statement that only stands elsewhere is not the change, however long it takes now."""
    head = edited(
        ("        q = self.q(x)\n", ""),
        ("k = self.k(x)\n", "k = self.k(x)\n        q = self.q(x)\n"),
    )
    found = changes_of(head, At("self.q(x)", 40.0))
    assert blamed(found).name == "Attention.forward"
    assert found.warned == ()


def test_code_changes__of_a_statement_that_now_stands_in_a_loop() -> None:
    """One that is only indented anew is the change where it runs more often."""
    head = edited(("    q = self.q(x)\n", "    for _ in range(4):\n            q = self.q(x)\n"))
    same = changes_of(head, At("self.q(x)", 40.0, launches=10))
    assert same.warned == ()
    more = changes_of(head, At("self.q(x)", 40.0, launches=40))
    assert warned_at(more) == [("model.py", line_of(head, "    q = self.q(x)"))]


def test_code_changes__of_blanks_behind_a_line() -> None:
    """Blanks at the end of a line change nothing, also of a digest."""
    head = edited(("q = self.q(x)\n", "q = self.q(x)  \n"))
    found = changes_of(head, At("self.q(x)", 40.0))
    assert found.diff == "known"
    assert found.warned == ()


def test_code_changes__of_a_line_that_is_gone() -> None:
    """Where the change only takes a line away, the function is named and no line."""
    head = edited(("        x = torch.nn.functional.gelu(x)\n", ""))
    found = changes_of(head, At("self.down(x)", 60.0), but=("gelu(x",))
    one = blamed(found)
    assert (one.name, one.touched) == ("Mlp.forward", True)
    assert found.warned == ()


def test_code_changes__of_two_statements_on_one_line() -> None:
    """They are one line, which is warned of once."""
    head = edited(
        ("        q = self.q(x)\n", ""), ("k = self.k(x)", "k = self.k(x); q = self.q(x * 1)")
    )
    lines = At("k = self.k(x)", 40.0, by="train"), At("q = self.q(x * 1)", 20.0)
    found = changes_of(head, *lines, but=("self.q(x)", "self.k(x)"))
    assert warned_at(found) == [("model.py", line_of(head, "self.k(x)"))]
    assert found.warned[0].delta_ms == 40.0


def test_code_changes__of_a_line_that_several_callers_reach() -> None:
    """Its callers' work is one sum, and each caller is a row."""
    head = edited(("torch.tanh(x)", "torch.tanh(x.double())"))
    base = (
        *USUAL,
        At("torch.tanh", 5.0, by="Mlp.forward"),
        At("torch.tanh", 5.0, by="Attention.forward"),
    )
    slow = (
        At("torch.tanh", 25.0, by="Mlp.forward"),
        At("torch.tanh", 15.0, by="Attention.forward"),
    )
    found = changes_of(head, *slow, base=base)
    assert warned_at(found) == [("model.py", line_of(head, "torch.tanh"))]
    callers = {one.name: one.head.ms - one.base.ms for one in blamed(found).callers}
    assert callers == {"Mlp.forward": 20.0, "Attention.forward": 10.0}


def test_code_changes__of_compiled_code() -> None:
    """The calling line stands for all of it, and is warned of only where it was changed itself."""
    base = (At("loss = model(x)", 50.0, compiled=True), At("loss.backward()", 50.0))
    inner = edited(("self.up(x)", "self.up(x + 1)"))
    slow = At("loss = model(", 90.0, compiled=True), At("loss.backward()", 50.0)
    others = tuple(one.text for one in USUAL)
    found = changes_of(inner, *slow, but=others, base=base)
    assert blamed(found).name == "train"
    assert found.warned == ()
    call = edited(("model(x).sum()", "model(x + 1).sum()"))
    found = changes_of(call, *slow, but=others, base=base)
    assert warned_at(found) == [("model.py", line_of(call, "x + 1"))]


SLOWER = edited(("torch.softmax(q @ k, -1)", "torch.softmax((q @ k).double(), -1)"))
SLOW = with_other(At("torch.softmax", 50.0))


@pytest.mark.parametrize("side", ["head", "base"])
def test_code_changes__where_much_work_has_no_line(side: str) -> None:
    """Above a fifth of the work without a line, of either side, no line is said."""
    total = sum(one.ms for one in SLOW)
    sides = {
        name: step_code(
            files,
            *lines,
            **({"total_ms": 1.4 * total, "without_line_ms": 0.4 * total} if name == side else {}),
        )
        for name, files, lines in (("head", SLOWER, SLOW), ("base", BASE, USUAL))
    }
    found = code_changes(sides["head"], sides["base"], diff_of(BASE, SLOWER))
    assert found
    assert found.warned == ()
    assert found.time is None or found.time.line is None


@pytest.mark.parametrize("way", ["stacks", "source fields"])
def test_code_changes__of_a_trace_s_own_stacks(way: str) -> None:
    """Stacks name the function, source fields a line, and neither is a warning's."""
    head, base = step_code(SLOWER, *SLOW), step_code(BASE, *USUAL)
    found = code_changes(head.but(found_by=way), base.but(found_by=way), diff_of(BASE, SLOWER))
    assert found
    assert blamed(found).name == "Attention.forward"
    assert found.time
    assert (found.time.line is None) == (way == "stacks")
    assert found.warned == ()
    assert code_changes(head.but(found_by=way), base, diff_of(BASE, SLOWER)) is None


def test_code_changes__of_a_machine_that_is_slower() -> None:
    """What takes longer with all else explains nothing, though it was changed."""
    slow = tuple(At(one.text, 1.2 * one.ms) for one in USUAL if one.text != "torch.softmax")
    lines = *slow, At("torch.softmax", 66.0)
    base = with_other(At("torch.softmax", 55.0))
    head = step_code(SLOWER, *lines)
    found = code_changes(head, step_code(BASE, *base), diff_of(BASE, SLOWER))
    assert found
    assert found.time is None
    assert found.warned == ()


def test_code_changes__of_larger_inputs_from_a_changed_caller() -> None:
    """A line that was touched up, in a function that takes longer as a whole, is not the change."""
    head = edited(
        ("model(x).sum()", "model(x.repeat(2, 1)).sum()"),
        ("x = self.up(x)", "x = self.up(x)  # wide"),
    )
    slow = At("self.up(x)", 120.0), At("gelu(x", 20.0), At("self.down(x)", 40.0)
    found = changes_of(head, *slow, base=with_other(At("self.up(x)", 60.0)))
    assert found.warned == ()


def test_code_changes__of_a_function_of_one_line_that_is_called_more_often() -> None:
    """Where nothing else is known of a function, a changed caller may be why it takes longer."""
    head = edited(
        ("return torch.tanh(x)", "return torch.tanh(x)  # cheap"),
        ("model(x).sum()", "model(helper(helper(x))).sum()"),
    )
    base = (*USUAL, At("torch.tanh", 20.0, launches=10, by="train"), At("loss.backward", 1.0))
    slow = At("torch.tanh", 60.0, launches=30, by="train"), At("loss.backward", 1.0)
    found = changes_of(head, *slow, base=base)
    assert blamed(found).name == "helper"
    assert found.warned == ()


def test_code_changes__of_a_function_that_took_over_rewritten_statements() -> None:
    """A new function may do what another did: what that has lost is no growth."""
    head = edited(
        (PARTS, "        q, k = self.both(x)\n"),
        (
            "class Mlp:",
            "    def both(self, x):\n        return self.qk(x).chunk(2)\n\n\nclass Mlp:",
        ),
    )
    slow = At("self.qk(x)", 20.0), At("gelu(x", 33.0)
    found = changes_of(head, *slow, but=("self.q(x)", "self.k(x)"))
    assert blamed(found).name == "Mlp.forward"
    assert found.warned == ()


def test_code_changes__of_a_statement_that_calls_compiled_code_on_a_line_of_its_own() -> None:
    """A changed argument is no change of the call."""
    text = "def train(model, x):\n    return (\n        model(x),\n        1,\n    )\n"
    base, head = {"t.py": text}, {"t.py": text.replace("        1,", "        2,")}
    now, before = (
        step_code(files, At("model(x),", ms, compiled=True))
        for files, ms in ((head, 50.0), (base, 20.0))
    )
    found = code_changes(now, before, diff_of(base, head))
    assert found
    assert blamed(found).touched is True
    assert found.warned == ()


def test_code_changes__of_lines_that_moved_where_no_diff_is_known() -> None:
    """Without a diff a statement is known by its text."""
    head = edited(("import torch\n", "import torch\nimport math\nimport os\n"))
    assert changes_of(head, diff=NO_DIFF).definitions == ()
    found = changes_of(head, At("torch.softmax", 50.0), diff=NO_DIFF)
    assert [(one.base_line, one.line) for one in blamed(found).lines] == [(8, 10)]


def test_code_changes__of_one_statement_made_three() -> None:
    """Each of the new lines may do the work of the one that is gone."""
    head = edited(
        (
            "        scores = torch.softmax(q @ k, -1)\n",
            "        a = q @ k\n        b = a.exp()\n        scores = b / b.sum()\n",
        )
    )
    new = At("a = q @ k", 10.0), At("b = a.exp()", 10.0), At("scores = b", 10.0)
    found = changes_of(head, *new, but=("torch.softmax",))
    one = blamed(found)
    assert (one.name, one.delta_ms) == ("Attention.forward", 10.0)
    assert found.warned == ()


def test_code_changes__of_statements_put_into_a_function_of_their_own() -> None:
    """What only stands in another function now is no growth of that function."""
    head = edited(
        (
            PARTS,
            "        q, k = self.both(x)\n",
        ),
        (
            "class Mlp:",
            f"    def both(self, x):\n{PARTS}        return q, k\n\n\nclass Mlp:",
        ),
        ("self.down(x)", "self.down(x * 1)"),
    )
    found = changes_of(head, At("self.down(x", 30.0), but=("self.down(x)",))
    assert blamed(found).name == "Mlp.forward"
    assert warned_at(found) == [("model.py", line_of(head, "x * 1"))]
    assert all("both" not in one.name for one in found.definitions)


def test_code_changes__of_a_long_statement() -> None:
    """One changed line within many: the warning stands on that line."""
    rows = "".join(f"            {number},\n" for number in range(12))
    text = f"import torch\n\n\ndef f(x):\n    y = x + 1\n    return call(\n{rows}        x)\n"
    base, head = {"f.py": text}, {"f.py": text.replace("            1,\n", "            1 + x,\n")}
    now, before = (
        step_code(files, At("return call(", ms), At("y = x", 100.0))
        for files, ms in ((head, 50.0), (base, 20.0))
    )
    found = code_changes(now, before, diff_of(base, head))
    assert found
    assert warned_at(found) == [("f.py", 8)]
    # Where the diff has no whole statement beside it, nobody knows that the lines are these.
    head = {"f.py": text.replace("            9,\n", "            9 + x,\n")}
    now = step_code(head, At("return call(", 50.0), At("y = x", 100.0))
    found = code_changes(now, before, diff_of(base, head))
    assert found
    assert blamed(found).touched is True
    assert found.warned == ()


def test_code_changes__of_a_line_of_megabytes_is_not_held_against_the_diff() -> None:
    """A record with hundreds of statements around one such line would cost gigabytes."""
    text = "import torch\n\n\ndef f(x):\n    y = x + 1\n    return call(x)\n"
    long = text.replace("call(x)", f"call(x, '{'a' * LONGEST_STATEMENT}')")
    base, head = {"f.py": text}, {"f.py": long}
    now, before = (
        step_code(files, At("return call(", ms), At("y = x", 100.0))
        for files, ms in ((head, 50.0), (base, 20.0))
    )
    lines = DiffView.of(diff_of(base, head)).by_head["f.py"]
    assert lines.head_text(Span(6, 6)) is None
    assert lines.head_text(Span(5, 5)) == ("    y = x + 1",)
    assert code_changes(now, before, diff_of(base, head)) is not None


def test_code_changes__of_definitions_one_in_another() -> None:
    """A function is touched by what lies in none of those within it, in whatever order they are."""
    spans = [("f", 1, 40), ("f.a", 5, 20), ("f.b", 8, 12), ("f.c", 15, 30)]
    definitions = tuple(
        Definition(name=name, file="model.py", first=first, last=last)
        for name, first, last in spans
    )
    text = [f"x{line} = {line}" for line in range(1, 41)]

    def touched(line: int) -> dict[str, bool | None]:
        new = [*text[: line - 1], "y = 0", *text[line:]]
        diff = diff_of({"model.py": "\n".join(text)}, {"model.py": "\n".join(new)})
        more = CodeWork(forward_ms=9, forward_launches=1)
        rows = tuple(CodeLine(definition=row, work=more) for row in range(4))
        codes = (
            StepCode(definitions=definitions, lines=rows, total_ms=36),
            StepCode(
                definitions=definitions,
                lines=tuple(row.but(work=CodeWork(forward_ms=1)) for row in rows),
                total_ms=4,
            ),
        )
        found = code_changes(*codes, diff)
        assert found
        return {one.name: one.touched for one in found.definitions}

    def only(*names: str) -> dict[str, bool | None]:
        return {name: name in names for name, _, _ in spans}

    assert touched(2) == only("f")
    assert touched(5) == only("f.a")
    assert touched(10) == only("f.b")
    assert touched(14) == only("f.a")
    assert touched(18) == only("f.a", "f.c")
    assert touched(25) == only("f.c")
    assert touched(30) == only("f.c")
    assert touched(31) == only("f")
    assert touched(40) == only("f")


def test_code_changes__of_a_merge_that_moved_the_lines() -> None:
    """The measured commit has lines that the diff's head lacks: their numbers say nothing."""
    merged = {"model.py": SLOWER["model.py"].replace("import torch\n", "import torch\n\n\n")}
    head = step_code(merged, *SLOW)
    found = code_changes(head, step_code(BASE, *USUAL), diff_of(BASE, SLOWER))
    assert found
    assert blamed(found).touched is None
    assert found.warned == ()


def test_code_changes__that_got_faster() -> None:
    """Of a gain the function is named, and nothing is warned of."""
    found = code_changes(
        step_code(SLOWER, *with_other(At("torch.softmax", 5.0))),
        step_code(BASE, *USUAL),
        diff_of(BASE, SLOWER),
    )
    assert found
    assert blamed(found).delta_ms == -15.0
    assert found.warned == ()


def test_code_changes__of_memory() -> None:
    """The line whose memory grew the peak is warned of with its bytes."""
    base = (*(At(one.text, one.ms, peak=10**6) for one in USUAL),)
    head = (*(one for one in base if one.text != "torch.softmax"),)
    slow = *head, At("torch.softmax", 20.0, peak=9 * 10**6)
    found = code_changes(step_code(SLOWER, *slow), step_code(BASE, *base), diff_of(BASE, SLOWER))
    assert found
    assert found.time is None
    assert found.memory
    assert found.definitions[found.memory.definition].delta_bytes == 8 * 10**6
    assert [(one.delta_ms, one.delta_bytes) for one in found.warned] == [(0.0, 8 * 10**6)]


def test_code_changes__warns_of_three_lines_at_most() -> None:
    """Two lines each have half of the time, and two half of the memory: the last one stays out."""
    head = edited(
        *((one, f"{one} * 1") for one in ("self.q(x)", "self.k(x)")),
        ("torch.softmax(q", "torch.softmax(2 * q"),
        ("self.out(sc", "self.out(2 * sc"),
    )
    base = tuple(At(one.text, one.ms, peak=10**6) for one in USUAL)
    slow = (
        At("self.q(x)", 30.0, peak=10**6),
        At("self.k(x)", 30.0, peak=10**6),
        At("torch.softmax", 20.0, peak=9 * 10**6),
        At("self.out(", 10.0, peak=9 * 10**6),
    )
    rest = (one for one in base if not one.text.startswith(("self.q", "self.k", "torch", "self.o")))
    found = code_changes(step_code(head, *rest, *slow), step_code(BASE, *base), diff_of(BASE, head))
    assert found
    assert [one.delta_bytes > 0 for one in found.warned] == [False, True, False]


def test_code_changes__of_python_between_operators() -> None:
    """Slow Python is in the function whose operators come next, and in no line."""
    head = edited(("self.up(x)", "self.up(slow(x))"))
    found = changes_of(head, At("self.up(", 20.0, python_ms=50.0), but=("self.up(x)",))
    assert blamed(found).name == "Mlp.forward"
    assert found.warned == ()


@pytest.mark.parametrize("step", [(100.0, 100.1), (100.0, 80.0), (100.0, 300.0)])
def test_code_changes__of_a_step_that_changed_otherwise(step: tuple[float, float]) -> None:
    """A line explains a step's change only where that is of its size and its direction."""
    found = code_changes(
        step_code(SLOWER, *SLOW), step_code(BASE, *USUAL), diff_of(BASE, SLOWER), step
    )
    assert found
    assert found.time is None
    assert found.warned == ()


@pytest.mark.parametrize("state", ["not asked", "too large", "not found"])
def test_code_changes__without_its_diff(state: Any) -> None:
    """Why there is none is said, and no line is warned of."""
    diff = CodeDiff(state, diff_of(BASE, SLOWER).files)
    found = code_changes(step_code(SLOWER, *SLOW), step_code(BASE, *USUAL), diff)
    assert found
    assert (found.diff, found.warned) == (state, ())
    assert {one.touched for one in found.definitions} == {None}


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "../model.py", "src/../../x.py", "a\nb.py", ".git/config", "C:\\x.py"]
)
def test_code_changes__paths_that_leave_the_repository(path: str) -> None:
    """Such a file has no place in what is shown: its functions have a name alone."""
    head, base = ({path: files["model.py"]} for files in (SLOWER, BASE))
    found = code_changes(step_code(head, *SLOW), step_code(base, *USUAL), diff_of(BASE, SLOWER))
    assert found
    assert {one.file for one in found.definitions} == {None}
    assert path not in found.model_dump_json()
    assert found.warned == ()


def test_code_changes__of_a_decorator() -> None:
    """A line above the function's own is part of it."""
    head = edited(("def helper(x):", "@traced\ndef helper(x):"))
    base = (*USUAL, At("torch.tanh", 20.0))
    found = changes_of(head, At("torch.tanh", 60.0), base=base)
    assert (blamed(found).name, blamed(found).touched) == ("helper", True)
    assert found.warned == ()


def test_code_changes__of_another_function_of_a_script() -> None:
    """What runs on its own is not touched by a change of a function that no step runs."""
    script = "def unused():\n    return 1\n\n\nmodel = build()\nfor x in data:\n    model(x)\n"
    base, head = {"s.py": script}, {"s.py": script.replace("return 1", "return 2")}
    now, before = (
        step_code(files, At("    model(x)", ms)) for files, ms in ((head, 50.0), (base, 20.0))
    )
    found = code_changes(now, before, diff_of(base, head))
    assert found
    assert (blamed(found).name, blamed(found).touched) == ("<module>", False)


def test_code_changes__of_many_callees_of_one_caller() -> None:
    """Where no callee is half of it, the changed function that calls them more often is."""
    names = [f"part{number}" for number in range(4)]
    parts = "".join(f"def {name}(x):\n    return {name}_op(x)\n\n\n" for name in names)
    text = f"{parts}def run(x):\n    for _ in range(1):\n        x = all_parts(x)\n    return x\n"
    base, head = {"p.py": text}, {"p.py": text.replace("range(1)", "range(3)")}
    now, before = (
        step_code(
            files,
            *(At(f"{name}_op(", 10.0 * times, launches=times, by="run") for name in names),
            At("all_parts(", 60.0),
        )
        for files, times in ((head, 3), (base, 1))
    )
    found = code_changes(now, before, diff_of(base, head))
    assert found
    assert (blamed(found).name, blamed(found).touched) == ("run", True)


# --- files of a trace -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "tracked", "shown"),
    [
        ("/home/octocat/train/src/model.py", {"src/model.py", "src/other.py"}, "src/model.py"),
        ("model.py", {"src/model.py"}, "src/model.py"),
        ("./src/model.py", {"src/model.py"}, "src/model.py"),
        ("model.py", {"src/model.py", "old/model.py"}, None),
        ("/x/src/model.py", {"src/model.py", "model.py"}, None),
        ("/venv/lib/site-packages/src/model.py", {"src/model.py"}, None),
        ("/x/../src/model.py", {"src/model.py"}, None),
        ("/x/mymodel.py", {"model.py"}, None),
        ("", {"model.py"}, None),
    ],
)
def test_code_changes__of_a_trace_s_paths(path: str, tracked: set[str], shown: str | None) -> None:
    """A path that ends like one file of the repository alone is that file."""
    definition = Definition(name="forward", file=path or "x", first=1)
    head, base = (
        StepCode(
            found_by="stacks",
            paths="trace",
            definitions=(definition,),
            lines=(CodeLine(definition=0, work=CodeWork(forward_ms=ms)),),
            total_ms=ms,
        )
        for ms in (30.0, 10.0)
    )
    found = code_changes(head, base, CodeDiff(tracked=frozenset(tracked)))
    assert found
    assert [(one.name, one.file) for one in found.definitions] == [("forward", shown)]


# --- whatever comes -------------------------------------------------------------------------------

NUMBERS = st.integers(1, 40)
WORKS = st.builds(
    CodeWork,
    forward_ms=st.floats(0, 50),
    python_ms=st.floats(0, 5),
    forward_launches=st.floats(0, 20),
    peak_bytes=st.integers(0, 10**6),
)
DEFINITIONS = st.builds(
    Definition,
    name=st.sampled_from(["f", "g", "A.f", "<module>", ""]),
    file=st.sampled_from(["model.py", "b.py", "../c.py", None]),
    first=NUMBERS | st.none(),
    last=NUMBERS | st.none(),
)
CODE_LINES = st.builds(
    CodeLine,
    definition=st.integers(0, 2),
    line=NUMBERS | st.none(),
    first=NUMBERS | st.none(),
    last=NUMBERS | st.none(),
    text=st.sampled_from(["00000000", "11111111"]) | st.none(),
    caller=st.integers(0, 2) | st.none(),
    is_compiled=st.booleans(),
    work=WORKS,
)
CODES = st.builds(
    StepCode,
    definitions=st.tuples(DEFINITIONS, DEFINITIONS, DEFINITIONS),
    lines=st.lists(CODE_LINES, max_size=12).map(tuple),
    total_ms=st.floats(0, 500),
    without_line_ms=st.floats(0, 50),
    peak_bytes=st.integers(0, 10**7),
)


@settings(deadline=None)
@given(head=CODES, base=CODES)
def test_code_changes__whatever_a_launch_tells(head: StepCode, base: StepCode) -> None:
    """Lines that lie are matched with something or nothing, and never warned of."""
    found = code_changes(head, base, diff_of(BASE, SLOWER))
    if found is not None:
        assert found.warned == ()
        assert CodeChanges.model_validate_json(found.model_dump_json()) == found
        assert not {one.file for one in found.definitions} - {"model.py", "b.py", None}


def test_code_changes__of_as_many_bytes_as_a_number_may_hold() -> None:
    """A record may tell them of every line, and their sum is no larger number."""
    most = 2**64 - 1
    usual = tuple(At(one.text, one.ms, peak=most) for one in USUAL)
    head = step_code(SLOWER, *usual, peak_bytes=most)
    found = code_changes(head, step_code(BASE, *USUAL), diff_of(BASE, SLOWER))
    assert found
    assert {one.head.peak_bytes for one in found.definitions} == {most}
