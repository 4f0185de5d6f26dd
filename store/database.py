"""Keys, their expiry times, and notifications of changes.

A `Database` is one numbered keyspace; the `Store` holds them all. Values are `Stream` objects, companions or, for
plain strings, `bytes`. Nothing here reads a clock: `now_ms` is Unix time in milliseconds, given by the caller.
"""

from __future__ import annotations

from sys import getsizeof
from typing import TypeVar

from .companions.companion import Companion
from .companions.hash_value import HashValue
from .due_times import NEVER_DUE_MS, DueTimes
from .editing import spliced
from .errors import WrongType
from .events import DEL, EXPIRED, HEXPIRED, KEY_MISS, NEW, OVERWRITTEN, TYPE_CHANGED, Event
from .garbage import Garbage
from .key_uses import KeyUses, UseRules
from .object_sizes import text_size
from .observed import Observed
from .policies.stream_policy import StreamPolicy
from .stream import Stream
from .value import Value, plain_text, type_name

try:
    from .key_table import ExpiryTimes, KeyTable
except ImportError:  # there was no C compiler at installation
    from .key_table_plain import ExpiryTimes, KeyTable  # type: ignore[assignment]


# (database index, key) of a key that expiry removed, or (database index, key, field) of a field of a hash.
ExpiredPlace = tuple[int, bytes] | tuple[int, bytes, bytes]
AnyCompanion = TypeVar("AnyCompanion", bound=Companion)


def note_use(value: Companion, now_ms: int) -> None:
    """Note the time of a command that uses a value. Hot: apart, because mypyc looks up the attributes of a value of
    `AnyCompanion` by their names.
    """
    value.used_ms = now_ms


