"""A mangled name of the Itanium C++ ABI → its parts, as far as it was kept.

A demangler wants the whole name, and traces cut long ones. So what was read before the cut stays:
names, template arguments and numbers. Nothing is expanded: a substitution is the part that it
stands for, and who walks the parts bounds the walk.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace

from ci_score.report.name_parts import Part

DEEPEST = 60
_BUILTINS = {
    "v": "void", "w": "wchar_t", "b": "bool", "c": "char", "a": "char", "h": "uchar", "s": "short",
    "t": "ushort", "i": "int", "j": "uint", "l": "long", "m": "ulong", "x": "long", "y": "ulong",
    "n": "int128", "o": "uint128", "f": "float", "d": "double", "e": "float80", "g": "float128",
    "z": "…",
}  # fmt: skip
_LONGER_BUILTINS = {
    "DF16b": "bf16",
    "DF16_": "half",
    "Dh": "half",
    "Dn": "nullptr_t",
    "Da": "auto",
    "Di": "char32_t",
    "Ds": "char16_t",
}
_STD = {"t": "std", "a": "allocator", "b": "basic_string", "s": "string", "i": "istream",
        "o": "ostream", "d": "iostream"}  # fmt: skip
_NUMBER = re.compile(r"\d+")
_SUBSTITUTION = re.compile(r"S([0-9A-Z]{0,4})_")
_PARAMETER = re.compile(r"T\d{0,4}_")
_VALUE = re.compile(r"n?\d+")
_OPERATOR = re.compile(r"[a-z][a-zA-Z]")


class _CutError(Exception):
    """The name ends here, or goes on with what is not read."""


def parts_of_mangled(text: str) -> tuple[Part | None, bool]:
    """The function of a mangled name, and whether its arguments were cut."""
    reader = _Mangled(text)
    with suppress(_CutError):
        reader.encoding(0)
    return reader.function, reader.open_arguments > 0


class _Mangled:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = len("_Z")
        self.known: list[Part] = []
        # The function, as soon as its name is read: its arguments follow.
        self.function: Part | None = None
        self.open_arguments = 0
        # The name ended within its arguments.
        self.unfinished: Part | None = None

    def encoding(self, depth: int) -> Part:
        """A function's name; what it takes follows and is left to the caller."""
        return self._name(depth, is_function=True)

    # --- names --------------------------------------------------------------------------------

    def _name(self, depth: int, *, is_function: bool = False) -> Part:
        if depth > DEEPEST:
            raise _CutError
        if self._takes("N"):
            return self._nested(depth, is_function)
        if self._takes("Z"):
            return self._local(depth, is_function)
        if self._takes("St"):
            part = self._source(("std",))
        elif self._peeks("S"):
            part = self._substitution()
        else:
            part = self._source(())
            if not is_function:
                self.known.append(part)
        self._is_function(part, is_function and depth == 0)
        if self._takes("I"):
            self.known.append(part) if is_function else None
            part = self._with_arguments(part, depth, is_function)
            if not is_function:
                self.known.append(part)
        return part

    def _nested(self, depth: int, is_function: bool) -> Part:
        while self._takes("r") or self._takes("V") or self._takes("K"):
            pass
        part: Part | None = None
        while not self._takes("E"):
            if self._takes("I"):
                part = self._with_arguments(part or Part(""), depth, is_function)
                self.known.append(part)
                continue
            is_known = self._peeks("S")
            part = self._component(part, depth)
            self._is_function(part, is_function and depth == 0 and bool(part.name))
            if not is_known:
                self.known.append(part)
        if part is None:
            raise _CutError
        if is_function and self.known:
            self.known.pop()
        return part

    def _component(self, outer: Part | None, depth: int) -> Part:
        """One more name of a path; a call operator or a lambda leaves the function as it is."""
        scopes = (*outer.scopes, outer.name) if outer is not None else ()
        if self._takes("St"):
            return Part("std")
        if self._peeks("S"):
            return self._substitution()
        if self._peeks("T"):
            return self._parameter()
        self._takes("L")
        if self._takes("Ul"):
            return self._lambda(outer or Part(""), depth)
        if self._takes("Ut"):
            self._ends("_")
            return outer or Part("")
        if self._takes("C") or self._takes("D"):
            self._one()
            return outer or Part("")
        if self._peeks_at(_OPERATOR):
            operator = self._one() + self._one()
            return (
                outer if operator == "cl" and outer is not None else Part(operator, scopes=scopes)
            )
        return self._source(scopes)

    def _source(self, scopes: tuple[str, ...]) -> Part:
        """`6vector`; the name of an unnamed namespace is left out."""
        self._takes("L")
        length = int(self._match(_NUMBER)[:4])
        name = self.text[self.at : self.at + length]
        self.at += length
        if self.at > len(self.text):
            name += "…"
        while self._takes("B"):
            self._source(())
        return Part("" if name.startswith("_GLOBAL__N") else name, scopes=_named(scopes))

    def _local(self, depth: int, is_function: bool) -> Part:
        """What stands inside of a function: the function's name, with the types of the lambda."""
        outer = self._name(depth + 1, is_function=True)
        self._is_function(outer, is_function and depth == 0)
        while not self._takes("E"):
            self._type(depth + 1)
        if self._takes("s"):
            return outer
        if self._takes("N"):
            while self._takes("K"):
                pass
            part = outer
            while not self._takes("E"):
                if self._takes("I"):
                    part = self._with_arguments(part, depth, is_function)
                else:
                    part = self._component(part, depth)
            return part
        part = self._component(outer, depth)
        self._is_function(part, is_function and depth == 0)
        return part

    def _lambda(self, function: Part, depth: int) -> Part:
        takes: list[Part] = []
        while not self._takes("E"):
            takes.append(self._type(depth + 1))
        return replace(function, takes=_without_void(takes), number=self._ends("_") + 2)

    def _is_function(self, part: Part, is_function: bool) -> None:
        if is_function:
            self.function = part

    # --- types --------------------------------------------------------------------------------

    def _type(self, depth: int) -> Part:
        if depth > DEEPEST:
            raise _CutError
        for code, name in _LONGER_BUILTINS.items():
            if self._takes(code):
                return Part(name)
        if self._takes("Dp"):
            return self._type(depth + 1)
        char = self._peek()
        if char in _BUILTINS:
            self.at += 1
            return Part(_BUILTINS[char])
        if char in "SNZ" or char.isdigit():
            return self._name(depth + 1)
        return self._compound(char, depth)

    def _compound(self, char: str, depth: int) -> Part:
        self.at += 1
        if char in "rVKROC":
            part = self._type(depth + 1)
        elif char == "P":
            inner = self._type(depth + 1)
            part = replace(inner, name=inner.name + "*")
        elif char == "F":
            part = Part("function")
            while not self._takes("E"):
                part.args.append(self._type(depth + 1))
        elif char == "A":
            self._match(_NUMBER)
            self._ends("_")
            part = self._type(depth + 1)
        elif char == "u":
            part = self._source(())
        elif char == "T":
            self.at -= 1
            part = self._parameter()
            if self._takes("I"):
                part = self._with_arguments(part, depth, False)
        else:
            raise _CutError
        self.known.append(part)
        return part

    def _with_arguments(self, part: Part, depth: int, is_function: bool) -> Part:
        """The part with its arguments, which are there even where the name ends within them."""
        part = replace(part, args=[])
        self._is_function(part, is_function and depth == 0)
        try:
            self._arguments(part.args, depth)
        except _CutError:
            self.unfinished = part
            raise
        return part

    def _arguments(self, into: list[Part], depth: int) -> None:
        if depth > DEEPEST:
            raise _CutError
        self.open_arguments += 1
        try:
            while not self._takes("E"):
                if self._takes("J"):
                    self._arguments(into, depth + 1)
                elif self._takes("L"):
                    into += self._literal(depth)
                else:
                    into.append(self._type(depth + 1))
        except _CutError:
            if self.unfinished is not None and self.unfinished.args is not into:
                into.append(self.unfinished)
                self.unfinished = None
            raise
        self.open_arguments -= 1

    def _literal(self, depth: int) -> list[Part]:
        """A number or a function; a value of an enumeration tells nothing without its name."""
        if self._takes("_Z"):
            parts = [self.encoding(depth + 1)]
        else:
            kind = self._type(depth + 1).name
            value = self._match(_VALUE).replace("n", "-")
            if kind == "bool":
                value = "true" if value == "1" else "false"
            parts = [Part(value)] if kind in _BUILTINS.values() else []
        if not self._takes("E"):
            raise _CutError
        return parts

    def _parameter(self) -> Part:
        self._match(_PARAMETER)
        return Part("T")

    def _substitution(self) -> Part:
        if found := _SUBSTITUTION.match(self.text, self.at):
            self.at = found.end()
            place = int(found[1], 36) + 1 if found[1] else 0
            if place < len(self.known):
                return self.known[place]
            return Part("…")
        self.at += 1
        name = _STD.get(self._one())
        if name is None:
            raise _CutError
        if name == "std":
            return self._source(("std",))
        return Part(name)

    # --- characters ---------------------------------------------------------------------------

    def _peek(self) -> str:
        if self.at >= len(self.text):
            raise _CutError
        return self.text[self.at]

    def _one(self) -> str:
        char = self._peek()
        self.at += 1
        return char

    def _peeks(self, text: str) -> bool:
        return self.text.startswith(text, self.at)

    def _peeks_at(self, pattern: re.Pattern[str]) -> bool:
        return pattern.match(self.text, self.at) is not None

    def _takes(self, text: str) -> bool:
        """Whether it goes on with this, which is then read; a name that ends is cut."""
        self._peek()
        if not self._peeks(text):
            return False
        self.at += len(text)
        return True

    def _match(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self.text, self.at)
        if found is None:
            raise _CutError
        self.at = found.end()
        return found[0]

    def _ends(self, mark: str) -> int:
        """`5_` is 5 and `_` is -1: the number before a mark."""
        found = _NUMBER.match(self.text, self.at)
        if found is not None:
            self.at = found.end()
        if self._one() != mark:
            raise _CutError
        return int(found[0][:4]) if found is not None else -1


def _named(scopes: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(scope for scope in scopes if scope)


def _without_void(types: list[Part]) -> list[Part]:
    return [one for one in types if one.name != "void"]
