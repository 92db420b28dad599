"""The reference model, frozen: tests hold every bit of its numbers and byte of its markdown.

It turns a profile into a scorecard, and two runtimes into a parity. Notes say what it gets wrong;
they never change its numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_score import lazy_door

if TYPE_CHECKING:
    from ci_score.reference.markdown import parity_markdown as parity_markdown
    from ci_score.reference.markdown import scorecard_markdown as scorecard_markdown
    from ci_score.reference.parity import ACHIEVED_UP_TO as ACHIEVED_UP_TO
    from ci_score.reference.parity import ParitySide as ParitySide
    from ci_score.reference.parity import compute_parity as compute_parity
    from ci_score.reference.parity import kind_of as kind_of
    from ci_score.reference.parity import side_of as side_of
    from ci_score.reference.scoring import LACKING_IN_A_PROFILE as LACKING_IN_A_PROFILE
    from ci_score.reference.scoring import compute_scorecard as compute_scorecard
    from ci_score.reference.scoring import find_regressions as find_regressions
    from ci_score.reference.scoring import grade_of as grade_of
else:
    __getattr__ = lazy_door(
        __name__,
        markdown=("parity_markdown", "scorecard_markdown"),
        parity=("ACHIEVED_UP_TO", "ParitySide", "compute_parity", "kind_of", "side_of"),
        scoring=("LACKING_IN_A_PROFILE", "compute_scorecard", "find_regressions", "grade_of"),
    )
