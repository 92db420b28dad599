"""What the scorecard says beside the reference's numbers."""

from __future__ import annotations

import math
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_score import Hardware, Profile, Scorecard, compute_scorecard
from ci_score.compare.changes import differences
from ci_score.errors import BadInputError
from ci_score.model import metrics
from ci_score.model.profile import Layer, Phase
from ci_score.reference.scoring import find_regressions
from ci_score.report import words
from tests.builders import case, layer, phase, profile, scorecard

ROOFLINE = Hardware(peak_bw_gb_s=256.0, bytes_per_token=158e6)
MS = st.floats(min_value=0.001, max_value=1e4)
NAMES = st.sampled_from(["fwd", "bwd", "opt", "h2d", "copy_d2h", "loss", "norm"])
PHASES = st.dictionaries(NAMES, st.builds(phase, MS, st.floats(min_value=0, max_value=40)))
LAYERS = st.lists(
    st.builds(
        lambda n, f, b, ops: Layer(layer=n, fwd_ms=f, bwd_ms=b, ops=ops),
        st.integers(0, 5),
        MS,
        MS,
        st.dictionaries(NAMES, MS),
    ),
    max_size=4,
)
PROFILES = st.builds(
    lambda step, phases, layers: Profile(
        steps=3, avg_step_ms=step, wall_coverage=0.9, phases=phases, per_layer=layers
    ),
    MS,
    PHASES,
    LAYERS,
)


def notes(profile: Profile, tok_s: float = 500.0, hardware: Hardware | None = ROOFLINE) -> str:
    return "\n".join(compute_scorecard(profile, tok_s, hardware).notes)


def test_notes__a_sound_profile_has_none() -> None:
    """Where there is nothing to say, nothing is said."""
    assert notes(profile()) == ""


@pytest.mark.parametrize(
    ("blind", "words"),
    [
        (profile(phases={}), "no phases"),
        (profile(per_layer=()), "no layers"),
        (profile(step_ms=0.0), "step time is 0"),
        (
            profile(phases={"forward": phase(1000.0)}),
            "10.0 times the step: these look like run totals",
        ),
        (profile(wall_coverage=0.899), "89.9 % of the wall time"),
        (profile(wall_coverage=0.8999999), "89.9 % of the wall time"),
        (profile(wall_coverage=0.0), "0 or was not given"),
        (profile(wall_coverage=97.0), "9700% is no share"),
        (profile(per_layer=[layer(bwd_ms=0.0)]), "No layer has a backward time"),
        (profile(per_layer=[layer(fwd_ms=1.0, bwd_ms=0.5)]), "0.50 times the forward"),
        (profile(per_layer=[layer(fwd_ms=1.0, bwd_ms=5.5)]), "5.50 times the forward"),
    ],
)
def test_notes__say_where_the_reference_is_blind(blind: Profile, words: str) -> None:
    """Each blind spot of the reference has its plain words."""
    assert words in notes(blind)


@pytest.mark.parametrize(
    "sound",
    [
        profile(phases={"forward": phase(150.0)}),
        profile(wall_coverage=0.90),
        profile(per_layer=[layer(fwd_ms=1.0, bwd_ms=1.0)]),
        profile(per_layer=[layer(fwd_ms=1.0, bwd_ms=5.0)]),
    ],
)
def test_notes__at_the_limit_nothing_is_said(sound: Profile) -> None:
    """1.5 times the step, 90 %, 1 and 5 are still usual."""
    assert notes(sound) == ""


def test_bottleneck__half_the_roofline_is_still_memory() -> None:
    """The reference calls it compute only above one half."""
    card = compute_scorecard(profile(), 500.0, Hardware(1000.0, 1e9))
    assert (card.efficiency, card.bottleneck) == (0.5, "memory_bw")


@pytest.mark.parametrize("blind", [profile(phases={}), profile(step_ms=0.0)])
def test_bottleneck__is_not_known_without_phases_or_step(blind: Profile) -> None:
    """The reference calls both launch bound; no renderer of ours repeats it."""
    card = compute_scorecard(blind, 500.0, ROOFLINE)
    assert card.graded
    assert not card.bottleneck_known
    assert "Bottleneck" not in dict(words.facts(card))
    assert not words.advice(card)


