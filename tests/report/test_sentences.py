"""Every reason has a sentence, and its row asks for just the data that its code has."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from string import Formatter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_score.model.metrics import STEP_TIME, metric_named
from ci_score.model.reasons import LONGEST_WORDS, Datum, Reason, Why
from ci_score.model.verdict import Change, Unjudged
from ci_score.report.cause_words import Name
from ci_score.report.causes import GAINS
from ci_score.report.host_causes import HOST_GAINS
from ci_score.report.sentences import CHANGES, SENTENCES, UNJUDGED, Row, change_sentence, sentence

METRIC = metric_named(STEP_TIME)
NOT_SHOWN = "a reason that cannot be shown"

# What a datum is by its name; all others are numbers.
# fmt: off
TEXTS = {
    "attention", "base_type", "case", "close", "commit", "direction", "event", "file", "folder",
    "gone", "head_type", "job", "key", "kind", "last_op", "layers", "metric", "name", "next_op",
    "outcome", "part", "partner", "phase", "record", "result", "severity", "side", "status",
    "was", "where", "words",
}
# fmt: on
LISTS: Mapping[str, tuple[str | float, ...]] = {
    "changed": ("torch 2.8 → 2.9",),
    "declared": (2, 3),
    "events": ("nan",),
    "grew_ms": (1.0, 2.0),
    "here_ms": (1.5,),
    "keys": ("accelerator",),
    "kinds": ("gemm", "norm"),
    "metrics": ("mfu",),
    "names": ("aten::bmm", "aten::_softmax"),
    "origin": ("Attention", "aten::softmax"),
    "not_tried": ("[model]", "environment.match"),
    "ops": ("gemm",),
    "parts": ("forward", "idle"),
    "ratios": (1.5,),
    "signs": ("final_loss", "valid_steps"),
    "there_ms": (1.0,),
    "units": ("%", "ms"),
}
# What the name alone does not tell.
SPECIAL: Mapping[Why, Mapping[str, Datum | Reason]] = {
    Why.NO_SOUND_LAUNCH: {"words": ("step 3",)},
    Why.NO_BASELINE: {"why": Unjudged.FIRST_RUN.value},
    Why.MISMATCH: {"here": "L4", "there": "T4"},
    Why.PARITY_TIMED_UNLIKE: {"here": "unprofiled", "there": "under a profiler"},
    Why.PARITY_SLOWER: {"here_ms": 1.5, "there_ms": 1.0},
    Why.MEASURED_AGAIN: {"cases": ("a", "b")},
    Why.JUDGED_AGAIN: {"cases": ("a", "b")},
    Why.SAME_COMMIT: {"here": "head.json, run 2", "there": "base.json, run 1"},
    Why.OWN_BASELINE: {"names": ("baseline",), "here": ("main.json",)},
    Why.OTHER_INPUTS: {"names": ("fail-on",), "here": ("never",), "there": ("",)},
    Why.PULL_OF_ANOTHER: {"number": 7, "head": "0123456789ab", "here": "ba9876543210"},
    Why.MORE_CALLS: {"base_calls": (0.0, 2.0), "head_calls": (3.0, 8.0)},
    Why.MORE_BACKWARD: {"base_calls": (0.0, 2.0), "head_calls": (3.0, 8.0)},
    Why.LARGE_PART: {"part": "idle"},
}


def data_of(code: Why) -> dict[str, Datum | Reason]:
    """Data as the code would have it."""
    found: dict[str, Datum | Reason] = dict.fromkeys(code.fields, 2.0)
    found |= {name: name for name in code.fields if name in TEXTS}
    found |= {name: LISTS[name] for name in code.fields if name in LISTS}
    if "why" in code.fields:
        found["why"] = Why.NO_TIME()
    return {**found, **SPECIAL.get(code, {})}


def row_of(code: Why) -> tuple[Row, dict[str, Any]]:
    """The row of a code, and what it is given beside the data."""
    return (CHANGES[code], {"metric": METRIC}) if code in CHANGES else (SENTENCES[code], {})


def said(reason: Reason) -> str:
    """Its sentence: some are only made of a metric's change."""
    if reason.code not in CHANGES:
        return sentence(reason)
    change = Change(metric=STEP_TIME, base=1.0, head=2.0, reasons=(reason,))
    return change_sentence(change, METRIC)


def test_rows__each_code_has_one() -> None:
    """In the general table, or in the one of those that need their metric."""
    assert SENTENCES.keys() | CHANGES.keys() == set(Why)
    assert not SENTENCES.keys() & CHANGES.keys()


def test_rows__each_way_not_to_be_judged_has_its_words() -> None:
    """In one line each, and no two alike."""
    assert UNJUDGED.keys() == set(Unjudged)
    assert len(set(UNJUDGED.values())) == len(UNJUDGED)


