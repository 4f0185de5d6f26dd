"""The dataset as it was at one moment, read while clients continue to change it.

Taking the image copies no values: a copy of a key table shares its parts. A string that the image refers to never
changes (see `KeyTable.splice`). A stream or a companion is copied when it is read, or just before the first command
that may change it, whichever comes first. That copy too consists of references, to packed chunks and to deliveries. A
small companion need not be copied when it is read: the reader may pack it at once, see `Pack`.

All calls come from one thread. There is at most one image at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from .companions.companion import Companion
from .database import Store
from .group import Group
from .idempotence import Idempotence
from .ids import StreamID
from .key_uses import KeyUses, SavedUse
from .limits import Limits
from .log import EntryLog
from .nodes import NodeLedger
from .pending import NOTHING_PENDING, Consumer
from .policies.group_policy import GroupPolicy
from .policies.rules import NO_POLICY, DueTimes
from .policies.stream_policy import StreamPolicy
from .stream import ShortStream, Stream
from .value import Value

try:
    from .key_table import KeyTable
except ImportError:  # there was no C compiler at installation
    from .key_table_plain import KeyTable  # type: ignore[assignment]

# Bytes of the entries of short streams, or of packed companions, that are in one part, at least.
SHORT_SIZE: Final = 16 * 1024
# Keys that are taken from the table at once.
KEYS_COUNT_MAX: Final = 128
# The pending entries of every group without tables.
NOTHING_PENDING_IMAGE: Final = NOTHING_PENDING.image()


class ConsumerImage:
    """A consumer. Times are Unix ms, -1 for never.

    It is no dataclass, because making a compiled one takes a microsecond, and a stream may have ten thousands of
    consumers.
    """

    __slots__ = ("active_ms", "name", "pending_count", "seen_ms")

    def __init__(self, consumer: Consumer) -> None:
        self.name: Final = consumer.name
        self.seen_ms: Final = consumer.seen_ms
        self.active_ms: Final = consumer.active_ms
        self.pending_count: Final = consumer.pending_count


class GroupImage:
    """A group. Its consumers are ordered by the bytes of their names. For its form see `ConsumerImage`.

    `has_tables`: see `Group`; without tables there are no consumers and no pending entries.
    """

    __slots__ = ("consumers", "entries_read", "has_tables", "last_id", "name", "pending")

    def __init__(self, group: Group) -> None:
        self.name: Final = group.name
        self.last_id: Final = group.last_id
        self.entries_read: Final = group.entries_read
        self.has_tables: Final = group.has_tables
        self.consumers: Final = list(map(ConsumerImage, group.sorted_consumers())) if group.has_tables else []
        self.pending: Final = group.pending.image() if group.has_tables else NOTHING_PENDING_IMAGE

    @property
    def policy(self) -> GroupPolicy | None:
        """See `Group.policy`."""
        rules = self.pending.rules
        return None if rules is None or rules.policy is NO_POLICY else rules.policy


@dataclass(frozen=True, slots=True)
class StreamImage:
    """A stream. Its groups are ordered by the bytes of their names. `log` is a copy to which no entry is added, `nodes`
    a copy of its nodes, which may lack those of the last entries."""

    log: EntryLog
    nodes: NodeLedger
    last_id: StreamID
    max_deleted_id: StreamID
    entries_added: int
    groups: list[GroupImage]
    idempotence: Idempotence
    limits: Limits
    policy: StreamPolicy | None
    later: DueTimes | None

    def __len__(self) -> int:
        return self.log.length


def stream_image(stream: Stream) -> StreamImage:
    """The stream as it is now."""
    return StreamImage(
        stream.log.copy(),
        stream.nodes.copy(),
        stream.last_id,
        stream.max_deleted_id,
        stream.entries_added,
        list(map(GroupImage, stream.sorted_groups())),
        stream.idempotence.copy(),
        stream.limits,
        stream.policy,
        None if stream.later is None else stream.later.copy(),
    )


class KeyImage:
    """One key. `expires_ms` is Unix ms, None for never."""

    __slots__ = ("db_index", "expires_ms", "key", "use", "value")

    def __init__(
        self,
        db_index: int,
        key: bytes,
        value: bytes | StreamImage | Companion,
        expires_ms: int | None,
        use: SavedUse | None = None,
    ) -> None:
        self.db_index: Final = db_index
        self.key: Final = key
        self.value: Final = value
        self.expires_ms: Final = expires_ms
        # What is known of its uses; None under eviction policies that need nothing of it in a file.
        self.use: Final = use


@dataclass(frozen=True, slots=True)
class StringsImage:
    """Keys of a database that have strings, as key and string. `expires` has those of their expiry times that exist."""

    db_index: int
    pairs: list[tuple[bytes, bytes]]
    expires: dict[bytes, int]


@dataclass(frozen=True, slots=True)
class ShortStreamsImage:
    """Keys of a database that have short streams. `expires` has those of their expiry times that exist."""

    db_index: int
    streams: list[tuple[bytes, ShortStream]]
    expires: dict[bytes, int]


# A small companion in the form of a file: its type, which is one byte, and what precedes its last string; then this
# string, None without one.
Packed = tuple[bytes, bytes | None]
# Packs a companion that is small. Returns None for another one.
Pack = Callable[[Companion], Packed | None]


@dataclass(frozen=True, slots=True)
class PackedImage:
    """Keys of a database that have companions, which were packed. `expires` has those of their expiry times that
    exist."""

    db_index: int
    values: list[tuple[bytes, Packed]]
    expires: dict[bytes, int]


# A key with a stream or a companion, or keys with strings, with short streams or with packed companions.
Part = KeyImage | StringsImage | ShortStreamsImage | PackedImage
# Returns the value to read for one of the table: the same one, or the copy that was made before it changed.
Find = Callable[[Stream | Companion], Stream | Companion | StreamImage]


def parts_now(store: Store, pack: Pack | None = None, *, now_ms: int = 0) -> Iterator[Part]:
    """Iterate over the dataset as it is now. The store must not change before the end of the iteration. A `StoreImage`
    is not affected. `now_ms` is for the uses of keys."""
    for db in store.databases:
        if db.keys and db.uses is not None and db.uses.is_saved:
            yield from _keys(db.index, db.keys.copy(), None, db.uses, now_ms)
        elif db.keys:
            yield from _parts(db.index, db.keys.copy(), None, pack)


def keys_now(store: Store) -> Iterator[KeyImage]:
    """Iterate over every key as it is now: see `parts_now`."""
    for db in store.databases:
        if db.keys:
            yield from _keys(db.index, db.keys.copy(), None)


def value_image(value: Stream | Companion) -> StreamImage | Companion:
    """A stream or a companion as it is now."""
    return value.copy() if isinstance(value, Companion) else stream_image(value)


def _parts(db_index: int, keys: KeyTable, find: Find | None, pack: Pack | None) -> Iterator[Part]:
    """Yield the keys of a copied table, with what `find` returns for each stream or companion, copied or packed. With
    `find`, what is found is not copied if it is a copy already. References to what was yielded are dropped."""
    while keys:
        strings, others, expires = keys.take_some(KEYS_COUNT_MAX)
        if strings:
            yield StringsImage(db_index, strings, expires)
        short: list[tuple[bytes, ShortStream]] = []
        small: list[tuple[bytes, Packed]] = []
        short_size = small_size = 0
        if pack is not None:
            _fetch(others)
        for key, value in others:
            assert isinstance(value, (Stream, Companion))
            found = value if find is None else find(value)
            if isinstance(found, Companion):
                packed = None if pack is None else pack(found)
                if packed is None:
                    yield KeyImage(db_index, key, found.copy() if found is value else found, expires.get(key))
                    continue
                small.append((key, packed))
                small_size += len(packed[0] if packed[1] is None else packed[1])
                if small_size >= SHORT_SIZE:
                    yield PackedImage(db_index, small, expires)
                    small, small_size = [], 0
            elif isinstance(found, StreamImage):
                yield KeyImage(db_index, key, found, expires.get(key))
            else:
                # Without `pack`, the parts become records, which are packed for short streams without groups only.
                one = None if pack is None and found.groups else found.short()
                if one is None:
                    yield KeyImage(db_index, key, stream_image(found), expires.get(key))
                    continue
                short.append((key, one))
                short_size += len(one[0]) + sum([len(group[4]) for group in one[9]])
                if short_size >= SHORT_SIZE:
                    yield ShortStreamsImage(db_index, short, expires)
                    short, short_size = [], 0
        if short:
            yield ShortStreamsImage(db_index, short, expires)
        if small:
            yield PackedImage(db_index, small, expires)


def _fetch(values: list[tuple[bytes, Value]]) -> int:
    """Look at each companion before the first of them is packed. With no other work in between, the processor waits for
    the memory of several at once. Returns the number of their members."""
    count = 0
    for _, value in values:
        if isinstance(value, Companion):
            count += len(value)
    return count


def _keys(
    db_index: int, keys: KeyTable, find: Find | None, uses: KeyUses | None = None, now_ms: int = 0
) -> Iterator[KeyImage]:
    """Like `_parts`, one by one, each key with what is known of its uses. That may be of later than the values, and of
    a key that has been removed since, nothing is known."""
    while keys:
        strings, others, expires = keys.take_some(KEYS_COUNT_MAX)
        for key, text in strings:
            use = None if uses is None else uses.saved(key, text, now_ms)
            yield KeyImage(db_index, key, text, expires.get(key), use)
        for key, value in others:
            assert isinstance(value, (Stream, Companion))
            use = None if uses is None else uses.saved(key, value, now_ms)
            found = value if find is None else find(value)
            taken: StreamImage | Companion
            if isinstance(found, Companion):
                taken = found.copy() if found is value else found
            else:
                taken = found if isinstance(found, StreamImage) else stream_image(found)
            yield KeyImage(db_index, key, taken, expires.get(key), use)


class StoreImage:
    """Every key of a store. `now_ms` is for the uses of keys."""

    def __init__(self, store: Store, *, now_ms: int = 0) -> None:
        self._now_ms = now_ms
        # The records of databases whose keys are saved with them.
        self._uses = {db.index: db.uses for db in store.databases if db.uses is not None and db.uses.is_saved}
        Stream.newest_image_number += 1
        self._number = Companion.newest_image_number = Stream.newest_image_number
        self._tables = [(db.index, db.keys.copy()) for db in store.databases if db.keys]
        # Copies of streams and companions that have not been read yet and were about to change.
        self._preserved: dict[Stream | Companion, StreamImage | Companion] = {}
        self.keys_count = sum(len(keys) for _, keys in self._tables)
        self.keys_read = 0
        self.is_closed = False

    def preserve(self, value: Stream | Companion) -> None:
        """Copy a stream or a companion before it changes, if it has not been read or copied yet."""
        if value.image_number < self._number and not self.is_closed:
            value.image_number = self._number
            self._preserved[value] = value_image(value)

    def __iter__(self) -> Iterator[KeyImage]:
        """Yield every key once: see `parts`."""
        for index, keys in self._tables:
            for key in _keys(index, keys, self._find, self._uses.get(index), self._now_ms):
                self.keys_read += 1
                yield key
        self.close()

    def parts(self, pack: Pack | None = None) -> Iterator[Part]:
        """Yield the dataset, database by database. References to what was yielded are dropped."""
        for index, keys in self._tables:
            uses = self._uses.get(index)
            parts: Iterator[Part] = (
                _parts(index, keys, self._find, pack)
                if uses is None
                else _keys(index, keys, self._find, uses, self._now_ms)
            )
            for part in parts:
                self.keys_read += _count(part)
                yield part
        self.close()

    def _find(self, value: Stream | Companion) -> Stream | Companion | StreamImage:
        """The value as it was when the image was taken, to be read now."""
        if self._preserved:
            preserved = self._preserved.pop(value, None)
            if preserved is not None:
                return preserved
        value.image_number = self._number
        return value

    def close(self) -> None:
        """Drop all references. From now on `preserve` copies nothing."""
        self.is_closed = True
        self._tables = []
        self._preserved = {}


def _count(part: Part) -> int:
    if isinstance(part, KeyImage):
        return 1
    if isinstance(part, StringsImage):
        return len(part.pairs)
    return len(part.streams) if isinstance(part, ShortStreamsImage) else len(part.values)
