"""The accelerators people train on: one row each, found by the name that a driver prints.

Bandwidth in GB/s and memory in GB are the vendor's decimal figures. FLOP/s are *dense* peaks:
half of what a data sheet says "with sparsity". A dtype that the document gives no dense figure
for, or that two documents disagree on, is not in a row's mapping, and a name that is not
understood to its last word finds no row. Nothing is guessed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches


@dataclass(frozen=True, slots=True)
class Accelerator:
    """What one device can do at most: what a process sees as one device, so one die of an MI250X.

    `flops` is FLOP/s by dtype: fp32 on the vector units, tf32 and narrower on the matrix units,
    fp64 on the faster of both. A pattern is the words of a name, in any order; vendor and brand
    words and the row's own memory size may stand beside them, nothing else may.
    """

    name: str
    bandwidth_gb_s: float
    memory_gb: float
    flops: Mapping[str, float]
    source: str
    patterns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Preset:
    """The reference's hardware: its bytes per token hold only where the user names it."""

    name: str
    bandwidth_gb_s: float
    bytes_per_token: float


def _peaks(*, half: float | None = None, **teraflops: float) -> dict[str, float]:
    """TFLOP/s → FLOP/s; `half` is fp16 and bf16, which run at one rate on most matrix units."""
    if half is not None:
        teraflops |= {"fp16": half, "bf16": half}
    # Rounded, so that 989.4 becomes the same float as 989.4e12.
    return {dtype: float(round(peak * 1e12)) for dtype, peak in teraflops.items()}


_P100_SXM2 = _peaks(fp64=5.3, fp32=10.6, fp16=21.2)
_P100_PCIE = _peaks(fp64=4.7, fp32=9.3, fp16=18.7)
_V100_SXM2 = _peaks(fp64=7.8, fp32=15.7, fp16=125)
_V100_PCIE = _peaks(fp64=7.0, fp32=14.0, fp16=112)
_A100 = _peaks(fp64=19.5, fp32=19.5, tf32=156, half=312)
_HOPPER_SXM = _peaks(fp64=66.9, fp32=66.9, tf32=494.7, half=989.4, fp8=1978.9)
_HOPPER_NVL = _peaks(fp64=60, fp32=60, half=835.5)
_GH200 = _peaks(fp64=67, fp32=67, tf32=494, half=990, fp8=1979)
_MI300X = _peaks(fp64=163.4, fp32=163.4, tf32=653.7, half=1307.4, fp8=2614.9)

_P100_SHEET = "NVIDIA Tesla P100 data sheet"
_V100_SHEET = "NVIDIA V100 data sheet (volta-v100-datasheet-update-us-1165301-r5.pdf)"
_A100_SHEET = "NVIDIA A100 data sheet (nvidia-a100-datasheet-us-nvidia-1758950-r4-web.pdf)"
_H100_PAPER = "NVIDIA H100 Tensor Core GPU Architecture; bandwidth: NVIDIA H100 data sheet"
_H100_SHEET = "NVIDIA H100 Tensor Core GPU data sheet"
_H200_SHEET = "NVIDIA H200 Tensor Core GPU data sheet"
_H200_SXM = f"{_H200_SHEET}; peaks, which are the H100's: NVIDIA H100 Tensor Core GPU Architecture"
_GH200_SHEET = "NVIDIA GH200 Grace Hopper Superchip data sheet"
_GA102 = "NVIDIA Ampere GA102 GPU Architecture, v2.0"
_ADA = "NVIDIA Ada GPU Architecture, v2.02"
_RTX_BLACKWELL = "NVIDIA RTX Blackwell GPU Architecture"
_PRO_BLACKWELL = "NVIDIA RTX Blackwell PRO GPU Architecture"
_GAUDI = "Intel Gaudi 3 AI accelerator white paper"

