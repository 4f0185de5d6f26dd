"""Keys, their expiry times, and who must hear of a change.

A `Database` is one numbered keyspace; the `Store` holds them all. Values are `Stream` objects or, for
plain strings, `bytes`. Nothing here reads a clock: `now_ms` is Unix time in milliseconds, given by the caller.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from itertools import islice
from sys import getsizeof
from typing import Final, Protocol

from .errors import WrongType
from .events import EXPIRED, KEY_MISS, NEW, OVERWRITTEN, TYPE_CHANGED, Event
from .garbage import Garbage
from .memory import NUMBER_SIZE, stream_size, table_share, text_size, value_size
from .stream import Stream

Value = Stream | bytes
"""A string that Redis would keep otherwise than its bytes suggest is of a class of `text`."""

SLOT_BITS: Final = 12
SLOT_COUNT: Final = 1 << SLOT_BITS
"""Slots of the key index: a million keys make slots of some 250, small enough to sort at every step of a SCAN."""

PLACE_BITS: Final = 36
"""Bits that order the keys of a slot. A SCAN cursor is slot and place, 48 bits: exact even for clients with doubles."""

SPARSE_SLOT_COUNT: Final = 64
"""With no more slots in use than this, sorting their numbers is cheaper than trying all of them."""


def place_of(key: bytes) -> int:
    """Where SCAN meets the key: its slot and, below that, its place there. It depends on nothing but the key's hash."""
    code = hash(key)
    return (code & (SLOT_COUNT - 1)) << PLACE_BITS | code >> SLOT_BITS & ((1 << PLACE_BITS) - 1)


def plain_text(value: Value | None) -> bytes | None:
    """A string as plain bytes; None if there is none. Raises WrongType."""
    if type(value) is bytes or value is None:
        return value
    if type(value) is Stream:
        raise WrongType
    return bytes(value)  # type: ignore[arg-type]


class Watcher(Protocol):
    """A transaction that must fail if a watched key changes (WATCH)."""

    dirty: bool
    has_let_go: bool
    """One of its keys was touched: it is shown as watching nothing. A flush or a swap only makes it dirty."""


