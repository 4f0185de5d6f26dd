"""The members of a hash or a set: byte strings by byte string, with expiry times if they are fields of a hash.

Few are in one block of memory, many in a table of keys, whose SCAN stays valid while members are added and removed,
whose copy shares its parts, and which is freed a little at a time. Members that became many stay in a table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from ..class_marks import mypyc_attr
from ..due_times import DueTimes
from ..object_sizes import COLLECTOR_SIZE

try:
    from ..key_table import KeyTable
    from .packed_texts import PackedPairs
except ImportError:  # there was no C compiler at installation
    from ..key_table_plain import KeyTable  # type: ignore[assignment]
    from .packed_texts_plain import PackedPairs  # type: ignore[assignment]

# Members that are in a block at most: so many take a tenth of their memory in a table.
FEW_MAX: Final = 512
# With fewer indexes than the number of members divided by this, each member is looked for alone.
INDEXED_SHARE: Final = 8
# Bytes of the objects.
MEMBERS_SIZE: Final = 112 + COLLECTOR_SIZE


@mypyc_attr(acyclic=True)
class Members:
    """Members with their texts, in the order of their arrival while they are few."""

    __slots__ = ("_few", "_many", "_times")

    def __init__(self, few: PackedPairs | None = None) -> None:
        self._few = PackedPairs() if few is None else few
        # None while there are few.
        self._many: KeyTable | None = None
        # The expiry times of many, in Unix ms. None until a member gets one; few have theirs in the block.
        self._times: DueTimes | None = None

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
        return self._few.get_all(names) if self._many is None else self._many.get_keys(names)

    def has_each(self, names: list[bytes]) -> list[int]:
        """Return for each name 1 if there is such a member, else 0."""
        if self._many is None:
            return self._few.has_each(names)
        return [0 if text is None else 1 for text in self._many.get_keys(names)]

    def having(self, names: list[bytes], wanted: bool) -> list[bytes]:
        """Those of the names that members have, or with `wanted` False the others."""
        return self._few.having(names, wanted) if self._many is None else self._many.having(names, wanted)

    def put(self, name: bytes, text: bytes = b"") -> bool:
        """Add a member, or change its text. Returns whether it is new."""
        if self._many is not None:
            return self._many.put(name, text, True)
        is_new = self._few.put(name, text)
        if is_new and len(self._few) > FEW_MAX:
            self._become_many()
        return is_new

    def _become_many(self) -> KeyTable:
        """Be in a table from now on, which is returned."""
        many = KeyTable()
        many.put_words(self._few.words())
        if self._few.timed_count:
            self._times = DueTimes.of(self._few.times())
        self._few, self._many = PackedPairs(), many
        return many

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
        if self._many is not None:
            return self._many.put_keys(names)
        if self._few.fill(names, 1):
            return len(names)
        return self.add_new(self.new_names(names))

    def new_names(self, names: list[bytes]) -> list[bytes]:
        """Those of the names that no member has, each once."""
        return list(dict.fromkeys(self.having(names, False)))

    def add_new(self, names: list[bytes]) -> int:
        """Add members without texts, what `new_names` has returned. Returns how many they are."""
        many = self._many
        if many is None:
            if self._few.fill(names, 1):
                return len(names)
            if len(self._few) + len(names) <= FEW_MAX:
                for name in names:
                    self._few.put(name, b"")
                return len(names)
            many = self._become_many()
        return many.put_keys(names)

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

    def load(self, listpack: bytes, step: int) -> int:
        """See `PackedPairs.load`."""
        return self._few.load(listpack, step)

    def listpack(self, step: int) -> bytes | None:
        """See `PackedPairs.listpack`. None also if there are many."""
        return None if self._many is not None else self._few.listpack(step)

    def pop(self, name: bytes) -> bytes | None:
        """Remove a member, and its time. Returns its text; None if there is no such member."""
        if self._many is None:
            return self._few.pop(name)
        if self._times is not None:
            self._drop_time(self._times, name)
        return self._many.pop(name)  # type: ignore[return-value]

    def pop_all(self, names: list[bytes]) -> list[bytes | None]:
        """Remove members, and their times. Returns the text of each, None for each that is not there."""
        if self._many is None:
            return self._few.pop_all(names)
        if self._times is not None:
            return [self.pop(name) for name in names]
        return self._many.pop_keys(names)

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

    def items(self) -> Iterable[tuple[bytes, bytes]]:
        """The members with their texts. They must not change meanwhile."""
        return self._few.items() if self._many is None else self._many.items()  # type: ignore[return-value]

    def words(self) -> list[bytes]:
        """The members, each with its text after it."""
        return self._few.words() if self._many is None else self._many.words()

    def texts(self) -> list[bytes]:
        """The texts of the members, in the order of `names`."""
        return self._few.texts() if self._many is None else self._many.values()

    def names(self) -> list[bytes]:
        """The members."""
        return self._few.names() if self._many is None else self._many.keys()

    def name_parts(self, count: int) -> Iterator[list[bytes]]:
        """Yield the members in the order of `names`, about `count` at a time. They must not change meanwhile."""
        cursor = 0
        while True:
            names, cursor = self.part(cursor, count)
            yield names
            if not cursor:
                return

    def word_parts(self, count: int) -> Iterator[list[bytes]]:
        """Like `name_parts`, each member with its text after it, and all at once if they are few."""
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
        few = self._few
        if len(indexes) * INDEXED_SHARE < len(few):
            return [few.at(index) for index in indexes]
        names = few.names()
        return [names[index] for index in indexes]

    def scan(self, cursor: int, count: int, *, is_packed: bool) -> tuple[list[bytes], int]:
        """Return about `count` members from `cursor` on, and the next cursor; all of them if they are few and
        `is_packed`, as those of a listpack are. A cursor stays valid when few become many."""
        if self._many is not None:
            return self._many.scan(cursor, count)
        return (self._few.names(), 0) if is_packed else self._few.scan(cursor, count, False)

    def scan_words(self, cursor: int, count: int, *, is_packed: bool) -> tuple[list[bytes], int]:
        """Like `scan`, each member with its text after it."""
        if self._many is not None:
            return self._many.scan_words(cursor, count)
        return (self._few.words(), 0) if is_packed else self._few.scan(cursor, count, True)

    def part(self, cursor: int, count: int) -> tuple[list[bytes], int]:
        """Like `scan`, for a caller that looks at all members while these stay the same: faster if they are few."""
        if self._many is not None:
            return self._many.scan(cursor, count)
        after = cursor + count
        return self._few.part(cursor, count), after if after < len(self._few) else 0

    # -- expiry times ----------------------------------------------------------------------------

    @property
    def has_times(self) -> bool:
        """Whether a member has an expiry time."""
        return self._times is not None or self._few.timed_count > 0

    def time(self, name: bytes) -> int:
        """The expiry time of a member; 0 if it has none, or if there is no such member."""
        return self._few.time(name) if self._times is None else self._times.by_name.get(name, 0)

    def times_of(self, names: list[bytes]) -> list[int]:
        """The expiry times of members: 0 if one has none, -1 if there is no such member."""
        many, times = self._many, self._times
        if many is None:
            return self._few.times_of(names)
        found: list[int] = []
        for name in names:
            due_ms = 0 if times is None else times.by_name.get(name, 0)
            found.append(due_ms if due_ms or name in many else -1)
        return found

    def times(self) -> dict[bytes, int]:
        """The expiry times by name, which must not be changed."""
        return self._few.times() if self._times is None else self._times.by_name

    def set_times(self, names: list[bytes], due_ms: int, *, in_order: bool) -> list[bytes]:
        """Set the expiry time of members. Returns those that are there.

        `in_order`: as for `PackedPairs.set_time`; the order of many is never that of their times.
        """
        if self._many is None:
            return self._few.set_times(names, due_ms, in_order)
        found = self._many.having(names, True)
        if found:
            if self._times is None:
                self._times = DueTimes()
            self._times.put_all(found, due_ms)
        return found

    def take_times(self, times: dict[bytes, int]) -> None:
        """Set the expiry times of members, while none has one. The members stay in their order; the dictionary is
        kept."""
        if self._many is None:
            self._few.take_times(times)
        else:
            self._times = DueTimes.of(times)

    def drop_times(self, names: list[bytes], now_ms: int, *, in_order: bool) -> list[int]:
        """See `PackedPairs.drop_times`."""
        if self._many is None:
            return self._few.drop_times(names, now_ms, in_order)
        states: list[int] = []
        dues = self.times_of(names)
        for index in range(len(names)):
            due_ms = dues[index]
            if due_ms < 0 or 0 < due_ms < now_ms:
                states.append(-1)
            else:
                # A member that is named twice has its time once.
                times = self._times
                states.append(1 if due_ms and times is not None and self._drop_time(times, names[index]) else 0)
        return states

    def drop_time(self, name: bytes, *, in_order: bool) -> bool:
        """Like `drop_times`, of one member. Returns whether it had a time."""
        if self._many is None:
            return self._few.drop_times([name], 0, in_order)[0] == 1
        return self._times is not None and self._drop_time(self._times, name)

    def _drop_time(self, times: DueTimes, name: bytes) -> bool:
        """Remove the expiry time of one of many members. Returns whether it had one."""
        if not times.drop(name):
            return False
        if not len(times):
            self._times = None
        return True

    def first_timed(self) -> tuple[int, bytes] | None:
        """The first expiry time, and the member that has it; None if no member has one."""
        if self._times is not None:
            return self._times.first()
        return self._few.first_timed()

    # -- keeping ---------------------------------------------------------------------------------

    def copy(self) -> Members:
        """Another table with the same members."""
        twin = Members(self._few.copy())
        if self._many is not None:
            twin._many = self._many.copy()
            twin._times = None if self._times is None else self._times.copy()
        return twin

    @property
    def memory_size(self) -> int:
        """Bytes of the table, its members and their texts."""
        if self._many is None:
            return MEMBERS_SIZE + self._few.memory_size
        times_size = 0 if self._times is None else self._times.memory_size
        return MEMBERS_SIZE + self._many.memory_size + self._many.size + self._many.expiry_size + times_size

    def heaps(self) -> list[Any]:
        """What `Garbage` frees a little at a time."""
        if self._many is None:
            return []
        return [self._many] if self._times is None else [self._many, *self._times.heaps()]

    def check(self) -> None:
        """Assert that the parts agree. Raises AssertionError."""
        if self._many is not None:
            self._many.check()
            assert not len(self._few)
        if self._times is not None:
            assert len(self._times)
            self._times.check()
            assert self._many is not None
            assert all(name in self._many for name in self._times.names())
