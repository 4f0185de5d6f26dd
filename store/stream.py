"""A stream: its entries, counters, consumer groups and idempotent producers.

Names and rules follow `XINFO STREAM`: `last_id` is last-generated-id, `max_deleted_id` is max-deleted-entry-id (raised
by XDEL, XDELEX and XACKDEL, never by trimming), `entries_added` is entries-added. All of it is pure: no clock, no I/O.
"""

from __future__ import annotations

from bisect import bisect_right
from enum import Enum
from sys import getsizeof
from typing import ClassVar, Final

from .chunk import Body
from .class_marks import mypyc_attr
from .errors import GenericError
from .group import ENTRIES_READ_UNKNOWN, Group, ShortGroup
from .idempotence import Idempotence
from .ids import ID_MAX, ID_MIN, SEQ_BITS, SEQ_MASK, U64_MAX, StreamID, id_after
from .limits import Limits
from .log import EntryLog
from .memory import GROUP_COUNT_AT_ONCE_MAX, STREAM_SIZE, GroupSizes, group_size, ledger_size, producers_size
from .nodes import IS_COMPILED, NODE_SIZE_UNLIMITED, Node, NodeLedger
from .pending import PendingEntries
from .policies.rules import DueTimes
from .policies.stream_policy import StreamPolicy

ENTRIES_ADDED_MAX: Final = 2**63 - 1
# Bytes of the body of a short stream.
SHORT_SIZE_MAX: Final = 2048
# Groups of a short stream, at most.
SHORT_GROUPS_MAX: Final = 8
# Bytes of a node without what its entries have in the reply form too, and without their places.
NODE_FRAME_MAX: Final = 64

# All of a stream that is short: see `Stream.short`. Its entries as `Body.block` returns them, its node if that was
# settled, last ID, largest deleted ID, entries added, settings and counters of its idempotence, its groups by name.
ShortStream = tuple[bytes, Node | None, StreamID, StreamID, int, int, int, int, int, list[ShortGroup]]
# Due times of removed entries that a stream may keep besides those of as many as it has.
REMOVED_LATER_SLACK: Final = 64
# Pending entries that are checked at a time when references are dropped.
REFERENCES_AT_ONCE_MAX: Final = 1024


class References(Enum):
    """What deleting or trimming does to pending entries of the removed entry (Redis 8.2)."""

    # References stay, without the entry.
    KEEP = b"KEEPREF"
    # References are removed from every group.
    DELETE = b"DELREF"
    # Only entries that every group has received and acknowledged are removed.
    ACKED = b"ACKED"


