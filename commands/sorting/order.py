"""The order of sorted elements: by numbers or by texts, of their own or of a pattern."""

from __future__ import annotations

from typing import Final

from ...store.errors import NUL, GenericError
from ..core.numbers import parse_float
from .partial_sort import sort_part
from .patterns import until_nul

NOT_A_NUMBER: Final = b"One or more scores can't be converted into double"

# Texts of these bytes, and no longer than this, are numbers for C if they are for Python, and neither too large nor too
# small.
_PLAIN: Final = b"0123456789+-."
_PLAIN_SIZE_MAX: Final = 300


def sort_by_numbers(elements: list[bytes], weights: list[bytes | None] | None, *, reverse: bool) -> list[bytes]:
    """The elements in the order of their weights, or of their own numbers; those of one number are ordered by their
    bytes. A missing weight is 0. Raises GenericError if a weight is no number."""
    numbers = _numbers(elements if weights is None else [weight if weight is not None else b"0" for weight in weights])
    if len(set(numbers)) == len(numbers):
        # No bytes are compared, and no element is looked up by its hash.
        places = sorted(range(len(numbers)), key=numbers.__getitem__, reverse=reverse)
        return [elements[place] for place in places]
    number_of = dict(zip(elements, numbers, strict=True))
    ordered = sorted(elements, reverse=reverse)
    ordered.sort(key=number_of.__getitem__, reverse=reverse)
    return ordered


def _numbers(texts: list[bytes]) -> list[float]:
    """The numbers that texts spell. Raises GenericError."""
    if len(max(texts, key=len, default=b"")) <= _PLAIN_SIZE_MAX and not b"".join(texts).translate(None, _PLAIN):
        try:
            return list(map(float, texts))
        except ValueError:
            raise GenericError(NOT_A_NUMBER) from None
    numbers: list[float] = []
    for text in texts:
        number = parse_float(text)
        if number is None:
            raise GenericError(NOT_A_NUMBER)
        numbers.append(number)
    return numbers


def sort_by_own_texts(elements: list[bytes], *, reverse: bool, is_stored: bool) -> list[bytes]:
    """The elements in the order of their bytes. Bytes after a NUL count only for a result that is stored."""
    if is_stored or not any(NUL in element for element in elements):
        return sorted(elements, reverse=reverse)
    return sorted(elements, key=until_nul, reverse=reverse)


def sort_by_texts(
    elements: list[bytes], weights: list[bytes | None], *, reverse: bool, is_stored: bool, start: int, stop: int
) -> list[bytes]:
    """The elements in the order of their weights; a missing one is before all others. Only those from index `start` on,
    before `stop`, are in their places.

    Elements of equal weights keep their order, unless only a part is sorted: then they are as Redis' algorithm leaves
    them.
    """
    texts = [weight if weight is None or is_stored else until_nul(weight) for weight in weights]
    distinct = sorted({text for text in texts if text is not None})
    ranks: dict[bytes | None, int] = {None: 0}
    for text in distinct:
        ranks[text] = len(ranks)
    sign = -1 if reverse else 1
    keys = [sign * ranks[text] for text in texts]
    places = list(range(len(elements)))
    is_part = start > 0 or stop < len(elements)
    if is_part and len(ranks) <= len(elements):
        sort_part(keys, places, start, stop)
    else:
        places.sort(key=keys.__getitem__)
    return [elements[place] for place in places]
