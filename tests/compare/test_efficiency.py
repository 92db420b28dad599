"""What the user says and what the profile knows: which of them counts, and what stays unknown."""

from __future__ import annotations

from typing import Any

import pytest

from ci_score.compare import Workload
from ci_score.compare.efficiency import training_scorecard
from ci_score.errors import WrongUseError
from ci_score.model.scorecard import Scorecard
from tests.builders import profile


def score(workload: Workload | None = None, **fields: Any) -> Scorecard:
    return training_scorecard(profile(**fields), workload or Workload())


def test_throughput__is_tokens_per_step_over_step_time() -> None:
    """8192 tokens in 100 ms are 81,920 tokens a second."""
    assert score(tokens_per_step=8192).throughput_tok_s == pytest.approx(81920)


def test_throughput__is_per_device_with_the_job_s_beside_it() -> None:
    """The reference is fed one device's share."""
    card = score(tokens_per_step=8192, accelerator_count=8)
    assert card.throughput_tok_s == pytest.approx(10240)
    assert card.job_throughput_tok_s == pytest.approx(81920)


def test_throughput__of_an_unknown_number_of_devices_is_said() -> None:
    """Taking a job for one device is a guess that must be visible."""
    assert "number of accelerators is not known" in "\n".join(score(tokens_per_step=8).notes)
    assert "number of accel" not in "\n".join(score(tokens_per_step=8, accelerator_count=1).notes)


def test_throughput__an_explicit_value_wins() -> None:
    """What the user says is right, whatever the profile says."""
    assert score(Workload(throughput_tok_s=7.0), tokens_per_step=8192).throughput_tok_s == 7.0
    assert score(Workload(tokens_per_step=10.0), tokens_per_step=8192).throughput_tok_s == 100.0


def test_throughput__is_absent_without_tokens() -> None:
    """No tokens: no throughput, no grade, and the reason said."""
    card = score(Workload(hardware="gb10"))
    assert card.throughput_tok_s == 0
    assert card.ungraded_reason == "the throughput is not known"


def test_bytes__of_a_step_are_shared_by_one_device_s_tokens() -> None:
    """20 GB a step and device, 8192 tokens on 4 devices: 9.8 MB a token."""
    card = score(
        Workload(bytes_per_step=20e9, peak_bandwidth_gb_s=1000.0),
        tokens_per_step=8192,
        accelerator_count=4,
    )
    # 100 ms a step on 1000 GB/s can move 100 GB; 20 GB are a fifth.
    assert card.efficiency == pytest.approx(0.2)
    assert card.graded


def test_preset__brings_its_bytes_only_where_it_is_named() -> None:
    """The same device found by its driver's name has no bytes per token."""
    assert score(Workload(throughput_tok_s=800.0, hardware="gb10")).graded
    card = score(Workload(throughput_tok_s=800.0), accelerator="NVIDIA GB10")
    assert not card.graded
    assert "bytes" in (card.ungraded_reason or "")


def test_hardware__comes_from_the_profile_s_driver_name() -> None:
    """The name that a driver prints is enough for the bandwidth, and is shown as the table's."""
    card = score(
        Workload(throughput_tok_s=100.0, bytes_per_token=1e9), accelerator="NVIDIA H100 80GB HBM3"
    )
    assert card.accelerator == "H100 SXM 80GB"
    assert card.efficiency == pytest.approx(100.0 / (3350e9 / 1e9))


def test_hardware__the_profile_s_own_bandwidth_wins_over_the_table() -> None:
    """A device that tells its peak knows better than a table; the user knows best."""
    fields: dict[str, Any] = {"accelerator": "NVIDIA L4", "peak_bandwidth_gb_s": 1000.0}
    said = Workload(throughput_tok_s=1.0, bytes_per_token=1e9)
    assert score(said, **fields).efficiency == pytest.approx(1 / 1000)
    explicit = Workload(throughput_tok_s=1.0, bytes_per_token=1e9, peak_bandwidth_gb_s=100.0)
    assert score(explicit, **fields).efficiency == pytest.approx(1 / 100)
    named = Workload(throughput_tok_s=1.0, bytes_per_token=1e9, hardware="L4")
    assert score(named, **fields).efficiency == pytest.approx(1 / 300)


def test_hardware__an_unknown_name_teaches_the_known_ones() -> None:
    """A typo is an error with the names that are close."""
    with pytest.raises(WrongUseError, match=r"Did you mean .*H100"):
        score(Workload(hardware="H1000 PCIe"))


def test_hardware__an_unknown_accelerator_of_the_profile_is_a_note() -> None:
    """A new device must not break the report; its peak is simply not known."""
    card = score(Workload(throughput_tok_s=1.0, bytes_per_token=1.0), accelerator="Quantum 9000")
    assert "'Quantum 9000' is not in the table" in "\n".join(card.notes)
    assert not card.graded


def test_mfu__is_model_flops_over_the_dense_peak() -> None:
    """10,000 tok/s/device x 6 GFLOP/token on an L4's dense bf16 121 TFLOP/s."""
    card = score(
        Workload(throughput_tok_s=20_000.0, flops_per_token=6e9, precision="bf16"),
        accelerator="NVIDIA L4",
        accelerator_count=2,
    )
    assert card.mfu == pytest.approx(10_000 * 6e9 / 121e12)
    assert card.mfu_basis == "dense bf16 peak of L4, 121 TFLOP/s"


@pytest.mark.parametrize(
    ("workload", "accelerator", "missing"),
    [
        (Workload(flops_per_token=6e9, precision="bf16"), "L4", "throughput"),
        (Workload(throughput_tok_s=1.0, flops_per_token=6e9), "L4", "precision"),
        (
            Workload(throughput_tok_s=1.0, flops_per_token=6e9, precision="bf16"),
            None,
            "accelerator",
        ),
        (
            Workload(throughput_tok_s=1.0, flops_per_token=6e9, precision="int3"),
            "L4",
            "known: fp32",
        ),
    ],
)
def test_mfu__that_cannot_be_derived_says_what_is_missing(
    workload: Workload, accelerator: str | None, missing: str
) -> None:
    """Asked for and not possible: absent, with the reason."""
    card = score(workload, accelerator=accelerator)
    assert card.mfu is None
    assert missing in card.notes[-1]
