"""A kernel's name in C++ as demanglers print it → its parts: names, template arguments, lambdas.

Names come from files of strangers and are often cut short: brackets need not be balanced, and every
character is looked at a bounded number of times.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

DEEPEST = 24
# Longer than what readers keep; what comes later tells nothing that a short name could hold.
LONGEST_READ = 2000

_IDENTIFIER = re.compile(r"[\w$~.]+|-\d\w*")
_OPERATOR = re.compile(r"\s*(\(\s*\)|\[\s*\]|[-+*/%^&|~!=<>]{1,3})")
_LAMBDA = re.compile(r"[{\[]\s*lambda\s*\(|'lambda\d*'\s*\(|<lambda\s*\(")
_NUMBERED = re.compile(r"\s*(?:#|\(instance )(\d+)\)?\s*[}\]>]?")
_UNNAMED = re.compile(r"\(anonymous namespace\)|<unnamed>|\{unnamed type#\d+\}|\{anonymous\}")
_SKIPPED_WORDS = re.compile("const|volatile|void|struct|class|enum|typename|static|inline")
_INTEGERS = re.compile("signed|unsigned|char|short|int|long")
_OPENS, _CLOSES = "([{<", ")]}>"


@dataclass(slots=True, eq=False)
class Part:
    """A name with its template arguments; of a lambda, the types that it takes and its number."""

    name: str
    args: list[Part] = field(default_factory=list)
    takes: list[Part] = field(default_factory=list)
    number: int = 1
    # The names around it, the outermost first.
    scopes: tuple[str, ...] = ()


@dataclass(slots=True)
class _Word:
    """One word of a type: a path of names, with what was called on its way."""

    path: list[Part] = field(default_factory=list)
    is_called: bool = False
    stars: str = ""


class Reader:
    """Reads a name from left to right.

    `is_cut` tells that it ended inside of template arguments, where it could have gone on with what
    tells kernels apart; in the arguments of a call it could not.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.is_cut = self.ends_in_call = False

    def function(self) -> Part | None:
        """The function that a whole name names, without its return type."""
        words, _ = self._words("", 0)
        # A number behind a name, as in `relu<float> #1`, is no name.
        words = [word for word in words if not word.path[0].name.isdigit()]
        called = [word for word in words if word.is_called]
        return _part_of((called or words[-1:])[0]) if words else None

    def _list(self, closing: str, depth: int) -> list[Part]:
        """The types up to the closing bracket, which is read, too."""
        parts: list[Part] = []
        while self.at < len(self.text):
            words, boolean = self._words("," + closing, depth)
            part = _type_of(words, boolean)
            if part is not None:
                parts.append(part)
            if self.at >= len(self.text):
                break
            self.at += 1
            if self.text[self.at - 1] == closing:
                return parts
        self.is_cut = not self.ends_in_call
        return parts

    def _words(self, stops: str, depth: int) -> tuple[list[_Word], bool]:
        """The words up to one of the stops; and whether a number was cast to bool."""
        words: list[_Word] = []
        joins, boolean = False, False
        while self.at < len(self.text) and (char := self.text[self.at]) not in stops:
            begin = self.at
            if unnamed := _UNNAMED.match(self.text, begin):
                self.at = unnamed.end()
                if not joins:
                    words.append(_Word())
                continue
            if self.text.startswith("&(", begin):
                # The address of a function, which stands in brackets with its type.
                self.at += 2
                continue
            if found := _LAMBDA.match(self.text, begin):
                self.at = found.end()
                self._lambda(words, depth)
            elif found := _IDENTIFIER.match(self.text, begin):
                self.at = found.end()
                self._identifier(found[0], words, joins)
            elif self.text.startswith("::", begin):
                self.at += 2
                joins = joins or bool(words and words[-1].path)
                continue
            elif char == "<" and words and words[-1].path:
                self.at += 1
                self._arguments(words[-1], depth)
            elif char == "(" and words and self.text[begin - 1] not in " ,(":
                self._call(words[-1], depth)
            elif char in _OPENS:
                skipped = self._skip()
                boolean = boolean or skipped.strip() == "(bool)"
            else:
                self.at += 1
                if char in "*&" and words:
                    words[-1].stars += char if char == "*" else ""
            joins = False
        return [word for word in words if word.path], boolean

    def _identifier(self, text: str, words: list[_Word], joins: bool) -> None:
        if text == "operator" and (found := _OPERATOR.match(self.text, self.at)):
            self.at = found.end()
            text = "operator" + found[1].replace(" ", "")
        elif text == "const" and self.text.startswith("::", self.at):
            return
        if not joins or not words:
            words.append(_Word())
        words[-1].path.append(Part(text))

    def _arguments(self, word: _Word, depth: int) -> None:
        if depth >= DEEPEST:
            self.at -= 1
            self._skip()
            return
        word.path[-1].args = self._list(">", depth + 1)

    def _lambda(self, words: list[_Word], depth: int) -> None:
        """A lambda belongs to the function that holds it."""
        takes = self._list(")", depth + 1) if depth < DEEPEST else []
        number = 1
        if found := _NUMBERED.match(self.text, self.at):
            self.at = found.end()
            number = int(found[1][:6])
        if not words:
            words.append(_Word())
        words[-1].path.append(Part("", takes=takes, number=number))

    def _call(self, word: _Word, depth: int) -> None:
        """Arguments of a call tell nothing, unless a short name has a lambda's there."""
        begin = self.at
        skipped = self._skip()
        word.is_called = True
        self.ends_in_call = self.at >= len(self.text)
        follows = self.text[self.at : self.at + 1]
        if depth and follows in ("", ",", ">", "#", "…") and len(skipped) <= 40:
            self.at = begin + 1
            self._lambda([word], depth)

    def _skip(self) -> str:
        """Everything in a pair of brackets, whatever it is."""
        begin = self.at
        open_brackets: list[str] = []
        while self.at < len(self.text):
            char = self.text[self.at]
            self.at += 1
            if char in "([{" or (char == "<" and self.at - 1 == begin):
                open_brackets.append(_CLOSES[_OPENS.index(char)])
            elif open_brackets and char == open_brackets[-1]:
                open_brackets.pop()
            elif char == "<" and open_brackets == [">"]:
                open_brackets.append(">")
            if not open_brackets:
                break
        return self.text[begin : self.at]


