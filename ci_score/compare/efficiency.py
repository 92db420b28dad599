"""What the user gave and what the profile has → throughput per device, roofline and MFU.

An explicit value wins over the profile's own. Nothing is guessed: an unknown value stays None, and
the scorecard says so.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ci_score.errors import WrongUseError
from ci_score.files.strict_json import overflow_is_bad_input
from ci_score.model.accelerators import (
    Accelerator,
    Preset,
    find_accelerator,
    find_preset,
    unknown,
)
from ci_score.model.profile import Profile
from ci_score.model.reasons import Note
from ci_score.model.scorecard import Hardware, Scorecard
from ci_score.model.trained_model import Model
from ci_score.reference import compute_scorecard

LONGEST_NAME = 200


@dataclass(frozen=True, slots=True)
class Workload:
    """What the user says about a run, because the profile lacks it or has it wrong."""

    throughput_tok_s: float | None = None
    tokens_per_step: float | None = None
    hardware: str | None = None
    accelerator_count: int | None = None
    peak_bandwidth_gb_s: float | None = None
    bytes_per_token: float | None = None
    bytes_per_step: float | None = None
    flops_per_token: float | None = None
    precision: str | None = None
    recomputed_flops_per_token: float | None = None

    def with_model(self, model: Model) -> Workload:
        """The workload with the policy's model filled in; the user's own values win."""
        return replace(
            self,
            flops_per_token=_first(self.flops_per_token, flops_per_token(model)),
            precision=self.precision or model.precision,
            recomputed_flops_per_token=_first(
                self.recomputed_flops_per_token, model.recomputed_flops_per_token
            ),
        )


def flops_per_token(model: Model) -> float | None:
    """The work of a token, forward and backward: 6 FLOPs per active parameter, and attention.

    Attention grows with the sequence: 12 · layers · hidden · sequence. The halving that a causal
    mask allows is left out, as MFU is usually quoted without it.
    """
    if model.flops_per_token is not None:
        return model.flops_per_token
    active = _first(model.active_parameters, model.parameters)
    if active is None:
        return None
    attention = 12.0 * (model.layers or 0) * (model.hidden or 0) * (model.sequence or 0)
    return 6.0 * active + attention


def training_scorecard(profile: Profile, workload: Workload) -> Scorecard:
    """The scorecard of a run, computed from one device's throughput, with the job's beside it."""
    if workload.bytes_per_token is not None and workload.bytes_per_step is not None:
        raise WrongUseError("give the bytes of a token or of a step, not both")
    with overflow_is_bad_input("profile"):
        return _training_scorecard(profile, workload)


def _training_scorecard(profile: Profile, workload: Workload) -> Scorecard:
    preset = find_preset(workload.hardware) if workload.hardware else None
    measured_on = _measured_on(profile)
    named = _named_accelerator(workload.hardware) if workload.hardware and not preset else None
    roofline = named or measured_on
    count = workload.accelerator_count or profile.accelerator_count
    job = _job_throughput(profile, workload)
    device = job / (count or 1)
    hardware = Hardware(
        peak_bw_gb_s=_first(
            workload.peak_bandwidth_gb_s,
            preset.bandwidth_gb_s if preset else None,
            named.bandwidth_gb_s if named else None,
            profile.peak_bandwidth_gb_s,
            measured_on.bandwidth_gb_s if measured_on else None,
        ),
        bytes_per_token=_first(
            workload.bytes_per_token,
            _bytes_per_token_of_a_step(profile, workload, job),
            preset.bytes_per_token if preset else None,
        ),
    )
    card = compute_scorecard(profile, device, hardware)
    mfu, mfu_words = _mfu(device, roofline, workload)
    noted = [*card.noted]
    if job > 0 and count is None:
        words = "The number of accelerators is not known: the throughput is taken as one's."
        noted.append(Note(code="unknown_device_count", words=words))
    if profile.accelerator and measured_on is None:
        shown = f"{profile.accelerator[:80]!r}"
        words = f"The accelerator {shown} is not in the table of `ci-score hardware`."
        noted.append(Note(code="unknown_accelerator", words=words))
    if mfu_words and (mfu is None or mfu > 1):
        words = mfu_words if mfu is None else f"An MFU of {mfu * 100:.0f} % cannot be right."
        noted.append(Note(code="no_mfu" if mfu is None else "impossible_mfu", words=words))
    return card.but(
        noted=tuple(noted),
        job_throughput_tok_s=job or None,
        # The profile knows what it ran on; `hardware` may name another device's roofline.
        accelerator=_accelerator_name(profile, measured_on, named, preset),
        accelerator_count=count,
        mfu=mfu,
        mfu_basis=mfu_words if mfu is not None else None,
        hfu=_hfu(mfu, workload),
    )


def _hfu(mfu: float | None, workload: Workload) -> float | None:
    """Hardware FLOP/s utilisation: MFU with the work that is computed a second time."""
    again, once = workload.recomputed_flops_per_token, workload.flops_per_token
    if mfu is None or again is None or not once:
        return None
    return mfu * (once + again) / once


def _accelerator_name(
    profile: Profile,
    measured_on: Accelerator | None,
    named: Accelerator | None,
    preset: Preset | None,
) -> str | None:
    if profile.accelerator:
        return measured_on.name if measured_on else profile.accelerator[:LONGEST_NAME]
    known = named or preset
    return known.name if known else None


def _first(*values: float | None) -> float | None:
    return next((value for value in values if value is not None), None)


def _measured_on(profile: Profile) -> Accelerator | None:
    """The row of the device that the profile names; the device's memory helps to find it."""
    if not profile.accelerator:
        return None
    return find_accelerator(profile.accelerator, profile.accelerator_memory_gb)


