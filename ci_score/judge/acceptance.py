"""Accepting a regression: what somebody with write access said in the pull request.

    ci-score accept <case> <metric> up to <bound> because <reason>
    ci-score accept <case> missing because <reason>

A comment counts where it begins so: whatever is quoted, fenced, hidden in HTML or only mentioned
has something else in front of it. The names bind exactly; of several sentences on one metric the
last one counts that somebody with write access wrote.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ci_score.judge.policy import Policy, rules_of
from ci_score.model.conversation import Comment, Conversation
from ci_score.model.lists import closest
from ci_score.model.metrics import OF_THE_SAME_TIME, Kind, Metric, metric_named
from ci_score.model.reasons import Reason, Why
from ci_score.model.record import MOST_ACCEPTANCES, Judged
from ci_score.model.verdict import Acceptance, Outcome, Unjudged, Verdict

MISSING = "missing"
LONGEST_REASON = 160
LONGEST_NAME = 64
# Each costs a request, and a stranger may have many accounts.
MOST_ASKED = 5
_MOST_SENTENCES = 32

# The keywords in any case, because telephones begin a line with a capital; the names exactly.
_BEGINS = re.compile(r"ci-score +accept(?: |$)", re.IGNORECASE | re.ASCII)
_NAME = r"[A-Za-z0-9@._+-]{1,64}"
_SENTENCE = re.compile(
    rf"ci-score +accept +(?P<case>{_NAME}) +"
    rf"(?:(?P<missing>missing)|(?P<metric>{_NAME}) +up +to +(?P<bound>\S.{{0,30}}?))"
    r" +because +(?P<reason>\S.*)",
    re.IGNORECASE | re.ASCII,
)
_BOUND = re.compile(
    r"[-+\u2212]?(?P<number>[0-9]{1,9}(?:\.[0-9]{1,6})?) *(?P<unit>%|points|GB|ms|)"
)
# Word processors and telephones put these between a number and its unit.
_SPACES = str.maketrans(dict.fromkeys("\t\u00a0\u202f", " "))
_LINE_ENDS = re.compile(r"\r\n|\n|\r")


# --- what a comment says ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Bound:
    """How far a worsening may go: as a fraction, in points of a share, or as the number itself."""

    kind: Literal["relative", "points", "value"]
    number: float
    unit: str

    @property
    def shown(self) -> str:
        """As people write it."""
        scale = 1 if self.kind == "value" else 100
        return f"{self.number * scale:.6g} {self.unit}".rstrip()


@dataclass(frozen=True, slots=True)
class Sentence:
    """What one line accepts; `wrong` says why it cannot be understood."""

    case: str = ""
    metric: str = ""
    bound: Bound | None = None
    reason: str = ""
    wrong: Reason | None = None


def sentences(body: str) -> list[Sentence]:
    """The sentences at the beginning of a comment, up to the first line of something else.

    What a line opens and does not close (an HTML comment, a code span) could hide the next one.
    """
    found: list[Sentence] = []
    for line in _LINE_ENDS.split(body):
        spaced = line.translate(_SPACES).rstrip(" ")
        if not spaced:
            continue
        if _BEGINS.match(spaced) is None or len(found) == _MOST_SENTENCES:
            break
        found.append(_sentence(spaced))
        if "<" in spaced or spaced.count("`") % 2:
            break
    return found


def read_bound(text: str) -> Bound | None:
    """`12 %`, `+12.5%`, `5 points`, `80 GB`, `450 ms`, `3`; a sign says nothing, worse is worse."""
    found = _BOUND.fullmatch(text)
    if found is None:
        return None
    number, unit = float(found["number"]), found["unit"]
    if unit == "%":
        return Bound("relative", number / 100, unit)
    return Bound("points", number / 100, unit) if unit == "points" else Bound("value", number, unit)


def _sentence(line: str) -> Sentence:
    found = _SENTENCE.fullmatch(line)
    if found is None:
        return Sentence(wrong=Why.NOT_UNDERSTOOD())
    case, reason = found["case"], " ".join(found["reason"].split())[:LONGEST_REASON]
    if found["missing"]:
        return Sentence(case, MISSING, reason=reason)
    bound = read_bound(found["bound"])
    if found["metric"].lower() == MISSING:
        return Sentence(case, wrong=Why.NOT_UNDERSTOOD())
    if bound is None:
        return Sentence(case, found["metric"], wrong=Why.BOUND_NOT_UNDERSTOOD())
    return Sentence(case, found["metric"], bound, reason)


# --- what of it counts --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Settled:
    """The sentences that are in force, and those that are not, each with the reason."""

    granted: tuple[Acceptance, ...] = ()
    refused: tuple[Acceptance, ...] = ()
    trouble: Reason | None = None

    @property
    def all(self) -> tuple[Acceptance, ...]:
        """What the record keeps."""
        return (*self.granted, *self.refused)[:MOST_ACCEPTANCES]

    def accepts_loss_of(self, case: str) -> bool:
        """Whether it was accepted that a case is gone."""
        return MISSING in accepted_for(self.granted, case)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What there is to accept: failing cases and lost ones, among all that are `known`."""

    failing: frozenset[str]
    lost: frozenset[str]
    known: frozenset[str]

    def concerns(self, case: str) -> bool:
        """Whether a sentence on that case is of interest: about it, or a mistake in the name."""
        return case in self.failing or case in self.lost or case not in self.known


