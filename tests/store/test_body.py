"""What chunks hold, alike in both forms."""

from __future__ import annotations

import random
from array import array
from itertools import accumulate
from types import ModuleType
from typing import Any

import pytest

from headrace.store import body_plain
from headrace.store.ids import ID_MAX, SEQ_BITS, SEQ_MASK, U64_MAX, id_after, id_before, make_id

try:
    from headrace.store import body as compiled_body
except ImportError:
    compiled_body = None  # type: ignore[assignment]

FORMS = [body_plain, *([compiled_body] if compiled_body is not None else [])]
HALVES = [0, 1, 2**18 - 1, 2**18, 2**32, 1_700_000_000_000, 2**48 - 1, 2**48, 2**63, U64_MAX - 1, U64_MAX]
SIZES = [0, 1, 50, 3000]
UNLIMITED = 2**40


def filled(form: ModuleType, count: int, rng: random.Random) -> tuple[Any, list[int], list[bytes]]:
    """A body, the IDs and the entries in it."""
    wanted = {make_id(rng.choice(HALVES), rng.choice(HALVES)) for _ in range(count)}
    wanted |= {make_id(5 + number // 3, number) for number in range(count - len(wanted))}
    ids = sorted(wanted)
    entries = [rng.randbytes(rng.choice(SIZES)) for _ in ids]
    body = form.Body(UNLIMITED, UNLIMITED)
    for entry_id, entry in zip(ids, entries, strict=True):
        assert body.append(entry_id, entry) is False
    return body, ids, entries


def same(body: Any, ids: list[int], entries: list[bytes]) -> bool:
    """Whether a body holds these, and no more."""
    count = len(ids)
    return (
        body.count == count
        and body.ids(0, count) == ids
        and body.slice(0, count) == b"".join(entries)
        and list(body.ends(0, count)) == list(accumulate(map(len, entries)))
    )


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("count", [0, 1, 2, 500])
def test_a_body_gives_back_what_was_put_in(form: ModuleType, count: int) -> None:
    seed = random.randrange(2**32)
    print("seed", seed)
    rng = random.Random(seed)
    body, ids, entries = filled(form, count, rng)
    assert same(body, ids, entries)
    for low, high in [(0, 0), (0, count), (count, count), (count // 3, count // 2), (count // 2, count // 2)]:
        assert body.ids(low, high) == ids[low:high]
        assert body.slice(low, high) == b"".join(entries[low:high])
        assert body.slice_back(low, high) == b"".join(entries[low:high][::-1])
        assert list(body.ends(low, high)) == list(accumulate(map(len, entries[low:high])))
        ms, seq = body.columns(low, high)
        assert list(ms) == [entry_id >> SEQ_BITS for entry_id in ids[low:high]]
        assert list(seq) == [entry_id & SEQ_MASK for entry_id in ids[low:high]]
    assert [body.id_at(position) for position in range(count)] == ids
    if count:
        assert body.last_id == ids[-1]


@pytest.mark.parametrize("form", FORMS)
def test_positions_are_found_among_the_ids(form: ModuleType) -> None:
    seed = random.randrange(2**32)
    print("seed", seed)
    body, ids, _ = filled(form, 60, random.Random(seed))
    for wanted in [0, *ids, *map(id_after, ids), *map(id_before, ids[1:]), ID_MAX, id_after(ID_MAX)]:
        assert body.position(wanted) == sum(entry_id < wanted for entry_id in ids)
    assert form.Body(1, 1).position(make_id(1, 1)) == 0


@pytest.mark.parametrize("form", FORMS)
def test_what_is_here_is_counted_up_to_the_first_that_is_not(form: ModuleType) -> None:
    body, ids, _ = filled(form, 50, random.Random(3))
    gone = next(after for after in map(id_after, ids) if after not in ids)
    turned = ids[::-1]
    for start, wanted, found in (
        (0, ids, 50), (49, ids, 1), (50, ids, 0), (3, turned, 47), (0, [*ids[:9], gone, ids[9]], 9), (0, [gone], 0),
        (0, [], 0), (1, [gone, ids[0]], 1),
    ):  # fmt: skip
        assert body.count_found(wanted, start) == found


@pytest.mark.parametrize("form", FORMS)
def test_nothing_is_read_where_no_entry_is(form: ModuleType) -> None:
    body = form.Body(UNLIMITED, UNLIMITED)
    with pytest.raises(IndexError):
        _ = body.last_id
    for number in (1, 2):
        body.append(make_id(number, 0), b"entry")
    for low, high in ((0, 3), (-1, 1), (2, 1), (3, 3)):
        for read in (body.ids, body.columns, body.ends, body.slice, body.slice_back):
            with pytest.raises(IndexError):
                read(low, high)
    for position in (-1, 2):
        with pytest.raises(IndexError):
            body.id_at(position)
        with pytest.raises(IndexError):
            form.Body(1, 1).extend(body, position)


@pytest.mark.parametrize("form", FORMS)
def test_a_body_is_full_from_its_limits_on(form: ModuleType) -> None:
    by_size, by_count = form.Body(10, 100), form.Body(10_000, 3)
    assert [by_size.append(make_id(1, seq), b"12345") for seq in range(2)] == [False, True]
    assert [by_count.append(make_id(1, seq), b"12345") for seq in range(3)] == [False, False, True]
    for body in (by_size, by_count):
        assert body.is_full
    assert not form.Body(10, 3).is_full


@pytest.mark.parametrize("form", FORMS)
def test_what_another_body_has_goes_in_as_it_would_one_by_one(form: ModuleType) -> None:
    seed = random.randrange(2**32)
    print("seed", seed)
    rng = random.Random(seed)
    for _ in range(200):
        limits = rng.choice([1, 200, 4000, UNLIMITED]), rng.choice([1, 2, 7, UNLIMITED])
        one_by_one, at_once = form.Body(*limits), form.Body(*limits)
        source, ids, entries = filled(form, rng.randrange(2, 12), rng)
        start = rng.randrange(source.count)
        for number in range(start):  # put something before them, if there is room
            for body in (one_by_one, at_once):
                if not body.is_full:
                    body.append(ids[number], entries[number])
        low = start
        while low < source.count and not one_by_one.append(ids[low], entries[low]):
            low += 1
        assert at_once.extend(source, start) == min(low + 1, source.count)
        assert at_once.count == one_by_one.count
        assert at_once.block() == one_by_one.block()
        assert at_once.is_full == one_by_one.is_full
        assert same(source, ids, entries)


@pytest.mark.parametrize("form", FORMS)
def test_a_copy_grows_by_itself(form: ModuleType) -> None:
    body, ids, entries = filled(form, 40, random.Random(1))
    twin = body.copy()
    assert twin.append(ID_MAX, b"of the copy") is False
    assert same(body, ids, entries)
    assert same(twin, [*ids, ID_MAX], [*entries, b"of the copy"])
    full = form.Body(5, 5)
    full.append(1, b"12345")
    assert full.copy().is_full


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("count", [0, 1, 1000])
def test_a_block_becomes_the_same_body_again(form: ModuleType, count: int) -> None:
    seed = random.randrange(2**32)
    print("seed", seed)
    body, ids, entries = filled(form, count, random.Random(seed))
    block = body.block()
    assert block == body_plain.Body.of_block(block).block()
    twin = form.Body.of_block(block)
    assert same(twin, ids, entries)
    assert twin.is_full
    for cut in (0, 3, 7, len(block) - 1):
        if cut < len(block):
            with pytest.raises(ValueError, match=r"cut off|different bodies"):
                form.Body.of_block(block[:cut])
    with pytest.raises(ValueError, match="different bodies"):
        form.Body.of_block(block + b"more")
    grown = form.Body(UNLIMITED, UNLIMITED)
    grown.read_block(block)
    assert grown.block() == block
    assert not grown.is_full
    if count:
        with pytest.raises(ValueError, match="a body with entries"):
            grown.read_block(form.Body(0, 0).block())
    assert grown.append(ID_MAX, b"last") is False
    assert grown.slice(0, grown.count) == body.slice(0, body.count) + b"last"


@pytest.mark.parametrize("form", FORMS)
def test_columns_that_do_not_fit_make_no_body(form: ModuleType) -> None:
    two, three = array("Q", (1, 2)), array("Q", (1, 2, 3))
    body = form.Body.of_columns(b"abc", two, two, array("Q", (1, 3)))
    assert same(body, [make_id(1, 1), make_id(2, 2)], [b"a", b"bc"])
    assert body.is_full
    for columns in ((two, two, three), (two, three, two), (three, two, two)):
        with pytest.raises(ValueError, match="different bodies"):
            form.Body.of_columns(b"abc" if columns[2] is three else b"ab", *columns)
    with pytest.raises(ValueError, match="different bodies"):
        form.Body.of_columns(b"ab", two, two, array("Q", (1, 3)))
    with pytest.raises(ValueError, match="before it begins"):
        form.Body.of_columns(b"ab", three, three, array("Q", (1, 0, 2)))


@pytest.mark.parametrize("form", FORMS)
def test_memory_counts_the_room_for_more_until_it_is_given_back(form: ModuleType) -> None:
    body, ids, entries = filled(form, 100, random.Random(2))
    before, held = body.memory_size, sum(map(len, entries)) + 100 * 24
    assert held < before < 1.6 * held
    body.fit()
    assert held < body.memory_size < held + 400
    assert same(body, ids, entries)
    body.append(ID_MAX, b"again")
    assert same(body, [*ids, ID_MAX], [*entries, b"again"])


@pytest.mark.skipif(compiled_body is None, reason="not compiled")
def test_what_is_no_id_is_not_added_in_c() -> None:
    body = compiled_body.Body(10, 10)
    for number, error in ((-1, OverflowError), (make_id(U64_MAX + 1, 0), OverflowError), (None, TypeError)):
        with pytest.raises(error):
            body.append(number, b"entry")
    with pytest.raises(TypeError):
        body.append(1, None)
    assert body.count == 0