_DATA_CENTER_NVIDIA = (
    Accelerator("P100 PCIe 12GB", 549, 12, _P100_PCIE, _P100_SHEET, ("p100", "p100 pcie")),
    Accelerator("P100 PCIe 16GB", 732, 16, _P100_PCIE, _P100_SHEET, ("p100", "p100 pcie")),
    Accelerator("P100 SXM2 16GB", 732, 16, _P100_SXM2, _P100_SHEET, ("p100", "p100 sxm2")),
    Accelerator("V100 PCIe 16GB", 900, 16, _V100_PCIE, _V100_SHEET, ("v100", "v100 pcie")),
    Accelerator("V100 PCIe 32GB", 900, 32, _V100_PCIE, _V100_SHEET, ("v100", "v100 pcie")),
    Accelerator("V100 SXM2 16GB", 900, 16, _V100_SXM2, _V100_SHEET, ("v100", "v100 sxm2")),
    Accelerator("V100 SXM2 32GB", 900, 32, _V100_SXM2, _V100_SHEET, ("v100", "v100 sxm2")),
    Accelerator(
        name="T4",
        bandwidth_gb_s=320,
        memory_gb=16,
        flops=_peaks(fp32=8.1, fp16=65),
        source="NVIDIA T4 data sheet (t4-tensor-core-datasheet-951643.pdf)",
        patterns=("t4",),
    ),
    Accelerator("A100 PCIe 40GB", 1555, 40, _A100, _A100_SHEET, ("a100", "a100 pcie")),
    Accelerator("A100 PCIe 80GB", 1935, 80, _A100, _A100_SHEET, ("a100", "a100 pcie")),
    Accelerator("A100 SXM 40GB", 1555, 40, _A100, _A100_SHEET, ("a100", "a100 sxm", "a100 sxm4")),
    Accelerator("A100 SXM 80GB", 2039, 80, _A100, _A100_SHEET, ("a100", "a100 sxm", "a100 sxm4")),
    Accelerator(
        name="A10",
        bandwidth_gb_s=600,
        memory_gb=24,
        flops=_peaks(fp32=31.2, tf32=62.5, half=125),
        source="NVIDIA A10 data sheet (a10-datasheet.pdf)",
        patterns=("a10",),
    ),
    Accelerator(
        # Not the A10: more shader and about half of its matrix throughput.
        name="A10G",
        bandwidth_gb_s=600,
        memory_gb=24,
        flops=_peaks(tf32=35, half=70),
        source="NVIDIA A10G data sheet",
        patterns=("a10g",),
    ),
    Accelerator(
        name="A30",
        bandwidth_gb_s=933,
        memory_gb=24,
        flops=_peaks(fp64=10.3, fp32=10.3, tf32=82, half=165),
        source="NVIDIA A30 Tensor Core GPU data sheet",
        patterns=("a30",),
    ),
    Accelerator(
        name="A40",
        bandwidth_gb_s=696,
        memory_gb=48,
        flops=_peaks(fp32=37.4, tf32=74.8, half=149.7),
        source="NVIDIA A40 data sheet (nvidia-a40-datasheet.pdf)",
        patterns=("a40",),
    ),
    Accelerator(
        name="L4",
        bandwidth_gb_s=300,
        memory_gb=24,
        flops=_peaks(fp32=30.3, tf32=60, half=121, fp8=242.5),
        source="NVIDIA L4 Tensor Core GPU data sheet",
        patterns=("l4",),
    ),
    Accelerator(
        # Half the L40S's matrix rate with fp32 accumulation, though the chip is the same.
        name="L40",
        bandwidth_gb_s=864,
        memory_gb=48,
        flops=_peaks(fp32=90.5, tf32=90.5, half=181.05, fp8=362),
        source="NVIDIA L40 data sheet",
        patterns=("l40",),
    ),
    Accelerator(
        name="L40S",
        bandwidth_gb_s=864,
        memory_gb=48,
        flops=_peaks(fp32=91.6, tf32=183, half=362.05, fp8=733),
        source="NVIDIA L40S data sheet (l40s-datasheet-28413)",
        patterns=("l40s",),
    ),
    Accelerator(
        name="H100 PCIe 80GB",
        bandwidth_gb_s=2000,
        memory_gb=80,
        flops=_peaks(fp64=51, fp32=51, tf32=378, half=756, fp8=1513),
        source=_H100_SHEET,
        patterns=("h100", "h100 pcie", "h100 hbm2e"),
    ),
    Accelerator(
        name="H100 SXM 80GB",
        bandwidth_gb_s=3350,
        memory_gb=80,
        flops=_HOPPER_SXM,
        source=_H100_PAPER,
        patterns=("h100", "h100 sxm", "h100 sxm5", "h100 hbm3"),
    ),
    Accelerator("H100 NVL 94GB", 3900, 94, _HOPPER_NVL, _H100_SHEET, ("h100", "h100 nvl")),
    Accelerator(
        # The driver prints the SXM module as "H200" and the card as "H200 NVL".
        "H200 SXM 141GB",
        4800,
        141,
        _HOPPER_SXM,
        _H200_SXM,
        ("h200", "h200 sxm", "h200 sxm5"),
    ),
    Accelerator("H200 NVL 141GB", 4800, 141, _HOPPER_NVL, _H200_SHEET, ("h200 nvl",)),
    Accelerator(
        # 480 GB is the LPDDR5X of the CPU's half, and part of the name that the driver prints.
        "GH200 96GB HBM3",
        4000,
        96,
        _GH200,
        _GH200_SHEET,
        ("gh200", "gh200 480gb", "gh200 hbm3"),
    ),
    Accelerator("GH200 144GB HBM3e", 4900, 144, _GH200, _GH200_SHEET, ("gh200", "gh200 hbm3e")),
    Accelerator(
        name="B200",
        bandwidth_gb_s=8000,
        memory_gb=180,
        flops=_peaks(tf32=1125, half=2250, fp8=4500, fp4=9000),
        source="NVIDIA DGX B200 data sheet, an eighth of the system",
        patterns=("b200", "b200 sxm", "b200 sxm6"),
    ),
    Accelerator(
        # Its documents disagree on dense fp4.
        name="B300",
        bandwidth_gb_s=8000,
        memory_gb=288,
        flops=_peaks(tf32=1125, half=2250, fp8=4500),
        source="NVIDIA DGX B300 data sheet, an eighth of the system",
        patterns=("b300", "b300 sxm6", "b300 sxm6 ac"),
    ),
    Accelerator(
        name="GB200",
        bandwidth_gb_s=8000,
        memory_gb=186,
        flops=_peaks(tf32=1250, half=2500, fp8=5000, fp4=10000),
        source="NVIDIA GB200 NVL72 specifications (www.nvidia.com/en-us/data-center/gb200-nvl72/)",
        patterns=("gb200",),
    ),
)

