"""Files → what was measured of each case. What cannot be read is a problem of its case."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import PurePosixPath

from ci_score.errors import BadInputError, WrongUseError
from ci_score.files.strict_json import parse, validate
from ci_score.launches.environment import joined, read_environment
from ci_score.launches.lines import (
    Launch,
    Measured,
    by_side,
    not_in_turns,
    other_steps,
    read_launches,
    sound,
    took_turns,
    undeclared_warm_up,
    untold_tokens,
)
from ci_score.model.environment import Environment
from ci_score.model.profile import Profile
from ci_score.model.scorecard import ParityProfile
from ci_score.model.stages import CaseInput
from ci_score.reference import side_of
from ci_score.run.case_files import CaseFile, CaseFiles, has_no_name
from ci_score.traces import (
    Problem,
    ProfileSource,
    can_lie_beside,
    merged,
    outer_keys,
    processes,
    read_all,
    read_profile,
)

NAMED_STRAYS = 5


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
    cases = [
        _case(
            name,
            profiles.get(name, []),
            launches.get(name, _Launches()) if measurements is not None else None,
            partners.get(name),
        )
        for name in names
    ]
    if len(cases) == 1:
        return tuple(cases)
    notes = _one_sided(launches)
    return tuple(
        replace(case, notes=(*case.notes, *notes.get(case.name, ())))
        for case in cases
        if case.name in named or not _is_litter(case, profiles.get(case.name, []))
    )


def _one_sided(launches: Mapping[str, _Launches]) -> dict[str, tuple[str, ...]]:
    """That a case has launches of one side and another of the other: one case of two names?"""
    sides = {name: {one.side for one in rows.launches} for name, rows in launches.items()}
    heads = [name for name, own in sides.items() if own == {"head"}]
    bases = [name for name, own in sides.items() if own == {"base"}]
    if not heads or not bases:
        return {}
    words = (
        f"Of {_listed(heads)} there are launches of the head and none of the base, and of"
        f" {_listed(bases)} the other way round: is that one case under two names?"
    )
    return dict.fromkeys((*heads, *bases), (words,))


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(sorted(names)[:NAMED_STRAYS])
    return f"{shown} and {len(names) - NAMED_STRAYS} more" if len(names) > NAMED_STRAYS else shown


def _is_litter(case: CaseInput, files: list[CaseFile]) -> bool:
    """Whether what lies beside the folders of cases is no case: a README has no name of its own."""
    return (
        has_no_name(case.name)
        and case.problem is not None
        and not case.launches
        and bool(files)
        and all(
            not (file.named or file.problem) and can_lie_beside(file.source()) for file in files
        )
    )


@dataclass(slots=True)
class _Launches:
    """What was measured of a case, and what could not be read."""

    launches: list[Launch] = field(default_factory=list)
    problem: str | None = None
    files: list[CaseFile] = field(default_factory=list)

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
    base_files = [] if files else _session_files(measured, "base")
    files = files or _session_files(measured, "head")
    profile, wrong_profile = _profile_or_problem(files)
    partner, wrong_partner = _partner(partner_files)
    told = _told_beside([*files, *(measured.files if measured else ())])
    profile = told.applied_to(profile)
    if measured is None:
        missing = None if files else "no file was found for it"
        return CaseInput(
            name,
            profile,
            problem=wrong_profile or told.problem or missing,
            notes=_said(wrong_partner, *told.notes),
            measurement=_digest(profile.model_dump_json().encode()) if files else None,
            environment=told.environment,
            partner=partner,
        )
    judged = sound(measured.launches)
    sides = by_side(judged.launches)
    head, base = sides.get("head"), sides.get("base")
    problem = measured.problem or told.problem
    if head is None and judged.crashed is None:
        problem = problem or "its measurements hold no step"
    timed = head.applied_to(profile) if head else profile
    base_profile, wrong_base = _profile_or_problem(base_files)
    bases = told.applied_to(base_profile) if base_files else _same_machine(profile)
    return CaseInput(
        name,
        profile=timed.model_copy(update={"unusable": judged.crashed}) if judged.crashed else timed,
        problem=problem,
        # Measurements judge alone: a profile that cannot be read then only explains nothing.
        notes=_said(
            wrong_profile,
            wrong_base,
            wrong_partner,
            *told.notes,
            *judged.notes,
            *untold_tokens(judged.launches),
            *other_steps(judged.launches),
            undeclared_warm_up(measured.launches),
            not_in_turns(measured.launches),
        ),
        launches=head.numbers() if head else (),
        took_turns=took_turns(measured.launches),
        has_profile=bool(files),
        measurement=measured.digest,
        environment=_environment_of(head, told, judged.disturbances),
        base=_base(name, base, bases, told, judged.base_disturbances, has_profile=bool(base_files))
        if head and base
        else None,
        partner=partner,
    )


def _session_files(measured: _Launches | None, side: str) -> list[CaseFile]:
    """What a session has profiled of a side, once it was measured."""
    sessions = measured.files if measured else []
    return [file for session in sessions for file in session.profiles.get(side, ())]


@dataclass(frozen=True, slots=True)
class _Told:
    """What the environment.json files beside a case's files say."""

    environment: Environment | None = None
    notes: tuple[str, ...] = ()
    problem: str | None = None

    def applied_to(self, profile: Profile) -> Profile:
        """The profile with its accelerator named, where it does not know it itself.

        The machine may have more devices than the job used, so their number is not the job's.
        """
        if self.environment is None or profile.accelerator:
            return profile
        return profile.model_copy(update={"accelerator": self.environment.accelerator})


