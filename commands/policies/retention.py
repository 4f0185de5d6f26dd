"""Removes the entries that the policies of streams do not keep: acknowledged by all, too old, or too many.

The server calls this when a turn of the loop has used streams with a policy, and now and then for all of them. It acts
only on a primary that serves, and outside of any command. What it removes is always the head of a stream, so that one
XTRIM in the log has the same effect.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ...protocol.packing import pack_command
from ...store import events
from ...store.database import Database
from ...store.group import Group
from ...store.ids import ID_MAX, SEQ_BITS, StreamID, format_id, id_after
from ...store.policies.stream_policy import MAX_AGE, MAX_LENGTH, MAX_SIZE, StreamPolicy
from ...store.stream import Stream
from ...store.trimming import Trim, trim
from ..execution.context import Context
from .turns import note_deleted

# Entries that are removed at once, from a stream and in a turn, some milliseconds of work. The rest follows at the next
# look.
REMOVED_COUNT_MAX = 100_000

# Streams looked at between two looks at the clock.
STREAM_COUNT_AT_ONCE: Final = 16


class Retention:
    """Applies the policies of all streams. Effects are left in the context, each to be logged as a unit.

    `is_over` of `visit` returns whether the time of a visit is used up.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        # Streams that are still to be looked at in this round.
        self._keys: list[tuple[Database, bytes]] = []
        # When this server began to decide, in Unix ms; None while another one does.
        self._decides_since_ms: int | None = None

    def act(self, now_ms: int) -> int:
        """Apply the policies of the streams that commands have used since the last time. Returns how many entries were
        removed.
        """
        used = self._context.store.used_governed
        keys = list(used)
        used.clear()
        if not self._may_decide(now_ms):
            return 0
        total = 0
        unfinished: list[tuple[int, bytes]] = []
        for index, key in keys:
            if total >= REMOVED_COUNT_MAX:
                used[index, key] = None
                continue
            removed = self._apply(self._context.store.databases[index], key, now_ms)
            total += removed
            if removed >= REMOVED_COUNT_MAX:
                unfinished.append((index, key))
        used.update(dict.fromkeys(unfinished))
        return total

    def visit(self, now_ms: int, is_over: Callable[[], bool], *, begins_round: bool) -> None:
        """Apply the policies of more streams, in rounds through all that have one. A round begins if the last one has
        ended and `begins_round` is true. Visits find what became too old, and what was left at the last stop.
        """
        if not self._may_decide(now_ms):
            return
        if begins_round and not self._keys:
            self._keys = [(db, key) for db in self._context.store.databases if db.governed for key in db.governed]
        while self._keys and not is_over():
            for db, key in self._keys[-STREAM_COUNT_AT_ONCE:]:
                _note_groups(db.governed.get(key), now_ms)
                if self._apply(db, key, now_ms) >= REMOVED_COUNT_MAX:
                    self._context.store.used_governed[db.index, key] = None
            del self._keys[-STREAM_COUNT_AT_ONCE:]

    def _may_decide(self, now_ms: int) -> bool:
        """Whether entries may be removed now. As with expired keys, not while a dataset is loaded, during a pause, or
        where a primary decides.
        """
        db = self._context.store.databases[0]
        if db.frozen or db.keeps_expired:
            self._decides_since_ms = None
            return False
        if self._decides_since_ms is None:
            self._decides_since_ms = now_ms
        return True

    def _apply(self, db: Database, key: bytes, now_ms: int) -> int:
        """Remove what the policy of a stream does not keep. Returns the number of entries."""
        stream = db.governed.get(key)
        if stream is None or db.is_stale(key, now_ms):
            return 0
        bound_id = self._bound(stream, now_ms)
        if bound_id <= stream.log.first_id:
            return 0
        if stream.log.length > REMOVED_COUNT_MAX:
            bound_id = min(bound_id, stream.log.id_at(REMOVED_COUNT_MAX))
        context = self._context
        if context.image is not None and stream.image_number < Stream.newest_image_number:
            context.image.preserve(stream)
        removed, _ = trim(stream, Trim(id_min=bound_id))
        if not removed:
            return 0
        if context.is_counting:
            db.recount(stream)
        db.touch(key, events.XTRIM)
        context.db = db
        context.counted_apart += removed - 1
        context.log_record(pack_command([b"XTRIM", key, b"MINID", b"=", format_id(bound_id)]))
        if stream.heeds_deletions:
            note_deleted(context, key, stream)
        return removed

    def _bound(self, stream: Stream, now_ms: int) -> StreamID:
        """The ID up to which entries go, itself excluded; at most the first ID if none do."""
        policy, first_id = stream.policy, stream.log.first_id
        if policy is None or not stream.log.length:
            return 0
        kept_bound, forced_bound = _limits_of(stream, policy, now_ms)
        bound_id = forced_bound
        if kept_bound > max(first_id, forced_bound):
            bound_id = max(bound_id, min(kept_bound, self._pending_bound(stream, policy, now_ms)))
        if not policy.retains_acked:
            bound_id = max(bound_id, self._acked_bound(stream, policy, now_ms))
        return bound_id

    def _pending_bound(self, stream: Stream, policy: StreamPolicy, now_ms: int) -> StreamID:
        """The first ID that a group has pending; the largest ID if there is none."""
        holder, first_id = policy.holder, stream.log.first_id
        if holder is not None and self._counts(stream, policy, holder, now_ms) and _pending_id(holder) <= first_id:
            return first_id
        bound_id = ID_MAX
        for group in stream.groups.values():
            pending_id = _pending_id(group)
            if pending_id < bound_id and self._counts(stream, policy, group, now_ms):
                policy.holder, bound_id = group, pending_id
        return bound_id

    def _acked_bound(self, stream: Stream, policy: StreamPolicy, now_ms: int) -> StreamID:
        """The first ID that a group has pending or has not received; 0 if there is no group."""
        holder, first_id = policy.holder, stream.log.first_id
        if holder is not None and self._counts(stream, policy, holder, now_ms) and _position(holder) <= first_id:
            return first_id
        bound_id = ID_MAX + 1
        for group in stream.groups.values():
            position = _position(group)
            if position < bound_id and self._counts(stream, policy, group, now_ms):
                policy.holder, bound_id = group, position
        return 0 if bound_id > ID_MAX else bound_id

    def _counts(self, stream: Stream, policy: StreamPolicy, group: Group, now_ms: int) -> bool:
        """Whether the group keeps entries: it is a group of the stream, and not idle for too long.

        A group is used by its consumers. Times from before this server began to decide do not count, since a log does
        not have all of them. Neither do those from before this group was first looked at.
        """
        if stream.groups.get(group.name) is not group:
            return False
        if not policy.ignored_idle_ms:
            return True
        looked_at_ms = policy.looked_at_ms
        if group not in looked_at_ms:
            for other in [other for other in looked_at_ms if stream.groups.get(other.name) is not other]:
                del looked_at_ms[other]
            looked_at_ms[group] = now_ms
        used_ms = max(looked_at_ms[group], self._decides_since_ms or 0)
        if now_ms - used_ms < policy.ignored_idle_ms:
            return True
        return any(now_ms - consumer.seen_ms < policy.ignored_idle_ms for consumer in group.consumers.values())


