"""Elements and their numbers: what texts spell, and the order of elements by them."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Final

from ...store.errors import GenericError
from ..core.numbers import parse_float
from ..core.sorted_runs import sort_in_steps
from ..execution.slices import STEP_COUNT

NOT_A_NUMBER: Final = b"One or more scores can't be converted into double"

# Texts of these bytes, and no longer than this, are numbers for C if they are for Python, and neither too large nor too
# small.
_PLAIN: Final = b"0123456789+-."
_PLAIN_SIZE_MAX: Final = 300

Numbers = Sequence[float]


def plain_numbers(texts: list[bytes]) -> list[float] | None:
    """The numbers that texts spell in digits; None if one spells none, or another way."""
    if len(max(texts, key=len, default=b"")) > _PLAIN_SIZE_MAX or b"".join(texts).translate(None, _PLAIN):
        return None
    try:
        return list(map(float, texts))
    except ValueError:
        return None


def numbers_of(texts: list[bytes]) -> list[float]:
    """The numbers that texts spell. Raises GenericError."""
    plain = plain_numbers(texts)
    if plain is not None:
        return plain
    numbers: list[float] = []
    for text in texts:
        number = parse_float(text)
        if number is None:
            raise GenericError(NOT_A_NUMBER)
        numbers.append(number)
    return numbers


def by_bytes_too(elements: list[bytes], numbers: Numbers, places: list[int], *, reverse: bool) -> list[bytes]:
    """The elements at these places, which are in the order of their numbers: those of one number by their bytes."""
    found = [elements[place] for place in places]
    values = [numbers[place] for place in places]
    if len(set(values)) == len(values):
        return found
    start = 0
    for end in range(1, len(found) + 1):
        if end == len(found) or values[end] != values[start]:
            if end - start > 1:
                found[start:end] = sorted(found[start:end], reverse=reverse)
            start = end
    return found


def in_order(elements: list[bytes], numbers: Numbers, *, reverse: bool) -> Generator[None, None, list[bytes]]:
    """The elements in the order of their numbers, those of one number by their bytes, in steps."""
    unsorted: list[int] = []
    for start in range(0, len(elements), STEP_COUNT):
        unsorted.extend(range(start, min(start + STEP_COUNT, len(elements))))
        yield
    places = yield from sort_in_steps(unsorted, numbers.__getitem__, reverse=reverse)
    unsorted.clear()
    ordered: list[bytes] = []
    start = 0
    while start < len(places):
        end = _end_of_step(numbers, places, start)
        if end > start:
            ordered += by_bytes_too(elements, numbers, places[start:end], reverse=reverse)
            # The objects of a million places would be freed at once.
            places[start:end] = [0] * (end - start)
            yield
        else:
            number = numbers[places[start]]
            while end < len(places) and numbers[places[end]] == number:
                end += 1
                if not end % STEP_COUNT:
                    yield
            found = yield from elements_at(elements, places, start, end)
            ordered += yield from sort_in_steps(found, None, reverse=reverse)
        start = end
    return ordered


def elements_at(elements: list[bytes], places: list[int], start: int, end: int) -> Generator[None, None, list[bytes]]:
    """The elements at the places between two indexes. The objects of these places are freed in the same steps."""
    found: list[bytes] = []
    for first in range(start, end, STEP_COUNT):
        last = min(first + STEP_COUNT, end)
        found += [elements[place] for place in places[first:last]]
        places[first:last] = [0] * (last - first)
        yield
    return found


def _end_of_step(numbers: Numbers, places: list[int], start: int) -> int:
    """The end of the places of a step, before those of a number that does not end in it; `start` if there are no
    others."""
    end = start + STEP_COUNT
    if end >= len(places):
        return len(places)
    number = numbers[places[end]]
    while end > start and numbers[places[end - 1]] == number:
        end -= 1
    return end
