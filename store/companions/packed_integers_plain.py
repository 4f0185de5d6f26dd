"""Ascending integers of 64 bits: the members of a set that Redis keeps as an intset. Members are given and returned as
texts.

The specification of `packed_integers`, and its replacement where there is no C compiler.
"""

from __future__ import annotations

from bisect import bisect_left
from sys import getsizeof

from ..object_sizes import NUMBER_SIZE
from .integers import as_integer


class PackedIntegers:
    """Different integers, ascending."""

    __slots__ = ("_numbers",)

    def __init__(self) -> None:
        self._numbers: list[int] = []

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def memory_size(self) -> int:
        """Bytes of the numbers, without this object."""
        return getsizeof(self._numbers) + NUMBER_SIZE * len(self._numbers)

    def __contains__(self, text: bytes) -> bool:
        """Whether the text is that of one of the numbers."""
        number = as_integer(text)
        return number is not None and self._has(number)

    def _has(self, number: int) -> bool:
        place = bisect_left(self._numbers, number)
        return place < len(self._numbers) and self._numbers[place] == number

    def has_each(self, texts: list[bytes]) -> list[int]:
        """Return for each text 1 if it is that of one of the numbers, else 0."""
        return [int(text in self) for text in texts]

    def having(self, texts: list[bytes], wanted: bool) -> list[bytes]:
        """Those of the texts that are those of the numbers, or with `wanted` False the others."""
        return [text for text in texts if (text in self) is wanted]

    def add(self, text: bytes) -> int:
        """Add a number. Returns 1, 0 if it is there already, or -1 if the text is not that of an integer."""
        number = as_integer(text)
        if number is None:
            return -1
        if self._has(number):
            return 0
        self._numbers.insert(bisect_left(self._numbers, number), number)
        return 1

    def discard(self, text: bytes) -> bool:
        """Remove a number. Returns whether it was there."""
        number = as_integer(text)
        if number is None or not self._has(number):
            return False
        del self._numbers[bisect_left(self._numbers, number)]
        return True

    def discard_all(self, texts: list[bytes]) -> int:
        """Remove numbers. Returns how many were there."""
        removed, count = set(map(as_integer, texts)), len(self._numbers)
        self._numbers = [number for number in self._numbers if number not in removed]
        return count - len(self._numbers)

    def at(self, index: int) -> bytes:
        """The number at an index. Raises IndexError."""
        if not 0 <= index < len(self._numbers):
            raise IndexError(index)
        return b"%d" % self._numbers[index]

    def at_each(self, indexes: list[int]) -> list[bytes]:
        """Like `at`, for many indexes at once."""
        return [self.at(index) for index in indexes]

    def between(self, start: int, stop: int) -> list[bytes]:
        """The numbers from one index on, before another one, as far as there are so many."""
        return [b"%d" % number for number in self._numbers[max(start, 0) : max(stop, 0)]]

    def numbers(self) -> list[int]:
        """All of them, as numbers."""
        return self._numbers.copy()

    def intset(self) -> bytes | None:
        """The intset of Redis with these numbers. None if the caller must make it itself, as without C."""
        return None

    def load(self, numbers: list[int]) -> None:
        """Have these ascending numbers instead of those before."""
        self._numbers = numbers.copy()

    def copy(self) -> PackedIntegers:
        """Other integers that are alike."""
        twin = PackedIntegers()
        twin._numbers = self._numbers.copy()
        return twin

    def common(self, others: list[PackedIntegers]) -> PackedIntegers:
        """The numbers that all others have too."""
        return _sorted(set(self._numbers).intersection(*[other._numbers for other in others]))

    def difference(self, others: list[PackedIntegers]) -> PackedIntegers:
        """The numbers that no other one has."""
        return _sorted(set(self._numbers).difference(*[other._numbers for other in others]))

    def union(self, others: list[PackedIntegers]) -> PackedIntegers:
        """The numbers of this one and of all others."""
        return _sorted(set(self._numbers).union(*[other._numbers for other in others]))


def _sorted(numbers: set[int]) -> PackedIntegers:
    found = PackedIntegers()
    found._numbers = sorted(numbers)
    return found
