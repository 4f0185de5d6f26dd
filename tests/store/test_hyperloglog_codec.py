"""Hashes, histograms and runs of HyperLogLogs, alike in both forms."""

from __future__ import annotations

from collections import Counter
from random import Random
from types import ModuleType

import pytest

from headrace.store import hyperloglog_codec_plain
from headrace.store.hyperloglog import EMPTY
from headrace.store.hyperloglog_form import FLAG_AT, HEADER_SIZE, NO_ROOM, REGISTERS_COUNT, STALE

try:
    from headrace.store import hyperloglog_codec
except ImportError:
    hyperloglog_codec = None  # type: ignore[assignment]

FORMS = [hyperloglog_codec_plain, *([hyperloglog_codec] if hyperloglog_codec is not None else [])]
SEED = 42

in_both_forms = pytest.mark.parametrize("form", FORMS)


@in_both_forms
@pytest.mark.parametrize(
    ("text", "found"),
    [
        (b"", 0xD8DFEA6585BC9732),
        (b"a", 0x53D2470A9B43B1A7),
        (b"1234567", 0x85563DB163632857),
        (b"12345678", 0x95EBB86389132953),
        (b"123456789", 0x217532CB09F2A44D),
        (b"x" * 1000, 0xEB7BEB1A0289EBFA),
        (bytes(range(256)), 0x595202C04F157049),
    ],
)
def test_hashes_are_those_of_redis(form: ModuleType, text: bytes, found: int) -> None:
    assert form.murmur64(text) == found


@in_both_forms
def test_a_histogram_has_the_number_of_each_value(form: ModuleType) -> None:
    registers = bytes([byte & 63 for byte in Random(SEED).randbytes(REGISTERS_COUNT)])
    counts = Counter(registers)
    assert form.histogram(registers) == [counts[value] for value in range(64)]
    assert form.histogram(bytes(REGISTERS_COUNT)) == [REGISTERS_COUNT, *[0] * 63]


@in_both_forms
@pytest.mark.parametrize(
    ("text", "registers"),
    [
        (b"", b""),
        (b"\x02", bytes(3)),
        (b"\x40\x02", bytes(3)),
        (b"\x41\x00", bytes(257)),
        (b"\x80\xff\x01\x85", b"\x01" + b"\x20" * 4 + bytes(2) + b"\x02" * 2),
        # A long run that is cut.
        (b"\x41", bytes(257)),
    ],
)
def test_runs_are_spread(form: ModuleType, text: bytes, registers: bytes) -> None:
    assert form.spread_runs(b"head" + text, 4, len(registers)) == registers
    assert form.spread_runs(text, 0, len(registers) + 1) is None
    if registers:
        assert form.spread_runs(text, 0, len(registers) - 1) is None


def test_a_run_is_found_with_the_two_before() -> None:
    form = hyperloglog_codec_plain
    data = bytearray(b"\x02\x40\x05\x81\x03\x40")
    # Registers 0 to 2, 3 to 8, 9 to 10, 11 to 14 and 15.
    assert form.find_run(data, 0, 0, 0) == form.find_run(data, 0, 0, 2) == (0, 0, -1, -1)
    assert form.find_run(data, 0, 0, 3) == form.find_run(data, 0, 0, 8) == (1, 3, 0, -1)
    assert form.find_run(data, 0, 0, 10) == (3, 9, 1, 0)
    assert form.find_run(data, 0, 0, 14) == (4, 11, 3, 1)
    assert form.find_run(data, 3, 9, 14) == (4, 11, 3, -1)
    assert form.find_run(data, 0, 0, 15) == (5, 15, 4, 3)
    assert form.find_run(data, 0, 0, 16) is None
    assert form.find_run(bytearray(), 0, 0, 0) is None


def runs_of(random: Random, registers_count: int) -> bytearray:
    """A sparse HyperLogLog; its runs may be cut, or have other registers than there are."""
    codes = [random.choice((0, 3, 0x3F, 0x40, 0x7F, 0x80, 0x81, 0x83, 0x84, 0xFF)) for _ in range(random.randrange(9))]
    runs = b"".join([bytes((code, random.randrange(90))) if 0x40 <= code < 0x80 else bytes((code,)) for code in codes])
    rest = b"" if random.randrange(3) else bytes((0x40 | registers_count - 1 >> 8, 0xFF))
    return bytearray(bytes(HEADER_SIZE) + runs + rest)[: None if random.randrange(4) else -1]


@pytest.mark.skipif(hyperloglog_codec is None, reason="there was no C compiler at installation")
@pytest.mark.parametrize("seed", range(30))
def test_both_forms_raise_registers_alike(seed: int) -> None:
    random = Random(seed)
    for _ in range(60):
        data = runs_of(random, REGISTERS_COUNT)
        if len(data) < HEADER_SIZE:
            continue
        size_max = len(data) + random.choice((-5, 2, 10, 3000))
        plain, place = bytearray(data), (HEADER_SIZE, 0)
        for _ in range(30):
            register, value = random.choice((random.randrange(400), random.randrange(20))), random.randrange(1, 35)
            found = hyperloglog_codec.raise_run(data, *place, register, value, size_max)
            assert found == hyperloglog_codec_plain.raise_run(plain, *place, register, value, size_max)
            assert data == plain
            place = found[1:]
        registers = bytes(random.choices((0, 0, 0, 1, 2, 33), (8, 8, 8, 4, 2, 0.01), k=600))
        found = hyperloglog_codec.raise_runs(data, registers, size_max)
        assert found == hyperloglog_codec_plain.raise_runs(plain, registers, size_max)
        assert data == plain


