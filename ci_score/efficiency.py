"""What the user said and what the profile knows → throughput per device, roofline and MFU.

An explicit value wins over the profile's own. Nothing is guessed: what is not known stays None,
and the scorecard says so.
"""

from __future__ import annotations

from dataclasses import dataclass

from ci_score.errors import WrongUseError
from ci_score.hardware import Accelerator, find_accelerator, find_preset, suggestions
from ci_score.models import Hardware, Profile, Scorecard
from ci_score.scoring import compute_scorecard


@dataclass(frozen=True, slots=True)
class Workload:
    """What the user says about a run, where the profile does not or is wrong."""

    throughput_tok_s: float | None = None
    tokens_per_step: float | None = None
    hardware: str | None = None
    accelerator_count: int | None = None
    peak_bandwidth_gb_s: float | None = None
    bytes_per_token: float | None = None
    bytes_per_step: float | None = None
    flops_per_token: float | None = None
    precision: str | None = None


def training_scorecard(
    profile: Profile, workload: Workload, baseline: Scorecard | None = None
) -> Scorecard:
    """The scorecard of a run: fed with one device's throughput, with the job's beside it."""
    preset = find_preset(workload.hardware) if workload.hardware else None
    accelerator = _accelerator(profile, workload, named_by_preset=preset is not None)
    count = workload.accelerator_count or profile.accelerator_count
    job = _job_throughput(profile, workload)
    device = job / (count or 1)
    hardware = Hardware(
        peak_bw_gb_s=_first(
            workload.peak_bandwidth_gb_s,
            preset.bandwidth_gb_s if preset else None,
            accelerator.bandwidth_gb_s if accelerator and workload.hardware else None,
            profile.peak_bandwidth_gb_s,
            accelerator.bandwidth_gb_s if accelerator else None,
        ),
        bytes_per_token=_first(
            workload.bytes_per_token,
            _bytes_per_token_of_a_step(profile, workload),
            preset.bytes_per_token if preset else None,
        ),
    )
    card = compute_scorecard(profile, device, hardware, baseline)
    mfu, mfu_note = _mfu(device, accelerator, workload)
    notes = [*card.notes]
    if job > 0 and count is None:
        notes.append("The number of accelerators is not known: the throughput is taken as one's.")
    if profile.accelerator and accelerator is None and not preset:
        notes.append(
            f"The accelerator {profile.accelerator[:80]!r} is not in the table of `ci-score"
            " hardware`: its peak is not known."
        )
    notes += [mfu_note] if mfu_note and mfu is None else []
    return card.model_copy(
        update={
            "notes": tuple(notes),
            "job_throughput_tok_s": job or None,
            "accelerator": preset.name if preset else _accelerator_name(profile, accelerator),
            "accelerator_count": count,
            "mfu": mfu,
            "mfu_basis": mfu_note if mfu is not None else None,
        }
    )


def _first(*values: float | None) -> float | None:
    return next((value for value in values if value is not None), None)


def _accelerator(
    profile: Profile, workload: Workload, *, named_by_preset: bool
) -> Accelerator | None:
    if named_by_preset:
        return None
    if workload.hardware is None:
        return find_accelerator(profile.accelerator) if profile.accelerator else None
    found = find_accelerator(workload.hardware)
    if found is None:
        close = suggestions(workload.hardware)
        hint = f" Did you mean {', '.join(close)}?" if close else ""
        raise WrongUseError(
            f"no accelerator is called {workload.hardware[:80]!r}.{hint}"
            " `ci-score hardware` lists all; or give --peak-bandwidth-gb-s yourself."
        )
    return found


def _accelerator_name(profile: Profile, accelerator: Accelerator | None) -> str | None:
    return accelerator.name if accelerator else profile.accelerator


def _tokens_per_step(profile: Profile, workload: Workload) -> float | None:
    return _first(workload.tokens_per_step, profile.tokens_per_step)


def _job_throughput(profile: Profile, workload: Workload) -> float:
    """Tokens per second of the whole job; 0 where it is not known, as in the reference."""
    if workload.throughput_tok_s is not None:
        return workload.throughput_tok_s
    tokens = _tokens_per_step(profile, workload)
    if tokens is None or profile.avg_step_ms <= 0:
        return 0.0
    return tokens / profile.avg_step_ms * 1000.0


def _bytes_per_token_of_a_step(profile: Profile, workload: Workload) -> float | None:
    """Training reads its weights once a step, so the bytes of a step are shared by its tokens.

    The bytes are one device's, so the tokens are too.
    """
    tokens = _tokens_per_step(profile, workload)
    if workload.bytes_per_step is None or not tokens:
        return None
    count = workload.accelerator_count or profile.accelerator_count or 1
    return workload.bytes_per_step / (tokens / count)


def _mfu(
    device_tok_s: float, accelerator: Accelerator | None, workload: Workload
) -> tuple[float | None, str | None]:
    """Model FLOP/s utilisation and what it rests on, or None and what is missing."""
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
