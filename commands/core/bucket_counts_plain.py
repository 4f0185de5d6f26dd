"""Sums and ranks of the counts of a histogram: `bucket_counts` for installations without a C compiler.

Both behave alike. A histogram is a list of counts by bucket; all buckets have the same width.
"""

from __future__ import annotations

from operator import mul


def summed(counts: list[int], width: int) -> tuple[int, int]:
    """The sum of the counts, and of the values, of which each counts as the middle of its bucket."""
    return sum(counts), sum(map(mul, counts, range(width >> 1, len(counts) * width, width)))


def ranked(counts: list[int], ranks: list[int]) -> list[int]:
    """For each rank, the index of the bucket with the value of this rank; the number of buckets if none has it.

    The smallest value has rank 1.
    """
    found: list[int] = []
    # `seen` is the sum of the counts before `index`.
    index = seen = 0
    for rank in ranks:
        if rank <= seen:
            index = seen = 0
        while index < len(counts) and seen + counts[index] < rank:
            seen += counts[index]
            index += 1
        found.append(index)
    return found