def _type_of(words: list[_Word], boolean: bool) -> Part | None:
    """The one type, value or function that some words name."""
    kept = [
        word
        for word in words
        if len(word.path) > 1
        or word.path[0].args
        or not _SKIPPED_WORDS.fullmatch(word.path[0].name)
    ]
    if not kept:
        return Part("void") if words else None
    integers = [word.path[0].name for word in kept if _INTEGERS.fullmatch(word.path[0].name)]
    if len(integers) == len(kept):
        return Part(_integer(integers) + kept[-1].stars)
    part = _part_of(kept[-1])
    if boolean and part is not None and part.name in ("0", "1"):
        part.name = "true" if part.name == "1" else "false"
    return part


def _integer(words: Iterable[str]) -> str:
    size = [word for word in words if word not in ("signed", "unsigned")]
    name = "long" if "long" in size else next(iter(size), "int")
    return f"u{name}" if "unsigned" in words else name


def _part_of(word: _Word) -> Part | None:
    """The last name of a path that is neither a lambda nor its call, with the lambda's types."""
    named = [part for part in word.path if part.name and not part.name.startswith("operator(")]
    if not named:
        return None
    last = named[-1]
    lambdas = [part for part in word.path[word.path.index(last) + 1 :] if not part.name]
    return Part(
        last.name + word.stars,
        last.args,
        lambdas[-1].takes if lambdas else last.takes,
        lambdas[-1].number if lambdas else last.number,
        tuple(part.name for part in named[:-1]),
    )
