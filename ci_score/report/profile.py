"""Profile → text for a terminal: what was read, and where each number comes from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ci_score.model.profile import OpOrigin, Profile
from ci_score.model.sums import plain_sum
from ci_score.report.names_of_case import names_of_case
from ci_score.report.numbers import milliseconds
from ci_score.report.screen import UNLIMITED, Screen

SHOWN_OPS = 12


def profile_text(profile: Profile, screen: Screen = UNLIMITED) -> str:
    """Every number that was measured, its source, and what could not be derived."""
    step_ms = profile.avg_step_ms
    phases = {name: phase.total_ms for name, phase in profile.phases.items()}
    ops = _times(profile.ops, step_ms, screen, profile.op_origins)
    blocks = [
        screen.text(f"Not usable: {profile.unusable}", "fail") if profile.unusable else "",
        screen.table(list(_rows(profile)), ("fixed", "text", "text")),
        _titled(_of_phases(profile), _times(phases, step_ms, screen), screen),
        _titled("By kind", _times(profile.op_categories, step_ms, screen), screen),
        _titled("Ops", ops, screen),
        _titled("Notes", "\n".join(map(screen.item, profile.notes)), screen),
    ]
    return "\n\n".join(filter(None, blocks)) + "\n"


def _titled(title: str, body: str, screen: Screen) -> str:
    return f"{screen.text(title, 'heading')}\n{body}" if body else ""


def _of_phases(profile: Profile) -> str:
    source = profile.sources.get("phases")
    return f"Phases ({source})" if source else "Phases"


def _rows(profile: Profile) -> Iterable[tuple[str, str, str]]:
    for name, value, field in (
        ("Tool", profile.tool, "tool"),
        ("Steps", str(profile.steps) if profile.steps else None, "steps"),
        ("Step time", _ms(profile.avg_step_ms or None), "avg_step_ms"),
        ("Tokens a step", _number(profile.tokens_per_step), "tokens_per_step"),
        ("Throughput", _number(profile.throughput_tok_s, " tok/s"), "throughput_tok_s"),
        ("Wall coverage", _share(profile.wall_coverage or None), "wall_coverage"),
        ("Device busy", _ms(profile.device_busy_ms), "device_busy_ms"),
        ("Device idle", _share(profile.device_idle_share), "device_idle_share"),
        ("Compute", _ms(profile.compute_ms), "compute_ms"),
        ("Communication", _ms(profile.communication_ms), "communication_ms"),
        ("  exposed", _ms(profile.exposed_communication_ms), "exposed_communication_ms"),
        ("Kernels a step", _number(profile.device_kernels_per_step), "device_kernels_per_step"),
        ("Launches a step", _number(profile.kernel_launches_per_step), "kernel_launches_per_step"),
        (
            "Repeats" if profile.layers_are == "repeats" else "Layers",
            _number(len(profile.per_layer) or None),
            "per_layer",
        ),
        ("Accelerator", profile.accelerator, "accelerator"),
        ("Devices", _number(profile.accelerator_count), "accelerator_count"),
        (
            "Memory of a device",
            _number(profile.accelerator_memory_gb, " GB"),
            "accelerator_memory_gb",
        ),
        ("Peak bandwidth", _number(profile.peak_bandwidth_gb_s, " GB/s"), "peak_bandwidth_gb_s"),
        ("Peak memory", _number(profile.peak_memory_gb, " GB"), "peak_memory_gb"),
        ("Ranks", _number(profile.world_size), "world_size"),
        ("Rank", _number(profile.rank), "rank"),
    ):
        if value is not None:
            yield name, value, profile.sources.get(field, "")


def _times(
    times: Mapping[str, float],
    step_ms: float,
    screen: Screen,
    origins: Mapping[str, OpOrigin] | None = None,
) -> str:
    """What takes most of the step, with a bar for each of them."""
    ordered = sorted(times, key=lambda name: (-times[name], name))
    shown = [(name, times[name]) for name in ordered[:SHOWN_OPS]]
    largest = max((abs(time) for _, time in shown), default=0.0)
    if origins is not None:
        names = names_of_case({name: origins.get(name) for name, _ in shown})
        shown = [(names[name], time) for name, time in shown]
    rest = [times[name] for name in ordered[SHOWN_OPS:]]
    lines = [(*_time(name, time, step_ms), screen.bar(time, largest)) for name, time in shown]
    if rest:
        lines.append((*_time(f"{len(rest)} more", plain_sum(rest), step_ms), ""))
    return screen.table(lines, ("name", "number", "number", "bar"))


def _time(name: str, time: float, step_ms: float) -> tuple[str, str, str]:
    return name, milliseconds(time), _share(time / step_ms) or "" if step_ms else ""


def _ms(value: float | None) -> str | None:
    return None if value is None else milliseconds(value)


def _share(value: float | None) -> str | None:
    return None if value is None else f"{value * 100:.1f} %"


def _number(value: float | None, unit: str = "") -> str | None:
    return None if value is None else f"{value:,.6g}{unit}"
