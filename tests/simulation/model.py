"""A simple model of a stream with groups: a dict of entries, and a dict of pending entries for each group.

The model has no nodes, no index and no clock. Every method takes the time as an argument, changes the model, and
returns the reply that a client must get. The simulator runs the same commands on the real server and compares the two
after every step.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field

from headrace.store.ids import SEQ_BITS, id_after, make_id
from simulation.member_model import MemberModel

IDMP_DURATION_MS = 20_000
IDMP_PAIRS_MAX = 100
IDMP_SLACK_MS = 1_500
# The largest delivery count. XNACK FATAL sets it.
COUNT_MAX = 2**63 - 1
# The groups of every stream.
GROUPS = (b"g", b"h")

# (ID as one integer, value of the only field).
Entry = tuple[int, bytes]


@dataclass
class Pending:
    """An entry that was delivered and is not acknowledged. `consumer` is None after a release."""

    consumer: bytes | None
    time_ms: int
    count: int


@dataclass
class Wait:
    """A blocked XREADGROUP."""

    group: bytes
    consumer: bytes
    count: int
    deadline_ms: int


@dataclass
class Model:
    """One stream and its groups."""

    # The live entries, in order of their IDs.
    entries: dict[int, bytes] = field(default_factory=dict)
    # Every ID that was ever added, in order.
    ever: list[int] = field(default_factory=list)
    last_id: int = 0
    # IDs of entries that were deleted or trimmed.
    deleted: set[int] = field(default_factory=set)
    # The highest ID that XDEL deleted. XTRIM does not change it.
    max_deleted: int = 0
    # Entry ID by idempotent ID of the only producer, oldest first.
    pairs: dict[bytes, int] = field(default_factory=dict)
    # When the server was last started: a replay also restores pairs whose window has passed.
    started_ms: int = 0
    # The longest wait first.
    waits: list[Wait] = field(default_factory=list)
    groups: dict[bytes, GroupModel] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.groups = {name: self._new_group() for name in GROUPS}

    def _new_group(self) -> GroupModel:
        return GroupModel(self)

    # -- producers -------------------------------------------------------------------------------

    def add(self, value: bytes, now_ms: int, idempotent_id: bytes | None = None) -> int:
        """XADD key [IDMP p iid] * v value. Returns the ID; for a duplicate, the ID of the first addition."""
        if idempotent_id is not None:
            known = self.pairs.pop(idempotent_id, None)
            if known is not None and now_ms <= self._doubted_until_ms(known):
                self.pairs[idempotent_id] = known
                return known
        new_id = max(make_id(now_ms, 0), id_after(self.last_id))
        self.entries[new_id] = value
        self.ever.append(new_id)
        self.last_id = new_id
        if idempotent_id is not None:
            self.pairs[idempotent_id] = new_id
            while len(self.pairs) > IDMP_PAIRS_MAX:
                del self.pairs[next(iter(self.pairs))]
        return new_id

    def is_in_doubt(self, idempotent_id: bytes, now_ms: int) -> bool:
        """Whether the window of this pair has passed so recently that the server may still remember the pair.

        The server removes old pairs once a second. A pair in doubt must be settled before `add`.
        """
        known = self.pairs.get(idempotent_id)
        if known is None:
            return False
        return (known >> SEQ_BITS) + IDMP_DURATION_MS <= now_ms <= self._doubted_until_ms(known)

    def _doubted_until_ms(self, entry_id: int) -> int:
        return max((entry_id >> SEQ_BITS) + IDMP_DURATION_MS, self.started_ms) + IDMP_SLACK_MS

    def settle(self, idempotent_id: bytes, entry_id: int | None) -> bool:
        """Note what the server remembers of a pair in doubt: an entry ID, or None. Returns whether that is allowed."""
        known = self.pairs.pop(idempotent_id, None)
        if entry_id is not None:
            self.pairs[idempotent_id] = entry_id
        return entry_id in (None, known)

    def remembers(self, idempotent_id: bytes, now_ms: int) -> int | None:
        """The entry ID of a pair that the server must remember; None if it must have forgotten the pair."""
        known = self.pairs.get(idempotent_id)
        return known if known is not None and now_ms <= self._doubted_until_ms(known) else None

    def serve_waits(self, now_ms: int) -> Iterator[tuple[Wait, list[Entry]]]:
        """Serves each blocked client for which there is an entry, the longest wait first."""
        for wait in list(self.waits):
            entries = self.groups[wait.group].read(wait.consumer, wait.count, now_ms)
            if entries:
                self.waits.remove(wait)
                yield wait, entries

    def delete(self, entry_id: int) -> int:
        """XDEL."""
        if self.entries.pop(entry_id, None) is None:
            return 0
        self.deleted.add(entry_id)
        self.max_deleted = max(self.max_deleted, entry_id)
        return 1

    def delete_all(self, entry_ids: list[int], references: bytes) -> list[int]:
        """XDELEX. Returns for each ID: 1 if deleted, 2 if a group still needs the entry, -1 if there is no entry."""
        results = []
        for entry_id in entry_ids:
            if references == b"DELREF":
                self.drop_references(entry_id)
            is_kept = references == b"ACKED" and self.is_referenced(entry_id)
            results.append(2 if is_kept else self.delete(entry_id) or -1)
        return results

    def trim(self, entries_max: int, references: bytes) -> int:
        """XTRIM MAXLEN, with KEEPREF or DELREF."""
        surplus = list(self.entries)[: max(len(self.entries) - entries_max, 0)]
        for entry_id in surplus:
            del self.entries[entry_id]
            if references == b"DELREF":
                self.drop_references(entry_id)
        self.deleted.update(surplus)
        return len(surplus)

    def is_referenced(self, entry_id: int) -> bool:
        """Whether the ID is pending in a group, or follows a group's position. The entry need not exist."""
        return any(entry_id in group.pending or entry_id > group.last_delivered for group in self.groups.values())

    def drop_references(self, entry_id: int) -> None:
        """Removes the ID from the pending lists of all groups."""
        for group in self.groups.values():
            if entry_id in group.pending:
                group.drop(entry_id)

    # -- counters --------------------------------------------------------------------------------

    def first(self) -> int:
        """ID of the first live entry, 0 if there is none."""
        return min(self.entries, default=0)

    def is_place_known(self, entry_id: int) -> bool:
        """Whether Redis can derive how many entries were added up to this ID, without a count kept for a group.

        It can in an empty stream, for the last ID, and up to the first live entry if no later entry was deleted.
        """
        if not self.ever or not self.entries:
            return True
        if 0 < entry_id < self.max_deleted:
            return False
        return entry_id == self.last_id or (self.max_deleted < self.first() and entry_id <= self.first())


