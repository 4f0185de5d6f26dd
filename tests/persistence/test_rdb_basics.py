"""What RDB files are made of: the checksum, lengths, strings, compression and listpacks. Bytes are those of Redis."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as some

from headrace.persistence.errors import RdbError
from headrace.persistence.rdb import crc64_plain, listpack, lzf_plain
from headrace.persistence.rdb.crc64_plain import BLOCK_SIZE, FOLD_BITS
from headrace.persistence.rdb.lengths import encode_length, encode_string, read_length, read_string, skip_string
from headrace.persistence.rdb.source import Source

try:
    from headrace.persistence.rdb import crc64, lzf
except ImportError:
    crc64 = lzf = None  # type: ignore[assignment]

CRC_FORMS = [crc64_plain, *([crc64] if crc64 is not None else [])]
LZF_FORMS = [lzf_plain, *([lzf] if lzf is not None else [])]
U64_MAX = 2**64 - 1

# -- CRC-64 ------------------------------------------------------------------------------------------


def bit_by_bit(data: bytes, crc: int = 0) -> int:
    """The checksum as it is defined."""
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x95AC9329AC4BC9B5 if crc & 1 else 0)
    return crc


@pytest.mark.parametrize("form", CRC_FORMS)
def test_crc64_has_the_check_value(form: ModuleType) -> None:
    assert form.crc64(b"123456789") == 0xE9C6D914C4B8D9CA


@pytest.mark.parametrize("form", CRC_FORMS)
@pytest.mark.parametrize("around", [0, 1, FOLD_BITS // 8, 2 * FOLD_BITS // 8, 8 * FOLD_BITS // 8, 5000])
def test_crc64_of_folded_blocks_is_that_of_single_bits(form: ModuleType, around: int) -> None:
    data = bytes(index * 31 % 251 for index in range(around + 3))
    for size in range(max(around - 3, 0), around + 4):
        assert form.crc64(data[:size], 77) == bit_by_bit(data[:size], 77), size


@pytest.mark.parametrize("form", CRC_FORMS)
def test_a_payload_ends_with_its_version_and_its_crc(form: ModuleType) -> None:
    content = bytes(range(256)) * 3
    end = form.payload_end([content[:100], content[100:]], 15)
    assert end == b"\x0f\x00" + form.crc64(content + b"\x0f\x00").to_bytes(8, "little")
    assert form.has_right_end(content + end, 15)
    assert not form.has_right_end(content + end, 14)
    assert form.has_right_end(content + b"\x0f\x00" + bytes(8), 15)
    assert form.has_right_end(form.payload_end([], 15), 15)
    for at in range(len(content + end)):
        damaged = bytearray(content + end)
        damaged[at] ^= 1
        assert not form.has_right_end(bytes(damaged), 15), at
    for size in range(10):
        assert not form.has_right_end(bytes(size), 15)


@pytest.mark.parametrize("form", CRC_FORMS)
def test_crc64_continues_from_a_previous_crc(form: ModuleType) -> None:
    data = bytes(range(256)) * (BLOCK_SIZE // 256 + 2)
    assert form.crc64(data) == form.crc64(data[7777:], form.crc64(data[:7777]))


# -- LZF ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", LZF_FORMS)
def test_lzf_makes_the_bytes_of_redis(form: ModuleType) -> None:
    assert form.compress(b"a" * 40, 36) == bytes.fromhex("01 61 61 e0 1b 00 01 61 61")


@pytest.mark.parametrize("form", LZF_FORMS)
@given(parts=some.lists(some.sampled_from([b"temp", b"=", b"20", b"\0", b"a" * 40, bytes(range(60))]), max_size=600))
def test_lzf_gives_back_what_it_took(form: ModuleType, parts: list[bytes]) -> None:
    data = b"".join(parts)
    compressed = form.compress(data, len(data))
    if compressed is not None:
        assert len(compressed) <= len(data)
        assert form.decompress(compressed, len(data)) == data


@pytest.mark.parametrize("form", LZF_FORMS)
def test_lzf_refuses_what_it_cannot_shorten(form: ModuleType) -> None:
    assert form.compress(bytes(range(256)), 252) is None


@pytest.mark.parametrize(
    ("data", "size"),
    [
        (b"\x01a", 2),  # fewer literals than announced
        (b"\x00a", 2),  # shorter than announced
        (b"\x00a\x00b", 1),  # longer
        (b"\x00a\x20\x05", 4),  # a reference to before the beginning
        (b"\x00a\x20", 4),  # half a reference
        (b"\x00a\xe0\x01", 4),
        (b"\x00a\x20", 1),  # half a reference after all announced bytes
        (b"", 1),
        (b"\x00a", 2**60),  # refused before anything is reserved
    ],
)
@pytest.mark.parametrize("form", LZF_FORMS)
def test_damaged_lzf_is_refused(form: ModuleType, data: bytes, size: int) -> None:
    with pytest.raises(RdbError):
        form.decompress(data, size)


@pytest.mark.parametrize("form", LZF_FORMS)
@given(data=some.binary(max_size=60), size=some.integers(0, 300))
def test_any_lzf_is_refused_or_as_long_as_it_says(form: ModuleType, data: bytes, size: int) -> None:
    try:
        assert len(form.decompress(data, size)) == size
    except RdbError:
        return


@pytest.mark.skipif(lzf is None, reason="nothing is compiled")
def test_lzf_makes_the_same_bytes_after_four_gib_of_texts() -> None:
    """Its places are numbers of 32 bits."""
    zeros, text = bytes(1 << 22), b"".join(b"user:%d " % (number % 70) for number in range(500))
    wanted = lzf_plain.compress(text, len(text))
    for _ in range((1 << 32) // len(zeros) + 1):
        lzf.compress(zeros, len(zeros))
        assert lzf.compress(text, len(text)) == wanted


@pytest.mark.skipif(lzf is None, reason="nothing is compiled")
@given(
    some.lists(some.sampled_from([b"temp", b"=", b"20", b"\0", b"a" * 400, bytes(range(60))]), max_size=600),
    some.integers(-8, 8),
    some.integers(0),
)
def test_both_forms_of_lzf_make_the_same_bytes_and_refuse_the_same(parts: list[bytes], spare: int, place: int) -> None:
    data = b"".join(parts)
    compressed = lzf_plain.compress(data, len(data) + spare)
    assert lzf.compress(data, len(data) + spare) == compressed
    if compressed:
        damaged = bytearray(compressed)
        damaged[place % len(damaged)] ^= 1 << place % 8
        assert outcome(lzf, bytes(damaged), len(data)) == outcome(lzf_plain, bytes(damaged), len(data))


def outcome(form: ModuleType, compressed: bytes, size: int) -> object:
    try:
        return form.decompress(compressed, size)
    except RdbError as error:
        return str(error)


# -- lengths and strings -----------------------------------------------------------------------------

LENGTHS = [
    (0, "00"), (63, "3f"), (64, "40 40"), (100, "40 64"), (300, "41 2c"), (16383, "7f ff"),
    (16384, "80 00 00 40 00"), (2**32 - 1, "80 ff ff ff ff"), (2**32, "81 00 00 00 01 00 00 00 00"),
    (1795241622019, "81 00 00 01 a1 fc bd 3a 03"), (U64_MAX, "81 ff ff ff ff ff ff ff ff"),
]  # fmt: skip


@pytest.mark.parametrize(("number", "shown"), LENGTHS)
def test_lengths(number: int, shown: str) -> None:
    assert encode_length(number) == bytes.fromhex(shown)
    assert read_length(Source([bytes.fromhex(shown)])) == number


STRINGS = [
    (b"", "00"), (b"-1", "c0 ff"), (b"127", "c0 7f"), (b"128", "c1 80 00"), (b"1000", "c1 e8 03"),
    (b"-129", "c1 7f ff"), (b"100000", "c2 a0 86 01 00"), (b"-2147483648", "c2 00 00 00 80"),
    (b"007", "03 30 30 37"), (b"-0", "02 2d 30"), (b"+1", "02 2b 31"), (b" 1", "02 20 31"),
    (b"2147483648", "0a 32 31 34 37 34 38 33 36 34 38"), (b"1_0", "03 31 5f 30"),
    (b"a" * 40, "c3 09 28 01 61 61 e0 1b 00 01 61 61"), (b"x" * 20, "14" + "78" * 20),
]  # fmt: skip


@pytest.mark.parametrize(("text", "shown"), STRINGS)
def test_strings_take_their_shortest_form(text: bytes, shown: str) -> None:
    data = bytes.fromhex(shown)
    assert encode_string(text, compress=True) == data
    assert read_string(Source([data])) == text
    source = Source([data + b"z"])
    skip_string(source)
    assert source.byte() == ord("z")


def test_compression_can_be_left_out() -> None:
    assert encode_string(b"a" * 40, compress=False) == b"\x28" + b"a" * 40


@given(some.binary(max_size=400) | some.integers(-(2**40), 2**40).map(lambda number: b"%d" % number), some.booleans())
def test_any_string_comes_back_in_any_pieces(text: bytes, compress: bool) -> None:
    data = encode_string(text, compress=compress)
    assert read_string(Source(data[index : index + 1] for index in range(len(data)))) == text


@pytest.mark.parametrize(
    ("read", "shown"),
    [
        (read_length, "c0 01"),  # a string where a length belongs
        (read_length, "82 00"),
        (read_string, "c4"),
        (read_string, "82"),
        (skip_string, "ff"),
        (read_string, "81 10 00 00 00 00 00 00 00 61"),  # 2^60 bytes, of which one is there
        (skip_string, "81 10 00 00 00 00 00 00 00 61"),
        (read_string, "c3 01 81 10 00 00 00 00 00 00 00 61"),
        (read_string, ""),
    ],
)
def test_damaged_lengths_and_strings_are_refused(read: Callable[[Source], object], shown: str) -> None:
    with pytest.raises(RdbError):
        read(Source([bytes.fromhex(shown)]))


def test_a_source_counts_and_checks_what_was_taken() -> None:
    source = Source([b"abc", b"", b"defgh", b"ij"], is_checksummed=True)
    assert (source.take(2), source.crc) == (b"ab", crc64_plain.crc64(b"ab"))
    source.skip(3)
    assert (source.byte(), source.offset, source.crc) == (ord("f"), 6, crc64_plain.crc64(b"abcdef"))
    assert list(source.rest()) == [b"gh", b"ij"]
    with pytest.raises(RdbError, match="Short read or OOM loading DB"):
        Source([b"ab"]).take(3)


# -- listpacks ---------------------------------------------------------------------------------------

INTEGERS = [
    (127, "7f 01"), (128, "c0 80 02"), (-1, "df ff 02"), (4095, "cf ff 02"), (4096, "f1 00 10 03"),
    (-4096, "d0 00 02"), (-4097, "f1 ff ef 03"), (32768, "f2 00 80 00 04"), (-32769, "f2 ff 7f ff 04"),
    (8388608, "f3 00 00 80 00 05"), (2147483648, "f4 00 00 00 80 00 00 00 00 09"),
    (-(2**63), "f4 00 00 00 00 00 00 00 80 09"),
]  # fmt: skip
TEXTS = [
    (b"", "80 01"), (b"f", "81 66 02"), (b"01", "82 30 31 03"), (b"-0", "82 2d 30 03"), (b"+1", "82 2b 31 03"),
    (b"x" * 63, "bf" + "78" * 63 + "40"), (b"x" * 64, "e0 40" + "78" * 64 + "42"),
    (b"x" * 126, "e0 7e" + "78" * 126 + "01 80"), (b"x" * 4096, "f0 00 10 00 00" + "78" * 4096 + "20 85"),
    (b"9223372036854775808", "93" + b"9223372036854775808".hex() + "14"),
]  # fmt: skip


@pytest.mark.parametrize(("number", "shown"), INTEGERS)
def test_integers_in_listpacks(number: int, shown: str) -> None:
    element = bytes.fromhex(shown)
    assert listpack.encode_integer(number) == listpack.encode_text(b"%d" % number) == element
    assert listpack.unpack(listpack.pack([element], 1)) == [number]


@pytest.mark.parametrize(("text", "shown"), TEXTS)
def test_texts_in_listpacks(text: bytes, shown: str) -> None:
    element = bytes.fromhex(shown)
    assert listpack.encode_text(text) == element
    assert listpack.unpack(listpack.pack([element], 1)) == [text]


@given(some.lists(some.binary(max_size=150) | some.integers(-(2**63), 2**63 - 1), max_size=30))
def test_any_listpack_comes_back(elements: list[bytes | int]) -> None:
    texts = [each if isinstance(each, bytes) else b"%d" % each for each in elements]
    assert listpack.encode_texts(texts) == b"".join(map(listpack.encode_text, texts))
    unpacked = listpack.unpack(listpack.pack([listpack.encode_texts(texts)], len(texts)))
    assert [each if isinstance(each, bytes) else b"%d" % each for each in unpacked] == texts


def test_every_change_of_a_listpack_is_refused_or_gives_as_many_elements() -> None:
    texts = [b"5", b"-7", b"5000", b"40000", b"10000000", b"%d" % 2**40, b"text", b"y" * 70, b"z" * 130]
    packed = listpack.pack([listpack.encode_texts(texts)], len(texts))
    for index in range(len(packed)):
        with pytest.raises(RdbError):
            listpack.unpack(packed[:index])
        for value in range(256):
            try:
                changed = listpack.unpack(packed[:index] + bytes((value,)) + packed[index + 1 :])
            except RdbError:
                continue
            assert len(changed) == len(texts) or index in (4, 5)  # 65535 elements: not counted
