"""Files of measurements → what each attempt measured of each case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256

from ci_score.errors import BadInputError, WrongUseError
from ci_score.launches import Launch, read_launches
from ci_score.model.lists import some_of
from ci_score.model.reasons import Note, Reason
from ci_score.model.record import MOST_ATTEMPTS, MOST_CASES, MOST_LAUNCHES
from ci_score.run.case_files import CaseFile, CaseFiles, CaseSource

# Ten times as many as 256 cases measure by default.
MOST_IN_ALL = 100_000
# As much as the most launches that are read need with 70 steps each. A number of two bytes takes
# sixty of memory.
MOST_BYTES = 128 * 1024 * 1024


@dataclass(slots=True)
class MeasuredOf:
    """What was measured of a case, and what could not be read.

    `looked_at` says where the inputs look for it, if there is no file. `left_out` says why files of
    another run do not count. `before` is the same of earlier attempts, the oldest first.
    """

    launches: list[Launch] = field(default_factory=list)
    problem: str | None = None
    files: list[CaseFile] = field(default_factory=list)
    known: set[str] = field(default_factory=set)
    repeated: int = 0
    looked_at: str = ""
    left_out: dict[str, Reason] = field(default_factory=dict)
    before: tuple[MeasuredOf, ...] = ()

    def add(self, launch: Launch) -> None:
        """One more launch; a line that was read before, as in a copied file, is no other launch.

        Launches without a number of their own may well be alike.
        """
        text = launch.model_dump_json()
        if launch.model_fields_set & {"launch", "order"} and text in self.known:
            self.repeated += 1
            return
        self.known.add(text)
        self.launches.append(launch)

    @property
    def of_all(self) -> list[CaseFile]:
        """The files of every attempt, the newest attempt's first."""
        return [file for rows in (self, *reversed(self.before)) for file in rows.files]

    @property
    def digest(self) -> str:
        """Identifies the measurement, because judging the same one again adds no evidence."""
        return digest_of(b"".join(each.model_dump_json().encode() for each in self.launches))


def measured_in(files: CaseFiles, named: frozenset[str]) -> dict[str, MeasuredOf]:
    """What each attempt measured of each case, in the newest one with those before it.

    A line's own case counts, unless the user has named the case.
    """
    of_attempts: dict[str, dict[int, MeasuredOf]] = {}
    # Not looked for in the list: a stranger may have ten thousand files.
    taken: set[tuple[str, str]] = set()

    def rows_of(case: str, file: CaseFile) -> MeasuredOf:
        attempts = of_attempts.setdefault(case, {})
        _refuse_more_cases(len(of_attempts) - len(files))
        rows = attempts.setdefault(file.attempt, MeasuredOf())
        if file.left_out is None and (case, file.name) not in taken:
            taken.add((case, file.name))
            rows.files.append(file)
        return rows

    budget = _Budget()
    for source_case, case_files in files.items():
        for file in case_files:
            of_source = rows_of(source_case, file)
            try:
                launches = budget.launches_in(file)
            except BadInputError as error:
                if file.left_out is None:
                    of_source.problem = str(error)
                continue
            for launch in launches:
                own = source_case if source_case in named else launch.case or source_case
                rows = rows_of(own, file)
                if file.left_out is None:
                    rows.add(launch)
                else:
                    rows.left_out[file.left_out.model_dump_json()] = file.left_out
    found = {
        name: _newest(of_attempts.get(name, {})) for name in dict.fromkeys((*files, *of_attempts))
    }
    # If the lines of a file name their cases, the source's own name has nothing: it is no case.
    found = {
        name: rows
        for name, rows in found.items()
        if rows.launches or rows.problem or rows.left_out or name in named
    }
    _refuse_more_cases(len(found))
    return found


@dataclass(slots=True)
class _Budget:
    """What the files of a report may hold together, each of which is within its own limits."""

    launches: int = 0
    size: int = 0

    def launches_in(self, file: CaseFile) -> list[Launch]:
        """What was measured in one more file; WrongUseError where all are too many."""
        data = file.read()
        self.size += len(data)
        if self.size > MOST_BYTES:
            raise WrongUseError(
                f"measurements: at most {MOST_BYTES // 2**20} MiB (unpacked) are read in one report"
            )
        launches = read_launches(data, file.name)
        self.launches += len(launches)
        if self.launches > MOST_IN_ALL:
            raise WrongUseError(
                f"measurements: at most {MOST_IN_ALL} launches are read in one report"
            )
        return launches


def _refuse_more_cases(cases: int) -> None:
    if cases > MOST_CASES:
        raise WrongUseError(f"measurements: at most {MOST_CASES} cases are judged in one report")


def _newest(attempts: Mapping[int, MeasuredOf]) -> MeasuredOf:
    """The newest attempt that measured anything, with those before it."""
    for rows in attempts.values():
        if len(rows.launches) > MOST_LAUNCHES:
            rows.problem = f"{len(rows.launches)} launches of one case; at most {MOST_LAUNCHES}"
            rows.launches.clear()
    in_order = [attempts[number] for number in sorted(attempts)]
    found = [rows for rows in in_order if rows.launches or rows.problem]
    *before, newest = found[-MOST_ATTEMPTS:] or in_order[-1:] or [MeasuredOf()]
    left_out = {key: why for rows in in_order for key, why in rows.left_out.items()}
    return replace(newest, before=tuple(before), left_out=left_out)


def found_of(
    name: str, launches: Mapping[str, MeasuredOf], asked: Sequence[CaseSource], files: CaseFiles
) -> MeasuredOf:
    """What was measured of a case; where there is no file, with the places that were named."""
    found = launches.get(name, MeasuredOf())
    own = [source.pattern for source in asked if source.name == name]
    if files.get(name) if own else any(files.values()):
        return found
    return replace(found, looked_at=some_of(own or [source.pattern for source in asked]))


def one_sided(launches: Mapping[str, MeasuredOf]) -> dict[str, tuple[Note, ...]]:
    """Notes if a case has only head launches and another only base launches: perhaps one case."""
    sides = {name: {one.side for one in rows.launches} for name, rows in launches.items()}
    heads = [name for name, own in sides.items() if own == {"head"}]
    bases = [name for name, own in sides.items() if own == {"base"}]
    if not heads or not bases:
        return {}
    words = (
        f"Of {some_of(sorted(heads))} there are launches of the head and none of the base, and of"
        f" {some_of(sorted(bases))} the other way round: is that one case under two names?"
    )
    return dict.fromkeys((*heads, *bases), (Note(code="sides_in_two_cases", words=words),))


def digest_of(data: bytes) -> str:
    """What identifies a measurement or a profile."""
    return sha256(data).hexdigest()
