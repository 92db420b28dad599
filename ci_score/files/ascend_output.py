"""What torch_npu's profiler leaves in a folder: its results, and the raw data of them.

Each rank has a folder `…_ascend_pt` (MindSpore's `…_ascend_ms`), and in it
`ASCEND_PROFILER_OUTPUT` with the trace, its table of steps, and tables that tell less.
"""

from __future__ import annotations

from pathlib import PurePath

_OUTPUT = "ASCEND_PROFILER_OUTPUT"
_OF_A_RANK = ("_ascend_pt", "_ascend_ms")
_PROFILES = frozenset({"trace_view.json", "step_trace_time.csv"})


def folders_around(file: PurePath) -> tuple[str, ...] | None:
    """The folders of a file without those that the profiler made; None if it tells no time."""
    folders = file.parent.parts
    for depth, name in enumerate(folders):
        if name == _OUTPUT or name.endswith(_OF_A_RANK):
            is_profile = file.name in _PROFILES and folders[-1] == _OUTPUT
            return folders[:depth] if is_profile else None
    return folders