@pytest.mark.skipif(hyperloglog_codec is None, reason="there was no C compiler at installation")
@pytest.mark.parametrize("seed", range(30))
def test_both_forms_add_elements_and_count_runs_alike(seed: int) -> None:
    random = Random(seed)
    for _ in range(60):
        text = bytes(runs_of(random, REGISTERS_COUNT))
        if len(text) < HEADER_SIZE:
            continue
        elements = [b"%d" % random.randrange(100) for _ in range(random.choice((0, 1, 5, 40)))]
        given = (elements, random.randrange(2), len(text) + random.choice((-5, 2, 10, 3000)))
        found = hyperloglog_codec.raised_sparse(text, *given)
        assert found == hyperloglog_codec_plain.raised_sparse(text, *given)
        for each in (text, found[0]):
            counts = hyperloglog_codec.run_histogram(each, HEADER_SIZE, REGISTERS_COUNT)
            assert counts == hyperloglog_codec_plain.run_histogram(each, HEADER_SIZE, REGISTERS_COUNT)


@in_both_forms
def test_sparse_registers_are_raised_to_the_ranks_of_elements(form: ModuleType) -> None:
    elements = [b"skipped", *(b"element %d" % number for number in range(300))]
    ranks = [0] * REGISTERS_COUNT
    for element in elements[1:]:
        register, rank = form.place_of(element)
        ranks[register] = max(ranks[register], rank)
    text, raised_count, end, _ = form.raised_sparse(EMPTY, elements, 1, 3000)
    assert (raised_count > 290, end) == (True, len(elements))
    assert form.spread_runs(text, HEADER_SIZE, REGISTERS_COUNT) == bytes(ranks)
    assert form.run_histogram(text, HEADER_SIZE, REGISTERS_COUNT) == form.histogram(bytes(ranks))
    assert text[FLAG_AT] == STALE
    # A string that stays the same is not copied.
    again, raised_count, end, _ = form.raised_sparse(text, elements, 1, 3000)
    assert again is text
    assert (raised_count, end) == (0, len(elements))
    # What has no room is not added.
    text, raised_count, end, outcome = form.raised_sparse(EMPTY, elements, 1, 100)
    assert outcome == NO_ROOM
    assert raised_count < end < 100
    assert len(text) <= 100


@in_both_forms
def test_packed_registers_are_unpacked_and_packed_again(form: ModuleType) -> None:
    registers = bytes([byte & 63 for byte in Random(SEED).randbytes(REGISTERS_COUNT)])
    packed = form.packed(registers)
    assert packed == hyperloglog_codec_plain.packed(registers)
    assert form.unpacked(packed) == form.unpacked(b"head" + packed, 4) == registers


@in_both_forms
@pytest.mark.parametrize("size", [0, 1, 3, 4, 6, REGISTERS_COUNT])
def test_registers_are_counted_by_their_values(form: ModuleType, size: int) -> None:
    registers = bytes([byte & 63 for byte in Random(SEED).randbytes(size)])
    assert form.histogram(registers) == [registers.count(value) for value in range(64)]


@in_both_forms
def test_registers_are_raised_to_those_of_another_hyperloglog(form: ModuleType) -> None:
    source = Random(SEED)
    one, other = (bytes([byte & 63 for byte in source.randbytes(REGISTERS_COUNT)]) for _ in range(2))
    larger = bytes(map(max, one, other))
    registers = bytearray(one)
    form.raise_packed(registers, b"head" + form.packed(other), 4)
    assert registers == larger
    runs = b"".join([bytes((0x80 | (value - 1 & 31) << 2,)) for value in other])
    few = form.spread_runs(runs, 0, REGISTERS_COUNT)
    registers = bytearray(one)
    assert form.raise_by_runs(registers, b"head" + runs, 4)
    assert registers == bytes(map(max, one, few))
    assert not form.raise_by_runs(registers, runs[1:], 0)
    assert not form.raise_by_runs(registers, runs + runs[:1], 0)
    for call in (form.raise_packed, form.raise_by_runs):
        with pytest.raises(ValueError, match="not all"):
            call(registers[1:], runs, 0)


@in_both_forms
def test_dense_registers_are_raised_to_the_ranks_of_elements(form: ModuleType) -> None:
    elements = [b"skipped", *(b"element %d" % number for number in range(50_000))]
    ranks = [0] * REGISTERS_COUNT
    raised_count = 0
    for element in elements[1:]:
        register, rank = form.place_of(element)
        raised_count += ranks[register] < rank
        ranks[register] = max(ranks[register], rank)
    empty = bytes(HEADER_SIZE) + form.packed(bytes(REGISTERS_COUNT))
    text, count = form.raised_dense(empty, elements, 1)
    assert count == raised_count
    assert text[HEADER_SIZE:] == form.packed(bytes(ranks))
    assert text[:HEADER_SIZE] == bytes(FLAG_AT) + bytes((STALE,))
    assert empty == bytes(len(empty))
    # A string that stays the same is not copied.
    again, count = form.raised_dense(text, elements, 1)
    assert again is text
    assert count == 0
