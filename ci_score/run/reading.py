"""Files → the input of each case. A file that cannot be read is a problem of its case only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from ci_score.errors import BadInputError, WrongUseError
from ci_score.files.strict_json import overflow_is_bad_input, parse, validate
from ci_score.launches import (
    SideLaunches,
    by_side,
    joined,
    notes_on,
    read_environment,
    took_turns,
    without_a_time,
)
from ci_score.model.environment import Environment
from ci_score.model.lists import did_you_mean, some_of
from ci_score.model.profile import Profile
from ci_score.model.reasons import Note, Why, quoted
from ci_score.model.record import MOST_ATTEMPTS, LaunchNumbers
from ci_score.model.scorecard import ParityProfile
from ci_score.model.stages import CaseInput
from ci_score.reference import side_of
from ci_score.run.case_files import CaseFile, CaseFiles, CaseSource, has_no_name
from ci_score.run.measurements import MeasuredOf, digest_of, found_of, measured_in, one_sided
from ci_score.traces import (
    ProfileSource,
    can_lie_beside,
    outer_keys,
    processes,
    profile_of,
    read_all,
    read_profile,
)


def read_cases(
    profiles: CaseFiles,
    measurements: CaseFiles | None,
    partners: CaseFiles,
    asked: Sequence[CaseSource] = (),
    *,
    by_default: bool = False,
) -> tuple[CaseInput, ...]:
    """Every case that a profile or a measurement belongs to.

    `measurements` is None if the inputs name none. If they do, a case without measurements counts
    as not measured: the times of its profile are longer, and comparing them would be a false alarm.
    Profiles that were found `by_default` do not replace those that a session took itself. `asked`
    is where the inputs look for measurements.
    """
    named = frozenset(source.name for source in asked if source.name)
    launches = measured_in(measurements or {}, named)
    if by_default:
        profiles = _without_leftovers(profiles, launches)
    names = sorted({*profiles, *launches})
    unknown = sorted(partners.keys() - set(names))
    if names and unknown:
        raise WrongUseError(
            f"parity: there is no case {unknown[0]} (there are: {some_of(names, 10)})"
            f"{did_you_mean(unknown[0], names)}"
        )
    cases = [
        _case(
            name,
            profiles.get(name, []),
            None if measurements is None else found_of(name, launches, asked, measurements),
            partners.get(name),
        )
        for name in names
    ]
    if len(cases) == 1:
        return tuple(cases)
    notes = one_sided(launches)
    return tuple(
        replace(case, notes=(*case.notes, *notes.get(case.name, ())))
        for case in cases
        if case.name in named or not _is_litter(case, profiles.get(case.name, []))
    )


def _without_leftovers(profiles: CaseFiles, launches: Mapping[str, MeasuredOf]) -> CaseFiles:
    """The profiles of cases that were measured, and of which no session has profiles of its own."""
    own = {name for name, rows in launches.items() if any(file.profiles for file in rows.of_all)}
    if not own:
        return profiles
    return {name: files for name, files in profiles.items() if name in launches.keys() - own}


def _is_litter(case: CaseInput, files: list[CaseFile]) -> bool:
    """Whether the files beside the folders of cases are no case, such as a README."""
    return (
        has_no_name(case.name)
        and case.problem is not None
        and not case.launches
        and bool(files)
        and all(
            not (file.named or file.problem) and can_lie_beside(file.source()) for file in files
        )
    )


def _case(
    name: str,
    files: list[CaseFile],
    measured: MeasuredOf | None,
    partner_files: list[CaseFile] | None,
) -> CaseInput:
    own_files = [file for file in files if file.left_out is None]
    left_out = {file.left_out.model_dump_json(): file.left_out for file in files if file.left_out}
    left_out |= measured.left_out if measured else {}
    files, *older = _by_attempt(own_files)
    sessions = [] if files or measured is None else _newest_profiled(measured.of_all)
    base_files = _session_files(sessions, "base")
    files = files or _session_files(sessions, "head")
    own = measured.files if measured else []
    attempt = max((file.attempt for file in own or files), default=0)
    # What is beside the profiles of an earlier attempt tells nothing of the machine of this one.
    beside = [file for file in files if file.attempt == attempt or 0 in (file.attempt, attempt)]
    partner, wrong_partner = _partner(partner_files)
    profiled = _Profiled(*_profile_or_problem(files), bool(files), _read_sidecar([*beside, *own]))
    try:
        with overflow_is_bad_input(f"case {name}"):
            read = (
                _described(name, profiled, wrong_partner)
                if measured is None
                else _timed(name, profiled, measured, base_files, wrong_partner)
            )
    except BadInputError as error:
        read = CaseInput(name, problem=quoted(str(error)))
    if left_out and not (own_files if measured is None else measured.launches or measured.problem):
        # Of another run is all that there is.
        read = CaseInput(name, problem=next(iter(left_out.values())))
    before = (
        tuple(_case(name, of_each, None, None) for of_each in reversed(older))
        if measured is None
        else tuple(_case(name, [], rows, None) for rows in measured.before)
    )
    told = tuple(Why.LEFT_OUT(case=name, why=why) for why in left_out.values())
    return replace(read, partner=partner, attempt=attempt, before=before, left_out=told)


def _by_attempt(files: list[CaseFile]) -> list[list[CaseFile]]:
    """The profiles of each attempt that has any, the newest first.

    Causes are of one machine and one time, so the newest attempt's give them.
    """
    attempts = sorted({file.attempt for file in files}, reverse=True)
    of_each = [[file for file in files if file.attempt == attempt] for attempt in attempts]
    profiled = [one for one in of_each if any(map(_may_be_a_profile, one))]
    return (profiled or of_each or [[]])[:MOST_ATTEMPTS]


def _may_be_a_profile(file: CaseFile) -> bool:
    return bool(file.problem) or not can_lie_beside(file.source())


def _newest_profiled(files: list[CaseFile]) -> list[CaseFile]:
    """The sessions of the newest attempt that took profiles, of files with the newest first."""
    attempt = next((file.attempt for file in files if any(file.profiles.values())), None)
    return [file for file in files if file.attempt == attempt]


@dataclass(frozen=True, slots=True)
class _Profiled:
    """The profile of a case, or why it cannot be read, and the sidecar beside it."""

    read: Profile
    problem: str | None
    has_files: bool
    sidecar: _Sidecar

    @property
    def profile(self) -> Profile:
        """The profile, on the accelerator that the sidecar names."""
        return self.sidecar.applied_to(self.read)


def _described(name: str, profiled: _Profiled, wrong_partner: str | None) -> CaseInput:
    """A case that has only profiles: their times are judged."""
    wrong = profiled.problem or profiled.sidecar.problem
    missing = None if profiled.has_files else Why.NO_FILE()
    data = profiled.profile.model_dump_json().encode()
    return CaseInput(
        name,
        profiled.profile,
        problem=quoted(wrong) if wrong else missing,
        notes=(*_unreadable(wrong_partner), *profiled.sidecar.notes),
        launches=tuple(_logged_runs(profiled.profile)),
        measurement=digest_of(data) if profiled.has_files else None,
        environment=profiled.sidecar.environment,
    )


def _logged_runs(profile: Profile) -> Iterator[LaunchNumbers]:
    """The runs of several logs of a trainer, each a launch of the head."""
    for number, run in enumerate(profile.runs):
        values = {
            "step_time_ms": run.step_ms or None,
            "throughput_tok_s": run.throughput_tok_s,
            "peak_memory_gb": run.peak_memory_gb,
        }
        yield LaunchNumbers(
            launch=number,
            values={name: value for name, value in values.items() if value is not None},
            timed_steps=run.steps,
        )


def _timed(
    name: str,
    profiled: _Profiled,
    measured: MeasuredOf,
    base_files: list[CaseFile],
    wrong_partner: str | None,
) -> CaseInput:
    """A case with measurements, which are judged. A profile that cannot be read is only a note."""
    sides = by_side(measured.launches)
    head, base = sides.get("head"), sides.get("base")
    wrong = measured.problem or profiled.sidecar.problem
    problem = quoted(wrong) if wrong else None
    crashed = without_a_time(measured.launches)
    if head is None:
        nothing = Why.NO_MEASUREMENTS(where=measured.looked_at) if measured.looked_at else None
        problem = problem or nothing or Why.NO_STEPS()
    base_profile, wrong_base = _profile_or_problem(base_files)
    sidecar = profiled.sidecar
    profile = head.applied_to(profiled.profile) if head else profiled.profile
    if crashed is not None:
        profile = profile.but(unusable="its launches crashed")
    case = CaseInput(
        name,
        profile,
        problem=problem,
        crashed=crashed,
        notes=(
            *_unreadable(profiled.problem, wrong_base, wrong_partner),
            *sidecar.notes,
            *notes_on(measured.launches),
            *_repeated(measured),
        ),
        launches=head.numbers() if head else (),
        took_turns=took_turns(measured.launches),
        has_profile=profiled.has_files,
        measurement=measured.digest,
        environment=_environment_of(head, sidecar),
    )
    if head is None or base is None:
        return case
    own = sidecar.applied_to(base_profile) if base_files else _same_machine(profiled.profile)
    environment = _environment_of(base, sidecar)
    return replace(case, base=_other_side(name, base, own, environment, bool(base_files)))


def _repeated(measured: MeasuredOf) -> Iterator[Note]:
    if measured.repeated:
        words = f"{measured.repeated} lines are there twice, and count once: is a file copied?"
        yield Note(code="repeated_lines", words=words)


def _other_side(
    name: str,
    base: SideLaunches,
    profile: Profile,
    environment: Environment | None,
    has_profile: bool,
) -> CaseInput:
    """The base of the same session, on the same machine."""
    return CaseInput(
        name,
        base.applied_to(profile),
        launches=base.numbers(),
        has_profile=has_profile,
        environment=environment,
    )


def _unreadable(*problems: str | None) -> Iterator[Note]:
    return (Note(code="unreadable", words=words) for words in problems if words)


def _session_files(sessions: list[CaseFile], side: str) -> list[CaseFile]:
    """The profiles of a side that `ci-score ab` took after it had measured."""
    return [
        replace(file, attempt=session.attempt)
        for session in sessions
        for file in session.profiles.get(side, ())
    ]


@dataclass(frozen=True, slots=True)
class _Sidecar:
    """The environment.json files beside a case's files, as one."""

    environment: Environment | None = None
    notes: tuple[Note, ...] = ()
    problem: str | None = None

    def applied_to(self, profile: Profile) -> Profile:
        """The profile with the sidecar's accelerator, if it has none of its own.

        The number of devices is left out, because the machine may have more than the job used.
        """
        if self.environment is None or profile.accelerator:
            return profile
        return profile.but(accelerator=self.environment.accelerator)


