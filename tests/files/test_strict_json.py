"""JSON from strangers: what is refused, and how the error names the place."""

from __future__ import annotations

import json
from typing import Annotated, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from ci_score.errors import BadInputError
from ci_score.files.strict_json import MOST_MISTAKES, dump, json_path, parse, validate
from ci_score.model.profile import Profile
from ci_score.model.values import Lax, Value

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner)
    ),
    max_leaves=20,
)

REFUSED = {
    b"": "an empty file",
    b" \n": "an empty file",
    b"hello": "not JSON",
    b'{"a": 1': "the end of the file inside the JSON",
    b'{"a": 1} {"a": 2}': "not JSON",
    b'{"a": NaN}': "not JSON",
    b'{"a": Infinity}': "not JSON",
    b'{"a": -Infinity}': "not JSON",
    b'{"a": "\xff"}': "not JSON",
    b"\xff\xfe{\x00": "not JSON",
    b'{"a": "\\ud800"}': "not JSON",
    b"[" * 10**6: "nested too deeply",
    b'{"a":' * 10**6: "nested too deeply",
    b'{"a": 1, "a": 2}': "this key twice",
    b'{"a": 1, "\\u0061": 2}': "this key twice",
    b'{"x": [{"a": {"b": 1, "c": 2, "b": 1}}]}': "this key twice",
}


@pytest.mark.parametrize(("data", "found"), REFUSED.items(), ids=lambda value: repr(value)[:30])
def test_parse__refuses(data: bytes, found: str) -> None:
    """Text that is not strict JSON is an error that names its source."""
    with pytest.raises(BadInputError, match=found) as error:
        parse(data, "profile.json")
    assert str(error.value).startswith("profile.json")


def test_parse__names_the_duplicate_key() -> None:
    """A duplicate key is shown, so that it can be found; pydantic alone keeps the last silently."""
    data = b'{"steps": 3, "avg_step_ms": 100, "avg_step_ms": 1}'
    assert Profile.model_validate_json(data).avg_step_ms == 1
    with pytest.raises(BadInputError, match="avg_step_ms"):
        parse(data, "profile.json")


@pytest.mark.parametrize(
    ("data", "path"),
    [
        (b'{"a": 1, "a": 2}', "a"),
        (b'{"per_layer": [{"x": 1}, {"ops": {"b c": 1, "q": [1, {}], "b c": 2}}]}',
         'per_layer[1].ops["b c"]'),
        (b'[[], [1, 2, {"k": ",", "k": "]"}]]', "[1][2].k"),
    ],
)  # fmt: skip
def test_parse__a_duplicate_key_has_its_path(data: bytes, path: str) -> None:
    """The error names the place of a duplicate key, and not only the key."""
    with pytest.raises(BadInputError) as error:
        parse(data, "x")
    assert error.value.field == path


@pytest.mark.parametrize("data", [b"[" + b"[]," * 2_100_000 + b"1]", b"[" + b"1," * 12_100_000])
def test_parse__limits_what_memory_would_hold(data: bytes) -> None:
    """Values are counted before parsing, because JSON can take twenty times its size in memory."""
    with pytest.raises(BadInputError, match="too many values"):
        parse(data, "x")


def test_parse__colons_in_text_are_no_keys() -> None:
    """Text that looks like a key does not count as a duplicate key."""
    value = {"aten::mm": 'x": y', '": "': ['": 1, "a": 2'], "": {"": '\\":'}}
    assert parse(json.dumps(value).encode(), "x") == value


def test_parse__a_byte_order_mark_is_skipped() -> None:
    """A byte order mark, which some editors write, is ignored."""
    assert parse(b"\xef\xbb\xbf{}", "x") == {}


@given(VALUES)
def test_parse__reads_what_json_writes(value: object) -> None:
    """Anything that the standard library writes is read back equal, with no false duplicate."""
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False, indent=1)):
        assert parse(text.encode(), "x") == value


@given(
    st.lists(st.tuples(st.sampled_from('abc:"\\'), st.sampled_from(["x", '":', ": "])), max_size=6)
)
def test_parse__finds_every_duplicate(pairs: list[tuple[str, str]]) -> None:
    """A key is refused if and only if it occurs twice in its object."""
    text = "{" + ", ".join(f"{json.dumps(key)} : {json.dumps(value)}" for key, value in pairs) + "}"
    if len({key for key, _ in pairs}) == len(pairs):
        assert parse(text.encode(), "x") == dict(pairs)
    else:
        with pytest.raises(BadInputError, match="twice"):
            parse(text.encode(), "x")


