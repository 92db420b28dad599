"""Puts a mark around every torch call of a launch: its name leads to the line that made the call.

The start-up hook beside this file loads it in the mode "marked" alone. A mark is a range of the
profiler's named `ci_score.line#<id>`; the table `lines-<rank>-<pid>.json` says which line each id
is. The line is that of the innermost frame whose file lies in the order's tree. The first mark of a
call of the function has a `+` behind its number, so that calls can be counted. It needs the
standard library alone (Python 3.8). A fault of its own turns the marks off, and the script goes on
as if they had never been there.

The marks come from a `TorchFunctionMode` that only calls through. What would notice it is kept
from doing so: compiled code runs without it, and `has_torch_function` does not count it.
"""

from __future__ import annotations

import os
import sys
import threading
import types

TYPE_CHECKING = False  # as in the hook
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

PREFIX = "ci_score.line#"
CALL = "+"
MOST_ROWS = 10_000
MOST_FUNCTIONS = 10_000
LONGEST_NAME = 200
LONGEST_PATH = 1000
INSTALLED = ("site-packages", "dist-packages")
ENVIRONMENT_FILES = ("pyvenv.cfg", "conda-meta")
TORCH = ("torch", "functorch", "torchgen", "triton")
# They launch no operator, and scripts ask for them often.
WITHOUT_WORK = frozenset(
    ("size", "stride", "dim", "ndimension", "numel", "nelement", "element_size", "storage_offset",
     "data_ptr", "get_device", "is_contiguous", "is_floating_point", "is_complex", "is_signed",
     "is_tensor", "is_storage", "is_inference", "is_same_size", "requires_grad_", "register_hook",
     "__len__", "__hash__", "_is_view", "untyped_storage")
)  # fmt: skip
# The only properties that launch one.
GETTERS = frozenset(("T", "mT", "H", "mH", "real", "imag"))
# A part of the function around it, and no definition of its own.
WITHIN = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>", "<lambda>")

TREE, CELL, ENGINE, IN_TORCH, LIBRARY, OTHER = range(6)


# --- whose code it is -----------------------------------------------------------------------------


class Code:
    """What is known of a code object; it is kept, so that its id stays its own."""

    __slots__ = (
        "base", "code", "file", "first", "is_mode", "is_within", "kind", "library", "name"
    )  # fmt: skip

    def __init__(self, code: Any, kind: int, file: str, library: str, name: str) -> None:
        self.code = code
        self.kind = kind
        self.file = file
        self.library = library
        self.name = name[:LONGEST_NAME]
        self.is_mode = code.co_name == "__torch_function__"
        self.is_within = name.rpartition(".")[2] in WITHIN
        self.first = code.co_firstlineno
        self.base: Any = (file, without_inner(name))
        if name in WITHIN and not hasattr(code, "co_qualname"):
            self.base = None  # nobody tells whose part it is


def passes_on(frame: Any, function: Any, inner: Any) -> bool:
    """Whether a mode of the script's own only passes on what another line has called.

    That is the torch function that is called now, or the one whose frame is the next inwards.
    """
    values = [value for value in frame.f_locals.values() if callable(value)]
    return any(value is function or getattr(value, "__code__", frame) is inner for value in values)


def see(frame: Any) -> bool:
    """Whether a frame is seen for the first time. The flag that says so is read by tracers alone.

    The frame's address is no such flag: the next call may have the same one.
    """
    is_new = bool(frame.f_trace_lines) and sys.gettrace() is None
    if is_new:
        frame.f_trace_lines = False
    return is_new


def see_all(frame: Any) -> None:
    """What runs already is no call that is still to come."""
    while frame is not None:
        see(frame)
        frame = frame.f_back


def without_inner(name: str) -> str:
    """The qualified name of the function that a comprehension or a lambda stands in."""
    while True:
        outer, dot, last = name.rpartition(".")
        if not dot or last not in WITHIN:
            return name
        name = outer[: -len(".<locals>")] if outer.endswith(".<locals>") else outer


def name_of(frame: Any) -> str:
    """The function's qualified name; before Python 3.11 only its own."""
    return str(getattr(frame.f_code, "co_qualname", frame.f_code.co_name))


def name_in_library(frame: Any) -> str:
    """The same with the class, which is asked of the object where the code does not tell it."""
    code = frame.f_code
    if hasattr(code, "co_qualname") or code.co_varnames[:1] != ("self",):
        return name_of(frame)
    return f"{type(frame.f_locals.get('self')).__name__}.{code.co_name}"


