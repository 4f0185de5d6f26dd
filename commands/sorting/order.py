"""The order of sorted elements: by numbers or by texts, of their own or of a pattern; of many elements in steps."""

from __future__ import annotations

from array import array
from collections.abc import Generator

from ...store.errors import NUL
from ..core.sorted_runs import sort_in_steps
from ..execution.slices import STEP_COUNT
from .numbered import Numbers, by_bytes_too, numbers_of
from .partial_sort import sort_part
from .patterns import until_nul

try:
    from .number_order import sorted_by_numbers
except ImportError:  # there was no C compiler at installation
    from .number_order_plain import sorted_by_numbers

# The last step returns elements.
Elements = Generator[None, None, list[bytes]]


def sort_few_by_numbers(elements: list[bytes], weights: list[bytes | None] | None, *, reverse: bool) -> list[bytes]:
    """Like `sort_by_numbers`, at once."""
    texts = elements if weights is None else [weight if weight is not None else b"0" for weight in weights]
    found = sorted_by_numbers(elements, texts, reverse)
    if found is not None:
        return found
    numbers = numbers_of(texts)
    places = sorted(range(len(numbers)), key=numbers.__getitem__, reverse=reverse)
    return by_bytes_too(elements, numbers, places, reverse=reverse)


def sort_by_numbers(elements: list[bytes], weights: list[bytes | None] | None, *, reverse: bool) -> Elements:
    """The elements in the order of their weights, or of their own numbers; those of one number are ordered by their
    bytes. A missing weight is 0. Raises GenericError if a weight is no number."""
    # Freed at once, unlike the objects of a list.
    numbers = array("d")
    unsorted: list[int] = []
    for start in range(0, len(elements), STEP_COUNT):
        if weights is None:
            numbers.extend(numbers_of(elements[start : start + STEP_COUNT]))
        else:
            part = weights[start : start + STEP_COUNT]
            numbers.extend(numbers_of([weight if weight is not None else b"0" for weight in part]))
        unsorted.extend(range(start, len(numbers)))
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
            found = yield from _taken(elements, places, start, end)
            ordered += yield from sort_in_steps(found, None, reverse=reverse)
        start = end
    return ordered


def _taken(elements: list[bytes], places: list[int], start: int, end: int) -> Elements:
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


def sort_few_by_own_texts(elements: list[bytes], *, reverse: bool, is_stored: bool) -> list[bytes]:
    """Like `sort_by_own_texts`, at once."""
    if is_stored or not any(NUL in element for element in elements):
        return sorted(elements, reverse=reverse)
    return sorted(elements, key=until_nul, reverse=reverse)


def sort_by_own_texts(elements: list[bytes], *, reverse: bool, is_stored: bool) -> Elements:
    """The elements in the order of their bytes. Bytes after a NUL count only for a result that is stored."""
    has_nul = False
    for start in range(0, 0 if is_stored else len(elements), STEP_COUNT):
        has_nul = has_nul or any(NUL in element for element in elements[start : start + STEP_COUNT])
        yield
    found = yield from sort_in_steps(elements, until_nul if has_nul else None, reverse=reverse)
    return found


def sort_by_texts(
    elements: list[bytes], weights: list[bytes | None], *, reverse: bool, is_stored: bool, start: int, stop: int
) -> Elements:
    """The elements in the order of their weights; a missing one is before all others. Only those from index `start` on,
    before `stop`, are in their places.

    Elements of equal weights keep their order, unless only a part is sorted: then they are as Redis' algorithm leaves
    them.
    """
    texts: list[bytes | None] = []
    different: set[bytes | None] = set()
    for first in range(0, len(weights), STEP_COUNT):
        part = [
            weight if weight is None or is_stored else until_nul(weight)
            for weight in weights[first : first + STEP_COUNT]
        ]
        texts += part
        different.update(part)
        yield
    different.discard(None)
    distinct = yield from sort_in_steps(list(different), None, reverse=False)
    ranks: dict[bytes | None, int] = {None: 0}
    for text in distinct:
        ranks[text] = len(ranks)
        if not len(ranks) % STEP_COUNT:
            yield
    sign = -1 if reverse else 1
    keys: list[int] = []
    for first in range(0, len(texts), STEP_COUNT):
        keys += [sign * ranks[text] for text in texts[first : first + STEP_COUNT]]
        yield
    places: list[int] = []
    for first in range(0, len(elements), STEP_COUNT):
        places.extend(range(first, min(first + STEP_COUNT, len(elements))))
        yield
    if (start > 0 or stop < len(elements)) and len(ranks) <= len(elements):
        yield from sort_part(keys, places, start, stop)
    else:
        places = yield from sort_in_steps(places, keys.__getitem__, reverse=False)
    found = yield from _taken(elements, places, 0, len(places))
    return found
