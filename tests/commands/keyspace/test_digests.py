"""Digests of texts are made as Redis does, of SHA-1 digests."""

from __future__ import annotations

from hashlib import sha1
from random import Random

import pytest

from headrace.commands.keyspace import digests
from headrace.commands.keyspace.digests import EMPTY

SEED = 8


def digest(text: bytes) -> bytes:
    return sha1(text, usedforsecurity=False).digest()


def both(one: bytes, other: bytes) -> bytes:
    return bytes([left ^ right for left, right in zip(one, other, strict=True)])


@pytest.mark.parametrize("size", [0, 1, 20, 54, 55, 56, 57, 63, 64, 65, 119, 120, 128, 1000])
def test_a_text_is_added_by_its_sha1(size: int) -> None:
    text, before = Random(SEED).randbytes(size), Random(SEED + 1).randbytes(20)
    assert digests.add(EMPTY, text) == digest(text)
    assert digests.add(before, text) == both(before, digest(text))
    assert digests.mix(before, text) == digest(both(before, digest(text)))


def test_many_texts_are_added_as_one_by_one() -> None:
    texts = [Random(size).randbytes(size) for size in range(100)]
    before = Random(SEED).randbytes(20)
    added, mixed, paired, often = before, before, before, before
    for number, text in enumerate(texts):
        added, mixed = digests.add(added, text), digests.mix(mixed, text)
        if number % 2:
            each = digests.mix(digests.mix(EMPTY, texts[number - 1]), text)
            paired = digests.add(paired, digests.add(each, b"mark") if number % 3 == 0 else each)
        often = digests.mix(often, b"again")
    assert digests.add_each(before, texts) == added
    assert digests.add_each(before, texts[::-1]) == added
    assert digests.mix_each(before, texts) == mixed
    marked = [(number % 3 == 0) * 77 for number in range(1, len(texts), 2)]
    assert digests.add_pairs(before, texts, marked, b"mark") == paired
    assert (
        digests.add_pairs(before, [], [], b"")
        == digests.mix_each(before, [])
        == digests.mix_often(before, b"", 0)
        == before
    )
    assert digests.mix_often(before, b"again", len(texts)) == often
