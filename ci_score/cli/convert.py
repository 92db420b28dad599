"""`ci-score convert`: turns a profiler's files into a profile of a few kilobytes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path

import click

from ci_score.cli import options
from ci_score.cli.console import progress
from ci_score.cli.nsys_export import exported
from ci_score.errors import EXIT_OK, EXIT_UNJUDGED, BadInputError, WrongUseError
from ci_score.files.disk import STANDARD_INPUT, display_name
from ci_score.model.profile import Profile
from ci_score.report import profile_text
from ci_score.traces import ProfileSource, normalised, processes, profile_of, read_all

GIB = 1024**3


@click.command("convert")
@click.argument("files", nargs=-1, required=True, type=click.Path(allow_dash=True))
@click.option("--json", "as_json", is_flag=True, help="Print the normalised profile.")
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(allow_dash=True),
    help="Write to a file instead of standard output.",
)
@click.option(
    "--jobs",
    type=click.IntRange(1, 256),
    metavar="N",
    help="Processes for large files.  [default: one a core]",
)
@click.option(
    "--dask",
    "scheduler",
    metavar="ADDRESS",
    help="Read on the workers of this Dask scheduler, which must see the same paths.",
)
@options.step_name_option
@click.option(
    "--unpacked-limit",
    type=options.POSITIVE,
    default=8.0,
    show_default=True,
    metavar="GIB",
    help="How much one file may unpack to; formats that are read whole allow 512 MiB.",
)
def command(
    files: tuple[str, ...],
    as_json: bool,
    output: str | None,
    jobs: int | None,
    scheduler: str | None,
    step_name: re.Pattern[str] | None,
    unpacked_limit: float,
) -> int:
    """Read FILES of a profiler (or folders, or -) and print what they say about one step.

    Several files are one case: the ranks of a job, or captures of the same work. With --json the
    result can be uploaded instead of the trace, and every other command reads it.

    The format is recognised by content: names do not matter, and files may be packed with gzip or
    zstd. `ci-score formats` lists the formats. A report of Nsight Systems (.nsys-rep) is exported
    by `nsys` where that is on PATH. From a damaged file everything that is intact is used, and the
    notes say what is missing. If nothing can be read, the error says where, and the exit code is
    2. What is not usable, as of a run that crashed, is printed, and the exit code is 3.

    \b
    Examples:
      ci-score convert trace.json.gz
      ci-score convert rank*.json.gz --json -o profile.json
      ci-score convert trace.json --step-name "my_loop"
      ci-score convert huge.json.gz --unpacked-limit 32
      ci-score convert traces/ --dask tcp://scheduler:8786 --json
    """
    given = [
        replace(source, unpacked_limit=int(unpacked_limit * GIB), step_name=step_name)
        for source in chain.from_iterable(map(_sources, files))
    ]
    named = frozenset(file for file in files if not Path(file).is_dir())
    with (  # Progress first: it is a thread, and processes start differently beside threads.
        exported(given) as sources,
        progress("reading", len(sources), quiet=as_json) as done,
        _pool(sources, jobs, scheduler) as pool,
    ):
        results = read_all(sources, pool, done, jobs)
        if scheduler:
            rows = zip(sources, results, strict=True)
            problems = ((source, each) for source, each in rows if not isinstance(each, Profile))
            _explain_missing(source for source, problem in problems if problem.is_missing)
        profile = profile_of(sources, results, named | {display_name(STANDARD_INPUT)})
    to = options.Output(as_json, "terminal", output)
    to.write(normalised(profile) if as_json else profile_text(profile, to.screen))
    return EXIT_OK if profile.unusable is None else EXIT_UNJUDGED


def _sources(file: str) -> Iterator[ProfileSource]:
    path = Path(file)
    if file == STANDARD_INPUT or not path.is_dir():
        yield options.source_of(file)
        return
    # Which needs all that a run needs: only a folder is worth it.
    from ci_score.run import sources_in

    yield from sources_in(path)


@contextmanager
def _pool(
    sources: list[ProfileSource], jobs: int | None, scheduler: str | None
) -> Iterator[Executor | None]:
    if scheduler is None:
        with processes(sources, jobs) as pool:
            yield pool
        return
    try:
        from dask.distributed import Client
    except ImportError:
        raise WrongUseError("--dask needs the extra: pip install 'ci-score[dask]'") from None
    try:
        client = Client(scheduler, timeout=10)  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        raise WrongUseError(f"no Dask scheduler answers at {scheduler} ({error})") from None
    with client:
        yield client.get_executor()  # type: ignore[no-untyped-call]


def _explain_missing(missing: Iterable[ProfileSource]) -> None:
    """A file that exists here but not on the workers: the reader cannot know that."""
    for source in missing:
        if source.path is not None and source.path.exists():
            raise BadInputError(
                source.name,
                found="a file that the Dask workers do not see",
                expected="a folder that they share, at the same path",
            )
