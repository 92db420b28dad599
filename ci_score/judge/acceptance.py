"""Accepting a regression: what somebody with write access said in the pull request.

    ci-score accept <case> <metric> up to <bound> because <reason>
    ci-score accept <case> missing because <reason>

A comment counts where it begins so: whatever is quoted, fenced, hidden in HTML or only mentioned
has something else in front of it. The names bind exactly; of several sentences on one metric the
last one counts that somebody with write access wrote.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from ci_score.judge.policy import Policy, rules_of
from ci_score.model.metrics import Kind, Metric, metric_named
from ci_score.model.record import MOST_ACCEPTANCES, Acceptance
from ci_score.model.stages import Comment, Heard

MISSING = "missing"
FORM = "ci-score accept <case> <metric> up to <bound> because <reason>"
LONGEST_REASON = 160
LONGEST_NAME = 64
# Each costs a request, and a stranger may have many accounts.
MOST_ASKED = 5
MOST_SAID = 5
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


class Conversation(Protocol):
    """Who can be asked: a pull request on GitHub is handed in as this."""

    def listen(self) -> Heard:
        """Everything that was said."""
        ...

    def why_not(self, login: str) -> str | None:
        """Why that person may not accept anything; None where they may."""
        ...


class Nobody:
    """Where nobody can be asked."""

    def listen(self) -> Heard:
        """Nothing was said."""
        return Heard()

    def why_not(self, login: str) -> str | None:
        """Nobody may."""
        return "there is no pull request"


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
    """What one line accepts; `wrong` says what cannot be understood of it."""

    case: str = ""
    metric: str = ""
    bound: Bound | None = None
    reason: str = ""
    wrong: str | None = None


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
        return Sentence(wrong=f"it is not understood; write `{FORM}`")
    case, reason = found["case"], " ".join(found["reason"].split())[:LONGEST_REASON]
    if found["missing"]:
        return Sentence(case, MISSING, reason=reason)
    bound = read_bound(found["bound"])
    if found["metric"].lower() == MISSING:
        return Sentence(case, wrong=f"it is not understood; write `{FORM}`")
    if bound is None:
        words = "the bound is not understood; write `12 %`, `5 points`, `80 GB`, `450 ms` or `3`"
        return Sentence(case, found["metric"], wrong=words)
    return Sentence(case, found["metric"], bound, reason)


# --- what of it counts --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Settled:
    """The sentences that are in force, and those that are not, each with the reason."""

    granted: tuple[Acceptance, ...] = ()
    refused: tuple[Acceptance, ...] = ()
    trouble: str | None = None

    @property
    def all(self) -> tuple[Acceptance, ...]:
        """What the record keeps."""
        return (*self.granted, *self.refused)[:MOST_ACCEPTANCES]

    def words(self) -> Iterator[str]:
        """What the report says of them."""
        for one in self.granted:
            yield f"Accepted: {_subject(one)} {one.words}"
        for one in self.refused[:MOST_SAID]:
            yield f"Not accepted, although {one.by} wrote it: {_subject(one)}: {one.refused}."
        more = len(self.refused) - MOST_SAID
        if more > 0:
            yield f"{more} more comments accept something, and do not count; the record has them."
        if self.trouble:
            yield f"Not every comment was read, so an acceptance may be missing: {self.trouble}"


@dataclass(frozen=True, slots=True)
class Asked:
    """What there is to accept: failing cases and lost ones, among all that are `known`."""

    failing: frozenset[str]
    lost: frozenset[str]
    known: frozenset[str]

    def concerns(self, case: str) -> bool:
        """Whether a sentence on that case is of interest: about it, or a mistake in the name."""
        return case in self.failing or case in self.lost or case not in self.known


def settle(conversation: Conversation, policy: Policy, asked: Asked) -> Settled:
    """What counts of everything that was said, and why the rest does not."""
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
        why = wrong or rights.why_not(comment.author)
        if why is None:
            granted[one.case, one.metric] = one
        else:
            refused.append(one.model_copy(update={"refused": why[:200]}))
    # Who belongs to the repository is told first why it did not count.
    refused.sort(key=lambda one: one.by not in insiders)
    return Settled(tuple(granted.values()), tuple(refused), heard.trouble)


def accepted_for(acceptances: Iterable[Acceptance], case: str) -> Mapping[str, Acceptance]:
    """Metric -> what was accepted of it for a case."""
    return {one.metric: one for one in acceptances if one.case == case}


def is_accepted_loss(acceptances: Sequence[Acceptance], case: str) -> bool:
    """Whether it was accepted that a case is gone."""
    return MISSING in accepted_for(acceptances, case)


def _subject(one: Acceptance) -> str:
    return f"{one.case} {one.metric}".strip() or "a sentence"


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


def _wrong(comment: Comment, sentence: Sentence, policy: Policy, asked: Asked) -> str | None:
    """Why it cannot count, whoever wrote it."""
    if not comment.by_a_person:
        return "a bot or an app wrote it, and only people accept a regression"
    if comment.edited:
        return "the comment was edited, and GitHub does not say by whom; write a new one"
    return sentence.wrong or _misfit(sentence, policy, asked)


def _misfit(sentence: Sentence, policy: Policy, asked: Asked) -> str | None:
    """What of the sentence fits nothing that is judged here."""
    if sentence.case not in asked.failing | asked.lost:
        return "there is no such case here"
    if sentence.bound is None:
        return None if sentence.case in asked.lost else "the case is not missing"
    rules = rules_of(policy, sentence.case)
    rule = rules.gate(sentence.metric)
    if rule is None and sentence.metric not in rules.budgets:
        return "there is no such metric"
    allowed = list(_units_of(rule.metric if rule else metric_named(sentence.metric)))
    if sentence.bound.unit in allowed:
        return None
    written = " or ".join(f"12 {unit}".rstrip() for unit in allowed)
    return f"its bound is written as {written}"


def _units_of(metric: Metric) -> Iterator[str]:
    """The units in which a bound of a metric can be given.

    A bare number is the number itself, and only of what is counted: of anything else `0.12` could
    as well mean twelve per cent. Where more is better, `up to` can only be a worsening.
    """
    if metric.relative:
        yield "%"
    own = next((unit for unit in ("ms", "GB") if metric.name.endswith(f"_{unit.lower()}")), None)
    counted = own is None and (metric.kind is Kind.EXACT or not metric.relative)
    if counted and metric.show_delta(0.01).endswith("points"):
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
        self._known: dict[str, str | None] = {}

    def why_not(self, login: str) -> str | None:
        if login not in self._few:
            return f"more than {MOST_ASKED} people accept something, and not all can be asked for"
        if login not in self._known:
            self._known[login] = self._conversation.why_not(login)
        return self._known[login]
