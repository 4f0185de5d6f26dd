"""The order of elements by numbers, for installations without a C compiler: `number_order` does the same in C."""

from __future__ import annotations

from .numbered import by_bytes_too, plain_numbers


def sorted_by_numbers(elements: list[bytes], texts: list[bytes], reverse: bool) -> list[bytes] | None:
    """The elements in the order of the numbers that the texts at their places spell in digits; those of one number are
    ordered by their own bytes. None if a text spells none, or another way.
    """
    numbers = plain_numbers(texts)
    if numbers is None:
        return None
    places = sorted(range(len(numbers)), key=numbers.__getitem__, reverse=reverse)
    return by_bytes_too(elements, numbers, places, reverse=reverse)
