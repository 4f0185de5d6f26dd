"""Where the pending entries of a group are kept: `pending_table` where that was not compiled. Both do the same.

By ID there is a dict to the delivery of each entry, beside a sorted list of IDs to walk from a cursor (`SortedIDs`).
Each consumer has such a list too. Lists may hold IDs that have left; whoever walks them checks against the dict, and a
list that is half stale is rebuilt.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from sys import getsizeof
from typing import Final

from .ids import StreamID

NEVER: Final = -1
STALE_SLACK: Final = 64
"""A list is rebuilt when it is more than half stale and longer than this."""

ID_SIZE: Final = 48
"""Bytes of an entry ID that is kept as a number."""
REFERENCE_SIZE: Final = 8
DELIVERY_SIZE: Final = 96 + 32 + 88
"""A delivery: the object, its time, and its list without the references in it."""
RELEASED_SIZE: Final = 96 + 56 + 32
"""The delivery of all released entries of one count: the object, its empty list, and the count."""
CONSUMER_SIZE: Final = 304
"""A consumer without its name and its entries."""
TABLE_SIZE: Final = 256
"""A table without entries, but for its dicts."""


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
        """Whether a cleaning is worth its time."""
        return len(self.ids) + len(self.late) > 2 * members_count + STALE_SLACK

    def may_hold(self, entry_id: StreamID) -> bool:
        """False if the ID is above all others."""
        return bool(self.ids and entry_id <= self.ids[-1]) or bool(self.late)

    def add(self, new_ids: list[StreamID]) -> None:
        """Add ascending IDs; some may be in the list already."""
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

    @property
    def listed_count(self) -> int:
        """Entries in its list, those that have left among them."""
        return len(self.ids)


class Delivery:
    """Entries handed to one consumer at one time, with one delivery count. Times are Unix ms."""

    __slots__ = ("claimed_count", "consumer", "count", "first", "ids", "remaining", "time_ms")

    def __init__(self, consumer: Consumer | None, time_ms: int, count: int, ids: list[StreamID]) -> None:
        self.consumer = consumer
        """None: these are released entries, all those of one count."""
        self.time_ms = time_ms
        """0 once released."""
        self.count = count
        """Deliveries so far, this one included."""
        self.remaining = len(ids)
        """How many entries are still in this delivery."""
        self.ids = ids
        """Not kept of released entries."""
        self.first = 0
        """`ids` before this index have left."""
        self.claimed_count = 0
        """Entries that were pending before: their IDs are numbers of its own. Of released ones that many at most."""


class PendingSlots:
    """Pending entries to be read, by ID and by delivery."""

    def __init__(self, by_id: dict[StreamID, Delivery], deliveries: list[Delivery]) -> None:
        self._by_id = by_id
        self._deliveries = deliveries

    def __len__(self) -> int:
        return len(self._by_id)

    def walk(self) -> Iterator[tuple[StreamID, Delivery]]:
        """All entries by ID."""
        for entry_id in sorted(self._by_id):
            yield entry_id, self._by_id[entry_id]

    def walk_by_time(self) -> Iterator[tuple[StreamID, Delivery]]:
        """Those of the deliveries that the image was made with, in their order."""
        # They are shared with the living table: nothing may be read off them that changes there.
        by_id = self._by_id
        for delivery in self._deliveries:
            for entry_id in delivery.ids:
                if by_id.get(entry_id) is delivery:
                    yield entry_id, delivery


class PendingTable:
    """Which entries are pending, in which delivery, and how many each consumer has.

    A delivery is a run of entries that were handed out together, or the part of such a run that is kept in one piece.
    """

    __slots__ = (
        "_by_id",
        "_claimed_count",
        "_given_count",
        "_ids",
        "_released_claimed_count",
        "owned_count",
        "released",
        "released_of",
    )

    def __init__(self) -> None:
        self.released: dict[StreamID, Delivery] = {}
        """Entries without owner, in release order."""
        self.released_of: dict[int, Delivery] = {}
        """Their deliveries, by delivery count."""
        self.owned_count = 0
        """Deliveries that have entries, and an owner."""
        self._by_id: dict[StreamID, Delivery] = {}
        self._ids = SortedIDs()
        self._given_count = 0
        """IDs in the lists of all deliveries that have entries, those that have left among them."""
        self._claimed_count = 0
        """Those of them that were pending before."""
        self._released_claimed_count = 0
        """Likewise of the released ones."""

    def __len__(self) -> int:
        return len(self._by_id)

    def __contains__(self, entry_id: StreamID) -> bool:
        return entry_id in self._by_id

    @property
    def listed_count(self) -> int:
        """Entries that are kept, those that have left and not been cleaned up among them."""
        return len(self._ids)

    @property
    def deliveries_count(self) -> int:
        """Deliveries that have entries, those of released ones among them."""
        return self.owned_count + len(self.released_of)

    @property
    def memory_size(self) -> int:
        """Bytes, but for the consumers themselves."""
        listed_count = self.listed_count
        # By ID, by consumer, and in the deliveries; nobody's are in the first alone.
        places_count = 2 * listed_count - len(self.released) + self._given_count
        return (
            TABLE_SIZE
            + getsizeof(self._by_id)
            + getsizeof(self.released)
            + (max(listed_count, self._given_count - self._claimed_count) + self._claimed_count) * ID_SIZE
            + places_count * REFERENCE_SIZE
            + self.owned_count * DELIVERY_SIZE
            + getsizeof(self.released_of)
            + len(self.released_of) * RELEASED_SIZE
            + self._released_claimed_count * ID_SIZE
        )

    # -- changing --------------------------------------------------------------------------------

    def deliver(self, ids: list[StreamID], consumer: Consumer, time_ms: int, count: int) -> list[Delivery]:
        """Give distinct IDs to a consumer, whoever had them before. Answers the deliveries they are in now: the first
        has the first of them, and so on."""
        if not ids:
            return []
        delivery = Delivery(consumer, time_ms, count, ids)
        gained = new = sorted(ids)
        if self._ids.may_hold(gained[0]):
            new = [entry_id for entry_id in gained if entry_id not in self._by_id]
            if len(new) < len(ids):
                gained = self._detach(gained, consumer)
                delivery.claimed_count = len(ids) - len(new)
                self._claimed_count += delivery.claimed_count
        self._by_id.update(dict.fromkeys(ids, delivery))
        self.owned_count += 1
        if gained:
            consumer.pending_count += len(gained)
            consumer.ids.add(gained)
        if new:
            self._ids.add(new)
        self._given_count += len(ids)
        return [delivery]

    def release(self, entry_id: StreamID, count: int) -> None:
        """Take the entry from its owner and put it at the end of the released ones, whether it was pending or not."""
        before = self._by_id.get(entry_id)
        if before is None:
            self._ids.add([entry_id])
        else:
            self._leave(entry_id, before)
        delivery = self.released_of.get(count)
        if delivery is None:
            delivery = self.released_of[count] = Delivery(None, 0, count, [])
        delivery.remaining += 1
        self._by_id[entry_id] = self.released[entry_id] = delivery
        if before is not None:
            delivery.claimed_count += 1
            self._released_claimed_count += 1
        if before is not None and before.consumer is not None:
            self._lose(before.consumer)

    def drop_all(self, ids: Iterable[StreamID]) -> int:
        """Remove entries and answer how many were pending."""
        take = self._by_id.pop
        dropped = 0
        for entry_id in ids:
            delivery = take(entry_id, None)
            if delivery is None:
                continue
            dropped += 1
            self._leave(entry_id, delivery)
            if delivery.consumer is not None:
                self._lose(delivery.consumer)
        if dropped and self._ids.is_mostly_stale(len(self._by_id)):
            self._ids.clean(self._by_id.__contains__)
        return dropped

    def _detach(self, ids: list[StreamID], heir: Consumer) -> list[StreamID]:
        """Take those of the entries that are pending out of their deliveries; the caller puts them into one of `heir`.
        Answers those that the heir did not own: its own stay in its list."""
        gained: list[StreamID] = []
        for entry_id in ids:
            delivery = self._by_id.get(entry_id)
            if delivery is not None:
                self._leave(entry_id, delivery)
                if delivery.consumer is heir:
                    continue
                if delivery.consumer is not None:
                    self._lose(delivery.consumer)
            gained.append(entry_id)
        return gained

    def _leave(self, entry_id: StreamID, delivery: Delivery) -> None:
        """Take an entry out of its delivery."""
        delivery.remaining -= 1
        if delivery.consumer is None:
            del self.released[entry_id]
            if delivery.claimed_count > delivery.remaining:
                delivery.claimed_count -= 1
                self._released_claimed_count -= 1
            if not delivery.remaining:
                del self.released_of[delivery.count]
        elif not delivery.remaining:
            self.owned_count -= 1
            self._given_count -= len(delivery.ids)
            self._claimed_count -= delivery.claimed_count

    def _lose(self, consumer: Consumer) -> None:
        """A consumer has one entry less; its list is cleaned if that was much."""
        consumer.pending_count -= 1
        if consumer.ids.is_mostly_stale(consumer.pending_count):
            consumer.ids.clean(self._owned_by(consumer))

    # -- reading ---------------------------------------------------------------------------------

    def get(self, entry_id: StreamID) -> Delivery | None:
        """The delivery that the entry is in, None if it is not pending."""
        return self._by_id.get(entry_id)

    def walk(self, start: StreamID = 0, consumer: Consumer | None = None) -> Iterator[tuple[StreamID, Delivery]]:
        """Entries by ID from `start` on, all or a consumer's. They may leave during the walk, none may enter."""
        by_id = self._by_id
        if consumer is None:
            ids = self._ids.walk(start, by_id.__contains__)
        else:
            ids = consumer.ids.walk(start, self._owned_by(consumer))
        for entry_id in ids:
            yield entry_id, by_id[entry_id]

    def take(self, start: StreamID, count: int, consumer: Consumer | None = None) -> list[StreamID]:
        """The first `count` IDs from `start` on, of all or of a consumer's."""
        if consumer is None:
            return self._ids.take(start, count, self._by_id.__contains__, len(self._by_id))
        return consumer.ids.take(start, count, self._owned_by(consumer), consumer.pending_count)

    def stretch(self, start: StreamID, count: int) -> tuple[StreamID, StreamID, StreamID] | None:
        """The first and the last of the first `count` IDs from `start` on, and the ID behind them, 0 if there is none;
        None if there is no ID from there on."""
        ids = self.take(start, min(count, len(self._by_id)) + 1)
        behind = ids.pop() if len(ids) > count else 0
        return (ids[0], ids[-1], behind) if ids else None

    def last_id(self) -> StreamID:
        """The largest ID. Raises IndexError if there is none."""
        return self._ids.last(self._by_id.__contains__)

    def members(self, delivery: Delivery) -> Iterator[StreamID]:
        """Entries of a delivery, in the order in which they were delivered. Nothing may change meanwhile."""
        by_id, ids = self._by_id, delivery.ids
        while delivery.first < len(ids) and by_id.get(ids[delivery.first]) is not delivery:
            delivery.first += 1
        for position in range(delivery.first, len(ids)):
            if by_id.get(ids[position]) is delivery:
                yield ids[position]

    def image(self, deliveries: list[Delivery]) -> PendingSlots:
        """The entries as they are now, to be read while they go on changing, and these deliveries' in their order."""
        return PendingSlots(self._by_id.copy(), deliveries)

    def _owned_by(self, consumer: Consumer) -> Callable[[StreamID], bool]:
        by_id = self._by_id

        def is_owned(entry_id: StreamID) -> bool:
            delivery = by_id.get(entry_id)
            return delivery is not None and delivery.consumer is consumer

        return is_owned

    # -- whole -----------------------------------------------------------------------------------

    def disown(self, consumers: Iterable[Consumer]) -> None:
        """Let the consumers forget what they own: the table is about to go."""
        for consumer in consumers:
            consumer.ids = SortedIDs()
            consumer.pending_count = 0

    def give_back(self, count: int) -> None:
        """Free the memory of so many entries, or of all. From the first call on the table is of no other use."""
        self._ids.late.clear()
        del self._ids.ids[-count:]
        for _ in range(min(count, len(self._by_id))):
            self._by_id.popitem()

    def check(self, consumers: dict[bytes, Consumer]) -> None:
        """Assert that everything agrees."""
        by_id = sorted(self._by_id)
        assert [entry_id for entry_id, _ in self.walk()] == by_id
        owned = 0
        for consumer in consumers.values():
            ids = [entry_id for entry_id, _ in self.walk(0, consumer)]
            assert len(ids) == consumer.pending_count
            assert ids == [i for i in by_id if self._by_id[i].consumer is consumer]
            owned += len(ids)
        assert owned + len(self.released) == len(by_id)
        assert all(self._by_id[entry_id] is delivery for entry_id, delivery in self.released.items())
        deliveries = set(self._by_id.values())
        assert len(deliveries) == self.deliveries_count
        assert set(self.released.values()) == set(self.released_of.values())
        assert self._released_claimed_count == sum(each.claimed_count for each in self.released_of.values())
        assert self._given_count == sum(len(each.ids) for each in deliveries)
        assert self._claimed_count == sum(each.claimed_count for each in deliveries if each.consumer is not None)
        for each in deliveries:
            assert each.consumer is None or len(list(self.members(each))) == each.remaining
