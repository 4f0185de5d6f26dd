"""A model of one group with policies: rules for each pending entry and each consumer, and no index.

Whether an entry may be had, is idle, or is a dead letter follows from what is known of this entry and from the
settings. `PolicyGroup.settle` does what has become due.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from simulation.model import COUNT_MAX, ClaimOptions, Entry, GroupModel
from simulation.policy_parts import PARKED_MAX, DeadLetter, Given, PolicyPending, Settings, step_of
from simulation.presence_model import Presence
from support.turns import waiting_entries

if TYPE_CHECKING:
    from simulation.policy_model import PolicyModel

# More entries than there are.
UNLIMITED = 10**9


@dataclass
class PolicyGroup(GroupModel):
    """One group of a stream, which has settings. Set `connection` before each command that delivers."""

    stream: PolicyModel = field(repr=False)
    name: bytes = b""
    pending: dict[int, PolicyPending] = field(default_factory=dict)  # type: ignore[assignment]
    settings: Settings = field(default_factory=Settings)
    presence: Presence = field(default_factory=Presence)
    connection: int = 0
    # The last rank that was given.
    rank: int = 0
    # Deleted entries that a read has met since the last check: a server without room for them need not look at them.
    met: dict[int, PolicyPending] = field(default_factory=dict)

    # -- what is true of an entry ------------------------------------------------------------------

    def is_spent(self, entry_id: int) -> bool:
        """Whether an entry is not delivered again: it was delivered too often, or XNACK FATAL says so."""
        return self._is_last(self.pending[entry_id].count)

    def _is_last(self, count: int) -> bool:
        """Whether an entry with this delivery count is not delivered again."""
        settings = self.settings
        return 0 < (settings.deliveries_max or (COUNT_MAX if settings.has_dead_letters else 0)) <= count

    def is_guarded(self, entry_id: int) -> bool:
        """Whether the connection of its delivery guards an entry."""
        return self.settings.guards and self.pending[entry_id].holder is not None

    def is_waiting(self, entry_id: int, now_ms: int) -> bool:
        """Whether a released entry may not be had yet."""
        delivery = self.pending[entry_id]
        return delivery.consumer is None and (delivery.is_parked or delivery.ready_ms > now_ms)

    def idle_again_ms(self, entry_id: int) -> int | None:
        """When an owned entry is given to a plain read, or is a dead letter; None if it is not because of its age."""
        delivery, steps = self.pending[entry_id], self.settings.redeliver_ms
        if not steps or delivery.consumer is None or self.is_guarded(entry_id):
            return None
        return delivery.time_ms + steps[step_of(steps, delivery.count)]

    def waiting(self) -> set[int]:
        """The pending entries, owned or not, that do not have the turn."""
        return waiting_entries(self.pending, self.stream.ordered) if self.settings.is_ordered else set()

    # -- reading -----------------------------------------------------------------------------------

    def due(self, now_ms: int, *, no_ack: bool = False) -> list[int]:
        """Pending IDs that a plain read is given before new ones, in this order."""
        released = [each for each in self.by_release() if not self.is_waiting(each, now_ms)]
        new = [each for each in released if self.pending[each].is_new]
        if no_ack or not self.settings.redeliver_ms:
            return new
        again = [each for each in released if not self.pending[each].is_new and not self.is_spent(each)]
        idle: list[tuple[int, int, int, int, int]] = []
        for entry_id, delivery in self.pending.items():
            idle_ms = self.idle_again_ms(entry_id)
            if idle_ms is not None and idle_ms <= now_ms and not self.is_spent(entry_id):
                step = step_of(self.settings.redeliver_ms, delivery.count)
                idle.append((idle_ms, step, delivery.time_ms, delivery.rank, entry_id))
        return again + new + [each[-1] for each in sorted(idle)]

    def by_release(self) -> list[int]:
        """Released IDs, first released first. An entry that was delayed counts as released when the delay ended."""

        def place(entry_id: int) -> tuple[int, bool, int]:
            delivery = self.pending[entry_id]
            order = entry_id if delivery.is_delayed else delivery.rank
            return delivery.ready_ms, not delivery.is_delayed, order

        return sorted((each for each, delivery in self.pending.items() if delivery.consumer is None), key=place)

    def read(self, consumer: bytes, count: int, now_ms: int, *, no_ack: bool = False) -> list[Entry]:
        """XREADGROUP ... STREAMS key >."""
        self._use(consumer, now_ms)
        left, group_left = (UNLIMITED, UNLIMITED) if no_ack else self._room(consumer)
        given: list[Entry] = []
        is_over = False
        while not is_over:
            freed: list[bytes] = []
            for entry_id in self.due(now_ms, no_ack=no_ack):
                if len(given) == count:
                    break
                owner = self.pending[entry_id].consumer
                if entry_id not in self.stream.entries:
                    self.met[entry_id] = self.pending[entry_id]
                    self.drop(entry_id)
                    freed += [] if owner is None else [owner]
                elif owner == consumer or (left > 0 and (owner is not None or group_left > 0)):
                    left -= owner != consumer
                    group_left -= owner is None
                    given.append((entry_id, self.stream.entries[entry_id]))
            left += freed.count(consumer)
            group_left += len(freed)
            is_over = bool(given) or not freed
        for entry_id, _ in given:
            self._own(entry_id, consumer, now_ms)
            if no_ack:
                self.acknowledge([entry_id])
        room = max(min(left, group_left), 0)
        return given + self._read_new(consumer, min(room, count - len(given)), now_ms, no_ack=no_ack)

    def read_claiming(self, consumer: bytes, idle_ms_min: int, count: int, now_ms: int) -> list[Given]:
        """XREADGROUP ... CLAIM ... STREAMS key >. Claims need no room, and leave less of it for new entries."""
        self._use(consumer, now_ms)
        given: list[Given] = []
        spent = []
        for entry_id in self._claimable(idle_ms_min, now_ms):
            delivery, value = self.pending[entry_id], self.stream.entries.get(entry_id)
            if len(given) == count:
                break
            if self.is_spent(entry_id):
                spent.append(entry_id)
            elif value is not None:
                given.append((entry_id, value, now_ms - delivery.time_ms, delivery.count))
        for entry_id in spent if self.settings.has_dead_letters else ():
            if entry_id not in self.stream.entries:
                self.met[entry_id] = self.pending[entry_id]
            self.bury(entry_id, now_ms)
        for entry_id, *_ in given:
            self._own(entry_id, consumer, now_ms)
        room = max(min(self._room(consumer)), 0)
        new = self._read_new(consumer, min(room, count - len(given)), now_ms, no_ack=False)
        return given + [(entry_id, value, 0, 0) for entry_id, value in new]

    def _claimable(self, idle_ms_min: int, now_ms: int) -> list[int]:
        """Pending IDs that have been idle so long: released ones in the order of release, then owned ones by time."""
        released = [each for each in self.by_release() if not self.is_waiting(each, now_ms) and not self.is_spent(each)]
        idle = []
        for entry_id, delivery in self.pending.items():
            is_idle = delivery.consumer is not None and now_ms - delivery.time_ms >= idle_ms_min
            if is_idle and not self.is_guarded(entry_id):
                idle.append((delivery.time_ms, delivery.rank, entry_id))
        return sorted(released, key=lambda each: self.pending[each].is_new) + [each[-1] for each in sorted(idle)]

    def _room(self, consumer: bytes) -> tuple[int, int]:
        """How many more entries a consumer may have, and the group."""
        owned = [each for each in self.pending.values() if each.consumer is not None]
        own_count = sum(each.consumer == consumer for each in owned)
        settings = self.settings
        left = settings.pending_max - own_count if settings.pending_max else UNLIMITED
        return left, settings.group_pending_max - len(owned) if settings.group_pending_max else UNLIMITED

    def _read_new(self, consumer: bytes, count: int, now_ms: int, *, no_ack: bool) -> list[Entry]:
        given: list[Entry] = []
        taken = {self.stream.ordered.get(each) for each in self.pending} - {None} if self.settings.is_ordered else set()
        parked_left = (self.settings.parked_max or PARKED_MAX) - len(self.waiting())
        for entry_id, value in list(self.stream.entries.items()):
            if entry_id <= self.last_delivered:
                continue
            if len(given) == count:
                break
            later_ms = self.stream.later.get(entry_id, 0)
            waits = value in taken
            if waits and parked_left <= 0:
                break
            parked_left -= waits
            self.is_read_counted = self._count_read(entry_id)
            self.last_delivered = entry_id
            if waits or later_ms > now_ms:
                self._make_pending(entry_id, 0)
                self._release(entry_id, 0, now_ms, later_ms if later_ms > now_ms else 0)
            else:
                given.append((entry_id, value))
                if no_ack:
                    self.acknowledged.add(entry_id)
                    continue
                self._make_pending(entry_id, 0)
                self._own(entry_id, consumer, now_ms)
            if self.settings.is_ordered and entry_id in self.stream.ordered:
                taken.add(value)
        return given

    def read_history(self, consumer: bytes, now_ms: int) -> list[tuple[int, bytes | None]]:
        """XREADGROUP ... STREAMS key 0."""
        self._use(consumer, now_ms)
        return super().read_history(consumer, now_ms)

    # -- claiming ----------------------------------------------------------------------------------

    def is_idle(self, entry_id: int, idle_ms_min: int, now_ms: int) -> bool:
        """Whether XCLAIM with this idle time may claim an entry."""
        is_held = self.is_guarded(entry_id) or self.is_waiting(entry_id, now_ms)
        return super().is_idle(entry_id, idle_ms_min, now_ms) and not (is_held and idle_ms_min)

    def claim(
        self, consumer: bytes, idle_ms_min: int, wanted: list[int], now_ms: int, options: ClaimOptions | None = None
    ) -> list[Entry]:
        """XCLAIM. An entry that would be delivered too often is skipped, and becomes a dead letter if it can."""
        self._use(consumer, now_ms)
        options = options or ClaimOptions()
        is_delivery = not options.just_ids and options.retry_count is None
        claimed = super().claim(consumer, idle_ms_min, [], now_ms, options)
        for entry_id in wanted:
            is_live = entry_id in self.pending and entry_id in self.stream.entries
            is_had = is_live and self.is_idle(entry_id, idle_ms_min, now_ms)
            if is_delivery and is_had and self.is_spent(entry_id):
                if self.settings.has_dead_letters:
                    self.bury(entry_id, now_ms)
                continue
            claimed += super().claim(consumer, idle_ms_min, [entry_id], now_ms, options)
        return claimed

    def claim_all(self, consumer: bytes, idle_ms_min: int, now_ms: int) -> tuple[list[Entry], list[int]]:
        """XAUTOCLAIM from the beginning, without a limit. It skips what waits or is guarded in any case."""
        gone = [entry_id for entry_id in sorted(self.pending) if entry_id not in self.stream.entries]
        for entry_id in gone:
            self.drop(entry_id)
        claimed = self.claim(consumer, idle_ms_min, [], now_ms)
        for entry_id in sorted(self.pending):
            if not self.is_guarded(entry_id) and not self.is_waiting(entry_id, now_ms):
                claimed += self.claim(consumer, idle_ms_min, [entry_id], now_ms)
        return claimed, gone

    # -- releasing ---------------------------------------------------------------------------------

    def release_later(self, entry_ids: list[int], mode: bytes, now_ms: int, *, delay_ms: int | None) -> int:
        """XNACK, with DELAY if that is not None."""
        known = [entry_id for entry_id in entry_ids if entry_id in self.pending]
        backoff_ms = self.settings.backoff_ms
        for entry_id in known:
            count = self.pending[entry_id].count
            count = {b"SILENT": max(count - 1, 0), b"FAIL": count, b"FATAL": COUNT_MAX}[mode]
            if mode != b"SILENT" and self.settings.has_dead_letters and self._is_last(count):
                self.bury(entry_id, now_ms, is_fatal=mode == b"FATAL")
                continue
            self._release(entry_id, count, now_ms, 0)
            waits_ms = delay_ms
            if waits_ms is None and mode == b"FAIL" and backoff_ms:
                waits_ms = backoff_ms[step_of(backoff_ms, count)]
            is_final = mode != b"SILENT" and self.is_spent(entry_id)
            if waits_ms and not is_final:
                self._release(entry_id, count, now_ms, now_ms + waits_ms)
        self.settle(now_ms)
        return len(known)

    def _release(self, entry_id: int, count: int, now_ms: int, due_ms: int) -> None:
        self.rank += 1
        self.pending[entry_id] = PolicyPending(
            None,
            0,
            count,
            rank=self.rank,
            ready_ms=due_ms or now_ms,
            is_delayed=due_ms > 0,
            is_new=due_ms > 0 and not count,
        )
        self.pending[entry_id].is_parked = entry_id in self.waiting()

    def give_back(self, entry_id: int, now_ms: int) -> None:
        """XREDRIVE of a dead letter whose entry is still in the stream: a plain read is given it like a new one."""
        self._make_pending(entry_id, 0)
        self._release(entry_id, 0, now_ms, 0)
        self.pending[entry_id].is_new = True
        waiting = self.waiting()
        for each, delivery in self.pending.items():
            if delivery.consumer is None and each in waiting:
                delivery.is_parked = True

    # -- leaving, and turns ------------------------------------------------------------------------

    def acknowledge(self, entry_ids: list[int]) -> int:
        """XACK."""
        ordered = [each for each in entry_ids if each in self.pending and each in self.stream.ordered]
        count = super().acknowledge(entry_ids)
        self.follow_turns(ordered)
        return count

    def follow_turns(self, left: list[int]) -> None:
        """These IDs, which were pending, were acknowledged or deleted. Released entries that get the turn are the last
        of the released ones: the next ones of the values of `left`, in this order, then those that are deleted.
        """
        waiting, values = self.waiting(), [self.stream.values.get(each) for each in left]
        parked = [entry_id for entry_id, delivery in self.pending.items() if delivery.is_parked]
        gained = [entry_id for entry_id in parked if entry_id not in waiting]
        gone = [each for each in left if each in gained and each not in self.stream.entries]
        for entry_id in sorted(set(gained) - set(gone), key=lambda each: values.index(self.stream.values[each])):
            self._end_wait(entry_id)
        for entry_id in gone:
            self._end_wait(entry_id)

    def _end_wait(self, entry_id: int) -> None:
        """Let an entry be had that has got the turn, unless it is delayed."""
        delivery = self.pending[entry_id]
        delivery.is_parked = False
        if delivery.ready_ms <= self.stream.now_ms:
            self._put_last(entry_id)
            delivery.is_new = not delivery.count

    def _put_last(self, entry_id: int) -> None:
        delivery = self.pending[entry_id]
        self.rank += 1
        delivery.rank, delivery.ready_ms, delivery.is_delayed = self.rank, self.stream.now_ms, False

    def arrange(self, released: list[int]) -> None:
        """There is an order from now on. `released` are the released entries in the order of their release."""
        waiting = self.waiting()
        for entry_id in released:
            delivery = self.pending[entry_id]
            delivery.is_parked = entry_id in waiting
            is_had = not self.is_waiting(entry_id, self.stream.now_ms) and not delivery.is_new
            if is_had and not delivery.count and entry_id in self.stream.ordered:
                self._put_last(entry_id)
                delivery.is_new = True

    # -- time, settings and connections ------------------------------------------------------------

    def settle(self, now_ms: int) -> int:
        """Do what is due: guards end, consumers are deleted that are absent for too long, and spent entries become dead
        letters. Returns how many consumers and entries that are.
        """
        self._end_leases(now_ms)
        return self._delete_absent(now_ms) + self._bury_spent(now_ms)

    def _end_leases(self, now_ms: int) -> None:
        lease_ms = self.settings.lease_max_ms
        for delivery in sorted(self.pending.values(), key=lambda each: each.rank):
            if lease_ms and delivery.holder is not None and delivery.time_ms + lease_ms <= now_ms:
                self._unguard(delivery)

    def _bury_spent(self, now_ms: int) -> int:
        moved = 0
        while self.settings.has_dead_letters:
            spent = [each for each in self._by_end() if self.is_spent(each) and self._is_out_of_reach(each, now_ms)]
            for entry_id in spent:
                self.bury(entry_id, now_ms)
            moved += len(spent)
            if not spent:
                break
        return moved

    def _delete_absent(self, now_ms: int) -> int:
        """Delete the consumers that are absent for too long. Returns how many."""
        absent = [(end_ms, name) for name in self.consumers if (end_ms := self._ends_ms(name)) is not None]
        over = sorted(each for each in absent if each[0] <= now_ms)
        for _, name in over:
            self.delete_consumer(name, now_ms, releases=True)
        return len(over)

    def _ends_ms(self, consumer: bytes) -> int | None:
        """When a consumer is deleted since it is absent; None if it is not absent."""
        since_ms, ttl_ms = self.presence.absent_since_ms(consumer), self.settings.consumer_ttl_ms
        return since_ms + ttl_ms if ttl_ms and since_ms is not None else None

    def _by_end(self) -> list[int]:
        """The pending entries in the order in which they become dead letters."""

        def place(entry_id: int) -> tuple[int, int, int, int]:
            delivery = self.pending[entry_id]
            step = step_of(self.settings.redeliver_ms, delivery.count) if self.settings.redeliver_ms else 0
            return self.idle_again_ms(entry_id) or 0, step, delivery.time_ms, delivery.rank

        released = self.by_release()
        return released + sorted(self.pending.keys() - released, key=place)

    def _is_out_of_reach(self, entry_id: int, now_ms: int) -> bool:
        """Whether a spent entry has no consumer that works on it."""
        if self.pending[entry_id].consumer is None:
            return not self.is_waiting(entry_id, now_ms)
        idle_ms = self.idle_again_ms(entry_id)
        return idle_ms is not None and idle_ms <= now_ms

    def bury(self, entry_id: int, now_ms: int, *, is_fatal: bool = False) -> None:
        """Move an entry to the dead letters; one that was deleted only leaves the pending list."""
        delivery, value = self.pending[entry_id], self.stream.entries.get(entry_id)
        if value is None:
            self.drop(entry_id)
            return
        self.stream.dead.append(
            DeadLetter(
                value,
                entry_id,
                self.name,
                delivery.consumer or b"",
                delivery.count,
                now_ms,
                b"fatal" if is_fatal or delivery.count == COUNT_MAX else b"deliveries",
            )
        )
        self.acknowledge([entry_id])
        if self.settings.deletes_dead and not self.stream.is_referenced(entry_id):
            self.stream.delete(entry_id)

    def configure(self, settings: Settings, now_ms: int, released: list[int], seen_ms: dict[bytes, int]) -> None:
        """XGROUP CONFIG. Released entries that may be delivered again now are the last of the released ones.

        `released` are all released entries in the order of their release, `seen_ms` the times at which the server has
        seen the consumers.
        """
        if settings.consumer_ttl_ms and not self.settings.consumer_ttl_ms:
            self.presence.begin(seen_ms)
            for wait in self.stream.waits:
                if wait.group == self.name:
                    self.presence.note_use(wait.consumer, wait.connection, now_ms)
        spent = [each for each in self.by_release() if self.is_spent(each) and not self.is_waiting(each, now_ms)]
        was_ordered, self.settings = self.settings.is_ordered, settings
        if not settings.is_ordered:
            for entry_id in sorted(each for each, delivery in self.pending.items() if delivery.is_parked):
                self._end_wait(entry_id)
        for entry_id in spent:
            if not self.is_spent(entry_id):
                self._put_last(entry_id)
        if settings.is_ordered and not was_ordered:
            self.arrange(released)
        if not settings.guards:
            for delivery in self.pending.values():
                delivery.holder = None
        self._end_leases(now_ms)
        self._bury_spent(now_ms)

    def end_connections(self, seen_ms: dict[bytes, int]) -> None:
        """The server was started again, with these times at which it has seen consumers."""
        self.presence.begin(seen_ms)
        for delivery in self.pending.values():
            delivery.holder = None

    def end_connection(self, connection: int, now_ms: int) -> None:
        """A connection is closed: what it guarded is idle since its delivery."""
        self.presence.note_close(connection, now_ms)
        for delivery in sorted(self.pending.values(), key=lambda each: each.rank):
            if delivery.holder == connection:
                self._unguard(delivery)

    def put_in_order(self, released: list[int], owned: list[int]) -> None:
        """Let released entries that may be had, and owned ones of equal times, be in this order from now on."""
        for entry_id in [each for each in released if each in self.pending]:
            self._put_last(entry_id)
        for entry_id in [each for each in owned if each in self.pending]:
            self.rank += 1
            self.pending[entry_id].rank = self.rank

    def next_due_ms(self, now_ms: int) -> int | None:
        """When time changes what may be had next."""
        lease_ms = self.settings.lease_max_ms
        times: list[int | None] = []
        for entry_id, delivery in self.pending.items():
            times += [self.idle_again_ms(entry_id), delivery.ready_ms if delivery.consumer is None else None]
            if lease_ms and self.is_guarded(entry_id):
                times.append(delivery.time_ms + lease_ms)
        times += [self._ends_ms(consumer) for consumer in self.consumers]
        return min((each for each in times if each is not None and each > now_ms), default=None)

    def _unguard(self, delivery: PolicyPending) -> None:
        delivery.holder = None
        self.rank += 1
        delivery.rank = self.rank

    # -- consumers ---------------------------------------------------------------------------------

    def recall_met(self) -> None:
        """Let what reads have met be pending, since the server need not have met it."""
        self.pending |= self.met
        self.dropped -= self.met.keys()
        self.met.clear()

    def _use(self, consumer: bytes, now_ms: int) -> None:
        self.consumers.add(consumer)
        self.presence.note_use(consumer, self.connection, now_ms)

    def delete_consumer(self, consumer: bytes, now_ms: int, *, releases: bool) -> int:
        """XGROUP DELCONSUMER, with RELEASE if `releases`. Returns how many entries the consumer had."""
        self.recall_met()
        ordered = self.stream.ordered
        owned = sorted(each for each, delivery in self.pending.items() if delivery.consumer == consumer)
        for entry_id in owned:
            if releases or self.settings.releases_on_deletion:
                self._release(entry_id, self.pending[entry_id].count, now_ms, 0)
            else:
                self.drop(entry_id)
        self.follow_turns([each for each in owned if each not in self.pending and each in ordered])
        self.consumers.discard(consumer)
        self.presence.forget(consumer)
        return len(owned)

    # --------------------------------------------------------------------------------------------

    def _own(
        self, entry_id: int, consumer: bytes, time_ms: int, *, more: bool = True, count: int | None = None
    ) -> None:
        before = self.pending[entry_id]
        holder = self.connection if self.settings.guards else None
        if not more and before.consumer == consumer:
            holder = before.holder
        counted = min(before.count + more, COUNT_MAX) if count is None else count
        self.rank += 1
        self.pending[entry_id] = PolicyPending(consumer, time_ms, counted, rank=self.rank, holder=holder)

    def _make_pending(self, entry_id: int, count: int) -> None:
        super()._make_pending(entry_id, count)
        self.rank += 1
        self.pending[entry_id] = PolicyPending(None, 0, count, rank=self.rank)