WRONG_FIELDS = [
    ({"steps": "3"}, "steps", '"3"', "a whole number"),
    ({"steps": 1.5}, "steps", "1.5", "a whole number"),
    ({"steps": True}, "steps", "true", "a whole number"),
    ({"steps": None}, "steps", "null", "a whole number"),
    ({"steps": -1}, "steps", "-1", "a number of 0 or more"),
    ({"steps": 2**64}, "steps", "18446744073709551616", "below 18446744073709551616"),
    ({"avg_step_ms": -0.5}, "avg_step_ms", "-0.5", "a number of 0 or more"),
    ({"avg_step_ms": float("inf")}, "avg_step_ms", "Infinity", "a finite number"),
    ({"avg_step_ms": 10**400}, "avg_step_ms", "1000", "number"),
    ({"phases": []}, "phases", "an empty list", "an object"),
    (
        {"phases": {"a b": {"total_ms": 1, "pct": 1}}},
        'phases["a b"].avg_ms',
        "nothing",
        "this field",
    ),
    ({"per_layer": {}}, "per_layer", "an empty object", "a list"),
    (
        {"per_layer": [{"layer": 0, "fwd_ms": 1, "bwd_ms": 2, "ops": {"a": "b"}}]},
        "per_layer[0].ops.a",
        '"b"',
        "a number",
    ),
    ({"bottleneck": 3}, "bottleneck", "3", "text"),
    (3, "", "3", "an object"),
]


@pytest.mark.parametrize(
    ("value", "field", "found", "expected"), WRONG_FIELDS, ids=lambda value: str(value)[:30]
)
def test_validate__names_field_found_and_expected(
    value: object, field: str, found: str, expected: str
) -> None:
    """The message holds the file, the JSON path, what was found and what was expected."""
    with pytest.raises(BadInputError) as error:
        validate(Profile, value, "profile.json")
    assert error.value.field == field
    assert found in error.value.found
    assert expected in error.value.expected


class Limited(Value):
    """A value with a limit of every kind."""

    above: Annotated[float, Field(gt=0)] = 1.0
    most: Annotated[float, Field(le=10**12)] = 1.0
    word: Literal["a", "b"] = "a"
    name: Annotated[str, Field(min_length=2, max_length=3, pattern="^a")] = "aa"
    rows: Annotated[tuple[int, ...], Lax, Field(min_length=1, max_length=2)] = (1,)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"above": 0.0}, "a number above 0"),
        ({"most": 1e13}, "a number of 1000000000000 or less"),
        ({"word": "c"}, "'a' or 'b'"),
        ({"name": "a"}, "a text of 2 or more characters"),
        ({"name": "aaaa"}, "a text of at most 3 characters"),
        ({"name": "bb"}, "a text of the form ^a"),
        ({"rows": []}, "at least 1 of them"),
        ({"rows": [1, 2, 3]}, "at most 2 of them"),
    ],
)
def test_validate__says_a_limit_in_plain_words(value: object, expected: str) -> None:
    """What a field may hold is said in words that fit after *expected*."""
    with pytest.raises(BadInputError) as error:
        validate(Limited, value, "limited.json")
    assert error.value.expected == expected


def test_validate__counts_further_mistakes() -> None:
    """The message shows one mistake and counts the others."""
    with pytest.raises(BadInputError, match=r"and 1 more"):
        validate(Profile, {"steps": "3", "avg_step_ms": "x"}, "p")


def test_validate__tells_the_number_of_very_many_mistakes() -> None:
    """A stranger's million wrong values do not become a million messages."""

    class Numbers(Value):
        values: Annotated[tuple[float, ...], Lax] = ()

    with pytest.raises(BadInputError, match=r"found 10,001 mistakes"):
        validate(Numbers, {"values": ["x"] * (MOST_MISTAKES + 1)}, "p")


def test_validate__shows_hostile_text_on_one_short_line() -> None:
    """A stranger's value cannot flood the log or start a line of its own."""
    with pytest.raises(BadInputError) as error:
        validate(Profile, {"steps": "\n::error::x" * 1000}, "p")
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 300


def test_json_path__quotes_what_is_no_identifier() -> None:
    """A JSON path looks as one would type it."""
    assert json_path(("a", 3, "b c", "d")) == 'a[3]["b c"].d'


def test_dump__is_readable_and_stable() -> None:
    """The dump is indented ASCII with a final newline."""
    assert dump({"b": [1.5, 2, None], "ä": None, "c": ["1", "2"]}) == (
        '{\n  "b": [1.5,2,null],\n  "\\u00e4": null,\n  "c": [\n    "1",\n    "2"\n  ]\n}\n'
    )


def test_dump__holds_no_workflow_command() -> None:
    """The JSON of a hostile name cannot act as a job command, and still gives the same name."""
    text = dump({"op": "##[add-mask]x", "deep": "###[["})
    assert "##[" not in text
    assert json.loads(text) == {"op": "##[add-mask]x", "deep": "###[["}
