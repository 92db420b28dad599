"""A measured case and its baseline → what changed, where the time went and what caused it.

`measured_case` computes a case's numbers from what was read; `compared` compares them with a
baseline. Neither knows a limit or which way is worse: the policy has those, and the judge uses
them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_score import lazy_door

if TYPE_CHECKING:
    from ci_score.compare.changes import compared as compared
    from ci_score.compare.efficiency import Workload as Workload
    from ci_score.compare.measuring import base_of_launches as base_of_launches
    from ci_score.compare.measuring import measured_case as measured_case
    from ci_score.compare.measuring import with_its_base as with_its_base
else:
    __getattr__ = lazy_door(
        __name__,
        changes=("compared",),
        efficiency=("Workload",),
        measuring=("base_of_launches", "measured_case", "with_its_base"),
    )
