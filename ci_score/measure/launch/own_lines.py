"""What a script says of its own steps: the Recorder's line, or steps that it prints.

Such a script is measured by its own numbers alone. It wins over the start-up hook, which counts the
steps of the others.
"""

from __future__ import annotations

import json
import math
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from ci_score.errors import BadInputError
from ci_score.files.disk import open_plain
from ci_score.files.strict_json import parse
from ci_score.measure.recorder import LINE_LIMIT

LONGEST_STEP_LINE = 10_000


def own_line(measurements: Path, log: Path) -> tuple[dict[str, Any] | None, str]:
    """What a script says of its steps, and how it says that."""
    values = _recorded(measurements)
    if values is not None:
        return values, "the script's own line"
    return _printed(log), "printed steps"


def _recorded(path: Path) -> dict[str, Any] | None:
    try:
        with open_plain(path) as stream:
            data = stream.read(LINE_LIMIT + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BadInputError(path.name, found=str(error.strerror), expected="a file") from None
    lines = [line for line in data.split(b"\n") if line.strip()]
    if len(data) > LINE_LIMIT or len(lines) != 1:
        raise BadInputError(
            path.name,
            found=f"{len(lines)} lines in what the script recorded",
            expected="one line of at most 4 MB, from one process of the launch (rank 0)",
        )
    if not data.endswith(b"\n"):
        raise BadInputError(path.name, found="half a line", expected="a whole line")
    value = _value(lines[0], "what the script recorded", 0)
    if not isinstance(value, dict):
        raise BadInputError(path.name, found="no object", expected="a JSON object")
    return value


def _printed(log: Path) -> dict[str, Any] | None:
    """Lines like `{"step_ms": 12.3, "tokens": 4096}` among whatever else was printed."""
    steps: list[float] = []
    tokens: list[float] = []
    loss = None
    with suppress(OSError), open_plain(log) as stream:
        ended = True
        # A line may be a gigabyte long: it is read in parts, of which only the first can be one.
        for line in iter(partial(stream.readline, LONGEST_STEP_LINE), b""):
            begins, ended = ended, line.endswith(b"\n")
            if not begins or not line.startswith(b'{"') or b'"step_ms"' not in line:
                continue
            row = _value(line, "a printed step", len(steps))
            if not isinstance(row, dict) or not _is_number(row.get("step_ms")):
                raise BadInputError(
                    "a printed step", found="no number in step_ms", expected='{"step_ms": 12.3}'
                )
            steps.append(row["step_ms"])
            if _is_number(row.get("tokens")):
                tokens.append(float(row["tokens"]))
            if _is_number(row.get("loss")):
                loss = float(row["loss"])
    if not steps:
        return None
    values: dict[str, Any] = {"step_ms": steps}
    if len(tokens) == len(steps):
        values["tokens_per_step"] = sum(tokens) / len(tokens)
    return values | ({"final_loss": loss} if loss is not None else {})


def _value(line: bytes, source: str, before: int) -> Any:
    """The line's JSON; a step that is no number is named, counted on from those `before` it."""
    try:
        # Python's own reader knows NaN, and so which step it is.
        steps = json.loads(line)["step_ms"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return parse(line, source)
    for number, step in enumerate(steps if isinstance(steps, list) else [steps], before + 1):
        if step is None or (isinstance(step, float) and not math.isfinite(step)):
            words = "null" if step is None else json.dumps(step)
            raise BadInputError(source, found=f"step {number} is {words}", expected="milliseconds")
    return parse(line, source)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
