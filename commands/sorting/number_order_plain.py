"""The order of elements by numbers, for installations without a C compiler: `number_order` does the same in C."""

from __future__ import annotations

from array import array
from collections.abc import Generator

from .numbered import in_order, plain_numbers


class NumberOrder:
    """Elements in the order of the numbers that texts spell in digits; those of one number are ordered by their own
    bytes. The list of elements must not change meanwhile. First all texts are added, then `merge` is called until it
    returns False."""

    def __init__(self, elements: list[bytes], reverse: bool) -> None:
        self._elements = elements
        self._reverse = reverse
        self._numbers = array("d")
        self._work: Generator[None, None, list[bytes]] | None = None
        self._ordered: list[bytes] = []

    def add(self, texts: list[bytes]) -> bool:
        """Add the texts of the next elements, as many as the first time, or the last ones. Returns False if one spells
        no number, or another way, after which the order must not be used."""
        numbers = plain_numbers(texts)
        if numbers is None:
            return False
        self._numbers.extend(numbers)
        return True

    def merge(self, count: int) -> bool:
        """Work on about `count` elements. Returns whether there is more to do."""
        if self._work is None:
            self._work = in_order(self._elements, self._numbers, reverse=self._reverse)
        try:
            next(self._work)
        except StopIteration as end:
            self._ordered = end.value
            return False
        return True

    def take(self, start: int, stop: int) -> list[bytes]:
        """The elements between two indexes of the order, which is complete."""
        return self._ordered[start:stop]
