"""How well the short names of kernels tell them apart, on the real traces of `../shared/samples`.

    python -m benchmarks.names                 the table: the rule of before and that of now
    python -m benchmarks.names --list h100     the names of a trace, the largest kernel first

*Ambiguous*: two full names of a trace have the same short name. *Says nothing*: only the name of a
wrapper that runs any work, or a namespace. Both are shares of kernel time.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import fmean

from benchmarks.repeated import SAMPLES as KINETO_SAMPLES
from ci_score.errors import BadInputError
from ci_score.report.kernel_names import short_name
from ci_score.report.screen import UNLIMITED
from ci_score.report.tables import Kind
from ci_score.traces import ProfileSource, read_profile

SAMPLES = KINETO_SAMPLES.parent
_NO_KERNELS = frozenset({"memcpy", "memset"})
_WRAPPER = re.compile(
    r"(Kernel2?|kernel2?|device_kernel|\w*elementwise_kernel\w*|(segmented_)?reduce_kernel|globalKernel"
    r"|multi_tensor_apply_kernel|trampoline_kernel|GemmKernel|GemmUniversal|device_\w*policy\w*"
    r"|kernel_\w*launch\w*|(\w*::)+|\(anonymous namespace\)|\W*)(<…?>)?"
)
Rule = Callable[[str], str]


def before(name: str) -> str:
    """The rule of before: no types, no namespaces."""
    bare = name.removeprefix("void ").partition("<")[0].partition("(")[0].strip()
    last = bare.rpartition("::")[2] or bare or name
    return last if len(last) <= 60 else last[:59] + "…"


def kernels_of(path: Path) -> dict[str, float]:
    """The kernels of a trace with their time; empty where it has none of a device."""
    try:
        profile = read_profile(ProfileSource(path.name, path=path))
    except BadInputError:
        return {}
    if not profile.device_kernels_per_step:
        return {}
    kinds = profile.op_kinds
    return {
        name: ms for name, ms in profile.ops.items() if kinds.get(name, "memcpy") not in _NO_KERNELS
    }


def ambiguous(kernels: Mapping[str, float], rule: Rule) -> float:
    """The share of time under a short name that several full names have."""
    names = Counter(map(rule, kernels))
    return _share(kernels, lambda name: names[rule(name)] > 1)


def says_nothing(kernels: Mapping[str, float], rule: Rule) -> float:
    """The share of time under a name that tells no work."""
    return _share(kernels, lambda name: _WRAPPER.fullmatch(rule(name)) is not None)


def _share(kernels: Mapping[str, float], holds: Callable[[str], bool]) -> float:
    return 100 * sum(ms for name, ms in kernels.items() if holds(name)) / sum(kernels.values())


def print_table(traces: Mapping[str, Mapping[str, float]]) -> None:
    """A line for each trace, and the mean over them."""
    measures = [
        (measure, rule) for measure in (ambiguous, says_nothing) for rule in (before, short_name)
    ]
    figures = {
        name: [measure(kernels, rule) for measure, rule in measures]
        for name, kernels in traces.items()
    }
    figures["mean"] = [fmean(column) for column in zip(*figures.values(), strict=True)]
    head = ("trace", "kernels", "ambiguous before", "now", "says nothing before", "now")
    rows = [
        (name, str(len(traces.get(name, ())) or ""), *(f"{figure:.1f} %" for figure in row))
        for name, row in figures.items()
    ]
    kinds: list[Kind] = ["name", "number", "number", "number", "number", "number"]
    print(UNLIMITED.table(rows, kinds, head))


def print_list(kernels: Mapping[str, float]) -> None:
    """Each kernel's share of time, its name of before and of now; `=` where it is not alone."""
    names = Counter(map(short_name, kernels))
    total = sum(kernels.values())
    rows = [
        (
            f"{100 * ms / total:.2f} %",
            "=" if names[short_name(name)] > 1 else "",
            short_name(name),
            before(name),
        )
        for name, ms in sorted(kernels.items(), key=lambda item: (-item[1], item[0]))
    ]
    header = ("time", "", "now", "before")
    print(UNLIMITED.table(rows, ("number", "fixed", "name", "name"), header))


def main() -> None:
    """Print the table, or the names of the traces whose file name has a text."""
    options = argparse.ArgumentParser(description="How well short names tell kernels apart")
    options.add_argument("--list", metavar="TRACE", help="a part of the file's name")
    wanted = options.parse_args().list
    paths = sorted(path for path in SAMPLES.glob("*/*") if path.suffix in (".gz", ".json", ".pb"))
    if not paths:
        sys.exit(f"There are no samples in {SAMPLES}; CI_SCORE_SHARED names the folder above it.")
    paths = [path for path in paths if not wanted or wanted in path.name]
    read = {path.name: kernels_of(path) for path in paths}
    traces = {name: kernels for name, kernels in read.items() if kernels}
    if not wanted:
        print_table(traces)
        return
    for name, kernels in traces.items():
        print(f"{name}")
        print_list(kernels)


if __name__ == "__main__":
    main()
