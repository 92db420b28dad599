"""The folders that torch_npu's profiler makes are no cases, and hold much that tells no time."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from ci_score.files.checkpoints import folders_of

OUTPUT = "ASCEND_PROFILER_OUTPUT"


@pytest.mark.parametrize(
    ("file", "folders"),
    [
        (f"train/rank0_ascend_pt/{OUTPUT}/trace_view.json", ("train",)),
        (f"rank0_ascend_pt/{OUTPUT}/step_trace_time.csv", ()),
        (f"a/{OUTPUT}/trace_view.json", ("a",)),
        ("a/b/trace_view.json", ("a", "b")),
        (f"rank0_ascend_pt/{OUTPUT}/kernel_details.csv", None),
        ("rank0_ascend_pt/profiler_info_0.json", None),
        ("rank0_ascend_pt/PROF_1/device_0/data/trace_view.json", None),
        ("rank0_ascend_ms/FRAMEWORK/torch.op_range", None),
    ],
)
def test_folders__of_a_file(file: str, folders: tuple[str, ...] | None) -> None:
    """A rank's folder lies in its case; raw data and tables of less are not looked at."""
    assert folders_of(PurePosixPath(file), frozenset()) == folders
