"""The table of the pending entries of a group: `pending_table` for installations without a C compiler. Both behave
alike.

A dict has the delivery of each entry by ID, and a sorted list has the IDs, to walk from a cursor (`SortedIDs`). Each
consumer has such a list too. A list may hold IDs that have left: a walk checks each against the dict, and a list that
is more than half stale is rebuilt.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby, islice
from sys import getsizeof
from typing import Final

from .ids import SEQ_BITS, SEQ_MASK, StreamID, bulk_ids
from .object_sizes import ID_SIZE, REFERENCE_SIZE
from .sorted_ids import SortedIDs

NEVER: Final = -1
# Idle time that a listing has for a released entry.
NOT_OWNED_IDLE_MS: Final = -1

# A delivery: the object, its time, and its list without the references in it.
DELIVERY_SIZE: Final = 96 + 32 + 88
# The delivery of all released entries of one count: the object, its empty list, and the count.
RELEASED_SIZE: Final = 96 + 56 + 32
# A consumer without its name and its entries.
CONSUMER_SIZE: Final = 304
# A table without entries and without its dicts.
TABLE_SIZE: Final = 368
# Pending entries of a block, at most, and the bytes of each. A block is for streams of a few entries.
BLOCK_COUNT_MAX: Final = 64
ROW_SIZE: Final = 40


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
        """Number of entries in the consumer's list, including those that have left."""
        return len(self.ids)


class Delivery:
    """Entries handed to one consumer at one time, with one delivery count. Times are Unix ms."""

    __slots__ = ("claimed_count", "consumer", "count", "first", "ids", "remaining", "time_ms")

    def __init__(self, consumer: Consumer | None, time_ms: int, count: int, ids: list[StreamID]) -> None:
        # The owner. None for released entries: one delivery has all those of one count.
        self.consumer = consumer
        # Delivery time; 0 for released entries.
        self.time_ms = time_ms
        # Delivery count, including this delivery.
        self.count = count
        # Number of entries still in this delivery.
        self.remaining = len(ids)
        # The delivered IDs. Empty for released entries.
        self.ids = ids
        # The entries of all `ids` before this index have left.
        self.first = 0
        # Number of entries that were pending before: their IDs are separate Python numbers. For released entries an
        # upper limit.
        self.claimed_count = 0


def idle_states(consumers: list[Consumer], now_ms: int) -> list[tuple[bytes, int, int, int]]:
    """For each consumer, its name, its number of pending entries, and the ms since it was last seen and last active
    (-1: never).
    """
    return [
        (
            each.name,
            each.pending_count,
            max(now_ms - each.seen_ms, 0),
            NEVER if each.active_ms == NEVER else max(now_ms - each.active_ms, 0),
        )
        for each in consumers
    ]


def _owner(delivery: Delivery) -> bytes:
    return b"" if delivery.consumer is None else delivery.consumer.name


def _array(*parts: bytes) -> bytes:
    return b"*%d\r\n%b" % (len(parts), b"".join(parts))


def _bulk(text: bytes) -> bytes:
    return b"$%d\r\n%b\r\n" % (len(text), text)


def _integer(number: int) -> bytes:
    return b":%d\r\n" % number