def is_within(path: str, folder: str) -> bool:
    """Whether a file lies in a folder."""
    return path.startswith(folder.rstrip(os.sep) + os.sep)


class Places:
    """Tells whose a file is: the tree's own, or somebody else's."""

    def __init__(self, tree: str, start: str) -> None:
        self.tree = os.path.realpath(tree)
        self.start = start  # where the script began: it may have gone elsewhere since
        self.standard = os.path.realpath(os.path.dirname(os.__file__))
        self.own = os.path.dirname(os.path.realpath(__file__))
        self.codes: dict[int, Code] = {}
        self.environments: dict[str, bool] = {self.tree: False}
        self.notebook = find_notebook()

    def of(self, frame: Any) -> Code:
        """What is known of the code that a frame runs."""
        code = frame.f_code
        known = self.codes.get(id(code))
        if known is None:
            known = self.codes[id(code)] = self.look_at(frame)
        return known

    def look_at(self, frame: Any) -> Code:
        """A code object that was not met before."""
        code = frame.f_code
        name = code.co_filename
        cell = self.notebook(name)
        if cell is not None:
            return Code(code, CELL, name, cell, name_of(frame))
        if name.startswith("<"):
            return Code(code, OTHER, name, "", name_of(frame))
        path = os.path.realpath(os.path.join(self.start, name))
        library = str(frame.f_globals.get("__name__") or "").partition(".")[0]
        kind = self.kind_of(path, library)
        full = name_of(frame) if kind == TREE else name_in_library(frame)
        return Code(code, kind, path, "" if kind == TREE else library, full)

    def kind_of(self, path: str, library: str) -> int:
        """Whose a file is."""
        if is_within(path, self.own):
            return OTHER
        if is_within(path, self.tree) and not self.is_installed(path):
            return TREE if os.path.isfile(path) else OTHER  # generated, under a name of its own
        if library in TORCH:
            return IN_TORCH
        parts = path.split(os.sep)
        if is_within(path, self.standard) and not set(INSTALLED) & set(parts):
            return OTHER
        return LIBRARY

    def is_installed(self, path: str) -> bool:
        """Whether a file in the tree was put there by an installer, and is nobody's change."""
        inner = os.path.dirname(path)[len(self.tree) :].split(os.sep)
        return bool(set(INSTALLED) & set(inner)) or self.is_environment(os.path.dirname(path))

    def is_environment(self, folder: str) -> bool:
        """Whether a folder of the tree, or one around it, is a Python's environment."""
        known = self.environments.get(folder)
        if known is None:
            told = any(os.path.exists(os.path.join(folder, one)) for one in ENVIRONMENT_FILES)
            known = told or folder == sys.prefix or self.is_environment(os.path.dirname(folder))
            self.environments[folder] = known
        return known


def find_notebook() -> Callable[[str], Any]:
    """Says which notebook a file of compiled code is a cell of; a kernel has a map of them."""
    shell = None
    module = sys.modules.get("IPython")
    if module is not None and hasattr(module, "get_ipython"):
        shell = module.get_ipython()
    cells = getattr(getattr(shell, "compile", None), "_filename_map", {})
    told = getattr(shell, "user_ns", {}).get("__vsc_ipynb_file__")
    path = os.path.realpath(str(told or os.environ.get("JPY_SESSION_NAME") or ""))
    name = path if path.endswith(".ipynb") and os.path.isfile(path) else "notebook"
    folder = os.sep + f"ipykernel_{os.getpid()}" + os.sep

    def notebook(file: str) -> Any:
        if file not in cells and folder not in file and not file.startswith("<ipython-input-"):
            return None
        return name

    return notebook


# --- the table of lines ---------------------------------------------------------------------------


