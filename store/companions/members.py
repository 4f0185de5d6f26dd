"""The members of a hash or a set: byte strings by byte string.

Few are in one block of memory, many in a table of keys, whose SCAN stays valid while members are added and removed,
whose copy shares its parts, and which is freed a little at a time. Members that became many stay in a table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from ..class_marks import mypyc_attr
from ..key_slots import scan_keys

try:
    from ..key_table import KeyTable
    from .packed_texts import PackedPairs
except ImportError:  # there was no C compiler at installation
    from ..key_table_plain import KeyTable  # type: ignore[assignment]
    from .packed_texts_plain import PackedPairs  # type: ignore[assignment]

# Members that are in a block at most.
FEW_MAX: Final = 512
# Bytes of the objects.
MEMBERS_SIZE: Final = 112


@mypyc_attr(acyclic=True)
class Members:
    """Members with their texts, in the order of their arrival while they are few."""

    __slots__ = ("_few", "_many")

    def __init__(self) -> None:
        self._few = PackedPairs()
        # None while there are few.
        self._many: KeyTable | None = None

    def __len__(self) -> int:
        return len(self._few) if self._many is None else len(self._many)

    @property
    def are_few(self) -> bool:
        """Whether they are in a block, in an order that `place` decides."""
        return self._many is None

    def __contains__(self, name: bytes) -> bool:
        return name in self._few if self._many is None else name in self._many

    def get(self, name: bytes) -> bytes | None:
        """The text of a member; None if there is no such member."""
        if self._many is None:
            return self._few.get(name)
        return self._many.get(name)  # type: ignore[return-value]

    def get_all(self, names: list[bytes]) -> list[bytes | None]:
        """Like `get`, for many members."""
        return [self._few.get(name) for name in names] if self._many is None else self._many.get_keys(names)

    def put(self, name: bytes, text: bytes = b"") -> bool:
        """Add a member, or change its text. Returns whether it is new."""
        if self._many is not None:
            return self._many.put(name, text, True)
        is_new = self._few.put(name, text)
        if is_new and len(self._few) > FEW_MAX:
            many = KeyTable()
            for each, its_text in self._few.items():
                many.put(each, its_text)
            self._few, self._many = PackedPairs(), many
        return is_new

    def bulks(self, has_names: bool, has_texts: bool) -> Iterator[bytes]:
        """Yield members that are many, or their texts, or both in turn, as bulk strings of a reply, in pieces. They
        must not change meanwhile."""
        assert self._many is not None
        start = 0
        while True:
            pieces, start = self._many.bulks(start, has_names, has_texts)
            yield from pieces
            if not start:
                break

    def put_names(self, names: list[bytes]) -> int:
        """Add members without texts, those that are not there. Returns how many were new."""
        if self._many is None and self._few.fill(names, 1):
            return len(names)
        is_new, index = 0, 0
        while self._many is None and index < len(names):
            is_new += self.put(names[index])
            index += 1
        if self._many is not None:
            is_new += self._many.put_keys(names[index:] if index else names)
        return is_new

    def put_words(self, words: list[bytes]) -> int:
        """Like `put` for many members, each with its text after it. Returns how many were new."""
        if self._many is None and self._few.fill(words, 2):
            return len(words) // 2
        is_new, index = 0, 0
        while self._many is None and index < len(words):
            is_new += self.put(words[index], words[index + 1])
            index += 2
        if self._many is not None:
            is_new += self._many.put_words(words[index:] if index else words)
        return is_new

    def expect(self, count: int) -> None:
        """Be many from the beginning if at least so many members will be added now, while there are none."""
        if count > FEW_MAX and self._many is None and not len(self._few):
            self._many = KeyTable()

    def load(self, listpack: bytes, step: int) -> dict[bytes, int] | None:
        """See `PackedPairs.load`."""
        return self._few.load(listpack, step)

    def listpack(self, step: int, times: dict[bytes, int] | None) -> bytes | None:
        """See `PackedPairs.listpack`. None also if there are many."""
        return None if self._many is not None else self._few.listpack(step, times)

    def pop(self, name: bytes) -> bytes | None:
        """Remove a member. Returns its text; None if there is no such member."""
        if self._many is not None:
            return self._many.pop(name)  # type: ignore[return-value]
        return self._few.pop(name)

    def pop_all(self, names: list[bytes]) -> list[bytes | None]:
        """Remove members. Returns the text of each, None for each that is not there."""
        return [self._few.pop(name) for name in names] if self._many is None else self._many.pop_keys(names)

    def discard_all(self, names: list[bytes]) -> int:
        """Remove members. Returns how many were there."""
        return len(names) - self.pop_all(names).count(None)

    def place(self, name: bytes, before: Callable[[bytes], bool]) -> None:
        """While members are few: move one before the first other one of which `before` is true, else to the end."""
        if self._many is not None:
            return
        index = 0
        for each in self._few.names():
            if each != name:
                if before(each):
                    break
                index += 1
        self._few.move(name, index)

    def arrange(self, names: list[bytes]) -> None:
        """While members are few: put them in this order of all their names."""
        assert self._many is None
        arranged = PackedPairs()
        for name in names:
            arranged.put(name, self._few.get(name) or b"")
        self._few = arranged

    def items(self) -> Iterable[tuple[bytes, bytes]]:
        """The members with their texts. They must not change meanwhile."""
        return self._few.items() if self._many is None else self._many.items()  # type: ignore[return-value]

    def words(self) -> list[bytes]:
        """The members, each with its text after it."""
        return self._few.words() if self._many is None else self._many.words()

    def texts(self) -> list[bytes]:
        """The texts of the members, in the order of `names`."""
        return [text for _, text in self._few.items()] if self._many is None else self._many.values()

    def names(self) -> list[bytes]:
        """The members."""
        return self._few.names() if self._many is None else list(self._many)

    def name_parts(self, count: int) -> Iterator[list[bytes]]:
        """Yield the members, about `count` at a time, or all at once if they are few. They must not change
        meanwhile."""
        if self._many is None:
            yield self._few.names()
            return
        cursor = 0
        while True:
            names, cursor = self._many.scan(cursor, count)
            yield names
            if not cursor:
                return

    def word_parts(self, count: int) -> Iterator[list[bytes]]:
        """Like `name_parts`, each member with its text after it."""
        if self._many is None:
            yield self._few.words()
            return
        cursor = 0
        while True:
            words, cursor = self._many.scan_words(cursor, count)
            yield words
            if not cursor:
                return

    def at(self, index: int) -> bytes:
        """The member at this index, from 0 on, in an arbitrary order that lasts until a member comes or goes."""
        if self._many is None:
            return self._few.at(index)
        return self._many.keys_at([index])[0]

    def at_each(self, indexes: list[int]) -> list[bytes]:
        """Like `at`, for many indexes at once."""
        if self._many is not None:
            return self._many.keys_at(indexes)
        names = self._few.names()
        return [names[index] for index in indexes]

    def scan(self, cursor: int, count: int, *, is_packed: bool) -> tuple[list[bytes], int]:
        """Return about `count` members from `cursor` on, and the next cursor; all of them if they are few and
        `is_packed`, as those of a listpack are. A cursor stays valid when few become many."""
        if self._many is not None:
            return self._many.scan(cursor, count)
        names = self._few.names()
        return (names, 0) if is_packed else scan_keys(names, cursor, count)

    def copy(self) -> Members:
        """Another table with the same members."""
        twin = Members()
        twin._few = self._few.copy()
        twin._many = None if self._many is None else self._many.copy()
        return twin

    @property
    def memory_size(self) -> int:
        """Bytes of the table, its members and their texts."""
        if self._many is None:
            return MEMBERS_SIZE + self._few.memory_size
        return MEMBERS_SIZE + self._many.memory_size + self._many.size + self._many.expiry_size

    def heaps(self) -> list[KeyTable]:
        """What `Garbage` frees a little at a time."""
        return [] if self._many is None else [self._many]

    def check(self) -> None:
        """Assert that the parts agree. Raises AssertionError."""
        if self._many is not None:
            self._many.check()
            assert not len(self._few)
