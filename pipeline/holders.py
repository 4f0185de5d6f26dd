"""The consumers that hold a batch of queue mode. Their names say what they hold:

    <consumer>-<token>-<batch>-<part>       what was taken for a part of the batch
    <consumer>-<token>-<batch>-<part>.<n>   what was read of it after its reading had failed n times

A task that fails releases what its part holds; the lease, which does not know yet, may take some of that back. So the
task first makes the next consumer. From then on tasks move to that one what they read, and only what it holds counts as
read. As long as nothing has failed there is one consumer, and all that it holds is read with its batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from ..store.ids import parse_id
from .errors import Refused
from .group import FATAL, Group, Held


@dataclass(frozen=True, slots=True)
class Batch:
    """Which batch, of which query."""

    consumer: str
    """The option `consumer`."""
    token: str
    """Tells the query from others; empty until it has one."""
    sequence: int

    @classmethod
    def from_offset(cls, consumer: str, offset: dict[str, Any]) -> Batch:
        """The batch that ends at an offset of Spark's checkpoint."""
        return cls(consumer, str(offset.get("token", "")), int(offset["seq"]))

    @property
    def offset(self) -> dict[str, Any]:
        """For Spark's checkpoint."""
        return {"seq": self.sequence} | ({"token": self.token} if self.token else {})

    def next(self) -> Batch:
        """The batch after this one."""
        return replace(self, sequence=self.sequence + 1)

    @property
    def prefix(self) -> str:
        """How the names of its consumers begin."""
        return f"{self._query_prefix}{self.sequence}-"

    @property
    def _query_prefix(self) -> str:
        """How the names of the consumers of all its batches begin."""
        return f"{self.consumer}-{self.token}-"

    def consumer_of(self, part: int) -> str:
        """The consumer for which a part is taken."""
        return f"{self.prefix}{part}"

    def parts(self, group: Group) -> list[Part]:
        """The parts that have consumers in a stream; without a token nothing was ever taken."""
        if not self.token:
            return []
        names = [name.removeprefix(self.prefix) for name in group.consumers() if name.startswith(self.prefix)]
        return [Part(group, self.prefix + number) for number in sorted({name.partition(".")[0] for name in names})]

    def drop_emptied(self, group: Group) -> None:
        """Delete the consumers of batches before this one that hold nothing any more: what their sink left unsettled
        has been settled or claimed since.
        """
        for name, row in group.consumers().items():
            sequence = name.removeprefix(self._query_prefix).partition("-")[0]
            is_before = name.startswith(self._query_prefix) and sequence.isdecimal() and int(sequence) < self.sequence
            if self.token and is_before and not row[b"pending"]:
                group.drop(name)


class Part:
    """A part of a batch in one stream. All methods raise PipelineError."""

    def __init__(self, group: Group, consumer: str) -> None:
        self.group = group
        self.consumer = consumer

    def holders(self) -> dict[str, int]:
        """How much each of its consumers holds, in the order in which they were made."""
        found: dict[int, tuple[str, int]] = {}
        for name, row in self.group.consumers().items():
            first, _, failures = name.removeprefix(self.consumer).partition(".")
            if name.startswith(self.consumer) and not first:
                found[int(failures or 0)] = (name, row[b"pending"])
        return dict(found[failures] for failures in sorted(found))

    def count(self) -> int:
        """How many entries it holds."""
        return sum(self.holders().values())

    def held(self) -> Iterator[tuple[str, Held]]:
        """What it holds, by consumer, in pages."""
        for name, count in self.holders().items():
            if count:
                for held in self.group.held(name):
                    yield name, held

    def read(self) -> Iterator[tuple[str, Held]]:
        """What is to be read of it, in pages, ascending; and the consumer that holds it then."""
        *before, reader = self.holders() or [self.consumer]
        if not before:
            for held in self.group.held(reader):
                yield reader, held
            return
        # Another task of this part may be moving entries meanwhile, but only to the last: all are listed before any is
        # read, those of the last at last, so that none is missed between two.
        listed = {}
        for name in (*before, reader):
            for held in self.group.held(name):
                rows = zip(held.ids, held.idle_ms, held.counts, strict=True)
                listed.update({entry_id: (entry_id, idle_ms, count) for entry_id, idle_ms, count in rows})
        ordered = sorted(listed.values(), key=lambda row: parse_id(row[0]))
        for start in range(0, len(ordered), self.group.page_size):
            ids, idle_ms, counts = map(list, zip(*ordered[start : start + self.group.page_size], strict=True))
            self.group.renew(reader, ids)
            yield reader, Held(ids, idle_ms, counts)

    def release(self) -> None:
        """Reading it has failed: give back what it holds, for others or for another try."""
        failures = len(self.holders())
        while not self.group.make_consumer(f"{self.consumer}.{failures}"):  # by another task that failed
            failures += 1
        for _, held in self.held():
            self.group.release(held.ids)

    def count_again(self) -> None:
        """It is about to be read again: that is another delivery of its entries."""
        for name, held in self.held():
            for count in set(held.counts) - {FATAL}:
                ids = [one for one, own in zip(held.ids, held.counts, strict=True) if own == count]
                self.group.renew(name, ids, count + 1)

    def settle(self, acknowledge: bool, *, delete: bool) -> None:
        """Its batch has been committed: acknowledge what was read, give back what was not, delete the consumers."""
        *before, reader = self.holders() or [self.consumer]
        for name in before:
            for held in self.group.held(name):
                try:
                    self.group.release(held.ids)
                except Refused:  # a server that cannot release: they stay pending, to be claimed once idle
                    break
        if acknowledge:
            for held in self.group.held(reader):
                self.group.acknowledge(held.ids, delete=delete)
        self.drop()

    def drop(self) -> None:
        """Delete its consumers, but for those that hold anything."""
        for name in self.holders():
            self.group.drop(name)
