"""What keys and their values cost in memory, in bytes.

`value_size` is what giving a value up returns to the process, within a tenth: the objects, their tables, and what the
allocator rounds up. It takes time in proportion to a stream's groups and producers, never to its entries: streams know
the size of their sealed chunks, and tables and lists answer for all that they hold.

Unpacked copies of chunks at hand belong to no key: see `chunk.unpacked_size`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sized
from itertools import islice
from sys import getsizeof
from typing import TYPE_CHECKING, Final

from .. import is_compiled
from .ids import ID_MAX
from .pending import CONSUMER_SIZE

if TYPE_CHECKING:
    from .database import Value
    from .group import Group
    from .idempotence import Idempotence
    from .nodes import NodeLedger
    from .pending import PendingEntries
    from .stream import Stream

BLOCK_SIZE: Final = 16
"""The allocator gives memory out in steps of this."""

SAMPLE_COUNT: Final = 32
"""Members of one kind that are measured; the others count as their mean."""

ID_SIZE: Final = 48
"""An entry ID that is kept as a number."""
assert getsizeof(ID_MAX) <= ID_SIZE

NUMBER_SIZE: Final = 32
"""A time, a position or a count beyond the small ones, which cost nothing."""

HELD_NUMBER_SIZE: Final = 0 if is_compiled() else NUMBER_SIZE
"""The same as an attribute: objects of compiled classes hold it in themselves."""

REFERENCE_SIZE: Final = 8

STREAM_SIZE: Final = 788
"""A stream without entries: its counters, its empty lists and tables."""

NODE_SIZE: Final = 96 + 2 * ID_SIZE + NUMBER_SIZE + 2 * REFERENCE_SIZE
"""A node of the ledger, its field names not counted: those of neighbours are mostly shared."""

GROUP_SIZE: Final = 208
"""A group without consumers and pending entries."""

PRODUCER_SIZE: Final = 48 + 624
"""An idempotent producer without pairs: most of it is the first block of its queue."""

PAIR_SIZE: Final = ID_SIZE + REFERENCE_SIZE
"""A pair of an idempotent producer, its idempotent ID and its place in the table not counted."""

TABLE_SHARE_MAX: Final = 110
"""What a member adds to a table that has just grown."""


def text_size(text: bytes) -> int:
    """A byte string."""
    return len(text) + 33 + BLOCK_SIZE - 1 & -BLOCK_SIZE


def table_share(table: Sized) -> int:
    """What one member adds to a table, which is not empty; a table of few is larger than they need."""
    return min(TABLE_SHARE_MAX, getsizeof(table) // len(table))


def value_size(value: Value) -> int:
    """A key's value."""
    return text_size(value) if isinstance(value, bytes) else stream_size(value)


def stream_size(stream: Stream) -> int:
    """A stream: entries, the ledger of its nodes, groups with what is pending in them, and idempotent producers."""
    return (
        STREAM_SIZE
        + stream.log.memory_size
        + ledger_size(stream.nodes)
        + sum(group_size(group) for group in stream.groups.values())
        + getsizeof(stream.groups)
        + producers_size(stream.idempotence)
    )


def ledger_size(ledger: NodeLedger) -> int:
    """What is known of Redis' nodes; nothing until it is needed."""
    return len(ledger.nodes) * NODE_SIZE


def group_size(group: Group) -> int:
    """A group with its consumers and its pending entries."""
    consumers = group.consumers
    return (
        GROUP_SIZE
        + text_size(group.name)
        + getsizeof(consumers)
        + len(consumers) * CONSUMER_SIZE
        + _total(map(text_size, consumers), len(consumers))
        + pending_size(group.pending)
    )


def pending_size(pending: PendingEntries) -> int:
    """Pending entries: the views of them, and the deliveries."""
    return pending.table_size + pending.runs_size


def producers_size(idempotence: Idempotence) -> int:
    """Idempotent producers with their pairs."""
    producers = idempotence.producers
    if not producers:
        return 0
    sizes = (
        text_size(producer_id)
        + PRODUCER_SIZE
        + getsizeof(producer.ids)
        + len(producer.ids) * PAIR_SIZE
        + _total(map(text_size, producer.ids), len(producer.ids))
        for producer_id, producer in producers.items()
    )
    return getsizeof(producers) + _total(sizes, len(producers))


def _total(sizes: Iterable[int], count: int) -> int:
    """The sum, from the mean of the first ones if there are many."""
    if count <= SAMPLE_COUNT:
        return sum(sizes)
    return sum(islice(sizes, SAMPLE_COUNT)) * count // SAMPLE_COUNT
