"""Holds the installed ci_score to the reference's cases: `python3 -I golden.py reference.jsonl`.

The file may be gzipped. The suite does the same from a checkout. This one needs nothing but what an
image has in it.
"""

from __future__ import annotations

import gzip
import json
import sys
from typing import Any

from pydantic import BaseModel, ValidationError

from ci_score import (
    Hardware,
    ParityProfile,
    Profile,
    Scorecard,
    compute_parity,
    compute_scorecard,
    parity_markdown,
    scorecard_markdown,
)


def compute(asked: dict[str, Any]) -> tuple[BaseModel, str]:
    """What we make of a case: the values, and their markdown."""
    if asked["kind"] == "parity":
        sides = (ParityProfile.model_validate(asked[side]) for side in ("apr", "baseline"))
        parity = compute_parity(*sides)
        return parity, parity_markdown(parity)
    baseline = asked["baseline"]
    card = compute_scorecard(
        Profile.model_validate(asked["profile"]),
        asked["throughput_tok_s"],
        Hardware(asked["peak_bw_gb_s"], asked["bytes_per_token"]),
        Scorecard.model_validate(baseline) if baseline else None,
    )
    return card, scorecard_markdown(card)


def holds(case: dict[str, Any]) -> bool:
    """Whether a case comes out to the last bit and byte, on the reference's keys."""
    expected = case["expected"]
    try:
        computed, markdown = compute(case["input"])
    except ValidationError:
        return "error" in expected
    if "error" in expected or markdown != expected["markdown"]:
        return False
    printed = json.loads(computed.model_dump_json())
    reference = expected.get("scorecard") or expected["parity"]
    ours = {key: printed[key] for key in reference}
    return json.dumps(ours, sort_keys=True) == json.dumps(reference, sort_keys=True)


def main() -> None:
    """Prints how many cases hold, and fails unless it is all of them."""
    name = sys.argv[1]
    opened = gzip.open if name.endswith(".gz") else open
    with opened(name, "rt", encoding="utf-8") as lines:
        held = [holds(json.loads(line)) for line in lines]
    version = sys.version.split()[0]
    sys.stdout.write(f"{sum(held)} of {len(held)} golden cases hold on Python {version}\n")
    sys.exit(not held or not all(held))


if __name__ == "__main__":
    main()
