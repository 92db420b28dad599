"""The reference's own markdown, to the last byte.

Names are not escaped. It is for files and for comparing with the reference, and is never posted;
the room `report` escapes what people see.
"""

from __future__ import annotations

from collections.abc import Iterable

from ci_score.model.scorecard import Parity, Scorecard


def scorecard_markdown(scorecard: Scorecard) -> str:
    """A scorecard as the reference prints it."""
    lines = [
        "## Training Scorecard",
        "",
        "| Metric | Value |",
        "|--------|-------|",
        f"| Grade | **{scorecard.grade}** |",
        f"| Efficiency | {scorecard.efficiency * 100:.1f}% |",
        f"| Bottleneck | {scorecard.bottleneck} |",
        f"| Throughput | {scorecard.throughput_tok_s:.0f} tok/s |",
        f"| Step time | {scorecard.step_time_ms:.1f} ms |",
        f"| Fwd/Bwd ratio | {scorecard.forward_backward_ratio:.2f} |",
        f"| Wall coverage | {scorecard.wall_coverage * 100:.1f}% |",
    ]
    if scorecard.hotspot_ops:
        lines += [
            "",
            "### Hotspot Operations",
            "",
            "| Op | Total ms | % |",
            "|-----|---------|---|",
        ]
        lines += [f"| {op} | {ms:.1f} | {pct:.1f}% |" for op, ms, pct in scorecard.hotspot_ops]
    lines += _bullets(
        "Regressions",
        (
            f"**{change.metric}**: {change.delta * 100:.1f}% ({change.severity.value}) "
            for change in scorecard.regressions
        ),
    )
    lines += _bullets("Recommendations", scorecard.recommendations)
    return "\n".join(lines) + "\n"


def parity_markdown(parity: Parity) -> str:
    """A parity as the reference prints it."""
    faster, more = f"{parity.throughput_ratio:.1f}x", f"{parity.launch_ratio:.1f}x"
    lines = [
        f"## Parity: {parity.apr_runtime} vs {parity.baseline_runtime}",
        "",
        f"- **Throughput gap**: {faster} ({parity.baseline_runtime} is {faster} faster)",
        f"- **Kernel launches**: {more} (APR launches {more} more)",
        f"- **Parity achieved**: {'YES' if parity.parity_achieved else 'NO'}",
    ]
    if parity.top_gaps:
        lines += [
            "",
            "### Top Gaps",
            "",
            "| Op | APR (ms) | Baseline (ms) | Ratio |",
            "|-----|---------|--------------|-------|",
        ]
        lines += [
            f"| {gap.op} | {gap.apr_ms:.1f} | {gap.baseline_ms:.1f} | {gap.ratio:.1f}x |"
            for gap in parity.top_gaps
        ]
    return "\n".join(lines) + "\n"


def _bullets(title: str, entries: Iterable[str]) -> list[str]:
    bullets = [f"- {entry}" for entry in entries]
    return ["", f"### {title}", "", *bullets] if bullets else []
