"""A quicksort that sorts only a part: which of several equal elements are in it, and in which order, is as in Redis.

It is the quicksort of Bentley and McIlroy, "Engineering a Sort Function", but the partitions outside the part are not
sorted. Source: pqsort.c of Redis.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

from ..execution.slices import STEP_COUNT

# Shorter ranges are sorted by insertion.
FEW: Final = 7
# Longer ranges take the median of nine elements.
MANY: Final = 40


def sort_part(keys: list[int], places: list[int], start: int, stop: int) -> Generator[None, None, None]:
    """Sort keys, and places along with them, in steps, so that those from index `start` on, before `stop`, are as in a
    sorted list."""
    treated = 0
    ranges = [(0, len(keys))]
    while ranges:
        low, high = ranges.pop()
        if high - low < FEW:
            _insert(keys, places, low, high)
            continue
        left, right = yield from _partition(keys, places, low, high)
        treated += high - low
        if treated >= STEP_COUNT:
            treated = 0
            yield
        for begin, end in ((low, left), (right, high)):
            if end - begin > 1 and not (stop <= begin or start >= end):
                ranges.append((begin, end))


def _swap(keys: list[int], places: list[int], one: int, other: int) -> None:
    keys[one], keys[other] = keys[other], keys[one]
    places[one], places[other] = places[other], places[one]


def _insert(keys: list[int], places: list[int], low: int, high: int) -> None:
    for index in range(low + 1, high):
        at = index
        while at > low and keys[at - 1] > keys[at]:
            _swap(keys, places, at, at - 1)
            at -= 1


def _median(keys: list[int], one: int, two: int, three: int) -> int:
    """The index of the median of three keys; of equal ones, the one that Redis takes."""
    if keys[one] < keys[two]:
        if keys[two] < keys[three]:
            return two
        return three if keys[one] < keys[three] else one
    if keys[two] > keys[three]:
        return two
    return one if keys[one] < keys[three] else three


def _pivot(keys: list[int], low: int, high: int) -> int:
    count = high - low
    middle = low + count // 2
    if count == FEW:
        return middle
    first, last = low, high - 1
    if count > MANY:
        step = count // 8
        first = _median(keys, first, first + step, first + 2 * step)
        middle = _median(keys, middle - step, middle, middle + step)
        last = _median(keys, last - 2 * step, last - step, last)
    return _median(keys, first, middle, last)


def _partition(keys: list[int], places: list[int], low: int, high: int) -> Generator[None, None, tuple[int, int]]:
    """Partition a range. Returns the end of the smaller keys and the begin of the larger ones. Between them are those
    that equal the pivot.

    These are collected at both ends first.
    """
    _swap(keys, places, low, _pivot(keys, low, high))
    pivot = keys[low]
    equal_left = left = low + 1
    equal_right = right = high - 1
    while True:
        while left <= right and keys[left] <= pivot:
            if keys[left] == pivot:
                _swap(keys, places, equal_left, left)
                equal_left += 1
            left += 1
            if not left % STEP_COUNT:
                yield
        while left <= right and keys[right] >= pivot:
            if keys[right] == pivot:
                _swap(keys, places, right, equal_right)
                equal_right -= 1
            right -= 1
            if not right % STEP_COUNT:
                yield
        if left > right:
            break
        _swap(keys, places, left, right)
        left += 1
        right -= 1
        if not left % STEP_COUNT:
            yield
    _swap_ranges(keys, places, low, left, min(equal_left - low, left - equal_left))
    _swap_ranges(keys, places, left, high, min(equal_right - right, high - equal_right - 1))
    return low + left - equal_left, high - (equal_right - right)


def _swap_ranges(keys: list[int], places: list[int], begin: int, end: int, count: int) -> None:
    """Swap so many keys from `begin` on with those before `end`."""
    for offset in range(count):
        _swap(keys, places, begin + offset, end - count + offset)