class Database(Observed):
    """One keyspace. Its changes are reported to observers. `expired_keys` collects, for the log, keys that expiry
    removed."""

    __slots__ = (
        "_companions_count", "_companions_size", "_streams_size",
        "expired_keys", "expires", "expiring_hashes", "frozen", "garbage", "governed", "hits", "keeps_expired", "keys",
        "misses", "streams", "used_governed", "uses",
    )  # fmt: skip

    def __init__(
        self,
        index: int,
        garbage: Garbage | None = None,
        expired_keys: list[ExpiredPlace] | None = None,
        used_governed: dict[tuple[int, bytes], None] | None = None,
    ) -> None:
        super().__init__(index)
        # Removed values whose memory is still to be freed.
        self.garbage = Garbage() if garbage is None else garbage
        # All keys with their values and expiry times, in the order of SCAN.
        self.keys = KeyTable()
        # Absolute expiry times in Unix ms, for the keys that have one.
        self.expires = ExpiryTimes(self.keys)
        # The keys that hold streams.
        self.streams: dict[bytes, Stream] = {}
        # Bytes of all streams, each as of its last `recount`, and of their names in `streams`.
        self._streams_size = 0
        # Keys that hold companions, and the bytes of these, each as of its last `recount`.
        self._companions_count = 0
        self._companions_size = 0
        # The first expiry time of the fields of each hash that has such.
        self.expiring_hashes = DueTimes()
        # (database index, key) of the keys that expiry removed and the log has not recorded yet. One list for a whole
        # store.
        self.expired_keys: list[ExpiredPlace] = [] if expired_keys is None else expired_keys
        # Those of `streams` that have a policy.
        self.governed: dict[bytes, Stream] = {}
        # (database index, key) of the streams with a policy that commands have used since the policies were last
        # applied. One dict for a whole store.
        self.used_governed: dict[tuple[int, bytes], None] = {} if used_governed is None else used_governed
        # When or how often keys were used; None under the policies of eviction that do not need it.
        self.uses: KeyUses | None = None
        # Whether expiry times have no effect. Set by `Store.freeze` and `Store.thaw`.
        self.frozen = False
        # Whether expired keys stay, although commands do not see them. Set by `Store.keep_expired`.
        self.keeps_expired = False
        # Reads of keys that exist (INFO keyspace_hits); `misses` counts reads of keys that do not.
        self.hits = 0
        self.misses = 0

    # -- reading ---------------------------------------------------------------------------------

    def get(self, key: bytes, now_ms: int) -> Value | None:
        """The live value of `key`; an expired one is removed first, unless expired keys are kept."""
        value = self.keys.get_live(key, now_ms)
        if value is None and self.keys.first_due_ms < now_ms and not self.expire_if_due(key, now_ms):
            # Expiry times have no effect now, or there is no such key.
            return self.keys.get(key)
        return value

    def get_all(self, keys: list[bytes], now_ms: int) -> list[Value | None]:
        """Like `get`, for many keys."""
        if self.keys.first_due_ms >= now_ms:
            return self.keys.get_keys(keys)
        return [self.get(key, now_ms) for key in keys]

    def get_stream(self, key: bytes, now_ms: int) -> Stream | None:
        """The stream at `key`, None if there is none. Raises WrongType."""
        if self.keys.first_due_ms < now_ms and self.expire_if_due(key, now_ms):
            return None
        stream = self.streams.get(key)
        if stream is not None:
            stream.used_ms = now_ms
            if stream.policy is not None:
                self.used_governed[self.index, key] = None
        elif key in self.keys:
            raise WrongType
        return stream

    def find_companion(self, key: bytes, kind: type[AnyCompanion], now_ms: int) -> AnyCompanion | None:
        """The value of this class at `key`, None if there is none. Raises WrongType."""
        value = self.get(key, now_ms)
        if value is None:
            return None
        if not isinstance(value, kind):
            raise WrongType
        note_use(value, now_ms)
        return value

    def read_companion(self, key: bytes, kind: type[AnyCompanion], now_ms: int) -> AnyCompanion | None:
        """Like `find_companion`, counted as a hit or a miss. Raises WrongType."""
        value = self.read(key, now_ms)
        if value is None:
            return None
        if not isinstance(value, kind):
            raise WrongType
        note_use(value, now_ms)
        return value

    def apply_policy_soon(self, key: bytes, stream: Stream) -> None:
        """Apply the policy of the stream at `key` at the end of the turn, if there is one. `get_stream` and
        `read_stream` do this themselves.
        """
        if stream.policy is not None:
            self.used_governed[self.index, key] = None

    def use(self, key: bytes, now_ms: int) -> None:
        """Record the time of use of the value at `key`, unless it is a string. What gets or reads a value of one type
        does this itself."""
        value = self.keys.get(key)
        if value is not None and not isinstance(value, bytes):
            value.used_ms = now_ms

    def begin_uses(self, key: bytes, now_ms: int) -> None:
        """Record the first use of an existing key that a command on another database has created. The uses of the keys
        of a command's own database are recorded with the command."""
        if self.uses is not None:
            self.uses.note_use(key, self.keys[key], now_ms)

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
        """Count one read of a key as a hit or a miss, and announce a miss."""
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
            if value.policy is not None:
                self.used_governed[self.index, key] = None
            return value
        if value is not None:
            raise WrongType
        return None

    def read_string(self, key: bytes, now_ms: int) -> bytes | None:
        """Like `get_string`, counted as a hit or a miss. Raises WrongType."""
        return plain_text(self.read(key, now_ms))

    def read_strings(self, keys: list[bytes], now_ms: int) -> list[bytes | None]:
        """The strings at these keys, each counted as a hit or a miss; None for a key that has none, or another
        type."""
        found: list[bytes | None] = []
        for key in keys:
            value = self.get(key, now_ms)
            self.count_read(key, value is not None)
            found.append(plain_text(value) if isinstance(value, bytes) else None)
        return found

    def scan(self, cursor: int, count: int) -> tuple[list[bytes], int]:
        """Return about `count` keys from `cursor` on, and the next cursor: see `KeySlots.scan`. Keys may have
        expired."""
        return self.keys.scan(cursor, count)

    # -- changing --------------------------------------------------------------------------------

    def put(self, key: bytes, value: Value, event: Event | None = None, *, keep_expiry: bool = False) -> None:
        """Store `value`. The expiry time is dropped unless `keep_expiry` is set. Touches the key, announces NEW if the
        key is new, and announces the event."""
        is_new = self._store(key, value, keep_expiry=keep_expiry)
        if self.is_observed:
            if is_new:
                self.announce(NEW, key)
            self.touch(key, event)
        self.signal_ready(key)

    def add(self, key: bytes, value: Value) -> None:
        """Store `value` under a key that does not exist, and announce NEW. The caller touches the key."""
        self._store(key, value, keep_expiry=False)
        self.announce(NEW, key)
        self.signal_ready(key)

    def add_many(self, values: list[tuple[bytes, Value, int | None]]) -> bytes | None:
        """Store new keys with values and expiry times, as `put` would one by one. Returns the first key that exists
        already; it and those after it are not stored. Otherwise returns None."""
        double = self.keys.add_many(values)
        stored = [key for key, _, _ in values]
        if double is not None:
            del stored[stored.index(double) :]
        for index in range(len(stored)):
            value = values[index][1]
            if type(value) is Stream:
                self._add_stream(stored[index], value)
            elif isinstance(value, Companion):
                self._add_companion(stored[index], value)
        if self.is_observed:
            for key in stored:
                self.announce(NEW, key)
                self.touch(key)
        # In a load these are all keys, and a name for each would take memory.
        self.is_all_ready = True
        return double

    def splice(self, key: bytes, offset: int, piece: bytes, event: Event) -> int:
        """Overwrite the existing string at `key` with `piece` from `offset` on. Returns the new length in bytes.

        Bytes missing before the offset become zeros. A long string that nothing else refers to is not copied.
        """
        self.edit(key, offset, piece)
        self.touch(key, event)
        return len(self.keys[key])

    def edit(self, key: bytes, offset: int, piece: bytes) -> None:
        """Change the existing string at `key` as `splice` does. The caller touches the key."""
        if not self.keys.splice(key, offset, piece):
            self.keys.put(key, spliced(plain_text(self.keys[key]) or b"", offset, piece), keep_expiry=True)
        self.signal_ready(key)

    def _store(self, key: bytes, value: Value, *, keep_expiry: bool) -> bool:
        """Put a value into the tables, and free the one of before later. Returns whether the key is new. Nothing is
        announced."""
        old = self.keys.get(key) if self._companions_count or self.streams else None
        is_new = self.keys.put(key, value, keep_expiry)
        if type(old) is Stream:
            self._forget_stream(key)
        elif isinstance(old, Companion):
            self._forget_companion(key, old)
        if old is not value and old is not None and not isinstance(old, bytes):
            self.garbage.add_value(old)
        if type(value) is Stream:
            self._add_stream(key, value)
        elif isinstance(value, Companion):
            self._add_companion(key, value)
        return is_new

    def overwrite(self, key: bytes, value: Value, event: Event, now_ms: int, *, keep_expiry: bool = False) -> None:
        """Store `value` as SET does: an expired key is removed first, and an overwritten value is announced before the
        event."""
        if self.is_observed:
            self.announce_overwritten(key, self.get(key, now_ms), value)
        elif self.keys.first_due_ms < now_ms:
            self.expire_if_due(key, now_ms)
        self.put(key, value, event, keep_expiry=keep_expiry)

    def replace(self, key: bytes, value: Value) -> Value | None:
        """Store `value` where Redis deletes the key first. Returns the previous value.

        The caller announces NEW before, in any case, and afterwards its event and the overwritten value.
        """
        old = self.keys.get(key)
        self._store(key, value, keep_expiry=False)
        if self.uses is not None:
            self.uses.forget(key)
        self.touch(key)
        self.signal_ready(key)
        return old

    def announce_overwritten(self, key: bytes, old: Value | None, new: Value) -> None:
        """Announce that the value `old`, if there was one, has been replaced by `new`."""
        if old is not None:
            self.announce(OVERWRITTEN, key)
            if type_name(old) != type_name(new):
                self.announce(TYPE_CHANGED, key)

    def remove(self, key: bytes, event: Event | None = None) -> Value | None:
        """Remove `key` and its expiry time. If the key exists, touch it, announce the event, return its value."""
        value = self.keys.pop(key)
        if value is not None:
            if type(value) is Stream:
                self._forget_stream(key)
            elif isinstance(value, Companion):
                self._forget_companion(key, value)
            if self.uses is not None:
                self.uses.forget(key)
            self.touch(key, event)
            self.signal_ready(key)
        return value

    def delete(self, key: bytes, event: Event | None = None) -> bool:
        """Remove `key`, and free its value later. Returns whether the key existed."""
        value = self.remove(key, event)
        if value is not None and not isinstance(value, bytes):
            self.garbage.add_value(value)
        return value is not None

    def _add_stream(self, key: bytes, stream: Stream) -> None:
        """Add a stream to the table of streams."""
        self.streams[key] = stream
        if stream.policy is not None:
            self.governed[key] = stream
        self._streams_size += text_size(key)
        stream.counted_size = 0
        self.recount(stream)

    def _forget_stream(self, key: bytes) -> None:
        """Remove the stream at `key`, if there is one, from the table of streams."""
        stream = self.streams.pop(key, None)
        if stream is not None:
            if stream.policy is not None:
                del self.governed[key]
            self._streams_size -= stream.counted_size + text_size(key)

    def _add_companion(self, key: bytes, value: Companion) -> None:
        """Count a value that has got a key."""
        self._companions_count += 1
        value.counted_size = 0
        self._recount_companion(value)
        if value.first_due_ms < NEVER_DUE_MS:
            self.note_time(key, value)

    def _forget_companion(self, key: bytes, value: Companion) -> None:
        """No longer count a value that has lost its key."""
        self._companions_count -= 1
        self._companions_size -= value.counted_size
        if len(self.expiring_hashes):
            self.expiring_hashes.drop(key)

    def settle(self, key: bytes, value: Companion, event: Event | None = None) -> None:
        """After a change of the value at `key`: count its size, touch the key and announce the event. A value without
        members is removed, and DEL is announced."""
        self._recount_companion(value)
        self.touch(key, event)
        if not len(value):
            self.discard(key)
        elif value.first_due_ms < NEVER_DUE_MS or len(self.expiring_hashes):
            self.note_time(key, value)

    def note_time(self, key: bytes, value: Companion) -> None:
        """Note when the value's first member expires, for active expiry."""
        due_ms = value.first_due_ms
        if due_ms == NEVER_DUE_MS:
            self.expiring_hashes.drop(key)
        elif self.expiring_hashes.get(key) != due_ms:
            self.expiring_hashes.put(key, due_ms)

    def member_time_ms(self, now_ms: int) -> int:
        """The time by which members of values expire: `now_ms`, or 0 while expiry times have no effect."""
        return 0 if self.frozen else now_ms

    def expire_field(self, key: bytes, value: HashValue, field: bytes) -> None:
        """Remove a field that is due, unless what has expired is kept; the last one takes the key with it."""
        if self.drop_field(key, value, field):
            if len(value):
                self.announce(HEXPIRED, key)
            else:
                self.discard(key)

    def drop_field(self, key: bytes, value: HashValue, field: bytes) -> bool:
        """Remove a field that is due, unless what has expired is kept. Returns whether it was removed. The caller
        announces it, and discards a hash without fields."""
        if self.keeps_expired:
            return False
        value.pop(field)
        self.expired_keys.append((self.index, key, field))
        self.recount(value)
        self.note_time(key, value)
        return True

    def expire_fields(self, now_ms: int, count: int) -> bool:
        """Remove up to `count` fields that are due, which no client reads. Returns whether there may be more."""
        times = self.expiring_hashes
        while len(times):
            due_ms, key = times.first()
            if due_ms >= now_ms:
                break
            value = self.keys[key]
            assert isinstance(value, HashValue)
            has_expired = False
            while count and (field := value.first_due(now_ms)) is not None:
                value.pop(field)
                self.expired_keys.append((self.index, key, field))
                has_expired = True
                count -= 1
            self.recount(value)
            if has_expired:
                self.announce(HEXPIRED, key)
                self.touch(key)
            if len(value):
                self.note_time(key, value)
            else:
                self.discard(key)
            if not count:
                return True
        return False

    def discard(self, key: bytes) -> None:
        """Remove a key whose value has no members any more, and announce DEL. The caller has touched the key."""
        value = self.keys.pop(key)
        assert isinstance(value, Companion)
        self._forget_companion(key, value)
        if self.uses is not None:
            self.uses.forget(key)
        self.announce(DEL, key)
        self.signal_ready(key)

    def govern(self, key: bytes, policy: StreamPolicy | None) -> None:
        """Set how long the entries of the stream at `key`, which is there, are kept."""
        stream = self.streams[key]
        stream.policy = policy
        if policy is None:
            self.governed.pop(key, None)
        else:
            self.governed[key] = stream
            self.used_governed[self.index, key] = None

    def recount(self, value: Stream | Companion) -> None:
        """Update `size` with the present size of a value. Streams do not report when they grow."""
        if isinstance(value, Stream):
            size = value.memory_size
            self._streams_size += size - value.counted_size
            value.counted_size = size
        else:
            self._recount_companion(value)

    def _recount_companion(self, value: Companion) -> None:
        """Count a companion. Apart, because mypyc looks up the attributes of a value of two classes by their names."""
        size = value.memory_size
        self._companions_size += size - value.counted_size
        value.counted_size = size

    @property
    def size(self) -> int:
        """Bytes of all keys, expiry times and values. A stream counts as of its last `recount`."""
        return self.keys.size + self._streams_size + self._companions_size

    def key_size(self, key: bytes) -> int:
        """Bytes of one existing key: name, value and expiry time. `table_size` has those of the tables that find it."""
        size, value = self.keys.key_size(key), self.keys[key]
        if isinstance(value, bytes):
            return size
        return size + value.memory_size + (text_size(key) if type(value) is Stream else 0)

    @property
    def memory_size(self) -> int:
        """Bytes held for the whole database, its tables included."""
        uses_size = 0 if self.uses is None else self.uses.memory_size
        return self.size + self.table_size + self.keys.expiry_size + uses_size

    @property
    def table_size(self) -> int:
        """Bytes of the tables that find keys, without that of expiry times."""
        return self.keys.memory_size + getsizeof(self.streams)

    def clear(self) -> int:
        """Remove every key. Returns how many there were."""
        count = len(self.keys)
        for key in self.watchers:
            if key in self.keys:
                self.fail_watchers(key, is_there_after=False, is_stale_after=False)
        # Only blocked readers of a group are woken when a key is removed.
        self.ready.update(dict.fromkeys(self.streams))
        self.garbage.add(self.streams)
        self.garbage.add(self.keys)
        self.keys = KeyTable()
        self.expires = ExpiryTimes(self.keys)
        self.streams = {}
        self.governed = {}
        self.expiring_hashes = DueTimes()
        self._streams_size = self._companions_size = self._companions_count = 0
        if self.uses is not None:
            self.uses = KeyUses(self.uses.rules)
        return count

    def swap_with(self, other: Database, now_ms: int) -> None:
        """Exchange keys with another database. Watchers of, and clients blocked on, keys of either database are
        notified."""
        if other is self:
            return
        for db, successor in ((self, other), (other, self)):
            for key in db.watchers:
                if key in db.keys or key in successor.keys:
                    db.fail_watchers(
                        key,
                        is_there_after=key in successor.keys,
                        is_stale_after=successor.is_stale(key, now_ms),
                    )
            db.is_all_ready = True
        self.keys, other.keys = other.keys, self.keys
        self.streams, other.streams = other.streams, self.streams
        self.governed, other.governed = other.governed, self.governed
        self._swap_uses(other)
        self.expires, other.expires = other.expires, self.expires
        self._streams_size, other._streams_size = other._streams_size, self._streams_size
        self._companions_size, other._companions_size = other._companions_size, self._companions_size
        self.expiring_hashes, other.expiring_hashes = other.expiring_hashes, self.expiring_hashes
        self._companions_count, other._companions_count = other._companions_count, self._companions_count

    def _swap_uses(self, other: Database) -> None:
        """Exchange the records of uses. The other database may be one that was filled apart, under other rules; then
        nothing is known of the uses of its keys."""
        mine, others = self.uses, other.uses
        if mine is None:
            others = None
        elif others is None or others.rules is not mine.rules:
            others = KeyUses(mine.rules)
        self.uses, other.uses = others, mine

    def check(self) -> None:
        """Assert that the tables agree. Raises AssertionError."""
        self.keys.check()
        assert self.streams == {key: value for key, value in self.keys.items() if type(value) is Stream}
        assert self.governed == {key: stream for key, stream in self.streams.items() if stream.policy is not None}
        for stream in self.streams.values():
            self.recount(stream)
        names_size = sum(map(text_size, self.streams))
        assert self._streams_size == names_size + sum(stream.counted_size for stream in self.streams.values())
        companions = [value for _, value in self.keys.items() if isinstance(value, Companion)]
        for value in companions:
            assert len(value)
            value.check()
            self.recount(value)
        expiring = {
            key
            for key, value in self.keys.items()
            if isinstance(value, HashValue) and value.first_due_ms < NEVER_DUE_MS
        }
        assert set(self.expiring_hashes.names()) == expiring
        self.expiring_hashes.check()
        assert self._companions_count == len(companions)
        assert self._companions_size == sum(value.counted_size for value in companions)

    def is_stale(self, key: bytes, now_ms: int) -> bool:
        """Whether `key` has expired and is still there. In the millisecond of its expiry time it has not expired."""
        due_ms = self.keys.due_ms(key)
        return due_ms is not None and due_ms < now_ms and not self.frozen

    def expire_if_due(self, key: bytes, now_ms: int) -> bool:
        """Remove `key` if it has expired, unless expired keys are kept. Returns whether it has expired."""
        if not self.is_stale(key, now_ms):
            return False
        if not self.keeps_expired:
            self.delete(key, EXPIRED)
            self.expired_keys.append((self.index, key))
        return True

    def _has(self, key: bytes) -> bool:
        return key in self.keys


class Store:
    """All databases of a server."""

    __slots__ = ("databases", "expired_keys", "garbage", "used_governed")

    def __init__(self, count: int = 16) -> None:
        self.garbage = Garbage()
        self.expired_keys: list[ExpiredPlace] = []
        self.used_governed: dict[tuple[int, bytes], None] = {}
        self.databases = [
            Database(index, self.garbage, self.expired_keys, self.used_governed) for index in range(count)
        ]

    def record_uses(self, rules: UseRules | None) -> None:
        """Record from now on when or how often keys are used, as these rules say; nothing if they are None. What was
        recorded before is dropped."""
        for db in self.databases:
            db.uses = None if rules is None else KeyUses(rules)

    def freeze(self) -> None:
        """Let expiry times have no effect, until `thaw`. A log that is loaded says itself when a key was removed."""
        for db in self.databases:
            db.frozen = True

    def thaw(self) -> None:
        """Let expiry times have their effect again."""
        for db in self.databases:
            db.frozen = False

    def keep_expired(self, is_on: bool) -> None:
        """Keep expired keys, which commands do not see, or remove them when they are found."""
        for db in self.databases:
            db.keeps_expired = is_on