class Table:
    """The rows, by what tells them apart."""

    def __init__(self, places: Places) -> None:
        self.places = places
        self.names: dict[Any, Any] = {}  # the names of marks, or None where there is no room
        self.rows: list[dict[str, Any]] = []
        self.notebooks: dict[str, str] = {}  # of cells
        self.lock = threading.Lock()  # a backward pass has threads of its own
        self.in_engine: Any = None

    def name_at(self, frame: Any, compiled: bool = False, function: Any = None) -> Any:
        """The name of the mark for a call that `frame` makes; None where no line is to be told."""
        frame, known, through = self.innermost(frame, function)
        if known is None and (through is None or self.in_engine()):
            return None
        if frame is None:
            key: Any = (id(through), compiled)
            line = caller = caller_line = None
        else:
            line = frame.f_lineno
            caller, caller_line = self.caller_of(frame, known)
            key = (id(known), line, id(through), id(caller), caller_line, compiled)
        if key not in self.names:
            with self.lock:
                self.names[key] = self.add(known, line, through, caller, caller_line, compiled)
        names = self.names[key]
        return names and names[frame is not None and self.is_call(frame, known)]

    def is_call(self, frame: Any, known: Code) -> bool:
        """Whether the function of a frame has begun since the last mark; never of a lambda."""
        while known.is_within:
            frame, inner = frame.f_back, known
            if frame is None:
                return False
            known = self.places.of(frame)
            if known.file != inner.file or inner.base not in (None, known.base):
                return False
        return see(frame)

    def innermost(self, frame: Any, function: Any) -> Any:
        """The innermost frame of the tree with what is known of it, and of a library below it.

        Of a library that is the innermost function: the outermost is always `Trainer.train`.
        """
        through = outermost = inner = None
        while frame is not None:
            known = self.places.of(frame)
            kind = known.kind
            if kind <= CELL:
                if not known.is_mode or not passes_on(frame, function, inner):
                    return frame, known, through
            elif kind == ENGINE:
                return None, None, None  # what a node does belongs to its forward's line
            elif kind == LIBRARY:
                if through is None and "<locals>" not in known.name:
                    through = known
            elif kind == IN_TORCH:
                outermost = known
            inner = frame.f_code
            frame = frame.f_back
        return None, None, through or outermost

    def caller_of(self, frame: Any, inner: Code) -> Any:
        """The next frame outwards that is the tree's and runs another function, with its line."""
        base = inner.base
        frame = frame.f_back
        while frame is not None:
            known = self.places.of(frame)
            if known.kind == ENGINE:
                break
            if known.kind == TREE:
                if base is None and known.file == inner.file:
                    base = known.base
                elif known.base != base:
                    return self.whole(frame, known)
            frame = frame.f_back
        return None, None

    def whole(self, frame: Any, known: Code) -> Any:
        """The function that a comprehension stands in, where it runs as a part of it."""
        outer = self.places.of(frame.f_back) if frame.f_back is not None else known
        if outer is not known and outer.kind == TREE and outer.base == known.base:
            return outer, frame.f_back.f_lineno
        return known, frame.f_lineno

    def add(
        self, known: Any, line: Any, through: Any, caller: Any, caller_line: Any, compiled: bool
    ) -> Any:
        """A new row."""
        if len(self.rows) >= MOST_ROWS:
            return None
        row: dict[str, Any] = {"id": len(self.rows) + 1, "file": None, "line": None,
                               "function": "", "first": None, "through": None, "caller": None,
                               "compiled": compiled}  # fmt: skip
        if through is not None:
            row["through"] = clean(f"{through.library} {through.name}"[:LONGEST_NAME])
        if known is not None and known.library == "notebook":
            row["through"] = clean(f"notebook {known.name}"[:LONGEST_NAME])
        elif known is not None:
            row.update(told(known, line))
            if known.kind == CELL:
                self.notebooks[row["file"]] = clean(known.library)
        elif through is None:
            return None
        if caller is not None:
            row["caller"] = told(caller, caller_line)
        self.rows.append(row)
        name = f"{PREFIX}{row['id']}"
        return name, name + CALL


def told(known: Code, line: Any) -> dict[str, Any]:
    """A line of the tree, as the table has it; some instructions have no line."""
    first = max(known.first, 1)
    return {"file": clean(known.file[:LONGEST_PATH]), "line": line or first,
            "function": clean(known.name), "first": first}  # fmt: skip


def clean(text: str) -> str:
    """Without what no encoding has: a file's name may be any bytes."""
    return text.encode("utf-8", "replace").decode("utf-8")


# --- the marks ------------------------------------------------------------------------------------


