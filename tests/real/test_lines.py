"""Planted slowdowns, with the real torch: the marked launch names the definition and the line.

`CI_SCORE_FRAMEWORKS` names a Python that has torch. Several plants at a time are put into a small
transformer of several files, and its lines are held against those without a plant.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from statistics import mean

import pytest

from ci_score.cli import execute
from ci_score.compare.code import code_changes
from ci_score.measure.launch.hook_records import Recorded, problem_in_words
from ci_score.measure.launch.line_table import read_table
from ci_score.measure.session.step_lines import step_code
from ci_score.measure.sides.definitions import SideFiles
from ci_score.model.step_code import CodeLine, CodeWork, Definition, StepCode
from ci_score.traces import ProfileSource, read_marked, read_profile
from tests.builders.code import diff_of
from tests.builders.hooked import Asked, launch
from tests.real.plants import BEHIND, PLANTS, Plant

PYTHON = Path(os.environ.get("CI_SCORE_FRAMEWORKS", ""))
LINES = Path(__file__).parent / "planted" / "lines"
PACKAGE = Path("src") / "small"
WARMUP = 2
AT_A_TIME = 7
OWNER = {"class": "AdamW", "parameters": 0, "order": 0}
# Files that are called otherwise in head, and functions that moved to another file.
RENAMED = {"losses": "objectives", "updates": "changes"}
MOVED = {"rotated": ("attention", "wrapped"), "even": ("losses", "updates")}

pytestmark = pytest.mark.skipif(
    not PYTHON.is_file(), reason="CI_SCORE_FRAMEWORKS names no Python with torch"
)


@dataclass(frozen=True)
class Head:
    """A head: what is planted, and what beside it is renamed or moved."""

    plants: tuple[Plant, ...]
    renamed: bool = False
    moved: bool = False

    @property
    def how(self) -> str:
        """What beside the plants differs."""
        return ", files renamed" * self.renamed + ", functions moved" * self.moved

    def written(self, side: Path) -> None:
        """The whole checkout."""
        shutil.copytree(LINES, side)
        for plant in self.plants:
            _replace(side / PACKAGE / f"{plant.file}.py", plant.old, plant.new)
        if self.moved:
            for name, (old, new) in MOVED.items():
                _move(side / PACKAGE, name, old, new)
        if self.renamed:
            for old, new in RENAMED.items():
                (side / PACKAGE / f"{old}.py").rename(side / PACKAGE / f"{new}.py")
                _replace(side / "train.py", f"small.{old}", f"small.{new}")


def _replace(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1, old
    path.write_text(text.replace(old, new), encoding="utf-8")


def _move(package: Path, name: str, old: str, new: str) -> None:
    """Moves a function, which is imported from its new place."""
    text = (package / f"{old}.py").read_text(encoding="utf-8")
    head, _, rest = text.partition(f"def {name}(")
    body, _, tail = rest.partition("\n\n\n")
    imported = head.replace("import torch\n", f"import torch\nfrom small.{new} import {name}\n", 1)
    (package / f"{old}.py").write_text(f"{imported}{tail}", encoding="utf-8")
    with (package / f"{new}.py").open("a", encoding="utf-8") as stream:
        stream.write(f"\n\ndef {name}({body}\n")


def heads() -> Iterator[Head]:
    """Each plant twice: in a head like base but for it, and in one with files renamed, or moved."""
    for round_ in range(2):
        for number, plants in enumerate(_groups(PLANTS)):
            yield Head(plants, renamed=round_ == 1 and number % 2 == 0,
                       moved=round_ == 1 and number % 2 == 1)  # fmt: skip


def _groups(plants: Sequence[Plant]) -> list[tuple[Plant, ...]]:
    """A definition has one plant at a time, and so has a line."""
    groups: list[list[Plant]] = []
    for plant in plants:
        fits = (one for one in groups if len(one) < AT_A_TIME and _fits(plant, one))
        group = next(fits, None)
        if group is None:
            groups.append([plant])
        else:
            group.append(plant)
    return [tuple(one) for one in groups]


def _fits(plant: Plant, others: Iterable[Plant]) -> bool:
    return not any(
        {plant.definition, plant.caller} & {one.definition, one.caller} - {""} for one in others
    )


# --- what a launch says ---------------------------------------------------------------------------


def launched(side: Path, folder: Path, mode: str) -> tuple[ProfileSource, Recorded]:
    """The trace of a launch, and its record."""
    asked = Asked(mode, WARMUP, WARMUP, OWNER, tree=side)
    done = launch([PYTHON, "train.py"], folder, asked, cwd=side, imports=[side / "src"])
    recorded = done.said.recorded
    assert recorded, (done.said.problem and problem_in_words(done.said.problem), done.text)
    return ProfileSource("trace.json", path=done.folder / "trace.json"), recorded


def code_of(side: Path, folder: Path) -> StepCode:
    """The lines of a side by its marked launch."""
    trace, recorded = launched(side, folder, "marked")
    assert recorded.first.marks_problem is None
    table = read_table(folder / "records", 0, recorded.first.pid)
    return step_code(read_marked(trace), table, SideFiles.of(side))


def size(work: CodeWork) -> float:
    return work.ms + work.python_ms


@dataclass(frozen=True)
class Found:
    """Where a head takes more time than base, by its definitions and their lines."""

    base: StepCode
    head: StepCode
    base_side: Path
    head_side: Path

    def grown(self) -> list[str]:
        """The definitions by how much more they take, those that grew most first."""
        more = Counter(self._times(self.head))
        more.subtract(self._times(self.base))
        return [name for name, _ in more.most_common()]

    def _times(self, code: StepCode) -> dict[str, float]:
        found: dict[str, float] = {}
        for line in code.lines:
            name = code.definitions[line.definition].name
            found[name] = found.get(name, 0.0) + size(line.work)
        return found

    def line_of(self, name: str) -> CodeLine:
        """The statement of a definition that grew most."""
        own = next(one for one in self.head.definitions if one.name == name)
        before = next((one for one in self.base.definitions if one.name == name), None)
        times = self._lines_of(self.base, name)
        same = self._same_lines(before, own) if before else {}
        more = {
            row.line: size_ - times.get(same.get(row.line or 0, 0), (row, 0.0))[1]
            for row, size_ in self._lines_of(self.head, name).values()
        }
        most = max(more, key=lambda line: more[line])
        return next(row for row, _ in self._lines_of(self.head, name).values() if row.line == most)

    def _lines_of(self, code: StepCode, name: str) -> dict[int, tuple[CodeLine, float]]:
        """The statements of a definition by their first lines, over all callers."""
        found: dict[int, tuple[CodeLine, float]] = {}
        for line in code.lines:
            if code.definitions[line.definition].name == name and line.first:
                row, before = found.get(line.first, (line, 0.0))
                found[line.first] = row, before + size(line.work)
        return found

    def _same_lines(self, base: Definition, head: Definition) -> dict[int, int]:
        """Head's line -> base's, of one definition: a line that was replaced is the same line."""
        texts = [
            (side / (own.file or "")).read_text(encoding="utf-8").split("\n")
            [(own.first or 1) - 1 : own.last]
            for side, own in ((self.base_side, base), (self.head_side, head))
        ]  # fmt: skip
        found = {}
        for tag, low, high, begin, _ in SequenceMatcher(
            a=texts[0], b=texts[1], autojunk=False
        ).get_opcodes():
            if tag in ("equal", "replace"):
                for at in range(high - low):
                    found[begin + at + (head.first or 1)] = low + at + (base.first or 1)
        return found


@dataclass(frozen=True)
class Named:
    """Whether a plant was found where it is."""

    plant: Plant
    kind: str
    definition: bool
    line: bool


def named(found: Found, plants: Sequence[Plant], how: str) -> Iterator[Named]:
    """As many definitions are named as have a plant."""
    grown = found.grown()[: len(plants)]
    for plant in plants:
        is_named = plant.definition in grown
        yield Named(plant, f"{plant.kind}{how}", is_named, is_named and _is_at(found, plant))


def _is_at(found: Found, plant: Plant) -> bool:
    """Whether its line is the planted one; of an untouched definition, whether its caller is."""
    if plant.caller:
        rows = [
            row
            for row in found.head.lines
            if found.head.definitions[row.definition].name == plant.definition
        ]
        most = max(rows, key=lambda row: size(row.work))
        return most.caller is not None and (
            found.head.definitions[most.caller].name == plant.caller
        )
    line = found.line_of(plant.definition)
    file = found.head.definitions[line.definition].file or ""
    text = (found.head_side / file).read_text(encoding="utf-8").split("\n")
    statement = "\n".join(text[(line.first or 1) - 1 : line.last])
    return plant.new.strip() in statement


def warned(found: Found, plants: Sequence[Plant]) -> list[bool]:
    """Of each line that a reviewer is warned of, whether it is a planted one."""
    base, head = (
        {
            path.relative_to(side).as_posix(): path.read_text(encoding="utf-8")
            for path in side.rglob("*.py")
        }
        for side in (found.base_side, found.head_side)
    )
    changes = code_changes(found.head, found.base, diff_of(base, head))
    assert changes
    assert changes.diff == "known"
    lines = [head[one.file].split("\n")[one.line - 1] for one in changes.warned]
    return [any(plant.new.strip() in line for plant in plants) for line in lines]


def rates(all_named: Sequence[Named]) -> tuple[float, float]:
    """Of the plants, how many definitions are right, and how many lines of those with operators."""
    with_lines = [one.line for one in all_named if one.plant.kind != "python"]
    return mean([one.definition for one in all_named]), mean(with_lines or [True])


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, StepCode]:
    """The script without a plant, and its lines."""
    here = tmp_path_factory.mktemp("base")
    Head(()).written(here / "side")
    return here / "side", code_of(here / "side", here / "launch")


def found_in(head: Head, base: tuple[Path, StepCode], here: Path) -> Found:
    """A head with plants beside base."""
    here.mkdir()
    head.written(here / "side")
    return Found(base[1], code_of(here / "side", here / "launch"), base[0], here / "side")


@pytest.mark.once
def test_marks__change_neither_operators_nor_results(
    base: tuple[Path, StepCode], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What they do change, the time of a step, is printed."""
    traces = {mode: launched(base[0], tmp_path / mode, mode) for mode in ("profiled", "marked")}
    without, marked = read_profile(traces["profiled"][0]), read_marked(traces["marked"][0])
    with capsys.disabled():
        print(  # noqa: T201 - what marks cost is asked for
            f"\noperators a step {without.host_ops_per_step:.0f} -> {marked.operators or 0:.0f},"
            f" ms a step {without.own_step_ms:.1f} -> {marked.step_ms:.1f} with marks"
        )
    assert marked.operators == without.host_ops_per_step
    assert base[1].share_without_line < 0.01
    losses = {recorded.first.first_loss for _, recorded in traces.values()}
    assert len(losses - {None}) == 1