def settle(
    conversation: Conversation, policy: Policy, cases: Sequence[Judged], lost: Collection[str]
) -> Settled:
    """What counts of all that was said, and why the rest does not.

    People are asked only where there is something to accept.
    """
    worse = frozenset(
        case.name for case in cases if case.verdict and _can_be_accepted(case.verdict)
    )
    if not worse and not lost:
        return Settled()
    asked = _Asked(worse, frozenset(lost), frozenset(case.name for case in cases))
    heard = conversation.listen()
    said = [
        (comment, _acceptance(comment, sentence), _wrong(comment, sentence, policy, asked))
        for comment in reversed(heard.comments)
        for sentence in reversed(sentences(comment.body))
        if asked.concerns(sentence.case)
    ]
    rights = _Rights(conversation, [comment for comment, _, wrong in said if wrong is None])
    insiders = {comment.author for comment, _, _ in said if comment.is_insider}
    granted: dict[tuple[str, str], Acceptance] = {}
    refused: list[Acceptance] = []
    for comment, one, wrong in said:
        if (one.case, one.metric) in granted:
            continue  # a later sentence has replaced it
        # Each asks GitHub, so only of what would count else.
        why = wrong or rights.why_not(comment.author) or conversation.why_too_early(comment)
        if why is None:
            granted[one.case, one.metric] = one
        else:
            refused.append(one.but(refused=why))
    # Who belongs to the repository is told first why it did not count.
    refused.sort(key=lambda one: one.by not in insiders)
    return Settled(tuple(granted.values()), tuple(refused), heard.trouble)


def _can_be_accepted(verdict: Verdict) -> bool:
    """Whether something is worse, or seems so."""
    is_worse = verdict.outcome in (Outcome.FAIL, Outcome.WARN)
    return is_worse or verdict.unjudged is Unjudged.UNCLEAR


def accepted_for(acceptances: Iterable[Acceptance], case: str) -> Mapping[str, Acceptance]:
    """Metric -> what was accepted of it for a case."""
    return {one.metric: one for one in acceptances if one.case == case}


def _acceptance(comment: Comment, sentence: Sentence) -> Acceptance:
    bound = sentence.bound
    return Acceptance(
        case=sentence.case,
        metric=sentence.metric,
        kind=bound.kind if bound else "value",
        bound=bound.number if bound else 0.0,
        shown=bound.shown if bound else "",
        reason=sentence.reason,
        by=comment.author[:LONGEST_NAME],
        url=comment.url[:200],
    )


def _wrong(comment: Comment, sentence: Sentence, policy: Policy, asked: _Asked) -> Reason | None:
    """Why it cannot count, whoever wrote it."""
    return comment.refused or sentence.wrong or _misfit(sentence, policy, asked)


def _misfit(sentence: Sentence, policy: Policy, asked: _Asked) -> Reason | None:
    """What of the sentence fits nothing that is judged here."""
    cases = asked.failing | asked.lost
    if sentence.case not in cases:
        return Why.NO_CASE_HERE(close=closest(sentence.case, sorted(cases)))
    if sentence.bound is None:
        return None if sentence.case in asked.lost else Why.CASE_NOT_MISSING()
    rules = rules_of(policy, sentence.case)
    # A step's time covers its throughput, too, and the other way round.
    names = (sentence.metric, OF_THE_SAME_TIME.get(sentence.metric, ""))
    rule = next((rule for name in names if (rule := rules.gate(name))), None)
    if rule is None and sentence.metric not in rules.budgets:
        known = [*(gate.metric.name for gate in rules.gates), *rules.budgets]
        return Why.NO_METRIC_HERE(close=closest(sentence.metric, known))
    own = rule.metric if rule and rule.metric.name == sentence.metric else None
    allowed = tuple(_units_of(own or metric_named(sentence.metric)))
    return None if sentence.bound.unit in allowed else Why.OTHER_UNIT(units=allowed)


def _units_of(metric: Metric) -> Iterator[str]:
    """The units in which a bound of a metric can be given.

    A bare number is the number itself, and only of what is counted: of anything else `0.12` could
    as well mean twelve per cent. Where more is better, `up to` can only be a worsening.
    """
    if metric.relative:
        yield "%"
    own = metric.own_unit
    counted = own is None and (metric.kind is Kind.EXACT or not metric.relative)
    if counted and metric.in_points:
        yield "points"
    elif not metric.higher_is_better and own:
        yield own
    elif not metric.higher_is_better and counted:
        yield ""


class _Rights:
    """Asks for each person once, and not for more than a few."""

    def __init__(self, conversation: Conversation, speakers: Iterable[Comment]) -> None:
        self._conversation = conversation
        # People of the repository first, then whoever spoke last.
        order = sorted(speakers, key=lambda comment: not comment.is_insider)
        self._few = list(dict.fromkeys(comment.author for comment in order))[:MOST_ASKED]
        self._known: dict[str, Reason | None] = {}

    def why_not(self, login: str) -> Reason | None:
        if login not in self._few:
            return Why.TOO_MANY_PEOPLE(most=MOST_ASKED)
        if login not in self._known:
            self._known[login] = self._conversation.why_not(login)
        return self._known[login]