class Marks:
    """The marks of this process; a forked child has none."""

    def __init__(self, tree: str) -> None:
        self.tree = tree
        try:
            self.began_in = os.getcwd()
        except OSError:
            self.began_in = ""  # the folder is gone
        self.local = threading.local()
        self.lock = threading.Lock()
        self.on = False
        self.problem: Any = None
        self.table: Any = None
        self.mode: Any = None
        self.thread = 0
        self.compiled = 0  # threads that run compiled code now
        self.patches: list[Any] = []
        self.with_work: dict[Any, bool] = {}
        self.engine_codes: list[Any] = []
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.forked)

    @property
    def own_code(self) -> Any:
        """Of all functions here: none of them is ever compiled."""
        return CODE

    # --- what is put into torch when it is imported -------------------------------------------

    def watch_compiler(self, module: Any) -> None:
        """Every compiled call leaves our mode behind, and finds it again."""
        kind = module.OptimizeContext
        init = kind.__init__

        def watched(context: Any, *args: Any, **kwargs: Any) -> None:
            init(context, *args, **kwargs)
            hooks = getattr(context, "enter_exit_hooks", None)
            if hooks is not None:
                hooks.append(self.enter_compiled)

        kind.__init__ = watched

    def around_engine(self, run: Any) -> Any:
        """`run` with a mark where it is called, and our mode inside, where torch took it off."""

        def engine(*args: Any, **kwargs: Any) -> Any:
            if not self.on or threading.get_ident() != self.thread or self.is_in_compiled():
                return run(*args, **kwargs)
            if is_compiled_autograd():
                leave = self.enter_compiled()
                try:
                    return run(*args, **kwargs)
                finally:
                    leave()
            mark = self.begin(sys._getframe(1))
            is_put_in = self.put_in_again()
            try:
                return run(*args, **kwargs)
            finally:
                if is_put_in:
                    self.take_out_again()
                if mark is not None:
                    self.end(mark)

        self.engine_codes.append(engine.__code__)
        return engine

    # --- on and off ---------------------------------------------------------------------------

    def start(self) -> None:
        """From here on this thread's torch calls have marks."""
        try:
            self.prepare()
            see_all(sys._getframe(1))
            self.on = True
            self.thread = threading.get_ident()
            if not self.compiled:
                self.patch()
            if not self.is_in_compiled():
                self.put_in()  # else when the compiled call returns
        except Exception as error:
            self.failed(error)

    def prepare(self) -> None:
        """Finds in torch what marks need."""
        native = sys.modules["torch"]._C
        from torch._C._profiler import _RecordFunctionFast  # type: ignore[import-not-found]

        self.range = _RecordFunctionFast
        self.size = native._len_torch_function_stack
        self.at = native._get_function_stack_at
        self.pop = native._pop_torch_function_stack
        self.push = native._push_on_torch_function_stack
        self.task = getattr(native, "_current_graph_task_id", lambda: -1)
        self.table = Table(Places(self.tree, self.began_in))
        self.table.in_engine = lambda: self.task() != -1
        for code in self.engine_codes:
            self.table.places.codes[id(code)] = Code(code, ENGINE, "", "", "")
        self.mode = mode_of(self)
        self.patches = patches_of(self)

    def stop(self) -> None:
        """No marks any more, and torch is as it was."""
        self.on = False
        try:
            self.take_out()
            self.unpatch()
        except Exception as error:
            self.failed(error)

    def failed(self, error: Exception) -> None:
        """A fault of ours is told, and nothing of ours stays."""
        if self.problem is None:
            trace = error.__traceback__
            while trace is not None and trace.tb_next is not None:
                trace = trace.tb_next
            line = trace.tb_lineno if trace is not None else 0
            text = f"{type(error).__name__}: {error} (line {line})"
            self.problem = text[:LONGEST_NAME]
        self.on = False
        try:
            # While torch calls our mode it has it in its own hands, and puts it back afterwards.
            # So what hides it stays until it can be taken out.
            if self.take_out():
                self.unpatch()
        except Exception:
            pass

    def forked(self) -> None:
        """A child is not profiled."""
        self.lock = threading.Lock()
        if self.on:
            self.stop()

    def table_of_lines(self) -> Any:
        """What each mark's number stands for; None where something went wrong."""
        if self.problem is not None or self.table is None:
            return None
        return {"rows": self.table.rows, "notebooks": self.table.notebooks}

    # --- the stack of modes -------------------------------------------------------------------

    def is_in(self) -> bool:
        """Whether this thread's torch calls meet our mode."""
        return any(self.at(index) is self.mode for index in range(self.size()))

    def put_in(self) -> None:
        """Below all others: who leaves a mode takes off the uppermost, which must be their own.

        The default device stands lower still, and takes off the lowest one.
        """
        above = []
        while self.size():
            above.append(self.pop())
        if above and "old_device" in getattr(above[-1], "__dict__", {}):
            self.push(above.pop())
        self.push(self.mode)
        while above:
            self.push(above.pop())

    def take_out(self) -> bool:
        """Out of this thread's stack, wherever it stands; says whether it stood there."""
        if self.mode is None or not self.is_in():
            return False
        above = []
        while True:
            one = self.pop()
            if one is self.mode:
                break
            above.append(one)
        while above:
            self.push(above.pop())
        return True

    def put_in_again(self) -> bool:
        """Where a mode below us had torch take us off; says whether it was so."""
        try:
            is_missing = self.on and not self.is_in()
            if is_missing:
                self.put_in()
            return is_missing
        except Exception as error:
            self.failed(error)
            return False

    def take_out_again(self) -> None:
        """The end of that."""
        try:
            self.take_out()
        except Exception as error:
            self.failed(error)

    # --- a mark -------------------------------------------------------------------------------

    def begin(self, frame: Any, compiled: bool = False, function: Any = None) -> Any:
        """Opens the mark for what `frame` calls; None where there is no line."""
        try:
            name = self.table.name_at(frame, compiled, function)
            if name is None:
                return None
            mark = self.range(name)
            mark.__enter__()
            return mark
        except Exception as error:
            self.failed(error)
            return None

    def end(self, mark: Any) -> None:
        """Closes it."""
        try:
            mark.__exit__(None, None, None)
        except Exception as error:
            self.failed(error)

    def has_work(self, function: Any) -> bool:
        """Whether a torch function launches operators, as far as its name tells."""
        if type(function) is types.MethodWrapperType:
            return getattr(function.__self__, "__name__", "") in GETTERS
        known = self.with_work.get(function)
        if known is None:
            name = str(getattr(function, "__name__", ""))
            # Its range begins within our mark and ends outside of it.
            known = name not in WITHOUT_WORK and not name.startswith("_record_function")
            if len(self.with_work) < MOST_FUNCTIONS:
                self.with_work[function] = known
        return known

    def is_here(self) -> bool:
        """Whether this thread is the one with marks, or one of the engine's that works for it."""
        return self.on and (threading.get_ident() == self.thread or self.task() != -1)

    # --- compiled code ------------------------------------------------------------------------

    def is_in_compiled(self) -> bool:
        """Whether this thread runs compiled code."""
        return bool(getattr(self.local, "depth", 0))

    def enter_compiled(self) -> Callable[[], None]:
        """The compiler calls it before compiled code runs, and what it returns afterwards."""
        local = self.local
        depth = getattr(local, "depth", 0)
        local.depth = depth + 1
        if depth:
            return self.leave_inner
        mark, was_in = self.without_mode(sys._getframe(1))

        def leave() -> None:
            local.depth -= 1
            self.with_mode_again(mark, was_in)

        return leave

    def leave_inner(self) -> None:
        """Compiled code has called other compiled code, which returns."""
        self.local.depth -= 1

    def without_mode(self, frame: Any) -> Any:
        """Torch as it is without marks; one mark stands for all that follows."""
        mark, was_in = None, False
        try:
            with self.lock:
                self.compiled += 1
                if self.compiled == 1:
                    self.unpatch()
            was_in = self.take_out()
            if was_in and self.on:
                mark = self.begin(frame, compiled=True)
        except Exception as error:
            self.failed(error)
        return mark, was_in

    def with_mode_again(self, mark: Any, was_in: bool) -> None:
        """The compiled code has returned, or raised."""
        if mark is not None:
            self.end(mark)
        try:
            with self.lock:
                self.compiled -= 1
                if self.on and not self.compiled:
                    self.patch()
            # Marks may have begun while it ran.
            is_new = self.on and threading.get_ident() == self.thread and not self.is_in()
            if self.on and (was_in or (is_new and self.task() == -1 and not self.is_inside())):
                self.put_in()
        except Exception as error:
            self.failed(error)

    def is_inside(self) -> bool:
        """Whether this thread is within a marked torch call, for which torch takes the mode off."""
        return bool(getattr(self.local, "inside", 0))

    # --- what is replaced in torch ------------------------------------------------------------

    def patch(self) -> None:
        """Marks are seen by nobody who asks, and stand where torch calls no mode."""
        for holder, name, _, ours in self.patches:
            put(holder, name, ours)

    def unpatch(self) -> None:
        """Everything is as it was."""
        for holder, name, original, _ in self.patches:
            put(holder, name, original)