def calls_of(code: StepCode) -> Counter[str]:
    """How often each function is called in a step."""
    found: Counter[str] = Counter()
    for line in code.lines:
        found[code.definitions[line.definition].name] += line.work.calls  # type: ignore[assignment]
    return found


@pytest.mark.once
def test_calls__are_those_that_the_program_makes(
    base: tuple[Path, StepCode], tmp_path: Path
) -> None:
    """Of two blocks; a plant of one line calls a function forty times, and nothing else changes."""
    (plant,) = (one for one in PLANTS if one.definition == "rotated" and one.caller)
    found = found_in(Head((plant,)), base, tmp_path / "head")
    before, now = calls_of(found.base), calls_of(found.head)
    assert {name: before[name] for name in ("Model.forward", "Block.forward", "rotated")} == {
        "Model.forward": 1, "Block.forward": 2, "rotated": 4,
    }  # fmt: skip
    # Two norms a block, one around each of two products of it, and the model's own.
    assert before["Norm.forward"] == 2 + 4 + 1
    # What ran already when the marks began is called in no step.
    assert before["train"] == 0
    assert now["rotated"] == 4 + 2 * 39
    assert {name: now[name] for name in before if name != "rotated"} == {
        name: before[name] for name in before if name != "rotated"
    }


def test_lines__of_planted_slowdowns_are_found(
    base: tuple[Path, StepCode], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The right definition in 95 %, the right line in 90 %: several plants at a time."""
    all_named: list[Named] = []
    for number, head in enumerate(heads()):
        found = found_in(head, base, tmp_path / str(number))
        all_named += named(found, head.plants, head.how)
    definitions, lines = rates(all_named)
    with capsys.disabled():
        _print(all_named)
    assert len(all_named) >= 100
    assert definitions >= 0.95
    assert lines >= 0.9


def _print(all_named: Sequence[Named]) -> None:
    kinds = sorted({one.kind for one in all_named})
    print()  # noqa: T201 - the rates are what is asked for
    for kind in [*kinds, ""]:
        own = [one for one in all_named if one.kind.startswith(kind) and kind in ("", one.kind)]
        definitions, lines = rates(own)
        lined = "" if kind.startswith("python") else f", line {lines:.0%}"
        print(f"{kind or 'all'}: {len(own)} plants, definition {definitions:.0%}{lined}")  # noqa: T201
    for one in all_named:
        if not (one.definition and (one.line or one.plant.kind == "python")):
            print(f"  missed: {one.kind} {one.plant.definition}: {one.plant.new!r}")  # noqa: T201


def test_lines__slow_python_behind_the_last_call_counts_for_the_next_mark(
    base: tuple[Path, StepCode], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No mark knows of it: where it lands is printed, and it is not lost."""
    found = found_in(Head(BEHIND), base, tmp_path / "head")
    right = list(named(found, BEHIND, ""))
    with capsys.disabled():
        landed = ", ".join(found.grown()[: len(BEHIND)])
        print(  # noqa: T201 - how often this goes wrong is asked for
            f"\nslow Python behind the last call: {sum(one.definition for one in right)} of"
            f" {len(right)} named; it landed in {landed}"
        )
    before, now = (
        sum(line.work.python_ms for line in code.lines) for code in (found.base, found.head)
    )
    assert now > before


@pytest.mark.once
def test_session__of_a_planted_line_keeps_the_lines_of_both_sides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`ci-score ab` finds the sides to differ, and marks both: the planted line is warned of."""
    (plant,) = (one for one in PLANTS if one.old == "if torch.is_grad_enabled():")
    for side, plants in (("base", ()), ("head", (plant,))):
        Head(plants).written(tmp_path / side)
    (tmp_path / "policy.toml").write_text("schema = 1\n[environment]\nreject = []\n", "utf-8")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.chdir(tmp_path)
    few = ["--steps", "3", "--settle-steps", "10", "--looks", "6", "--config", "policy.toml"]
    sides = ["--base", "base", "--head", "head"]
    assert execute(["ab", *sides, *few, "--", str(PYTHON), "train.py"]) == 0
    said = capsys.readouterr().err
    profiles = [
        read_profile(ProfileSource("profile.json", path=path / "profile.json"))
        for path in (tmp_path / "perf" / "profiles" / side for side in ("base", "head"))
    ]
    base, head = (profile.code for profile in profiles)
    assert base, said
    assert head, said
    found = Found(base, head, tmp_path / "base", tmp_path / "head")
    (right,) = named(found, (plant,), "")
    assert right.definition, found.grown()
    assert right.line
    assert (head.marked_ms or 0) > 0
    assert head.unmarked_ms == pytest.approx(profiles[1].own_step_ms, rel=1e-3)
    # It takes more time, and holds more memory at the peak, too.
    assert set(warned(found, (plant,))) == {True}, found.grown()
