"""The definition and the line that explain a change are named, and no other is."""

from __future__ import annotations

from ci_score.compare.code import code_changes
from ci_score.model.code_changes import CodeChanges, DefinitionChange
from ci_score.model.code_diff import NO_DIFF, CodeDiff
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
    assert one.lines[found.time.line or 0].line == line_of(head, "double()")
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


def test_code_changes__called_more_often() -> None:
    """A function that was not touched is called more often by one that was."""
    head = edited(("loss = model(x).sum()", "loss = model(helper(helper(x))).sum()"))
    base = (*USUAL, At("torch.tanh", 20.0, launches=10, by="train"))
    found = changes_of(head, At("torch.tanh", 60.0, launches=30, by="train"), base=base)
    one = blamed(found)
    assert (one.name, one.touched) == ("helper", False)
    assert found.time
    assert found.time.called_from == 0
    caller = one.callers[0]
    assert (caller.name, caller.touched) == ("train", True)
    assert found.warned == ()


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


def test_code_changes__of_a_renamed_function() -> None:
    """A function with another name and the same body is the one that it was."""
    head = edited(("class Mlp:", "class Feed:"), ("self.up(x)", "self.up(x * 1)"))
    found = changes_of(head, At("self.up(x", 50.0), but=("self.up(x)",))
    one = blamed(found)
    assert (one.name, one.was_name) == ("Feed.forward", "Mlp.forward")
    assert warned_at(found) == [("model.py", line_of(head, "x * 1"))]