# GeForce cards multiply matrices twice as fast where they accumulate in fp16, and are often quoted
# with that. Training accumulates in fp32: fp16, bf16 and fp8 are the rates with fp32 accumulation.
_WORKSTATION_NVIDIA = (
    Accelerator(
        name="RTX 3090",
        bandwidth_gb_s=936,
        memory_gb=24,
        flops=_peaks(fp32=35.6, tf32=35.6, half=71),
        source=_GA102,
        patterns=("rtx 3090",),
    ),
    Accelerator(
        name="RTX 3090 Ti",
        bandwidth_gb_s=1008,
        memory_gb=24,
        flops=_peaks(fp32=40, tf32=40, half=80),
        source=_ADA,
        patterns=("rtx 3090 ti",),
    ),
    Accelerator(
        name="RTX 4080",
        bandwidth_gb_s=716.8,
        memory_gb=16,
        flops=_peaks(fp32=48.7, tf32=48.7, half=97.5),
        source=_ADA,
        patterns=("rtx 4080",),
    ),
    Accelerator(
        name="RTX 4090",
        bandwidth_gb_s=1008,
        memory_gb=24,
        flops=_peaks(fp32=82.6, tf32=82.6, half=165.2, fp8=330.3),
        source=_ADA,
        patterns=("rtx 4090",),
    ),
    Accelerator(
        name="RTX 5080",
        bandwidth_gb_s=960,
        memory_gb=16,
        flops=_peaks(fp32=56.3, tf32=56.3, half=112.6, fp8=225.1, fp4=900.4),
        source=_RTX_BLACKWELL,
        patterns=("rtx 5080",),
    ),
    Accelerator(
        name="RTX 5090",
        bandwidth_gb_s=1792,
        memory_gb=32,
        flops=_peaks(fp32=104.8, tf32=104.8, half=209.5, fp8=419, fp4=1676),
        source=_RTX_BLACKWELL,
        patterns=("rtx 5090",),
    ),
    Accelerator(
        name="RTX A6000",
        bandwidth_gb_s=768,
        memory_gb=48,
        flops=_peaks(fp32=38.7, tf32=77.4, half=154.8),
        source=_GA102,
        patterns=("rtx a6000", "a6000"),
    ),
    Accelerator(
        # "RTX 6000" without "Ada" is a card of two generations before.
        name="RTX 6000 Ada",
        bandwidth_gb_s=960,
        memory_gb=48,
        flops=_peaks(fp32=91.1, tf32=182.1, half=364.2, fp8=728.5),
        source="NVIDIA RTX 6000 Ada Generation data sheet",
        patterns=("rtx 6000 ada", "rtx 6000 ada generation"),
    ),
    Accelerator(
        name="RTX PRO 6000 Blackwell Workstation",
        bandwidth_gb_s=1792,
        memory_gb=96,
        flops=_peaks(fp32=125, half=503.8, fp8=1007.6),
        source=_PRO_BLACKWELL,
        patterns=(
            "rtx pro 6000 blackwell workstation",
            "rtx pro 6000 blackwell workstation edition",
            "rtx pro 6000 workstation edition",
            "rtx pro 6000 blackwell",
            "rtx pro 6000",
        ),
    ),
    Accelerator(
        name="RTX PRO 6000 Blackwell Max-Q",
        bandwidth_gb_s=1792,
        memory_gb=96,
        flops=_peaks(fp32=109.7, half=438.9),
        source=_PRO_BLACKWELL,
        patterns=(
            "rtx pro 6000 blackwell max q",
            "rtx pro 6000 blackwell max q workstation edition",
            "rtx pro 6000 max q",
            # The short names are shared on purpose: they do not say which edition it is.
            "rtx pro 6000 blackwell",
            "rtx pro 6000",
        ),
    ),
    Accelerator(
        # Published is fp4 with sparsity, 1 PFLOP/s; for 16 bits there is no dense figure.
        name="DGX Spark GB10",
        bandwidth_gb_s=273,
        memory_gb=128,
        flops=_peaks(fp32=31, fp4=500),
        source="NVIDIA DGX Spark hardware overview (docs.nvidia.com/dgx/dgx-spark/hardware.html)",
        patterns=("gb10", "dgx spark", "dgx spark gb10"),
    ),
)