def put(holder: Any, name: str, value: Any) -> None:
    """Into a module's names, or a class."""
    if isinstance(holder, dict):
        holder[name] = value
    else:
        setattr(holder, name, value)


def mode_of(marks: Marks) -> Any:
    """The one mode; it calls through."""
    from torch.overrides import TorchFunctionMode  # type: ignore[import-not-found]

    get_frame = sys._getframe
    local = marks.local
    begin, end, has_work = marks.begin, marks.end, marks.has_work

    class LineMode(TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            mark = None
            if marks.on:
                try:
                    is_work = has_work(func)
                except Exception:
                    is_work = True  # it has no hash
                if is_work:
                    mark = begin(get_frame(1), False, func)
            if mark is None:
                return func(*args, **(kwargs or {}))
            local.inside = getattr(local, "inside", 0) + 1
            try:
                return func(*args, **(kwargs or {}))
            finally:
                local.inside -= 1
                end(mark)

    return LineMode()


def patches_of(marks: Marks) -> list[Any]:
    """Everything that is replaced while marks are on, with what it was."""
    found = [*patches_of_questions(marks), *patches_of_functions(marks)]
    graph = getattr(sys.modules.get("torch.cuda.graphs"), "CUDAGraph", None)
    found += patch_of(marks, graph, "replay")
    kernel = getattr(sys.modules.get("triton.runtime.jit"), "JITFunction", None)
    return found + patch_of(marks, kernel, "run")


def patches_of_questions(marks: Marks) -> list[Any]:
    """`has_torch_function` by all of its names: many modules have imported it by name."""
    native = sys.modules["torch"]._C
    ours = {}
    for name in ("_has_torch_function", "_has_torch_function_unary",
                 "_has_torch_function_variadic"):  # fmt: skip
        real = getattr(native, name)
        ours[id(real)] = (real, unseeing(marks, real))
    found = []
    for module in list(sys.modules.values()):
        names = getattr(module, "__dict__", None)
        if type(names) is dict and module is not native:
            found += [
                (names, name, *ours[id(value)])
                for name, value in list(names.items())
                if id(value) in ours
            ]
    return found


def unseeing(marks: Marks, real: Any) -> Any:
    """The same question, asked as if our mode were not there."""
    size, at, pop, push, mode = marks.size, marks.at, marks.pop, marks.push, marks.mode

    def has_torch_function(*args: Any) -> Any:
        if size() != 1 or at(0) is not mode:
            return real(*args)
        pop()
        try:
            return real(*args)
        finally:
            if marks.on:
                push(mode)

    return has_torch_function


def patches_of_functions(marks: Marks) -> list[Any]:
    """Custom functions: their forward has a mark, and compiled ones run without our mode."""
    module = sys.modules["torch.autograd.function"]
    apply = vars(module.Function)["apply"].__func__

    def marked(cls: Any, *args: Any, **kwargs: Any) -> Any:
        mark = marks.begin(sys._getframe(1)) if marks.is_here() else None
        if mark is None:
            return apply(cls, *args, **kwargs)
        try:
            return apply(cls, *args, **kwargs)
        finally:
            marks.end(mark)

    found = [(module.Function, "apply", vars(module.Function)["apply"], classmethod(marked))]
    for name in ("apply", "apply_boxed"):
        real = vars(module.BackwardCFunction).get(name)
        if real is not None:
            found.append((module.BackwardCFunction, name, real, backward_without(marks, real)))
    return found


def backward_without(marks: Marks, real: Any) -> Any:
    """The backward of a custom function; that of compiled code runs without our mode."""

    def apply(node: Any, *args: Any) -> Any:
        kind = getattr(node, "_forward_cls", None)
        if not (hasattr(kind, "_aot_id") or hasattr(kind, "compiled_bw")):
            return real(node, *args)
        leave = marks.enter_compiled()
        try:
            return real(node, *args)
        finally:
            leave()

    return apply


def patch_of(marks: Marks, kind: Any, name: str) -> list[Any]:
    """A method that launches work without a torch call."""
    real = vars(kind).get(name) if isinstance(kind, type) else None
    if real is None:
        return []

    def marked(self: Any, *args: Any, **kwargs: Any) -> Any:
        mark = marks.begin(sys._getframe(1)) if marks.is_here() else None
        if mark is None:
            return real(self, *args, **kwargs)
        try:
            return real(self, *args, **kwargs)
        finally:
            marks.end(mark)

    return [(kind, name, real, marked)]


def is_compiled_autograd() -> bool:
    """Whether backward passes are compiled as a whole."""
    module = sys.modules.get("torch._dynamo.compiled_autograd")
    return bool(getattr(module, "compiled_autograd_enabled", False))


CODE: Any = sys._getframe().f_code
