"""Counts the rows of each producer, to warn of a batch with more rows than a stream recognises when it is repeated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

# Producers that a task reports to the driver: those with most rows.
PRODUCERS_MAX = 1000


@dataclass
class Tally:
    """The number of rows written under each producer, and how many rows of a producer each stream remembers.

    It counts every row, including rows that the stream recognised.
    """

    # Rows written, by stream and producer.
    rows: Counter[tuple[bytes, bytes]] = field(default_factory=Counter)
    # Rows of each producer that a stream remembers, by stream.
    remembered: dict[bytes, int] = field(default_factory=dict)

    def fullest(self) -> Tally:
        """Returns the tally of the producers with most rows."""
        return Tally(Counter(dict(self.rows.most_common(PRODUCERS_MAX))), self.remembered)

    @classmethod
    def together(cls, tallies: Iterable[Tally]) -> Tally:
        """Returns the sum of tallies."""
        total = cls()
        for tally in tallies:
            total.rows.update(tally.rows)
            total.remembered.update(tally.remembered)
        return total

    def complaints(self) -> list[str]:
        """Returns a warning for each stream that could not recognise all rows of a repeated batch."""
        most: dict[bytes, int] = {}
        for (stream, _), count in self.rows.items():
            most[stream] = max(count, most.get(stream, 0))
        return [
            f"stream {stream.decode('utf-8', 'replace')}: {count} rows of a batch have the same producer, of which the "
            f"stream remembers {self.remembered[stream]} rows: if the batch is repeated, the earlier ones are written "
            "again. Write smaller batches, or spread the rows over producers with a column _pid"
            for stream, count in most.items()
            if count > self.remembered[stream]
        ]
