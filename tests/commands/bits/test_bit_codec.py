"""Bits are counted, found and combined alike in both forms."""

from __future__ import annotations

from random import Random
from types import ModuleType

import pytest

from headrace.commands.bits import bit_codec_plain

try:
    from headrace.commands.bits import bit_codec
except ImportError:
    bit_codec = None  # type: ignore[assignment]

FORMS = [bit_codec_plain, *([bit_codec] if bit_codec is not None else [])]
SEED = 43
# Around the sizes that are worked on at once.
SIZES = (0, 1, 7, 8, 31, 32, 33, 8191, 8192, 8193, 70_000)

in_both_forms = pytest.mark.parametrize("form", FORMS)


@in_both_forms
@pytest.mark.parametrize("size", SIZES)
def test_the_ones_of_some_bytes_are_counted(form: ModuleType, size: int) -> None:
    text = Random(SEED).randbytes(size)
    for start, stop in ((0, size), (size // 3, size), (min(1, size), size - size // 5), (size, size)):
        assert form.count_ones(text, start, stop) == int.from_bytes(text[start:stop]).bit_count()


@in_both_forms
@pytest.mark.parametrize(("start", "stop"), [(-1, 2), (0, 4), (2, 1)])
def test_bytes_that_are_not_there_are_not_counted(form: ModuleType, start: int, stop: int) -> None:
    with pytest.raises(IndexError):
        form.count_ones(b"abc", start, stop)


@in_both_forms
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("byte", [0, 0xFF])
def test_the_first_byte_that_is_another_is_found(form: ModuleType, size: int, byte: int) -> None:
    alike = bytes((byte,)) * size
    for start, stop in ((0, size), (size // 3, size - size // 5)):
        assert form.byte_other_than(byte, alike, start, stop) == stop
        for place in {start, (start + stop) // 2, stop - 1} & set(range(start, stop)):
            # Another byte after it does not matter, nor one before the start.
            text = (
                bytes((1,)) * start + alike[start:place] + bytes((place % 254 + 1,)) + bytes((7,)) * (size - place - 1)
            )
            assert form.byte_other_than(byte, text, start, stop) == place


@in_both_forms
@pytest.mark.parametrize(("start", "stop"), [(-1, 2), (0, 4), (2, 1)])
def test_no_byte_is_found_that_is_not_there(form: ModuleType, start: int, stop: int) -> None:
    with pytest.raises(IndexError):
        form.byte_other_than(0, b"abc", start, stop)


def combined_bits(operation: bytes, bits: list[int]) -> int:
    """The result for one bit of each text."""
    first, others = bits[0], sum(bits[1:])
    return {
        b"AND": min(bits),
        b"OR": max(bits),
        b"XOR": sum(bits) % 2,
        b"NOT": 1 - first,
        b"DIFF": first and not others,
        b"DIFF1": others and not first,
        b"ANDOR": first and others,
        b"ONE": sum(bits) == 1,
    }[operation] > 0  # fmt: skip


@in_both_forms
@pytest.mark.parametrize("operation", [b"AND", b"OR", b"XOR", b"DIFF", b"DIFF1", b"ANDOR", b"ONE"])
def test_each_operation_combines_every_combination_of_bits(form: ModuleType, operation: bytes) -> None:
    # Texts of three: bit n of text m is bit m of n.
    texts = [b"\xaa", b"\xcc", b"\xf0"]
    for several in (texts[:2], texts):
        bits = [combined_bits(operation, [text[0] >> place & 1 for text in several]) for place in range(8)]
        assert form.combined(operation, several) == bytes((sum(bit << place for place, bit in enumerate(bits)),))


@in_both_forms
@pytest.mark.parametrize("size", SIZES)
def test_a_text_is_inverted(form: ModuleType, size: int) -> None:
    text = Random(SEED).randbytes(size)
    assert form.combined(b"NOT", [text]) == bytes(255 - byte for byte in text)


@pytest.mark.skipif(bit_codec is None, reason="there is no compiled form")
@pytest.mark.parametrize("operation", [b"AND", b"OR", b"XOR", b"DIFF", b"DIFF1", b"ANDOR", b"ONE"])
def test_texts_of_all_sizes_are_combined_alike(operation: bytes) -> None:
    source = Random(SEED)
    for _ in range(100):
        texts = [source.randbytes(source.choice(SIZES)) for _ in range(source.randint(2, 4))]
        assert bit_codec.combined(operation, texts) == bit_codec_plain.combined(operation, texts)
