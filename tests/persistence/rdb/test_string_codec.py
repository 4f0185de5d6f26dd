"""Keys with strings, many at a time: both forms write what single strings are written as, and read the same keys."""

from __future__ import annotations

from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from headrace.persistence.rdb import string_codec_plain
from headrace.persistence.rdb.keys import LONG_SIZE, encode_name
from headrace.persistence.rdb.lengths import encode_string
from headrace.persistence.rdb.string_codec_plain import KEYS_COUNT_MAX, PIECE_SIZE

try:
    from headrace.persistence.rdb import string_codec
except ImportError:
    string_codec = None  # type: ignore[assignment]

FORMS = [string_codec_plain, *([string_codec] if string_codec is not None else [])]

NUMBERS = [sign * 2**bits + step for bits in (7, 15, 31, 32) for sign in (1, -1) for step in (-1, 0, 1)]
TEXTS = [
    b"", b"0", b"-", b"-0", b"00", b"01", b"1 ", b" 1", b"+1", b"12a", b"9" * 11, b"-" + b"9" * 10, b"\x00",
    *(b"%d" % number for number in NUMBERS), *(b"x" * size for size in (12, 20, 21, 22, 63, 64, 300, 16_383, 16_384)),
    b"\xff" * 12, bytes(range(256)), b"abcdefgh" * 1000,
]  # fmt: skip
KEYS = some.sampled_from(TEXTS) | some.binary(max_size=40)
PAIRS = some.lists(some.tuples(KEYS, KEYS), max_size=12)
TIMES = some.integers(-(2**63), 2**63 - 1)


def encoded(form: ModuleType, pairs: list[tuple[bytes, bytes]], expires: dict[bytes, int], *, compress: bool) -> bytes:
    """All pairs, none of which has a long string."""
    pieces, index = [], 0
    while index < len(pairs):
        piece, after = form.encode_strings(pairs, index, expires, compress)
        assert after > index
        pieces.append(piece)
        index = after
    return b"".join(pieces)


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=200, deadline=None)
@given(PAIRS, some.data(), some.booleans())
def test_keys_are_written_as_single_ones_and_come_back(
    form: ModuleType, pairs: list[tuple[bytes, bytes]], data: some.DataObject, compress: bool
) -> None:
    names = [key for key, _ in pairs]
    expires = data.draw(some.dictionaries(some.sampled_from([b"another", *names]), TIMES, max_size=5))
    made = encoded(form, pairs, expires, compress=compress)
    assert made == b"".join(
        encode_name(key, expires.get(key), compress=compress) + encode_string(value, compress=compress)
        for key, value in pairs
    )
    keys, position = form.read_strings(b"before" + made + b"\xff", len(b"before"))
    assert keys == [(key, value, expires.get(key)) for key, value in pairs]
    assert position == len(b"before") + len(made)


@pytest.mark.parametrize("form", FORMS)
def test_every_text_comes_back(form: ModuleType) -> None:
    for compress in (True, False):
        for text in TEXTS:
            made = encoded(form, [(text, text)], {}, compress=compress)
            assert made == b"\0" + 2 * encode_string(text, compress=compress)
            assert form.read_strings(made, 0) == ([(text, text, None)], len(made))


@pytest.mark.parametrize("form", FORMS)
def test_pieces_are_of_some_kilobytes_and_leave_out_long_strings(form: ModuleType) -> None:
    pairs = [(b"k", b"\xff" * 996) for _ in range(20)]
    piece, index = form.encode_strings(pairs, 3, {}, False)
    assert PIECE_SIZE - 1100 < len(piece) < PIECE_SIZE + 1100
    assert index == 3 + len(piece) // 1000
    long = [(b"a", b"1"), (b"b", b"\xff" * LONG_SIZE), (b"c", b"x" * (LONG_SIZE + 1))]
    assert form.encode_strings(long, 2, {}, True) == (b"", 2)
    assert len(encoded(form, long[:2], {}, compress=False)) > LONG_SIZE
    assert form.encode_strings(long, 3, {}, True) == (b"", 3)


@pytest.mark.parametrize("form", FORMS)
def test_a_call_reads_a_limited_number_of_keys(form: ModuleType) -> None:
    made = encoded(form, [(b"%d" % number, b"v") for number in range(KEYS_COUNT_MAX + 9)], {}, compress=False)
    keys, position = form.read_strings(made, 0)
    assert len(keys) == KEYS_COUNT_MAX
    assert len(form.read_strings(made, position)[0]) == 9


def test_every_truncation_and_every_changed_byte_is_read_alike() -> None:
    """A key that is incomplete or damaged is left to the caller, and the position is before it."""
    pairs = [(b"a", b"-129"), (b"b" * 70, b"70000"), (b"c", b"abc" * 40), (b"d", b"v")]
    made = encoded(string_codec_plain, pairs, {b"a": -1, b"d": 5}, compress=True)
    for size in range(len(made)):
        for data in [made[:size], *(made[:size] + bytes((value,)) + made[size + 1 :] for value in range(256))]:
            results = [form.read_strings(data, 0) for form in FORMS]
            assert all(result == results[0] for result in results), data.hex()
