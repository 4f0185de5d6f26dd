"""A histogram of the durations of a command's calls, from which INFO computes their number, time and percentiles.

A call costs only one count. It counts when it has ended. A command that blocks is counted with the time of its last
run; with that of its first run if the wait ends without another run.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Final

try:
    from .bucket_counts import ranked, summed
except ImportError:  # there was no C compiler at installation
    from .bucket_counts_plain import ranked, summed

# Width of the buckets of short calls: 32 ns, about a twentieth of the shortest call.
SHORT_SHIFT: Final = 5

# Buckets of short calls, up to 16 us: nearly all of them.
SHORT_COUNT: Final = 512
# So many of them are made at once, as far as there are calls: INFO adds up all of each command that was ever called.
MADE_COUNT: Final = 32

# Precision of long calls: within a hundredth, as in Redis.
SIGNIFICANT_BITS: Final = 7

# Last power of two of LATENCY HISTOGRAM.
EDGE_NS_MAX: Final = 1 << 30


class Durations:
    """Counts of calls by duration in ns.

    Hot code counts `short[duration_ns >> SHORT_SHIFT] += 1`, and calls `add` if `short` has no such bucket.
    """

    __slots__ = ("_long", "_long_total_ns", "is_empty", "short")

    def __init__(self) -> None:
        # Whether no call was added since the last `clear`.
        self.is_empty = True
        # Always the same list; empty until the first call, and as long as the longest of them needs.
        self.short: list[int] = []
        # Counts by the longest duration of the bucket.
        self._long: defaultdict[int, int] = defaultdict(int)
        self._long_total_ns = 0

    def clear(self) -> None:
        """Remove all counts."""
        self.is_empty = True
        self.short.clear()
        self._long.clear()
        self._long_total_ns = 0

    def add(self, duration_ns: int) -> None:
        """Count a call."""
        self.is_empty = False
        bucket = duration_ns >> SHORT_SHIFT
        if bucket < SHORT_COUNT:
            missing = bucket + 1 - len(self.short)
            if missing > 0:
                self.short += [0] * (missing + -missing % MADE_COUNT)
            self.short[bucket] += 1
        else:
            self._long[_longest_like(duration_ns)] += 1
            self._long_total_ns += duration_ns

    def remove(self, duration_ns: int) -> None:
        """Remove the count of a call."""
        if duration_ns >> SHORT_SHIFT < SHORT_COUNT:
            self.short[duration_ns >> SHORT_SHIFT] -= 1
        else:
            self._long[_longest_like(duration_ns)] -= 1
            self._long_total_ns -= duration_ns

    @property
    def count(self) -> int:
        """Calls so far."""
        count, _ = self.totals()
        return count

    @property
    def total_ns(self) -> int:
        """Time of all calls."""
        _, total_ns = self.totals()
        return total_ns

    def totals(self) -> tuple[int, int]:
        """Calls so far, and their time in ns. Each short call counts as the middle of its bucket."""
        if self.is_empty:
            return 0, 0
        count, total_ns = summed(self.short, 1 << SHORT_SHIFT)
        if self._long:
            count += sum(self._long.values())
        return count, total_ns + self._long_total_ns

    def _buckets(self) -> Iterator[tuple[int, int]]:
        """(longest duration, count), in ascending order."""
        for index, count in enumerate(self.short):
            if count:
                yield (index + 1 << SHORT_SHIFT) - 1, count
        yield from sorted((longest_ns, count) for longest_ns, count in self._long.items() if count)

    def cumulative_us(self) -> list[tuple[int, int]]:
        """(longest duration in us, number of calls that took no longer), for each power of two that adds calls.

        The edges are those of LATENCY HISTOGRAM: powers of two from 1024 ns on, each with its 128th part. Calls longer
        than the last edge, a second, are counted there.
        """
        found: list[tuple[int, int]] = []
        total, edge_ns = 0, 1 << 10
        for longest_ns, count in self._buckets():
            while longest_ns >= edge_ns + (edge_ns >> 7) and edge_ns < EDGE_NS_MAX:
                edge_ns <<= 1
            total += count
            shown_us = (edge_ns + (edge_ns >> 7) - 1) // 1000
            if found and found[-1][0] == shown_us:
                found.pop()
            found.append((shown_us, total))
        return found

    def cumulative(self, edges_ns: Sequence[int]) -> list[int]:
        """The number of calls that took no longer than each edge; the edges ascend."""
        counts = [0] * (len(edges_ns) + 1)
        for longest_ns, count in self._buckets():
            counts[bisect_left(edges_ns, longest_ns)] += count
        return list(accumulate(counts[:-1]))

    def percentiles_ns(self, percents: Iterable[float]) -> list[int]:
        """For each percentage, the duration that so many percent of the calls did not exceed. Empty without calls."""
        if self.is_empty:
            return []
        short_count, _ = summed(self.short, 1 << SHORT_SHIFT)
        total = short_count + sum(self._long.values())
        if not total:
            return []
        # The shortest call has rank 1.
        ranks = [max(1, int(percent * total / 100 + 0.5)) for percent in percents]
        found = [(index + 1 << SHORT_SHIFT) - 1 for index in ranked(self.short, ranks)]
        if max(ranks, default=0) > short_count:
            self._find_long(found, ranks, short_count)
        return found

    def _find_long(self, found: list[int], ranks: list[int], short_count: int) -> None:
        """Put the durations of the long calls among these ranks in their places."""
        longest_ns = sorted(self._long)
        places = [index for index, rank in enumerate(ranks) if rank > short_count]
        buckets = ranked([self._long[each] for each in longest_ns], [ranks[place] - short_count for place in places])
        for place, bucket in zip(places, buckets, strict=True):
            found[place] = longest_ns[bucket] if bucket < len(longest_ns) else 0


def _longest_like(duration_ns: int) -> int:
    """The longest duration with the same significant bits."""
    shift = duration_ns.bit_length() - SIGNIFICANT_BITS
    return ((duration_ns >> shift) + 1 << shift) - 1
