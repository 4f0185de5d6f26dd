"""The order of SCAN, and what a walk guarantees."""

from __future__ import annotations

import random

import pytest

from headrace.store.key_slots import KeySlots


def names(count: int) -> list[bytes]:
    """That many keys."""
    return [b"key:%d" % index for index in range(count)]


def filled(count: int) -> KeySlots:
    """The slots of that many keys."""
    slots = KeySlots()
    for key in names(count):
        slots.add(key)
    return slots


def walk(slots: KeySlots, count: int) -> list[bytes]:
    """All keys that one SCAN meets."""
    met, cursor = slots.scan(0, count)
    while cursor:
        found, cursor = slots.scan(cursor, count)
        met += found
    return met


@pytest.mark.parametrize("count", [1, 2, 10, 1000])
@pytest.mark.parametrize("keys_count", [0, 1, 3, 500, 20_000])
def test_scan_meets_every_key_once(keys_count: int, count: int) -> None:
    slots = filled(keys_count)
    met = walk(slots, count)
    assert sorted(met) == sorted(names(keys_count))


def test_scan_step_stays_near_count() -> None:
    slots = filled(20_000)
    cursor, steps = 0, 0
    while cursor or not steps:
        previous = cursor
        found, cursor = slots.scan(cursor, 10)
        steps += 1
        assert previous < cursor < 2**48 or cursor == 0
        assert len(found) == 10 or cursor == 0
    assert steps == 2_000


def test_key_that_stays_is_met_whatever_comes_and_goes() -> None:
    """Goal: SCAN's guarantee. Method: two walks of different step over a keyspace that changes between steps."""
    source = random.Random(7)
    slots, keys = filled(3000), set(names(3000))
    staying = set(source.sample(sorted(keys), 1000))
    met: list[set[bytes]] = [set(), set()]
    cursors: list[int | None] = [None, None]
    fresh = 0
    while cursors != [0, 0]:
        for number, count in enumerate((3, 17)):
            if cursors[number] != 0:
                found, cursors[number] = slots.scan(cursors[number] or 0, count)
                met[number] |= set(found)
        for key in source.sample(sorted(keys - staying), 2):
            slots.remove(key)
            keys.remove(key)
        for _ in range(2):
            fresh += 1
            key = b"fresh:%d" % fresh
            slots.add(key)
            keys.add(key)
    assert staying <= met[0]
    assert staying <= met[1]
    slots.check(keys)


def test_keys_of_one_place_are_met_together() -> None:
    class Key(bytes):
        def __hash__(self) -> int:
            return 5

    slots, keys = KeySlots(), [Key(key) for key in names(20)]
    for key in keys:
        slots.add(key)
    found, cursor = slots.scan(0, 3)
    while cursor:
        more, cursor = slots.scan(cursor, 3)
        found += more
    assert set(found) == set(keys)


def test_cursor_beyond_the_last_key_ends_the_walk() -> None:
    slots = filled(10)
    assert slots.scan(2**64 - 1, 10) == ([], 0)


def test_neighbours_start_with_each_key_in_turn() -> None:
    slots = filled(5000)
    assert sorted(slots.neighbours(index)[0] for index in range(5000)) == sorted(names(5000))
    for index in (0, 1, 4999):
        neighbours = slots.neighbours(index)
        assert len(set(neighbours)) == len(neighbours)
    with pytest.raises(IndexError):
        slots.neighbours(5000)
