"""How deliveries reach the log: claims in absolute form, as few records as their values allow."""

from __future__ import annotations

from ..protocol.packing import pack_claim, pack_position
from ..store.group import Group
from ..store.ids import StreamID, bulk_ids, format_id
from .context import Context


class ClaimLog:
    """Collects what happened to pending entries of one group and logs it as XCLAIM records.

    Neighbours that share owner, time and count go into one record with many IDs: real Redis loads those like one
    record each, and the log is several times smaller. `last_id` is what LASTID says: the group's position when
    the command's turn at this stream began.
    """

    __slots__ = ("_context", "_group", "_ids", "_key", "_last_id", "_shared", "count")

    def __init__(self, context: Context, key: bytes, group: Group, last_id: StreamID) -> None:
        self._context = context
        self._key = key
        self._group = group
        self._last_id = last_id
        self._ids: list[StreamID] = []
        self._shared: tuple[bytes, int, int] = (b"", 0, 0)
        self.count = 0

    def add(self, ids: list[StreamID], consumer_name: bytes, time_ms: int, count: int) -> None:
        """Entries now belong to this consumer, with this delivery time and count."""
        shared = (consumer_name, time_ms, count)
        if shared != self._shared:
            self.flush()
            self._shared = shared
        self._ids += ids
        self.count += len(ids)

    def flush(self) -> None:
        """Write the record that is being collected."""
        if not self._ids:
            return
        consumer_name, time_ms, count = self._shared
        context, key, group, last_id = self._context, self._key, self._group, self._last_id
        log_delivery(context, key, group, consumer_name, self._ids, time_ms=time_ms, count=count, last_id=last_id)
        self._ids = []


def log_delivery(
    context: Context,
    key: bytes,
    group: Group,
    consumer_name: bytes,
    ids: list[StreamID],
    *,
    time_ms: int,
    count: int,
    last_id: StreamID,
) -> None:
    """Entries belong to this consumer. `last_id` was the group's before."""
    if not context.logging:
        context.unlogged_count += 1
        return
    time_ms = max(time_ms, 0)  # a forged RESTORE can say less, and a replay takes that for now
    record = pack_claim(key, group.name, consumer_name, bulk_ids(ids), len(ids), time_ms, count, format_id(last_id))
    context.effects.append((context.db.index, record))


def log_position(context: Context, key: bytes, group: Group) -> None:
    """The group's last-delivered ID and entries-read."""
    if not context.logging:
        context.unlogged_count += 1
        return
    record = pack_position(key, group.name, format_id(group.last_id), b"%d" % group.entries_read)
    context.effects.append((context.db.index, record))


def log_consumer(context: Context, key: bytes, group: Group, consumer_name: bytes) -> None:
    """A consumer that no claim record brings into being."""
    context.log(b"XGROUP", b"CREATECONSUMER", key, group.name, consumer_name)
