"""Files → what was measured of each case. What cannot be read is a problem of its case."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath

from ci_score.case_files import CaseFile, CaseFiles
from ci_score.errors import BadInputError
from ci_score.measurements import Launch, Measured, Side, by_case, read_launches
from ci_score.models import ParityProfile, Profile
from ci_score.pipeline import CaseInput
from ci_score.profilers import read_profile
from ci_score.scoring import op_totals
from ci_score.strict_json import parse, validate


def read_cases(
    profiles: CaseFiles, measurements: CaseFiles, partners: CaseFiles
) -> tuple[CaseInput, ...]:
    """Every case that a profile or a measurement belongs to."""
    launches, problems = _launches(measurements)
    names = sorted({*profiles, *launches, *problems})
    return tuple(
        _case(
            name,
            profiles.get(name, []),
            launches.get(name, {}),
            problems.get(name),
            partners.get(name, []),
        )
        for name in names
    )


def _case(
    name: str,
    files: list[CaseFile],
    sides: dict[Side, Measured],
    problem: str | None,
    partner_files: list[CaseFile],
) -> CaseInput:
    profile, wrong_profile = Profile(), None
    try:
        profile = _profile(files)
    except BadInputError as error:
        wrong_profile = str(error)
    head, base = sides.get("head"), sides.get("base")
    if not head and not files:
        wrong_profile = "no file was found for it"
    partner, wrong_partner = _partner(partner_files)
    return CaseInput(
        name=name,
        profile=head.applied_to(profile) if head else profile,
        # Measurements judge alone: a profile that cannot be read then only explains nothing.
        problem=problem or (None if head else wrong_profile),
        notes=tuple(filter(None, (wrong_profile if head else None, wrong_partner))),
        launch_step_ms=head.launch_step_ms if head else (),
        base=base.applied_to(_same_machine(profile)) if head and base else None,
        partner=partner,
    )


def _profile(files: list[CaseFile]) -> Profile:
    if not files:
        return Profile()
    if len(files) > 1:
        names = ", ".join(file.name for file in files[:3])
        raise BadInputError(
            names,
            found=f"{len(files)} files for one case",
            expected="one; name each as `case=file`, or put each into a folder of its own",
        )
    return read_profile(files[0].read(), files[0].name)


def _same_machine(profile: Profile) -> Profile:
    """The other side of a session: the same machine, and nothing else of the head's profile."""
    return Profile(
        accelerator=profile.accelerator,
        accelerator_count=profile.accelerator_count,
        peak_bandwidth_gb_s=profile.peak_bandwidth_gb_s,
        tokens_per_step=profile.tokens_per_step,
    )


def _launches(files: CaseFiles) -> tuple[dict[str, dict[Side, Measured]], dict[str, str]]:
    """The launches by case and side, and of files that cannot be read the reason."""
    launches: list[Launch] = []
    problems: dict[str, str] = {}
    for name, case_files in files.items():
        for file in case_files:
            try:
                launches += read_launches(file.read(), file.name)
            except BadInputError as error:
                problems[name] = str(error)
    return by_case(launches), problems


def _partner(files: Iterable[CaseFile]) -> tuple[ParityProfile | None, str | None]:
    """The other runtime's numbers, from its own parity file or from a profile."""
    for file in files:
        try:
            return _read_partner(file), None
        except BadInputError as error:
            return None, str(error)
    return None, None


def _read_partner(file: CaseFile) -> ParityProfile:
    data = file.read()
    value = parse(data, file.name)
    if isinstance(value, dict) and "runtime" in value:
        return validate(ParityProfile, value, file.name)
    profile = read_profile(data, file.name)
    tokens = profile.tokens_per_step or 0.0
    seconds = profile.avg_step_ms / 1000.0
    return ParityProfile(
        runtime=PurePosixPath(file.name).stem,
        throughput_tok_s=tokens / seconds if seconds > 0 else 0.0,
        step_time_ms=profile.avg_step_ms,
        ops=op_totals(profile.per_layer),
    )
