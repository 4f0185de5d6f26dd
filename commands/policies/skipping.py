"""New entries that a read of a group skips, since they may not be had yet.

They enter the pending list as released entries with delivery count 0 and a due time. So the group's position moves past
them, and a Redis that reads the log hands them out as released ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ...store.group import Group
from ...store.ids import StreamID
from ...store.stream import Stream
from ..execution.context import Context
from .release import log_due, log_released

# Entries that one read skips.
SKIPPED_MAX: Final = 16_384


class Skipping:
    """The entries that one read skips, with their due times."""

    def __init__(self, context: Context, key: bytes, stream: Stream, group: Group) -> None:
        self._context = context
        self._key = key
        self._stream = stream
        self._group = group
        self.due_of: dict[StreamID, int] = {}

    def deliverable(self, entries: Iterator[tuple[StreamID, bytes]]) -> Iterator[tuple[StreamID, bytes]]:
        """Yield the new entries that may be had, and note the others."""
        later, now_ms, due_of = self._stream.later, self._context.now_ms, self.due_of
        for entry_id, entry in entries:
            due_ms = None if later is None else later.get(entry_id)
            if due_ms is None or due_ms <= now_ms:
                yield entry_id, entry
                continue
            due_of[entry_id] = due_ms
            if len(due_of) == SKIPPED_MAX:
                return

    def apply(self) -> None:
        """Make the noted entries pending and delayed, and log that."""
        if not self.due_of:
            return
        context, key, group, ids = self._context, self._key, self._group, list(self.due_of)
        rules = group.require_rules()
        for entry_id, due_ms in self.due_of.items():
            group.release(entry_id, count=0)
            rules.delay(entry_id, due_ms)
        if len(ids) == SKIPPED_MAX:
            # There may be others after them for a reader that waits.
            context.visits.note((context.db.index, key, group.name), context.now_ms)
        log_released(context, key, group, ids, 0)
        log_due(context, key, group, self.due_of)
