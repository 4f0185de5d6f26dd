"""Texts of members, many at a time: both forms write what single texts are written as, and read the same ones."""

from __future__ import annotations

import math
import struct
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from headrace.persistence.errors import RdbError
from headrace.persistence.rdb import member_codec_plain
from headrace.persistence.rdb.lengths import encode_length, encode_string
from headrace.persistence.rdb.listpack import encode_text, pack
from headrace.persistence.rdb.source import Source
from headrace.persistence.rdb.texts import COUNT_MAX, read_members, read_strings, read_timed_fields
from headrace.protocol.scalars import double_text
from headrace.store.companions.places_plain import place_of

try:
    from headrace.persistence.rdb import member_codec
except ImportError:
    member_codec = None  # type: ignore[assignment]

FORMS = [member_codec_plain, *([member_codec] if member_codec is not None else [])]

NUMBERS = [sign * 2**bits + step for bits in (7, 12, 15, 23, 31, 32, 63) for sign in (1, -1) for step in (-1, 0, 1)]
TEXTS = [
    b"", b"0", b"-", b"-0", b"00", b"01", b"1 ", b" 1", b"+1", b"12a", b"9" * 11, b"9" * 20, b"-" + b"9" * 10, b"\x00",
    *(b"%d" % number for number in NUMBERS), *(b"x" * size for size in (12, 20, 21, 63, 64, 300, 4095, 4096, 16_384)),
    b"\xff" * 12, bytes(range(256)), b"abcdefgh" * 1000,
]  # fmt: skip
MEMBERS = some.lists(some.sampled_from(TEXTS) | some.binary(max_size=40), max_size=12)


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=200, deadline=None)
@given(MEMBERS, some.booleans(), some.integers(1, 12))
def test_texts_are_written_as_single_ones_and_come_back(
    form: ModuleType, texts: list[bytes], compress: bool, count: int
) -> None:
    made = form.encode_strings(texts, compress)
    assert made == b"".join(encode_string(text, compress=compress) for text in texts)
    found, position = form.read_some(b"before" + made, len(b"before"), count)
    assert found == texts[:count]
    assert position == len(b"before") + len(form.encode_strings(found, compress))


@pytest.mark.parametrize("form", FORMS)
def test_every_text_comes_back(form: ModuleType) -> None:
    for compress in (True, False):
        for text in TEXTS:
            made = form.encode_strings([text], compress)
            assert made == encode_string(text, compress=compress)
            assert form.read_some(made, 0, 5) == ([text], len(made))


@pytest.mark.parametrize("form", FORMS)
def test_what_is_incomplete_or_damaged_is_left(form: ModuleType) -> None:
    # A text that is cut off, a length that is none, and one whose compressed form is damaged.
    for rest in (b"\x03ab", b"\x40", b"\x80\x00", b"\xc1\x01", b"\xc9", b"\xc3\x01\x20\xff", b""):
        assert form.read_some(b"\x01a\xc0\x05" + rest, 0, 9) == ([b"a", b"5"], 4)
    assert form.read_some(b"\x03ab", 0, 9) == ([], 0)


@pytest.mark.parametrize("form", FORMS)
def test_members_are_written_with_their_scores(form: ModuleType) -> None:
    scores = [0.0, -0.0, 1.5, -2.25, math.inf, -math.inf, 5e-324, 1.7976931348623157e308]
    words = [word for number, score in enumerate(scores) for word in (TEXTS[number], score)]
    assert form.encode_scored(words, True) == b"".join(
        encode_string(TEXTS[number], compress=True) + struct.pack("<d", score) for number, score in enumerate(scores)
    )
    assert form.encode_scored([], True) == b""


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=200, deadline=None)
@given(MEMBERS)
def test_listpacks_have_the_elements_of_single_texts(form: ModuleType, texts: list[bytes]) -> None:
    packed = form.pack_texts(texts)
    assert packed == pack([encode_text(text) for text in texts], len(texts))
    assert form.unpack_texts(packed) == texts


@pytest.mark.parametrize("form", FORMS)
def test_every_element_of_a_listpack_comes_back(form: ModuleType) -> None:
    assert form.unpack_texts(form.pack_texts(TEXTS)) == TEXTS
    many = [b"%d" % number for number in range(70_000)]
    assert form.unpack_texts(form.pack_texts(many)) == many