def _note_groups(stream: Stream | None, now_ms: int) -> None:
    """The time of groups that may be idle too long begins, also of those that are not asked since another one keeps the
    first entry.
    """
    if stream is not None and stream.policy is not None and stream.policy.ignored_idle_ms:
        for group in stream.groups.values():
            stream.policy.looked_at_ms.setdefault(group, now_ms)


def _limits_of(stream: Stream, policy: StreamPolicy, now_ms: int) -> tuple[StreamID, StreamID]:
    """The IDs up to which entries are too old or too many: by limits that keep pending entries, and by others."""
    log = stream.log
    kept_bound = forced_bound = 0
    for name, bound_id in (
        (MAX_AGE, _age_bound(policy, now_ms)),
        (MAX_LENGTH, _count_bound(stream, log.length - policy.length_max if policy.length_max else 0)),
        (MAX_SIZE, _count_bound(stream, log.count_over(policy.size_max) if policy.size_max else 0)),
    ):
        if name in policy.forced:
            forced_bound = max(forced_bound, bound_id)
        else:
            kept_bound = max(kept_bound, bound_id)
    return kept_bound, forced_bound


def _age_bound(policy: StreamPolicy, now_ms: int) -> StreamID:
    return max(now_ms - policy.age_max_ms, 0) << SEQ_BITS if policy.age_max_ms else 0


def _count_bound(stream: Stream, count: int) -> StreamID:
    """The ID up to which the first `count` entries go, or as many as go at once."""
    return stream.log.id_at(min(count, REMOVED_COUNT_MAX)) if count > 0 else 0


def _pending_id(group: Group) -> StreamID:
    """The first pending ID of a group; the largest ID if nothing is pending."""
    return group.pending.first_id() if len(group.pending) else ID_MAX


def _position(group: Group) -> StreamID:
    """The first ID that the group has pending or has not received."""
    return min(_pending_id(group), id_after(group.last_id))
