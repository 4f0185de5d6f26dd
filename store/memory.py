"""The memory that the parts of keys and values take, in bytes: the objects, their tables, and what the allocator rounds
up.

The run time is bounded: streams keep the size of their sealed chunks, tables and lists are measured as a whole, and of
many groups or producers only some are measured.

The cache of unpacked chunks belongs to no key: see `chunk.unpacked_size`.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice, starmap
from sys import getsizeof
from typing import TYPE_CHECKING, Any, Final

from .. import is_compiled
from .object_sizes import COLLECTOR_SIZE, ID_SIZE, NUMBER_SIZE, REFERENCE_SIZE, text_size
from .pending import CONSUMER_SIZE

if TYPE_CHECKING:
    from .group import Group
    from .idempotence import Idempotence, Producer
    from .nodes import NodeLedger
    from .pending import PendingEntries

# Groups of a stream that are measured in one call, which takes some 20 us.
GROUP_COUNT_AT_ONCE_MAX: Final = 32

# Members of one kind that are measured; the others count as their mean.
SAMPLE_COUNT: Final = 32

# Producers of a stream that are measured: how many pairs they have may differ much.
PRODUCER_SAMPLE_COUNT: Final = 1024

# A number that is an attribute. Objects of compiled classes store it inside themselves.
ATTRIBUTE_NUMBER_SIZE: Final = 0 if is_compiled() else NUMBER_SIZE

# A stream without entries: its counters, its empty lists and tables.
STREAM_SIZE: Final = 724 + 4 * COLLECTOR_SIZE

# A node of the ledger, its field names not counted: those of neighbours are mostly shared.
NODE_SIZE: Final = 80 + COLLECTOR_SIZE + 2 * ID_SIZE + NUMBER_SIZE + 2 * REFERENCE_SIZE

# A group that never had a consumer or a released entry.
GROUP_SIZE: Final = 128 + COLLECTOR_SIZE

# What tables of its own take besides the sizes of their parts.
GROUP_TABLES_SIZE: Final = 96 + COLLECTOR_SIZE


def texts_size(table: dict[bytes, Any] | set[bytes]) -> int:
    """Bytes of a table and of the byte strings that are its keys."""
    return getsizeof(table) + sum(map(text_size, table))


def ledger_size(ledger: NodeLedger) -> int:
    """Bytes of the ledger of Redis' nodes, which is empty until it is needed."""
    return len(ledger.nodes) * NODE_SIZE + ledger.tree_size


class GroupSizes:
    """Sizes of the groups of a stream, each as of the last time that it was measured.

    All are measured once, at the beginning. Later, groups that a command has looked up are measured first, then the
    others in turn.
    """

    __slots__ = ("_round", "_sizes", "_total", "looked_up")

    def __init__(self, groups: dict[bytes, Group]) -> None:
        self._sizes = {group: group_size(group) for group in groups.values()}
        # The sum of `_sizes`.
        self._total = sum(self._sizes.values())
        # Groups to be measured in turn, the next one last.
        self._round: list[Group] = []
        # Groups that may have changed since they were measured.
        self.looked_up: dict[Group, None] = {}

    def measure(self, groups: dict[bytes, Group]) -> int:
        """Bytes of all the groups, of which at most `GROUP_COUNT_AT_ONCE_MAX` are measured now."""
        recent = list(islice(self.looked_up, GROUP_COUNT_AT_ONCE_MAX))
        for group in recent:
            del self.looked_up[group]
        if not self._round:
            self._round = list(groups.values())
        rest = GROUP_COUNT_AT_ONCE_MAX - len(recent)
        if rest:
            recent += self._round[-rest:]
            del self._round[-rest:]
        for group in recent:
            if groups.get(group.name) is group:
                size = group_size(group)
                self._total += size - self._sizes.get(group, 0)
                self._sizes[group] = size
        # New groups that have not been measured are small.
        return self._total + (len(groups) - len(self._sizes)) * GROUP_SIZE + getsizeof(self._sizes)

    def forget(self, group: Group) -> None:
        """Drop a group that was removed from the stream."""
        self._total -= self._sizes.pop(group, 0)
        self.looked_up.pop(group, None)


def group_size(group: Group) -> int:
    """Bytes of a group with its consumers and its pending entries."""
    consumers, own_size = group.consumers, GROUP_SIZE + text_size(group.name)
    if not group.has_tables:
        return own_size
    return (
        own_size
        + GROUP_TABLES_SIZE
        + getsizeof(consumers)
        + len(consumers) * CONSUMER_SIZE
        + estimated_total(map(text_size, consumers), len(consumers))
        + pending_size(group.pending)
    )


def pending_size(pending: PendingEntries) -> int:
    """Bytes of pending entries: the views of them, and the deliveries."""
    rules = pending.rules
    return pending.table_size + pending.runs_size + (0 if rules is None else rules.memory_size)


def producers_size(idempotence: Idempotence) -> int:
    """Bytes of idempotent producers with their pairs."""
    producers = idempotence.producers
    if not producers:
        return 0
    sizes = starmap(_producer_size, producers.items())
    return getsizeof(producers) + estimated_total(sizes, len(producers), PRODUCER_SAMPLE_COUNT)


def _producer_size(producer_id: bytes, producer: Producer) -> int:
    return text_size(producer_id) + producer.memory_size


def estimated_total(sizes: Iterable[int], count: int, sample_count: int = SAMPLE_COUNT) -> int:
    """The sum of `count` sizes, estimated from the mean of the first ones if there are many."""
    if count <= sample_count:
        return sum(sizes)
    return sum(islice(sizes, sample_count)) * count // sample_count
