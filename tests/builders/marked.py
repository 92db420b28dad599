"""Which line each operator of a trace with marks belongs to: a second reader, for tests alone."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PREFIX = "ci_score.line#"
NODE = "autograd::engine::evaluate_function: "


@dataclass(frozen=True)
class Operator:
    """An operator that no other encloses, or one in them; `row` is the mark's, if it has one."""

    name: str
    sizes: frozenset[int]
    row: int | None
    in_backward: bool
    ranges: tuple[str, ...]
    is_outermost: bool


@dataclass(frozen=True)
class Marked:
    """The table of a launch, and what its trace says of each operator."""

    rows: dict[int, dict[str, Any]]
    operators: list[Operator]
    marks: list[int]
    notebooks: dict[str, str]

    def line_of(self, operator: Operator) -> tuple[str, int] | None:
        """The file's name and the line; None where there is none."""
        row = self.rows.get(operator.row or 0)
        return None if row is None or row["file"] is None else (Path(row["file"]).name, row["line"])

    def at(self, line: int, file: str | None = None) -> list[dict[str, Any]]:
        """The rows of a line."""
        return [
            row
            for row in self.rows.values()
            if row["line"] == line and (file is None or Path(row["file"]).name == file)
        ]


def operators_of(trace: Path) -> list[Operator]:
    """All operators of a trace, with marks or without."""
    events = json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]
    found = [one for one in events if one.get("cat") in ("cpu_op", "user_annotation")]
    return _operators(sorted(found, key=lambda one: (one["ts"], -one["dur"])))


def read_marks(folder: Path) -> Marked:
    """What the launch left in its folder of records."""
    (path,) = folder.glob("lines-*.json")
    table = json.loads(path.read_text(encoding="utf-8"))
    events = json.loads((folder / "trace.json").read_text(encoding="utf-8"))["traceEvents"]
    marks = [_mark(one) for one in events if one.get("cat") == "cpu_op"]
    return Marked(
        {row["id"]: row for row in table["rows"]},
        operators_of(folder / "trace.json"),
        [one for one in marks if one is not None],
        table["notebooks"],
    )


def _mark(event: dict[str, Any]) -> int | None:
    name = event["name"]
    return int(name[len(PREFIX) :].rstrip("+")) if name.startswith(PREFIX) else None


def _sizes(value: Any) -> Iterable[int]:
    if isinstance(value, int):
        yield value
    elif isinstance(value, list):
        for one in value:
            yield from _sizes(one)


def _operators(events: list[dict[str, Any]]) -> list[Operator]:
    """Nested by time on each thread; a backward node stands for its forward operator's mark."""
    stacks: dict[int, list[dict[str, Any]]] = {}
    forwards: dict[int, int | None] = {}
    before: dict[int, int | None] = {}
    found = []
    for event in events:
        stack = stacks.setdefault(event["tid"], [])
        # A step of the profiler's begins within the optimizer's range, and ends after it.
        stack[:] = [one for one in stack if one["ts"] + one["dur"] > event["ts"]]
        event["row"] = stack[-1]["row"] if stack else None
        event["back"] = stack[-1]["back"] if stack else False
        name, number = event["name"], event.get("args", {}).get("Sequence number", -1)
        if _mark(event) is not None:
            event["row"], event["back"] = _mark(event), False
        elif name.startswith(NODE):
            event["back"] = True
            if "AccumulateGrad" in name:
                event["row"] = before.get(event["tid"], event["row"])
            elif number in forwards:
                event["row"] = forwards[number]
            before[event["tid"]] = event["row"]
        elif number >= 0 and not event["args"].get("Fwd thread id"):
            forwards[number] = event["row"]
        if event["cat"] == "cpu_op" and _mark(event) is None and "::" in name and NODE not in name:
            sizes = frozenset(_sizes(event["args"].get("Input Dims", [])))
            ranges = tuple(one["name"] for one in stack)
            is_outermost = not any(one.startswith("aten::") for one in ranges)
            found.append(Operator(name, sizes, event["row"], event["back"], ranges, is_outermost))
        stack.append(event)
    return found
