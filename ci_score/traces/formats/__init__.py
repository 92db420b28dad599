"""Which reader understands a file: one row a format, chosen by content, never by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from ci_score.errors import BadInputError
from ci_score.model.profile import Profile, TimedBy
from ci_score.traces.formats.log_text import outer_keys
from ci_score.traces.formats.refusals import looks_like, refusal_of
from ci_score.traces.source import ProfileSource


@dataclass(frozen=True, slots=True)
class Format:
    """One row: what it is, on what its reader was tested, who reads it, and what took its times.

    The reader is named as `module:suffix`; its `recognises` and `read` are loaded when the row is
    tried, so that a usual profile does not pay for the readers of traces.
    """

    name: str
    description: str
    tested_on: str
    reader: str
    timed_by: TimedBy | None = "a profiler"

    @property
    def recognises(self) -> Callable[[bytes], bool]:
        """Whether the first bytes of a file are of this format."""
        function: Callable[[bytes], bool] = self._function("recognises")
        return function

    @property
    def read(self) -> Callable[[ProfileSource], Profile]:
        """The profile in a file of this format."""
        function: Callable[[ProfileSource], Profile] = self._function("read")
        return function

    def _function(self, verb: str) -> Any:
        module, _, suffix = self.reader.partition(":")
        name = f"{verb}_{suffix}" if suffix else verb
        return getattr(import_module(f"{__name__}.{module}"), name)


# The order in which they are tried: marks first, then what is known by its shape.
FORMATS: tuple[Format, ...] = (
    Format(
        "normalised",
        "what `ci-score convert --json` prints",
        "every reader's output, read back equal",
        "reference:normalised",
        timed_by=None,
    ),
    Format(
        "rocpd",
        "rocprofv3's database (rocpd .db)",
        "small databases of the schemas 3 and 4, after the code that writes them",
        "rocpd",
    ),
    Format(
        "nsight",
        "Nsight Systems database (.sqlite)",
        "exports of 2022 and 2026 on H100, RTX 3080 and older; a minimal schema",
        "nsight",
    ),
    Format(
        "canary",
        "canary result of the reference runtime (JSON with metrics.tokens_per_sec)",
        "7 results of entrenar, PyTorch, cuBLAS and Unsloth runs",
        "canary",
        timed_by="the runtime itself",
    ),
    Format(
        "parity-profile",
        "parity-profile-v1 of the reference runtime (JSON)",
        "1 real file, an empty one",
        "parity_profile",
        timed_by="the runtime itself",
    ),
    Format(
        "apr",
        "apr_training_profiler_v1 (JSON, also within a log)",
        "4 real files",
        "apr_profiler",
        timed_by="the runtime itself",
    ),
    Format(
        "step-profiler",
        "step_profiler v1 and v2 (JSON, also within a log, wrapped, or with top-level phases)",
        "files of the exact format",
        "step_profiler",
        timed_by="the runtime itself",
    ),
    Format(
        "trainer-state",
        "Hugging Face trainer_state.json",
        "2 real files; runs of transformers 4.46, 4.57, 5.0 and 5.23, resumed and not",
        "trainer_state",
        timed_by="the trainer's log",
    ),
    Format(
        "megatron-golden",
        "golden values of Megatron-LM's functional tests (JSON)",
        "841 files of Megatron-LM's own tests, in the layouts of 2023 to 2026",
        "megatron_golden",
        timed_by="the trainer's log",
    ),
    Format(
        "rocprof",
        "rocprofv3 JSON",
        "a training run on an MI350X",
        "rocprof",
    ),
    Format(
        "ascend",
        "Ascend PyTorch Profiler (trace_view.json)",
        "6 traces of a training on two NPUs, at three levels of detail, against their tables",
        "ascend",
    ),
    Format(
        "ascend-steps",
        "Ascend PyTorch Profiler's table of steps (step_trace_time.csv)",
        "10 tables of three versions, after the code that writes them",
        "ascend_steps",
    ),
    Format(
        "jax-trace",
        "JAX trace (trace.json.gz)",
        "JAX 0.10 on a CPU",
        "jax_trace",
    ),
    Format(
        "kineto",
        "PyTorch profiler (Kineto) trace (.json)",
        "22 traces of 2021 to 2026: V100, A100, H100, H800, B200, MI250, MI300 and CPUs",
        "kineto",
    ),
    Format(
        "reference",
        "the reference's profile: JSON with steps, avg_step_ms, phases, per_layer",
        "the reference's own 427 cases",
        "reference",
        timed_by=None,
    ),
    Format(
        "text-table",
        "the text table of the reference runtime's step profiler, within a log",
        "1 file of the documented format",
        "text_table",
        timed_by="the runtime itself",
    ),
    Format(
        "training-log",
        "the log of a run of Megatron-LM (also with DeepSpeed) or torchtitan",
        "excerpts of 13 public logs of 2022 to 2026, and what the code of each version prints",
        "training_log",
        timed_by="the trainer's log",
    ),
    Format(
        "xplane",
        "JAX XPlane protobuf (.xplane.pb)",
        "an MI300 trace",
        "xplane",
    ),
    Format(
        "log",
        "a log with a profile of the reference runtime, or a training log, late in it",
        "1 real log",
        "canary:log",
        timed_by=None,
    ),
)


def read_profile(source: ProfileSource) -> Profile:
    """The profile in a file, by the first reader that knows its content."""
    head = source.head()
    if not head.strip():
        raise BadInputError(source.name, found="an empty file", expected="a profile")
    if (refusal := refusal_of(head)) is not None:
        raise BadInputError(source.name, found=refusal.what, expected=refusal.instead)
    for row in FORMATS:
        if row.recognises(head):
            try:
                profile = row.read(source)
            except RecursionError:
                raise BadInputError(
                    source.name, found="JSON nested too deeply", expected="at most 200 levels"
                ) from None
            return profile.model_copy(update={"timed_by": row.timed_by or profile.timed_by})
    raise BadInputError(
        source.name,
        found=_of_another_command(head) or looks_like(head),
        expected="a profile that `ci-score formats` lists",
    )


def can_lie_beside(source: ProfileSource) -> bool:
    """Whether a file that could not be read is no profile at all, and not a damaged one.

    Folders hold a README or a log, too. Text is a log only by the profile that is found in it.
    """
    from ci_score.traces.formats import canary, sqlite_file

    try:
        head = source.head()
    except BadInputError:
        return False
    if canary.is_table_of_limits(head) or refusal_of(head) is not None:
        return True
    if sqlite_file.is_database(head):
        return _is_another_database(source)
    return not any(row.recognises(head) for row in FORMATS if row.name != "log")


def _is_another_database(source: ProfileSource) -> bool:
    """Whether a database is whole, and has none of the tables that are read."""
    from ci_score.traces.formats import nsight, rocpd, sqlite_file

    try:
        tables = sqlite_file.tables_of(source)
    except BadInputError:
        return False
    return not (nsight.is_ours(tables) or rocpd.is_ours(tables))


def _of_another_command(head: bytes) -> str:
    """What whoever has named the wrong file or command should hear."""
    keys = outer_keys(head)
    words = (
        ("grade", "a scorecard, which `ci-score compare` reads"),
        ("schema_version", "a record, which `ci-score compare` reads"),
        ("runtime", "one side of a parity, which `ci-score parity` reads"),
    )
    return next((words for key, words in words if key in keys), "")
