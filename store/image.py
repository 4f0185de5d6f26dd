"""The dataset as it was at one moment, read while clients continue to change it.

Taking the image copies no values: a copy of a key table shares its parts. A string that the image refers to never
changes (see `KeyTable.splice`). A stream is copied when it is read, or just before the first command that may change
it, whichever comes first. That copy too consists of references, to packed chunks and to deliveries.

All calls come from one thread. There is at most one image at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from .database import Store
from .group import Group
from .idempotence import Idempotence
from .ids import StreamID
from .log import EntryLog
from .nodes import NodeLedger, StreamLimits
from .pending import PendingImage
from .stream import Stream
from .value import Value

# Keys that are taken from the table at once.
STRINGS_COUNT_MAX: Final = 128


@dataclass(frozen=True, slots=True)
class ConsumerImage:
    """A consumer. Times are Unix ms, -1 for never."""

    name: bytes
    seen_ms: int
    active_ms: int
    pending_count: int


@dataclass(frozen=True, slots=True)
class GroupImage:
    """A group. Its consumers are ordered by the bytes of their names."""

    name: bytes
    last_id: StreamID
    entries_read: int
    consumers: list[ConsumerImage]
    pending: PendingImage


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
    limits: StreamLimits

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
        [_group_image(group) for group in stream.sorted_groups()],
        stream.idempotence.copy(),
        stream.limits,
    )


def _group_image(group: Group) -> GroupImage:
    consumers = [
        ConsumerImage(each.name, each.seen_ms, each.active_ms, each.pending_count) for each in group.sorted_consumers()
    ]
    return GroupImage(group.name, group.last_id, group.entries_read, consumers, group.pending.image())


@dataclass(frozen=True, slots=True)
class KeyImage:
    """One key. `expires_ms` is Unix ms, None for never."""

    db_index: int
    key: bytes
    value: bytes | StreamImage
    expires_ms: int | None


@dataclass(frozen=True, slots=True)
class StringsImage:
    """Keys of a database that have strings, as key and string. `expires` has those of their expiry times that exist."""

    db_index: int
    pairs: list[tuple[bytes, bytes]]
    expires: dict[bytes, int]

    def __iter__(self) -> Iterator[KeyImage]:
        """Yield each key."""
        for key, value in self.pairs:
            yield KeyImage(self.db_index, key, value, self.expires.get(key))


# A key with a stream, or keys with strings.
Part = KeyImage | StringsImage


def keys_of(parts: Iterable[Part]) -> Iterator[KeyImage]:
    """Yield the keys one by one."""
    for part in parts:
        if isinstance(part, KeyImage):
            yield part
        else:
            yield from part


def parts_now(store: Store) -> Iterator[Part]:
    """Iterate over the dataset as it is now. The store must not change before the end of the iteration. A `StoreImage`
    is not affected."""
    for db in store.databases:
        items = iter(db.keys.items())
        while pairs := list(islice(items, STRINGS_COUNT_MAX)):
            expires = {key: db.expires[key] for key, _ in pairs if key in db.expires}
            yield from _parts(db.index, pairs, expires, stream_image)


def keys_now(store: Store) -> Iterator[KeyImage]:
    """Iterate over every key as it is now: see `parts_now`."""
    return keys_of(parts_now(store))


def _parts(
    db_index: int,
    pairs: list[tuple[bytes, Value]],
    expires: dict[bytes, int],
    take: Callable[[Stream], StreamImage],
) -> Iterator[Part]:
    """Yield the strings among these keys and values, then each stream as `take` copies it."""
    strings = [(key, value) for key, value in pairs if isinstance(value, bytes)]
    if strings:
        yield StringsImage(db_index, strings, expires)
    for key, value in pairs:
        if isinstance(value, Stream):
            yield KeyImage(db_index, key, take(value), expires.get(key))


class StoreImage:
    """Every key of a store."""

    def __init__(self, store: Store) -> None:
        Stream.newest_image_number += 1
        self._number = Stream.newest_image_number
        self._tables = [(db.index, db.keys.copy()) for db in store.databases if db.keys]
        # Copies of streams that have not been read yet and were about to change.
        self._preserved: dict[Stream, StreamImage] = {}
        self.keys_count = sum(len(keys) for _, keys in self._tables)
        self.keys_read = 0
        self.is_closed = False

    def preserve(self, stream: Stream) -> None:
        """Copy a stream before it changes, if it has not been read or copied yet."""
        if stream.image_number < self._number and not self.is_closed:
            stream.image_number = self._number
            self._preserved[stream] = stream_image(stream)

    def __iter__(self) -> Iterator[KeyImage]:
        """Yield every key once: see `parts`."""
        return keys_of(self.parts())

    def parts(self) -> Iterator[Part]:
        """Yield the dataset, database by database. References to what was yielded are dropped."""
        for index, keys in self._tables:
            while keys:
                taken = [keys.take() for _ in range(min(len(keys), STRINGS_COUNT_MAX))]
                pairs = [(key, value) for key, value, _ in taken]
                expires = {key: expires_ms for key, _, expires_ms in taken if expires_ms is not None}
                for part in _parts(index, pairs, expires, self._take):
                    self.keys_read += 1 if isinstance(part, KeyImage) else len(part.pairs)
                    yield part
        self.close()

    def _take(self, stream: Stream) -> StreamImage:
        preserved = self._preserved.pop(stream, None)
        if preserved is not None:
            return preserved
        stream.image_number = self._number
        return stream_image(stream)

    def close(self) -> None:
        """Drop all references. From now on `preserve` copies nothing."""
        self.is_closed = True
        self._tables = []
        self._preserved = {}
