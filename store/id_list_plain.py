"""Ascending IDs: `id_list` for installations without a C compiler. Both behave alike."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import Final

from .object_sizes import ID_SIZE, REFERENCE_SIZE

# Bytes of a list without its IDs.
LIST_SIZE: Final = 104


class IDList:
    """Ascending IDs, in which the one that precedes an ID is found."""

    __slots__ = ("_ids",)

    def __init__(self) -> None:
        self._ids: list[int] = []

    def __len__(self) -> int:
        return len(self._ids)

    def __getitem__(self, index: int) -> int:
        """The ID at `index`, which counts from the end if negative. Raises IndexError."""
        return self._ids[index]

    def __iter__(self) -> Iterator[int]:
        return iter(self._ids)

    @property
    def memory_size(self) -> int:
        """Bytes held."""
        return LIST_SIZE + len(self._ids) * (ID_SIZE + REFERENCE_SIZE)

    def append(self, entry_id: int) -> None:
        """Add an ID above all others."""
        self._ids.append(entry_id)

    def index_of(self, entry_id: int) -> int:
        """Index of the last ID that is not above this one, -1 if all are."""
        return bisect_right(self._ids, entry_id) - 1

    def remove(self, index: int, count: int) -> None:
        """Remove the `count` IDs from `index` on. Raises IndexError if there are fewer."""
        if not 0 <= index <= index + count <= len(self._ids):
            raise IndexError("no such IDs")
        del self._ids[index : index + count]

    def copy(self) -> IDList:
        """An independent list of the same IDs."""
        twin = IDList()
        twin._ids = self._ids.copy()
        return twin
