"""What changed × how sure that is × the policy → the verdict of each case.

`decide` judges all cases of a report at once; it is pure, so it is called again for acceptances and
for another policy. `exit_code` says what a process makes of the verdicts. `judge_pairs` and
`judge_history` are the statistics behind it, for notebooks and simulations. The rules of a team lie
behind a door of their own, `judge.policy`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_score import lazy_door

if TYPE_CHECKING:
    from ci_score.judge.acceptance import settle as settle
    from ci_score.judge.exit_codes import exit_code as exit_code
    from ci_score.judge.gates import refuse_idle_gates as refuse_idle_gates
    from ci_score.judge.history import judge_history as judge_history
    from ci_score.judge.injection import slowed as slowed
    from ci_score.judge.injection import unchanged as unchanged
    from ci_score.judge.looks import MOST_PAIRS as MOST_PAIRS
    from ci_score.judge.looks import planned_looks as planned_looks
    from ci_score.judge.pairs import LEAST_PAIRS as LEAST_PAIRS
    from ci_score.judge.pairs import judge_pairs as judge_pairs
    from ci_score.judge.trend import trends as trends
    from ci_score.judge.verdicts import decide as decide
else:
    __getattr__ = lazy_door(
        __name__,
        acceptance=("settle",),
        exit_codes=("exit_code",),
        gates=("refuse_idle_gates",),
        history=("judge_history",),
        injection=("slowed", "unchanged"),
        looks=("MOST_PAIRS", "planned_looks"),
        pairs=("LEAST_PAIRS", "judge_pairs"),
        trend=("trends",),
        verdicts=("decide",),
    )
