"""A consumer group: its position in the stream, its consumers, and its pending entries."""

from __future__ import annotations

from typing import Final

from .class_marks import mypyc_attr
from .ids import StreamID
from .pending import NOTHING_PENDING, Consumer, PendingEntries
from .policies.group_policy import GroupPolicy
from .policies.rules import NO_POLICY, PendingRules

ENTRIES_READ_UNKNOWN: Final = -1

# Consumers of a short group, at most.
SHORT_CONSUMERS_MAX: Final = 16

# All of a group that is short: see `Group.short`. Its name, last-delivered ID and entries read; its consumers by name,
# each with the times when it was last seen and last active; its pending entries as `PendingEntries.block` returns them.
ShortGroup = tuple[bytes, StreamID, int, list[tuple[bytes, int, int]], bytes]

# The table of every group that never had a consumer or a released entry, so that such a group weighs little. It stays
# empty, and so does NOTHING_PENDING.
NO_CONSUMERS: Final[dict[bytes, Consumer]] = {}


@mypyc_attr(acyclic=True)
class Group:
    """`last_id` is the last-delivered ID; `entries_read` counts the stream's entries up to it, -1 when unknown.

    `add_consumer` and `release` replace `consumers` and `pending`, which are shared before, by tables of the group.
    """

    __slots__ = (
        "_sorted_consumers",
        "consumers",
        "entries_read",
        "last_id",
        "name",
        "pending",
    )

    def __init__(self, name: bytes, last_id: StreamID, entries_read: int = ENTRIES_READ_UNKNOWN) -> None:
        self.name = name
        self.last_id = last_id
        self.entries_read = entries_read
        self.consumers = NO_CONSUMERS
        self.pending = NOTHING_PENDING
        # The consumers by name, until the next one is added or removed.
        self._sorted_consumers: list[Consumer] | None = None

    def add_consumer(self, name: bytes, now_ms: int) -> Consumer:
        """Create a consumer. No consumer may have the name."""
        self._own_tables()
        consumer = self.consumers[name] = Consumer(name, now_ms)
        self._sorted_consumers = None
        rules = self.pending.rules
        if rules is not None and rules.absences is not None:
            rules.absences.expect(name, now_ms)
        return consumer

    def release(self, entry_id: StreamID, *, count: int) -> None:
        """Take an entry from its owner (XNACK), with this delivery count. It need not be pending (FORCE)."""
        self._own_tables()
        self.pending.release(entry_id, count=count)

    @property
    def has_tables(self) -> bool:
        """Whether the tables of consumers and of pending entries are those of this group."""
        return self.pending is not NOTHING_PENDING

    @property
    def policy(self) -> GroupPolicy | None:
        """What XGROUP CONFIG has set; None if nothing is set."""
        rules = self.pending.rules
        return None if rules is None or rules.policy is NO_POLICY else rules.policy

    def configure(self, policy: GroupPolicy | None) -> None:
        """Put settings in force; None for none."""
        if policy is not None or self.pending.rules is not None:
            self._own_tables()
            self.pending.configure(policy)
            self._expect_consumers()

    def _expect_consumers(self) -> None:
        """Look at each consumer when it may be absent for too long (CONSUMER-TTL)."""
        rules = self.pending.rules
        if rules is not None and rules.absences is not None:
            for consumer in self.consumers.values():
                rules.absences.expect(consumer.name, rules.absences.absent_since_ms(consumer))

    def require_rules(self) -> PendingRules:
        """The rules of the pending entries, which are made if there are none."""
        self._own_tables()
        return self.pending.require_rules()

    def _own_tables(self) -> None:
        if not self.has_tables:
            self.consumers, self.pending = {}, PendingEntries()

    def remove_consumer(self, name: bytes) -> int | None:
        """Remove a consumer and its pending entries. Returns how many entries it had, or None if there is no such
        consumer."""
        consumer = self.consumers.get(name)
        if consumer is None:
            return None
        count = self.pending.drop_consumer(consumer)
        del self.consumers[name]
        self._sorted_consumers = None
        rules = self.pending.rules
        if rules is not None and rules.absences is not None:
            rules.absences.forget(name)
        return count

    def sorted_consumers(self) -> list[Consumer]:
        """Consumers by name bytes, the order of every listing. The caller must not change the list."""
        if self._sorted_consumers is None:
            self._sorted_consumers = [self.consumers[name] for name in sorted(self.consumers)]
        return self._sorted_consumers

    def short(self) -> ShortGroup | None:
        """A copy of all that the group is, if that is little: few consumers, and few pending entries that all have an
        owner. Otherwise None."""
        if not self.has_tables:
            return self.name, self.last_id, self.entries_read, [], b""
        if len(self.consumers) > SHORT_CONSUMERS_MAX:
            return None
        consumers = self.sorted_consumers()
        block = self.pending.block(consumers)
        if block is None:
            return None
        rows = [(each.name, each.seen_ms, each.active_ms) for each in consumers]
        return self.name, self.last_id, self.entries_read, rows, block

    @staticmethod
    def of_short(short: ShortGroup) -> Group:
        """The group of which this is a copy. Raises ValueError for pending entries that are damaged."""
        name, last_id, entries_read, rows, block = short
        group = Group(name, last_id, entries_read)
        for consumer_name, seen_ms, active_ms in rows:
            group.add_consumer(consumer_name, seen_ms).active_ms = active_ms
        if block:
            group._own_tables()
            group.pending.take_block(block, list(group.consumers.values()))
        return group

    def copy(self) -> Group:
        """An independent group in the same state."""
        twin = Group(self.name, self.last_id, self.entries_read)
        for consumer in self.consumers.values():
            other = twin.add_consumer(consumer.name, consumer.seen_ms)
            other.active_ms = consumer.active_ms
        if self.has_tables:
            twin._own_tables()
            twin.pending = self.pending.copy(twin.consumers)
            twin._expect_consumers()
        return twin

    def check(self) -> None:
        """Assert that all views of the pending entries agree, and that the shared tables are empty."""
        assert not NO_CONSUMERS
        assert not NOTHING_PENDING
        self.pending.check(self.consumers)