# ROCm shows each die (GCD) of an MI250 module as a device of its own, so the rows are half
# of the module that the product pages describe.
_AMD = (
    Accelerator(
        name="MI100",
        bandwidth_gb_s=1228.8,
        memory_gb=32,
        flops=_peaks(fp64=11.5, fp32=23.1, fp16=184.6, bf16=92.3),
        source="AMD Instinct MI100 microarchitecture (ROCm documentation)",
        patterns=("mi100",),
    ),
    Accelerator(
        name="MI210",
        bandwidth_gb_s=1638.4,
        memory_gb=64,
        flops=_peaks(fp64=45.3, fp32=22.6, half=181.0),
        source="AMD Instinct MI210 brochure (instinct-mi210-brochure.pdf)",
        patterns=("mi210",),
    ),
    Accelerator(
        name="MI250 GCD",
        bandwidth_gb_s=1638.4,
        memory_gb=64,
        flops=_peaks(fp64=45.25, fp32=22.65, half=181.05),
        source="www.amd.com/en/products/accelerators/instinct/mi200/mi250.html, half a module",
        patterns=("mi250", "mi250 gcd"),
    ),
    Accelerator(
        name="MI250X GCD",
        bandwidth_gb_s=1638.4,
        memory_gb=64,
        flops=_peaks(fp64=47.85, fp32=23.95, half=191.5),
        source="www.amd.com/en/products/accelerators/instinct/mi200/mi250x.html, half a module",
        patterns=("mi250x", "mi250x gcd"),
    ),
    Accelerator(
        # One driver name for two products: the memory is the same, the peaks are 6 % apart.
        name="MI250X/MI250 GCD",
        bandwidth_gb_s=1638.4,
        memory_gb=64,
        flops={},
        source="www.amd.com/en/products/accelerators/instinct/mi200/mi250x.html, half a module",
        patterns=("mi250x mi250", "mi250x mi250 gcd"),
    ),
    Accelerator(
        name="MI300A",
        bandwidth_gb_s=5300,
        memory_gb=128,
        flops=_peaks(fp64=122.6, fp32=122.6, tf32=490.3, half=980.6, fp8=1961.2),
        source="AMD Instinct MI300A data sheet (amd-instinct-mi300a-data-sheet.pdf)",
        patterns=("mi300a",),
    ),
    Accelerator(
        name="MI300X",
        bandwidth_gb_s=5300,
        memory_gb=192,
        flops=_MI300X,
        source="AMD Instinct MI300X data sheet (amd-instinct-mi300x-data-sheet.pdf)",
        patterns=("mi300x", "mi300x oam"),
    ),
    Accelerator(
        name="MI325X",
        bandwidth_gb_s=6000,
        memory_gb=256,
        flops=_MI300X,
        source="www.amd.com/en/products/accelerators/instinct/mi300/mi325x.html",
        patterns=("mi325x", "mi325x oam"),
    ),
    Accelerator(
        name="MI355X",
        bandwidth_gb_s=8000,
        memory_gb=288,
        flops=_peaks(fp32=157.3, half=2516.6, fp8=5033.2, fp4=10066.3),
        source="www.amd.com/en/products/accelerators/instinct/mi350/mi355x.html",
        patterns=("mi355x", "mi355x oam"),
    ),
)

