"""ORDER-BY: which entries of a group wait for others with the same value of a field, and whose turn comes.

An entry that waits is released, and due when NEVER_MS is. So a Redis that reads the log hands it out at once: it loses
the order, and no entry.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...store.group import Group
from ...store.ids import StreamID
from ...store.policies.agenda import NEVER_MS
from ...store.policies.rules import PendingRules
from ...store.stream import Stream
from ..execution.context import Context
from .release import log_due


def require_order(context: Context, key: bytes, group: Group, rules: PendingRules) -> None:
    """Let a group with ORDER-BY know who has the turn. After a start, a fail-over, a copy or another setting that is
    found out from the pending entries. Not for a replay.
    """
    stream = context.db.streams.get(key)
    if stream is None:
        return
    if rules.order is None:
        rules.arrange(stream.log)
        stream.heeds_deletions = True
    elif rules.order.swept_id < stream.log.first_id:
        rules.note_deleted((), stream.log.first_id)
    log_turns(context, key, group, rules)


def log_turns(context: Context, key: bytes, group: Group, rules: PendingRules) -> None:
    """Log which released entries have got or lost the turn, and wake readers for the former, and if entries have left.
    In a replay, what the log or the primary says counts: the order is found out anew when it is needed.
    """
    if context.replaying:
        rules.order = None
        return
    changed = rules.take_changed_turns()
    if changed:
        now_ms = context.now_ms
        log_due(
            context, key, group, {entry_id: now_ms if has_turn else NEVER_MS for entry_id, has_turn in changed.items()}
        )
        context.db.signal_ready(key)
    if rules.order is not None and rules.order.has_shrunk:
        rules.order.has_shrunk = False
        context.db.signal_ready(key)


def note_deleted(context: Context, key: bytes, stream: Stream, ids: Iterable[StreamID] = ()) -> None:
    """Entries were deleted from a stream with `heeds_deletions`: these, or the first ones. Those after them get the
    turn, and there may be room for others.
    """
    first_id = stream.log.first_id if len(stream) else stream.last_id + 1
    stream.heeds_deletions = False
    for group in stream.groups.values():
        rules = group.pending.rules
        if rules is not None and rules.policy.is_bounded:
            stream.heeds_deletions = True
            # With DELREF, a consumer or the group may have less pending now.
            context.db.signal_ready(key)
        if rules is not None and rules.order is not None:
            stream.heeds_deletions = True
            rules.note_deleted(ids, first_id)
            log_turns(context, key, group, rules)
            if rules.spent and rules.may_bury(context.now_ms) and not context.replaying:
                # What has got the turn may be a dead letter.
                context.visits.note((context.db.index, key, group.name), context.now_ms)
