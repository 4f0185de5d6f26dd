"""Elements and their numbers: what texts spell, and the order of elements whose numbers are equal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ...store.errors import GenericError
from ..core.numbers import parse_float

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
