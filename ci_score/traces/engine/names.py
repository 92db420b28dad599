"""Names of ops, as long as they are kept."""

from __future__ import annotations

from hashlib import blake2b

LONGEST_NAME = 400
_HASH_BYTES = 4


def bounded_name(text: str) -> str:
    """The name; one that is too long ends in "…" and a hash of all of it, so that two stay two."""
    if len(text) <= LONGEST_NAME:
        return text
    whole = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_HASH_BYTES).hexdigest()
    return f"{text[: LONGEST_NAME - len(whole) - 1]}…{whole}"
