"""The words and numbers that people read, the same in every report."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Protocol

from ci_score.model.environment import Environment
from ci_score.model.explanation import OpChange
from ci_score.model.metrics import MINUS, metric_of, significant
from ci_score.model.record import BaselineUsed, CaseRecord
from ci_score.model.scorecard import Bottleneck, Parity, Scorecard
from ci_score.model.verdict import Change, Outcome

SHOWN_VERSIONS = 4
ICONS: dict[Outcome, str] = {
    Outcome.PASS: "✅",
    Outcome.WARN: "⚠️",
    Outcome.INCONCLUSIVE: "❔",
    Outcome.FAIL: "❌",
}
VERDICTS: dict[Outcome, str] = {
    Outcome.PASS: "Pass",
    Outcome.WARN: "Warning",
    Outcome.INCONCLUSIVE: "Inconclusive",
    Outcome.FAIL: "Fail",
}
# The reference says `compute` of whatever is above half its memory roofline.
BOTTLENECKS: dict[Bottleneck, str] = {
    "transfer": "host-device transfers",
    "launch": "kernel launches and gaps between phases",
    "compute": "not memory bandwidth (above half its roofline)",
    "memory_bw": "memory bandwidth",
}
ADVICE: dict[Bottleneck, str] = {
    "transfer": "Copies take over 30 % of the step: pin memory, overlap them with compute,"
    " or keep the data on the device.",
    "launch": "Over 40 % of the step lies outside all phases: fuse small kernels, capture CUDA"
    " graphs or compile the model.",
    "compute": "",
    "memory_bw": "Fuse element-wise ops, use lower precision or a larger batch, so that each"
    " byte read does more work.",
}


# What not everybody in a team knows, said under the table that uses it. docs/glossary.md has all.
FOOTNOTES = {
    "MFU": "the FLOPs that the model needs, as a share of the accelerator's dense peak",
    "HFU": "like MFU, with the FLOPs of recomputation",
    "roofline": "the throughput that the memory bandwidth could feed if nothing else took time",
    "Exposed communication": "the time of collectives during which the device computes nothing",
}


class Changed(Protocol):
    """A line of a table of times."""

    @property
    def delta_ms(self) -> float:
        """How much longer it takes now."""
        ...


def milliseconds(value: float) -> str:
    """`375 ms`"""
    return significant(value, "ms")


def delta_milliseconds(value: float) -> str:
    """`+11.8 ms`"""
    return ("+" if value >= 0 else MINUS) + significant(abs(value), "ms")


def common_places(changed: Iterable[Changed]) -> int | None:
    """With how many decimals the changes of a table are written: three digits of the largest."""
    largest = max((abs(one.delta_ms) for one in changed), default=0.0)
    return max(0, min(2 - math.floor(math.log10(largest)), 5)) if 0.001 <= largest < 1e9 else None


def delta_at(value: float | None, places: int | None) -> str:
    """`+0.0 ms` beside `+80.0 ms`: more digits than the largest change has say nothing."""
    if value is None or places is None:
        return maybe_delta(value)
    shown = f"{abs(value):,.{places}f} ms"
    if not any(digit in shown for digit in "123456789"):
        return shown
    return ("+" if value >= 0 else MINUS) + shown


def limit(change: Change) -> str:
    """From where on the rules warn and fail: `−10 % warns, −20 % fails`; a dash without a gate."""
    if not change.gated or change.warn_limit is None:
        return "–"
    metric = metric_of(change)
    words = f"{metric.show_limit(change.warn_limit)} warns"
    if change.fail_limit is not None:
        words += f", {metric.show_limit(change.fail_limit)} fails"
    return words


def delta_words(change: Change) -> str:
    """The change with its 95 % interval: `−9.5 % (−10.1 to −8.9 %)`."""
    if change.delta is None:
        return f"not compared: {change.not_compared}" if change.not_compared else "not compared"
    metric = metric_of(change)
    shown = metric.show_delta(change.delta)
    if change.low is None or change.high is None:
        return shown
    low, high = metric.show_delta(change.low), metric.show_delta(change.high)
    value, _, unit = low.rpartition(" ")
    return f"{shown} ({value if unit and high.endswith(unit) else low} to {high})"


def outcome_words(change: Change) -> str:
    """What the change means, with a sign and a word; nothing where it is within its limits."""
    if change.accepted:
        return "☑️ accepted"
    if change.outcome is None:
        return ""
    said = {
        Outcome.FAIL: "❌ fails",
        Outcome.INCONCLUSIVE: "❔ too noisy",
        Outcome.WARN: "⚠️ warning",
        Outcome.PASS: "✅ within" if change.gated and change.delta is not None else "",
    }
    proof = change.reason or ""
    doubt = " (not proven)" if proof.startswith(("not proven", "unverified")) else ""
    return said[change.outcome] + doubt


def facts(card: Scorecard) -> list[tuple[str, str]]:
    """What the scorecard knows, as pairs of name and value; what it does not know is left out."""
    rows: list[tuple[str, str]] = []
    if card.graded:
        rows.append(("Grade", card.grade))
        rows.append(("Efficiency", f"{card.efficiency * 100:.1f} % of the memory roofline"))
    else:
        rows.append(("Grade", f"not graded: {card.ungraded_reason}"))
    if card.mfu is not None:
        rows.append(("MFU", f"{card.mfu * 100:.1f} % of the {card.mfu_basis}"))
    if card.graded and card.bottleneck_known:
        rows.append(("Bottleneck", BOTTLENECKS[card.bottleneck]))
    if card.throughput_tok_s > 0:
        rows.append(("Throughput per device", significant(card.throughput_tok_s, "tok/s")))
    if card.job_throughput_tok_s and (card.accelerator_count or 1) > 1:
        job = significant(card.job_throughput_tok_s, "tok/s")
        rows.append(("Throughput of the job", f"{job} on {card.accelerator_count} devices"))
    if card.step_time_ms > 0:
        rows.append(("Step time", milliseconds(card.step_time_ms)))
    if card.forward_backward_ratio > 0:
        rows.append(("Backward / forward", f"{card.forward_backward_ratio:.2f}"))
    if card.wall_coverage > 0:
        rows.append(("Wall coverage", f"{card.wall_coverage * 100:.1f} %"))
    if card.accelerator:
        rows.append(("Accelerator", card.accelerator))
    return rows


def advice(card: Scorecard) -> str:
    """What to try, for a graded scorecard whose grade leaves room; else nothing."""
    if not (card.graded and card.bottleneck_known) or card.grade in ("A", "B"):
        return ""
    return ADVICE[card.bottleneck]


def other_versions(baseline: BaselineUsed) -> list[str]:
    """What else is not the same there, which may be the very subject of the change."""
    changed = baseline.changed_versions
    if not changed:
        return []
    more = f" and {len(changed) - SHOWN_VERSIONS} more" if len(changed) > SHOWN_VERSIONS else ""
    return ["other versions: " + ", ".join(changed[:SHOWN_VERSIONS]) + more]


def compared_with(baseline: BaselineUsed) -> str:
    """Which record it was compared with, how far away and from when."""
    if baseline.commit is None:
        parts = [f"compared with {baseline.source}"]
    else:
        parts = [f"compared with commit {baseline.commit[:12]}"]
    if baseline.commits_away:
        plural = "s" if baseline.commits_away > 1 else ""
        parts.append(f"{baseline.commits_away} commit{plural} before the tested base")
    if baseline.run:
        parts.append(f"run {baseline.run.number}")
    if baseline.created_at:
        parts.append(baseline.created_at[:16].replace("T", " ") + " UTC")
    return ", ".join(parts)


def counts(op: OpChange) -> str:
    """Launches on both sides: `196 → 588`."""
    if op.base_count is None or op.head_count is None:
        return "–"
    return f"{op.base_count:,.0f} → {op.head_count:,.0f}"


def maybe_delta(value: float | None) -> str:
    """A change in milliseconds where it is known."""
    return "–" if value is None else delta_milliseconds(value)


def headline_delta(change: Change | None, *, named: bool = False) -> str:
    """The change that stands for a case in a list of cases, named where they are of several."""
    if change is None:
        return "–"
    return f"{metric_of(change).label} {delta_words(change)}" if named else delta_words(change)


def is_slower(case: CaseRecord) -> bool:
    """Whether there is a slowdown to explain: one that was found, and not only seen."""
    return case.verdict is not None and any(
        change.outcome in (Outcome.FAIL, Outcome.WARN) or change.accepted for change in case.changes
    )


def to_try(case: CaseRecord) -> list[str]:
    """What could be done about it: our own advice, with the reference's bottleneck where graded."""
    said = advice(case.scorecard)
    return [*case.advice, *([said] if said and not case.advice else [])]


def base_revision(case: CaseRecord) -> str:
    """What to check out as the base."""
    commit = case.baseline.commit if case.baseline else None
    return commit[:12] if commit else "origin/main"


def environment_lines(environment: Environment) -> list[str]:
    """What it ran on: versions inform, and may be the very subject of the change."""
    return [f"{name}: {version}" for name, version in sorted(environment.versions.items())]


def parity_words(parity: Parity) -> str:
    """Whether the runtimes are at par; a comparison of little is neither."""
    if not parity.judged:
        return f"not judged, {parity.unjudged_reason or 'no op in common'}"
    return "achieved" if parity.parity_achieved else "not achieved"


def footnotes(shown: Iterable[str]) -> list[str]:
    """What the words in a table mean, of those that need it."""
    text = " ".join(shown)
    return [f"{word}: {meaning}" for word, meaning in FOOTNOTES.items() if word in text]
