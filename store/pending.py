"""The pending entries of one consumer group.

Deliveries come in runs: one XREADGROUP hands out many entries to one consumer, at one time, with count 1. A run is one
`Delivery`, shared by all its entries until each leaves it (acknowledged, claimed, released, ...). Three views exist:

- by ID: a dict from entry ID to its delivery, beside a sorted list of IDs to walk from a cursor (`SortedIDs`);
- by consumer: a sorted list of IDs each;
- by time: the deliveries, oldest first, behind the FIFO of released entries, which nobody owns.

`PendingEntries` keeps them in step: `deliver`, `release` and `drop` are the only ways in and out. Lists may hold IDs
that have left; whoever walks them checks against the dict, and a list that is half stale is rebuilt.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from typing import Any, Final

from .ids import StreamID

DELIVERY_COUNT_MAX: Final = 2**63 - 1
"""What XNACK FATAL sets; counts saturate here."""
NEVER: Final = -1
STALE_SLACK: Final = 64
"""A list is rebuilt when it is more than half stale and longer than this."""


class Delivery:
    """Entries handed to one consumer at one time, with one delivery count. Times are Unix ms."""

    __slots__ = ("consumer", "count", "ids", "offset", "remaining", "time_ms")

    def __init__(self, consumer: Consumer | None, time_ms: int, count: int, ids: list[StreamID]) -> None:
        self.consumer = consumer
        """None once XNACK has released the entry."""
        self.time_ms = time_ms
        """0 once released."""
        self.count = count
        """Deliveries so far, this one included."""
        self.ids = ids
        self.remaining = len(ids)
        """How many of `ids` are still in this delivery."""
        self.offset = 0
        """`ids` before this index have left."""


class SortedIDs:
    """A sorted list of IDs to walk from a cursor. IDs that have left stay until a cleaning.

    IDs that come out of order, as claimed ones do, are put in their places when somebody reads: a claim among a
    million costs what one among a thousand does.
    """

    __slots__ = ("_start", "ids", "late")

    def __init__(self) -> None:
        self.ids: list[StreamID] = []
        """Ascending."""
        self.late: list[StreamID] = []
        """Those that belong somewhere among the others."""
        self._start = 0
        """No member stands before this index."""

    def __len__(self) -> int:
        """How many are kept, those that have left among them."""
        return len(self.ids) + len(self.late)

    def is_mostly_stale(self, members_count: int) -> bool:
        """Whether a cleaning is worth its time. Hot: see the benchmark row XACK."""
        return len(self.ids) + len(self.late) > 2 * members_count + STALE_SLACK

    def may_hold(self, entry_id: StreamID) -> bool:
        """False if the ID is above all others."""
        return bool(self.ids and entry_id <= self.ids[-1]) or bool(self.late)

    def add(self, new_ids: list[StreamID]) -> None:
        """Add ascending IDs; some may be in the list already. Hot: see the benchmark rows XREADGROUP, XCLAIM."""
        if not self.ids or new_ids[0] > self.ids[-1]:
            self.ids += new_ids
        else:
            self.late += new_ids

    def _sorted(self) -> list[StreamID]:
        """The list, with every ID in its place."""
        if self.late:
            ids = self.ids
            late: list[StreamID] = []
            for entry_id in sorted(set(self.late)):
                index = bisect_left(ids, entry_id)
                if index == len(ids) or ids[index] != entry_id:
                    late.append(entry_id)
                self._start = min(self._start, index)
            self.late = []
            ids += late
            ids.sort()  # two ascending runs, which it merges
        return self.ids

    def walk(self, start: StreamID, is_member: Callable[[StreamID], bool]) -> Iterator[StreamID]:
        """The IDs from `start` on. Members may leave during the walk, none may enter."""
        ids = self._sorted()
        for position in range(max(self._first(is_member), bisect_left(ids, start)), len(ids)):
            if is_member(ids[position]):
                yield ids[position]

    def take(
        self, start: StreamID, count: int, is_member: Callable[[StreamID], bool], members_count: int
    ) -> list[StreamID]:
        """The first `count` IDs from `start` on."""
        ids = self._sorted()
        index = max(self._first(is_member), bisect_left(ids, start))
        if len(ids) == members_count:
            return ids[index : index + count]
        found: list[StreamID] = []
        while len(found) < count and index < len(ids):
            found += filter(is_member, ids[index : index + count])
            index += count
        return found[:count]

    def _first(self, is_member: Callable[[StreamID], bool]) -> int:
        """Index of the first member."""
        ids, index = self.ids, self._start
        while index < len(ids) and not is_member(ids[index]):
            index += 1
        self._start = index
        return index

    def last(self, is_member: Callable[[StreamID], bool]) -> StreamID:
        """The largest ID; there is one."""
        ids = self._sorted()
        while not is_member(ids[-1]):
            ids.pop()
        return ids[-1]

    def clean(self, is_member: Callable[[StreamID], bool]) -> None:
        """Forget the IDs that have left."""
        self.ids = list(filter(is_member, self._sorted()))
        self._start = 0


class Consumer:
    """A named member of a group. `seen_ms` and `active_ms` are Unix ms; -1 means never."""

    __slots__ = ("active_ms", "ids", "name", "pending_count", "seen_ms")

    def __init__(self, name: bytes, seen_ms: int) -> None:
        self.name = name
        self.seen_ms = seen_ms
        self.active_ms = NEVER
        self.ids = SortedIDs()
        self.pending_count = 0


class PendingEntries:
    """A group's pending entries list (PEL)."""

    __slots__ = ("_ids", "_runs", "_runs_head", "by_id", "delivered_count", "released")

    def __init__(self) -> None:
        self.by_id: dict[StreamID, Delivery] = {}
        self.released: dict[StreamID, Delivery] = {}
        """Entries without owner, in release order."""
        self._ids = SortedIDs()
        self._runs: list[Delivery] = []
        """Owned deliveries by time; equal times in the order they came."""
        self._runs_head = 0
        self.delivered_count = 0
        """IDs that owned deliveries keep, those that have left among them."""

    def __len__(self) -> int:
        return len(self.by_id)

    def __contains__(self, entry_id: StreamID) -> bool:
        return entry_id in self.by_id

    @property
    def listed_count(self) -> int:
        """IDs that are kept, those that have left and not been cleaned up among them."""
        return len(self._ids)

    @property
    def deliveries_count(self) -> int:
        """Deliveries that are kept, in the same sense."""
        return len(self._runs) + len(self.released)

    # -- changing --------------------------------------------------------------------------------

    def deliver(self, ids: list[StreamID], consumer: Consumer, *, time_ms: int, count: int) -> None:
        """Give distinct IDs to a consumer, whoever had them before; their order is kept in the order by time.

        Hot: see the benchmark row XREADGROUP.
        """
        by_id = self.by_id
        delivery = Delivery(consumer, time_ms, count, ids)
        gained = new = sorted(ids)
        if self._ids.may_hold(gained[0]):
            new = [entry_id for entry_id in gained if entry_id not in by_id]
            if len(new) < len(ids):
                gained = self._detach(gained, consumer)
        by_id.update(dict.fromkeys(ids, delivery))
        if gained:
            consumer.pending_count += len(gained)
            consumer.ids.add(gained)
        if new:
            self._ids.add(new)
        self._place(delivery)

    def release(self, entry_id: StreamID, *, count: int) -> None:
        """Take the entry from its owner (XNACK) and put it at the end of the released ones; FORCE also makes one."""
        before = self.by_id.get(entry_id)
        if before is None:
            self._ids.add([entry_id])
        else:
            self._leave(entry_id, before)
        self.by_id[entry_id] = self.released[entry_id] = Delivery(None, 0, count, [entry_id])

    def drop(self, entry_id: StreamID) -> bool:
        """Remove one entry (acknowledged or gone); False if it was not pending."""
        return self.drop_all((entry_id,)) == 1

    def drop_all(self, ids: Iterable[StreamID]) -> int:
        """Remove entries and answer how many were pending. Hot: see the benchmark rows XACK."""
        take = self.by_id.pop
        dropped = 0
        for entry_id in ids:
            delivery = take(entry_id, None)
            if delivery is None:
                continue
            dropped += 1
            delivery.remaining -= 1
            consumer = delivery.consumer
            if consumer is None:
                del self.released[entry_id]
            else:
                consumer.pending_count -= 1
        if dropped and self._ids.is_mostly_stale(len(self.by_id)):
            self._clean()
        return dropped

    def drop_consumer(self, consumer: Consumer) -> int:
        """Remove all that a consumer owns and answer how many."""
        return self.drop_all(list(self.owned_ids(consumer, 0)))

    def _detach(self, ids: list[StreamID], heir: Consumer) -> list[StreamID]:
        """Take those of the entries that are pending out of their deliveries; the caller puts them into one of `heir`.
        Answers those that the heir did not own: its own stay in its list (benchmark row XAUTOCLAIM)."""
        by_id = self.by_id
        gained: list[StreamID] = []
        for entry_id in ids:
            delivery = by_id.get(entry_id)
            if delivery is None:
                gained.append(entry_id)
            elif delivery.consumer is heir:
                delivery.remaining -= 1
            else:
                self._leave(entry_id, delivery)
                gained.append(entry_id)
        return gained

    def _leave(self, entry_id: StreamID, delivery: Delivery) -> None:
        """Take an entry out of its delivery and off its owner; it goes on being pending."""
        delivery.remaining -= 1
        consumer = delivery.consumer
        if consumer is None:
            del self.released[entry_id]
            return
        consumer.pending_count -= 1
        if consumer.ids.is_mostly_stale(consumer.pending_count):
            consumer.ids.clean(self._owned_by(consumer))

    def _place(self, delivery: Delivery) -> None:
        """Put a delivery where its time says, after those of equal time."""
        runs = self._runs
        self.delivered_count += len(delivery.ids)
        if not runs or runs[-1].time_ms <= delivery.time_ms:
            runs.append(delivery)
        else:
            index = bisect_right(runs, delivery.time_ms, key=attrgetter("time_ms"))
            runs.insert(index, delivery)
            self._runs_head = min(self._runs_head, index)
        if len(runs) > 2 * len(self.by_id) + STALE_SLACK:
            self._clean_runs()

    def _clean(self) -> None:
        self._ids.clean(self.by_id.__contains__)
        consumers = {id(run.consumer): run.consumer for run in self._runs if run.consumer is not None}
        for consumer in consumers.values():
            if consumer.ids.is_mostly_stale(consumer.pending_count):
                consumer.ids.clean(self._owned_by(consumer))
        self._clean_runs()

    def _clean_runs(self) -> None:
        self._runs = [run for run in self._runs if run.remaining]
        self._runs_head = 0
        self.delivered_count = sum(len(run.ids) for run in self._runs)

    # -- reading ---------------------------------------------------------------------------------

    def walk(self, start: StreamID = 0) -> Iterator[tuple[StreamID, Delivery]]:
        """All pending entries by ID from `start` on. Entries may leave during the walk, none may enter."""
        by_id = self.by_id
        for entry_id in self._ids.walk(start, by_id.__contains__):
            yield entry_id, by_id[entry_id]

    def first_ids(self, start: StreamID, count: int) -> list[StreamID]:
        """The first `count` IDs from `start` on. Hot: see the benchmark row XAUTOCLAIM."""
        return self._ids.take(start, count, self.by_id.__contains__, len(self.by_id))

    def walk_owned(self, consumer: Consumer, start: StreamID = 0) -> Iterator[tuple[StreamID, Delivery]]:
        """A consumer's pending entries by ID from `start` on."""
        for entry_id in self.owned_ids(consumer, start):
            yield entry_id, self.by_id[entry_id]

    def owned_ids(self, consumer: Consumer, start: StreamID) -> Iterator[StreamID]:
        """IDs of a consumer's pending entries from `start` on."""
        return consumer.ids.walk(start, self._owned_by(consumer))

    def walk_by_time(self) -> Iterator[tuple[StreamID, Delivery]]:
        """Released entries in release order, then owned ones, oldest delivery first. Nothing may change meanwhile."""
        yield from self.released.items()
        by_id = self.by_id
        for run in self._live_runs():
            ids = run.ids
            while run.offset < len(ids) and by_id.get(ids[run.offset]) is not run:
                run.offset += 1
            for position in range(run.offset, len(ids)):
                if by_id.get(ids[position]) is run:
                    yield ids[position], run

    def oldest_time_ms(self) -> int | None:
        """Delivery time of the entry that has been pending longest with an owner, None if there is none."""
        return next((run.time_ms for run in self._live_runs()), None)

    def first_id(self) -> StreamID:
        """Smallest pending ID; there is one."""
        return next(self._ids.walk(0, self.by_id.__contains__))

    def last_id(self) -> StreamID:
        """Largest pending ID; there is one."""
        return self._ids.last(self.by_id.__contains__)

    def copy(self, consumers: dict[bytes, Consumer]) -> PendingEntries:
        """An independent list whose deliveries name the consumers of the same name in `consumers`."""
        twin = PendingEntries()
        for entry_id, delivery in self.walk_by_time():
            if delivery.consumer is None:
                twin.release(entry_id, count=delivery.count)
            else:
                consumer = consumers[delivery.consumer.name]
                twin.deliver([entry_id], consumer, time_ms=delivery.time_ms, count=delivery.count)
        return twin

    def image(self) -> PendingImage:
        """The list as it is now, to be read while it goes on changing. Costs three copies of references."""
        return PendingImage(self.by_id.copy(), self.released.copy(), self._runs[self._runs_head :])

    def dismantle(self) -> list[dict[StreamID, Delivery] | list[Any]]:
        """The tables and lists it is made of, the largest last; the list of a group that is gone is empty then."""
        consumers = {id(run.consumer): run.consumer for run in self._runs if run.consumer is not None}
        parts: list[dict[StreamID, Delivery] | list[Any]] = [
            self._runs,
            self._ids.ids,
            *(each.ids.ids for each in consumers.values()),
            self.released,
            self.by_id,
        ]
        self._runs, self._ids, self.released, self.by_id, self.delivered_count = [], SortedIDs(), {}, {}, 0
        for consumer in consumers.values():
            consumer.ids = SortedIDs()
        return parts

    def _live_runs(self) -> Iterator[Delivery]:
        runs = self._runs
        while self._runs_head < len(runs) and not runs[self._runs_head].remaining:
            self._runs_head += 1
        for index in range(self._runs_head, len(runs)):
            if runs[index].remaining:
                yield runs[index]

    def _owned_by(self, consumer: Consumer) -> Callable[[StreamID], bool]:
        by_id = self.by_id

        def is_owned(entry_id: StreamID) -> bool:
            delivery = by_id.get(entry_id)
            return delivery is not None and delivery.consumer is consumer

        return is_owned

    def check(self, consumers: dict[bytes, Consumer]) -> None:
        """Assert that all views agree."""
        by_id = sorted(self.by_id)
        assert [entry_id for entry_id, _ in self.walk()] == by_id
        assert sorted(entry_id for entry_id, _ in self.walk_by_time()) == by_id
        owned = 0
        for consumer in consumers.values():
            ids = list(self.owned_ids(consumer, 0))
            assert len(ids) == consumer.pending_count
            assert ids == [i for i in by_id if self.by_id[i].consumer is consumer]
            owned += len(ids)
        assert owned + len(self.released) == len(by_id)
        times = [run.time_ms for run in self._runs]
        assert times == sorted(times)
        assert self.delivered_count == sum(len(run.ids) for run in self._runs)


class PendingImage:
    """A group's pending entries as they were at one moment.

    Deliveries are shared with the living list, so nothing may be read off them that changes there: which entries a
    delivery still has is asked of `by_id`.
    """

    __slots__ = ("_runs", "by_id", "released")

    def __init__(
        self, by_id: dict[StreamID, Delivery], released: dict[StreamID, Delivery], runs: list[Delivery]
    ) -> None:
        self.by_id = by_id
        self.released = released
        """Entries without owner, in release order."""
        self._runs = runs

    def __len__(self) -> int:
        return len(self.by_id)

    def walk(self) -> Iterator[tuple[StreamID, Delivery]]:
        """All pending entries by ID."""
        for entry_id in sorted(self.by_id):
            yield entry_id, self.by_id[entry_id]

    def walk_by_time(self) -> Iterator[tuple[StreamID, Delivery]]:
        """Released entries in release order, then owned ones, oldest delivery first."""
        yield from self.released.items()
        by_id = self.by_id
        for run in self._runs:
            for entry_id in run.ids:
                if by_id.get(entry_id) is run:
                    yield entry_id, run
