"""Counts and times the optimizer steps of a script that knows nothing of it.

`ci-score` puts this folder in front of PYTHONPATH, so every Python of a launch imports this file
when it starts. Without the variable CI_SCORE_HOOK it does nothing; either way it then runs the
user's own sitecustomize. It needs the standard library alone (Python 3.8), waits for torch without
importing it, never prints, and raises nothing into the script but the SystemExit that ends a
launch. A fault of its own is a mark, and the script goes on. In the mode "marked" it loads the
file beside it, which knows the lines of torch calls.

A step ends when the optimizer with most parameters has stepped for a new backward pass. The marks
and records that it writes are read by `ci_score/measure/launch/hook_records.py`.
"""

from __future__ import annotations

import os
import sys
from errno import EFBIG, ENOSPC

# By name: a script may put a clock of its own into the module.
from time import monotonic, perf_counter_ns, sleep

TYPE_CHECKING = False  # the module typing would cost every Python of a launch its import
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

VARIABLE = "CI_SCORE_HOOK"
FOLDERS_VARIABLE = "CI_SCORE_FOLDERS"
# `ci-score qualify` makes steps really longer by this share, to see whether it would be found.
PLANTED_VARIABLE = "CI_SCORE_PLANTED_SLOWDOWN"
# A script that names it writes lines of its own.
OWN_LINES = b"CI_SCORE_MEASUREMENTS"
# A gradient that a call without a backward pass has found is marked by its version.
SEEN = "_ci_score_seen"
RECORDER = "ci_score.measure.recorder"
# Their launches end with a trace of some steps.
WITH_PROFILER = ("profiled", "marked")
# An optimizer is gone when others stepped for that many backward passes, and it for none.
GONE_AFTER = 200
# One that was named may begin late: others step before it.
LATE_AFTER = 1000
# So many calls with the same gradients have no more steps to tell.
MOST_REPEATS = 1000
MOST_OWNERS = 5
GRACE_SECONDS = 5.0
TRACE_SECONDS = 60.0
POLL_SECONDS = 0.01
TELL_EVERY_NS = 5 * 10**9
LONGEST_MAIN = 1 << 20
MOST_PENDING = 1000
MOST_PACKAGES = 4096
LONGEST_TEXT = 200
VERSIONED = ("torch", "triton", "transformers", "accelerate", "lightning", "deepspeed", "numpy")
# Who starts the ranks of a job tells each its number and their count. SLURM gives both only within
# srun: a batch script has SLURM_PROCID, too, and is not a rank.
RANKS = (
    ("RANK", "WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
)


def run_the_next_sitecustomize() -> None:
    """Runs the one that this file hides; it becomes `sitecustomize`, as without us."""
    from importlib.machinery import PathFinder

    own = os.path.dirname(os.path.abspath(__file__))
    paths = [os.path.abspath(path or ".") for path in sys.path]
    behind = paths[paths.index(own) + 1 :] if own in paths else []
    spec = PathFinder.find_spec("sitecustomize", behind)
    if spec is None or spec.loader is None:
        return
    from importlib.util import module_from_spec

    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


def short(value: object) -> str:
    """A text that fits into a mark or a record."""
    return str(value)[:LONGEST_TEXT]


# --- what is known of an optimizer, of time and of losses -----------------------------------------


class Known:
    """An optimizer that has stepped."""

    __slots__ = ("again", "backward", "by_hand", "name", "order", "parameters", "ref", "repeats",
                 "steps")  # fmt: skip

    def __init__(self, optimizer: Any, order: int) -> None:
        import weakref

        self.ref = weakref.ref(optimizer)
        self.name = short(type(optimizer).__name__)
        self.parameters = sum(map(elements_of, parameters_of(optimizer)))
        self.order = order
        self.backward = -1  # the last backward pass that it stepped for
        self.again: Any = None  # whose gradient it found when it stepped for that one again
        self.by_hand = False  # whether it has stepped with gradients of the script's own
        self.repeats = 0  # how often that gradient was the one of the call before
        self.steps = 0

    def shape(self) -> dict[str, Any]:
        """By what another launch of the same script knows it again."""
        return {"class": self.name, "parameters": self.parameters, "order": self.order}


def parameters_of(optimizer: Any) -> Iterator[Any]:
    """What an optimizer owns, in its order."""
    return (one for group in optimizer.param_groups for one in group["params"])


def elements_of(parameter: Any) -> int:
    """How many numbers a parameter has; one whose shape is not known yet counts as one."""
    try:
        return int(parameter.numel())
    except Exception:
        return 1


class Clock:
    """When steps ended: by events of the device, which nobody waits for, else by the wall clock."""

    def __init__(self, optimizer: Any) -> None:
        self.device = next((getattr(one, "device", None) for one in parameters_of(optimizer)), None)
        self.kind = getattr(self.device, "type", "cpu")
        self.stamps: list[Any] = []
        module = getattr(sys.modules.get("torch"), self.kind, None) if self.kind != "cpu" else None
        has_events = hasattr(module, "Event") and hasattr(module, "synchronize")
        self.module: Any = module if has_events else None

    def tick(self, now: int) -> None:
        """A step has ended: on the device, where its work is still in the queue."""
        if self.module is None:
            self.stamps.append(now)
            return
        event = self.module.Event(enable_timing=True)
        stream = getattr(self.module, "current_stream", None)
        event.record(*([] if stream is None else [stream(self.device)]))
        self.stamps.append(event)

    def wait(self) -> None:
        """Until the device is idle."""
        if self.module is not None:
            self.module.synchronize()

    def intervals(self) -> list[float]:
        """Milliseconds between ends of steps; the device must be idle."""
        pairs = zip(self.stamps, self.stamps[1:])
        if self.module is None:
            return [(later - earlier) / 1e6 for earlier, later in pairs]
        return [float(earlier.elapsed_time(later)) for earlier, later in pairs]

    def peak_memory(self) -> dict[str, int]:
        """Bytes that were allocated at most on each device that was used."""
        if not hasattr(self.module, "max_memory_allocated"):
            return {}
        count = self.module.device_count()
        peaks = {index: int(self.module.max_memory_allocated(index)) for index in range(count)}
        return {f"{self.kind}:{index}": peak for index, peak in peaks.items() if peak}


class Uncopied:
    """A loss that is not copied, and can be read as long as the script has not changed it."""

    def __init__(self, output: Any) -> None:
        self.output = output
        self.version = output._version

    def __float__(self) -> float:
        if self.output._version != self.version:
            raise ValueError("the script has changed it")
        output = self.output.detach()
        return float(output.to_local() if hasattr(output, "to_local") else output)


class Losses:
    """What went into backward for one step: kept on the device, read when the launch has ended."""

    def __init__(self) -> None:
        self.pending: list[Any] = []
        self.first: Any = None
        self.last: Any = None

    def add(self, outputs: Any, may_work: bool) -> None:
        """Keeps what a backward pass begins with, if it is a number.

        A copy, because the script may go on to add to its own. Profiled steps have no work of ours.
        """
        for output in outputs:
            if len(self.pending) < MOST_PENDING and getattr(output, "numel", int)() == 1:
                if not may_work:
                    self.pending.append(Uncopied(output))
                    continue
                local = output.to_local() if hasattr(output, "to_local") else output
                self.pending.append(local.detach().clone())

    def step(self, number: int, scaler: Any) -> None:
        """The passes so far were those of a step."""
        self.last = None
        if self.pending:
            scale = getattr(scaler, "_scale", None)
            is_copied = not isinstance(self.pending[0], Uncopied)
            scale = scale.detach().clone() if is_copied and scale is not None else scale
            self.last = (self.pending, scale)
            self.pending = []
        if number == 1:
            self.first = self.last

    @staticmethod
    def value(kept: Any) -> Any:
        """The sum as a number, or as text where JSON has none; None where nothing was kept."""
        if kept is None:
            return None
        losses, scale = kept
        total = sum(map(float, losses)) / (1.0 if scale is None else float(scale))
        if total != total:
            return "nan"
        return ("inf" if total > 0 else "-inf") if abs(total) == float("inf") else total


# --- one process of a launch ----------------------------------------------------------------------


class Hook:
    """Everything that is known of this process; a forked child begins anew."""

    def __init__(self, order: dict[str, Any]) -> None:
        self.mode = order["mode"]
        self.folder = order["folder"]
        self.warmup = max(1, int(order.get("warmup") or 1))
        self.named: Any = order.get("owner")
        self.trace = order.get("trace")
        self.profile_steps = int(order.get("profile_steps") or 3)
        self.target = int(order["steps"])
        if self.mode in WITH_PROFILER:
            self.target = self.warmup + self.profile_steps
        self.planted = float(os.environ.get(PLANTED_VARIABLE) or 0)
        self.marks: Any = None  # of lines, in the mode "marked"
        self.begin()

    def begin(self) -> None:
        """As a process is when it starts."""
        import threading

        self.pid = os.getpid()
        self.lock = threading.Lock()
        self.local = threading.local()
        self.known: dict[int, Known] = {}  # by id
        self.met = 0  # how many optimizers have stepped
        self.owners_gone = 0
        self.others_at = 0  # the last backward pass for which others than the owner stepped
        self.backwards = 0  # how many outermost backward passes have begun
        self.captured = 0  # steps within a CUDA graph's capture
        self.off = False  # after a fault of ours
        self.is_passive = False  # the script measures itself
        self.main_names_us: bool | None = None  # not known yet
        self.ended = False
        self.is_due = False  # a step has ended in a thread of the engine's
        self.has_claim = False  # on being the one process of its rank
        self.began = self.told_at = perf_counter_ns()  # how far it is
        self.profiler: Any = None
        self.profiled = 0
        self.profiler_found = False  # one of the script's own
        self.losses = Losses()
        self.begin_with(None)

    def begin_with(self, owner: Any) -> None:
        """Counts anew: the steps so far were of another owner, or no training."""
        self.owner = owner
        self.without_owner = 0  # backward passes for which others stepped
        self.steps = 0
        self.blind = 0  # steps before the first backward pass
        self.clock: Any = None
        self.last_end = 0
        self.losses.first = self.losses.last = None

    # --- marks --------------------------------------------------------------------------------

    def mark(self, what: str, **data: Any) -> None:
        """One small line; several processes may append at once."""
        import json

        line = json.dumps({**data, "mark": what, "pid": self.pid, "rank": rank_and_size()[0]})
        try:
            path = os.path.join(self.folder, "marks.jsonl")
            stream = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
            try:
                os.write(stream, (line + "\n").encode())
            finally:
                os.close(stream)
        except OSError:
            self.off = True  # nobody could read what it measures

    def failed(self, error: Exception) -> None:
        """A fault of the hook's own is told, and the script goes on."""
        self.off = True
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        text = short(f"{type(error).__name__}: {error}")
        line = trace.tb_lineno if trace is not None else 0
        is_full = getattr(error, "errno", None) in (ENOSPC, EFBIG)
        code = "disk_full" if is_full else "hook_failed"
        self.mark("problem", code=code, error=text, line=line)

    def tell(self, now: int) -> None:
        """Now and then how far it is, for whoever waits; of a job its first rank."""
        # Ever more rarely: who reads the marks reads all of them.
        if now - self.told_at < max(TELL_EVERY_NS, (now - self.began) // 16):
            return
        self.told_at = now
        if not (rank_and_size()[0] or self.is_passive or self.is_measured_by_itself()):
            self.mark("far", steps=self.steps, backwards=self.backwards)

    # --- backward passes ----------------------------------------------------------------------

    def backward_begins(self, outputs: Any) -> None:
        """Only the outermost one counts: recomputing runs others within it."""
        is_inner = self.is_in_backward()
        self.local.depth = getattr(self.local, "depth", 0) + 1
        if is_inner:
            return
        with self.lock:
            self.backwards += 1
        self.tell(perf_counter_ns())
        # Only the first and the last loss are ever read.
        if self.steps in (0, self.target - 1) and not self.is_passive:
            quietly(self.losses.add, outputs, self.profiler is None)

    def backward_ends(self) -> None:
        """What waited for the outermost one to return is done now."""
        self.local.depth -= 1
        if self.is_in_backward():
            return
        # Of an engine's thread nobody knows who waits for it.
        with self.lock:
            is_due = self.is_due or getattr(self.local, "is_due", False)
            self.is_due = self.local.is_due = False
        if is_due:
            self.step_has_ended()

    def is_in_backward(self) -> bool:
        """Whether this thread runs a backward pass or, as one of the engine's, a part of it."""
        return bool(getattr(self.local, "depth", 0)) or is_of_the_engine()

    # --- steps --------------------------------------------------------------------------------

    def stepped(self, optimizer: Any, scaler: Any = None) -> None:
        """An optimizer has stepped, or a GradScaler has skipped its step."""
        now = perf_counter_ns()
        if self.ended:
            leave()
        if self.is_passive or self.is_captured():
            return
        known = self.known.get(id(optimizer))
        if known is None or known.ref() is not optimizer:
            known = self.known[id(optimizer)] = Known(optimizer, self.met)
            self.met += 1
        if self.backwards and known.backward == self.backwards:
            if not self.has_other_gradients(known, optimizer):
                return  # the same step: several groups, DeepSpeed
        else:
            known.backward = self.backwards
            known.again, known.repeats = known.again if known.by_hand else None, 0
        known.steps += 1
        if self.owns(known):
            self.owner_stepped(optimizer, scaler, now)
        elif self.others_at != self.backwards:
            self.others_at = self.backwards
            self.without_owner += 1
            is_late = self.named is not None and self.owner is None
            if self.without_owner >= (LATE_AFTER if is_late else GONE_AFTER):
                self.owner_is_gone()

    def has_other_gradients(self, known: Known, optimizer: Any) -> bool:
        """Whether the script makes gradients without a backward pass, as those of zeroth order do.

        Calls for one backward pass are one step, unless a call finds the same parameter as the one
        before with another gradient, or no gradient at all; groups that step in turn have
        parameters of their own.
        """
        if self.is_in_backward():
            return False
        with_gradient = (one for one in parameters_of(optimizer) if one.grad is not None)
        parameter = next(with_gradient, None)
        gradient = getattr(parameter, "grad", None)
        version = str(quietly(getattr, gradient, "_version"))
        is_seen = getattr(gradient, SEEN, None) == version
        is_again = known.again == id(parameter)
        known.again = id(parameter)
        if gradient is not None:
            setattr(gradient, SEEN, version)
        if is_seen and is_again:
            known.repeats += 1
            if known.repeats >= MOST_REPEATS and known is self.owner:
                self.end_with("same_gradients")
        known.by_hand |= is_again and not is_seen
        return is_again and not is_seen

    def owns(self, known: Known) -> bool:
        """Whether it ends steps: the one that was named, else the largest that has stepped."""
        if known is self.owner:
            return True
        if self.named is not None:
            is_owner = (known.name, known.order) == (self.named["class"], self.named["order"])
        else:
            is_owner = self.owner is None or (
                known.steps == 1
                and known.parameters > self.owner.parameters
                and self.profiler is None
            )
        if is_owner:
            same = self.owner is not None and self.owner.backward == self.backwards
            if same and self.losses.last is not None:
                self.losses.pending = self.losses.last[0]
            self.begin_with(known)
        return is_owner

    def owner_stepped(self, optimizer: Any, scaler: Any, now: int) -> None:
        """The end of a step."""
        self.without_owner = 0
        if self.blind and self.backwards:
            self.begin_with(self.owner)  # steps without any gradient: a checkpoint was loaded
        self.blind += not self.backwards
        if self.clock is None:
            if not self.may_begin():
                return
            self.clock = Clock(optimizer)
        if self.planted:
            now = self.slowed_down()
        self.steps += 1
        self.clock.tick(now)
        self.losses.step(self.steps, scaler)
        if self.profiler is None and is_profiling():
            self.profiler_found = True
        if not self.steps & (self.steps - 1):
            self.mark("step", step=self.steps)
        self.tell(now)
        if self.steps >= (self.warmup if self.mode in WITH_PROFILER else self.target):
            if getattr(self.local, "depth", 0):
                self.local.is_due = True  # an optimizer that steps in backward
            elif is_of_the_engine():
                self.is_due = True
            else:
                self.step_has_ended()

    def may_begin(self) -> bool:
        """Whether this process is the one of its rank that trains, and does not measure itself."""
        if self.must_be_passive():
            return False
        if not self.has_claim:
            path = os.path.join(self.folder, f"job-{rank_and_size()[0]}")
            try:
                os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
            except FileExistsError:
                self.end_with("two_jobs")
            self.has_claim = True
        return True

    def must_be_passive(self) -> bool:
        """Whether the script writes lines of its own, which win; it then runs to its end."""
        if self.is_measured_by_itself():
            self.is_passive = True
            self.mark("passive")
        return self.is_passive

    def is_measured_by_itself(self) -> bool:
        """By a Recorder, or by lines of its own."""
        recorder = getattr(sys.modules.get(RECORDER), "Recorder", None)
        if getattr(recorder, "is_in_use", False):
            return True
        if self.main_names_us is None:
            self.main_names_us = names_us()
        return self.main_names_us

    def slowed_down(self) -> int:
        """The end of a step that is made longer by the planted share."""
        self.clock.wait()
        now = perf_counter_ns()
        until = now + (now - (self.last_end or now)) * self.planted
        while now < until:
            now = perf_counter_ns()
        self.last_end = now
        return now

    def is_captured(self) -> bool:
        """Inside a CUDA graph's capture: what is replayed later calls no hook."""
        cuda = getattr(sys.modules.get("torch"), "cuda", None)
        if cuda is None or not cuda.is_initialized() or not cuda.is_current_stream_capturing():
            return False
        self.captured += 1
        if self.captured == 1:
            watch_replays(cuda.CUDAGraph)
        return True

    def owner_is_gone(self) -> None:
        """Others go on: where no owner was named one of them takes its place, else it is over."""
        old = self.owner
        since = old.backward if old is not None else -1
        others = [
            one
            for one in self.known.values()
            if one is not old and one.backward > since and one.ref() is not None
        ]
        # Of those as large the one with most steps: others may be built anew in each of its own.
        heir = max(others, key=lambda one: (one.parameters, one.steps, one.backward))
        self.owners_gone += 1
        is_alike = old is not None and (old.name, old.parameters) == (heir.name, heir.parameters)
        is_over = self.named is not None or self.owners_gone > MOST_OWNERS
        if is_over or (is_alike and self.owners_gone > 1):
            name = old.name if old is not None else short(self.named["class"])
            code = "rebuilt" if is_alike else "owner_gone"
            self.end_with(code, steps=self.steps, owner=name, other=heir.name)
        self.losses.pending = []
        self.begin_with(heir)

    # --- the profiler -------------------------------------------------------------------------

    def step_has_ended(self) -> None:
        """A step that counts has ended, and no backward pass runs."""
        if self.mode not in WITH_PROFILER or rank_and_size()[0]:
            if self.steps >= self.target:
                self.finish()
        elif self.profiler is None:
            if not self.must_be_passive():
                self.start_profiler()
        else:
            self.profiled += 1
            if self.profiled < self.profile_steps:
                self.profiler.step()
            else:
                self.stop_profiler()
                self.finish()

    def start_profiler(self) -> None:
        """One step a `ProfilerStep#` range; without stacks, which make traces of a gigabyte."""
        from torch.profiler import ProfilerAction, profile  # type: ignore[import-not-found]

        if is_profiling():
            self.end_with("profiler_busy")
        self.profiler = profile(
            schedule=lambda _: ProfilerAction.RECORD, record_shapes=True, profile_memory=True
        )
        self.profiler.start()
        if self.marks is not None:
            self.marks.start()

    def stop_profiler(self) -> None:
        """The trace is there whole or not at all, and so is the table of its marks."""
        if self.marks is not None:
            self.marks.stop()
        self.profiler.stop()
        part = f"{self.trace}.part"
        self.profiler.export_chrome_trace(part)
        if not os.path.exists(part):
            raise OSError(ENOSPC, "the profiler left no trace")  # it tells nobody why
        os.replace(part, str(self.trace))
        table = self.marks.table_of_lines() if self.marks is not None else None
        if table is not None:
            told = {"schema": 1, "rank": rank_and_size()[0], "pid": self.pid, **table}
            write_whole(self.folder, told, "lines")

    # --- the end ------------------------------------------------------------------------------

    def finish(self) -> None:
        """All steps are there: writes the record and ends the process."""
        if self.must_be_passive():
            return
        self.clock.wait()
        record = self.record()
        write_whole(self.folder, record)
        self.ended = True
        if record["world_size"] > 1:
            # A launcher may end the others when the first one exits. Writing a trace takes time.
            seconds = GRACE_SECONDS if self.mode not in WITH_PROFILER else TRACE_SECONDS
            wait_for_ranks(self.folder, record["world_size"], seconds)
        self.end(0)

    def end_with(self, code: str, **data: Any) -> None:
        """The launch cannot be used."""
        self.ended = True
        self.mark("problem", code=code, asked=self.target, mode=self.mode, **data)
        self.end(3)

    def end(self, code: int) -> None:
        """Leaves the script by the way that it knows, and soon by force."""
        import threading

        timer = threading.Timer(GRACE_SECONDS, leave)
        timer.daemon = True
        timer.start()
        raise SystemExit(code)

    def record(self) -> dict[str, Any]:
        """What this process has measured."""
        rank, size = rank_and_size()
        found = {
            "first_loss": quietly(Losses.value, self.losses.first),
            "final_loss": quietly(Losses.value, self.losses.last),
            "peak_memory": quietly(self.clock.peak_memory),
            # Reading them takes a while, and the untimed launch tells them for all.
            "packages": quietly(packages) if rank == 0 and self.mode == "settle" else None,
            "other_side": quietly(code_of_the_other_side),
            "planted": self.planted or None,
            "marks_problem": getattr(self.marks, "problem", None),
        }
        return {
            "schema": 1,
            "mode": self.mode,
            "pid": self.pid,
            "rank": rank,
            "world_size": size,
            "steps": self.steps,
            "warmup_steps": 0 if self.mode == "settle" else self.warmup - 1,
            "step_ms": self.clock.intervals(),
            "timed_by": "wall clock" if self.clock.module is None else "device events",
            "owner": self.owner.shape(),
            "versions": versions(),
            "profiler_found": self.profiler_found,
            **{name: value for name, value in found.items() if value is not None},
        }

    def at_exit(self) -> None:
        """A normal exit says how far it came."""
        if os.getpid() != self.pid or self.ended or self.off:
            return
        error = getattr(sys, "last_type", None)
        self.mark(
            "exit",
            steps=self.steps,
            backwards=self.backwards,
            captured=self.captured,
            repeats=getattr(self.owner, "repeats", 0),
            error=None if error is None else short(error.__name__),
        )


def leave() -> None:
    """Ends the process at once: it went on after its end."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            pass  # closed, or gone
    os._exit(0)


def write_whole(folder: str, record: dict[str, Any], name: str = "rank") -> None:
    """A record is there whole or not at all."""
    import json

    path = os.path.join(folder, f"{name}-{record['rank']}-{record['pid']}.json")
    with open(f"{path}.part", "w", encoding="utf-8") as stream:
        json.dump(record, stream, allow_nan=False)
    os.replace(f"{path}.part", path)


def wait_for_ranks(folder: str, size: int, seconds: float) -> None:
    """Until all ranks have their records, or the slowest one takes too long."""
    until = monotonic() + seconds
    while monotonic() < until:
        names = [name.split("-") for name in os.listdir(folder) if name.endswith(".json")]
        if len({name[1] for name in names if name[0] == "rank"}) >= size:
            return
        sleep(POLL_SECONDS)


# --- what surrounds it ----------------------------------------------------------------------------


def quietly(call: Callable[..., Any], *args: Any) -> Any:
    """What can be missing without harm: None where it cannot be had."""
    try:
        return call(*args)
    except Exception:
        return None


def rank_and_size() -> tuple[int, int]:
    """The place of this process in its job: of torch, else of whoever started it."""
    distributed = sys.modules.get("torch.distributed")
    try:
        if distributed is not None and distributed.is_available() and distributed.is_initialized():
            return int(distributed.get_rank()), int(distributed.get_world_size())
        for rank, size in RANKS:
            if rank in os.environ and size in os.environ:
                return int(os.environ[rank]), int(os.environ[size])
    except Exception:
        return 0, 1  # half imported, or not numbers
    return 0, 1


def names_us() -> bool:
    """Whether the command's own file names the file of measurement lines."""
    texts = [quietly(text_of_module, name) for name in ("__main__", "__mp_main__")]
    return any(text is not None and OWN_LINES in text for text in texts)


def text_of_module(name: str) -> bytes:
    """The source of a module that has one."""
    with open(str(sys.modules[name].__file__), "rb") as stream:
        return stream.read(LONGEST_MAIN)


def is_of_the_engine() -> bool:
    """Whether this thread evaluates a node of a backward pass, whoever began that."""
    native = getattr(sys.modules.get("torch"), "_C", None)
    number = getattr(native, "_current_graph_task_id", None)
    return bool(number is not None and number() != -1)


def is_profiling() -> bool:
    """Whether a profiler of torch's runs in this thread."""
    autograd = getattr(sys.modules.get("torch"), "autograd", None)
    enabled = getattr(autograd, "_profiler_enabled", None)
    return enabled is not None and bool(enabled())


def versions() -> dict[str, str]:
    """Of what this very process uses: nobody else can know it."""
    import platform

    found = {"python": platform.python_version()}
    for name in VERSIONED:
        version = getattr(sys.modules.get(name), "__version__", None)
        if version is not None:
            found[name] = short(version)
    cuda = getattr(getattr(sys.modules.get("torch"), "version", None), "cuda", None)
    return {**found, "cuda": short(cuda)} if cuda else found


def packages() -> dict[str, str]:
    """What is installed beside the script; the first one on the path is the one that is used."""
    from importlib import metadata

    found: dict[str, str] = {}
    for distribution in metadata.distributions():
        told = distribution.metadata
        if told["Name"] and len(found) < MOST_PACKAGES:
            found.setdefault(short(told["Name"]), short(told["Version"]))
    return found


def code_of_the_other_side() -> str | None:
    """A module that was imported from the other side's folder, with its file."""
    told = os.environ.get(FOLDERS_VARIABLE, "").split(os.pathsep)
    if len(told) != 2 or told[0] == told[1]:
        return None
    own, other = (os.path.abspath(path) for path in told)
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if name in ("__main__", "__mp_main__") or not file or "site-packages" in file:
            continue
        path = os.path.abspath(file)
        is_installed = is_within(path, sys.prefix) or is_within(path, sys.base_prefix)
        # Where one side's folder lies in the other's, the inner one is whose code it is.
        is_own = is_within(path, own) and not is_within(other, own)
        if is_within(path, other) and not is_installed and not is_own:
            return f"{name} ({path})"[:1000]
    return None


def is_within(path: str, folder: str) -> bool:
    """Whether a path is a folder or lies in it."""
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


# --- what is put into torch -----------------------------------------------------------------------


def guarded(call: Callable[..., Any], *args: Any) -> None:
    """A fault of ours must not reach the script."""
    if not HOOK.off:
        try:
            call(*args)
        except Exception as error:
            HOOK.failed(error)


def after_step(optimizer: Any, _args: Any, _kwargs: Any) -> None:
    """Torch calls it after the step of any optimizer."""
    inside = getattr(HOOK.local, "in_scaler", None)
    if inside is None:
        guarded(HOOK.stepped, optimizer)
    else:
        inside.append(optimizer)


def watch_optimizers(module: Any) -> None:
    """Optimizers that exist already, subclasses and those to come all call the global hook."""
    torch = sys.modules["torch"]
    version = short(getattr(torch, "__version__", ""))
    HOOK.mark("optimizers")
    register = getattr(module, "register_optimizer_step_post_hook", None)
    if register is None:
        HOOK.mark("problem", code="old_torch", error=version)
        HOOK.off = True
        return
    skip_frames()
    register(uncompiled(after_step))


def watch_scaler(module: Any) -> None:
    """A step that is skipped is a step, too; inside it the optimizer's own call is not counted."""
    import functools

    kind = module.GradScaler
    step = vars(kind).get("step")
    if step is None:
        return  # it inherits what is watched already
    begins, ends, fails = map(uncompiled, (scaler_begins, scaler_ends, scaler_fails))

    @functools.wraps(step)
    def watched(scaler: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        begins()
        try:
            out = step(scaler, optimizer, *args, **kwargs)
        except BaseException:
            fails()
            raise
        ends(scaler, optimizer)
        return out

    kind.step = watched


def scaler_begins() -> None:
    """From here on an optimizer's step is part of the scaler's."""
    HOOK.local.in_scaler = []


def scaler_fails() -> None:
    """The step did not come to its end."""
    HOOK.local.in_scaler = None


def scaler_ends(scaler: Any, optimizer: Any) -> None:
    """One step, whether the optimizer was called or not."""
    inside, HOOK.local.in_scaler = HOOK.local.in_scaler, None
    if inside:
        optimizer = inside[-1]
    elif not isinstance(optimizer, sys.modules["torch.optim.optimizer"].Optimizer):
        optimizer = getattr(optimizer, "optimizer", optimizer)  # a framework's wrapper
    guarded(HOOK.stepped, optimizer, scaler if getattr(scaler, "_enabled", True) else None)


def watch_engine(module: Any) -> None:
    """`backward` and `grad` both call it, and the compiler does not trace it."""
    engine = getattr(module, "_engine_run_backward", None)
    if engine is not None:
        if HOOK.marks is not None:
            engine = HOOK.marks.around_engine(engine)
        module._engine_run_backward = watched_backward(engine, outputs_of_engine)


def watch_autograd(module: Any) -> None:
    """Torch before 2.3 has no such place: both of its functions are watched."""
    if not hasattr(module, "_engine_run_backward"):
        around = getattr(HOOK.marks, "around_engine", lambda run: run)
        module.backward = watched_backward(around(module.backward), outputs_of_backward)
        module.grad = watched_backward(around(module.grad), lambda *_: ())


def outputs_of_engine(args: Any, kwargs: Any) -> Any:
    """Where `backward` begins; `grad` is asked for other things than the loss."""
    return args[0] if kwargs.get("accumulate_grad") else ()


def outputs_of_backward(args: Any, kwargs: Any) -> Any:
    """The same of `torch.autograd.backward`."""
    tensors = args[0] if args else kwargs.get("tensors", ())
    return tensors if isinstance(tensors, (tuple, list)) else (tensors,)


def watched_backward(run: Any, outputs_of: Callable[[Any, Any], Any]) -> Any:
    """`run`, noticed when it starts and when it returns."""
    import functools

    @functools.wraps(run)
    def watched(*args: Any, **kwargs: Any) -> Any:
        guarded(HOOK.backward_begins, outputs_of(args, kwargs))
        try:
            return run(*args, **kwargs)
        finally:
            guarded(HOOK.backward_ends)

    return watched


def watch_replays(kind: Any) -> None:
    """The first replay after a step was captured: no hook will be called any more."""
    replay = kind.replay

    def watched(graph: Any) -> Any:
        guarded(HOOK.end_with, "cuda_graphs")
        return replay(graph)

    kind.replay = watched


def uncompiled(function: Any) -> Any:
    """Kept out of the graphs of a compiled step that calls it."""
    disable = getattr(sys.modules["torch"], "_disable_dynamo", None)
    return function if disable is None else disable(function)


def skip_frames() -> None:
    """No frame of this file is ever compiled; what it calls is treated as if it were not there."""
    try:
        from torch._C._dynamo import eval_frame  # type: ignore[import-not-found]

        skip = getattr(eval_frame, "skip_code", None)  # up to torch 2.6
        if skip is None:
            action = eval_frame._FrameAction
            how = eval_frame._FrameExecStrategy(action.SKIP, action.DEFAULT)

            def skip(code: Any) -> None:
                eval_frame.set_code_exec_strategy(code, how)

    except (ImportError, AttributeError):
        return
    codes = [CODE] if HOOK.marks is None else [CODE, HOOK.marks.own_code]
    for code in codes:
        skip(code)
        codes += [one for one in code.co_consts if isinstance(one, type(CODE))]


class Nothing:
    """What a profiler found that never ran."""

    def __getattr__(self, name: str) -> Nothing:
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Nothing:
        """Whatever is asked of it."""
        return self

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __str__(self) -> str:
        return ""


def empty_profilers(module: Any) -> None:
    """Only one profiler can run, and in the profiled launch it is ours."""
    for name in dir(module.profile):
        method = getattr(module.profile, name)
        if name in ("__enter__", "__exit__") or (name[0] != "_" and callable(method)):
            setattr(module.profile, name, emptied(name, method))


def emptied(name: str, method: Any) -> Any:
    """A method that works for our own profiler alone."""

    def empty(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self is HOOK.profiler or HOOK.off or HOOK.is_measured_by_itself():
            return method(self, *args, **kwargs)
        HOOK.profiler_found = True
        if name in ("key_averages", "events"):
            return Nothing()
        return self if name == "__enter__" else None

    return empty


# --- waiting for torch ----------------------------------------------------------------------------


class Finder:
    """Stands first among those who find modules, to see when torch's are imported."""

    def __init__(self, watched: dict[str, Callable[[Any], None]]) -> None:
        self.watched = watched

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Asks the others for a module that is waited for."""
        watch = self.watched.get(name)
        for finder in sys.meta_path if watch is not None else ():
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if finder is not self and find is not None else None
            if spec is not None:
                guarded(self.see, spec.loader, watch)
                return spec
        return None

    @staticmethod
    def see(loader: Any, watch: Callable[[Any], None]) -> None:
        """Calls `watch` when the module has run; the loader stays what it is."""
        run = loader.exec_module

        def exec_module(module: Any) -> None:
            vars(loader).pop("exec_module", None)
            run(module)
            guarded(watch, module)

        loader.exec_module = exec_module


def install(order: dict[str, Any]) -> None:
    """Begins to wait."""
    import atexit

    if hasattr(sys, "ci_score_hook"):
        return  # another copy of this file stands further back on the path
    global HOOK
    sys.ci_score_hook = HOOK = Hook(order)  # type: ignore[attr-defined]
    HOOK.mark("loaded", mode=HOOK.mode, asked=HOOK.target)
    if HOOK.off:
        return
    watched: dict[str, Callable[[Any], None]] = {
        "torch.autograd.graph": watch_engine,
        "torch.autograd": watch_autograd,
        "torch.optim.optimizer": watch_optimizers,
        "torch.amp.grad_scaler": watch_scaler,
        "torch.cuda.amp.grad_scaler": watch_scaler,
    }
    if HOOK.mode in WITH_PROFILER:
        watched["torch.profiler.profiler"] = empty_profilers
    if HOOK.mode == "marked":
        HOOK.marks = load_marks(order["tree"])
        watched["torch._dynamo.eval_frame"] = HOOK.marks.watch_compiler
    finder: Any = Finder(watched)
    sys.meta_path.insert(0, finder)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=HOOK.begin)
    atexit.register(HOOK.at_exit)


def load_marks(tree: str) -> Any:
    """The file beside this one; no script can import it under a name of its own by mistake."""
    from importlib.util import module_from_spec, spec_from_file_location

    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ci_score_marks.py")
    spec = spec_from_file_location("ci_score_marks", path)
    module = module_from_spec(spec)  # type: ignore[arg-type]
    spec.loader.exec_module(module)  # type: ignore[union-attr]
    return module.Marks(tree)


def main() -> None:
    """Runs when Python starts."""
    told = os.environ.get(VARIABLE)
    if told:
        import json

        try:
            order = json.loads(told)
            if order["schema"] == 1:
                install(order)
        except Exception:
            pass  # an order that cannot be read asks for nothing
    run_the_next_sitecustomize()


HOOK: Any = None
CODE: Any = sys._getframe().f_code
main()