def _named_accelerator(name: str) -> Accelerator:
    accelerator = find_accelerator(name)
    if accelerator is None:
        raise unknown(name, "; or give the peak bandwidth yourself")
    return accelerator


def _tokens_per_step(profile: Profile, workload: Workload) -> float | None:
    return _first(workload.tokens_per_step, profile.tokens_per_step)


def _job_throughput(profile: Profile, workload: Workload) -> float:
    """Tokens per second of the whole job; 0 if not known, as in the reference."""
    given = _first(workload.throughput_tok_s, profile.throughput_tok_s)
    if given is not None:
        return given
    tokens = _tokens_per_step(profile, workload)
    if tokens is None or profile.avg_step_ms <= 0:
        return 0.0
    return tokens / profile.avg_step_ms * 1000.0


def _bytes_per_token_of_a_step(
    profile: Profile, workload: Workload, job_tok_s: float
) -> float | None:
    """The bytes of a step, shared by its tokens, because training reads its weights once per step.

    The bytes are those of one device, so they are divided by one device's tokens.
    """
    if workload.bytes_per_step is None:
        return None
    tokens = _tokens_per_step(profile, workload) or job_tok_s * profile.avg_step_ms / 1000.0
    if tokens <= 0:
        return None
    count = workload.accelerator_count or profile.accelerator_count or 1
    return workload.bytes_per_step / (tokens / count)


def _mfu(
    device_tok_s: float, accelerator: Accelerator | None, workload: Workload
) -> tuple[float | None, str | None]:
    """Model FLOP/s utilisation and its basis in words; or None, and what is missing."""
    if workload.flops_per_token is None:
        return None, None
    if device_tok_s <= 0:
        return None, "No MFU: the throughput is not known."
    if accelerator is None:
        return None, "No MFU: the accelerator is not known."
    if workload.precision is None:
        return None, "No MFU: the precision is not known (for example --precision bf16)."
    peak = accelerator.flops.get(workload.precision)
    if peak is None:
        known = ", ".join(accelerator.flops)
        return (
            None,
            f"No MFU: no dense {workload.precision} peak of {accelerator.name} (known: {known}).",
        )
    basis = f"dense {workload.precision} peak of {accelerator.name}, {peak / 1e12:g} TFLOP/s"
    return device_tok_s * workload.flops_per_token / peak, basis
