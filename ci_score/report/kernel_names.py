"""A kernel's full name → what an engineer calls it, in 60 characters.

The name keeps what tells kernels apart: the functor, the type, the tile. Return types, namespaces
and the arguments of calls go; what else has no room is left out of the template's arguments, the
least telling first, and "…" stands there. Full names tell ops apart; this is for reading only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from ci_score.model.profile import OpOrigin
from ci_score.report.name_parts import LONGEST_READ, Part, Reader
from ci_score.report.name_words import LONGEST_NAME, is_balanced, shortened_text, shortened_word

# A short name behind a module and an operator.
LONGEST_LABEL = 3 * LONGEST_NAME + 2 * len(" · ")
# What walks the parts.
_MOST_PARTS, _DEEPEST, _MOST_TRIED = 160, 8, 24
# All long names of a record: one that many cases have is read once.
_MOST_REMEMBERED = 65_536
_MANGLED = re.compile(r"_{1,2}Z(?=[A-Z\d])")
# What follows in a mangled name: a substitution, a lambda or an enumeration's value (skipped),
# a number, a builtin type, or the length of a name.
_MANGLED_PIECE = re.compile(
    r"S[\dA-Z]*_|T\d*_|E\d*[_E]|L[a-z]n?(?P<number>\d+)E|I(?P<type>[bdfhijlmst])|(?P<length>\d{1,4})"
)
_BUILTINS = {"b": "bool", "d": "double", "f": "float", "h": "uchar", "i": "int", "j": "uint"}
_BUILTINS |= {"l": "long", "m": "ulong", "s": "short", "t": "ushort"}
_SUFFIX = re.compile(r"( ?\[clone [^\]]*\]|\.kd|\(\.kd\))+$")
# How readers end a name that they had to cut.
_CUT = re.compile(r"(…[0-9a-f]{4})[0-9a-f]{4}$")
_WORD = re.compile(r"[\w.$~…:-]+")
# No name of C++ has these.
_NOT_A_NAME = re.compile(r"[`@\\?!\";]|[^\x20-\x7e…]")
_LITERAL = re.compile(r"(-?\d+)[uUlLzZ]*")
_SHAPE = re.compile(r"\d+(x\d+)+")
_TYPES = {
    "BFloat16": "bf16",
    "__nv_bfloat16": "bf16",
    "__hip_bfloat16": "bf16",
    "hip_bfloat16": "bf16",
    "bfloat16_t": "bf16",
    "bfloat16": "bf16",
    "Half": "half",
    "__half": "half",
    "half_t": "half",
    "_Float16": "half",
    "tfloat32_t": "tf32",
}
_IS_TYPE = re.compile(
    r"void|bool|u?(char|short|int|long)|float[248]?|double[24]?|half2?|bf16|tf32|auto|T\d*|u?int\d+"
    r"|\w+_t|Float[48]_\w+|__nv_fp\w+|__half2|__nv_bfloat162|complex|(Row|Column)Major"
)
# Numbers as types, and types that are a shape.
_CONSTANTS = frozenset({"C", "Int", "integral_constant", "constant"})
_SHAPES = re.compile(r"tuple|[Ss]hape|\w*Shape|sequence|Sequence|Tuple")
# These say nothing of the work: what follows them does.
_HOLLOW = re.compile(r"Kernel2?|device_kernel|(global_)?kernel|kernel_wrapper|enable_sm\w+")
_WRAPPERS = re.compile(
    r"gpu_kernel_impl\w*|gpu_index_kernel|gpu_kernel_with_scalars|func_wrapper_t|ReduceOp|OpWrapper"
    r"|opmath_\w+|enable_sm\w+|\w*[Tt]raits\w*|\w*Params|\w*Arguments|Collective\w+|Mainloop\w+"
    r"|(Default)?Mma\w+|ImplicitGemm\w+|Gridwise\w+"
)
_NOISE = re.compile(
    r"array|Array|\w*OffsetCalculator|(Load|Store)With\w+|\w*Metadata|\w*Policy\w*|\w*TileState"
    r"|\w*lookback_scan_state|NullType|\w*config\w*|empty_type|\w*Accessor|\w*PtrTraits|Layout"
    r"|ComposedLayout|\w*Swizzle\w*|smem_ptr_flag_bits|\w*Descriptor|allocator|char_traits"
    r"|TensorInfo|\w*Iterator\w*|counting_iterator|\w*ThreadMap\w*|PassThrough|index_sequence"
    r"|function|\w*ProblemSize|Epilogue|InMemoryDataOperationEnum|Flash_kernel_traits"
    r"|Kernel_traits_base|Kernel(Tma|Cp|Ptr)\w+"
)
# Names that many namespaces have: the namespace tells them apart.
_COMMON = re.compile(
    r"[a-z]{1,12}|cached_notify|notify_dispatch|GemmKernel|operator.*|Policy\d*|Kernel"
)
_VAGUE_SCOPE = re.compile(
    r"at|native|detail|impl|utils|cuda|kernels?|device|std|internal|dev|ops|c10|hip|_V2|__1|cutlass"
    r"|cute|thread|threadblock|warp|cub|collective|void|tensor_operation|ck|\w"
)
_SHARED_KERNEL = re.compile(
    r"(\w*elementwise_kernel|multi_tensor_apply_kernel|reduce_kernel|\w*_kernel_for_)\w*"
)
# The least telling goes first.
(
    _SAYS_NOTHING, _REPEATED, _FLAG, _INNER_NUMBER, _INNER_TYPE, _MORE_TYPES, _TILE_NUMBER, _NUMBER,
    _BRACKETS, _BASE, _BASE_MORE, _TYPE, _INNER_CLASS, _TILE, _CLASS,
) = range(15)  # fmt: skip


def short_name(name: str) -> str:
    """`vectorized_elementwise_kernel<4, CUDAFunctor_add<float>…>`, of at most 60 characters."""
    return _short(name[:LONGEST_READ])


@lru_cache(maxsize=_MOST_REMEMBERED)
def _short(name: str) -> str:
    if len(name) <= LONGEST_NAME and ("…" in name or not name.strip()) and is_balanced(name):
        return name.strip() or "unnamed"
    bare = _SUFFIX.sub("", name)
    cut = _CUT.search(bare)
    bare = bare[: cut.start()] if cut else bare
    part, is_cut = _parts(bare)
    if part is None:
        return shortened_text(bare + (cut[1] if cut else ""))
    root = _Shown.of(part)
    short = _Fitting(root, cut[1] if cut and is_cut else "").text()
    return short if is_balanced(short) else shortened_text(short)


def is_hollow(name: str) -> bool:
    """Whether a bare name is that of a wrapper, and says nothing of the work."""
    return _HOLLOW.fullmatch(name) is not None or name.endswith(
        ("elementwise_kernel", "reduce_kernel")
    )


def op_names(name: str, origin: Sequence[str] = ()) -> tuple[str, ...]:
    """The short name behind the module and the operator that alone launch the kernel, if known."""
    return (*(shortened_text(outer) for outer in origin), short_name(name))


def op_label(name: str, origin: OpOrigin | None = None) -> str:
    """`aten::softmax · softmax_warp_forward<…>`, for a table."""
    return " · ".join(op_names(name, origin.names if origin else ()))


def _parts(text: str) -> tuple[Part | None, bool]:
    if mangled := _MANGLED.match(text):
        return _of_mangled(text, mangled.end()), True
    if "<" not in text and "(" not in text:
        word = text.strip()
        return (Part(word), True) if _WORD.fullmatch(word) else (None, False)
    if _NOT_A_NAME.search(text) or (" (" in text and "::" not in text and "<" not in text):
        return None, False
    reader = Reader(text)
    return reader.function(), reader.is_cut


def _of_mangled(text: str, at: int) -> Part | None:
    """The function with its names, numbers and types in a row; a name before a name is a scope."""
    scopes, parts = list[str](), list[Part]()
    while piece := _MANGLED_PIECE.search(text, at):
        at = piece.end()
        word = piece["number"] or _BUILTINS.get(piece["type"] or "", "")
        if piece["length"]:
            at += int(piece["length"])
            word = text[piece.end() : at]
        is_scope = piece["length"] and text[at : at + 1].isdigit()
        if word and is_scope and not parts:
            scopes.append(word)
        elif word and not is_scope:
            parts.append(Part(word))
    return Part(parts[0].name, parts[1:], scopes=tuple(scopes)) if parts else None


# --- what is shown of each part -----------------------------------------------------------------


@dataclass(slots=True, eq=False)
class _Shown:
    """A part as it may be shown: its name, what stands in angle and in round brackets."""

    name: str
    args: list[_Shown]
    takes: list[_Shown]
    depth: int
    is_noise: bool = False
    # Its name is left out and what it holds stands in its place.
    is_open: bool = False
    brackets_go: bool = False
    is_gone: bool = False

    @classmethod
    def of(cls, part: Part) -> _Shown:
        """A bounded copy; a kernel that only runs what it is given is that."""
        for _ in range(3):
            inner = [one for one in part.args if _is_work(one.name)]
            if not _HOLLOW.fullmatch(part.name) or not inner:
                break
            part = inner[0]
        root = _copy(part, 0, [_MOST_PARTS])
        root.is_noise = root.is_open = False
        root.name = _with_scope(part, root.name)
        return root


def _copy(part: Part, depth: int, left: list[int]) -> _Shown:
    left[0] -= 1
    bare = part.name.rstrip("*")
    name = _TYPES.get(bare, bare) + part.name[len(bare) :][:2]
    if literal := _LITERAL.fullmatch(name):
        name = literal[1]
    if part.name in _CONSTANTS and part.args and (last := part.args[-1]).name[-1:].isdigit():
        return _copy(last, depth, left)
    shown = _Shown(f"{name}#{part.number}" if part.number > 1 else name, [], [], depth)
    if depth:
        shown.is_noise = _NOISE.fullmatch(name) is not None
        shown.is_open = _WRAPPERS.fullmatch(name) is not None and bool(part.args)
    if depth >= _DEEPEST or shown.is_noise:
        return shown
    inner = depth if shown.is_open else depth + 1
    for one in part.args:
        if left[0] > 0:
            shown.args.append(_copy(one, max(inner, 1), left))
    if not shown.is_open:
        known = {one.name for one in shown.args}
        for one in part.takes:
            if left[0] > 0 and (taken := _copy(one, inner, left)).name not in known:
                known.add(taken.name)
                shown.takes.append(taken)
    return _as_shape(shown, part)


def _as_shape(shown: _Shown, part: Part) -> _Shown:
    """`GemmShape<128, 128, 32>` is `128x128x32`."""
    if not shown.depth or not _SHAPES.fullmatch(part.name):
        return shown
    numbers = [one.name for one in shown.args if one.name.isdigit() and not one.args]
    if numbers and len(numbers) == len(shown.args) <= 4:
        return _Shown("x".join(numbers), [], [], shown.depth)
    shown.is_noise = not any(one.args or _SHAPE.fullmatch(one.name) for one in shown.args)
    return shown


def _with_scope(part: Part, name: str) -> str:
    if not _COMMON.fullmatch(part.name):
        return name
    telling = [one for one in part.scopes if not _VAGUE_SCOPE.fullmatch(one)]
    if not telling:
        telling = list(part.scopes[-1:])
    return f"{telling[-1]}::{name}" if telling and telling[-1] != "void" else name


def _is_work(name: str) -> bool:
    return _kind(name) == "class" and not _NOISE.fullmatch(name) and not name.endswith("Params")


def _kind(name: str) -> str:
    bare = name.rstrip("*")
    if bare in ("true", "false"):
        return "flag"
    if _LITERAL.fullmatch(bare):
        return "number"
    if _SHAPE.fullmatch(bare):
        return "shape"
    bare = _TYPES.get(bare, bare)
    return "type" if _IS_TYPE.fullmatch(bare) else "class"


# --- what is left out ---------------------------------------------------------------------------


# How much it tells, its place, and the part; None is the kernel's own name.
_Step = tuple[int, int, _Shown | None]


class _Fitting:
    """Leaves out of a name what tells least, until it has room."""

    def __init__(self, root: _Shown, tail: str) -> None:
        self.root, self.tail = root, tail
        self.is_shared = _SHARED_KERNEL.fullmatch(root.name) is not None
        self.names = self._names()
        self.steps = sorted(self._steps(), key=lambda step: step[:2])

    def text(self) -> str:
        """The first text that fits: each step is no longer than the one before."""
        least = sum(step[0] == _SAYS_NOTHING for step in self.steps)
        low, high = least, len(self.steps)
        while low < high:
            middle = (low + high) // 2
            if len(self._after(self.steps[:middle])) <= LONGEST_NAME:
                high = middle
            else:
                low = middle + 1
        done = self.steps[:low]
        text = self._after(done)
        if len(text) <= LONGEST_NAME:
            return self._with_what_fits(done, least, text)
        rest = ("<…>" if self.root.args else "") + self.tail
        return _merged(shortened_word(self.root.name, LONGEST_NAME - len(rest)) + rest)

    def _with_what_fits(self, done: list[_Step], least: int, text: str) -> str:
        """The same with what still has room, the most telling first."""
        for place in range(len(done) - 1, max(least, len(done) - _MOST_TRIED) - 1, -1):
            without = done[:place] + done[place + 1 :]
            longer = self._after(without)
            if len(longer) <= LONGEST_NAME:
                done, text = without, longer
        return text

    def _names(self) -> list[str]:
        """The kernel's own name, and how it gives way to what it runs."""
        name = self.root.name
        if not self.is_shared:
            return [name]
        first = name.lstrip("_").partition("_")[0]
        return [name, re.sub("_kernel_?", "…", name, count=1), f"{first}…"]

    def _steps(self) -> Iterator[_Step]:
        order = 0
        for shown, rank in self._ranked(self.root, is_first=True):
            order -= 1
            yield rank, order, shown
            if shown.args or shown.takes:
                yield _BRACKETS, order, shown
        if self.is_shared:
            yield _BASE, 0, None
            yield _BASE_MORE, 0, None

    def _ranked(self, parent: _Shown, *, is_first: bool) -> Iterator[tuple[_Shown, int]]:
        seen: set[str] = set()
        types = classes = numbers = 0
        for shown in (*parent.args, *parent.takes):
            kind = _kind(shown.name)
            key = shown.name if kind == "type" else ""
            deep = shown.depth > 1
            rank = _INNER_CLASS if deep or (classes and not is_first) else _CLASS
            if shown.is_noise or (parent.is_open and self.is_shared and kind != "class"):
                rank = _SAYS_NOTHING
            elif key in seen and key:
                rank = _REPEATED
            elif kind == "flag":
                rank = _FLAG
            elif kind == "number":
                many = numbers >= 3
                rank = (
                    _INNER_NUMBER if deep else _TILE_NUMBER if self.is_shared or many else _NUMBER
                )
                numbers += 1
            elif kind == "shape":
                rank = _TILE
            elif kind == "type":
                rank = _MORE_TYPES if types else _INNER_TYPE if shown.depth > 2 else _TYPE
                types += 1
            else:
                classes += 1
            seen.add(key)
            yield shown, rank
            if not shown.is_noise:
                yield from self._ranked(shown, is_first=is_first and classes == 1)

    def _after(self, steps: list[_Step]) -> str:
        """The name after these steps."""
        for _, _, each in self.steps:
            if each is not None:
                each.is_gone = each.brackets_go = False
        base = 0
        for rank, _, shown in steps:
            if shown is None:
                base += 1
            elif rank == _BRACKETS:
                shown.brackets_go = True
            else:
                shown.is_gone = True
        inside = "".join(_joined(self.root.args)) + self.tail
        text = self.names[base]
        if inside:
            text += f"<{inside}>"
        if self.root.takes:
            text += f"({''.join(_joined(self.root.takes))})"
        return _merged(text)


def _merged(text: str) -> str:
    return re.sub("…{2,}", "…", text)


def _joined(parts: list[_Shown]) -> Iterator[str]:
    """The parts with a comma or, where some are left out, with "…" between them."""
    is_gap, is_first = False, True
    for text in _flat(parts):
        if text is None:
            is_gap = True
            continue
        if is_gap:
            yield "…"
        elif not is_first:
            yield ", "
        yield text
        is_gap = is_first = False
    if is_gap:
        yield "…"


def _flat(parts: list[_Shown]) -> Iterator[str | None]:
    for shown in parts:
        if shown.is_open and not shown.is_noise:
            yield None
            yield from _flat(shown.args)
            yield None
        elif shown.is_gone or shown.is_noise:
            yield None
        else:
            yield _text(shown)


def _text(shown: _Shown) -> str:
    args, takes = "".join(_joined(shown.args)), "".join(_joined(shown.takes))
    if shown.brackets_go and (not args or args == "…") and (not takes or takes == "…"):
        return shown.name + ("…" if args or takes else "")
    return shown.name + (f"<{args}>" if args else "") + (f"({takes})" if takes else "")
