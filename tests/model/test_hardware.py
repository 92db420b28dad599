"""The table of accelerators, and how a driver's string finds its row."""

from __future__ import annotations

import math
import re
import subprocess
import sys
import time
import tomllib
from dataclasses import fields

import pytest

from ci_score.model.accelerators import (
    Accelerator,
    Preset,
    accelerators,
    find_accelerator,
    find_preset,
    presets,
    suggestions,
)
from tests.builders import PROJECT

DTYPES = {"fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "fp4"}

# As printed by nvidia-smi, rocm-smi, hl-smi, torch and jax.
DRIVER_STRINGS = {
    "NVIDIA H100 80GB HBM3": "H100 SXM 80GB",
    "NVIDIA H100 PCIe": "H100 PCIe 80GB",
    "NVIDIA H100 NVL": "H100 NVL 94GB",
    "NVIDIA H200": "H200 SXM 141GB",
    "NVIDIA H200 NVL": "H200 NVL 141GB",
    "NVIDIA GH200 480GB": "GH200 96GB HBM3",
    "NVIDIA GH200 144G HBM3e": "GH200 144GB HBM3e",
    "NVIDIA B200": "B200",
    "NVIDIA B300 SXM6 AC": "B300",
    "NVIDIA GB200": "GB200",
    "NVIDIA A100-SXM4-40GB": "A100 SXM 40GB",
    "NVIDIA A100-SXM4-80GB": "A100 SXM 80GB",
    "A100-SXM-80GB": "A100 SXM 80GB",
    "NVIDIA A100 80GB PCIe": "A100 PCIe 80GB",
    "NVIDIA A100-PCIE-40GB": "A100 PCIe 40GB",
    "Tesla V100-SXM2-16GB": "V100 SXM2 16GB",
    "Tesla V100-SXM2-32GB": "V100 SXM2 32GB",
    "Tesla V100-PCIE-16GB": "V100 PCIe 16GB",
    "Tesla V100-PCIE-32GB": "V100 PCIe 32GB",
    "Tesla P100-PCIE-16GB": "P100 PCIe 16GB",
    "Tesla P100-SXM2-16GB": "P100 SXM2 16GB",
    "Tesla T4": "T4",
    "NVIDIA L4": "L4",
    "NVIDIA L40": "L40",
    "NVIDIA L40S": "L40S",
    "NVIDIA A10": "A10",
    "NVIDIA A10G": "A10G",
    "NVIDIA A30": "A30",
    "NVIDIA A40": "A40",
    "NVIDIA RTX A6000": "RTX A6000",
    "NVIDIA RTX 6000 Ada Generation": "RTX 6000 Ada",
    "NVIDIA RTX PRO 6000 Blackwell Workstation Edition": "RTX PRO 6000 Blackwell Workstation",
    "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition": "RTX PRO 6000 Blackwell Max-Q",
    "NVIDIA GeForce RTX 3090": "RTX 3090",
    "NVIDIA GeForce RTX 3090 Ti": "RTX 3090 Ti",
    "NVIDIA GeForce RTX 4080": "RTX 4080",
    "NVIDIA GeForce RTX 4090": "RTX 4090",
    "NVIDIA GeForce RTX 5080": "RTX 5080",
    "NVIDIA GeForce RTX 5090": "RTX 5090",
    "NVIDIA GB10": "DGX Spark GB10",
    "AMD Instinct MI100": "MI100",
    "AMD Instinct MI210": "MI210",
    "AMD Instinct MI250X": "MI250X GCD",
    "AMD Instinct MI250": "MI250 GCD",
    "AMD Instinct MI250X/MI250": "MI250X/MI250 GCD",
    "AMD Instinct MI250X / MI250": "MI250X/MI250 GCD",
    "AMD Instinct MI300A": "MI300A",
    "AMD Instinct MI300X": "MI300X",
    "AMD Instinct MI300X OAM": "MI300X",
    "AMD Instinct™ MI325X": "MI325X",
    "AMD Instinct MI355X": "MI355X",
    "GAUDI2": "Gaudi 2",
    "GAUDI3": "Gaudi 3",
    "TPU v4": "TPU v4",
    "TPU v5 lite": "TPU v5e",
    "TPU v5p": "TPU v5p",
    "TPU v6 lite": "TPU v6e",
}

OTHER_DEVICES = [
    "NVIDIA GeForce RTX 4090 Laptop GPU",
    "NVIDIA GeForce RTX 4090 D",
    "NVIDIA GeForce RTX 5090 D",
    "NVIDIA GeForce RTX 5090 Laptop GPU",
    "NVIDIA GeForce RTX 4080 SUPER",
    "NVIDIA GeForce RTX 4060 Ti",
    "Quadro RTX 6000",
    "NVIDIA RTX 6000",
    "NVIDIA RTX PRO 6000 Blackwell Server Edition",
    "NVIDIA RTX 5000 Ada Generation",
    "NVIDIA A100-SXM4-40GB MIG 1g.5gb",
    "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
    "NVIDIA RTX PRO 6000 Blackwell Workstation Edition MIG 1g.24gb",
    "GRID A100-40C",
    "GRID A100X-10C",
    "NVIDIA A10-24Q",
    "NVIDIA A40-48Q",
    "NVIDIA A800-SXM4-80GB",
    "NVIDIA H800 PCIe",
    "NVIDIA H20",
    "NVIDIA A100-SXM-64GB",
    "NVIDIA H100 96GB HBM3",
    "NVIDIA GB300",
    "Tesla V100S-PCIE-32GB",
    "Tesla V100-SXM3-32GB",
    "Tesla V100-FHHL-16GB",
    "Tesla P40",
    "AMD Instinct MI250X OAM",
    "AMD Instinct MI308X",
    "AMD Instinct MI300X VF",
    "TPU v4 lite",
    "NVIDIA GeForce RTX 4090 копия",
]

SHARED_NAMES = [
    "NVIDIA H100",
    "NVIDIA H100 80GB",
    "NVIDIA A100",
    "NVIDIA A100 80GB",
    "NVIDIA A100-SXM4",
    "NVIDIA V100",
    "Tesla V100-SXM2",
    "Tesla P100",
    "NVIDIA GH200",
    "NVIDIA RTX PRO 6000",
    "NVIDIA RTX PRO 6000 Blackwell",
    "Intel(R) Data Center GPU Max 1550",
    "TPU v5",
]

each_row = pytest.mark.parametrize("row", accelerators(), ids=lambda row: row.name)


def named(name: str) -> Accelerator:
    return next(row for row in accelerators() if row.name == name)


@each_row
def test_find_accelerator__canonical_name(row: Accelerator) -> None:
    """A row's own name finds it, in upper or lower case, with any memory."""
    assert find_accelerator(row.name) is row
    assert find_accelerator(row.name.upper()) is row
    assert find_accelerator(row.name.lower(), memory_gb=1.0) is row


@each_row
def test_find_accelerator__name_in_other_words(row: Accelerator) -> None:
    """A row's name with its memory finds that row, also with the word GPU behind it."""
    assert find_accelerator(f"{row.name} GPU", memory_gb=row.memory_gb) is row
    assert find_accelerator(f"{row.name.replace(' ', '_')}-gpu", memory_gb=row.memory_gb) is row


def test_find_accelerator__names_are_unique() -> None:
    """No two rows have one name, in whatever case it is written."""
    assert len({row.name.casefold() for row in accelerators()}) == len(accelerators())


@pytest.mark.parametrize(("printed", "name"), DRIVER_STRINGS.items())
def test_find_accelerator__driver_string(printed: str, name: str) -> None:
    """The name that a driver prints finds its row, in any case and with any punctuation."""
    assert find_accelerator(printed) is named(name)
    assert find_accelerator(f"  {printed.upper()}  ") is named(name)
    assert find_accelerator(printed.replace(" ", "_")) is named(name)


@pytest.mark.parametrize("printed", OTHER_DEVICES)
def test_find_accelerator__another_device(printed: str) -> None:
    """A related card, or a part of a card, does not find the card's row, with any memory."""
    assert find_accelerator(printed) is None
    for row in accelerators():
        assert find_accelerator(printed, memory_gb=row.memory_gb) is None


@pytest.mark.parametrize("printed", SHARED_NAMES)
def test_find_accelerator__shared_name(printed: str) -> None:
    """A name that several rows share finds none of them."""
    assert find_accelerator(printed) is None


@pytest.mark.parametrize(
    ("printed", "memory_gb", "name"),
    [
        ("NVIDIA A100-SXM4", 39.4, "A100 SXM 40GB"),
        ("NVIDIA A100-SXM4", 85.0, "A100 SXM 80GB"),
        ("NVIDIA H100", 94, "H100 NVL 94GB"),
        ("Tesla V100-PCIE", 31.7, "V100 PCIe 32GB"),
        ("NVIDIA GH200", 95.6, "GH200 96GB HBM3"),
        ("Tesla P100", 12, "P100 PCIe 12GB"),
        ("TPU v5", 95, "TPU v5p"),
    ],
)
def test_find_accelerator__memory_settles_it(printed: str, memory_gb: float, name: str) -> None:
    """The memory decides between rows that share a name, if it fits only one of them."""
    assert find_accelerator(printed, memory_gb=memory_gb) is named(name)


@pytest.mark.parametrize(
    ("printed", "memory_gb"),
    [("NVIDIA H100", 80), ("NVIDIA A100", 80), ("NVIDIA V100", 16), ("NVIDIA RTX PRO 6000", 96)],
)
def test_find_accelerator__memory_leaves_two(printed: str, memory_gb: float) -> None:
    """A memory that two rows of a name have finds neither of them."""
    assert find_accelerator(printed, memory_gb=memory_gb) is None


@pytest.mark.parametrize(
    ("printed", "memory_gb"),
    [
        ("NVIDIA A100-SXM4-40GB", 4.75),
        ("NVIDIA A100-SXM4-40GB", 80),
        ("AMD Instinct MI300X", 24),
        ("NVIDIA L4", 0),
        ("NVIDIA L4", -24),
        ("NVIDIA L4", math.nan),
        ("NVIDIA L4", math.inf),
    ],
)
def test_find_accelerator__memory_contradicts_the_name(printed: str, memory_gb: float) -> None:
    """A device with another memory than its name says finds no row: it is a part of a card."""
    assert find_accelerator(printed, memory_gb=memory_gb) is None


@pytest.mark.parametrize(
    ("printed", "memory_gb"),
    [
        ("NVIDIA L4", 22.05),
        ("NVIDIA A10G", 22.06),
        ("Tesla T4", 14.56),
        ("NVIDIA L40S", 44.4),
        ("NVIDIA H100 80GB HBM3", 79.1),
        ("NVIDIA H100 80GB HBM3", 85.0),
        ("NVIDIA B200", 192.3),
        ("NVIDIA B300 SXM6 AC", 268.6),
        ("AMD Instinct MI300X", 205.8),
        ("NVIDIA GB10", 119.7),
    ],
)
def test_find_accelerator__memory_as_reported(printed: str, memory_gb: float) -> None:
    """The memory a driver reports, in GiB or GB and without its own share, fits the row."""
    assert find_accelerator(printed, memory_gb=memory_gb) is find_accelerator(printed) is not None


@pytest.mark.parametrize(
    "garbage",
    ["", " ", "\0", "-", "GPU", "NVIDIA", "Graphics Device", "80GB", "0x9f86d081884c7d65", "RTX"],
)
def test_find_accelerator__garbage(garbage: str) -> None:
    """An empty or unknown name finds no row, also with a memory."""
    assert find_accelerator(garbage) is None
    assert find_accelerator(garbage, memory_gb=80) is None


@pytest.mark.parametrize("unit", ["x", "H100 PCIe ", "9", "9 ", " ", "ﬀ"])
def test_find_accelerator__very_long(unit: str) -> None:
    """A name of a hundred thousand characters is refused at once, by the suggestions too."""
    name = (unit * 100_000)[:100_000]
    start = time.process_time()
    assert find_accelerator(name) is None
    assert find_preset(name) is None
    assert suggestions(name) == []
    assert time.process_time() - start < 5.0


def test_table__has_nothing_that_is_not_read() -> None:
    """Each table of the file has exactly the keys of a row."""
    text = (PROJECT / "ci_score" / "model" / "accelerators.toml").read_text(encoding="utf-8")
    table = tomllib.loads(text)
    assert set(table) == {"accelerator", "preset"}
    keys = {"name", "bandwidth_gb_s", "memory_gb", "teraflops", "source", "patterns"}
    assert all(set(row) == keys for row in table["accelerator"])
    assert all(set(row) == {field.name for field in fields(Preset)} for row in table["preset"])


def test_table__is_not_read_at_start_up() -> None:
    """Neither printing the version nor importing the lookup reads the table."""
    script = (
        "import sys, tomllib;"
        " tomllib.loads = lambda text: sys.exit('the table was read');"
        " import ci_score.model.accelerators, ci_score.compare.efficiency, ci_score.cli as cli;"
        " sys.exit(cli.execute(['--version']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@each_row
def test_table__each_pattern_means_its_row(row: Accelerator) -> None:
    """A pattern is written as the lookup compares it, and a device of that name finds the row."""
    for pattern in row.patterns:
        assert re.sub(r"[^a-z0-9 ]", "", pattern.lower()) == pattern == " ".join(pattern.split())
        assert row.name in suggestions(pattern)


@each_row
def test_accelerators__row_is_sane(row: Accelerator) -> None:
    """Every row names its document and lies within what such devices can do."""
    assert row.source.strip()
    assert row.patterns
    assert 100 < row.bandwidth_gb_s < 20_000
    assert 8 <= row.memory_gb <= 300
    assert set(row.flops) <= DTYPES
    assert 5e13 < row.flops.get("bf16", 1e14) < 3e15
    assert all(4e12 < peak < 2e16 for peak in row.flops.values())


@each_row
def test_accelerators__narrower_is_not_slower(row: Accelerator) -> None:
    """A narrower dtype is never slower; a sparse or fp16-accumulated figure would break that."""
    peaks = [row.flops[dtype] for dtype in ("fp32", "tf32", "bf16", "fp8") if dtype in row.flops]
    assert peaks == sorted(peaks)
    assert row.flops.get("fp16", math.inf) >= row.flops.get("bf16", 0)


@each_row
def test_accelerators__halving_the_width_doubles_the_rate(row: Accelerator) -> None:
    """fp8 runs at twice the rate of fp16 and tf32 at half of it, where both are known."""
    fp16, fp8, tf32 = (row.flops.get(dtype) for dtype in ("fp16", "fp8", "tf32"))
    if fp16 and fp8:
        assert fp8 / fp16 == pytest.approx(2, rel=0.05)
    if fp16 and tf32:
        assert fp16 / tf32 == pytest.approx(2, rel=0.05)


@pytest.mark.parametrize(
    ("name", "dtype", "peak"),
    [
        ("H100 SXM 80GB", "bf16", 989.4e12),
        ("H100 SXM 80GB", "fp8", 1978.9e12),
        ("A100 PCIe 40GB", "bf16", 312e12),
        ("RTX 4090", "bf16", 165.2e12),
        ("RTX 3090", "fp16", 71e12),
        ("L40S", "bf16", 362.05e12),
        ("MI250X GCD", "bf16", 191.5e12),
        ("MI300X", "bf16", 1307.4e12),
    ],
)
def test_accelerators__dense_peak(name: str, dtype: str, peak: float) -> None:
    """The peaks that are most often misquoted are dense and accumulated in fp32, to the bit."""
    assert named(name).flops[dtype] == peak


@pytest.mark.parametrize("name", ["V100 SXM2 16GB", "T4", "P100 PCIe 16GB"])
def test_accelerators__no_bf16_before_ampere(name: str) -> None:
    """A device without bf16 units has no bf16 peak."""
    assert "bf16" not in named(name).flops


def test_presets__are_the_references() -> None:
    """The presets are the reference's two, to the bit."""
    assert [(p.name, p.bandwidth_gb_s, p.bytes_per_token) for p in presets()] == [
        ("rtx_4060l", 256.0, 158e6),
        ("gb10", 273.0, 158e6),
    ]


@pytest.mark.parametrize("preset", presets(), ids=lambda preset: preset.name)
def test_find_preset__by_name(preset: Preset) -> None:
    """A preset is found by its exact name in any case."""
    assert find_preset(preset.name) is preset


@pytest.mark.parametrize(
    "name", ["", "GB10", "NVIDIA GB10", "rtx 4060l", "rtx-4060l", "GB10 ", "RTX 4060"]
)
def test_find_preset__another_name(name: str) -> None:
    """The name of a device does not find a preset with a similar name."""
    assert find_preset(name) is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("NVIDIA H100", {"H100 PCIe 80GB", "H100 SXM 80GB", "H100 NVL 94GB"}),
        ("v100", {"V100 PCIe 16GB", "V100 SXM2 32GB"}),
        ("rtx_4060m", {"rtx_4060l"}),
        ("rtx4090", {"RTX 4090"}),
        ("mi300", {"MI300X"}),
        ("gaudi", {"Gaudi 2", "Gaudi 3"}),
    ],
)
def test_suggestions__close_names(name: str, expected: set[str]) -> None:
    """The suggestions are the rows that a name could mean, or else those with similar names."""
    found = suggestions(name)
    assert expected <= set(found)
    assert len(found) == len(set(found)) <= 5


def test_suggestions__can_be_used() -> None:
    """Every suggestion finds a row."""
    for offered in suggestions("NVIDIA A100") + suggestions("gb1"):
        assert find_accelerator(offered) or find_preset(offered)


@pytest.mark.parametrize("name", ["", "0x9f86d081884c7d65", "\0"])
def test_suggestions__nothing_close(name: str) -> None:
    """A meaningless name gets no suggestion."""
    assert suggestions(name) == []