def test_metrics__a_new_row_changes_nothing_in_the_reference(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A metric is one row, and the reference's rules are frozen all the same."""
    row = replace(metrics.METRICS[0], name="ours", reference=None)
    monkeypatch.setattr(metrics, "METRICS", (*metrics.METRICS, row))
    head, base = scorecard(200.0, 500.0), scorecard(100.0, 1000.0)
    assert len(find_regressions(head, base)) == 2
    names = [metric.name for metric in metrics.METRICS]
    rows = differences(case(card=head), case(card=base), names)
    assert (rows[-1].metric, rows[-1].severity) == ("ours", None)


def test_notes__run_totals_need_more_than_one_step() -> None:
    """One step's phases may overlap; only several steps can have been added up."""
    assert "run totals" not in notes(profile(steps=1, phases={"forward": phase(1000.0)}))


def test_notes__throughput_above_the_roofline_says_how_many_times() -> None:
    """A throughput that the memory cannot feed is not 100 % efficient, it is a wrong number."""
    card = compute_scorecard(profile(), 16300.0, ROOFLINE)
    assert (card.grade, card.efficiency) == ("A", 1.0)
    assert "above the roofline (10.1 times)" in "\n".join(card.notes)
    assert not card.graded


@pytest.mark.parametrize(
    ("tok_s", "hardware", "reason"),
    [
        (500.0, None, "bandwidth"),
        (500.0, Hardware(peak_bw_gb_s=256.0), "bytes"),
        (500.0, Hardware(bytes_per_token=1e6), "bandwidth"),
        (500.0, Hardware(0.0, 158e6), "roofline is 0"),
        (500.0, Hardware(256.0, 0.0), "roofline is 0"),
        (0.0, ROOFLINE, "throughput is not known"),
    ],
)
def test_graded__is_false_with_a_reason(
    tok_s: float, hardware: Hardware | None, reason: str
) -> None:
    """Without throughput or roofline the reference's F is kept, and marked as no grade."""
    card = compute_scorecard(profile(), tok_s, hardware)
    assert (card.grade, card.efficiency, card.graded) == ("F", 0.0, False)
    assert reason in (card.ungraded_reason or "")


def test_notes__are_not_in_the_reference_markdown() -> None:
    """The reference's text stays the reference's."""
    from ci_score import scorecard_markdown

    card = compute_scorecard(Profile(), 0.0, None)
    assert card.notes
    assert all(note not in scorecard_markdown(card) for note in card.notes)


@pytest.mark.parametrize("tok_s", [math.nan, math.inf, -1.0, 10**400, True, "3", None])
def test_compute__refuses_a_throughput_that_is_none(tok_s: Any) -> None:
    """A number that is not finite, or negative, is an error and not an F."""
    with pytest.raises(BadInputError, match="throughput"):
        compute_scorecard(profile(), tok_s, ROOFLINE)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_hardware__refuses_what_is_not_finite(value: float) -> None:
    """A roofline is made of finite numbers."""
    with pytest.raises(ValueError, match="finite"):
        Hardware(value, 1.0)


def test_compute__an_overflow_is_refused() -> None:
    """Finite times whose ratio is not finite cannot be printed, so they are no profile."""
    with pytest.raises(BadInputError, match="overflow"):
        compute_scorecard(profile(per_layer=[layer(fwd_ms=1e-300, bwd_ms=1e300)]), 1.0, ROOFLINE)
    with pytest.raises(BadInputError, match="overflow"):
        compute_scorecard(profile(), 1.0, ROOFLINE, scorecard(tok_s=5e-324, step_ms=5e-324))


@given(PROFILES, st.floats(0, 1e4), st.floats(0, 1e4))
def test_grade__is_monotonic_in_efficiency(profile: Profile, one: float, other: float) -> None:
    """More throughput on the same hardware never has a worse grade."""
    low, high = (compute_scorecard(profile, tok_s, ROOFLINE) for tok_s in sorted((one, other)))
    assert low.efficiency <= high.efficiency
    assert "FDCBA".index(low.grade) <= "FDCBA".index(high.grade)


@given(PROFILES, st.sampled_from([0.25, 0.5, 2.0, 1024.0]))
def test_scaling__all_times_leaves_ratios(profile: Profile, k: float) -> None:
    """A machine k times slower has the same ratios, shares, bottleneck and advice."""
    scaled = Profile(
        steps=profile.steps,
        avg_step_ms=profile.avg_step_ms * k,
        wall_coverage=profile.wall_coverage,
        phases={
            name: Phase(total_ms=p.total_ms * k, pct=p.pct, avg_ms=p.avg_ms * k)
            for name, p in profile.phases.items()
        },
        per_layer=[
            Layer(
                layer=row.layer,
                fwd_ms=row.fwd_ms * k,
                bwd_ms=row.bwd_ms * k,
                ops={op: ms * k for op, ms in row.ops.items()},
            )
            for row in profile.per_layer
        ],
    )
    before = compute_scorecard(profile, 100.0, ROOFLINE)
    after = compute_scorecard(scaled, 100.0, ROOFLINE)
    assert after.forward_backward_ratio == before.forward_backward_ratio
    assert after.bottleneck == before.bottleneck
    assert after.recommendations == before.recommendations
    assert [row.top_op_pct for row in after.per_layer_summary] == [
        row.top_op_pct for row in before.per_layer_summary
    ]
    assert [(op, pct) for op, _, pct in after.hotspot_ops] == [
        (op, pct) for op, _, pct in before.hotspot_ops
    ]


@given(PROFILES, st.randoms(use_true_random=False))
def test_permuting__phases_and_ops_changes_nothing(profile: Profile, random: Random) -> None:
    """The order in which a profiler writes names has no influence on any bit."""
    phases = list(profile.phases.items())
    random.shuffle(phases)
    layers = []
    for row in profile.per_layer:
        ops = list(row.ops.items())
        random.shuffle(ops)
        layers.append(row.but(ops=dict(ops)))
    permuted = profile.but(phases=dict(phases), per_layer=tuple(layers))
    before = compute_scorecard(profile, 100.0, ROOFLINE)
    assert compute_scorecard(permuted, 100.0, ROOFLINE) == before


@given(PROFILES, st.none() | st.builds(scorecard, MS, MS))
def test_json__reads_back_equal(profile: Profile, baseline: Scorecard | None) -> None:
    """A scorecard that was printed and read is the same scorecard."""
    card = compute_scorecard(profile, 100.0, ROOFLINE, baseline)
    assert Scorecard.model_validate_json(card.model_dump_json()) == card
    assert Profile.model_validate_json(profile.model_dump_json()) == profile