def test_both_forms_refuse_the_same_listpacks() -> None:
    packed = member_codec_plain.pack_texts([b"a", b"500", b"-70000", b"x" * 70, b"5" * 18])
    for at in range(len(packed)):
        for byte in (0, 1, 0x7F, 0xC0, 0xE1, 0xF0, 0xF3, 0xFF):
            damaged = packed[:at] + bytes((byte,)) + packed[at + 1 :]
            assert len({_outcome(form, damaged) for form in FORMS}) == 1
        assert len({_outcome(form, packed[:at]) for form in FORMS}) == 1


def _outcome(form: ModuleType, packed: bytes) -> str:
    try:
        return repr(form.unpack_texts(packed))
    except RdbError as refusal:
        return str(refusal)


def test_strings_are_read_across_blocks() -> None:
    texts = [b"%d" % number for number in range(3 * COUNT_MAX)]
    data = member_codec_plain.encode_strings(texts, True)
    source = Source(data[start : start + 1000] for start in range(0, len(data), 1000))
    found: list[bytes] = []
    while len(found) < len(texts):
        part = read_strings(source, len(texts) - len(found))
        assert 0 < len(part) <= COUNT_MAX
        found += part
    assert found == texts
    with pytest.raises(RdbError):
        read_strings(source, 1)


@pytest.mark.parametrize("form", FORMS)
def test_fields_are_written_with_their_times(form: ModuleType) -> None:
    pairs = [(b"f", b"v"), (b"5", b"x" * 300), (b"g", b"")]
    words, times = [word for pair in pairs for word in pair], {b"5": 1_700_000_000_000, b"g": 1_700_000_070_000}
    assert form.encode_timed(words, times, 1_700_000_000_000, True) == b"".join(
        encode_length(after) + encode_string(name, compress=True) + encode_string(text, compress=True)
        for (name, text), after in zip(pairs, (0, 1, 70_001), strict=True)
    )


@pytest.mark.parametrize("form", FORMS)
def test_members_are_read_with_their_scores(form: ModuleType) -> None:
    words: list[bytes | float] = [b"m", 1.5, b"5", -math.inf, b"x" * 300, -0.0]
    made = form.encode_scored(words, True)
    for count in (1, 2, 3, 9):
        members, scores, position = form.read_scored(b"before" + made, len(b"before"), count)
        assert repr([word for pair in zip(members, scores, strict=True) for word in pair]) == repr(words[: 2 * count])
        assert position == len(b"before") + len(form.encode_scored(words[: 2 * count], True))
    # A score or a member that is cut off is left.
    assert form.read_scored(made[:-1], 0, 9)[:2] == ([b"m", b"5"], [1.5, -math.inf])
    assert form.read_scored(b"\x03ab", 0, 9) == ([], [], 0)


@pytest.mark.parametrize("form", FORMS)
def test_fields_are_read_with_the_numbers_before_them(form: ModuleType) -> None:
    pairs = [(b"f", b"v"), (b"5", b"x" * 300), (b"g", b"")]
    words, afters = [word for pair in pairs for word in pair], [0, 1, 70_001]
    times = {b"5": 1_700_000_000_000, b"g": 1_700_000_070_000}
    made = form.encode_timed(words, times, 1_700_000_000_000, True)
    for count in (1, 2, 3, 9):
        found = form.read_timed(b"before" + made, len(b"before"), count)
        assert found[:2] == (words[: 2 * count], afters[:count])
    assert found[2] == len(b"before") + len(made)
    # A value, a field or a number that is cut off is left.
    for cut in (1, 2, 3):
        assert form.read_timed(made[:-cut], 0, 9)[:2] == (words[:4], afters[:2])
    assert form.read_timed(b"", 0, 9) == ([], [], 0)


