"""Packed IDs and packed rows of a sealed chunk, alike in both forms."""

from __future__ import annotations

import random
from array import array
from collections.abc import Callable
from itertools import accumulate
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.store import body_plain
from headrace.store.ids import ID_MAX, SEQ_BITS, SEQ_MASK, U64_MAX, format_id, id_after, make_id

try:
    from headrace.store import body as compiled_body
except ImportError:
    compiled_body = None  # type: ignore[assignment]

FORMS = [body_plain, *([compiled_body] if compiled_body is not None else [])]
HALVES = [0, 1, 255, 256, 2**18, 2**32 - 1, 1_700_000_000_000, 2**48, 2**63, U64_MAX - 1, U64_MAX]
UNLIMITED = 2**40
Texts = list[bytes]


def bulk(text: bytes) -> bytes:
    return b"$%d\r\n%b\r\n" % (len(text), text)


def entry_of(entry_id: int, texts: Texts) -> bytes:
    """The reply form of an entry."""
    return b"*2\r\n" + bulk(format_id(entry_id)) + b"*%d\r\n" % len(texts) + b"".join(map(bulk, texts))


def body_of(form: ModuleType, ids: list[int], entries: list[bytes]) -> Any:
    body = form.Body(UNLIMITED, UNLIMITED)
    for entry_id, entry in zip(ids, entries, strict=True):
        body.append(entry_id, entry)
    return body


