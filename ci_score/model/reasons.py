"""Reasons as values: a code with the data that its sentence needs.

A reason is made where something is decided, and stays a value until the record. `report/` makes its
sentence; each code has one there. No code reads such a sentence, so it can be reworded freely.
"""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Annotated, Self

from pydantic import (
    Field,
    ModelWrapValidatorHandler,
    StringConstraints,
    ValidationError,
    model_validator,
)

from ci_score.model.values import Lax, Value

LONGEST_WORDS = 4000
LONGEST_CODE = 60
ENDLESS = 1e15
Words = Annotated[str, StringConstraints(max_length=LONGEST_WORDS)]
Datum = bool | int | float | Words | Annotated[tuple[Words | int | float, ...], Lax] | None

# The data of an op that changed, and of the place where most of a change is.
_OP = "name origin status was base_ms head_ms base_count head_count more_launches"
# `repeats` says of how many, where layers are a sequence of kernels that repeats.
_PLACE = "layers repeats direction phase"


class Why(StrEnum):
    """Every reason there is; behind each code the names of its data.

    Calling a code makes the reason: `Why.TOO_FEW_PAIRS(pairs=3, least=4)`.
    """

    fields: frozenset[str]

    def __new__(cls, code: str, fields: str = "") -> Why:
        """A code, and the names of its data in one text."""
        member = str.__new__(cls, code)
        member._value_ = code
        member.fields = frozenset(fields.split())
        return member

    def __call__(self, **data: Datum | Reason) -> Reason:
        """The reason with its data; what a record cannot hold is cut, so that it never fails."""
        if data.keys() != self.fields:
            raise TypeError(f"the data of {self.value} is {', '.join(sorted(self.fields))}")
        return Reason(code=self, data={name: _fitting(value) for name, value in data.items()})

    # The words of an error or a note.
    QUOTED = "quoted", "words"
    # What another version of ci-score, or a stranger, has written: it decides nothing.
    UNKNOWN = "unknown", "code"

    # Nothing usable was measured.
    NO_FILE = "no_file"
    NO_STEPS = "no_steps"
    ATTEMPT_TO_COME = "attempt_to_come", "there here"
    NO_TIME = "no_time"
    NO_TIME_IN_PROFILE = "no_time_in_profile"
    UNUSABLE = "unusable", "words remedy"
    NO_NUMBER_TO_COMPARE = "no_number_to_compare"
    NO_SOUND_LAUNCH = "no_sound_launch", "side launch events words"
    EMPTY_BY_ITS_RUN = "empty_by_its_run"
    JOB_ENDED = "job_ended", "job result"
    MEASURING_SAID = "measuring_said", "case words"
    RESULT_UNKNOWN = "result_unknown", "result"
    NOT_NEEDED = "not_needed", "words"
    NOTHING_FOUND = "nothing_found", "where"
    NO_MEASUREMENTS = "no_measurements", "where"
    OTHER_COMMITS = "other_commits", "head base of_head of_base"
    OLDER_THAN_RUN = "older_than_run", "file"
    LEFT_OUT = "left_out", "case why"
    EMPTY_MEASUREMENTS = "empty_measurements", "where"

    # What was measured cannot be judged.
    DISTURBED = "disturbed", "event words"
    BASE_DISTURBED = "base_disturbed", "event words"
    ALSO_DISTURBED = "also_disturbed", "event words"
    TOO_FEW_STEPS = "too_few_steps", "wanted short launches shortest"
    NOT_IN_TURNS = "not_in_turns"
    TOO_FEW_PAIRS = "too_few_pairs", "pairs least"
    TOO_MANY_PAIRS = "too_many_pairs", "pairs most"
    MORE_WARM_UP = "more_warm_up", "head base"
    OFTEN_SHARED = "often_shared", "shared launches"
    UNEVEN_TOKENS = "uneven_tokens", "side least most"
    OTHER_AMOUNT = "other_amount", "head base"
    OTHER_LOSS = "other_loss", "head base"
    FEWER_VALID_STEPS = "fewer_valid_steps", "head base"
    WORK_NOT_TOLD = "work_not_told", "signs"
    WORK_TOLD_BY_SOME = "work_told_by_some", "signs"
    BASE_CONTRADICTS = "base_contradicts", "slower_by runs"
    NO_COMMON_TIME = "no_common_time"
    STEP_TIME_LOST = "step_time_lost"
    NOTHING_GATED_IN_COMMON = "nothing_gated_in_common", "metrics"

    # There is no baseline; the data of NO_BASELINE is an `Unjudged`.
    NO_BASELINE = "no_baseline", "why"
    MISMATCH = "mismatch", "key here there"
    MISMATCH_IN = "mismatch_in", "record why"
    NOTHING_OF_CASE = "nothing_of_case", "record case"
    NO_SUCH_CASE = "no_such_case", "case"
    HAS_NO_BASE = "has_no_base"
    BASE_CANNOT_RUN = "base_cannot_run", "words"
    WITHOUT_BASE = "without_base"
    ALL_EXPIRED = "all_expired", "records"
    NO_RECORD_YET = "no_record_yet"
    NO_PROVENANCE = "no_provenance", "field"
    NO_RECORD_IN = "no_record_in", "folder"
    NO_RECORD_LEFT = "no_record_left", "branch workflow artifact"
    NONE_OF_THE_BRANCH = "none_of_the_branch", "branch artifact artifacts"

    # Why a record was looked at and not used.
    SEARCH_ENDED = "search_ended", "records"
    NOT_ON_THE_LINE = "not_on_the_line", "commits"
    EMPTY_RECORD = "empty_record", "record"
    OWN_RECORD = "own_record", "record"
    NO_SUCH_RECORD = "no_such_record", "record"
    NOT_A_FILE = "not_a_file", "record"
    LEAVES_WORKSPACE = "leaves_workspace", "record"
    NOT_OF_THE_BRANCH = "not_of_the_branch", "record"

    # The two numbers of a metric cannot be compared.
    ONLY_IN_BASE = "only_in_base"
    ONLY_IN_HEAD = "only_in_head"
    NO_RATIO = "no_ratio"
    DEVICES_ON_ONE_SIDE = "devices_on_one_side"
    OTHER_TOKENS = "other_tokens", "head base"

    # Why a metric has its outcome.
    ONE_NUMBER = "one_number"
    FAR_FOR_ONE_NUMBER = "far_for_one_number", "most"
    LEVEL_DISAGREES = "level_disagrees", "by_base by_level runs"
    COUNT = "count"
    COUNT_VARIES = "count_varies"
    REFERENCE_LIMIT = "reference_limit", "severity"
    OF_A_FASTER_STEP = "of_a_faster_step"
    PROVEN_BEYOND = "proven_beyond", "delta"
    PROVEN_WITHIN = "proven_within"
    WARNING_NOT_PROVEN = "warning_not_proven"
    UNCLEAR_PAIRS = "unclear_pairs", "pairs void more"
    UNCLEAR_SUM = "unclear_sum", "delta slow launches share"
    UNCLEAR_HISTORY = "unclear_history", "runs enough launches"
    CONTRADICTS = "contradicts", "by_base"
    VOID_LAUNCHES = "void_launches", "head base"
    NOT_IN_EVERY_PAIR = "not_in_every_pair", "missing pairs"
    NOT_IN_EVERY_LAUNCH = "not_in_every_launch", "missing launches"
    TOO_NOISY = "too_noisy", "up_to"
    GATE_NOT_MEASURED = "gate_not_measured"
    GATE_WITHOUT_RATIO = "gate_without_ratio"
    GATE_OF_OTHER_STEP = "gate_of_other_step"
    ACCEPTED_UP_TO = "accepted_up_to", "bound"
    NOT_ATTRIBUTABLE = "not_attributable", "commits"
    NOT_QUALIFIED = "not_qualified", "words"
    NOT_QUALIFIED_BEFORE = "not_qualified_before"
    QUALIFIED_FOR_MORE = "qualified_for_more", "gate_at"

    # What limits a verdict.
    KNOWN_ON_ONE_SIDE = "known_on_one_side", "keys"
    LAUNCHES_WITHOUT_PARTNER = "launches_without_partner", "alone launches"
    RED_ELSEWHERE = "red_elsewhere", "why"
    OFTEN_SLOW = "often_slow", "slow launches share"

    # What the policy makes worth a remark.
    OTHER_WARM_UP = "other_warm_up", "wanted declared"
    ORDER_NOT_TOLD = "order_not_told"
    LOSS_VARIES = "loss_varies"
    THROUGHPUT_GIVEN = "throughput_given"

    # What holds without a baseline: budgets and parities.
    BUDGET_NOT_MEASURED = "budget_not_measured", "metric budget"
    OVER_BUDGET = "over_budget", "metric value budget"
    UNDER_BUDGET = "under_budget", "metric value budget"
    PARITY_BROKEN = "parity_broken", "words"
    PARITY_CASE_MISSING = "parity_case_missing", "partner"
    PARITY_FILE_MISSING = "parity_file_missing"
    PARITY_UNUSABLE = "parity_unusable", "partner side why"
    PARITY_KEY_UNKNOWN = "parity_key_unknown", "partner key side"
    PARITY_KEY_DIFFERS = "parity_key_differs", "partner key here there"
    PARITY_TIMED_UNLIKE = "parity_timed_unlike", "partner here there"
    PARITY_RATE_UNKNOWN = "parity_rate_unknown", "partner side"
    PARITY_SLOWER = "parity_slower", "partner ratio here_ms there_ms limit"
    PARITY_COVERS_LITTLE = "parity_covers_little", "partner here there wanted"
    PARITY_OPS = "parity_ops", "partner ops ratios here_ms there_ms limit by_reference"

    # What holds for a whole report.
    CASE_MISSING = "case_missing", "case"
    BASELINE_HAS_CASE = "baseline_has_case", "case"
    POLICY_WANTS_CASE = "policy_wants_case", "case"
    MOVED_TOGETHER = "moved_together", "cases share"
    BASE_UNCHECKED = "base_unchecked", "case"
    BASE_UNLIKE_RECORD = "base_unlike_record", "case session_ms record_ms"
    HEAD_CHECKED_OUT = "head_checked_out"
    POLICY_NOT_READ = "policy_not_read", "path words"
    NO_SUCH_POLICY = "no_such_policy", "path commit"
    OWN_POLICY = "own_policy", "outcome not_tried"
    OWN_POLICY_UNUSABLE = "own_policy_unusable", "words"
    SAME_COMMIT = "same_commit", "commit here there"
    OTHER_INPUTS = "other_inputs", "names here there"
    OWN_BASELINE = "own_baseline", "names here"
    SHADOW = "shadow", "code"
    RESOLVED = "resolved"
    BY_ITS_OWN_CODE = "by_its_own_code", "run of_fork"
    COMMENTS_NOT_READ = "comments_not_read", "words"
    MORE_COMMENTS = "more_comments", "read"
    EARLIER_NOT_FOUND = "earlier_not_found", "attempt"
    EARLIER_REFUSED = "earlier_refused", "why"
    OF_ANOTHER = "of_another", "what here there"
    NO_EARLIER_ATTEMPT = "no_earlier_attempt", "there here"
    NOT_OF_ITS_ATTEMPT = "not_of_its_attempt", "attempt uploaded"
    MEASURED_AGAIN = "measured_again", "attempt cases"
    JUDGED_AGAIN = "judged_again", "attempt cases"
    OTHERWISE_BEFORE = "otherwise_before", "case why"
    ELSEWHERE_BEFORE = "elsewhere_before", "case changed"

    # What a changed line explains of it.
    LINE_TAKES_LONGER = "line_takes_longer", "case name head_ms more_ms share"
    LINE_HOLDS_MORE = "line_holds_more", "case name more_bytes share"

    # What of a report could not be written.
    FILE_NOT_WRITTEN = "file_not_written", "file words"
    COMMENT_NOT_POSTED = "comment_not_posted", "words"
    MAY_NOT_COMMENT = "may_not_comment", "words"
    PULL_OF_ANOTHER = "pull_of_another", "number head here"
    PULL_NOT_READ = "pull_not_read", "words"
    TOO_MANY_COMMENTS = "too_many_comments", "most"
    NEWER_COMMENT = "newer_comment"
    PAGE_IS_AT = "page_is_at", "page"
    PAGE_NOT_LINKED = "page_not_linked"
    RECORD_OF_ANOTHER_RUN = "record_of_another_run"
    CHECK_NOT_CREATED = "check_not_created", "words"
    ISSUE_NOT_WRITTEN = "issue_not_written", "words"
    ANSWER_POSTED = "answer_posted", "commit"
    NO_ANSWER_TO_POST = "no_answer_to_post"
    MAY_NOT_WRITE_ISSUES = "may_not_write_issues", "words"

    # Why an acceptance does not count.
    BY_NO_PERSON = "by_no_person"
    EDITED = "edited"
    NO_APPROVAL = "no_approval"
    NOT_OFFICIAL = "not_official"
    NOT_UNDERSTOOD = "not_understood"
    BOUND_NOT_UNDERSTOOD = "bound_not_understood"
    NO_CASE_HERE = "no_case_here", "close"
    CASE_NOT_MISSING = "case_not_missing"
    NO_METRIC_HERE = "no_metric_here", "close"
    OTHER_UNIT = "other_unit", "units"
    TOO_MANY_PEOPLE = "too_many_people", "most"
    MAY_NOT_WRITE = "may_not_write", "permission"
    RIGHTS_NOT_KNOWN = "rights_not_known", "words"
    NO_PULL_REQUEST = "no_pull_request"
    BEFORE_THE_COMMITS = "before_the_commits"
    COMMITS_NOT_DATED = "commits_not_dated", "words"

    # What caused a change of the step's time, or of its launches.
    ALL_KERNELS = "all_kernels", "share"
    LOST_FUSION = "lost_fusion", f"attention kinds before now {_PLACE}"
    ONE_OP = "one_op", f"{_OP} {_PLACE}"
    ONE_KIND = "one_kind", f"kind name base_ms head_ms base_count head_count {_PLACE}"
    EVERY_KERNEL = "every_kernel", "times base_count head_count"
    LAYERS_GREW = "layers_grew", f"base_ms head_ms {_PLACE}"
    COMPUTE_GREW = "compute_grew", _PLACE
    COMMUNICATION_GREW = (
        "communication_grew",
        "base_ms head_ms exposed_base_ms exposed_head_ms base_count head_count",
    )
    OVERLAPS_LESS = "overlaps_less", "in_all_ms exposed_base_ms exposed_head_ms"
    COPIES_GREW = "copies_grew", f"part_base_ms part_head_ms {_OP}"
    IDLE_GREW = "idle_grew", "part base_ms head_ms recompiles_base recompiles_head same_work"
    HOST_RANGE = "host_range", "name base_ms head_ms"
    ONE_SLOW_STEP = "one_slow_step", "steps slowest_ms usual_ms"
    ONE_RANK = "one_rank", "rank base_ms head_ms ranks"
    PHASE_GREW = "phase_grew", f"part {_PLACE}"
    TWO_PARTS = "two_parts", "parts grew_ms"
    MORE_OF_OP = "more_of_op", f"name origin before now {_PLACE}"
    MORE_OF_KIND = "more_of_kind", f"kind more {_PLACE}"
    # The same of a step without a device.
    ALL_OPERATORS = "all_operators", "share"
    REPLACED = "replaced", "gone names base_ms head_ms"
    OTHER_TYPE = "other_type", f"names base_type head_type base_ms head_ms {_PLACE}"
    ONE_CALL = "one_call", "name phase base_calls head_calls base_ms head_ms"
    MORE_BACKWARD = "more_backward", "names base_calls head_calls base_ms head_ms"
    BETWEEN_OPERATORS = "between_operators", "part last_op next_op base_ms head_ms"
    HOST_IN_RANGE = "host_in_range", "name base_ms head_ms"
    MORE_CALLS = "more_calls", "names base_calls head_calls"
    # The cause of a step that became faster, found as if it had become slower the other way round.
    FASTER = "faster", "cause"

    # What to try.
    LARGE_PART = "large_part", "part ms share"
    MANY_OPTIMIZER_KERNELS = "many_optimizer_kernels", "ms launches"


