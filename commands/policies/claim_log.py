"""Records of deliveries: XCLAIM with absolute values, and as few records as possible."""

from __future__ import annotations

from ...persistence.grammar.streams import pack_acknowledged, pack_claim, pack_consumer, pack_position
from ...store.group import Group
from ...store.ids import StreamID, bulk_ids, format_id
from ...store.pending import Delivery
from ..execution.context import Context


class ClaimLog:
    """Collects changes of pending entries of one group and logs them as XCLAIM records.

    Consecutive entries with equal owner, time and count share one record with many IDs, which makes the log several
    times smaller; Redis loads it as well. `last_id` is written as LASTID: the group's last-delivered ID before the
    command read from this stream.
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
        """Adds entries that this consumer now owns, with this delivery time and count."""
        shared = (consumer_name, time_ms, count)
        if shared != self._shared:
            self.flush()
            self._shared = shared
        self._ids += ids
        self.count += len(ids)

    def flush(self) -> None:
        """Writes the record collected so far."""
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
    """Logs that a consumer owns entries. `last_id` is the group's last-delivered ID before the delivery."""
    if not context.logging:
        context.unlogged_count += 1
        return
    # A forged RESTORE can contain a negative time, which a replay would replace by the current time.
    time_ms = max(time_ms, 0)
    record = pack_claim(key, group.name, consumer_name, bulk_ids(ids), len(ids), time_ms, count, format_id(last_id))
    context.effects.append((context.db.index, record))


def drop_dangling(
    context: Context, log: ClaimLog, key: bytes, group: Group, entry_id: StreamID, delivery: Delivery
) -> None:
    """Drops a pending entry whose entry is deleted from the stream, so that no consumer can process it.

    The log gets a claim by the old owner, which a replay drops as well; for a released entry it gets XACK.
    """
    if delivery.consumer is None:
        log.flush()
        context.log_record(pack_acknowledged(key, group.name, format_id(entry_id)))
    else:
        log.add([entry_id], delivery.consumer.name, delivery.time_ms, delivery.count)
    group.pending.drop(entry_id)


def log_position(context: Context, key: bytes, group: Group) -> None:
    """Logs the group's last-delivered ID and its number of entries read."""
    if not context.logging:
        context.unlogged_count += 1
        return
    record = pack_position(key, group.name, format_id(group.last_id), b"%d" % group.entries_read)
    context.effects.append((context.db.index, record))


def log_consumer(context: Context, key: bytes, group: Group, consumer_name: bytes) -> None:
    """Logs the creation of a consumer that no claim record creates."""
    context.log_record(pack_consumer(key, group.name, consumer_name))
