"""The pending entries of one consumer group.

Deliveries come in runs: one XREADGROUP hands out many entries to one consumer, at one time, with count 1. A run is one
`Delivery`, shared by all its entries until each leaves it (acknowledged, claimed, released, ...). Three views exist:

- by ID and
- by consumer, which a table keeps in C: an entry costs some 32 bytes there (`pending_table`, or `pending_table_plain`);
- by time: the deliveries, oldest first, after the FIFO of released entries, which have no owner.

`PendingEntries` keeps the views consistent: only `deliver`, `release` and the `drop` methods add and remove entries.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from typing import Final

from .class_marks import mypyc_attr
from .ids import StreamID
from .pending_parts import (
    BLOCK_COUNT_MAX,
    CONSUMER_SIZE,
    DELIVERY_COUNT_MAX,
    DELIVERY_SIZE,
    NEVER,
    Consumer,
    Delivery,
    PendingSlots,
    PendingTable,
    idle_states,
)
from .policies.group_policy import GroupPolicy
from .policies.rules import NO_POLICY, PendingRules, RulesImage
from .runs import RunsByTime

__all__ = [
    "BLOCK_COUNT_MAX",
    "CONSUMER_SIZE",
    "DELIVERY_COUNT_MAX",
    "DELIVERY_SIZE",
    "NEVER",
    "NOTHING_PENDING",
    "Consumer",
    "ConsumerRow",
    "Delivery",
    "Listing",
    "PendingEntries",
    "PendingImage",
    "PendingTable",
    "idle_states",
]

# How many elements, and the elements as parts of a reply, end to end.
Listing = tuple[int, bytes]

# Name of a consumer, when it was last seen and last active, its number of entries, and its entries as parts of a reply.
ConsumerRow = tuple[bytes, int, int, int, tuple[bytes, ...]]

Part = dict[int, Delivery] | list[Delivery] | PendingTable


@mypyc_attr(acyclic=True)
class PendingEntries:
    """A group's pending entries list (PEL)."""

    __slots__ = (
        "_runs",
        "_table",
        "acked_total",
        "claimed_total",
        "delivered_total",
        "fatal_released_total",
        "released_total",
        "rules",
    )

    def __init__(self, table: PendingTable | None = None) -> None:
        self._table = PendingTable() if table is None else table
        # Owned deliveries by time.
        self._runs = RunsByTime()
        # What policies and delays say of these entries; None if there are none.
        self.rules: PendingRules | None = None
        self.forget_totals()

    def forget_totals(self) -> None:
        """Reset the counters that the server's metrics show: entries since the server started."""
        # New entries delivered, with NOACK too.
        self.delivered_total = 0
        # Entries claimed, owned and released ones.
        self.claimed_total = 0
        self.acked_total = 0
        self.released_total = 0
        # Entries released with XNACK FATAL.
        self.fatal_released_total = 0

    def __len__(self) -> int:
        return len(self._table)

    def __contains__(self, entry_id: StreamID) -> bool:
        return entry_id in self._table

    @property
    def released(self) -> dict[StreamID, Delivery]:
        """Entries without owner, in release order. The caller must not change the dictionary."""
        return self._table.released

    @property
    def listed_count(self) -> int:
        """Number of stored entries, including those that have left and are not cleaned up yet."""
        return self._table.listed_count

    @property
    def runs_size(self) -> int:
        """Bytes of the view by time, and of its deliveries that have no entries left."""
        stale_count = len(self._runs) - self._table.owned_count
        return self._runs.lists_size + stale_count * DELIVERY_SIZE

    @property
    def deliveries_count(self) -> int:
        """Number of deliveries that have entries, including those of released entries."""
        return self._table.deliveries_count

    @property
    def table_size(self) -> int:
        """Bytes of the views by ID and by consumer, and of the deliveries that have entries."""
        return self._table.memory_size

    # -- changing --------------------------------------------------------------------------------

    def deliver(self, ids: list[StreamID], consumer: Consumer, *, time_ms: int, count: int) -> None:
        """Give distinct IDs to a consumer; previous owners lose them. The view by time keeps the order of `ids`.

        Hot: see the benchmark row XREADGROUP.
        """
        assert self is not NOTHING_PENDING
        deliveries = self._table.deliver(ids, consumer, time_ms, count)
        if self.rules is not None:
            self.rules.note_delivered(ids, deliveries)
        self._runs.add_all(deliveries, self._table.owned_count)

    def take_columns(self, columns: tuple[array[int], ...], consumers: list[Consumer]) -> None:
        """Take owned entries, whose IDs are above all others: see `PendingTable.take_columns`. Raises ValueError, after
        which the list must not be used."""
        assert self is not NOTHING_PENDING
        ms, seq, times, counts, owners = columns
        for delivery in self._table.take_columns(ms, seq, times, counts, owners, consumers):
            self._runs.add(delivery)

    def take_block(self, block: bytes, consumers: list[Consumer]) -> None:
        """Take the entries that `block` has copied, while there are none. Raises ValueError, after which the list must
        not be used."""
        assert self is not NOTHING_PENDING
        for delivery in self._table.take_block(block, consumers):
            self._runs.add(delivery)

    def release(self, entry_id: StreamID, *, count: int) -> None:
        """Take an entry from its owner (XNACK) and append it to the released ones. It need not be pending (FORCE)."""
        assert self is not NOTHING_PENDING
        self._table.release(entry_id, count)
        if self.rules is not None:
            self.rules.note_released(entry_id, count)
        self._runs.clean(self._table.owned_count)

    def drop(self, entry_id: StreamID) -> bool:
        """Remove one entry (acknowledged or deleted). Returns False if it was not pending."""
        return self.drop_all((entry_id,)) == 1

    def drop_all(self, ids: Iterable[StreamID]) -> int:
        """Remove entries. Returns how many were pending. Hot: see the benchmark rows XACK."""
        if self.rules is not None:
            ids = list(ids)
            self.rules.note_dropped(ids)
        dropped = self._table.drop_all(ids)
        self._runs.clean(self._table.owned_count)
        return dropped

    def drop_consumer(self, consumer: Consumer) -> int:
        """Remove all entries of a consumer. Returns how many."""
        return self.drop_all(self._table.take(0, consumer.pending_count, consumer))

    def put_in_order(self) -> None:
        """Sort the view by time now, so that the next reader need not."""
        self._runs.in_order()

    def require_rules(self) -> PendingRules:
        """The rules of these entries, which are made if there are none."""
        assert self is not NOTHING_PENDING
        if self.rules is None:
            self.rules = PendingRules(self._table)
        return self.rules

    def configure(self, policy: GroupPolicy | None) -> None:
        """Put the settings of the group in force; None for none."""
        rules = self.require_rules()
        rules.configure(NO_POLICY if policy is None else policy, self._runs.live())
        self.forget_unneeded_rules()

    def forget_unneeded_rules(self) -> None:
        """Drop the rules if there is neither a policy nor a delay any more."""
        if self.rules is not None and not self.rules.is_needed:
            self.rules = None

    # -- reading ---------------------------------------------------------------------------------

    def get(self, entry_id: StreamID) -> Delivery | None:
        """The delivery that an entry is in, None if it is not pending."""
        return self._table.get(entry_id)

    def walk(self, start: StreamID = 0) -> Iterator[tuple[StreamID, Delivery]]:
        """Yield all pending entries by ID from `start` on. Entries may be removed during the walk, but not added."""
        return self._table.walk(start)

    def first_ids(self, start: StreamID, count: int) -> list[StreamID]:
        """The first `count` IDs from `start` on. Hot: see the benchmark row XAUTOCLAIM."""
        return self._table.take(start, count)

    def stretch(self, start: StreamID, count: int) -> tuple[StreamID, StreamID, StreamID] | None:
        """The first and the last of the first `count` IDs from `start` on, and the ID that follows them, 0 if there is
        none. None if there is no ID from `start` on (benchmark row XAUTOCLAIM, nothing idle)."""
        return self._table.stretch(start, count)

    def walk_owned(self, consumer: Consumer, start: StreamID = 0) -> Iterator[tuple[StreamID, Delivery]]:
        """A consumer's pending entries by ID from `start` on."""
        return self._table.walk(start, consumer)

    def owned_ids(self, consumer: Consumer, start: StreamID, count: int) -> list[StreamID]:
        """The first `count` IDs of a consumer's pending entries from `start` on, all if negative."""
        return self._table.take(start, consumer.pending_count if count < 0 else count, consumer)

    def list_times(self, count: int, consumer: Consumer | None = None) -> Listing:
        """The first `count` entries, all if negative, as parts of a reply: ID, owner, delivery time, delivery count.
        Of a consumer's entries without the owner."""
        return self._table.list_times(len(self._table) if count < 0 else count, consumer)

    def list_consumers(self, consumers: list[Consumer], count: int) -> list[ConsumerRow]:
        """Describe consumers, each with the first `count` of its entries, all if negative."""
        return self._table.list_consumers(consumers, len(self._table) if count < 0 else count)

    def summary(self, consumers: list[Consumer]) -> bytes:
        """A reply: the number of entries, the smallest and the largest ID, and name and number of entries of each of
        these consumers that has any. There are entries."""
        return self._table.summary(consumers)

    def list_idle(
        self,
        start: StreamID,
        end: StreamID,
        count: int,
        *,
        now_ms: int,
        idle_ms_min: int,
        consumer: Consumer | None = None,
    ) -> Listing:
        """The first `count` entries of a range that are released or have been idle so long, as parts of a reply: ID,
        owner, idle time, delivery count (benchmark row XPENDING)."""
        return self._table.list_idle(start, end, count, now_ms, idle_ms_min, consumer)

    def walk_by_time(self) -> Iterator[tuple[StreamID, Delivery]]:
        """Released entries in release order, then owned ones, oldest delivery first. Nothing may change meanwhile."""
        yield from self._table.released.items()
        for run in self._runs.live():
            for entry_id in self._table.members(run):
                yield entry_id, run

    def walk_claimable(self) -> Iterator[tuple[StreamID, Delivery]]:
        """Yield in the order of `walk_by_time` what is neither delayed, guarded nor parked for good. Nothing may change
        meanwhile.
        """
        rules = self.rules
        if rules is None:
            yield from self.walk_by_time()
            return
        released = self._table.released
        for entry_id in rules.released_ready():
            yield entry_id, released[entry_id]
        policy = rules.policy
        for run in self._runs.live():
            is_parked = not policy.dead_letter_key and policy.is_spent(run.count)
            if not is_parked and not rules.is_guarded(run):
                for entry_id in self._table.members(run):
                    yield entry_id, run

    def members(self, delivery: Delivery) -> Iterator[StreamID]:
        """The entries of a delivery that is owned. Nothing may change meanwhile."""
        return self._table.members(delivery)

    def oldest_time_ms(self) -> int | None:
        """Delivery time of the owned entry that has been pending longest, None if there is no owned entry."""
        return next((run.time_ms for run in self._runs.live()), None)

    def first_id(self) -> StreamID:
        """Smallest pending ID; there is one."""
        return self._table.take(0, 1)[0]

    def last_id(self) -> StreamID:
        """Largest pending ID; there is one."""
        return self._table.last_id()

    # -- whole -----------------------------------------------------------------------------------

    def copy(self, consumers: dict[bytes, Consumer]) -> PendingEntries:
        """An independent list whose deliveries name the consumers of the same name in `consumers`."""
        twin = PendingEntries(type(self._table)())
        for entry_id, delivery in self._table.released.items():
            twin.release(entry_id, count=delivery.count)
        for run in self._runs.live():
            assert run.consumer is not None
            ids = list(self._table.members(run))
            twin.deliver(ids, consumers[run.consumer.name], time_ms=run.time_ms, count=run.count)
        if self.rules is not None:
            twin.rules = self.rules.copy(twin._table, twin._runs.live())
        return twin

    def block(self, consumers: list[Consumer]) -> bytes | None:
        """A copy of the list, which names its owners by their places in `consumers`, if it has few entries, all of them
        owned, and no rules. Otherwise None."""
        if len(self) > BLOCK_COUNT_MAX or self._table.released or self.rules is not None:
            return None
        return self._table.block(consumers)

    def image(self) -> PendingImage:
        """The list as it is now, to be read while the list changes. Copies some 25 bytes per entry at once."""
        rules = None if self.rules is None else self.rules.image()
        return PendingImage(self._table.image(self._runs.used()), self._table.released.copy(), rules)

    def dismantle(self, consumers: Iterable[Consumer]) -> list[Part]:
        """Return the list's parts, the largest last, and leave the list empty. For a removed group, of which
        `consumers` are all consumers."""
        table, runs = self._table, self._runs.take_all()
        table.disown(consumers)
        self._table, self.rules = type(table)(), None
        return [runs, table.released_of, table.released, table]

    def check(self, consumers: dict[bytes, Consumer]) -> None:
        """Assert that all views agree."""
        self._table.check(consumers)
        by_id = [entry_id for entry_id, _ in self.walk()]
        assert len(by_id) == len(self)
        assert sorted([entry_id for entry_id, _ in self.walk_by_time()]) == by_id
        assert len(list(self._runs.live())) == self._table.owned_count
        self._runs.check()
        if self.rules is not None:
            self.rules.check()


