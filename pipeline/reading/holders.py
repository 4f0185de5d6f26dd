"""The consumers that hold the entries of a batch in queue mode. Their names say which entries they hold:

    <consumer>-<token>-<batch>-<part>       the entries taken for a part of the batch
    <consumer>-<token>-<batch>-<part>.<n>   the entries of the part that were read after n tasks of it had failed

A task that fails releases the entries of its part. On Redis the lease may claim some of them back, without knowing. So
the failing task first makes the next consumer. From then on, tasks move the entries that they read to that consumer,
and only its entries count as read. As long as no task has failed, a part has one consumer and all its entries are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from ...store.ids import parse_id
from ..errors import Refused
from .group import FATAL, Group, Held


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch of a query, known by the query's token and a sequence number."""

    # The option `consumer`, the prefix of the names of its consumers.
    consumer: str
    # Distinguishes the query from other queries; empty until the query has one.
    token: str
    sequence: int

    @classmethod
    def from_offset(cls, consumer: str, offset: dict[str, Any]) -> Batch:
        """Returns the batch that ends at an offset of Spark's checkpoint."""
        return cls(consumer, str(offset.get("token", "")), int(offset["seq"]))

    @property
    def offset(self) -> dict[str, Any]:
        """The offset at which the batch ends, for Spark's checkpoint."""
        return {"seq": self.sequence} | ({"token": self.token} if self.token else {})

    def next(self) -> Batch:
        """Returns the batch after this one."""
        return replace(self, sequence=self.sequence + 1)

    @property
    def prefix(self) -> str:
        """The prefix of the names of the batch's consumers."""
        return f"{self._query_prefix}{self.sequence}-"

    @property
    def _query_prefix(self) -> str:
        """The prefix of the names of the consumers of all the query's batches."""
        return f"{self.consumer}-{self.token}-"

    def consumer_of(self, part: int) -> str:
        """Returns the consumer to which the entries of a part are delivered first."""
        return f"{self.prefix}{part}"

    def parts(self, group: Group) -> list[Part]:
        """Returns the parts that have consumers in a stream; none without a token."""
        if not self.token:
            return []
        names = [name.removeprefix(self.prefix) for name in group.consumers() if name.startswith(self.prefix)]
        return [Part(group, self.prefix + number) for number in sorted({name.partition(".")[0] for name in names})]

    def drop_emptied(self, group: Group) -> None:
        """Deletes consumers of earlier batches that have no pending entries any more.

        With `ackMode=manual`, entries may be settled or claimed long after their batch was committed.
        """
        for name, row in group.consumers().items():
            sequence = name.removeprefix(self._query_prefix).partition("-")[0]
            is_before = name.startswith(self._query_prefix) and sequence.isdecimal() and int(sequence) < self.sequence
            if self.token and is_before and not row[b"pending"]:
                group.drop(name)


class Part:
    """A part of a batch in one stream, held by one or more consumers. All methods raise PipelineError."""

    def __init__(self, group: Group, consumer: str) -> None:
        self.group = group
        self.consumer = consumer

    def holders(self) -> dict[str, int]:
        """Returns the number of pending entries of each of the part's consumers, oldest consumer first."""
        found: dict[int, tuple[str, int]] = {}
        for name, row in self.group.consumers().items():
            first, _, failures = name.removeprefix(self.consumer).partition(".")
            if name.startswith(self.consumer) and not first:
                found[int(failures or 0)] = (name, row[b"pending"])
        return dict(found[failures] for failures in sorted(found))

    def count(self) -> int:
        """Returns how many entries the part's consumers hold."""
        return sum(self.holders().values())

    def held(self) -> Iterator[tuple[str, Held]]:
        """Yields the entries of the part in pages, each with its consumer."""
        for name, count in self.holders().items():
            if count:
                for held in self.group.held(name):
                    yield name, held

    def read(self) -> Iterator[tuple[str, Held]]:
        """Yields the entries to read in pages, ascending, each with the consumer that holds them."""
        *before, reader = self.holders() or [self.consumer]
        if not before:
            for held in self.group.held(reader):
                yield reader, held
            return
        # Another task of this part may be moving entries to the last consumer meanwhile. So all entries are listed
        # before any is read, those of the last consumer last: none is missed.
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
        """Releases the part's entries after a task that read it has failed, for other consumers or another attempt."""
        failures = len(self.holders())
        while not self.group.make_consumer(f"{self.consumer}.{failures}"):  # another failing task has made it
            failures += 1
        for _, held in self.held():
            self.group.release(held.ids)

    def count_again(self) -> None:
        """Adds one delivery to the part's entries, because a repeated batch reads them again.

        Entries that have reached the server's limit are released instead: they become dead letters.
        """
        most = self.group.deliveries_max
        for name, held in self.held():
            for count in set(held.counts) - {FATAL}:
                ids = [one for one, own in zip(held.ids, held.counts, strict=True) if own == count]
                if 0 < most <= count:
                    self.group.release(ids)
                else:
                    self.group.renew(name, ids, count + 1)

    def settle(self, acknowledge: bool, *, delete: bool) -> None:
        """Ends the part once its batch is committed: acknowledges entries read, releases others, deletes consumers."""
        *before, reader = self.holders() or [self.consumer]
        for name in before:
            for held in self.group.held(name):
                try:
                    self.group.release(held.ids)
                except Refused:  # the server cannot release: the entries stay pending until claimed as idle
                    break
        if acknowledge:
            for held in self.group.held(reader):
                self.group.acknowledge(held.ids, delete=delete, owner=reader)
        self.drop()

    def drop(self) -> None:
        """Deletes the part's consumers, except those with pending entries."""
        for name in self.holders():
            self.group.drop(name)