class Database:
    """One keyspace.

    Who must hear of a change does so by one of these ways: `touch` says that a key is not what it was, to transactions
    that WATCH it and to clients that cache it, and `announce` names what happened to it, to whoever subscribed to such
    events; both cost one look at `is_observed` where nobody listens. `signal_ready` names keys that may feed blocked
    readers, `expired_keys` collects keys that lazy or active expiry removed, for the log.
    """

    __slots__ = (
        "_slots", "expired_keys", "expires", "frozen", "garbage", "hits", "index", "is_observed", "keys", "misses",
        "on_change", "on_event", "ready", "size", "streams", "watchers",
    )  # fmt: skip

    def __init__(
        self, index: int, garbage: Garbage | None = None, expired_keys: list[tuple[int, bytes]] | None = None
    ) -> None:
        self.index = index
        self.garbage = Garbage() if garbage is None else garbage
        """Where what has been removed waits to be given back."""
        self.keys: dict[bytes, Value] = {}
        self.streams: dict[bytes, Stream] = {}
        """The keys that hold streams."""
        self.size = 0
        """Bytes of all keys and values; of streams what they had when last looked at, see `recount`."""
        self.expires: dict[bytes, int] = {}
        """Absolute expiry times in Unix ms, for the keys that have one."""
        self.watchers: dict[bytes, set[Watcher]] = {}
        self.ready: dict[bytes, None] = {}
        """Keys touched since the waiters were last served, in touch order."""
        self.expired_keys: list[tuple[int, bytes]] = [] if expired_keys is None else expired_keys
        """(database index, key) of those removed by expiry since the log last took them; one list for a whole store."""
        self._slots: defaultdict[int, set[bytes]] = defaultdict(set)
        """The keys by slot; slots without keys are left out."""
        self.frozen = False
        """While set nothing expires; kept by `Store.freeze` and `Store.thaw`."""
        self.hits = 0
        """Reads of keys that were there (INFO keyspace_hits); reads of those that were not are `misses`."""
        self.misses = 0
        self.on_change: Callable[[bytes, Event | None], None] | None = None
        """Called with each key that is touched, and the event that did it."""
        self.on_event: Callable[[int, Event, bytes], None] | None = None
        """Called with database index, event and key."""
        self.is_observed = False
        """Whether anybody watches or listens; kept by `watch`, `unwatch` and `listen`."""

    # -- reading ---------------------------------------------------------------------------------

    def get(self, key: bytes, now_ms: int) -> Value | None:
        """The live value of `key`; an expired one is removed first."""
        if self.expires and key in self.expires:
            self.expire_if_due(key, now_ms)
        return self.keys.get(key)

    def get_stream(self, key: bytes, now_ms: int) -> Stream | None:
        """The stream at `key`, None if there is none. Raises WrongType."""
        value = self.get(key, now_ms)
        if type(value) is Stream:
            value.used_ms = now_ms
            return value
        if value is not None:
            raise WrongType
        return None

    def use(self, key: bytes, now_ms: int) -> None:
        """Note that a command looks at a value whatever its type; `get_stream` and `read_stream` do so themselves."""
        stream = self.streams.get(key)
        if stream is not None:
            stream.used_ms = now_ms

    def get_string(self, key: bytes, now_ms: int) -> bytes | None:
        """The string at `key`, None if there is none. Raises WrongType."""
        return plain_text(self.get(key, now_ms))

    def read(self, key: bytes, now_ms: int) -> Value | None:
        """Like `get`, for the commands whose reads Redis counts as hits and misses. A miss is announced."""
        value = self.get(key, now_ms)
        self.count_read(key, value is not None)
        return value

    def inspect(self, key: bytes, now_ms: int) -> Value | None:
        """Like `read`, for OBJECT: a miss is counted but not announced."""
        value = self.get(key, now_ms)
        if value is None:
            self.misses += 1
        else:
            self.hits += 1
        return value

    def count_read(self, key: bytes, was_there: bool) -> None:
        """Count one read of a key, and announce a miss."""
        if was_there:
            self.hits += 1
        else:
            self.misses += 1
            self.announce(KEY_MISS, key)

    def read_stream(self, key: bytes, now_ms: int) -> Stream | None:
        """Like `get_stream`, counted as a hit or a miss. Raises WrongType."""
        value = self.read(key, now_ms)
        if type(value) is Stream:
            value.used_ms = now_ms
            return value
        if value is not None:
            raise WrongType
        return None

    def read_string(self, key: bytes, now_ms: int) -> bytes | None:
        """Like `get_string`, counted as a hit or a miss. Raises WrongType."""
        return plain_text(self.read(key, now_ms))

    def scan(self, cursor: int, count: int) -> tuple[list[bytes], int]:
        """About `count` keys from `cursor` on, and the cursor to go on with; 0 begins, and ends.

        The order is that of `place_of`, so a key never moves and a cursor stays good whatever comes and goes: what is
        there during the whole walk is met, once. A call costs its keys and one slot. Keys may have expired.
        """
        found: list[bytes] = []
        previous = -1
        for slot in self._slots_from(cursor >> PLACE_BITS):
            for place, key in sorted((place_of(key), key) for key in self._slots.get(slot, ())):
                if place < cursor:
                    continue
                # Keys of one place stay together, or the next call would pass over some.
                if len(found) >= count and place != previous:
                    return found, place
                found.append(key)
                previous = place
        return found, 0

    def _slots_from(self, first: int) -> Iterable[int]:
        """Slots in order, all that have keys among them."""
        if len(self._slots) <= SPARSE_SLOT_COUNT:
            return sorted(slot for slot in self._slots if slot >= first)
        return range(first, SLOT_COUNT)

    def neighbours(self, index: int) -> list[bytes]:
        """The key that is `index`-th in some order of all keys, and the others of its slot behind it."""
        for slot in self._slots.values():
            if index < len(slot):
                return [*islice(slot, index, None), *islice(slot, index)]
            index -= len(slot)
        raise IndexError(index)

    # -- changing --------------------------------------------------------------------------------

    def put(self, key: bytes, value: Value, event: Event | None = None, *, keep_expiry: bool = False) -> None:
        """Store `value`; a stored expiry time is dropped unless told otherwise. Touches the key, and announces that it
        is new, if so, and the event."""
        old = self._store(key, value, keep_expiry=keep_expiry)
        if self.is_observed:
            if old is None:
                self.announce(NEW, key)
            self.touch(key, event)
        self.signal_ready(key)

    def add(self, key: bytes, value: Value) -> None:
        """Store `value` under a key that is not there, and announce that it is new. The caller touches it."""
        self._store(key, value, keep_expiry=False)
        self.announce(NEW, key)
        self.signal_ready(key)

    def _store(self, key: bytes, value: Value, *, keep_expiry: bool) -> Value | None:
        """Bring a value into the tables, and return what was there. Nobody is told."""
        old = self.keys.get(key)
        if old is None:
            self._slots[hash(key) & (SLOT_COUNT - 1)].add(key)
            self.size += text_size(key)
        else:
            self._uncount(key, old)
        self.keys[key] = value
        if type(value) is Stream:
            self.streams[key] = value
            value.counted_size = 0
            self.recount(value)
        else:
            self.size += value_size(value)
        if not keep_expiry:
            self.expires.pop(key, None)
        return old

    def overwrite(self, key: bytes, value: Value, event: Event, now_ms: int, *, keep_expiry: bool = False) -> None:
        """`put` over whatever is there, as SET does: an expired key is removed first, and what is overwritten is
        announced before the event."""
        old = self.get(key, now_ms)
        if self.is_observed:
            self.announce_overwritten(key, old, value)
        self.put(key, value, event, keep_expiry=keep_expiry)

    def replace(self, key: bytes, value: Value) -> Value | None:
        """`put` where Redis first deletes what is there. The caller announces NEW before, whether the key is there or
        not, and afterwards its event and what has been overwritten: the value returned."""
        old = self._store(key, value, keep_expiry=False)
        self.touch(key)
        self.signal_ready(key)
        return old

    def announce_overwritten(self, key: bytes, old: Value | None, new: Value) -> None:
        """One value, if there was one, gives way to another."""
        if old is not None:
            self.announce(OVERWRITTEN, key)
            if isinstance(old, Stream) is not isinstance(new, Stream):
                self.announce(TYPE_CHANGED, key)

    def remove(self, key: bytes, event: Event | None = None) -> Value | None:
        """Take `key` out, with its expiry. Touches it if it was there, and announces the event."""
        value = self.keys.pop(key, None)
        if value is not None:
            slot = hash(key) & (SLOT_COUNT - 1)
            self._slots[slot].discard(key)
            if not self._slots[slot]:
                del self._slots[slot]
            self.expires.pop(key, None)
            self.size -= text_size(key)
            self._uncount(key, value)
            self.touch(key, event)
            self.signal_ready(key)
        return value

    def delete(self, key: bytes, event: Event | None = None) -> bool:
        """Remove `key` for good, and say whether it was there."""
        value = self.remove(key, event)
        if type(value) is Stream:
            self.garbage.add_stream(value)
        return value is not None

    def _uncount(self, key: bytes, value: Value) -> None:
        """A value leaves its key."""
        if type(value) is Stream:
            del self.streams[key]
            self.size -= value.counted_size
        else:
            self.size -= value_size(value)

    def recount(self, stream: Stream) -> None:
        """Bring `size` up to date with one of the streams, which do not tell when they grow."""
        size = stream_size(stream)
        self.size += size - stream.counted_size
        stream.counted_size = size

    def key_size(self, key: bytes) -> int:
        """Bytes that one key, which is there, holds: name, value, expiry time, and its share of the tables."""
        slot = self._slots[hash(key) & (SLOT_COUNT - 1)]
        size = text_size(key) + value_size(self.keys[key]) + table_share(self.keys) + getsizeof(slot) // len(slot)
        size += table_share(self._slots) // len(slot)
        if key in self.streams:
            size += table_share(self.streams)
        if key in self.expires:
            size += table_share(self.expires) + NUMBER_SIZE
        return size

    @property
    def memory_size(self) -> int:
        """Bytes held for the whole database, its tables included."""
        return self.size + self.table_size + getsizeof(self.expires) + len(self.expires) * NUMBER_SIZE

    @property
    def table_size(self) -> int:
        """Bytes of the tables that find keys, expiry times not among them."""
        tables = getsizeof(self.keys) + getsizeof(self.streams) + getsizeof(self._slots)
        return tables + sum(map(getsizeof, self._slots.values()))

    def clear(self) -> int:
        """Remove every key and answer how many there were."""
        count = len(self.keys)
        self._fail_watchers([key for key in self.watchers if key in self.keys])
        # Nobody waits for a key to go but readers of a group.
        self.ready.update(dict.fromkeys(self.streams))
        for table in (self.expires, self._slots, self.streams, self.keys):
            self.garbage.add(table)
        self.keys = {}
        self.streams = {}
        self.size = 0
        self.expires = {}
        self._slots = defaultdict(set)
        return count

    def swap_with(self, other: Database) -> None:
        """Exchange keys with another database: whoever watches or waits for a key on either side hears of it."""
        if other is self:
            return
        streams = dict.fromkeys((*self.streams, *other.streams))
        for db in (self, other):
            db._fail_watchers([key for key in db.watchers if key in self.keys or key in other.keys])
            # Nobody waits for a key to come or go that holds no stream.
            db.ready.update(streams)
        self.keys, other.keys = other.keys, self.keys
        self.streams, other.streams = other.streams, self.streams
        self.size, other.size = other.size, self.size
        self.expires, other.expires = other.expires, self.expires
        self._slots, other._slots = other._slots, self._slots

    def check(self) -> None:
        """Assert that the index and the expiry times fit the keys. Raises AssertionError."""
        assert all(self._slots.values())
        assert {key for slot in self._slots.values() for key in slot} == self.keys.keys()
        assert self.expires.keys() <= self.keys.keys()
        assert self.streams == {key: value for key, value in self.keys.items() if type(value) is Stream}
        for stream in self.streams.values():
            self.recount(stream)
        assert self.size == sum(text_size(key) + value_size(value) for key, value in self.keys.items())

    def expire_if_due(self, key: bytes, now_ms: int) -> bool:
        """Remove `key` if its time is over; say whether it was removed. In its last millisecond it is there."""
        due_ms = self.expires.get(key)
        if due_ms is None or due_ms >= now_ms or self.frozen:
            return False
        self.delete(key, EXPIRED)
        self.expired_keys.append((self.index, key))
        return True

    # -- telling others --------------------------------------------------------------------------

    def watch(self, key: bytes, watcher: Watcher) -> None:
        """From now on a change of `key` makes the watcher dirty."""
        self.watchers.setdefault(key, set()).add(watcher)
        self.is_observed = True

    def unwatch(self, key: bytes, watcher: Watcher) -> None:
        """No more; a key that is not watched is no error."""
        of_key = self.watchers.get(key)
        if of_key is not None:
            of_key.discard(watcher)
            if not of_key:
                del self.watchers[key]
        self._observe()

    def listen(
        self,
        *,
        on_change: Callable[[bytes, Event | None], None] | None,
        on_event: Callable[[int, Event, bytes], None] | None,
    ) -> None:
        """Whom to call from now on: with keys that change, and with events. None is nobody."""
        self.on_change, self.on_event = on_change, on_event
        self._observe()

    def _observe(self) -> None:
        self.is_observed = bool(self.watchers) or self.on_change is not None or self.on_event is not None

    def touch(self, key: bytes, event: Event | None = None) -> None:
        """`key` is not what it was: mark the transactions that WATCH it as failed, tell who caches it, and announce the
        event, in the order of Redis."""
        if not self.is_observed:
            return
        if event is not None and event.is_told_first:
            self.announce(event, key)
        for watcher in self.watchers.get(key, ()):
            watcher.dirty = watcher.has_let_go = True
        if self.on_change is not None:
            self.on_change(key, event)
        if event is not None and not event.is_told_first:
            self.announce(event, key)

    def _fail_watchers(self, keys: list[bytes]) -> None:
        for key in keys:
            for watcher in self.watchers[key]:
                watcher.dirty = True

    def announce(self, event: Event, key: bytes) -> None:
        """Name what happened to `key`."""
        if self.on_event is not None:
            self.on_event(self.index, event, key)

    def signal_ready(self, key: bytes) -> None:
        """Remember that readers blocked on `key` should be looked at after this command."""
        self.ready[key] = None


class Store:
    """All databases of a server."""

    __slots__ = ("_frozen_by", "databases", "expired_keys", "garbage")

    def __init__(self, count: int = 16) -> None:
        self._frozen_by: set[str] = set()
        self.garbage = Garbage()
        self.expired_keys: list[tuple[int, bytes]] = []
        self.databases = [Database(index, self.garbage, self.expired_keys) for index in range(count)]

    def freeze(self, owner: str) -> None:
        """Nothing expires from now on, until `owner` and everyone else who froze the store has thawed it."""
        self._frozen_by.add(owner)
        self._note_frozen()

    def thaw(self, owner: str) -> None:
        """`owner` has no objection to expiry any more."""
        self._frozen_by.discard(owner)
        self._note_frozen()

    def _note_frozen(self) -> None:
        for db in self.databases:
            db.frozen = bool(self._frozen_by)
