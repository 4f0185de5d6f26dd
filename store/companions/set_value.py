"""A set: its members, and the encoding that Redis would have chosen for them.

Few integers are ascending numbers, as in Redis, which returns them in that order. All other members are byte strings,
in the order of their arrival while they are few.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Final

from ..class_marks import mypyc_attr
from ..limits import Limits
from ..object_sizes import COLLECTOR_SIZE
from .companion import Companion
from .integers import as_integer
from .members import Members

try:
    from .packed_integers import PackedIntegers
except ImportError:  # there was no C compiler at installation
    from .packed_integers_plain import PackedIntegers  # type: ignore[assignment]

INTSET: Final = b"intset"
LISTPACK: Final = b"listpack"
HASHTABLE: Final = b"hashtable"

# Bytes of the object and its attributes.
SET_SIZE: Final = 80 + COLLECTOR_SIZE
# Redis keeps no more integers in an intset, whatever the limit is.
INTEGERS_MAX: Final = 1 << 30
# Bytes of the object with the integers, without these.
INTEGERS_SIZE: Final = 48
# With fewer integers than this, it is faster to remove each of them alone.
REMOVED_MIN: Final = 4
# Shared by all sets without integers; it never gets any.
NO_INTEGERS: Final = PackedIntegers()


@mypyc_attr(acyclic=True)
class SetValue(Companion):
    """A set. `limits` decide when it is no longer small."""

    __slots__ = ("_encoding", "_integers", "_members")

    type_name: ClassVar[bytes] = b"set"
    type_number: ClassVar[int] = 2

    def __init__(self, limits: Limits, members: Members | None = None) -> None:
        super().__init__(limits)
        self._encoding = INTSET
        # The members of an intset; `NO_INTEGERS` for other encodings.
        self._integers = NO_INTEGERS
        # The members of other encodings.
        self._members = Members() if members is None else members

    @classmethod
    def for_member(cls, limits: Limits, member: bytes, count: int) -> SetValue:
        """An empty set that will get `count` members, of which `member` is the first."""
        value = cls(limits)
        if as_integer(member) is None or count > limits.set_integers_max:
            value._encoding = LISTPACK if count <= limits.set_entries_max else HASHTABLE
            if value._encoding == HASHTABLE:
                value._members.expect(count)
        return value

    def __len__(self) -> int:
        return len(self._integers) or len(self._members)

    def __contains__(self, member: bytes) -> bool:
        if self._encoding != INTSET:
            return member in self._members
        return member in self._integers

    def has_each(self, members: list[bytes]) -> list[int]:
        """Return for each member 1 if it is in the set, else 0."""
        if self._encoding == INTSET:
            return self._integers.has_each(members)
        return self._members.has_each(members)

    def having(self, members: list[bytes]) -> list[bytes]:
        """Those of the members that are in the set."""
        if self._encoding == INTSET:
            return self._integers.having(members, True)
        return self._members.having(members, True)

    def lacking(self, members: list[bytes]) -> list[bytes]:
        """Those of the members that are not in the set."""
        if self._encoding == INTSET:
            return self._integers.having(members, False)
        return self._members.having(members, False)

    @property
    def encoding(self) -> bytes:
        return self._encoding

    @property
    def memory_size(self) -> int:
        if self._integers is NO_INTEGERS:
            return SET_SIZE + self._members.memory_size
        return SET_SIZE + INTEGERS_SIZE + self._integers.memory_size + self._members.memory_size

    @property
    def integers(self) -> PackedIntegers:
        """The members of an intset. They must not be changed."""
        return self._integers

    # -- reading ---------------------------------------------------------------------------------

    def members(self) -> list[bytes]:
        """All members, in the order of Redis unless it is a hash table."""
        if self._encoding == INTSET:
            return self._integers.between(0, len(self._integers))
        return self._members.names()

    def bulks(self) -> Iterator[bytes] | None:
        """The members as bulk strings of a reply, in pieces: see `Members.bulks`. None if it takes no less time to
        encode what others return."""
        return None if self._encoding == INTSET or self._members.are_few else self._members.bulks(True, False)

    def listpack(self) -> bytes | None:
        """The listpack of the members, unless the caller must make it from `members`: see `PackedPairs.listpack`."""
        return self._members.listpack(1)

    def at(self, index: int) -> bytes:
        """The member at an index, in an order that lasts until a member comes or goes."""
        if self._encoding == INTSET:
            return self._integers.at(index)
        return self._members.at(index)

    def at_each(self, indexes: list[int]) -> list[bytes]:
        """Like `at`, for many indexes at once."""
        if self._encoding == INTSET:
            return self._integers.at_each(indexes)
        return self._members.at_each(indexes)

    def scan(self, cursor: int, count: int) -> tuple[list[bytes], int]:
        """See `Members.scan`."""
        if self._encoding == INTSET:
            return self.members(), 0
        return self._members.scan(cursor, count, is_packed=self._encoding == LISTPACK)

    def part(self, cursor: int, count: int) -> tuple[list[bytes], int]:
        """See `Members.part`."""
        if self._encoding == INTSET:
            after, size = cursor + count, len(self._integers)
            return self._integers.between(cursor, min(after, size)), after if after < size else 0
        return self._members.part(cursor, count)

    # -- changing --------------------------------------------------------------------------------

    def expect(self, count: int) -> None:
        """Take the encoding for so many members that may be added now."""
        if (self._encoding == LISTPACK and count > self.limits.set_entries_max) or (
            self._encoding == INTSET and count > self.limits.set_integers_max
        ):
            self._become(HASHTABLE)

    def add(self, member: bytes) -> bool:
        """Add a member. Returns whether it is new."""
        limits = self.limits
        if self._encoding == INTSET:
            if self._integers is NO_INTEGERS:
                self._integers = PackedIntegers()
            integers = self._integers
            added = integers.add(member)
            if added >= 0:
                if added and len(integers) > min(limits.set_integers_max, INTEGERS_MAX):
                    self._become(HASHTABLE)
                return added > 0
            digits_max = max(map(len, integers.at_each([0, len(integers) - 1]))) if len(integers) else 0
            is_small = len(integers) < limits.set_entries_max and digits_max <= limits.set_value_max
            self._become(LISTPACK if is_small and len(member) <= limits.set_value_max else HASHTABLE)
            return self._members.put(member)
        if self._encoding == HASHTABLE:
            return self._members.put(member)
        if member in self._members:
            return False
        if len(self._members) >= limits.set_entries_max or len(member) > limits.set_value_max:
            self._become(HASHTABLE)
        return self._members.put(member)

    def add_all(self, members: list[bytes]) -> int:
        """Add members. Returns how many are new."""
        added, index = 0, 0
        if self._encoding == INTSET and not len(self) and members and as_integer(members[0]) is None:
            self._become(LISTPACK)
        while self._encoding == INTSET and index < len(members):
            added += self.add(members[index])
            index += 1
        if index:
            members = members[index:]
        if self._encoding == HASHTABLE or not members:
            return added + self._members.put_names(members)
        # A set that gets nothing new keeps its encoding, also if a limit is lower now.
        new, limits = self._members.new_names(members), self.limits
        is_small = len(self._members) + len(new) <= limits.set_entries_max
        if new and (not is_small or max(map(len, new)) > limits.set_value_max):
            self._become(HASHTABLE)
        return added + self._members.add_new(new)

    def parts(self, count: int) -> Iterator[list[bytes]]:
        """Yield the members in the order of `members`, about `count` at a time. They must not change meanwhile."""
        if self._encoding == INTSET:
            for start in range(0, len(self._integers), count):
                yield self._integers.between(start, start + count)
        else:
            yield from self._members.name_parts(count)

    def _become(self, encoding: bytes) -> None:
        """Keep the members as byte strings from now on, in this encoding."""
        self._encoding = encoding
        if self._integers is not NO_INTEGERS:
            self._members.expect(len(self._integers))
            self._members.put_names(self._integers.between(0, len(self._integers)))
            self._integers = NO_INTEGERS

    def discard(self, member: bytes) -> bool:
        """Remove a member. Returns whether it was there."""
        if self._encoding != INTSET:
            return self._members.pop(member) is not None
        return self._integers.discard(member)

    def discard_all(self, members: list[bytes]) -> int:
        """Remove members. Returns how many were there."""
        if self._encoding != INTSET:
            return self._members.discard_all(members)
        if len(members) < REMOVED_MIN:
            return sum(map(self.discard, members))
        return self._integers.discard_all(members)

    # -- keeping ---------------------------------------------------------------------------------

    def become_table(self, count: int = 0) -> None:
        """Be a hash table from now on, to which so many members will be added."""
        self._members.expect(count)
        self._become(HASHTABLE)

    def leave_table(self) -> None:
        """Take the encoding that a hash table's members get if they are added to a new set of texts."""
        if self._encoding == HASHTABLE:
            members = self._members.names()
            self._encoding, self._members = LISTPACK, Members()
            self.add_all(members)

    def load_integers(self, numbers: list[int]) -> None:
        """Take over the ascending numbers of an intset, in an empty set."""
        integers = PackedIntegers()
        integers.load(numbers)
        self.take_integers(integers)

    def take_integers(self, numbers: PackedIntegers) -> None:
        """Like `load_integers`, with numbers that no other set has."""
        self._integers = numbers
        if len(numbers) > self.limits.set_integers_max:
            self._become(HASHTABLE)

    def load_listpack(self, listpack: bytes) -> bool:
        """Take over the members of a listpack, in an empty set. Returns False if the caller must read them: see
        `PackedPairs.load`."""
        if self._members.load(listpack, 1) < 0:
            return False
        self._encoding = LISTPACK if len(self._members) <= self.limits.set_entries_max else HASHTABLE
        return True

    def load_members(self, members: list[bytes]) -> None:
        """Like `load_listpack`, with different members that the caller has read."""
        self._encoding = LISTPACK if len(members) <= self.limits.set_entries_max else HASHTABLE
        self._members.put_names(members)

    def copy(self) -> SetValue:
        twin = SetValue(self.limits, self._members.copy())
        twin._encoding = self._encoding
        if self._integers is not NO_INTEGERS:
            twin._integers = self._integers.copy()
        return twin

    def heaps(self) -> list[Any]:
        return self._members.heaps()

    def check(self) -> None:
        assert not len(NO_INTEGERS)
        assert not (len(self._integers) and len(self._members))
        numbers = self._integers.numbers()
        assert numbers == sorted(set(numbers))
        assert self._encoding != INTSET or not len(self._members)
        self._members.check()