def test_members_and_fields_are_read_across_blocks() -> None:
    names = [b"%d" % number for number in range(1000)]
    scored = member_codec_plain.encode_scored([word for name in names for word in (name, float(name))], True)
    source = Source(scored[start : start + 100] for start in range(0, len(scored), 100))
    members: list[bytes] = []
    scores: list[float] = []
    while len(members) < len(names):
        some_members, some_scores = read_members(source, len(names) - len(members))
        members += some_members
        scores += some_scores
    assert (members, scores) == (names, [float(name) for name in names])
    words_with_times = [word for name in names for word in (name, b"v")]
    timed = member_codec_plain.encode_timed(words_with_times, dict.fromkeys(names, 7), 1, True)
    source = Source(timed[start : start + 100] for start in range(0, len(timed), 100))
    words: list[bytes] = []
    while len(words) < 2 * len(names):
        some_words, afters = read_timed_fields(source, len(names) - len(words) // 2)
        assert set(afters) == {7}
        words += some_words
    assert words == [word for name in names for word in (name, b"v")]


DOUBLES = [
    b"1.5", b"-0.25", b"3.0", b"-0.0", b"0.1", b"1.50", b"1.", b".5", b"-.", b"1.2.3", b"-", b"1e5", b"1.5e300", b"nan",
]  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=200, deadline=None)
@given(some.lists(some.sampled_from([*TEXTS, *DOUBLES]) | some.floats().map(lambda number: repr(number).encode())))
def test_elements_are_written_alike_and_come_back(form: ModuleType, texts: list[bytes]) -> None:
    pairs = [[number * 70, text] for number, text in enumerate(texts)]
    made = form.encode_elements(pairs, True)
    assert made == member_codec_plain.encode_elements(pairs, True)
    indexes = [index for index, _ in pairs]
    assert form.read_elements(b"before" + made, 6, len(texts) + 1) == (indexes, texts, 6 + len(made))
    for size in range(min(len(made), 60)):
        assert form.read_elements(made[:size], 0, 99) == member_codec_plain.read_elements(made[:size], 0, 99)


@pytest.mark.parametrize("form", FORMS)
def test_an_element_of_an_unknown_kind_is_left(form: ModuleType) -> None:
    assert form.read_elements(b"\1\3\1x\2\4rest", 0, 9) == ([1], [b"x"], 4)


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=200, deadline=None)
@given(
    some.lists(
        some.tuples(
            some.sampled_from(TEXTS),
            some.floats(allow_nan=False)
            | some.integers(-(2**66), 2**66).map(float)
            | some.sampled_from([-0.0, 2.0**53]),
        )
    )
)
def test_listpacks_have_the_texts_of_scores(form: ModuleType, members: list[tuple[bytes, float]]) -> None:
    packed = form.pack_places([place_of(score, member) for member, score in members])
    assert packed == form.pack_texts([word for member, score in members for word in (member, double_text(score + 0.0))])


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=200, deadline=None)
@given(
    some.sets(some.integers(-(2**63), 2**63 - 1) | some.sampled_from([2**15 - 1, 2**15, -(2**31), 2**31]), min_size=1)
)
def test_intsets_have_numbers_of_the_smallest_size(form: ModuleType, numbers: set[int]) -> None:
    ascending = sorted(numbers)
    size = next(
        size for size in (2, 4, 8) if all(-(2 ** (8 * size - 1)) <= each < 2 ** (8 * size - 1) for each in numbers)
    )
    packed = form.pack_integers(ascending)
    assert packed == struct.pack("<II", size, len(numbers)) + b"".join(
        each.to_bytes(size, "little", signed=True) for each in ascending
    )
    assert form.unpack_integers(packed) == ascending


@pytest.mark.parametrize("form", FORMS)
def test_damaged_intsets_are_refused(form: ModuleType) -> None:
    for damaged, reason in (
        (b"\2\0\0\0\0\0\0", "too short"),
        (b"\3\0\0\0\1\0\0\0abc", "the announced one"),
        (b"\2\0\0\0\2\0\0\0abc", "the announced one"),
        (b"\2\0\0\0\2\0\0\0\1\0\1\0", "do not ascend"),
        (b"\2\0\0\0\2\0\0\0\0\0\xff\xff", "do not ascend"),
    ):
        with pytest.raises(RdbError, match=reason):
            form.unpack_integers(damaged)
    assert form.unpack_integers(b"\2\0\0\0\0\0\0\0") == []


@pytest.mark.parametrize("form", FORMS)
def test_a_place_without_a_score_is_refused(form: ModuleType) -> None:
    with pytest.raises(ValueError, match="short"):
        form.pack_places([b"short"])