def _told_beside(files: Iterable[CaseFile]) -> _Told:
    beside = {file.environment.name: file.environment for file in files if file.environment}
    found, notes = [], []
    for name, file in beside.items():
        try:
            environment = read_environment(file.read(), name)
        except BadInputError as error:
            return _Told(problem=str(error))
        if environment is None:
            notes.append(f"{name} was left out: it is not what `ci-score env` writes.")
        else:
            found.append((name, environment))
    if not found:
        return _Told(notes=tuple(notes))
    environment, disagreements = joined(found)
    return _Told(environment, (*notes, *disagreements))


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
    named = frozenset(file.name for file in files if file.named)
    with processes(sources, None) as pool:
        return profile_of(sources, read_all(sources, pool), named)


def profile_of(
    sources: Sequence[ProfileSource],
    results: Sequence[Profile | Problem],
    named: frozenset[str] = frozenset(),
) -> Profile:
    """One profile of the files of a case.

    A profile that cannot be read is the problem of all. What is none and only lies in the same
    folder is left out and noted; a file that the user has `named` is none of these.
    """
    profiles: list[tuple[str, Profile]] = []
    strays: list[Problem] = []
    for source, result in zip(sources, results, strict=True):
        if isinstance(result, Profile):
            profiles.append((source.name, result))
        elif source.name not in named and can_lie_beside(source):
            strays.append(result)
        else:
            raise result.error()
    if not profiles:
        raise _nothing_left(strays)
    one = merged(profiles)
    left_out = (f"{stray.source} was left out: {stray.found}." for stray in strays)
    return one.model_copy(update={"notes": (*one.notes, *left_out)}) if strays else one


def _nothing_left(strays: list[Problem]) -> BadInputError:
    if len(strays) == 1:
        return strays[0].error()
    listed = "; ".join(f"{stray.source} is {stray.found}" for stray in strays[:NAMED_STRAYS])
    return BadInputError(
        "profiles",
        found=f"{len(strays)} files and no profile ({listed})",
        expected="a profile that `ci-score formats` lists",
    )


def _environment_of(
    side: Measured | None, told: _Told, disturbances: Mapping[str, str]
) -> Environment | None:
    """What is told beside the files, and what the side's own launches say of themselves."""
    versions = side.versions if side else {}
    if not versions and not disturbances:
        return told.environment
    known = told.environment or Environment()
    return known.model_copy(
        update={
            "versions": {**known.versions, **versions},
            "disturbances": {**known.disturbances, **disturbances},
        }
    )


def _base(
    name: str,
    measured: Measured,
    profile: Profile,
    told: _Told,
    disturbances: Mapping[str, str],
    *,
    has_profile: bool,
) -> CaseInput:
    """The other side of the same session, on the same machine."""
    return CaseInput(
        name,
        measured.applied_to(profile),
        launches=measured.numbers(),
        has_profile=has_profile,
        environment=_environment_of(measured, told, disturbances),
    )


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
            of_source.files.append(file)
            try:
                launches = read_launches(file.read(), file.name)
            except BadInputError as error:
                of_source.problem = str(error)
                continue
            for launch in launches:
                own = source_case if source_case in named else launch.case or source_case
                rows = found.setdefault(own, _Launches())
                rows.launches.append(launch)
                if file not in rows.files:
                    rows.files.append(file)
    # A file whose lines name their cases leaves nothing for the source's own name.
    return {
        name: rows for name, rows in found.items() if rows.launches or rows.problem or name in named
    }


def _partner(files: Iterable[CaseFile] | None) -> tuple[ParityProfile | None, str | None]:
    """The other runtime's numbers, from its own parity file or from a profile."""
    if files is None:
        return None, None
    found = list(files)
    if not found:
        return None, "No file was found for the other side of its parity."
    try:
        return _side_of_files(found), None
    except BadInputError as error:
        return None, str(error)


def _side_of_files(files: list[CaseFile]) -> ParityProfile:
    for file in files:
        if _is_side(file.source().head()):
            return read_side(file.source(), file.name)
    return side_of(PurePosixPath(files[0].name).stem, _profile(files))


def read_side(source: ProfileSource, name: str) -> ParityProfile:
    """One side of a parity: its own JSON, or any profile that is read."""
    if _is_side(source.head()):
        return validate(ParityProfile, parse(source.whole(), source.name), source.name)
    return side_of(name, read_profile(source))


def _is_side(head: bytes) -> bool:
    """Whether an object's own keys are those of a side; a trace or a result may name a runtime."""
    keys = outer_keys(head)
    if keys & _MARKS_OF_PROFILES:
        return False
    return "runtime" in keys or (bool(keys) and keys <= ParityProfile.model_fields.keys())


_MARKS_OF_PROFILES = frozenset(
    {"_profiler", "_schema", "canary", "traceEvents", "avg_step_ms", "phases", "per_layer"}
)
