"""A hash: its fields with their values and expiry times, and the encoding that Redis would have chosen for them.

A field is due when its expiry time is over. It stays until it is removed; commands that show fields leave it out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Final

from ..due_times import NEVER_DUE_MS, DueTimes
from ..limits import Limits
from .companion import Companion
from .members import Members

LISTPACK: Final = b"listpack"
# A listpack that had a field with an expiry time at some time: its fields are in the order of their times.
LISTPACK_EX: Final = b"listpackex"
HASHTABLE: Final = b"hashtable"

# Bytes of the object and its attributes.
HASH_SIZE: Final = 112


class HashValue(Companion):
    """A hash. `limits` decide when it is no longer small. Times are Unix ms."""

    __slots__ = ("_encoding", "_members", "_times")

    type_name: ClassVar[bytes] = b"hash"
    type_number: ClassVar[int] = 4

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits)
        self._encoding = LISTPACK
        self._members = Members()
        # None until a field gets an expiry time.
        self._times: DueTimes | None = None

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, field: bytes) -> bool:
        return field in self._members

    @property
    def encoding(self) -> bytes:
        return self._encoding

    @property
    def memory_size(self) -> int:
        times_size = 0 if self._times is None else self._times.memory_size
        return HASH_SIZE + times_size + self._members.memory_size

    # -- reading ---------------------------------------------------------------------------------

    def get(self, field: bytes) -> bytes | None:
        """The value of a field, due or not; None if there is no such field."""
        return self._members.get(field)

    def items(self) -> Iterable[tuple[bytes, bytes]]:
        """The fields with their values, in the order of Redis unless it is a hash table. They must not change
        meanwhile."""
        return self._members.items()

    def live_words(self, now_ms: int) -> list[bytes]:
        """The fields that are not due, each with its value after it."""
        if self.first_due_ms >= now_ms:
            return self._members.words()
        return [word for pair in self.live_items(now_ms) for word in pair]

    def live_bulks(self, now_ms: int, has_fields: bool, has_values: bool) -> list[bytes] | None:
        """The fields that are not due, or their values, or both in turn, as bulk strings of a reply, in pieces.

        None if there are few, or if some may be due: then it takes no less time than to encode what others return.
        """
        return None if self.first_due_ms < now_ms else self._members.bulks(has_fields, has_values)

    def live_values(self, now_ms: int) -> list[bytes]:
        """The values of the fields that are not due."""
        if self.first_due_ms >= now_ms:
            return self._members.texts()
        return [text for _, text in self.live_items(now_ms)]

    def live_items(self, now_ms: int) -> Iterable[tuple[bytes, bytes]]:
        """Like `items`, without the fields that are due."""
        times = self._times
        if times is None or self.first_due_ms >= now_ms:
            return self._members.items()
        return [each for each in self._members.items() if times.get(each[0]) >= now_ms]

    def live_fields(self, now_ms: int) -> list[bytes]:
        """The fields that are not due."""
        return self.live(self._members.names(), now_ms)

    def live(self, fields: list[bytes], now_ms: int) -> list[bytes]:
        """Those of the fields that are not due."""
        times = self._times
        if times is None or self.first_due_ms >= now_ms:
            return fields
        return [field for field in fields if times.get(field) >= now_ms]

    def at(self, index: int) -> bytes:
        """The field at an index, in an order that lasts until a field comes or goes."""
        return self._members.at(index)

    def at_each(self, indexes: list[int]) -> list[bytes]:
        """Like `at`, for many indexes at once."""
        return self._members.at_each(indexes)

    def scan(self, cursor: int, count: int) -> tuple[list[bytes], int]:
        """See `Members.scan`."""
        return self._members.scan(cursor, count)

    # -- expiry times ----------------------------------------------------------------------------

    def due_ms(self, field: bytes) -> int | None:
        """The expiry time of a field; None if it has none."""
        due_ms = NEVER_DUE_MS if self._times is None else self._times.get(field)
        return None if due_ms == NEVER_DUE_MS else due_ms

    def is_due(self, field: bytes, now_ms: int) -> bool:
        """Whether the expiry time of a field is over."""
        return self.first_due_ms < now_ms and self._times is not None and self._times.get(field) < now_ms

    def expire_at(self, field: bytes, due_ms: int, *, stays: bool = False) -> None:
        """Set the expiry time of an existing field. With `stays` it is in its place already: a file has it there."""
        times = self._times
        if times is None:
            times = self._times = DueTimes()
        times.put(field, due_ms)
        self.first_due_ms = min(self.first_due_ms, due_ms)
        if self._encoding == LISTPACK:
            self._encoding = LISTPACK_EX
        if self._encoding == LISTPACK_EX and not stays:
            self._members.place(field, lambda other: times.get(other) >= due_ms)

    def persist(self, field: bytes) -> bool:
        """Remove the expiry time of a field. Returns whether it had one."""
        if not self._drop_time(field):
            return False
        if self._encoding == LISTPACK_EX:
            self._members.place(field, lambda other: False)
        return True

    def _drop_time(self, field: bytes) -> bool:
        times = self._times
        if times is None or not times.drop(field):
            return False
        if not len(times):
            self._times = None
            self.first_due_ms = NEVER_DUE_MS
        return True

    def first_due(self, now_ms: int) -> bytes | None:
        """The field that is due first; None if none is. Sets `first_due_ms` to the present one."""
        if self._times is None:
            return None
        self.first_due_ms, field = self._times.first()
        return field if self.first_due_ms < now_ms else None

    # -- changing --------------------------------------------------------------------------------

    def expect(self, count: int) -> None:
        """Take the encoding for so many fields that are set now."""
        if count > self.limits.hash_entries_max:
            self._encoding = HASHTABLE

    def expect_words(self, words: list[bytes]) -> None:
        """Like `expect`, for fields and values that are set now. Redis counts options after them as well."""
        if len(words) // 2 > self.limits.hash_entries_max or max(map(len, words)) > self.limits.hash_value_max:
            self._encoding = HASHTABLE

    def set(self, field: bytes, value: bytes, *, keeps_time: bool = False) -> bool:
        """Set a field; its expiry time goes unless `keeps_time` is set. Returns whether it is new."""
        is_new = self._members.put(field, value)
        if self._encoding != HASHTABLE:
            limits = self.limits
            size_max = limits.hash_value_max
            if len(field) > size_max or len(value) > size_max or len(self._members) > limits.hash_entries_max:
                self._encoding = HASHTABLE
        if self._times is not None and not keeps_time and not is_new:
            self.persist(field)
        return is_new

    def set_words(self, words: list[bytes]) -> int:
        """Set fields, each with its value after it; their expiry times go. Returns how many are new."""
        is_new, index = 0, 0
        while (self._encoding != HASHTABLE or self._times is not None) and index < len(words):
            is_new += self.set(words[index], words[index + 1])
            index += 2
        return is_new + self._members.put_words(words[index:] if index else words)

    def pop(self, field: bytes) -> bytes | None:
        """Remove a field. Returns its value; None if there is no such field."""
        value = self._members.pop(field)
        if self._times is not None and value is not None:
            self._drop_time(field)
        return value

    # -- keeping ---------------------------------------------------------------------------------

    def become_table(self) -> None:
        """Be a hash table from now on."""
        self._encoding = HASHTABLE

    def become_listpack_ex(self) -> None:
        """Be a listpack with expiry times from now on, unless it is a hash table."""
        if self._encoding == LISTPACK:
            self._encoding = LISTPACK_EX

    def copy(self) -> HashValue:
        twin = HashValue(self.limits)
        twin._encoding = self._encoding
        twin._members = self._members.copy()
        twin._times = None if self._times is None else self._times.copy()
        twin.first_due_ms = self.first_due_ms
        return twin

    def heaps(self) -> list[object]:
        return [*self._members.heaps(), *([] if self._times is None else self._times.heaps())]

    def check(self) -> None:
        self._members.check()
        assert (self._times is None) == (self.first_due_ms == NEVER_DUE_MS)
        if self._times is not None:
            self._times.check()
            assert all(field in self._members for field in self._times.names())
            assert self.first_due_ms <= self._times.first()[0]
