"""Where a baseline comes from, and how a record is read, joined and kept within its size.

One walk over earlier records, the nearest first, and two stores that supply them: a folder, and the
artifacts of the default branch, which are handed in. The room reads and writes files and knows
nothing of the network.
"""

from ci_score.baselines.artifacts import ArtifactBaselines
from ci_score.baselines.branch import Left, whole_branch
from ci_score.baselines.folder import FolderBaselines
from ci_score.baselines.histories import join_histories
from ci_score.baselines.record_size import fitted
from ci_score.baselines.records import read_record, record_schema
from ci_score.baselines.walk import BaselineStore

__all__ = [
    "ArtifactBaselines",
    "BaselineStore",
    "FolderBaselines",
    "Left",
    "fitted",
    "join_histories",
    "read_record",
    "record_schema",
    "whole_branch",
]
