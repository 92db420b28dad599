"""JSON from strangers, read strictly.

pydantic's own JSON mode silently keeps the last of two equal keys, so a file could show one number
to a person and another to the gate. Here a duplicate key is an error, as are NaN, Infinity,
numbers that overflow a double, absurd depth and bytes that are not UTF-8.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import pydantic_core
from pydantic import BaseModel, ValidationError

from ci_score.errors import BadInputError

M = TypeVar("M", bound=BaseModel)

_POSSIBLE_KEY = re.compile(rb'"\s*:')
_SHOWN_CHARACTERS = 60
# Three bytes of JSON can take sixty of memory, so the values are counted before they are parsed.
MOST_CONTAINERS = 2_000_000
MOST_VALUES = 12_000_000
# Each takes a thousand times the room of what it is about.
MOST_MISTAKES = 10_000

# Pydantic's type of an error → what the field expects, in the words of the documentation.
_EXPECTATIONS = {
    "int_type": "a whole number",
    "int_parsing_size": "a whole number below 2^64",
    "float_type": "a number",
    "string_type": "text",
    "bool_type": "true or false",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "dataclass_type": "an object",
    "finite_number": "a finite number",
    "missing": "this field",
    "extra_forbidden": "no such field",
    "greater_than": "a number above {gt:g}",
    "greater_than_equal": "a number of {ge:g} or more",
    "less_than": "a number below {lt}",
    "less_than_equal": "a number of {le:.15g} or less",
    "literal_error": "{expected}",
    "enum": "{expected}",
    "too_short": "at least {min_length} of them",
    "too_long": "at most {max_length} of them",
    "string_too_short": "a text of {min_length} or more characters",
    "string_too_long": "a text of at most {max_length} characters",
    "string_pattern_mismatch": "a text of the form {pattern}",
    "value_error": "{error}",
}


def parse(data: bytes, source: str) -> Any:
    """The value that `data` holds, or a BadInputError that says where it stops being JSON."""
    if not data.strip():
        raise BadInputError(source, found="an empty file", expected="JSON")
    if data.startswith(b"\xef\xbb\xbf"):
        data = data[3:]
    if data.count(b"[") + data.count(b"{") > MOST_CONTAINERS or data.count(b",") > MOST_VALUES:
        raise BadInputError(
            source,
            found="too many values",
            expected=f"at most {MOST_VALUES} values in {MOST_CONTAINERS} lists and objects",
        )
    try:
        value = pydantic_core.from_json(data, allow_inf_nan=False, cache_strings="keys")
    except ValueError as error:
        raise _not_json(error, source) from None
    # Each key ends in a quote and a colon, so this count is never too low. If it equals the number
    # of parsed keys, no key was there twice; only otherwise the slow, exact search is needed.
    if len(_POSSIBLE_KEY.findall(data)) != _count_keys(value):
        _refuse_duplicate_keys(data, source)
    return value


def validate(model: type[M], value: Any, source: str) -> M:
    """`value` as `model`, or a BadInputError that names the first wrong field by its path."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise bad_field(error, source) from None


def bad_field(error: ValidationError, source: str) -> BadInputError:
    """The first mistake of a pydantic error, as path, found and expected."""
    first, *others = bad_fields(error, source)
    if not others:
        return first
    more = f"{first.found} (and {len(others)} more)"
    return BadInputError(source, field=first.field, found=more, expected=first.expected)


def bad_fields(error: ValidationError, source: str) -> list[BadInputError]:
    """All mistakes of a pydantic error, in its order; of very many only their number."""
    if (count := error.error_count()) > MOST_MISTAKES:
        return [BadInputError(source, found=f"{count:,} mistakes", expected="the fields' types")]
    return [
        BadInputError(
            source,
            field=json_path(one["loc"]),
            found="nothing" if one["type"] == "missing" else _shown(one["input"]),
            expected=_expected(one),
        )
        for one in error.errors(include_url=False)
    ]


@contextmanager
def overflow_is_bad_input(source: str) -> Iterator[None]:
    """Finite numbers can be so far apart that a sum or ratio of them is not finite."""
    try:
        yield
    except ValidationError as error:
        if any(mistake["type"] != "finite_number" for mistake in error.errors()):
            raise
        raise _overflow(source) from None
    except (OverflowError, ZeroDivisionError):
        raise _overflow(source) from None


def _overflow(source: str) -> BadInputError:
    return BadInputError(
        source, found="numbers so far apart that a result overflows", expected="measured numbers"
    )