class PendingSlots:
    """Pending entries that can be read by ID and by delivery."""

    def __init__(self, by_id: dict[StreamID, Delivery], deliveries: list[Delivery]) -> None:
        self._by_id = by_id
        self._deliveries = deliveries

    def __len__(self) -> int:
        return len(self._by_id)

    def walk(self) -> Iterator[tuple[StreamID, Delivery]]:
        """Yield all entries by ID."""
        for entry_id in sorted(self._by_id):
            yield entry_id, self._by_id[entry_id]

    def walk_by_time(self) -> Iterator[tuple[StreamID, Delivery]]:
        """Yield the entries of the image's deliveries, in the order of those deliveries."""
        # The deliveries are shared with the table: fields that change there must not be read.
        by_id = self._by_id
        for delivery in self._deliveries:
            for entry_id in delivery.ids:
                if by_id.get(entry_id) is delivery:
                    yield entry_id, delivery

    def columns(self, owners: dict[bytes, int], count: int) -> Iterator[tuple[array[int], ...]]:
        """Yield all entries by ID, up to `count` at a time, as columns.

        These are the halves of the IDs, delivery times in Unix ms, delivery counts, and the numbers that `owners` has
        for the names of the owners, -1 for released entries.
        """
        pairs = self.walk()
        while page := list(islice(pairs, count)):
            deliveries = [delivery for _, delivery in page]
            names = [None if each.consumer is None else each.consumer.name for each in deliveries]
            yield (
                array("Q", [entry_id >> SEQ_BITS for entry_id, _ in page]),
                array("Q", [entry_id & SEQ_MASK for entry_id, _ in page]),
                array("q", [each.time_ms for each in deliveries]),
                array("q", [each.count for each in deliveries]),
                array("q", [-1 if name is None else owners[name] for name in names]),
            )


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
        # Entries without owner, in release order.
        self.released: dict[StreamID, Delivery] = {}
        # Deliveries of released entries, by delivery count.
        self.released_of: dict[int, Delivery] = {}
        # Number of deliveries that have entries and an owner.
        self.owned_count = 0
        self._by_id: dict[StreamID, Delivery] = {}
        self._ids = SortedIDs()
        # Number of IDs in the lists of all deliveries that have entries, including IDs that have left.
        self._given_count = 0
        # Number of IDs in `_given_count` that were pending before their delivery.
        self._claimed_count = 0
        # Number of released entries that were pending before.
        self._released_claimed_count = 0

    def __len__(self) -> int:
        return len(self._by_id)

    def __contains__(self, entry_id: StreamID) -> bool:
        return entry_id in self._by_id

    @property
    def listed_count(self) -> int:
        """Number of stored entries, including those that have left and are not cleaned up yet."""
        return len(self._ids)

    @property
    def deliveries_count(self) -> int:
        """Number of deliveries that have entries, including those of released entries."""
        return self.owned_count + len(self.released_of)

    @property
    def memory_size(self) -> int:
        """Bytes of the table, without the consumers."""
        listed_count = self.listed_count
        # IDs are stored by ID, by consumer, and in the deliveries. Those of released entries are only stored by ID.
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
        """Give distinct IDs to a consumer; previous owners lose them. Returns their deliveries, in the order of the
        IDs."""
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

    def block(self, consumers: list[Consumer]) -> bytes:
        """A copy of all entries, of which none is released: as columns of numbers of 8 bytes, end to end, the halves of
        the IDs, in their order, delivery times in Unix ms, delivery counts, and the places of the owners in
        `consumers`. Raises ValueError for more entries than BLOCK_COUNT_MAX, or another owner."""
        if len(self) > BLOCK_COUNT_MAX:
            raise ValueError("more pending entries than a block has")
        numbers = {consumer: number for number, consumer in enumerate(consumers)}
        rows = []
        for entry_id, delivery in self.walk():
            if delivery.consumer not in numbers:
                raise ValueError("a pending entry of no consumer of the list")
            owner = numbers[delivery.consumer]
            rows.append((entry_id >> SEQ_BITS, entry_id & SEQ_MASK, delivery.time_ms, delivery.count, owner))
        columns = zip(*rows, strict=True)
        return b"".join(array(typecode, column).tobytes() for typecode, column in zip("QQqqq", columns, strict=False))

    def take_columns(
        self,
        ms: array[int],
        seq: array[int],
        times: array[int],
        counts: array[int],
        owners: array[int],
        consumers: list[Consumer],
    ) -> list[Delivery]:
        """Give entries that are not pending, above all that are, to the consumers whose numbers `owners` has. Rows with
        the number -1 are left out: see `PendingSlots.columns`. Returns the deliveries, in the order of the IDs. Raises
        ValueError, after which the table must not be used.
        """
        deliveries: list[Delivery] = []
        before = max(self._by_id, default=-1)
        rows = zip(ms, seq, times, counts, owners, strict=True)
        for (owner, time_ms, count), group in groupby(rows, key=lambda row: (row[4], row[2], row[3])):
            if not -1 <= owner < len(consumers):
                raise ValueError("no such consumer")
            ids = [row[0] << SEQ_BITS | row[1] for row in group] if owner >= 0 else []
            for entry_id in ids:
                if entry_id <= before:
                    raise ValueError("pending IDs that do not ascend")
                before = entry_id
            if owner >= 0:
                deliveries += self.deliver(ids, consumers[owner], time_ms, count)
        return deliveries

    def take_block(self, block: bytes, consumers: list[Consumer]) -> list[Delivery]:
        """Give entries that are not pending, above all that are, to consumers: see `block`. Returns and
        raises what `take_columns` does."""
        count = len(block) // ROW_SIZE
        if len(block) % ROW_SIZE or count > BLOCK_COUNT_MAX:
            raise ValueError("a block that is cut off")
        ms, seq = array("Q", block[: 8 * count]), array("Q", block[8 * count : 16 * count])
        times, counts, owners = (array("q", block[8 * start * count : 8 * (start + 1) * count]) for start in (2, 3, 4))
        if min(owners, default=0) < 0:
            raise ValueError("no such consumer")
        return self.take_columns(ms, seq, times, counts, owners, consumers)

    def release(self, entry_id: StreamID, count: int) -> None:
        """Take an entry from its owner and append it to the released ones. It need not be pending."""
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
        """Remove entries. Returns how many were pending."""
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
        """Take pending entries out of their deliveries, so that the caller can deliver them to `heir`.

        Returns the IDs that `heir` did not own. IDs that it owned stay in its list.
        """
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
        """Count one entry less for a consumer, and clean its list if it is mostly stale."""
        consumer.pending_count -= 1
        if consumer.ids.is_mostly_stale(consumer.pending_count):
            consumer.ids.clean(self._owned_by(consumer))

    # -- reading ---------------------------------------------------------------------------------

    def get(self, entry_id: StreamID) -> Delivery | None:
        """The delivery that the entry is in, None if it is not pending."""
        return self._by_id.get(entry_id)

    def walk(self, start: StreamID = 0, consumer: Consumer | None = None) -> Iterator[tuple[StreamID, Delivery]]:
        """Yield entries by ID from `start` on, all or a consumer's. Entries may be removed during the walk, but not
        added."""
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
        """The first and the last of the first `count` IDs from `start` on, and the ID that follows them, 0 if there is
        none. None if there is no ID from `start` on."""
        ids = self.take(start, min(count, len(self._by_id)) + 1)
        behind = ids.pop() if len(ids) > count else 0
        return (ids[0], ids[-1], behind) if ids else None

    def list_times(self, count: int, consumer: Consumer | None = None) -> tuple[int, bytes]:
        """List the first `count` entries. Returns how many there are, and as parts of a reply, end to end, an array of
        ID, owner, delivery time and delivery count for each; of a consumer's entries without the owner."""
        rows = []
        for entry_id, delivery in islice(self.walk(0, consumer), count):
            owner = () if consumer is not None else (_bulk(_owner(delivery)),)
            rows.append(_array(bulk_ids([entry_id]), *owner, _integer(delivery.time_ms), _integer(delivery.count)))
        return len(rows), b"".join(rows)

    def list_consumers(
        self, consumers: list[Consumer], count: int
    ) -> list[tuple[bytes, int, int, int, tuple[bytes, ...]]]:
        """For each consumer, its name, when it was last seen and last active (-1: never), its number of entries, and as
        parts of a reply an array of its first `count` entries."""
        rows: list[tuple[bytes, int, int, int, tuple[bytes, ...]]] = []
        for each in consumers:
            taken, text = self.list_times(count, each)
            rows.append((each.name, each.seen_ms, each.active_ms, each.pending_count, (b"*%d\r\n" % taken, text)))
        return rows

    def summary(self, consumers: list[Consumer]) -> bytes:
        """A reply: the number of entries, the smallest and the largest ID, and name and number of entries of each of
        these consumers that has any. Raises IndexError if there are no entries."""
        owning = [each for each in consumers if each.pending_count]
        owners = [_array(_bulk(each.name), _bulk(b"%d" % each.pending_count)) for each in owning]
        ends = bulk_ids([*self.take(0, 1), self.last_id()])
        return b"*4\r\n:%d\r\n%b*%d\r\n%b" % (len(self), ends, len(owners), b"".join(owners))

    def list_idle(
        self,
        start: StreamID,
        end: StreamID,
        count: int,
        now_ms: int,
        idle_ms_min: int,
        consumer: Consumer | None = None,
    ) -> tuple[int, bytes]:
        """List the first `count` entries from `start` to `end`, both included, of all or of a consumer's, that are
        released or have been idle for `idle_ms_min`. Returns how many there are, and as parts of a reply, end to end,
        an array of ID, owner, idle time and delivery count for each."""
        rows: list[bytes] = []
        for entry_id, delivery in self.walk(start, consumer):
            if len(rows) == count or entry_id > end:
                break
            idle_ms = NOT_OWNED_IDLE_MS if delivery.consumer is None else max(now_ms - delivery.time_ms, 0)
            if delivery.consumer is None or idle_ms >= idle_ms_min:
                parts = bulk_ids([entry_id]), _bulk(_owner(delivery)), _integer(idle_ms), _integer(delivery.count)
                rows.append(_array(*parts))
        return len(rows), b"".join(rows)

    def last_id(self) -> StreamID:
        """The largest ID. Raises IndexError if there is none."""
        return self._ids.last(self._by_id.__contains__)

    def members(self, delivery: Delivery) -> Iterator[StreamID]:
        """Yield the IDs of a delivery, in the order of delivery. The table must not change meanwhile."""
        by_id, ids = self._by_id, delivery.ids
        while delivery.first < len(ids) and by_id.get(ids[delivery.first]) is not delivery:
            delivery.first += 1
        for position in range(delivery.first, len(ids)):
            if by_id.get(ids[position]) is delivery:
                yield ids[position]

    def image(self, deliveries: list[Delivery]) -> PendingSlots:
        """Return the entries as they are now, to be read while the table changes. `deliveries` gives the order of
        `walk_by_time`."""
        return PendingSlots(self._by_id.copy(), deliveries)

    def _owned_by(self, consumer: Consumer) -> Callable[[StreamID], bool]:
        by_id = self._by_id

        def is_owned(entry_id: StreamID) -> bool:
            delivery = by_id.get(entry_id)
            return delivery is not None and delivery.consumer is consumer

        return is_owned

    # -- whole -----------------------------------------------------------------------------------

    def disown(self, consumers: Iterable[Consumer]) -> None:
        """Remove all entries from the consumers, before the table is freed."""
        for consumer in consumers:
            consumer.ids = SortedIDs()
            consumer.pending_count = 0

    def give_back(self, count: int) -> None:
        """Free the memory of `count` entries, or of all if there are fewer. After the first call the table can only be
        freed."""
        self._ids.late.clear()
        del self._ids.ids[-count:]
        for _ in range(min(count, len(self._by_id))):
            self._by_id.popitem()

    def check(self, consumers: dict[bytes, Consumer]) -> None:
        """Assert that all counts and lists agree."""
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
