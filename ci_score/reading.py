"""Files → what was measured of each case. What cannot be read is a problem of its case."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import PurePosixPath

from ci_score.case_files import CaseFile, CaseFiles
from ci_score.errors import BadInputError, WrongUseError
from ci_score.measurements import Launch, Measured, by_side, read_launches
from ci_score.models import CaseInput, ParityProfile, Profile
from ci_score.parity import side_of
from ci_score.profilers import read_profile
from ci_score.profilers.merge import merged
from ci_score.profilers.parallel import Problem, processes, read_all
from ci_score.profilers.source import ProfileSource
from ci_score.strict_json import parse, validate


def read_cases(
    profiles: CaseFiles,
    measurements: CaseFiles | None,
    partners: CaseFiles,
    named: frozenset[str] = frozenset(),
) -> tuple[CaseInput, ...]:
    """Every case that a profile or a measurement belongs to.

    `measurements` is None where none were asked for. Where they were, a case without any was not
    measured: its profile's times are other numbers, and comparing them would cry wolf.
    """
    launches = _launches(measurements or {}, named)
    names = sorted({*profiles, *launches})
    unknown = sorted(partners.keys() - set(names))
    if names and unknown:
        raise WrongUseError(
            f"parity: there is no case {unknown[0]} (there are: {', '.join(names)})"
        )
    return tuple(
        _case(
            name,
            profiles.get(name, []),
            launches.get(name, _Launches()) if measurements is not None else None,
            partners.get(name),
        )
        for name in names
    )


@dataclass(slots=True)
class _Launches:
    """What was measured of a case, and what could not be read."""

    launches: list[Launch] = field(default_factory=list)
    problem: str | None = None

    @property
    def digest(self) -> str:
        """Tells measurements apart: judging the same one again is no new evidence."""
        return _digest(b"".join(each.model_dump_json().encode() for each in self.launches))


def _case(
    name: str,
    files: list[CaseFile],
    measured: _Launches | None,
    partner_files: list[CaseFile] | None,
) -> CaseInput:
    profile, wrong_profile = _profile_or_problem(files)
    partner, wrong_partner = _partner(partner_files)
    if measured is None:
        missing = None if files else "no file was found for it"
        return CaseInput(
            name,
            profile,
            problem=wrong_profile or missing,
            notes=_said(wrong_partner),
            measurement=_digest(profile.model_dump_json().encode()) if files else None,
            partner=partner,
        )
    sides = by_side(measured.launches)
    head, base = sides.get("head"), sides.get("base")
    problem = measured.problem or (None if head else "its measurements hold no step")
    return CaseInput(
        name,
        profile=head.applied_to(profile) if head else profile,
        problem=problem,
        # Measurements judge alone: a profile that cannot be read then only explains nothing.
        notes=_said(wrong_profile, wrong_partner),
        launches=head.numbers() if head else (),
        measurement=measured.digest,
        base=_base(name, base, profile) if head and base else None,
        partner=partner,
    )


def _digest(data: bytes) -> str:
    return sha256(data).hexdigest()


def _said(*notes: str | None) -> tuple[str, ...]:
    return tuple(note for note in notes if note)


def _profile_or_problem(files: list[CaseFile]) -> tuple[Profile, str | None]:
    try:
        return _profile(files), None
    except BadInputError as error:
        return Profile(), str(error)


def _profile(files: list[CaseFile]) -> Profile:
    if not files:
        return Profile()
    sources = [file.source() for file in files]
    with processes(sources, None) as pool:
        return profile_of([file.name for file in files], read_all(sources, pool))


def profile_of(names: Sequence[str], results: Sequence[Profile | Problem]) -> Profile:
    """One profile of the files of a case. A file that cannot be read is the problem of all."""
    for result in results:
        if isinstance(result, Problem):
            raise result.error()
    profiles = [result for result in results if isinstance(result, Profile)]
    return merged(list(zip(names, profiles, strict=True)))


def _base(name: str, measured: Measured, profile: Profile) -> CaseInput:
    """The other side of the same session."""
    return CaseInput(name, measured.applied_to(_same_machine(profile)), launches=measured.numbers())


def _same_machine(profile: Profile) -> Profile:
    """What both sides of a session share: nothing else of the head's profile is the base's."""
    return Profile(
        accelerator=profile.accelerator,
        accelerator_count=profile.accelerator_count,
        accelerator_memory_gb=profile.accelerator_memory_gb,
        peak_bandwidth_gb_s=profile.peak_bandwidth_gb_s,
        tokens_per_step=profile.tokens_per_step,
    )


def _launches(files: CaseFiles, named: frozenset[str]) -> dict[str, _Launches]:
    """The launches of each case: a line's own case counts where the user has named none."""
    found: dict[str, _Launches] = {}
    for source_case, case_files in files.items():
        of_source = found.setdefault(source_case, _Launches())
        for file in case_files:
            try:
                launches = read_launches(file.read(), file.name)
            except BadInputError as error:
                of_source.problem = str(error)
                continue
            for launch in launches:
                own = source_case if source_case in named else launch.case or source_case
                found.setdefault(own, _Launches()).launches.append(launch)
    # A file whose lines name their cases leaves nothing for the source's own name.
    return {
        name: rows for name, rows in found.items() if rows.launches or rows.problem or name in named
    }


def _partner(files: Iterable[CaseFile] | None) -> tuple[ParityProfile | None, str | None]:
    """The other runtime's numbers, from its own parity file or from a profile."""
    if files is None:
        return None, None
    for file in files:
        try:
            return _read_partner(file), None
        except BadInputError as error:
            return None, str(error)
    return None, "No file was found for the other side of its parity."


def _read_partner(file: CaseFile) -> ParityProfile:
    return read_side(file.source(), PurePosixPath(file.name).stem)


def read_side(source: ProfileSource, name: str) -> ParityProfile:
    """One side of a parity: its own JSON, or any profile that is read."""
    if _PARITY_SIDE.search(source.head()):
        return validate(ParityProfile, parse(source.whole(), source.name), source.name)
    return side_of(name, read_profile(source))


_PARITY_SIDE = re.compile(rb'\A\s*\{(?s:.{0,4096})"runtime"\s*:')