# The list of every group that never had a consumer or a released entry: see `Group`.
NOTHING_PENDING: Final = PendingEntries()


class PendingImage:
    """A group's pending entries as they were at one moment. Deliveries are shared with the group's list."""

    __slots__ = ("_slots", "released", "rules")

    def __init__(self, slots: PendingSlots, released: dict[StreamID, Delivery], rules: RulesImage | None) -> None:
        self._slots = slots
        self.rules: Final = rules
        # Entries without owner, in release order.
        self.released = released

    def __len__(self) -> int:
        return len(self._slots)

    def walk(self) -> Iterator[tuple[StreamID, Delivery]]:
        """All pending entries by ID."""
        return self._slots.walk()

    def columns(self, owners: dict[bytes, int], count: int) -> Iterator[tuple[array[int], ...]]:
        """Yield all pending entries by ID, up to `count` at a time, as columns.

        These are the halves of the IDs, delivery times in Unix ms, delivery counts, and the numbers that `owners` has
        for the names of the owners, -1 for released entries.
        """
        return self._slots.columns(owners, count)

    def walk_by_time(self) -> Iterator[tuple[StreamID, Delivery]]:
        """Released entries in release order, then owned ones, oldest delivery first."""
        yield from self.released.items()
        yield from self._slots.walk_by_time()
