"""How a digest of a dataset is made of texts.

A digest has twenty bytes, as SHA-1 has.
"""

from __future__ import annotations

from hashlib import sha1
from typing import Final

# No digest: what others are added to.
EMPTY: Final = bytes(20)
# Compiled code looks an imported function up by its name at each call.
_sha1: Final = sha1


def _xor(digest: bytes, other: bytes) -> bytes:
    return (int.from_bytes(digest, "big") ^ int.from_bytes(other, "big")).to_bytes(len(EMPTY), "big")


def _hash(text: bytes) -> bytes:
    return _sha1(text, usedforsecurity=False).digest()


def add(digest: bytes, text: bytes) -> bytes:
    """Add a text to a digest; the order of such calls does not matter."""
    return _xor(digest, _hash(text))


def add_each(digest: bytes, texts: list[bytes]) -> bytes:
    """Add texts to a digest, whose order does not matter."""
    total = int.from_bytes(digest, "big")
    for text in texts:
        total ^= int.from_bytes(_hash(text), "big")
    return total.to_bytes(len(EMPTY), "big")


def mix(digest: bytes, text: bytes) -> bytes:
    """Add a text to a digest; the order of such calls matters."""
    return _hash(add(digest, text))


def mix_each(digest: bytes, texts: list[bytes]) -> bytes:
    """Add texts to a digest, whose order matters."""
    for text in texts:
        digest = mix(digest, text)
    return digest


def mix_often(digest: bytes, text: bytes, count: int) -> bytes:
    """Like `mix`, so many times."""
    for _ in range(count):
        digest = mix(digest, text)
    return digest


def add_pairs(digest: bytes, words: list[bytes], marked: list[int], mark: bytes) -> bytes:
    """Add the digests of pairs of texts, whose order does not matter, each with its second text after the first. `mark`
    is added to each pair for which `marked` has a number that is not 0; it may be empty."""
    total = int.from_bytes(digest, "big")
    for index in range(0, len(words), 2):
        # What `mix` makes of the first text, with no digest before it.
        each = mix(_hash(_hash(words[index])), words[index + 1])
        if marked and marked[index // 2]:
            each = add(each, mark)
        total ^= int.from_bytes(_hash(each), "big")
    return total.to_bytes(len(EMPTY), "big")
