"""Packs bytes with Zstandard, as `zstd` does."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def _library() -> Any:
    try:
        return import_module("compression.zstd")
    except ImportError:
        return import_module("backports.zstd")


def zst(data: bytes) -> bytes:
    """One frame."""
    packed: bytes = _library().compress(data)
    return packed


def long_zst(data: bytes, window_log: int) -> bytes:
    """A frame whose size nobody told beforehand, so that its window stays as large as asked."""
    library = _library()
    parameter = library.CompressionParameter
    options = {parameter.window_log: window_log, parameter.enable_long_distance_matching: 1}
    packer = library.ZstdCompressor(options=options)
    packed: bytes = packer.compress(data) + packer.flush()
    return packed