class Reason(Value):
    """A code with its data.

    A record may hold one of a newer version, or of a stranger: what is not known becomes `UNKNOWN`.
    """

    code: Annotated[Why, Lax]
    data: Annotated[dict[str, Datum | Reason], Field(default_factory=dict)]

    @model_validator(mode="wrap")
    @classmethod
    def _known_or_unknown(cls, value: object, handler: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            reason = handler(value)
        except ValidationError:
            if not isinstance(value, dict) or not isinstance(value.get("code"), str):
                raise
            return cls(code=Why.UNKNOWN, data={"code": value["code"][:LONGEST_CODE]})
        if reason.data.keys() == reason.code.fields:
            return reason
        return cls(code=Why.UNKNOWN, data={"code": reason.code.value})


def _fitting(value: Datum | Reason) -> Datum | Reason:
    if isinstance(value, str):
        return value[:LONGEST_WORDS]
    if isinstance(value, tuple):
        return tuple(one[:LONGEST_WORDS] if isinstance(one, str) else _finite(one) for one in value)
    return _finite(value) if isinstance(value, float) else value


def _finite(number: float) -> float:
    """A ratio may overflow; so much is as good as endless, and can be printed."""
    return number if math.isfinite(number) else math.copysign(ENDLESS, number)


class Note(Value):
    """Something that is worth knowing, in words. The words are shown; only the code decides."""

    code: str = ""
    words: str


def quoted(words: str) -> Reason:
    """The words of an error as a reason."""
    return Why.QUOTED(words=words)