_INTEL = (
    Accelerator("Gaudi 2", 2450, 96, _peaks(bf16=432, fp8=865), _GAUDI, ("gaudi2", "gaudi 2")),
    Accelerator(
        # fp8 is no faster than bf16 on this one.
        "Gaudi 3",
        3700,
        128,
        _peaks(bf16=1835, fp8=1835),
        _GAUDI,
        ("gaudi3", "gaudi 3"),
    ),
)

_GOOGLE = (
    Accelerator(
        name="TPU v4",
        bandwidth_gb_s=1200,
        memory_gb=32,
        flops=_peaks(bf16=275),
        source="https://docs.cloud.google.com/tpu/docs/v4",
        patterns=("tpu v4",),
    ),
    Accelerator(
        name="TPU v5e",
        bandwidth_gb_s=819,
        memory_gb=16,
        flops=_peaks(bf16=197),
        source="https://docs.cloud.google.com/tpu/docs/v5e",
        patterns=("tpu v5e", "tpu v5 lite", "tpu v5litepod", "tpu v5"),
    ),
    Accelerator(
        name="TPU v5p",
        bandwidth_gb_s=2765,
        memory_gb=95,
        flops=_peaks(bf16=459),
        source="https://docs.cloud.google.com/tpu/docs/v5p-training",
        patterns=("tpu v5p", "tpu v5"),
    ),
    Accelerator(
        name="TPU v6e",
        bandwidth_gb_s=1638,
        memory_gb=32,
        flops=_peaks(bf16=918),
        source="https://docs.cloud.google.com/tpu/docs/v6e.md.txt",
        patterns=("tpu v6e", "tpu v6 lite"),
    ),
)

