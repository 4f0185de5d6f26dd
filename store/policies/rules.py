"""What policies, and delays without a policy, keep of the pending entries of a group.

A released entry is in one of four tables: `delays` until its due time, then `ready`, `fresh` or `spent`. An owned one
is in the agenda, or guarded. `settle` takes along what has become due; nothing searches the pending list.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from ..ids import StreamID
from ..log import EntryLog
from ..pending_parts import Consumer, Delivery, PendingTable
from .absences import Absences
from .agenda import NEVER_MS, Agenda
from .group_policy import GroupPolicy
from .lease import Lease
from .ordering import Ordering

try:
    from .due_times import DueTimes
except ImportError:  # there was no C compiler at installation
    from .due_times_plain import DueTimes  # type: ignore[assignment]

__all__ = ["NO_HOLDER", "NO_POLICY", "UNLIMITED", "DueTimes", "PendingRules", "PolicyCounts", "RulesImage"]

# Entries that one call of `settle` takes along.
SETTLED_MAX: Final = 4096

NO_POLICY: Final = GroupPolicy()
# More entries than a read can be given.
UNLIMITED: Final = 1 << 62
# No connection.
NO_HOLDER: Final = 0


class PolicyCounts:
    """What the policies of a group have done since the server started."""

    __slots__ = ("consumers_expired", "dead_letter_failures", "dead_letters", "redelivered")

    def __init__(self) -> None:
        self.redelivered = 0
        self.dead_letters = 0
        self.dead_letter_failures = 0
        self.consumers_expired = 0


class RulesImage:
    """What files need of the rules of a group, as it is at one moment."""

    __slots__ = ("_delays", "_fresh", "policy")

    def __init__(self, policy: GroupPolicy, delays: DueTimes, fresh: list[StreamID]) -> None:
        self.policy: Final = policy
        self._delays = delays
        self._fresh = fresh

    def due_times(self) -> Iterator[tuple[StreamID, int]]:
        """See `PendingRules.due_times`."""
        yield from self._delays.walk()
        for entry_id in self._fresh:
            yield entry_id, 0


class PendingRules:
    """The rules of one group's pending entries. `PendingEntries` reports each change to it."""

    __slots__ = (
        "_table",
        "absences",
        "agenda",
        "counts",
        "delays",
        "fresh",
        "holder",
        "lease",
        "noted_ms",
        "order",
        "place",
        "policy",
        "quiet_until_ms",
        "ready",
        "retry_ms",
        "spent",
    )

    def __init__(self, table: PendingTable) -> None:
        self._table = table
        self.policy = NO_POLICY
        self.counts = PolicyCounts()
        # Released entries that may not be had before a time.
        self.delays = DueTimes()
        # Released entries that any consumer may have, in the order in which they became so.
        self.ready: dict[StreamID, None] = dict.fromkeys(table.released)
        # Such entries that no consumer ever had: a read has skipped them, and a plain read is given them.
        self.fresh: dict[StreamID, None] = {}
        # Entries, owned or not, that are not delivered again.
        self.spent: dict[StreamID, None] = {}
        # When a dead letter is tried again that failed; 0 if none did.
        self.retry_ms = 0
        # Set with CONSUMER-TTL.
        self.absences: Absences | None = None
        # Set with REDELIVER.
        self.agenda: Agenda | None = None
        # Set with GUARD.
        self.lease: Lease | None = None
        # Set with ORDER-BY, once a command has asked for it: see `arrange`.
        self.order: Ordering | None = None
        # The connection that is given entries now.
        self.holder = NO_HOLDER
        # Key and name of the group, as of its last use by a connection or a move.
        self.place = (b"", b"")
        # For when the next visit of the group is noted.
        self.noted_ms = NEVER_MS
        # Nothing becomes due before, so that most reads need no further look.
        self.quiet_until_ms = NEVER_MS

    def configure(self, policy: GroupPolicy, runs: Iterable[Delivery]) -> None:
        """Put other settings in force. `runs` are the owned deliveries."""
        before_field, self.policy = self.policy.order_field, policy
        if policy.order_field != before_field:
            self.order = None
            if not policy.order_field:
                self._end_order()
        self.agenda = Agenda(policy) if policy.redeliver_ms else None
        before, self.lease = self.lease, Lease(policy.lease_max_ms) if policy.guards else None
        released = [*self.ready, *(entry_id for entry_id in self.spent if entry_id in self._table.released)]
        self.ready, self.spent, self.retry_ms = {}, {}, 0
        for entry_id in released:
            self._put(entry_id, self._table.released[entry_id].count)
        if not policy.consumer_ttl_ms:
            self.absences = None
        elif self.absences is None:
            self.absences = Absences(policy.consumer_ttl_ms)
        else:
            self.absences.ttl_ms = policy.consumer_ttl_ms
        self.quiet_until_ms = 0
        for run in runs:
            holder = None if before is None else before.holder_of(run)
            self._plan(run, NO_HOLDER if holder is None else holder)

    @property
    def is_needed(self) -> bool:
        """Whether there is a policy, or an entry that is delayed or fresh."""
        return self.policy is not NO_POLICY or bool(len(self.delays) or self.fresh)

    # -- changes of the pending entries ------------------------------------------------------------

    def note_delivered(self, ids: list[StreamID], deliveries: list[Delivery]) -> None:
        """Entries have an owner now."""
        self._forget(ids)
        if self.order is not None:
            for entry_id in ids:
                self._enter(entry_id)
        if self.agenda is not None or self.lease is not None:
            for delivery in deliveries:
                self._plan(delivery, self.holder)

    def note_released(self, entry_id: StreamID, count: int) -> None:
        """An entry has no owner now, and may be had at once if it has the turn."""
        self._forget((entry_id,))
        if self.order is not None:
            self._enter(entry_id)
            if self.order.has_turn(entry_id):
                self._put(entry_id, count)
            else:
                self._park(entry_id)
        else:
            self._put(entry_id, count)

    def note_dropped(self, ids: list[StreamID]) -> None:
        """Entries leave the pending list."""
        self._forget(ids)
        if self.order is not None:
            self._end_turns(ids)

    def delay(self, entry_id: StreamID, due_ms: int) -> None:
        """Let a released entry not be had before `due_ms`, Unix time."""
        self._forget((entry_id,))
        self.delays.set(entry_id, due_ms)
        if self.order is not None:
            self.order.changed.pop(entry_id, None)  # the caller logs this time
        self.quiet_until_ms = min(self.quiet_until_ms, due_ms)

    # -- turns (ORDER-BY) --------------------------------------------------------------------------

    def arrange(self, log: EntryLog) -> Ordering:
        """Find out who has the turn, from the entries of the stream. Later changes keep that up to date."""
        order = self.order = Ordering(self.policy.order_field, log)
        order.swept_id = log.first_id
        for entry_id, _ in self._table.walk():
            order.enter(entry_id)
        for entry_id, delivery in self._table.released.items():
            self._check_turn(entry_id)
            if not delivery.count and entry_id in self.ready and order.is_ordered(entry_id):
                # It was parked, and the log was cut off before its turn was logged.
                del self.ready[entry_id]
                self.fresh[entry_id] = None
        return order

    def note_deleted(self, ids: Iterable[StreamID], first_id: StreamID) -> None:
        """Entries have left the stream: those of `ids` that it has no more, and all before `first_id`. They end their
        turns, but stay pending.
        """
        order = self.order
        assert order is not None
        gone = [entry_id for entry_id in ids if order.is_deleted(entry_id)]
        while order.swept_id < first_id:
            swept = [entry_id for entry_id in self._table.take(order.swept_id, SETTLED_MAX) if entry_id < first_id]
            gone += swept
            order.swept_id = swept[-1] + 1 if len(swept) == SETTLED_MAX else first_id
        self._end_turns(gone)
        for entry_id in gone:
            self._check_turn(entry_id)

    def take_changed_turns(self) -> dict[StreamID, bool]:
        """The released entries that have got the turn since the last call (True) or lost it, so that this is logged."""
        if self.order is None or not self.order.changed:
            return {}
        changed, self.order.changed = self.order.changed, {}
        released = self._table.released
        return {entry_id: has_turn for entry_id, has_turn in changed.items() if entry_id in released}

    def _enter(self, entry_id: StreamID) -> None:
        assert self.order is not None
        loser_id = self.order.enter(entry_id)
        if loser_id:
            self._check_turn(loser_id)

    def _end_turns(self, ids: Iterable[StreamID]) -> None:
        assert self.order is not None
        for entry_id in self.order.leave(ids):
            self._check_turn(entry_id)

    def _check_turn(self, entry_id: StreamID) -> None:
        """Let an entry be had if it is released and has got the turn, and not be had if it has lost it."""
        order = self.order
        delivery = self._table.released.get(entry_id)
        if order is None or delivery is None:
            return
        due_ms = self.delays.get(entry_id)
        if not order.has_turn(entry_id):
            if due_ms is None:
                self._park(entry_id)
        elif due_ms == NEVER_MS:
            self.delays.discard(entry_id)
            self._give(entry_id, delivery.count)
            order.changed[entry_id] = True

    def _park(self, entry_id: StreamID) -> None:
        """Let a released entry not be had until it gets the turn."""
        assert self.order is not None
        self._forget((entry_id,))
        self.delays.set(entry_id, NEVER_MS)
        self.order.changed[entry_id] = False

    def _end_order(self) -> None:
        """Let everything be had that waits for its turn."""
        for entry_id, due_ms in self.delays.walk():
            if due_ms == NEVER_MS:
                self.delays.discard(entry_id)
                self._give(entry_id, self._table.released[entry_id].count)

    # -- guards and dead letters -------------------------------------------------------------------

    def end_guard(self, holder: int) -> None:
        """A connection is closed: what it guarded is idle since its delivery."""
        if self.lease is not None:
            self._unguard(self.lease.end(holder))

    def may_bury(self, now_ms: int) -> bool:
        """Whether there is a dead-letter stream, and it is not too early to try it after a failure."""
        return bool(self.policy.dead_letter_key) and now_ms >= self.retry_ms

    def postpone_dead_letters(self, retry_ms: int) -> None:
        """Try the dead letters again at that time."""
        self.retry_ms = retry_ms

    def _forget(self, ids: Iterable[StreamID]) -> None:
        if len(self.delays):
            self.delays.discard_many(ids)
        if self.ready or self.fresh or self.spent:
            for table in (self.ready, self.fresh, self.spent):
                for entry_id in ids if table else ():
                    table.pop(entry_id, None)

    def _put(self, entry_id: StreamID, count: int) -> None:
        """Put a released entry where it can be had, or where it is not delivered again."""
        (self.spent if self.policy.is_spent(count) else self.ready)[entry_id] = None

    def _give(self, entry_id: StreamID, count: int) -> None:
        """Let a released entry be had that is not delayed any more."""
        if count:
            self._put(entry_id, count)
        else:
            self.fresh[entry_id] = None

    def _plan(self, delivery: Delivery, holder: int) -> None:
        """Note when the entries of a delivery are given again."""
        if self.lease is not None and holder != NO_HOLDER:
            self.lease.grant(delivery, holder)
        elif self.agenda is not None:
            self.quiet_until_ms = min(self.quiet_until_ms, self.agenda.add(delivery))

    def _unguard(self, runs: list[Delivery]) -> None:
        if self.agenda is not None:
            for run in runs:
                self.quiet_until_ms = min(self.quiet_until_ms, self.agenda.add(run))

    # -- time --------------------------------------------------------------------------------------

    def settle(self, now_ms: int) -> None:
        """Take along what has become due by now."""
        if now_ms < self.quiet_until_ms and (self.lease is None or now_ms < self.lease.next_end_ms()):
            return
        if self.lease is not None:
            self._unguard(self.lease.expire(now_ms))
        released = self._table.released
        for entry_id in self.delays.take_due(now_ms, SETTLED_MAX) if len(self.delays) else ():
            if self.order is None or self.order.has_turn(entry_id):
                self._give(entry_id, released[entry_id].count)
            else:
                self._park(entry_id)
        if self.agenda is not None:
            for run in self.agenda.take_spent(now_ms):
                self.spent.update(dict.fromkeys(self._table.members(run)))
        self.quiet_until_ms = self._due_ms(-1)

    def _due_ms(self, after_ms: int) -> int:
        """When the first delay ends, or the first owned entry after `after_ms` becomes due."""
        first = self.delays.first() if len(self.delays) else None
        due_ms = NEVER_MS if first is None else first[1]
        return due_ms if self.agenda is None else min(due_ms, self.agenda.next_due_ms(after_ms))

    def next_due_ms(self, now_ms: int) -> int:
        """When this group must be looked after: an entry becomes due, or a guard or the wait for a dead letter ends.
        NEVER_MS if that is never.
        """
        due_ms = self._due_ms(now_ms) if self.quiet_until_ms <= now_ms else self.quiet_until_ms
        if self.spent and self.policy.dead_letter_key:
            due_ms = min(due_ms, max(self.retry_ms, now_ms))
        if self.absences is not None:
            due_ms = min(due_ms, self.absences.next_due_ms())
        return due_ms if self.lease is None else min(due_ms, self.lease.next_end_ms())

    # -- reading -----------------------------------------------------------------------------------

    def is_quiet(self, now_ms: int) -> bool:
        """Whether a plain read is given new entries only. With ORDER-BY, not all of them."""
        return (
            now_ms < self.quiet_until_ms
            and not self.fresh
            and not (self.ready and self.policy.redeliver_ms)
            and (self.lease is None or now_ms < self.lease.next_end_ms())
        )

    def room_for_new(self, consumer: Consumer) -> int:
        """How many new entries a consumer may be given (MAX-PENDING, MAX-PENDING-GROUP); not positive if none."""
        policy = self.policy
        room = policy.pending_max - consumer.pending_count if policy.pending_max else UNLIMITED
        return min(room, policy.group_pending_max - self.owned_count) if policy.group_pending_max else room

    def released_ready(self) -> Iterator[StreamID]:
        """Released entries that any consumer may have. Nothing may change meanwhile."""
        yield from self.ready
        yield from self.fresh

    @property
    def owned_count(self) -> int:
        """Number of entries that have an owner."""
        return len(self._table) - len(self._table.released)

    @property
    def parked_count(self) -> int:
        """Number of entries that are not delivered again and stay pending, or wait for their turn."""
        return len(self.spent) + self._waiting_count

    @property
    def _waiting_count(self) -> int:
        return 0 if self.order is None else self.order.waiting_count

    def is_guarded(self, delivery: Delivery) -> bool:
        """Whether an open connection guards a delivery."""
        return self.lease is not None and self.lease.holder_of(delivery) is not None

    def is_held(self, entry_id: StreamID, delivery: Delivery) -> bool:
        """Whether an entry is not idle, however long ago it was delivered: it is delayed or guarded."""
        if delivery.consumer is None:
            return entry_id in self.delays
        return self.is_guarded(delivery)

    @property
    def delayed_count(self) -> int:
        """Number of released entries that may not be had before a time."""
        return max(len(self.delays) - self._waiting_count, 0)

    def due_times(self) -> Iterator[tuple[StreamID, int]]:
        """Yield the delayed entries with their due times, Unix ms, then the fresh ones, with 0."""
        return self.image().due_times()

    # -- whole -------------------------------------------------------------------------------------

    def copy(self, table: PendingTable, runs: Iterable[Delivery]) -> PendingRules:
        """The rules of a copy of the pending entries, without guards and counts."""
        twin = PendingRules(table)
        twin.delays = self.delays.copy()
        twin.fresh = self.fresh.copy()
        for entry_id in (*self.fresh, *(entry_id for entry_id, _ in self.delays.walk())):
            twin.ready.pop(entry_id, None)
        twin.configure(self.policy, runs)
        return twin

    def image(self) -> RulesImage:
        """A copy for files."""
        return RulesImage(self.policy, self.delays.copy(), list(self.fresh))

    @property
    def memory_size(self) -> int:
        """Bytes of the due times and of the order."""
        return self.delays.memory_size + (0 if self.order is None else self.order.memory_size)

    def check(self) -> None:
        """Assert that each released entry is in one table."""
        released = [*self.ready, *self.fresh, *(entry_id for entry_id, _ in self.delays.walk())]
        released += [entry_id for entry_id in self.spent if entry_id in self._table.released]
        assert sorted(released) == sorted(self._table.released)
        assert all(entry_id in self._table for entry_id in self.spent)
        if self.order is not None:
            self.order.check()
            for entry_id in released:
                due_ms = self.delays.get(entry_id)
                assert due_ms != NEVER_MS if self.order.has_turn(entry_id) else due_ms is not None
