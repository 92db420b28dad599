"""What a report may repeat of the options of a session's sides."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ci_score.measure import SidesRequest


def asked(**options: Any) -> list[tuple[str, str | None]]:
    request = SidesRequest(base="main", head=Path("/repository"), **options)
    return [(one.option, one.value) for one in request.asked]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, []),
        ({"links": ("data", "/repository/sets/a")}, [("--link", "data"), ("--link", "sets/a")]),
        ({"base_launcher": "srun -N1", "head_launcher": "srun -N1"}, [("--launcher", "srun -N1")]),
        ({"head_launcher": "srun -N1"}, [("--head-launcher", "srun -N1")]),
        ({"head_env": {"NCCL_ALGO": "Ring"}}, [("--head-env", "NCCL_ALGO=Ring")]),
        ({"keep_trackers": True}, [("--keep-trackers", None)]),
    ],
)
def test_asked__repeats_what_anybody_may_know(
    options: dict[str, Any], expected: list[tuple[str, str | None]]
) -> None:
    """Links, launchers, and what differs between the sides anyway."""
    assert asked(**options) == expected


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"setup": "pip install https://me:pw@host/x"}, [("--setup", None)]),
        ({"base_python": Path("/home/me/old/bin/python")}, [("--base-python", None)]),
        (
            {"base_env": {"A_B": "1"}, "head_env": {"A_B": "1"}},
            [("--base-env", "A_B"), ("--head-env", "A_B")],
        ),
        ({"head_env": {"HF_TOKEN": "hf_x"}}, [("--head-env", "HF_TOKEN")]),
        ({"head_env": {"INDEX": "https://me:pw@host"}}, [("--head-env", "INDEX")]),
        ({"head_env": {"LONG": "x" * 300}}, [("--head-env", "LONG")]),
        ({"head_launcher": "podman run -e HF_TOKEN=x image"}, [("--head-launcher", None)]),
    ],
)
def test_asked__tells_no_secret_and_no_place(
    options: dict[str, Any], expected: list[tuple[str, str | None]]
) -> None:
    """Such an option is named, and whoever runs it again fills it in."""
    assert asked(**options) == expected
