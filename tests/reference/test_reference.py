"""The reference model, to the last bit and the last byte."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from ci_score import (
    Hardware,
    Parity,
    ParityProfile,
    Profile,
    Scorecard,
    compute_parity,
    compute_scorecard,
    parity_markdown,
    scorecard_markdown,
)
from tests.builders import shared

OUR_CASES = Path(__file__).parents[1] / "cases" / "reference.jsonl"


def our_cases() -> list[dict[str, Any]]:
    return [json.loads(line) for line in OUR_CASES.read_text(encoding="utf-8").splitlines()]


def shared_cases() -> list[dict[str, Any]]:
    folder = shared()
    assert folder is not None
    with gzip.open(folder / "golden" / "reference.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def compute(asked: dict[str, Any]) -> tuple[BaseModel, str]:
    if asked["kind"] == "parity":
        ours = ParityProfile.model_validate(asked["apr"])
        parity = compute_parity(ours, ParityProfile.model_validate(asked["baseline"]))
        return parity, parity_markdown(parity)
    baseline = asked["baseline"]
    card = compute_scorecard(
        Profile.model_validate(asked["profile"]),
        asked["throughput_tok_s"],
        Hardware(asked["peak_bw_gb_s"], asked["bytes_per_token"]),
        Scorecard.model_validate(baseline) if baseline else None,
    )
    return card, scorecard_markdown(card)


def mismatches(case: dict[str, Any]) -> Iterable[str]:
    """What differs from the expectation; texts compare the numbers to the last bit."""
    asked, expected = case["input"], case["expected"]
    if "error" in expected:
        try:
            compute(asked)
        except ValidationError:
            return
        yield f"not rejected: {asked}"
        return
    computed, markdown = compute(asked)
    printed = json.loads(computed.model_dump_json())
    reference = expected.get("scorecard") or expected["parity"]
    for key, value in reference.items():
        if json.dumps(printed[key], sort_keys=True) != json.dumps(value, sort_keys=True):
            yield f"{key}: {printed[key]} instead of {value}"
    if markdown != expected["markdown"]:
        yield f"markdown: {markdown}"
    if type(computed).model_validate_json(computed.model_dump_json()) != computed:
        yield "does not read back equal"


@pytest.mark.parametrize("case", our_cases(), ids=lambda case: case["name"])
def test_reference__our_cases(case: dict[str, Any]) -> None:
    """Every case that the project carries holds exactly."""
    assert not list(mismatches(case))


def test_reference__shared_cases() -> None:
    """All 427 cases of the reference implementation hold exactly."""
    if shared() is None:
        pytest.skip("no ../shared and no CI_SCORE_SHARED: the reference's own cases are not here")
    cases = shared_cases()
    assert len(cases) == 427
    wrong = [(number, what) for number, case in enumerate(cases) for what in mismatches(case)]
    assert not wrong


def test_reference__our_cases_see_the_order_and_kind_of_a_sum() -> None:
    """Cases exist that a compensated sum, or one in file order, would get wrong."""
    compensated = in_file_order = 0
    mixed = [case for case in our_cases() if case["name"].startswith("mixed")]
    for layer in (layer for case in mixed for layer in case["input"]["profile"]["per_layer"]):
        ops = layer.get("ops", {})
        times = [ms for _, ms in sorted(ops.items())]
        compensated += math.fsum(times) != plain(times)
        in_file_order += plain(ops.values()) != plain(times)
    assert compensated >= 10
    assert in_file_order >= 10


def plain(times: Iterable[float]) -> float:
    total = 0.0
    for ms in times:
        total += ms
    return total


def test_json__has_our_keys_beside_the_reference_s() -> None:
    """The JSON of a scorecard and of a parity carries notes and whether they mean anything."""
    card = compute_scorecard(Profile(), 100.0, None)
    assert {"notes", "graded", "ungraded_reason"} <= set(json.loads(card.model_dump_json()))
    side = ParityProfile(runtime="a", ops={})
    parity: Parity = compute_parity(side, side)
    assert {"notes", "compared_ops"} <= set(json.loads(parity.model_dump_json()))