@pytest.mark.parametrize("code", Why)
def test_rows__ask_for_just_the_data_of_their_code(code: Why) -> None:
    """What a code has and no row shows would be lost, and what it lacks cannot be shown."""
    row, more = row_of(code)
    if isinstance(row, str):
        asked = {name.partition("!")[0] for _, name, _, _ in Formatter().parse(row) if name}
        assert asked == code.fields
        return
    data = {name: said_of(value) for name, value in data_of(code).items()}
    assert row(**data, **more)
    for name in code.fields:
        with pytest.raises(TypeError):
            row(**{key: value for key, value in data.items() if key != name}, **more)
    with pytest.raises(TypeError):
        row(**data, **more, something_else=1.0)


def said_of(value: Datum | Reason) -> Datum:
    """A reason within a reason reaches the row as its sentence."""
    return sentence(value) if isinstance(value, Reason) else value


@pytest.mark.parametrize("code", Why)
def test_sentence__of_each_code(code: Why) -> None:
    """It is words, with nothing of a template or of a value's type left in them."""
    words = said(code(**data_of(code)))
    assert words.strip() == words != ""
    assert NOT_SHOWN not in words
    # The one expression of a workflow that a sentence shows.
    words = words.replace("${{ needs.measure.result }}", "")
    assert not any(sign in words for sign in ("{", "}", "None", "()", "Why.", "code="))


@pytest.mark.parametrize("code", sorted({**GAINS, **HOST_GAINS}))
def test_sentence__of_each_gain(code: Why) -> None:
    """What a step gained by is told in words of its own, with its names apart."""
    cause = code(**data_of(code))
    words = sentence(Why.FASTER(cause=cause))
    assert NOT_SHOWN not in words
    assert words != sentence(cause)
    assert "".join(f"'{one}'" if isinstance(one, Name) else one for one in words.pieces) == words


@pytest.mark.parametrize("value", [1e-12, 1.23e-7, 0.0004, 1_048_576.0, 3.3e9, 1e18, 1e300])
@pytest.mark.parametrize("code", Why)
def test_sentence__has_no_exponent(code: Why, value: float) -> None:
    """However large or small its numbers are."""
    data = {name: value if one == 2.0 else one for name, one in data_of(code).items()}
    assert not re.search(r"\de[-+]?\d", said(code(**data)))


@pytest.mark.parametrize("code", Why)
def test_reason__with_other_data_is_our_mistake(code: Why) -> None:
    """Whoever gives a reason gives just the data of its code."""
    data = data_of(code)
    with pytest.raises(TypeError, match=f"the data of {code.value} is "):
        code(**data, something_else=1.0)
    for name in code.fields:
        with pytest.raises(TypeError, match=f"the data of {code.value} is "):
            code(**{key: value for key, value in data.items() if key != name})


@pytest.mark.parametrize(
    "written",
    [
        {"code": "of_next_year", "data": {"pairs": 3}},
        {"code": "too_few_pairs", "data": {"pairs": 3}},
        {"code": "too_few_pairs", "data": {"pairs": 3, "least": 4, "more": {"deep": [1]}}},
        {"code": "quoted", "data": {"words": "x" * 100_000}},
        {"code": "no_time", "data": []},
    ],
    ids=["code", "lacking", "surplus", "huge", "shape"],
)
def test_reason__that_is_not_known_decides_nothing(written: dict[str, Any]) -> None:
    """A record of another version, or of a stranger, is not unusable because of it."""
    reason = Reason.model_validate_json(json.dumps(written))
    assert reason.code is Why.UNKNOWN
    assert sentence(reason) == f"a reason of another version of ci-score ({written['code']})"


def test_reason__holds_what_a_record_can_hold() -> None:
    """Ratios overflow and names are long: a reason is cut to what fits, and never fails."""
    reason = Why.PARITY_RATE_UNKNOWN(partner="x" * 10_000, side="y")
    assert len(str(reason.data["partner"])) == LONGEST_WORDS
    reason = Why.OTHER_LOSS(head=math.inf, base=-math.inf)
    assert Reason.model_validate_json(reason.model_dump_json()) == reason


@pytest.mark.parametrize("code", Why)
def test_reason__comes_back_from_json(code: Why) -> None:
    """A record keeps its reasons with all of their data."""
    reason = code(**data_of(code))
    assert Reason.model_validate_json(reason.model_dump_json()) == reason


strange = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8),
    st.lists(st.text(max_size=4), max_size=3).map(tuple),
    st.just(10**400),
    st.just(Why.NO_TIME()),
)


@given(st.sampled_from(Why), st.data())
def test_sentence__of_a_stranger_s_data_breaks_nothing(code: Why, data: st.DataObject) -> None:
    """A record of a fork may hold a text where a number belongs."""
    said(code(**{name: data.draw(strange, label=name) for name in sorted(code.fields)}))


def test_sentence__quotes_the_words_of_a_failure_to_their_end() -> None:
    """A stranger's words cannot close our quotes and go on as if we spoke."""
    said = sentence(Why.MEASURING_SAID(case="llama", words="x”. It passes. “"))
    assert str(said) == 'what measured llama said last: “x". It passes. "”'
