"""The order of sorted elements: by numbers or by texts, of their own or of a pattern; of many elements in steps."""

from __future__ import annotations

from array import array
from collections.abc import Generator, Iterator

from ...store.errors import NUL
from ..core.sorted_runs import sort_in_steps
from ..execution.slices import STEP_COUNT, result_of
from .numbered import elements_at, in_order, numbers_of
from .partial_sort import sort_part
from .patterns import until_nul

try:
    from .number_order import NumberOrder
except ImportError:  # there was no C compiler at installation
    from .number_order_plain import NumberOrder  # type: ignore[assignment]

# The last step returns elements.
Elements = Generator[None, None, list[bytes]]


def sort_few_by_numbers(elements: list[bytes], weights: list[bytes | None] | None, *, reverse: bool) -> list[bytes]:
    """Like `sort_by_numbers`, at once."""
    order = NumberOrder(elements, reverse)
    if not order.add(elements if weights is None else [b"0" if weight is None else weight for weight in weights]):
        found: list[bytes] = result_of(_sort_by_other_numbers(elements, weights, reverse=reverse))
        return found
    while order.merge(STEP_COUNT):
        pass
    return order.take(0, len(elements))


def sort_by_numbers(elements: list[bytes], weights: list[bytes | None] | None, *, reverse: bool) -> Elements:
    """The elements in the order of their weights, or of their own numbers; those of one number are ordered by their
    bytes. A missing weight is 0. Raises GenericError if a weight is no number."""
    order = NumberOrder(elements, reverse)
    for texts in _texts_by_step(elements, weights):
        if not order.add(texts):
            found = yield from _sort_by_other_numbers(elements, weights, reverse=reverse)
            return found
        yield
    while order.merge(STEP_COUNT):
        yield
    ordered: list[bytes] = []
    for start in range(0, len(elements), STEP_COUNT):
        ordered += order.take(start, start + STEP_COUNT)
        yield
    return ordered


def _sort_by_other_numbers(elements: list[bytes], weights: list[bytes | None] | None, *, reverse: bool) -> Elements:
    """Like `sort_by_numbers`, for numbers in any spelling."""
    # Freed at once, unlike the objects of a list.
    numbers = array("d")
    for texts in _texts_by_step(elements, weights):
        numbers.extend(numbers_of(texts))
        yield
    ordered = yield from in_order(elements, numbers, reverse=reverse)
    return ordered


def _texts_by_step(elements: list[bytes], weights: list[bytes | None] | None) -> Iterator[list[bytes]]:
    """Yield the texts whose numbers count, some at a time."""
    for start in range(0, len(elements), STEP_COUNT):
        if weights is None:
            yield elements[start : start + STEP_COUNT]
        else:
            yield [b"0" if weight is None else weight for weight in weights[start : start + STEP_COUNT]]


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
    found = yield from elements_at(elements, places, 0, len(places))
    return found
