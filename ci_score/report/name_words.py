"""Long names without brackets → 60 characters: words of the name are left out, tiles are kept."""

from __future__ import annotations

import re

LONGEST_NAME = 60
# Longer texts are cut first, so that nothing takes long.
_LONGEST_READ = 400
_BRACKETS = re.compile(r"[()\[\]{}<>]")
_TILE = re.compile(r"(tilesize|MT|t|bt|m)?\d+x\d+\w*", re.IGNORECASE)
_LESS_TELLING = re.compile(r"(warp|warpgroup|tensor|cga|cluster|et|g|SN|UserArgs|SAV|HA)\w*")
_FILLER = re.compile(
    r"execute|kernel|codegen|implicit|cublas|cudnn|infer|train|5x|v1|tensorop|optimized"
    r"|UserArgs|SAV|HA|S|SN"
)
_TELLING = re.compile(
    r"gemm|fprop|dgrad|wgrad|[fb]wd|backward|forward|conv|split|segment|[nt][nt]|nchw|nhwc"
)
_SHORTEST_USE = 40
# What tells at least so much may stand between words that are left out.
_TELLS = 5


def shortened_text(text: str, longest: int = LONGEST_NAME) -> str:
    """A text that is no name of C++, with its brackets only where they are balanced."""
    line = " ".join(text[:_LONGEST_READ].replace("->", "→").split())
    if len(line) > longest:
        line = line[: longest - 1] + "…"
    if not is_balanced(line):
        line = " ".join(_BRACKETS.sub(" ", line).split())
    return line or "unnamed"


def is_balanced(text: str) -> bool:
    """Whether every bracket is closed, in order."""
    waiting: list[str] = []
    for char in text:
        if char in "([{<":
            waiting.append(")]}>"["([{<".index(char)])
        elif char in ")]}>" and (not waiting or waiting.pop() != char):
            return False
    return not waiting


def shortened_word(word: str, longest: int = LONGEST_NAME) -> str:
    """`sm80_xmma_fprop…tilesize128x128x16_stage4…`: the words that tell most, in their order."""
    if len(word) <= longest:
        return word
    words = word[:_LONGEST_READ].split("_")
    order = sorted(range(len(words)), key=lambda place: (_rank(words, place), -place))
    gone: set[int] = set()
    for place in order:
        if len(_without(words, gone)) <= longest:
            break
        gone.add(place)
    for place in reversed(order):
        alone = {place - 1, place + 1} <= gone | {-1, len(words)} and _rank(words, place) < _TELLS
        if place in gone and not alone and len(_without(words, gone - {place})) <= longest:
            gone.remove(place)
    text = _without(words, gone)
    if _SHORTEST_USE <= len(text) <= longest:
        return text
    return word[: longest - 1] + "…"


def _rank(words: list[str], place: int) -> int:
    """How much a word tells; the least goes first, and of equals the last."""
    word = words[place]
    if place < 2:
        return 9
    if _FILLER.fullmatch(word) or word in words[:place]:
        return 0
    if _TELLING.fullmatch(word):
        return 6
    if word.startswith("align"):
        return 5
    if _LESS_TELLING.fullmatch(word):
        return 1
    if _TILE.fullmatch(word):
        return 7
    if place == len(words) - 1 and word.isdigit() and words[0] != "Cijk":
        return 8
    return 2


def _without(words: list[str], gone: set[int]) -> str:
    text, is_gap = "", False
    for place, word in enumerate(words):
        if place in gone:
            is_gap = True
            continue
        text += "…" if is_gap else "_" if place else ""
        text += word
        is_gap = False
    return text + ("…" if is_gap else "")
