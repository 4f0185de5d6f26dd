"""A hash: its fields with their values, and the encoding that Redis would have chosen for them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Final

from ..limits import Limits
from .companion import Companion
from .members import Members

LISTPACK: Final = b"listpack"
HASHTABLE: Final = b"hashtable"

# Bytes of the object and its attributes.
HASH_SIZE: Final = 88


class HashValue(Companion):
    """A hash. `limits` decide when it is no longer small."""

    __slots__ = ("_encoding", "_members")

    type_name: ClassVar[bytes] = b"hash"
    type_number: ClassVar[int] = 4

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits)
        self._encoding = LISTPACK
        self._members = Members()

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, field: bytes) -> bool:
        return field in self._members

    @property
    def encoding(self) -> bytes:
        return self._encoding

    @property
    def memory_size(self) -> int:
        return HASH_SIZE + self._members.memory_size

    # -- reading ---------------------------------------------------------------------------------

    def get(self, field: bytes) -> bytes | None:
        """The value of a field; None if there is no such field."""
        return self._members.get(field)

    def items(self) -> Iterable[tuple[bytes, bytes]]:
        """The fields with their values, in the order of Redis unless it is a hash table. They must not change
        meanwhile."""
        return self._members.items()

    def fields(self) -> list[bytes]:
        """The fields."""
        return self._members.names()

    def at(self, index: int) -> bytes:
        """The field at an index, in an order that lasts until a field comes or goes."""
        return self._members.at(index)

    def scan(self, cursor: int, count: int) -> tuple[list[bytes], int]:
        """See `Members.scan`."""
        return self._members.scan(cursor, count)

    # -- changing --------------------------------------------------------------------------------

    def expect(self, count: int) -> None:
        """Take the encoding for so many fields that are set now."""
        if count > self.limits.hash_entries_max:
            self._encoding = HASHTABLE

    def set(self, field: bytes, value: bytes) -> bool:
        """Set a field. Returns whether it is new."""
        is_new = self._members.put(field, value)
        if self._encoding == LISTPACK:
            limits = self.limits
            size_max = limits.hash_value_max
            if len(field) > size_max or len(value) > size_max or len(self._members) > limits.hash_entries_max:
                self._encoding = HASHTABLE
        return is_new

    def pop(self, field: bytes) -> bytes | None:
        """Remove a field. Returns its value; None if there is no such field."""
        return self._members.pop(field)

    # -- keeping ---------------------------------------------------------------------------------

    def become_table(self) -> None:
        """Be a hash table from now on."""
        self._encoding = HASHTABLE

    def copy(self) -> HashValue:
        twin = HashValue(self.limits)
        twin._encoding = self._encoding
        twin._members = self._members.copy()
        return twin

    def heaps(self) -> list[object]:
        return [*self._members.heaps()]

    def check(self) -> None:
        self._members.check()