@mypyc_attr(acyclic=True)
class Stream:
    """One stream key."""

    __slots__ = (
        "counted_size",
        "entries_added",
        "group_sizes",
        "groups",
        "heeds_deletions",
        "idempotence",
        "image_number",
        "last_id",
        "later",
        "limits",
        "log",
        "max_deleted_id",
        "nodes",
        "policy",
        "used_ms",
    )
    # Number of the newest `StoreImage`.
    newest_image_number: ClassVar[int] = 0

    def __init__(self, limits: Limits) -> None:
        # Fields that every new entry changes are next to each other (benchmark row XADD over 10,000 keys).
        self.log = EntryLog()
        self.last_id: StreamID = ID_MIN
        self.entries_added = 0
        # Unix ms of the last command that used the stream; 0 if there was none since it was loaded.
        self.used_ms = 0
        # Number of the newest `StoreImage` that does not need this stream any more: it has a copy, or is older than the
        # stream.
        self.image_number = Stream.newest_image_number
        self.limits = limits
        self.nodes = NodeLedger()
        self.max_deleted_id: StreamID = ID_MIN
        self.groups: dict[bytes, Group] = {}
        # Entries that groups do not hand out before a time (XADD DELAY); None if there are none.
        self.later: DueTimes | None = None
        # Whether a group must know of deletions: it has ORDER-BY, or what it has pending is bounded.
        self.heeds_deletions = False
        # Sizes of the groups. None while they are few enough to be measured each time.
        self.group_sizes: GroupSizes | None = None
        self.idempotence = Idempotence(limits.idmp_duration_s, limits.idmp_entries_max)
        # How long entries are kept; None if nothing is set. `Database.govern` sets it.
        self.policy: StreamPolicy | None = None
        # Bytes that the database counts for this stream, as of the last `Database.recount`.
        self.counted_size = 0

    def __len__(self) -> int:
        return self.log.length

    # -- adding ----------------------------------------------------------------------------------

    def next_id(self, now_ms: int) -> StreamID:
        """The ID of `XADD *`: the clock, or the successor of the last ID if the clock is not later."""
        if now_ms > self.last_id >> SEQ_BITS:
            return now_ms << SEQ_BITS
        if self.last_id == ID_MAX:
            raise GenericError(b"The stream has exhausted the last possible ID, unable to add more items")
        return id_after(self.last_id)

    def next_id_in(self, ms: int) -> StreamID:
        """The ID of `XADD ms-*`. Raises GenericError if that millisecond is over or full."""
        if ms == self.last_id >> SEQ_BITS:
            if self.last_id & SEQ_MASK == U64_MAX:
                self.require_new_id(self.last_id)
            return self.last_id + 1
        return ms << SEQ_BITS

    def require_new_id(self, entry_id: StreamID) -> None:
        """Raise GenericError unless the ID may be added."""
        if self.last_id == ID_MAX:
            raise GenericError(b"The stream has exhausted the last possible ID, unable to add more items")
        if entry_id <= self.last_id:
            raise GenericError(b"The ID specified in XADD is equal or smaller than the target stream top item")

    def append(self, entry_id: StreamID, entry: bytes) -> None:
        """Add an entry in its reply form; `require_new_id` holds. Hot: see the benchmark row XADD."""
        is_full = self.log.append(entry_id, entry)
        self.last_id = entry_id
        if is_full and IS_COMPILED:
            # This costs 0.1 us per entry now. Otherwise all clients would wait while the first XTRIM or XINFO counts
            # all entries.
            self.nodes.settle(self.log, self.limits)
        if self.entries_added < ENTRIES_ADDED_MAX:
            self.entries_added += 1

    def append_run(self, run: Body) -> None:
        """Add entries in order. Their IDs ascend, and the first one has passed `require_new_id`."""
        is_full = self.log.append_run(run)
        self.last_id = run.last_id
        if is_full and IS_COMPILED:
            self.nodes.settle(self.log, self.limits)
        self.entries_added = min(self.entries_added + run.count, ENTRIES_ADDED_MAX)

    def set_last_id(self, last_id: StreamID) -> None:
        """XSETID: the next entry comes after this ID, which may be lower than before but not below a live entry."""
        if last_id < self.last_id:
            self.settle_nodes()
            self.nodes.settled_id = min(self.nodes.settled_id, last_id)
            self.log.allow_after(last_id)
            self._clean_later(0)
        self.last_id = last_id

    # -- removing --------------------------------------------------------------------------------

    def delete(self, entry_id: StreamID) -> bool:
        """Delete one entry and raise `max_deleted_id`. Returns False if there is no live entry with this ID."""
        if not self.remove(entry_id, keep_node=False):
            return False
        if entry_id > self.max_deleted_id:
            self.max_deleted_id = entry_id
        return True

    def remove(self, entry_id: StreamID, *, keep_node: bool) -> bool:
        """Remove one entry without raising `max_deleted_id`, as trimming does. `keep_node`: see NodeLedger.forget."""
        self.settle_nodes()
        if not self.log.delete(entry_id):
            return False
        self.nodes.forget(entry_id, keep_node=keep_node)
        if self.later is not None:
            self.later.discard(entry_id)
        return True

    def trim_head(self, count: int) -> None:
        """Remove the first `count` entries, which the nodes do not have any more."""
        self.log.trim_head(count)
        if self.later is not None:
            self._clean_later(2 * self.log.length + REMOVED_LATER_SLACK)

    # -- due times -------------------------------------------------------------------------------

    def delay(self, entry_id: StreamID, due_ms: int) -> None:
        """Let groups not hand out an entry before `due_ms`, Unix time."""
        if self.later is None:
            self.later = DueTimes()
        self.later.set(entry_id, due_ms)

    def forget_due(self, now_ms: int, count: int) -> int | None:
        """Forget up to `count` due times that are over. Returns the first one of the others, None if there is none."""
        if self.later is None:
            return None
        self.later.take_due(now_ms, count)
        first = self.later.first()
        if first is None:
            self.later = None
            return None
        return first[1]

    def _clean_later(self, count_max: int) -> None:
        """Forget the due times of entries that were removed, if there are more due times than that."""
        later = self.later
        if later is not None and len(later) > count_max:
            later.discard_many([entry_id for entry_id, _ in later.walk() if not self.log.still_has(entry_id)])
            if not len(later):
                self.later = None

    def settle_nodes(self) -> None:
        """Compute the node boundaries of new entries. Must run before entries are removed and before limits change."""
        self.nodes.settle(self.log, self.limits)

    @property
    def has_unsettled(self) -> bool:
        """Whether entries have been added since the nodes were computed."""
        return self.log.last_id > self.nodes.settled_id

    def is_referenced(self, entry_id: StreamID) -> bool:
        """Whether the entry is pending in a group, or not yet delivered to a group (the test of ACKED)."""
        groups = self.groups.values()
        return any(entry_id > group.last_id or entry_id in group.pending for group in groups)

    def pending_between(self, first_id: StreamID, last_id: StreamID) -> list[PendingEntries]:
        """The pending entries of each group that has an ID of this range pending."""
        found = []
        for group in self.groups.values():
            ids = group.pending.first_ids(first_id, 1)
            if ids and ids[0] <= last_id:
                found.append(group.pending)
        return found

    def drop_references(self, entry_id: StreamID) -> bool:
        """Remove the entry from every group's pending list (DELREF). Returns whether it was in one."""
        dropped = False
        for group in self.groups.values():
            if group.pending.drop(entry_id):
                dropped = True
        return dropped

    def drop_references_between(self, first_id: StreamID, last_id: StreamID, count: int) -> None:
        """Remove all live entries of a range, of which there are `count`, from every group's pending list."""
        at_once = min(count, REFERENCES_AT_ONCE_MAX)
        for group in self.groups.values():
            start = first_id
            while start and start <= last_id:
                ids = group.pending.first_ids(start, at_once)
                start = id_after(ids[-1]) if len(ids) == at_once and ids[-1] < ID_MAX else 0
                del ids[bisect_right(ids, last_id) :]
                if ids and not self.log.still_has_all(ids[0], ids[-1]):
                    # References to entries that were deleted before are kept.
                    ids = [entry_id for entry_id in ids if self.log.still_has(entry_id)]
                group.pending.drop_all(ids)

    # -- groups ----------------------------------------------------------------------------------

    def find_group(self, name: bytes) -> Group | None:
        """Return the group of that name, or None. The caller may change the group."""
        group = self.groups.get(name)
        if group is not None and self.group_sizes is not None:
            self.group_sizes.looked_up[group] = None
        return group

    def add_group(self, group: Group) -> None:
        """Add a group, whose name is free."""
        self.groups[group.name] = group
        if self.group_sizes is not None:
            self.group_sizes.looked_up[group] = None

    def drop_group(self, name: bytes) -> bool:
        """Remove the group of that name. Returns whether there was one."""
        group = self.groups.pop(name, None)
        if group is not None and self.group_sizes is not None:
            self.group_sizes.forget(group)
        return group is not None

    def sorted_groups(self) -> list[Group]:
        """Groups by name bytes, the order of every listing."""
        if len(self.groups) <= 1:  # as in most streams
            return list(self.groups.values())
        return [self.groups[name] for name in sorted(self.groups)]

    def entries_up_to(self, entry_id: StreamID) -> int | None:
        """Number of entries ever added up to this ID; None if deletions make it unknown."""
        added, log = self.entries_added, self.log
        if not added:
            return 0
        if not log.length and entry_id <= self.last_id:
            return added
        if entry_id != ID_MIN and entry_id < self.max_deleted_id:
            return None
        if entry_id == self.last_id:
            return added
        if not self.max_deleted_id or self.max_deleted_id < log.first_id:
            if entry_id < log.first_id:
                return added - log.length
            if entry_id == log.first_id:
                return added - log.length + 1
        return None

    def has_later_hole(self, group: Group) -> bool:
        """Whether an entry at or after the group's position was deleted, so that counting from there is not exact."""
        return self.log.length > 0 and self.max_deleted_id != ID_MIN and group.last_id <= self.max_deleted_id

    def lag(self, group: Group) -> int | None:
        """Number of entries that the group has still to read (XINFO GROUPS). None if it is unknown, and is not to be
        counted (`stream-exact-lag`)."""
        added, log = self.entries_added, self.log
        if not added or not log.length:
            return 0
        if group.last_id < log.first_id and self.max_deleted_id < log.first_id:
            return log.length
        if group.entries_read != ENTRIES_READ_UNKNOWN and not self.has_later_hole(group):
            return added - group.entries_read
        distance = self.entries_up_to(group.last_id)
        if distance is not None:
            return added - distance
        return log.count_after(group.last_id) if self.limits.counts_lag else None

    def advance(self, group: Group, ids: list[StreamID]) -> None:
        """Move the group's position past ascending delivered IDs, keeping entries-read exact if possible."""
        new_ids = ids if ids[0] > group.last_id else [entry_id for entry_id in ids if entry_id > group.last_id]
        if not new_ids:
            return
        exact_from = self._advance_to_exact(group, new_ids)
        if exact_from < len(new_ids):
            group.entries_read += len(new_ids) - exact_from
            group.last_id = new_ids[-1]

    def _advance_to_exact(self, group: Group, ids: list[StreamID]) -> int:
        """Move entry by entry until counting is exact for all IDs that follow. Returns the index of the first of these.

        Counting is exact once entries-read is known, the position is inside the stream and no later entry was deleted.
        Moving forward keeps these three true.
        """
        for index, entry_id in enumerate(ids):
            counted = group.entries_read != ENTRIES_READ_UNKNOWN and group.last_id >= self.log.first_id
            if counted and not self.has_later_hole(group):
                return index
            if self.entries_added:
                distance = self.entries_up_to(entry_id)
                group.entries_read = ENTRIES_READ_UNKNOWN if distance is None else distance
            group.last_id = entry_id
        return len(ids)

    # -- whole -----------------------------------------------------------------------------------

    def copy(self) -> Stream:
        """A deep copy (COPY)."""
        twin = Stream(self.limits)
        twin.log, twin.nodes = self.log.copy(), self.nodes.copy()
        twin.last_id, twin.max_deleted_id, twin.entries_added = self.last_id, self.max_deleted_id, self.entries_added
        twin.groups = {name: group.copy() for name, group in self.groups.items()}
        twin.idempotence = self.idempotence.copy()
        if self.policy is not None:
            twin.policy = self.policy.copy()
        twin.later = None if self.later is None else self.later.copy()
        return twin

    def short(self) -> ShortStream | None:
        """A copy of all that the stream is, if that is little: entries of a single node and few groups that are short,
        without producers, policy and removed entries. Otherwise None.

        Streams of an entry each may be many, and such copies are written to files many at a time.
        """
        body, idempotence, limits = self.log.sole_body, self.idempotence, self.limits
        if body is None or body.memory_size > SHORT_SIZE_MAX or idempotence.producers:
            return None
        if len(self.groups) > SHORT_GROUPS_MAX:
            return None
        if self.policy is not None or self.later is not None:
            return None
        if (idempotence.duration_s, idempotence.entries_max) != (limits.idmp_duration_s, limits.idmp_entries_max):
            return None
        nodes, block = self.nodes.nodes, body.block()
        node: Node | None = None
        # A block has more bytes for an entry than half of what it takes in a node.
        size = NODE_FRAME_MAX + 2 * len(block)
        if nodes:
            node = nodes[0]
            if len(nodes) > 1 or node.live != node.total or node.first_id != self.log.first_id:
                return None
            size += node.size
        if size > (limits.node_size_max or NODE_SIZE_UNLIMITED) or body.count > (limits.node_entries_max or body.count):
            return None
        groups: list[ShortGroup] = []
        for group in self.sorted_groups():
            short_group = group.short()
            if short_group is None:
                return None
            groups.append(short_group)
        return (
            block, node, self.last_id, self.max_deleted_id, self.entries_added, idempotence.duration_s,
            idempotence.entries_max, idempotence.added & U64_MAX, idempotence.duplicates & U64_MAX, groups,
        )  # fmt: skip

    @staticmethod
    def of_short(short: ShortStream, limits: Limits) -> Stream:
        """The stream of which this is a copy. Raises ValueError for a block that is damaged."""
        block, node, last_id, max_deleted_id, entries_added, duration_s, pairs_max, added, duplicates, groups = short
        stream = Stream(limits)
        stream.last_id, stream.max_deleted_id, stream.entries_added = last_id, max_deleted_id, entries_added
        idempotence = stream.idempotence
        idempotence.duration_s, idempotence.entries_max = duration_s, pairs_max
        idempotence.added, idempotence.duplicates = added, duplicates
        stream.log.take_block(block)
        if node is not None:
            stream.nodes.add(node)
            # Later entries of a copy may not have been settled, and the last ones of a node may be deleted.
            stream.nodes.settled_id = min(node.last_id, stream.log.last_id)
        for short_group in groups:
            group = Group.of_short(short_group)
            stream.groups[group.name] = group
            if group.has_tables and not stream.log.has_all(group.pending.first_ids(ID_MIN, len(group.pending))):
                stream.log.has_strays = True
        return stream

    @property
    def memory_size(self) -> int:
        """Bytes of the whole stream, within a tenth. The run time is bounded: see `memory`."""
        return (
            STREAM_SIZE
            + self.log.memory_size
            + ledger_size(self.nodes)
            + self.measure_groups()
            + getsizeof(self.groups)
            + producers_size(self.idempotence)
            + (0 if self.later is None else self.later.memory_size)
        )

    def measure_groups(self) -> int:
        """Return the bytes of the groups. If there are many, their sizes are kept, and only some are measured again."""
        groups = self.groups
        if len(groups) <= GROUP_COUNT_AT_ONCE_MAX:
            self.group_sizes = None
            return sum(map(group_size, groups.values())) if groups else 0
        if self.group_sizes is None:
            self.group_sizes = GroupSizes(groups)
        return self.group_sizes.measure(groups)

    def expire_idempotence(self, now_ms: int) -> None:
        """Drop idempotency pairs that are too old. The server calls this once per second."""
        self.idempotence.expire(now_ms)

    def check(self) -> None:
        """Assert that every view of the stream agrees with the others. Raises AssertionError."""
        self.log.check()
        self.settle_nodes()
        assert sum(node.live for node in self.nodes.nodes) == self.log.length
        assert self.log.last_id <= self.last_id
        for group in self.groups.values():
            group.check()