def _read_sidecar(files: Iterable[CaseFile]) -> _Sidecar:
    beside = {file.environment.name: file.environment for file in files if file.environment}
    environments, notes = [], []
    for name, file in beside.items():
        try:
            environment = read_environment(file.read(), name)
        except BadInputError as error:
            return _Sidecar(problem=str(error))
        if environment is None:
            words = f"{name} was left out: it is not what `ci-score env` writes."
            notes.append(Note(code="other_environment_file", words=words))
        else:
            environments.append((name, environment))
    if not environments:
        return _Sidecar(notes=tuple(notes))
    environment, disagreements = joined(environments)
    return _Sidecar(environment, (*notes, *disagreements))


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


def _environment_of(side: SideLaunches | None, sidecar: _Sidecar) -> Environment | None:
    """The sidecar's environment, with the versions of the side's own launches."""
    versions = side.versions if side else {}
    if not versions:
        return sidecar.environment
    known = sidecar.environment or Environment()
    return known.but(versions={**known.versions, **versions})


def _same_machine(profile: Profile) -> Profile:
    """The facts of the head's profile that also hold for the base of the session."""
    return Profile(
        accelerator=profile.accelerator,
        accelerator_count=profile.accelerator_count,
        accelerator_memory_gb=profile.accelerator_memory_gb,
        peak_bandwidth_gb_s=profile.peak_bandwidth_gb_s,
        tokens_per_step=profile.tokens_per_step,
        tokens_inferred=profile.tokens_inferred,
    )