def some_ids(count: int) -> list[int]:
    """IDs of which several have the same ms."""
    return [make_id(1_700_000_000_000 + number // 3, number % 3) for number in range(count)]


# -- IDs -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("count", [1, 2, 300])
def test_packed_ids_are_found_at_their_positions(form: ModuleType, count: int) -> None:
    seed = random.randrange(2**32)
    print("seed", seed)
    rng = random.Random(seed)
    for halves in (HALVES, HALVES[:4], [7]):
        drawn = {make_id(rng.choice(halves), rng.choice(halves)) for _ in range(count)}
        ids = sorted(drawn | set(some_ids(count - len(drawn))))
        packed = body_of(form, ids, [b""] * len(ids)).pack_ids()
        positions = range(len(ids))
        assert packed.count == len(ids)
        assert packed.ids(0, len(ids)) == [packed.id_at(position) for position in positions] == ids
        assert [packed.find(entry_id) for entry_id in ids] == list(positions)
        for entry_id in [make_id(ms, seq) for ms in halves for seq in halves]:
            expected = sum(each < entry_id for each in ids)
            assert packed.position(entry_id) == expected
            assert packed.find(entry_id) == (expected if entry_id in ids else -1)
        assert packed.position(id_after(ID_MAX)) == len(ids)


@pytest.mark.parametrize("form", FORMS)
def test_bodies_and_packed_ids_count_alike(form: ModuleType) -> None:
    ids = some_ids(20)
    body = body_of(form, ids, [b""] * 20)
    for index in (body, body.pack_ids()):
        assert [index.find(each) for each in (ids[7], ids[19], make_id(1, 1), ID_MAX)] == [7, 19, -1, -1]
        assert index.count_found([*ids[3:9], make_id(1, 1), ids[9]], 2) == 4
        assert index.count_found(ids, 0) == 20
        assert index.count_run(ids, 3, 3) == 17
        assert index.count_run([ids[3], ids[4], ids[6]], 0, 3) == 2
        assert index.count_run([ids[3]], 0, 4) == 0
        assert index.count_run([*ids[18:], ID_MAX], 0, 18) == 2
        for low, high in ((-1, 2), (3, 2), (0, 21)):
            with pytest.raises(IndexError):
                index.ids(low, high)
        with pytest.raises(IndexError):
            index.id_at(20)


@pytest.mark.parametrize("form", FORMS)
def test_ids_of_one_stream_pack_to_few_bytes(form: ModuleType) -> None:
    packed = body_of(form, some_ids(1000), [b""] * 1000).pack_ids()
    assert packed.memory_size < 4 * 1000


# -- rows ------------------------------------------------------------------------------------------


def check_rows(form: ModuleType, entries_texts: list[Texts], rng: random.Random) -> Any:
    """Pack entries, compare all ways to read them with the entries, and return the rows; None if there are none."""
    count = len(entries_texts)
    ids = some_ids(count)
    entries = [entry_of(*pair) for pair in zip(ids, entries_texts, strict=True)]
    body = body_of(form, ids, entries)
    rows = body.pack_rows(body.pack_ids())
    if rows is None:
        return None
    low, high = sorted(rng.choices(range(count + 1), k=2))
    check_values(form, ids, entries, entries_texts, rows)
    assert rows.slice(0, count) == b"".join(entries)
    assert rows.slice(low, high) == b"".join(entries[low:high])
    assert rows.slice_back(low, high) == b"".join(entries[low:high][::-1])
    assert [rows.slice(position, position + 1) for position in range(count)] == entries
    unpacked = rows.unpack()
    assert (unpacked.ids(0, count), unpacked.slice(0, count)) == (ids, b"".join(entries))
    assert list(unpacked.ends(0, count)) == list(accumulate(map(len, entries)))
    head = rng.randrange(count)
    dead = bytearray(rng.choice((0, 1)) for _ in range(rng.randrange(count)))
    live = [position for position in range(head, count) if not dead[position : position + 1].strip(b"\0")]
    for rest in (rows.without(dead, head), body.without(dead, head)):
        assert rest.slice(0, len(live)) == b"".join(entries[position] for position in live)
    kept = rows.without(dead, head).ids
    assert kept.ids(0, kept.count) == [ids[position] for position in live]
    return rows


def check_values(form: ModuleType, ids: list[int], entries: list[bytes], entries_texts: list[Texts], rows: Any) -> None:
    """Compare rows with the columns of their entries, and with what is made of these."""
    names = entries_texts[0][::2]
    values = rows.values()
    if not names or any(texts[::2] != names or len(texts) != 2 * len(names) for texts in entries_texts):
        assert values is None
        return
    texts = [text for each in entries_texts for text in each[1::2]]
    ms, seq = array("Q", [each >> SEQ_BITS for each in ids]), array("Q", [each & SEQ_MASK for each in ids])
    assert values == (ms, seq, names, b"".join(texts), array("Q", accumulate(map(len, texts))))
    made, body = form.PackedRows.of_values(*values), form.Body.of_values(*values)
    assert made.ids.ids(0, len(ids)) == body.ids(0, len(ids)) == ids
    assert made.slice(0, len(ids)) == body.slice(0, len(ids)) == b"".join(entries)
    assert list(body.ends(0, len(ids))) == list(accumulate(map(len, entries)))
    assert made.memory_size == rows.memory_size
    assert made.replies_size == rows.replies_size == len(b"".join(entries))


def words(rng: random.Random, size_max: int, letters: bytes = b"abcdefgh") -> bytes:
    return bytes(rng.choices(letters, k=rng.randrange(size_max + 1)))


Maker = Callable[[random.Random], Texts]
# Shapes of entries, and bytes of one that is packed.
SHAPES: list[tuple[str, Maker, int]] = [
    ("no fields", lambda rng: [], 1),
    ("constant", lambda rng: [b"kind", b"temperature"], 1),
    ("digits", lambda rng: [b"n", b"%06d" % rng.randrange(10**6)], 12),
    ("numbers", lambda rng: [b"n", b"%d" % rng.randrange(10**9)], 14),
    ("prefix", lambda rng: [b"sensor", b"sensor-%d" % rng.randrange(1000)], 9),
    ("few", lambda rng: [b"event", rng.choice([b"login", b"logout", b"a longer word than these"])], 3),
    ("few, one empty", lambda rng: [b"event", rng.choice([b"", b"logout"])], 3),
    ("letters", lambda rng: [b"word", words(rng, 10)], 14),
    ("bytes", lambda rng: [b"raw", rng.randbytes(rng.randrange(20))], 24),
    ("empty or not", lambda rng: [b"", b"x" * rng.randrange(300)], 200),
    ("one letter", lambda rng: [b"f", b"v" * rng.randrange(100)], 60),
    ("line ends", lambda rng: [b"\r\n", words(rng, 9, b"\r\n$*0")], 14),
    ("random names", lambda rng: [words(rng, 9), words(rng, 9)], 26),
    ("two kinds", lambda rng: rng.choice([[b"a", b"1"], [b"b", words(rng, 5), b"c", b"2"]]), 12),
    ("seven kinds", lambda rng: [b"f", b"%d" % rng.randrange(99)] * rng.randrange(7), 90),
    ("ten fields", lambda rng: [text for number in range(10) for text in (b"f%d" % number, words(rng, 8))], 100),
    ("uuid", lambda rng: [b"id", b"%08x-%04x" % (rng.randrange(2**32), rng.randrange(2**16))], 17),
]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("make", "size"), [shape[1:] for shape in SHAPES], ids=[shape[0] for shape in SHAPES])
def test_rows_give_back_each_entry_and_are_small(form: ModuleType, make: Maker, size: int) -> None:
    seed = random.randrange(2**32)
    print("seed", seed)
    rng = random.Random(seed)
    for count in (1, 2, 9, 700):
        rows = check_rows(form, [make(rng) for _ in range(count)], rng)
        assert rows is not None
    assert rows.memory_size < size * 700 + 3_000


@settings(deadline=None)
@given(
    st.lists(
        st.lists(st.binary(max_size=12) | st.sampled_from([b"", b"name", b"1" * 70, b"12"]), max_size=6), min_size=1
    ),
    st.randoms(use_true_random=False),
)
def test_any_short_entries_are_packed_and_come_back(entries_texts: list[Texts], rng: random.Random) -> None:
    for form in FORMS:
        assert check_rows(form, entries_texts, rng) is not None


def entry_lines(texts: int) -> bytes:
    return entry_of(make_id(5, 5), [b"x"] * texts)


# Bytes that are no entry of the ID 5-5 as the server sends it.
NO_ENTRIES = [
    b"",
    b"x",
    b"+OK\r\n",
    b"*2\r\n$3\r\n5-5\r\n",
    b"*2\r\n$3\r\n5-5\r\n*",
    b"*2\r\n$3\r\n5-5\r\n*0\r",
    b"*2\r\n$3\r\n5-5\r\n*00\r\n",
    b"*2\r\n$3\r\n5-5\r\n*-1\r\n",
    b"*2\r\n$3\r\n5-5\r\n*x\r\n",
    b"*2\r\n$3\r\n5-6\r\n*0\r\n",
    b"*2\r\n$3\r\n5-5\r\n*0\r\n+OK\r\n",
    b"*2\r\n$4\r\n05-5\r\n*0\r\n",
    b"*2\r\n$3\r\n5-5\r\n:0\r\n",
    b"*3\r\n$3\r\n5-5\r\n*0\r\n*0\r\n",
    b"*2\r\n$3\r\n5-5\r\n*1\r\n:1\r\n",
    b"*2\r\n$3\r\n5-5\r\n*1\r\n$-1\r\n",
    b"*2\r\n$3\r\n5-5\r\n*1\r\n$01\r\nx\r\n",
    b"*2\r\n$3\r\n5-5\r\n*1\r\n$1\r\nx\n\n",
    b"*2\r\n$3\r\n5-5\r\n*1\r\n$9\r\nx\r\n",
    b"*2\r\n$3\r\n5-5\r\n*1\r\n$99999999999999999999\r\nx\r\n",
    b"*2\r\n$3\r\n5-5\r\n*2\r\n$1\r\nx\r\n",
    b"*2\r\n$3\r\n5-5\r\n*1\r\n$1\r\nx\r\n$1\r\nx\r\n",
]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("entry", NO_ENTRIES, ids=repr)
def test_other_bytes_than_entries_are_not_packed(form: ModuleType, entry: bytes) -> None:
    body = body_of(form, [make_id(5, 5)], [entry])
    assert body.pack_rows(body.pack_ids()) is None


@pytest.mark.parametrize("form", FORMS)
def test_long_entries_and_very_different_ones_are_not_packed(form: ModuleType) -> None:
    for texts, is_packed in (
        ([[b"f", b"v" * 400]], True),
        ([[b"f", b"v" * 600]], False),
        ([[b"x"] * 128], False),
        ([[b""] * 74], True),
        ([[b"x"] * 128, *[[]] * 9], True),
        ([[b"x"] * 129, *[[]] * 9], False),
        ([[b"x"] * number for number in range(8)], True),
        ([[b"x"] * number for number in range(9)], False),
    ):
        assert (check_rows(form, texts, random.Random(1)) is not None) == is_packed, (len(texts), len(texts[0]))


@pytest.mark.parametrize("form", FORMS)
def test_long_entries_and_those_with_many_fields_are_not_packed_from_columns(form: ModuleType) -> None:
    for size, width, is_packed in ((400, 1, True), (600, 1, False), (1, 30, True), (0, 65, False)):
        texts, ends = b"v" * size * width, array("Q", range(size, size * width + 1, size) if size else [0] * width)
        one, names = array("Q", [1]), [b"f"] * width
        rows = form.PackedRows.of_values(one, one, names, texts, ends)
        assert (rows is not None) == is_packed, (size, width)
        assert form.Body.of_values(one, one, names, texts, ends).count == 1


@pytest.mark.parametrize("form", FORMS)
def test_columns_of_different_entries_are_refused(form: ModuleType) -> None:
    none, one, two = array("Q"), array("Q", [1]), array("Q", [1, 2])
    for columns in (
        (none, none, [b"f"], b"", none),
        (one, two, [b"f"], b"v", one),
        (one, one, [b"f", b"g"], b"v", one),
        (one, one, [b"f"], b"vv", one),
        (one, one, [], b"", none),
        (two, two, [b"f"], b"vv", array("Q", [3, 2])),
    ):
        for make in (form.PackedRows.of_values, form.Body.of_values):
            with pytest.raises(ValueError, match=r"value|columns"):
                make(*columns)


@pytest.mark.parametrize("form", FORMS)
def test_rows_outside_are_refused(form: ModuleType) -> None:
    rows = check_rows(form, [[b"f", b"v"]] * 5, random.Random(1))
    for low, high in ((-1, 2), (3, 2), (0, 6)):
        for method in (rows.slice, rows.slice_back):
            with pytest.raises(IndexError):
                method(low, high)