@dataclass
class ClaimOptions:
    """Options of XCLAIM other than the consumer, the idle time and the IDs."""

    # The delivery time, set with IDLE or TIME. A time in the future means now.
    time_ms: int | None = None
    retry_count: int | None = None
    is_forced: bool = False
    just_ids: bool = False


@dataclass
class GroupModel:
    """One group of a stream."""

    stream: Model = field(repr=False)
    last_delivered: int = 0
    # Consumers that read or claimed, even if they got nothing, and were not deleted since.
    consumers: set[bytes] = field(default_factory=set)
    pending: dict[int, Pending] = field(default_factory=dict)
    # Pending IDs without a consumer, in the order of their release.
    released: list[int] = field(default_factory=list)
    acknowledged: set[int] = field(default_factory=set)
    # IDs that left the pending list without XACK: their consumer, the reference or the entry was deleted.
    dropped: set[int] = field(default_factory=set)
    # Whether the group's entries-read is a number: see `_count_read`.
    is_read_counted: bool = False

    # -- consumers -------------------------------------------------------------------------------

    def read(self, consumer: bytes, count: int, now_ms: int, *, no_ack: bool = False) -> list[Entry]:
        """XREADGROUP ... STREAMS key >. With NOACK, reading an entry acknowledges it."""
        self.consumers.add(consumer)
        fresh = [(entry_id, value) for entry_id, value in self.stream.entries.items() if entry_id > self.last_delivered]
        for entry_id, _ in fresh[:count]:
            if no_ack:
                self.acknowledged.add(entry_id)
            else:
                self.pending[entry_id] = Pending(consumer, now_ms, 1)
            self.is_read_counted = self._count_read(entry_id)
            self.last_delivered = entry_id
        return fresh[:count]

    def read_history(self, consumer: bytes, now_ms: int) -> list[tuple[int, bytes | None]]:
        """XREADGROUP ... STREAMS key 0: all pending entries of the consumer. A deleted entry has the value None.

        For live entries this is another delivery: the time is now, and the count increases.
        """
        self.consumers.add(consumer)
        owned = sorted(entry_id for entry_id, delivery in self.pending.items() if delivery.consumer == consumer)
        for entry_id in owned:
            if entry_id in self.stream.entries:
                self._own(entry_id, consumer, now_ms)
        return [(entry_id, self.stream.entries.get(entry_id)) for entry_id in owned]

    def is_idle(self, entry_id: int, idle_ms_min: int, now_ms: int) -> bool:
        """Whether a pending entry may be claimed. A released entry always may."""
        delivery = self.pending[entry_id]
        return delivery.consumer is None or now_ms - delivery.time_ms >= idle_ms_min

    def claim(
        self, consumer: bytes, idle_ms_min: int, wanted: list[int], now_ms: int, options: ClaimOptions | None = None
    ) -> list[Entry]:
        """XCLAIM. Deleted entries leave the pending list silently. FORCE also claims delivered entries not pending."""
        self.consumers.add(consumer)
        options = options or ClaimOptions()
        time_ms = now_ms if options.time_ms is None else min(options.time_ms, now_ms)
        claimed = []
        for entry_id in wanted:
            if entry_id not in self.pending:
                if not options.is_forced or entry_id not in self.stream.entries:
                    continue
                self._make_pending(entry_id, 1)
            elif entry_id not in self.stream.entries:
                self.drop(entry_id)
                continue
            elif not self.is_idle(entry_id, idle_ms_min, now_ms):
                continue
            self._own(entry_id, consumer, time_ms, more=not options.just_ids, count=options.retry_count)
            claimed.append((entry_id, self.stream.entries[entry_id]))
        return claimed

    def claim_all(self, consumer: bytes, idle_ms_min: int, now_ms: int) -> tuple[list[Entry], list[int]]:
        """XAUTOCLAIM from the beginning, without a limit: (entries, IDs of deleted entries)."""
        gone = [entry_id for entry_id in sorted(self.pending) if entry_id not in self.stream.entries]
        for entry_id in gone:
            self.drop(entry_id)
        return self.claim(consumer, idle_ms_min, sorted(self.pending), now_ms), gone

    def read_idle(self, consumer: bytes, idle_ms_min: int, now_ms: int) -> list[tuple[int, bytes, int, int]]:
        """XREADGROUP ... CLAIM without a limit: (ID, value, idle ms, earlier deliveries), then the new entries."""
        by_time = sorted(
            (entry_id for entry_id in self.pending if entry_id not in self.released),
            key=lambda entry_id: self.pending[entry_id].time_ms,
        )
        found = []
        for entry_id in [*self.released, *by_time]:
            delivery = self.pending[entry_id]
            if entry_id in self.stream.entries and self.is_idle(entry_id, idle_ms_min, now_ms):
                found.append((entry_id, self.stream.entries[entry_id], now_ms - delivery.time_ms, delivery.count))
        for entry_id, *_ in found:
            self._own(entry_id, consumer, now_ms)
        return found + [(entry_id, value, 0, 0) for entry_id, value in self.read(consumer, 10**6, now_ms)]

    def acknowledge(self, entry_ids: list[int]) -> int:
        """XACK."""
        known = {entry_id for entry_id in entry_ids if entry_id in self.pending}
        for entry_id in known:
            self._leave(entry_id)
        self.acknowledged |= known
        return len(known)

    def acknowledge_and_delete(self, entry_ids: list[int], references: bytes) -> list[int]:
        """XACKDEL. Returns for each ID: 1 if deleted, 2 if another group still needs the entry, -1 if not pending."""
        results = []
        for entry_id in entry_ids:
            if not self.acknowledge([entry_id]):
                results.append(-1)
                continue
            if references == b"DELREF":
                self.stream.drop_references(entry_id)
            is_kept = references == b"ACKED" and self.stream.is_referenced(entry_id)
            if not is_kept:
                self.stream.delete(entry_id)
            results.append(2 if is_kept else 1)
        return results

    def release(
        self, entry_ids: list[int], mode: bytes, *, retry_count: int | None = None, is_forced: bool = False
    ) -> int:
        """XNACK. SILENT subtracts one delivery, FAIL keeps the count, FATAL sets it to `COUNT_MAX`.

        RETRYCOUNT sets the count itself. FORCE also releases delivered entries that are not pending.
        """
        for entry_id in entry_ids:
            if is_forced and entry_id not in self.pending and entry_id in self.stream.entries:
                self._make_pending(entry_id, 0)
        known = [entry_id for entry_id in entry_ids if entry_id in self.pending]
        for entry_id in known:
            if entry_id in self.released:
                self.released.remove(entry_id)
            count = self.pending[entry_id].count
            counts = {b"SILENT": max(count - 1, 0), b"FAIL": count, b"FATAL": COUNT_MAX}
            self.pending[entry_id] = Pending(None, 0, counts[mode] if retry_count is None else retry_count)
            self.released.append(entry_id)
        return len(known)

    def drop_consumer(self, consumer: bytes) -> int:
        """XGROUP DELCONSUMER."""
        self.consumers.discard(consumer)
        owned = [entry_id for entry_id, delivery in self.pending.items() if delivery.consumer == consumer]
        for entry_id in owned:
            self.drop(entry_id)
        return len(owned)

    # -- counters --------------------------------------------------------------------------------

    def entries_read(self) -> int | None:
        """How many entries were ever added up to the group's position; None where Redis does not know."""
        return bisect_right(self.stream.ever, self.last_delivered) if self.is_read_counted else None

    def lag(self) -> int | None:
        """How many live entries the group has not read yet; None where Redis does not know.

        Redis does not search for the number. It knows it in three cases: the group's position is before all entries
        and deletions; the group has a count and no entry after its position was deleted; the position is one of
        `Model.is_place_known`.
        """
        if self.stream.entries:
            is_in_front = max(self.last_delivered, self.stream.max_deleted) < self.stream.first()
            is_counting = self.is_read_counted and not self._is_hole_ahead()
            if not (is_in_front or is_counting or self.stream.is_place_known(self.last_delivered)):
                return None
        return sum(entry_id > self.last_delivered for entry_id in self.stream.entries)

    def _count_read(self, entry_id: int) -> bool:
        """Whether entries-read is a number after this entry, the next one of the group, is delivered."""
        is_within = self.last_delivered >= self.stream.first()
        is_counting = self.is_read_counted and is_within and not self._is_hole_ahead()
        return is_counting or self.stream.is_place_known(entry_id)

    def _is_hole_ahead(self) -> bool:
        """Whether XDEL deleted an entry at or after the group's position."""
        return bool(self.stream.entries) and 0 < self.stream.max_deleted >= self.last_delivered

    # --------------------------------------------------------------------------------------------

    def _own(
        self, entry_id: int, consumer: bytes, time_ms: int, *, more: bool = True, count: int | None = None
    ) -> None:
        if entry_id in self.released:
            self.released.remove(entry_id)
        counted = min(self.pending[entry_id].count + more, COUNT_MAX)
        self.pending[entry_id] = Pending(consumer, time_ms, counted if count is None else count)

    def _make_pending(self, entry_id: int, count: int) -> None:
        """Makes the ID pending, and no longer acknowledged or dropped."""
        self.pending[entry_id] = Pending(None, 0, count)
        self.acknowledged.discard(entry_id)
        self.dropped.discard(entry_id)

    def _leave(self, entry_id: int) -> None:
        del self.pending[entry_id]
        if entry_id in self.released:
            self.released.remove(entry_id)

    def drop(self, entry_id: int) -> None:
        """Removes the ID from the pending list without acknowledging it."""
        self._leave(entry_id)
        self.dropped.add(entry_id)


@dataclass
class State:
    """The whole dataset of the server."""

    # Model of the stream by key.
    models: dict[bytes, Model]
    # (value, expiry time in Unix ms) by key.
    strings: dict[bytes, tuple[bytes, int]] = field(default_factory=dict)
    members: MemberModel = field(default_factory=MemberModel)

    def copy(self) -> State:
        """A copy that later changes do not affect."""
        return deepcopy(self)
