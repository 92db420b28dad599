"""Counts and times the optimizer steps of a script that knows nothing of it.

`ci-score` puts this folder in front of PYTHONPATH, so every Python of a launch imports this file
when it starts. Without the variable CI_SCORE_HOOK it does nothing; either way it then runs the
user's own sitecustomize. It needs the standard library alone (Python 3.8), waits for torch without
importing it, never prints, and raises nothing into the script but the SystemExit that ends a
launch. A fault of its own is a mark, and the script goes on. docs/measuring.md says what a step is.
"""

from __future__ import annotations

import os
import sys
import time

VARIABLE = "CI_SCORE_HOOK"
FOLDERS_VARIABLE = "CI_SCORE_FOLDERS"
# A script that names it writes lines of its own.
OWN_LINES = b"CI_SCORE_MEASUREMENTS"
RECORDER = "ci_score.measure.recorder"
# An optimizer is gone when others stepped for that many backward passes, and it for none.
GONE_AFTER = 200
# One that was named may begin late: another one steps before it.
LATE_AFTER = 1000
MOST_OWNERS = 5
GRACE_SECONDS = 5.0
POLL_SECONDS = 0.01
LONGEST_MAIN = 1 << 20
MOST_PENDING = 1000
MOST_PACKAGES = 4096
LONGEST_TEXT = 200
VERSIONED = ("torch", "triton", "transformers", "accelerate", "lightning", "deepspeed", "numpy")
# Who starts the ranks of a job tells each its number and their count. SLURM's pair is complete
# within srun alone: in a batch script there are tasks, and this process is none of them.
RANKS = (
    ("RANK", "WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
)


def run_the_next_sitecustomize():
    """Runs the one that this file hides; it becomes `sitecustomize`, as without us."""
    from importlib.machinery import PathFinder

    own = os.path.dirname(os.path.abspath(__file__))
    paths = [path for path in sys.path if os.path.abspath(path or ".") != own]
    spec = PathFinder.find_spec("sitecustomize", paths)
    if spec is None or spec.loader is None:
        return
    from importlib.util import module_from_spec

    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


# --- what a process sees --------------------------------------------------------------------------


class Known:
    """An optimizer that has stepped."""

    __slots__ = ("backward", "name", "order", "parameters", "ref", "steps")

    def __init__(self, optimizer, order):
        import weakref

        self.ref = weakref.ref(optimizer)
        self.name = type(optimizer).__name__
        self.parameters = elements_of(optimizer)
        self.order = order
        self.backward = -1  # the last backward pass that it stepped for
        self.steps = 0

    def shape(self):
        return {
            "class": self.name[:LONGEST_TEXT],
            "parameters": self.parameters,
            "order": self.order,
        }


def elements_of(optimizer):
    """How many numbers an optimizer owns."""
    total = 0
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            try:
                total += int(parameter.numel())
            except Exception:  # a lazy parameter has no shape yet
                total += 1
    return total


class Clock:
    """When steps ended: by events of the device, which nobody waits for, else by the wall clock."""

    def __init__(self, optimizer):
        self.module = None
        self.device = device_of(optimizer)
        self.stamps = []
        kind = getattr(self.device, "type", "cpu")
        module = (
            getattr(sys.modules.get("torch"), kind, None) if kind not in ("cpu", "meta") else None
        )
        if all(hasattr(module, name) for name in ("Event", "synchronize")):
            self.module = module

    @property
    def timed_by(self):
        return "wall clock" if self.module is None else "device events"

    def tick(self, now):
        if self.module is None:
            self.stamps.append(now)
            return
        event = self.module.Event(enable_timing=True)
        stream = getattr(self.module, "current_stream", None)
        if stream is None:
            event.record()
        else:
            event.record(stream(self.device))
        self.stamps.append(event)

    def wait(self):
        if self.module is not None:
            self.module.synchronize()

    def intervals(self):
        """Milliseconds between ends of steps; the device must be idle."""
        pairs = zip(self.stamps, self.stamps[1:])
        if self.module is None:
            return [(later - earlier) / 1e6 for earlier, later in pairs]
        return [float(earlier.elapsed_time(later)) for earlier, later in pairs]

    def peak_memory(self):
        """Bytes that were allocated at most on each device that was used."""
        peak_of = getattr(self.module, "max_memory_allocated", None)
        count = getattr(self.module, "device_count", None)
        if peak_of is None or count is None:
            return {}
        peaks = {
            "%s:%d" % (self.device.type, index): int(peak_of(index)) for index in range(count())
        }
        return {name: peak for name, peak in peaks.items() if peak}


def device_of(optimizer):
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            return getattr(parameter, "device", None)
    return None


class Losses:
    """What went into backward for one step: kept on the device, read when the launch has ended."""

    def __init__(self):
        self.pending = []
        self.first = None
        self.last = None

    def add(self, outputs):
        for output in outputs:
            if len(self.pending) < MOST_PENDING and output.numel() == 1:
                # A copy, because the script may go on to add to its own.
                self.pending.append(output.detach().clone())

    def step(self, number, scaler):
        if self.pending:
            scale = getattr(scaler, "_scale", None) if scaler is not None else None
            kept = (self.pending, None if scale is None else scale.detach().clone())
            if number == 1:
                self.first = kept
            self.last = kept
            self.pending = []

    @staticmethod
    def value(kept):
        """The sum as a number, or as text where JSON has none; None where nothing was kept."""
        if kept is None:
            return None
        losses, scale = kept
        total = sum(float(loss) for loss in losses) / (float(scale) if scale is not None else 1.0)
        if total != total:
            return "nan"
        return ("inf" if total > 0 else "-inf") if abs(total) == float("inf") else total


# --- one process of a launch ----------------------------------------------------------------------


class Hook:
    """Everything that is known of this process; a forked child begins anew."""

    def __init__(self, order):
        self.mode = order["mode"]
        self.folder = order["folder"]
        self.warmup = order.get("warmup")
        self.named = order.get("owner")
        self.trace = order.get("trace")
        self.profile_steps = int(order.get("profile_steps") or 3)
        self.target = int(order["steps"])
        if self.mode == "profiled":
            self.warmup = max(1, int(self.warmup or 1))
            self.target = self.warmup + self.profile_steps
        self.begin()

    def begin(self):
        import threading

        self.pid = os.getpid()
        self.lock = threading.Lock()
        self.local = threading.local()
        self.known = {}
        self.met = 0
        self.owner = None
        self.owners_gone = 0
        self.others_at = 0
        self.without_owner = 0
        self.backwards = 0
        self.depth = 0
        self.captured = 0
        self.off = False
        self.is_passive = False
        self.ended = False
        self.due = False
        self.has_claim = False
        self.knows_torch = "torch.optim.optimizer" in sys.modules
        self.profiler = None
        self.profiled = 0
        self.profiler_found = False
        self.losses = Losses()
        self.restart()

    def restart(self):
        """Counts anew: the steps so far were of another owner."""
        self.steps = 0
        self.blind = 0  # steps while no backward pass had been seen at all
        self.clock = None
        self.losses.first = self.losses.last = None

    # --- marks --------------------------------------------------------------------------------

    def mark(self, what, **data):
        """One small line that several processes may append to at once."""
        import json

        line = json.dumps(dict(data, mark=what, pid=self.pid, rank=rank_and_size()[0]))
        try:
            path = os.path.join(self.folder, "marks.jsonl")
            stream = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
            try:
                os.write(stream, (line + "\n").encode())
            finally:
                os.close(stream)
        except OSError:
            self.off = True  # nobody can read what it would measure

    def failed(self, error):
        """A fault of the hook's own: it is told, and the script goes on."""
        self.off = True
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        line = trace.tb_lineno if trace is not None else 0
        text = "%s: %s" % (type(error).__name__, error)
        self.mark("problem", code="hook_failed", error=text[:LONGEST_TEXT], line=line)

    # --- backward passes ----------------------------------------------------------------------

    def backward_begins(self, outputs):
        with self.lock:
            self.depth += 1
            if self.depth > 1:
                return
            self.backwards += 1
        # Only the first and the last loss are ever read.
        if self.mode != "profiled" and self.steps in (0, self.target - 1) and not self.is_passive:
            self.losses.add(outputs)

    def backward_ends(self):
        with self.lock:
            self.depth -= 1
            due = self.due and not self.depth
        if due:
            self.due = False
            self.boundary()

    # --- steps --------------------------------------------------------------------------------

    def stepped(self, optimizer, scaler=None):
        now = time.perf_counter_ns()
        if self.ended:
            leave()
        if self.is_passive or self.is_captured():
            return
        known = self.known.get(id(optimizer))
        if known is None or known.ref() is not optimizer:
            known = self.known[id(optimizer)] = Known(optimizer, self.met)
            self.met += 1
        if self.backwards and known.backward == self.backwards:
            return  # the same step: several groups, DeepSpeed
        known.backward = self.backwards
        known.steps += 1
        if self.owns(known):
            self.owner_stepped(optimizer, scaler, now)
        elif self.others_at != self.backwards:
            self.others_at = self.backwards
            self.without_owner += 1
            if self.without_owner >= (GONE_AFTER if self.steps else LATE_AFTER):
                self.owner_is_gone()

    def owns(self, known):
        """Whether it ends steps: the one that was named, else the largest that has stepped."""
        if known is self.owner:
            return True
        if self.named is not None:
            is_owner = (known.name, known.order) == (self.named["class"], self.named["order"])
        else:
            is_owner = known.steps == 1 and (
                self.owner is None or known.parameters > self.owner.parameters
            )
        if is_owner:
            self.owner = known
            self.restart()
        return is_owner

    def owner_stepped(self, optimizer, scaler, now):
        self.without_owner = 0
        if self.blind and self.backwards:
            self.restart()  # a step without gradients: a checkpoint that was loaded
        self.blind += not self.backwards
        if self.clock is None:
            if not self.may_begin():
                return
            self.clock = Clock(optimizer)
        self.steps += 1
        self.clock.tick(now)
        self.losses.step(self.steps, scaler)
        if self.profiler is None and is_profiling():
            self.profiler_found = True
        if not self.steps & (self.steps - 1):
            self.mark("step", step=self.steps, optimizer=self.owner.name[:LONGEST_TEXT])
        if self.steps >= (self.warmup if self.mode == "profiled" else self.target):
            if self.depth:
                self.due = True  # an optimizer in backward
            else:
                self.boundary()

    def may_begin(self):
        """Whether this process is the one that trains, and does not measure itself."""
        if measures_itself():
            self.is_passive = True
            self.mark("passive")
            return False
        if not self.has_claim:
            rank = rank_and_size()[0]
            try:
                path = os.path.join(self.folder, "job-%d" % rank)
                os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
            except FileExistsError:
                self.end_with("two_jobs")
            self.has_claim = True
        return True

    def is_captured(self):
        """Inside a CUDA graph's capture: what is replayed later calls no hook."""
        cuda = getattr(sys.modules.get("torch"), "cuda", None)
        if cuda is None or not cuda.is_initialized() or not cuda.is_current_stream_capturing():
            return False
        self.captured += 1
        if self.captured == 1:
            watch_replays(cuda.CUDAGraph)
        return True

    def owner_is_gone(self):
        """Others go on: in warm-up one of them owns the steps, later the launch ends."""
        old = self.owner
        since = old.backward if old is not None else -1
        others = [one for one in self.known.values() if one is not old and one.backward > since]
        heir = max(others, key=lambda one: (one.parameters, one.backward))
        self.owners_gone += 1
        is_alike = old is not None and (old.name, old.parameters) == (heir.name, heir.parameters)
        may_change = self.named is None and self.owners_gone <= MOST_OWNERS
        if not may_change or (is_alike and self.owners_gone > 1):
            self.end_with(
                "rebuilt" if is_alike else "owner_gone",
                steps=self.steps, asked=self.target, other=heir.name[:LONGEST_TEXT],
                owner=(old.name if old is not None else self.named["class"])[:LONGEST_TEXT],
            )  # fmt: skip
        self.owner = heir
        self.without_owner = 0
        self.restart()

    # --- the profiler -------------------------------------------------------------------------

    def boundary(self):
        """A step has ended, and no backward pass runs."""
        if self.mode != "profiled":
            self.finish()
        elif rank_and_size()[0]:
            if self.steps >= self.target:
                self.finish()
        elif self.profiler is None:
            self.start_profiler()
        else:
            self.profiled += 1
            if self.profiled < self.profile_steps:
                real("step")(self.profiler)
            else:
                real("stop")(self.profiler)
                partial = "%s.part" % self.trace
                real("export_chrome_trace")(self.profiler, partial)
                os.replace(partial, self.trace)
                self.finish()

    def start_profiler(self):
        from torch.profiler import ProfilerAction, profile

        if is_profiling():
            self.end_with("profiler_busy")
        self.profiler = profile(
            schedule=lambda step: ProfilerAction.RECORD, record_shapes=True, profile_memory=True
        )
        real("start")(self.profiler)

    # --- the end ------------------------------------------------------------------------------

    def finish(self):
        """All steps are there: writes the record and ends the process."""
        if measures_itself():
            self.is_passive = True
            self.mark("passive")
            return
        self.clock.wait()
        record = self.record()
        self.ended = True
        write_whole(self.folder, record)
        if record["world_size"] > 1:
            # A rank that exits may make its launcher end the others.
            wait_for_ranks(self.folder, record["world_size"])
        self.end(0)

    def end_with(self, code, **data):
        """The launch cannot be used."""
        self.ended = True
        self.mark("problem", code=code, **data)
        self.end(3)

    def end(self, code):
        import threading

        timer = threading.Timer(GRACE_SECONDS, leave)
        timer.daemon = True
        timer.start()
        raise SystemExit(code)

    def record(self):
        rank, size = rank_and_size()
        losses = {
            "first_loss": Losses.value(self.losses.first),
            "final_loss": Losses.value(self.losses.last) if self.steps >= self.target else None,
        }
        return {
            "schema": 1, "mode": self.mode, "pid": self.pid, "rank": rank, "world_size": size,
            "steps": self.steps, "warmup": self.warmup,
            "warmup_steps": max(0, int(self.warmup or 1) - 1),
            "step_ms": self.clock.intervals(), "timed_by": self.clock.timed_by,
            "owner": self.owner.shape(), "optimizers": self.shapes(),
            "peak_memory": self.clock.peak_memory(), "versions": versions(),
            "packages": packages() if rank == 0 else {},
            "profiler_found": self.profiler_found, "other_side": code_of_the_other_side(),
            **{name: loss for name, loss in losses.items() if loss is not None},
        }  # fmt: skip

    def shapes(self):
        return [known.shape() for known in sorted(self.known.values(), key=lambda one: one.order)][
            :64
        ]

    def at_exit(self):
        """A normal exit says how far it came."""
        if os.getpid() == self.pid and not self.ended and not self.off:
            self.mark(
                "exit", steps=self.steps, asked=self.target, backwards=self.backwards,
                torch=self.knows_torch, optimizers=self.shapes()[:8], captured=self.captured,
            )  # fmt: skip


def leave():
    """Ends the process at once: it went on after its end."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:  # noqa: S110 - a closed stream has nothing to flush
            pass
    os._exit(0)


def write_whole(folder, record):
    import json

    path = os.path.join(folder, "rank-%d-%d.json" % (record["rank"], record["pid"]))
    with open(path + ".part", "w") as stream:
        json.dump(record, stream, allow_nan=False)
    os.replace(path + ".part", path)


def wait_for_ranks(folder, size):
    until = time.monotonic() + GRACE_SECONDS
    while time.monotonic() < until:
        names = [name for name in os.listdir(folder) if name.startswith("rank-")]
        if len({name.split("-")[1] for name in names if name.endswith(".json")}) >= size:
            return
        time.sleep(POLL_SECONDS)


# --- what surrounds it ----------------------------------------------------------------------------


def rank_and_size():
    distributed = sys.modules.get("torch.distributed")
    try:
        if distributed is not None and distributed.is_available() and distributed.is_initialized():
            return int(distributed.get_rank()), int(distributed.get_world_size())
        for rank, size in RANKS:
            if rank in os.environ and size in os.environ:
                return int(os.environ[rank]), int(os.environ[size])
    except Exception:  # noqa: S110 - half imported, or no numbers: it is alone
        pass
    return 0, 1


def measures_itself():
    """Whether the script writes lines of its own: by a Recorder, or by the name of its file."""
    recorder = getattr(sys.modules.get(RECORDER), "Recorder", None)
    return getattr(recorder, "constructed", False) or main_names_us()


def main_names_us(found=[]):  # noqa: B006 - read once
    if not found:
        found.append(False)
        for name in ("__main__", "__mp_main__"):
            try:
                with open(sys.modules[name].__file__, "rb") as stream:
                    text = stream.read(LONGEST_MAIN)
            except (KeyError, AttributeError, TypeError, OSError):
                continue
            found[0] = found[0] or OWN_LINES in text
    return found[0]


def is_profiling():
    autograd = getattr(sys.modules.get("torch"), "autograd", None)
    enabled = getattr(autograd, "_profiler_enabled", None)
    return enabled is not None and bool(enabled())


def versions():
    import platform

    found = {"python": platform.python_version()}
    for name in VERSIONED:
        version = getattr(sys.modules.get(name), "__version__", None)
        if version is not None:
            found[name] = str(version)[:LONGEST_TEXT]
    cuda = getattr(getattr(sys.modules.get("torch"), "version", None), "cuda", None)
    if cuda:
        found["cuda"] = str(cuda)[:LONGEST_TEXT]
    return found


def packages():
    """What is installed beside the script; the first one on the path is the one that is used."""
    from importlib import metadata

    found = {}
    for distribution in metadata.distributions():
        name = distribution.metadata["Name"]
        if name and len(found) < MOST_PACKAGES:
            found.setdefault(str(name)[:LONGEST_TEXT], str(distribution.version)[:LONGEST_TEXT])
    return found


def code_of_the_other_side():
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
        installed = within(path, sys.prefix) or within(path, sys.base_prefix)
        # Where one side's folder lies in the other's, the inner one is whose code it is.
        if within(path, other) and not installed and (not within(path, own) or within(other, own)):
            return ("%s (%s)" % (name, path))[:1000]
    return None


def within(path, folder):
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


# --- what is put into torch -----------------------------------------------------------------------


def guarded(call, *args):
    """A fault of ours must not reach the script."""
    if not HOOK.off:
        try:
            return call(*args)
        except Exception as error:
            HOOK.failed(error)
    return None


def after_step(optimizer, args, kwargs):
    """Torch calls it after the step of any optimizer."""
    inside = getattr(HOOK.local, "in_scaler", None)
    if inside is None:
        guarded(HOOK.stepped, optimizer)
    else:
        inside.append(optimizer)


def watch_optimizers(module):
    skip_frames()
    torch = sys.modules["torch"]
    HOOK.knows_torch = True
    HOOK.mark("optimizers", torch=str(getattr(torch, "__version__", ""))[:LONGEST_TEXT])
    module.register_optimizer_step_post_hook(uncompiled(after_step))


def watch_scaler(module):
    """A step that is skipped is a step, too; inside it the optimizer's own call is not counted."""
    import functools

    kind = module.GradScaler
    step = vars(kind).get("step")
    if step is None:
        return  # the class of before torch 2.3, which inherits
    begins, ends, fails = map(uncompiled, (scaler_begins, scaler_ends, scaler_fails))

    @functools.wraps(step)
    def watched(scaler, optimizer, *args, **kwargs):
        begins()
        try:
            out = step(scaler, optimizer, *args, **kwargs)
        except BaseException:
            fails()
            raise
        ends(scaler, optimizer)
        return out

    kind.step = watched


def scaler_begins():
    HOOK.local.in_scaler = []


def scaler_fails():
    HOOK.local.in_scaler = None


def scaler_ends(scaler, optimizer):
    inside, HOOK.local.in_scaler = HOOK.local.in_scaler, None
    if inside:
        optimizer = inside[-1]
    elif not isinstance(optimizer, sys.modules["torch.optim.optimizer"].Optimizer):
        optimizer = getattr(optimizer, "optimizer", optimizer)  # a framework's wrapper
    guarded(HOOK.stepped, optimizer, scaler)


def watch_engine(module):
    """`backward` and `grad` both call it, and the compiler does not trace it."""
    engine = getattr(module, "_engine_run_backward", None)
    if engine is not None:
        module._engine_run_backward = watched_backward(
            engine, lambda args, kwargs: args[0] if kwargs.get("accumulate_grad") else ()
        )


def watch_autograd(module):
    """Torch of before 2.3 has no such place: both of its functions are watched."""
    if not hasattr(module, "_engine_run_backward"):
        module.backward = watched_backward(module.backward, outputs_of_backward)
        module.grad = watched_backward(module.grad, lambda args, kwargs: ())


def outputs_of_backward(args, kwargs):
    tensors = args[0] if args else kwargs.get("tensors", ())
    return tensors if isinstance(tensors, (tuple, list)) else (tensors,)


def watched_backward(run, losses_of):
    import functools

    @functools.wraps(run)
    def watched(*args, **kwargs):
        guarded(HOOK.backward_begins, losses_of(args, kwargs))
        try:
            return run(*args, **kwargs)
        finally:
            guarded(HOOK.backward_ends)

    return watched


def watch_replays(kind):
    """The replay of a graph that holds a whole step: no hook will be called any more."""
    replay = kind.replay

    def watched(graph):
        guarded(HOOK.end_with, "cuda_graphs")
        return replay(graph)

    kind.replay = watched


def uncompiled(function):
    """Kept out of the graphs of a compiled step that calls it."""
    disable = getattr(sys.modules["torch"], "_disable_dynamo", None)
    return function if disable is None else disable(function)


def skip_frames():
    """No frame of this file is ever compiled; what it calls is treated as if it were not there."""
    try:
        from torch._C._dynamo import eval_frame

        skip_code = getattr(eval_frame, "skip_code", None)  # up to torch 2.5
        if skip_code is None:
            action = eval_frame._FrameAction
            how = eval_frame._FrameExecStrategy(action.SKIP, action.DEFAULT)

            def skip_code(code):
                eval_frame.set_code_exec_strategy(code, how)

    except (ImportError, AttributeError):
        return
    codes = [CODE]
    for code in codes:
        skip_code(code)
        codes += [one for one in code.co_consts if isinstance(one, type(CODE))]


REAL = {}
EMPTY = ("__enter__", "__exit__", "start", "stop", "step", "export_chrome_trace", "export_stacks",
         "export_memory_timeline", "key_averages", "events", "add_metadata", "add_metadata_json",
         "preset_metadata_json", "set_custom_trace_id_callback", "get_trace_id",
         "toggle_collection_dynamic")  # fmt: skip


def real(name):
    return REAL[name]


class Nothing:
    """What a profiler found that never ran."""

    def __getattr__(self, name):
        return self

    def __call__(self, *args, **kwargs):
        return self

    def __iter__(self):
        return iter(())

    def __str__(self):
        return ""


def empty_profilers(module):
    """In the profiled launch the script's own profiler does nothing: only one can run."""
    kind = module.profile
    for name in EMPTY:
        if hasattr(kind, name):
            REAL[name] = getattr(kind, name)
            setattr(kind, name, emptied(name, REAL[name]))


def emptied(name, call):
    def empty(self, *args, **kwargs):
        if self is HOOK.profiler or HOOK.off or measures_itself():
            return call(self, *args, **kwargs)
        if not HOOK.profiler_found:
            HOOK.profiler_found = True
            HOOK.mark("profiler")
        return (
            self
            if name == "__enter__"
            else Nothing()
            if name in ("key_averages", "events")
            else None
        )

    return empty


# --- waiting for torch ----------------------------------------------------------------------------


class Finder:
    """Stands first among those who find modules, and finds none: it sees torch's come and go."""

    def __init__(self, watched):
        self.watched = watched

    def find_spec(self, name, path=None, target=None):
        watch = self.watched.get(name)
        if watch is None:
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            if finder is self or find is None:
                continue
            spec = find(name, path, target)
            if spec is not None:
                guarded(self.see, spec.loader, watch)
                return spec
        return None

    def see(self, loader, watch):
        """Calls `watch` when the module has run; the loader stays what it is."""
        run = loader.exec_module

        def exec_module(module):
            vars(loader).pop("exec_module", None)
            run(module)
            guarded(watch, module)

        loader.exec_module = exec_module


def install(order):
    import atexit

    global HOOK
    HOOK = Hook(order)
    HOOK.mark("loaded", mode=HOOK.mode, asked=HOOK.target)
    if HOOK.off:
        return
    watched = {
        "torch.autograd.graph": watch_engine,
        "torch.autograd": watch_autograd,
        "torch.optim.optimizer": watch_optimizers,
        "torch.amp.grad_scaler": watch_scaler,
        "torch.cuda.amp.grad_scaler": watch_scaler,
    }
    if HOOK.mode == "profiled":
        watched["torch.profiler.profiler"] = empty_profilers
    sys.meta_path.insert(0, Finder(watched))
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=HOOK.begin)
    atexit.register(HOOK.at_exit)


def main():
    told = os.environ.get(VARIABLE)
    if told:
        import json

        try:
            order = json.loads(told)
            if order["schema"] == 1:
                install(order)
        except Exception:  # noqa: S110 - an order that cannot be read asks for nothing
            pass
    run_the_next_sitecustomize()


HOOK = None
CODE = sys._getframe().f_code
main()