def _partner(files: Iterable[CaseFile] | None) -> tuple[ParityProfile | None, str | None]:
    """The other runtime's numbers, from its own parity file or from a profile."""
    if files is None:
        return None, None
    partner_files = list(files)
    if not partner_files:
        return None, "No file was found for the other side of its parity."
    try:
        return _side_of_files(partner_files), None
    except BadInputError as error:
        return None, str(error)


def _side_of_files(files: list[CaseFile]) -> ParityProfile:
    for file in files:
        if _is_side(file.source().head()):
            return read_side(file.source(), file.name)
    return side_of(PurePosixPath(files[0].name).stem, _profile(files))


def read_side(source: ProfileSource, name: str) -> ParityProfile:
    """One side of a parity, from its own JSON or from any profile."""
    if _is_side(source.head()):
        return validate(ParityProfile, parse(source.whole(), source.name), source.name)
    return side_of(name, read_profile(source))


def _is_side(head: bytes) -> bool:
    """Whether the object's outermost keys are those of a side; a trace may have `runtime`, too."""
    keys = outer_keys(head)
    if keys & _MARKS_OF_PROFILES:
        return False
    return "runtime" in keys or (bool(keys) and keys <= ParityProfile.model_fields.keys())


_MARKS_OF_PROFILES = frozenset(
    {"_profiler", "_schema", "canary", "traceEvents", "avg_step_ms", "phases", "per_layer"}
)
