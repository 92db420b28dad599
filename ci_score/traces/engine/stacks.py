"""What the functions of a program take of a step, where a trace has Python stacks of its own.

Such a trace names the first line of a function that was called, and of one that ran already when
the capture began the line where it was; no class. So it tells functions, and never a line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from ci_score.model.step_code import (
    LONGEST_PATH,
    MOST_DEFINITIONS,
    CodeLine,
    CodeWork,
    Definition,
    StepCode,
)
from ci_score.model.sums import plain_sum
from ci_score.model.values import four_digits
from ci_score.traces.engine.capture import Capture
from ci_score.traces.engine.marks import marked_step

# `models/block.py(88): forward`; no control characters.
_FUNCTION = re.compile(r"([^\x00-\x1f\x7f]+\.py)\(([0-9]{1,7})\): ([^\x00-\x1f\x7f]{1,200})")
# What is installed has its folder in its path, unless `sys.path` has cut that off.
_INSTALLED = re.compile(r"(^|/)(site|dist)-packages/|(^|/)lib/python3")
# A part of the function around it.
_WITHIN = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>", "<lambda>")
_LIBRARIES = frozenset(
    (
        "torch", "torchvision", "torchaudio", "torchdata", "triton", "transformers", "accelerate",
        "lightning", "lightning_fabric", "pytorch_lightning", "lightning_utilities", "datasets",
        "tokenizers", "peft", "trl", "timm", "deepspeed", "apex", "flash_attn", "xformers",
        "bitsandbytes", "einops", "numpy", "tqdm", "wandb", "ci_score",
    )
)  # fmt: skip
# What of the standard library stands around a step, or within it.
_STANDARD = frozenset(
    (
        "_weakrefset", "abc", "argparse", "ast", "asyncio", "codecs", "collections", "concurrent",
        "contextlib", "copy", "copyreg", "ctypes", "dataclasses", "enum", "functools", "glob",
        "genericpath", "gzip", "hashlib", "importlib", "inspect", "io", "json", "logging",
        "multiprocessing", "numbers", "operator", "os", "pathlib", "pickle",
        "posixpath", "queue", "random", "re", "runpy", "selectors", "shutil", "signal", "socket",
        "string", "subprocess", "tempfile",
        "textwrap", "threading", "timeit", "traceback", "types", "typing", "unittest", "uuid",
        "warnings", "weakref",
    )
)  # fmt: skip


class _Function(NamedTuple):
    """A function as a trace names it."""

    file: str
    name: str
    first: int | None


@lru_cache(maxsize=65_536)
def is_candidate(name: str) -> bool:
    """Whether a Python function may be the program's own: of no library that is known."""
    found = _FUNCTION.fullmatch(name)
    if found is None or len(found[1]) > LONGEST_PATH or _INSTALLED.search(found[1]):
        return False
    if found[3] in _WITHIN:
        return False
    package = found[1].partition("/")[0].removesuffix(".py")
    return package not in _LIBRARIES and package not in _STANDARD


def _function_of(name: str) -> _Function | None:
    found = _FUNCTION.fullmatch(name)
    if found is None:
        return None
    # What runs when a file does has no first line of its own; the trace says where it was.
    first = int(found[2]) if found[3] != "<module>" else 0
    return _Function(found[1], found[3], first or None)


def code_of_stacks(capture: Capture, process: int) -> StepCode | None:
    """What each function takes itself, without those of the program that it calls.

    None where the trace has no stacks, or no steps.
    """
    host = capture.hosts.get(process)
    if host is None or not len(host.frames):
        return None
    # A function is around its calls as a mark is around those of its line.
    step = marked_step(replace(capture, hosts={0: replace(host, marks=host.frames)}))
    work: dict[_Function, CodeWork] = {}
    for number, one in step.work.items():
        function = _function_of(host.names[number - 1])
        if function is not None:
            work[function] = work[function].plus(one) if function in work else one
    if not work:
        return None
    order = sorted(work, key=lambda one: (-work[one].ms, -work[one].peak_bytes, str(one)))
    return StepCode(
        found_by="stacks",
        paths="trace",
        definitions=tuple(
            Definition(name=one.name, file=one.file, first=one.first)
            for one in order[:MOST_DEFINITIONS]
        ),
        lines=tuple(_lines(order[:MOST_DEFINITIONS], work)),
        total_ms=four_digits(step.total_ms),
        without_line_ms=four_digits(step.without_line_ms),
        peak_bytes=step.peak_bytes,
        peak_without_line=step.peak_without_line,
        left_out=len(order[MOST_DEFINITIONS:]),
        left_out_ms=four_digits(plain_sum(work[one].ms for one in order[MOST_DEFINITIONS:])),
    )


def _lines(order: Sequence[_Function], work: Mapping[_Function, CodeWork]) -> Iterable[CodeLine]:
    """One row a function: of its lines nothing is known, nor how long its own Python took."""
    for row, function in enumerate(order):
        yield CodeLine(definition=row, work=work[function].rounded().but(python_ms=0.0))