ACCELERATORS: tuple[Accelerator, ...] = (
    *_DATA_CENTER_NVIDIA,
    *_WORKSTATION_NVIDIA,
    *_AMD,
    *_INTEL,
    *_GOOGLE,
)

PRESETS: tuple[Preset, ...] = (
    Preset("rtx_4060l", bandwidth_gb_s=256.0, bytes_per_token=158e6),
    Preset("gb10", bandwidth_gb_s=273.0, bytes_per_token=158e6),
)

# Words that say who made or sells it, and nothing about which one it is.
_BRAND_WORDS = frozenset(
    ("nvidia", "tesla", "geforce", "amd", "instinct", "intel", "habana", "google", "cloud", "gpu")
)
# Drivers keep up to 9 % for themselves, or turn what vendors call GB and build as GiB into true
# GB, which is 7 % more.
_MEMORY_TOLERANCE = 0.10
_LONGEST_NAME = 120
_SIZE = re.compile(r"\b(\d+)\s*(?:gib|gb|g)\b")
_WORD = re.compile(r"\w+")


def find_accelerator(name: str, memory_gb: float | None = None) -> Accelerator | None:
    """The row that a row's name or a driver's string means, or None where that is not certain.

    `memory_gb` is what the device reports. It settles a name that several rows share, and a
    device with another memory than its name says is a part of a card: no row.
    """
    if (named := _BY_NAME.get(name.casefold())) is not None:
        return named
    rows = _rows_called(name)
    if memory_gb is not None:
        rows = [row for row in rows if _has_memory(row, memory_gb)]
    return rows[0] if len(rows) == 1 else None


def find_preset(name: str) -> Preset | None:
    """The preset of exactly this name: "GB10" is the device, which brings no bytes."""
    return next((preset for preset in PRESETS if preset.name == name), None)


def suggestions(name: str) -> list[str]:
    """Up to five names for an error message: the rows that share the name, or else close ones."""
    if len(name) > _LONGEST_NAME:
        return []
    if shared := [row.name for row in _rows_called(name)]:
        return shared[:5]
    wanted = " ".join(word for word in _words(name) if word not in _BRAND_WORDS)
    known = {" ".join(_words(row.name)): row.name for row in ACCELERATORS}
    known |= {" ".join(_words(preset.name)): preset.name for preset in PRESETS}
    return [known[key] for key in get_close_matches(wanted, known, n=5, cutoff=0.5)]


def _rows_called(name: str) -> list[Accelerator]:
    """The rows that have a pattern in the name, and account for all of its other words."""
    if len(name) > _LONGEST_NAME:
        return []
    words = frozenset(_words(name))
    return [row for row, patterns in _PATTERNS if _is_called(row, patterns, words)]


def _has_memory(row: Accelerator, memory_gb: float) -> bool:
    return abs(memory_gb / row.memory_gb - 1) <= _MEMORY_TOLERANCE


def _is_called(
    row: Accelerator, patterns: tuple[frozenset[str], ...], words: frozenset[str]
) -> bool:
    own_size = f"{row.memory_gb:g}gb"
    return any(pattern <= words <= pattern | _BRAND_WORDS | {own_size} for pattern in patterns)


def _words(name: str) -> list[str]:
    """Lower-case words in their order, a size and its unit as one: `80 GB` and `80GiB` → `80gb`."""
    plain = name.casefold().replace("(r)", " ").replace("(tm)", " ").replace("_", " ")
    return _WORD.findall(_SIZE.sub(r"\1gb", plain))


_BY_NAME = {row.name.casefold(): row for row in ACCELERATORS}
_PATTERNS = tuple(
    (row, tuple(frozenset(_words(pattern)) for pattern in row.patterns)) for row in ACCELERATORS
)
