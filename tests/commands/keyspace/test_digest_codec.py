"""Digests of texts: both forms make them as Redis does, of SHA-1 digests."""

from __future__ import annotations

from hashlib import sha1
from random import Random
from types import ModuleType

import pytest

from headrace.commands.keyspace import digest_codec_plain

try:
    from headrace.commands.keyspace import digest_codec
except ImportError:  # there was no C compiler at installation
    digest_codec = None  # type: ignore[assignment]

FORMS = [digest_codec_plain, *([digest_codec] if digest_codec is not None else [])]
in_both_forms = pytest.mark.parametrize("form", FORMS)
EMPTY = bytes(20)
SEED = 8


def digest(text: bytes) -> bytes:
    return sha1(text, usedforsecurity=False).digest()


def both(one: bytes, other: bytes) -> bytes:
    return bytes([left ^ right for left, right in zip(one, other, strict=True)])


# Around the end of a block, of which nine bytes are for the size.
@in_both_forms
@pytest.mark.parametrize("size", [0, 1, 20, 54, 55, 56, 57, 63, 64, 65, 119, 120, 128, 1000])
def test_a_text_is_added_by_its_sha1(form: ModuleType, size: int) -> None:
    text, before = Random(SEED).randbytes(size), Random(SEED + 1).randbytes(20)
    assert form.add(EMPTY, text) == digest(text)
    assert form.add(before, text) == both(before, digest(text))
    assert form.mix(before, text) == digest(both(before, digest(text)))


@in_both_forms
def test_many_texts_are_added_as_one_by_one(form: ModuleType) -> None:
    texts = [Random(size).randbytes(size) for size in range(100)]
    before = Random(SEED).randbytes(20)
    added, mixed, paired, often = before, before, before, before
    for number, text in enumerate(texts):
        added, mixed = form.add(added, text), form.mix(mixed, text)
        if number % 2:
            each = form.mix(form.mix(EMPTY, texts[number - 1]), text)
            paired = form.add(paired, form.add(each, b"mark") if number % 3 == 0 else each)
        often = form.mix(often, b"again")
    assert form.add_each(before, texts) == added
    assert form.add_each(before, texts[::-1]) == added
    assert form.mix_each(before, texts) == mixed
    marked = [(number % 3 == 0) * 77 for number in range(1, len(texts), 2)]
    assert form.add_pairs(before, texts, marked, b"mark") == paired
    assert form.add_pairs(before, [], [], b"") == form.mix_each(before, []) == form.mix_often(before, b"", 0) == before
    assert form.mix_often(before, b"again", len(texts)) == often
