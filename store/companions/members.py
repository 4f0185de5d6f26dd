"""The members of a hash or a set: byte strings by byte string.

Few are in a dict, many in a table of keys, whose SCAN stays valid while members are added and removed, whose copy
shares its parts, and which is freed a little at a time. Members that became many stay in a table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from sys import getsizeof
from typing import Final

from ..object_sizes import text_size

try:
    from ..key_table import KeyTable
except ImportError:  # there was no C compiler at installation
    from ..key_table_plain import KeyTable  # type: ignore[assignment]

# Members that are in a dict at most.
FEW_MAX: Final = 512


class Members:
    """Members with their texts, in the order of their arrival while they are few."""

    __slots__ = ("_few", "_few_size", "_many")

    def __init__(self) -> None:
        self._few: dict[bytes, bytes] = {}
        # Bytes of the members and texts in `_few`.
        self._few_size = 0
        # None while there are few.
        self._many: KeyTable | None = None

    def __len__(self) -> int:
        return len(self._few) if self._many is None else len(self._many)

    def __contains__(self, name: bytes) -> bool:
        return name in self._few if self._many is None else name in self._many

    def get(self, name: bytes) -> bytes | None:
        """The text of a member; None if there is no such member."""
        if self._many is None:
            return self._few.get(name)
        return self._many.get(name)  # type: ignore[return-value]

    def put(self, name: bytes, text: bytes = b"") -> bool:
        """Add a member, or change its text. Returns whether it is new."""
        if self._many is not None:
            return self._many.put(name, text, True)
        few = self._few
        old = few.get(name)
        few[name] = text
        if old is not None:
            self._few_size += text_size(text) - text_size(old)
            return False
        self._few_size += text_size(name) + text_size(text)
        if len(few) > FEW_MAX:
            self._many = KeyTable()
            for each, its_text in few.items():
                self._many.put(each, its_text)
            self._few, self._few_size = {}, 0
        return True

    def pop(self, name: bytes) -> bytes | None:
        """Remove a member. Returns its text; None if there is no such member."""
        if self._many is not None:
            return self._many.pop(name)  # type: ignore[return-value]
        text = self._few.pop(name, None)
        if text is not None:
            self._few_size -= text_size(name) + text_size(text)
        return text

    def place(self, name: bytes, before: Callable[[bytes], bool]) -> None:
        """While members are few: move one before the first other one of which `before` is true, else to the end."""
        if self._many is not None:
            return
        text = self._few.pop(name)
        later: list[tuple[bytes, bytes]] = []
        for each in self._few.items():
            if later or before(each[0]):
                later.append(each)
        for each_name, _ in later:
            del self._few[each_name]
        self._few[name] = text
        self._few.update(later)

    def items(self) -> Iterable[tuple[bytes, bytes]]:
        """The members with their texts. They must not change meanwhile."""
        return self._few.items() if self._many is None else self._many.items()  # type: ignore[return-value]

    def names(self) -> list[bytes]:
        """The members."""
        return list(self._few if self._many is None else self._many)

    def at(self, index: int) -> bytes:
        """The member at this index, from 0 on, in an arbitrary order that lasts until a member comes or goes."""
        if self._many is None:
            return next(islice(self._few, index, None))
        return self._many.neighbours(index)[0]

    def scan(self, cursor: int, count: int) -> tuple[list[bytes], int]:
        """Return about `count` members from `cursor` on, and the next cursor; all of them if they are few."""
        if self._many is None:
            return list(self._few), 0
        return self._many.scan(cursor, count)

    def copy(self) -> Members:
        """Another table with the same members."""
        twin = Members()
        twin._few = self._few.copy()
        twin._few_size = self._few_size
        twin._many = None if self._many is None else self._many.copy()
        return twin

    @property
    def memory_size(self) -> int:
        """Bytes of the table, its members and their texts."""
        if self._many is None:
            return getsizeof(self._few) + self._few_size
        return self._many.memory_size + self._many.size + self._many.expiry_size

    def heaps(self) -> list[KeyTable]:
        """What `Garbage` frees a little at a time."""
        return [] if self._many is None else [self._many]

    def check(self) -> None:
        """Assert that the parts agree. Raises AssertionError."""
        if self._many is not None:
            self._many.check()
            assert not self._few
        assert self._few_size == sum(text_size(name) + text_size(text) for name, text in self._few.items())
