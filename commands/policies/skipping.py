"""New entries that a read of a group skips, since they may not be had yet.

They enter the pending list as released entries with delivery count 0 and a due time. So the group's position moves past
them, and a Redis that reads the log hands them out as released ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ...store.group import Group
from ...store.ids import StreamID
from ...store.policies.agenda import NEVER_MS
from ...store.policies.ordering import WAITING_MAX_DEFAULT
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
        # Skipped entries that are pending already, by FORCE or since the group was set back: they stay as they are.
        self.passed: list[StreamID] = []

    def deliverable(
        self, entries: Iterator[tuple[StreamID, bytes]], *, become_pending: bool
    ) -> Iterator[tuple[StreamID, bytes]]:
        """Yield the new entries that may be had, and note the others: those that are delayed, and those that wait for
        another entry (ORDER-BY). With `become_pending`, later entries wait for those that are yielded.
        """
        later, now_ms, due_of = self._stream.later, self._context.now_ms, self.due_of
        pending = self._group.pending
        rules = pending.rules
        order = None if rules is None else rules.order
        waiting_left = 0
        if rules is not None and order is not None:
            order.begin_read()
            waiting_left = (rules.policy.parked_max or WAITING_MAX_DEFAULT) - order.waiting_count
        for entry_id, entry in entries:
            due_ms = 0 if later is None else later.get(entry_id) or 0
            waits = order is not None and order.must_wait(entry_id, entry)
            if order is not None and not waits and (become_pending or due_ms > now_ms):
                order.take_turn(entry_id)
            if not waits and due_ms <= now_ms:
                yield entry_id, entry
                continue
            if entry_id in pending:
                self.passed.append(entry_id)
                continue
            if waits:
                if waiting_left <= 0:
                    return
                waiting_left -= 1
            due_of[entry_id] = due_ms if due_ms > now_ms else NEVER_MS
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
