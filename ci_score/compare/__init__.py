"""What was measured × its baseline → what changed, where the time went and what caused it.

`measured_case` makes a case's numbers of what was read, `compared` puts them beside a baseline.
Both know no limits and no direction: those are the policy's, and the judge's.
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
