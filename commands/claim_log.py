"""How deliveries reach the log: claims in absolute form, as few records as their values allow."""

from __future__ import annotations

from typing import Final

from ..protocol.packing import pack_command
from ..store.group import Group
from ..store.ids import StreamID, bulk_ids, format_id
from .context import Context

WORDS_COUNT: Final = 13
"""Words of a claim's record beside its IDs."""


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
    before = pack_command((b"XCLAIM", key, group.name, consumer_name, b"0"))
    after = pack_command(
        (b"TIME", b"%d" % time_ms, b"RETRYCOUNT", b"%d" % count, b"FORCE", b"JUSTID", b"LASTID", format_id(last_id))
    )
    # Words that every claim has, without the headers of the two parts.
    context.log_packed(b"*%d\r\n%b%b%b" % (WORDS_COUNT + len(ids), before[4:], bulk_ids(ids), after[4:]))


def log_position(context: Context, key: bytes, group: Group) -> None:
    """The group's last-delivered ID and entries-read."""
    context.log(
        b"XGROUP", b"SETID", key, group.name, format_id(group.last_id), b"ENTRIESREAD", b"%d" % group.entries_read
    )


def log_consumer(context: Context, key: bytes, group: Group, consumer_name: bytes) -> None:
    """A consumer that no claim record brings into being."""
    context.log(b"XGROUP", b"CREATECONSUMER", key, group.name, consumer_name)
