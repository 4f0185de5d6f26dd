"""REDELIVER: which pending entries a plain read of a group is given, and how many entries it may be given at all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ...store.events import XREDELIVER
from ...store.group import Group
from ...store.ids import StreamID, format_id
from ...store.pending import Consumer, Delivery
from ...store.policies.rules import UNLIMITED, PendingRules
from ...store.stream import Stream
from ..execution.context import Context
from .claim_log import ClaimLog, drop_dangling

# Deliveries of others that one look skips since the consumer has as many entries as it may.
SKIPPED_MAX: Final = 4096

# ID, delivery time and delivery count of an entry before it is claimed.
Claim = tuple[StreamID, int, int]


class Room:
    """How many entries a consumer, and the whole group, may still be given (MAX-PENDING, MAX-PENDING-GROUP)."""

    __slots__ = ("frees_others", "group_left", "left")

    def __init__(self, rules: PendingRules, consumer: Consumer | None, *, is_bounded: bool) -> None:
        """`is_bounded` is False for a read with NOACK, which makes nothing pending."""
        policy, owned = rules.policy, 0 if consumer is None else consumer.pending_count
        self.left = self.group_left = UNLIMITED
        if is_bounded and policy.pending_max:
            self.left = policy.pending_max - owned
        if is_bounded and policy.group_pending_max:
            self.group_left = policy.group_pending_max - rules.owned_count
        # Whether other consumers, or the group, have less than before.
        self.frees_others = False

    def take(self, owner: Consumer | None, consumer: Consumer | None) -> bool:
        """Take room for an entry of `owner`, None for a released one. Returns False if there is none."""
        if owner is not None and owner is consumer:
            return True
        if self.left <= 0 or (owner is None and self.group_left <= 0):
            return False
        self.left -= 1
        if owner is None:
            self.group_left -= 1
        else:
            self.frees_others = True
        return True

    def note_dropped(self, owner: Consumer | None, consumer: Consumer | None) -> None:
        """An entry of `owner`, None for a released one, has left the pending list."""
        if owner is not None:
            self.group_left += 1
            self.left += owner is consumer
            self.frees_others = True

    @property
    def new_max(self) -> int:
        """How many new entries may be given."""
        return max(min(self.left, self.group_left), 0)


def find_due(
    context: Context,
    key: bytes,
    stream: Stream,
    group: Group,
    consumer: Consumer | None,
    room: Room,
    count: int,
    *,
    only_fresh: bool,
) -> list[Claim]:
    """The entries, up to `count` if that is not negative, that a plain read is given before new ones: released ones in
    release order, then idle ones by due time. `room` is lowered. Those that are deleted leave the pending list.

    `only_fresh`: with NOACK, only entries that no consumer ever had.
    """
    rules = group.pending.rules
    assert rules is not None
    limit = UNLIMITED if count < 0 else count
    while True:
        claims, dangling = _look(stream, group, rules, consumer, room, context.now_ms, limit, only_fresh=only_fresh)
        if dangling:
            log = ClaimLog(context, key, group, group.last_id)
            for entry_id, delivery in dangling:
                drop_dangling(context, log, key, group, entry_id, delivery)
                room.note_dropped(delivery.consumer, consumer)
            log.flush()
        if claims or not dangling:
            return claims


def _look(
    stream: Stream,
    group: Group,
    rules: PendingRules,
    consumer: Consumer | None,
    room: Room,
    now_ms: int,
    limit: int,
    *,
    only_fresh: bool,
) -> tuple[list[Claim], list[tuple[StreamID, Delivery]]]:
    """What there is to give, and deleted entries that were met."""
    claims: list[Claim] = []
    dangling: list[tuple[StreamID, Delivery]] = []
    log = stream.log
    for entry_id, delivery in _candidates(group, rules, consumer, room, now_ms, only_fresh=only_fresh):
        if len(claims) == limit:
            break
        if not log.still_has(entry_id):
            dangling.append((entry_id, delivery))
        elif room.take(delivery.consumer, consumer):
            claims.append((entry_id, delivery.time_ms, delivery.count))
    return claims, dangling


def _candidates(
    group: Group, rules: PendingRules, consumer: Consumer | None, room: Room, now_ms: int, *, only_fresh: bool
) -> Iterator[tuple[StreamID, Delivery]]:
    """Yield what may be given while there is room. A consumer without room is only given what it has already."""
    pending, redelivers = group.pending, bool(rules.policy.redeliver_ms) and not only_fresh
    released = pending.released
    for table in (rules.ready, rules.fresh) if redelivers else (rules.fresh,):
        for entry_id in table:
            if not room.new_max:
                break
            yield entry_id, released[entry_id]
    if not redelivers or rules.agenda is None:
        return
    skipped_count = 0
    for run in rules.agenda.due(now_ms):
        if run.consumer is not consumer and room.left <= 0:
            skipped_count += 1
            if skipped_count == SKIPPED_MAX:
                return
            continue
        for entry_id in pending.members(run):
            yield entry_id, run


def note_redelivered(context: Context, key: bytes, group: Group, counts: dict[StreamID, int]) -> None:
    """Count entries that a plain read was given again, and announce that. `counts` has their delivery counts before."""
    rules = group.pending.rules
    assert rules is not None
    again = sum(count > 0 for count in counts.values())
    if again:
        rules.counts.redelivered += again
        context.db.announce(XREDELIVER, key)


def acknowledge(context: Context, key: bytes, group: Group, ids: list[StreamID]) -> None:
    """Let entries that were given with NOACK leave the pending list, and log that."""
    group.pending.drop_all(ids)
    context.log_words([b"XACK", key, group.name, *map(format_id, ids)], 0)
