"""The keys of a database with their values and expiry times, for installations without a C compiler.

`key_table` does the same in C, with a single block of memory for each key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush
from itertools import islice
from sys import getsizeof
from typing import TYPE_CHECKING, Any, Final

from .key_slots import KeySlots
from .object_sizes import NUMBER_SIZE, text_size

if TYPE_CHECKING:
    from .value import Value

# `first_due_ms` of a table without expiry times, and of one whose times are all later: a number of 62 bits, which
# compiled code compares without making an object.
NEVER_DUE_MS: Final = (1 << 62) - 1

# Bytes of an expiry time: the number, and its pair with the key in the heap.
DUE_SIZE: Final = NUMBER_SIZE + 80

# Changed and dropped times stay in the heap. It is made anew when it is longer than this and than twice the rest.
STALE_SLACK: Final = 64

# Keys that `bulks` encodes at a time.
BULKS_COUNT: Final = 1024


class KeyTable:
    """Values and expiry times (Unix ms) by key. A value is a byte string or any other object.

    `first_due_ms` is the smallest expiry time, at most NEVER_DUE_MS, which it also is if there is none.
    """

    def __init__(self) -> None:
        self._values: dict[bytes, Value] = {}
        self._slots = KeySlots()
        self._due: dict[bytes, int] = {}
        # (time, key), also of times that have been changed or dropped since.
        self._heap: list[tuple[int, bytes]] = []
        self.first_due_ms = NEVER_DUE_MS
        # Bytes of all keys and strings. Other values count nothing.
        self.size = 0

    # -- reading ---------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: bytes) -> bool:
        return key in self._values

    def __getitem__(self, key: bytes) -> Value:
        return self._values[key]

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._values)

    def get(self, key: bytes) -> Value | None:
        """The value of a key, None if there is no such key."""
        return self._values.get(key)

    def get_keys(self, keys: list[bytes]) -> list[Any]:
        """The value of each key, None for each that is not there."""
        return [self._values.get(key) for key in keys]

    def having(self, keys: list[bytes], wanted: bool) -> list[bytes]:
        """Those of the keys that are there, or with `wanted` False those that are not."""
        return [key for key in keys if (key in self._values) is wanted]

    def get_live(self, key: bytes, now_ms: int) -> Value | None:
        """The value of a key; None if there is no such key, or if its expiry time is before `now_ms`."""
        due_ms = self._due.get(key)
        return None if due_ms is not None and due_ms < now_ms else self._values.get(key)

    def items(self) -> Iterable[tuple[bytes, Value]]:
        """Keys with their values."""
        return self._values.items()

    def words(self) -> list[Any]:
        """The keys, each with its value after it."""
        return [word for pair in self._values.items() for word in pair]

    def keys(self) -> list[bytes]:
        """The keys, in the order of `items`."""
        return list(self._values)

    def scan_words(self, cursor: int, count: int) -> tuple[list[Any], int]:
        """Like `scan`, each key with its value after it."""
        keys, after = self.scan(cursor, count)
        return [word for key in keys for word in (key, self._values[key])], after

    def values(self) -> list[Any]:
        """The values, in the order of `items`."""
        return list(self._values.values())

    def bulks(self, start: int, has_keys: bool, has_values: bool) -> tuple[list[bytes], int]:
        """Some of the keys, or their values, or each key with its value after it, as bulk strings of a reply, in
        pieces; and where to continue, 0 at the end. All values are strings."""
        keys, after = self.scan(start, BULKS_COUNT)
        pieces: list[bytes] = []
        for key in keys:
            text = self._values[key]
            assert isinstance(text, bytes)
            if has_keys:
                pieces.append(b"$%d\r\n%b\r\n" % (len(key), key))
            if has_values:
                pieces.append(b"$%d\r\n%b\r\n" % (len(text), text))
        return pieces, after

    def fetch_soon(self, requests: list[list[bytes]]) -> None:
        """Have the processor fetch what the first keys of some requests need, all at once: later each of them would
        wait for the memory several times. It changes nothing. In pipelines of 16, GET of one of a million keys takes
        1.4 times as long without it, and SET 1.3 times; the same key again and again takes 2 % less. Of a value that is
        an object, the objects to which it refers are fetched as well: in pipelines of 16, HGET of one of 100,000 hashes
        takes 1.2 times as long without that."""

    def scan(self, cursor: int, count: int) -> tuple[list[bytes], int]:
        """See `KeySlots.scan`."""
        return self._slots.scan(cursor, count)

    def beginning(self, prefix: bytes) -> list[bytes]:
        """Return the keys that begin so, in the order of iteration."""
        return [key for key in self if key.startswith(prefix)] if prefix else list(self)

    def neighbours(self, index: int) -> list[bytes]:
        """See `KeySlots.neighbours`."""
        return self._slots.neighbours(index)

    def keys_at(self, indexes: list[int]) -> list[bytes]:
        """Return the keys at these indexes, in an arbitrary order of all keys."""
        if len(indexes) == 1:
            return [self._slots.neighbours(indexes[0])[0]]
        keys = list(self._values)
        return [keys[index] for index in indexes]

    # -- sizes -----------------------------------------------------------------------------------

    @property
    def memory_size(self) -> int:
        """Bytes of the tables that find keys."""
        return getsizeof(self._values) + self._slots.memory_size

    @property
    def expiry_size(self) -> int:
        """Bytes of the table that finds the key that expires first."""
        return getsizeof(self._due) + getsizeof(self._heap) if self._due else 0

    def key_size(self, key: bytes) -> int:
        """Bytes of an existing key with its expiry time, and with its value if that is a string."""
        value = self._values[key]
        size = text_size(key) + (text_size(value) if isinstance(value, bytes) else 0)
        return size + DUE_SIZE if key in self._due else size

    # -- changing --------------------------------------------------------------------------------

    def put(self, key: bytes, value: Value, keep_expiry: bool = False) -> bool:
        """Store a value. The expiry time is dropped unless `keep_expiry` is set. Returns whether the key is new."""
        is_new = key not in self._values
        if is_new:
            self._slots.add(key)
        else:
            if not keep_expiry:
                self.persist(key)
            self.size -= self.key_size(key)
        self._values[key] = value
        self.size += self.key_size(key)
        return is_new

    def put_keys(self, keys: list[bytes]) -> int:
        """Add those of the keys that are new, with empty strings. Returns how many were new."""
        count = len(self)
        for key in keys:
            if key not in self._values:
                self.put(key, b"")
        return len(self) - count

    def put_words(self, words: list[bytes]) -> int:
        """Store strings: each key has its string after it. Expiry times are kept. Returns how many keys were new."""
        count = len(self)
        for index in range(0, len(words), 2):
            self.put(words[index], words[index + 1], True)
        return len(self) - count

    def add_many(self, values: list[tuple[bytes, Value, int | None]]) -> bytes | None:
        """Store new keys with values, each with its expiry time or None. Returns the first key that exists already;
        it and those after it are not stored. Otherwise returns None."""
        for key, value, expires_ms in values:
            if key in self._values:
                return key
            self.put(key, value)
            if expires_ms is not None:
                self.expire_at(key, expires_ms)
        return None

    def pop(self, key: bytes) -> Value | None:
        """Remove a key. Returns its value, None if there is no such key."""
        if key not in self._values:
            return None
        self.size -= self.key_size(key)
        self._slots.remove(key)
        value = self._values.pop(key)
        if self._due.pop(key, None) is not None:
            self._settle_heap()
        return value

    def pop_keys(self, keys: list[bytes]) -> list[Any]:
        """Remove keys. Returns the value of each, None for each that is not there."""
        return [self.pop(key) for key in keys]

    def splice(self, key: bytes, offset: int, piece: bytes) -> bool:
        """Write `piece` over the string of an existing key from `offset` on; bytes missing before it become zeros.

        Returns False, without a change, where that would need a copy. Here it always would: Python alone cannot change
        a byte string.
        """
        return False

    # -- expiry times ----------------------------------------------------------------------------

    @property
    def expiring_count(self) -> int:
        """Number of keys that have an expiry time."""
        return len(self._due)

    def due_ms(self, key: bytes) -> int | None:
        """The expiry time of a key, None if there is none."""
        return self._due.get(key)

    def expire_at(self, key: bytes, time_ms: int) -> None:
        """Set the expiry time of an existing key, a number of 64 bits with a sign. Raises KeyError, OverflowError."""
        if not -1 << 63 <= time_ms < 1 << 63:
            raise OverflowError(time_ms)
        self.size -= self.key_size(key)
        self._due[key] = time_ms
        self.size += self.key_size(key)
        heappush(self._heap, (time_ms, key))
        self._settle_heap()

    def persist(self, key: bytes) -> bool:
        """Drop the expiry time of a key. Returns whether it had one."""
        if key not in self._due:
            return False
        self.size -= self.key_size(key)
        del self._due[key]
        self.size += self.key_size(key)
        self._settle_heap()
        return True

    def _settle_heap(self) -> None:
        """Drop outdated times from the top of the heap, and all of them if there are many."""
        heap, due = self._heap, self._due
        if len(heap) > STALE_SLACK + 2 * len(due):
            heap[:] = [(time_ms, key) for key, time_ms in due.items()]
            heapify(heap)
        while heap and due.get(heap[0][1]) != heap[0][0]:
            heappop(heap)
        self.first_due_ms = min(heap[0][0], NEVER_DUE_MS) if heap else NEVER_DUE_MS

    def first_due(self) -> bytes | None:
        """A key that expires no later than any other; None if no key expires."""
        return self._heap[0][1] if self._heap else None

    def expiring(self) -> list[bytes]:
        """All keys that have an expiry time."""
        return list(self._due)

    def due_times(self, count: int) -> list[int]:
        """Some of the expiry times, at most that many."""
        return list(islice(self._due.values(), count))

    # -- whole -----------------------------------------------------------------------------------

    def copy(self) -> KeyTable:
        """The table as it is now. Its expiry times are only there for `take_some`."""
        twin = KeyTable()
        twin._values, twin._due = self._values.copy(), self._due.copy()
        twin._slots, twin.size = self._slots.copy(), self.size
        return twin

    def take_some(self, count: int) -> tuple[list[tuple[bytes, bytes]], list[tuple[bytes, Value]], dict[bytes, int]]:
        """Take some keys of a copy, at most that many; none only if none are left. Returns those with strings and
        their strings, the others and their values, and the expiry times that they have."""
        strings: list[tuple[bytes, bytes]] = []
        others: list[tuple[bytes, Value]] = []
        expires: dict[bytes, int] = {}
        for _ in range(min(count, len(self._values))):
            key, value = self._values.popitem()
            if isinstance(value, bytes):
                strings.append((key, value))
            else:
                others.append((key, value))
            if key in self._due:
                expires[key] = self._due.pop(key)
        return strings, others, expires

    def give_back(self, count: int) -> list[Value]:
        """Free about that many keys of a table that is no longer used. Returns those of their values that are
        objects of their own, and that no copy has."""
        return [self._values.popitem()[1] for _ in range(min(count, len(self._values)))]

    def check(self) -> None:
        """Assert that all views agree. Raises AssertionError."""
        self._slots.check(self._values)
        assert self._due.keys() <= self._values.keys()
        assert self.size == sum(map(self.key_size, self._values))
        assert {(time_ms, key) for key, time_ms in self._due.items()} <= set(self._heap)
        assert self.first_due_ms == min([*self._due.values(), NEVER_DUE_MS])


class ExpiryTimes:
    """The expiry times of a table by key, like a dictionary. Only an existing key can be given one."""

    def __init__(self, table: KeyTable) -> None:
        self._table = table

    def __len__(self) -> int:
        return self._table.expiring_count

    def __contains__(self, key: bytes) -> bool:
        return self._table.due_ms(key) is not None

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._table.expiring())

    def __getitem__(self, key: bytes) -> int:
        time_ms = self._table.due_ms(key)
        if time_ms is None:
            raise KeyError(key)
        return time_ms

    def __setitem__(self, key: bytes, time_ms: int) -> None:
        self._table.expire_at(key, time_ms)

    def __delitem__(self, key: bytes) -> None:
        if not self._table.persist(key):
            raise KeyError(key)

    def get(self, key: bytes, default: int | None = None) -> int | None:
        """The expiry time of a key, else the default."""
        time_ms = self._table.due_ms(key)
        return default if time_ms is None else time_ms

    def pop(self, key: bytes, default: int | None = None) -> int | None:
        """Drop the expiry time of a key. Returns it, else the default."""
        time_ms = self._table.due_ms(key)
        if time_ms is None:
            return default
        self._table.persist(key)
        return time_ms

    def values(self) -> list[int]:
        """All expiry times."""
        return self._table.due_times(len(self))
