"""What a source reads: plain, packed with gzip or Zstandard, in parts, cut short, too large."""

from __future__ import annotations

import gzip
import sys
import tracemalloc

import pytest

from ci_score.errors import BadInputError
from ci_score.traces.formats import read_profile
from ci_score.traces.source import UNPACKED_LIMIT, CutShortError, ProfileSource
from tests.builders.traces.packed import long_zst, zst
from tests.builders.traces.valid_files import valid_files

TEXT = b"".join(b"line %d of a trace\n" % number for number in range(20_000))
ZLIB_ALONE = "gzip without isal"


def gzipped(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)


PACKERS = {"gzip": gzipped, ZLIB_ALONE: gzipped, "zstd": zst}
EVERY_PACKER = pytest.mark.parametrize("name", PACKERS)


@pytest.fixture(autouse=True)
def _without_isal(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some machines have no wheel of it: there zlib does the same."""
    if ZLIB_ALONE in request.node.name:
        monkeypatch.setitem(sys.modules, "isal.isal_zlib", None)


def source(data: bytes, unpacked_limit: int = UNPACKED_LIMIT) -> ProfileSource:
    return ProfileSource("a/file", data=data, unpacked_limit=unpacked_limit)


@EVERY_PACKER
@pytest.mark.parametrize("size", [1, 7, 4096, 10**7])
def test_packed__gives_the_bytes_in_pieces_of_a_size(name: str, size: int) -> None:
    """All pieces but the last are as large as asked, and together they are the file."""
    text = TEXT[:5000] if size < 10 else TEXT
    pieces = list(source(PACKERS[name](text)).chunks(size))
    assert b"".join(pieces) == text
    assert {len(piece) for piece in pieces[:-1]} <= {size}


@EVERY_PACKER
def test_packed__may_have_several_parts_and_zeros_behind(name: str) -> None:
    """Parallel packers write one part a piece, and tapes fill a block."""
    pack = PACKERS[name]
    data = pack(TEXT) + pack(b"") + bytes(99) + pack(b"more") + bytes(512 * 1024)
    assert source(data).whole() == TEXT + b"more"


def test_zstd__skips_the_frames_that_hold_no_data() -> None:
    """Parallel packers write their table into such a frame, also as the first one."""
    skipped = b"\x52\x2a\x4d\x18" + (3).to_bytes(4, "little") + b"abc"
    assert source(skipped + zst(TEXT) + skipped).whole() == TEXT


@EVERY_PACKER
@pytest.mark.parametrize("share", [0.01, 0.5, 0.999])
def test_cut__gives_what_there_is_and_then_says_so(name: str, share: float) -> None:
    """Whoever can use a part keeps it; whoever cannot hears that the file is not whole."""
    packed = PACKERS[name](TEXT)
    cut = packed[: max(int(len(packed) * share), 5)]
    data, is_cut = source(cut).whole_or_cut()
    assert is_cut
    assert TEXT.startswith(data)
    with pytest.raises(CutShortError, match="cut short or damaged"):
        source(cut).whole()


@EVERY_PACKER
def test_damaged__is_as_good_as_cut(name: str) -> None:
    """Bytes of something else within or behind what is packed end it there."""
    packed = PACKERS[name](TEXT)
    for data in (packed + b"something else", packed[:40] + b"\xff" * 40 + packed[80:]):
        assert source(data).whole_or_cut()[1]


@EVERY_PACKER
def test_bomb__ends_at_the_limit(name: str) -> None:
    """A gibibyte of zeros in some kilobytes is refused before it is in memory."""
    part = PACKERS[name](bytes(16 * 1024**2))
    tracemalloc.start()
    try:
        with pytest.raises(BadInputError, match=r"more than .* \(unpacked\)"):
            source(part * 64, unpacked_limit=32 * 1024**2).whole()
        assert tracemalloc.get_traced_memory()[1] < 40 * 1024**2
    finally:
        tracemalloc.stop()


@EVERY_PACKER
def test_bomb__is_known_by_its_ratio(name: str) -> None:
    """Far below the limit, too: a stranger's kilobytes fill neither the memory nor the disk."""
    part = PACKERS[name](bytes(16 * 1024**2))
    with pytest.raises(BadInputError, match="200 times its size"), source(part * 8).on_disk():
        pass


def test_zstd__does_not_give_its_window_all_the_memory() -> None:
    """A frame says how much is to be kept: more than usual is refused, with the option."""
    assert source(long_zst(TEXT, 27)).whole() == TEXT
    with pytest.raises(BadInputError, match=r"a window of over 128 MiB, expected .*--long"):
        source(long_zst(TEXT, 30)).whole()


@pytest.mark.parametrize("name", valid_files())
def test_zstd__of_any_format_is_read(name: str) -> None:
    """A packed file is the same profile, from memory and from disk."""
    data = valid_files()[name]
    assert read_profile(source(zst(data))) == read_profile(source(data))