def json_path(location: Iterable[int | str]) -> str:
    """`("per_layer", 3, "ops", "a b")` as `per_layer[3].ops["a b"]`."""
    path = ""
    for step in location:
        if isinstance(step, int):
            path += f"[{step}]"
        elif re.fullmatch(r"[A-Za-z_]\w{0,63}", step):
            path += f".{step}" if path else step
        else:
            path += f"[{_shown(step)}]"
    return path


_NUMBERS = re.compile(r"\[\n\s+(?:[-+.\dEe]+|null)(?:,\n\s+(?:[-+.\dEe]+|null))*\n\s*\]")


def dump(value: Any, *, indent: int | None = 2) -> str:
    """`value` (a model, or what JSON can hold) as readable JSON with a final newline.

    Without an `indent` it takes half the room.

    It is ASCII, which every terminal and every encoding can show.

    A list of nothing but numbers stands on one line.

    `##[` anywhere in a log is a command to a workflow's runner. In JSON it can only be part of a
    string, where an escape means the same.
    """
    jsonable = value.model_dump(mode="json") if isinstance(value, BaseModel) else value
    separators = (",", ":") if indent is None else None
    text = json.dumps(jsonable, indent=indent, separators=separators, allow_nan=False)
    if indent is not None:
        # No text holds a line break as such, so this is always a list.
        text = _NUMBERS.sub(lambda found: "".join(found[0].split()), text)
    return text.replace("##[", "#\\u0023[") + "\n"


def _expected(error: Any) -> str:
    if words := _EXPECTATIONS.get(error["type"]):
        return words.format_map(error.get("ctx", {}))
    message: str = error["msg"]
    return message[:1].lower() + message[1:]


def _shown(value: Any) -> str:
    """A stranger's value in short, on one line."""
    if isinstance(value, dict):
        return f"an object with {len(value)} keys" if value else "an empty object"
    if isinstance(value, list):
        return f"a list of {len(value)}" if value else "an empty list"
    try:
        text = json.dumps(value, ensure_ascii=True)
    except (TypeError, ValueError):
        text = ascii(value)
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…"


def _not_json(error: ValueError, source: str) -> BadInputError:
    text = str(error)
    reason, _, position = text.rpartition(" at ")
    if "recursion limit" in text:
        return BadInputError(
            source, field=position, found="JSON nested too deeply", expected="at most 200 levels"
        )
    if text.startswith("EOF"):
        return BadInputError(
            source,
            field=position,
            found="the end of the file inside the JSON",
            expected="whole JSON (was the file cut short?)",
        )
    return BadInputError(
        source, field=position, found=f"text that is not JSON ({reason or text})", expected="JSON"
    )


def _count_keys(value: Any) -> int:
    count = 0
    todo = [value]
    while todo:
        item = todo.pop()
        if isinstance(item, dict):
            count += len(item)
            todo.extend(child for child in item.values() if isinstance(child, dict | list))
        elif isinstance(item, list):
            todo.extend(child for child in item if isinstance(child, dict | list))
    return count


class _DuplicateKeyError(Exception):
    """Raised inside the parser, which does not know the path."""


def _refuse_duplicate_keys(data: bytes, source: str) -> None:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        keys = dict(pairs)
        if len(keys) != len(pairs):
            raise _DuplicateKeyError
        return keys

    try:
        json.loads(data, object_pairs_hook=unique)
    except _DuplicateKeyError:
        raise BadInputError(
            source,
            field=json_path(_path_of_duplicate(data.decode())),
            found="this key twice in one object",
            expected="each key once",
        ) from None


_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')


def _path_of_duplicate(text: str) -> list[int | str]:
    """The path of the first duplicate key, in valid JSON that has one."""
    path: list[int | str] = []
    keys: list[set[str] | None] = []  # an open object's keys; None for a list
    expects_key = False
    for token in _TOKEN.findall(text):
        if token in "{[":
            keys.append(set() if token == "{" else None)
            path.append("" if token == "{" else 0)
            expects_key = token == "{"
        elif token in "}]":
            keys.pop()
            path.pop()
        elif token == ",":
            expects_key = keys[-1] is not None
            if keys[-1] is None:
                path[-1] = int(path[-1]) + 1
        elif expects_key and token != ":":
            key = json.loads(token)
            path[-1] = key
            if key in (seen := keys[-1] or set()):
                break
            seen.add(key)
            keys[-1] = seen
            expects_key = False
    return path
