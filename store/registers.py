"""The registers of HyperLogLogs, 16384 numbers of six bits, packed or with a byte for each, and what they estimate."""

from __future__ import annotations

from math import inf, sqrt
from typing import Final

from .hyperloglog_form import RANK_BITS, REGISTERS_COUNT

try:
    from .hyperloglog_codec import packed, place_of, raise_packed, raised_dense, raised_sparse, unpacked
except ImportError:  # there was no C compiler at installation
    from .hyperloglog_codec_plain import packed, place_of, raise_packed, raised_dense, raised_sparse, unpacked

__all__ = ["estimate", "packed", "place_of", "raise_packed", "raised_dense", "raised_sparse", "unpacked"]

INT64_MIN: Final = -(1 << 63)
INT64_END: Final = 1 << 63

_ALPHA: Final = 0.721347520444481703680


def estimate(counts: list[int]) -> int:
    """The number of distinct elements, from the histogram of the registers. It is INT64_MIN if it is too large.

    Source: Otmar Ertl, "New cardinality estimation algorithms for HyperLogLog sketches", arXiv:1702.01284. The order of
    the operations is that of Redis, so that they round alike.
    """
    size = float(REGISTERS_COUNT)
    total = size * _tau((size - counts[RANK_BITS + 1]) / size)
    for value in range(RANK_BITS, 0, -1):
        total += counts[value]
        total *= 0.5
    total += size * _sigma(counts[0] / size)
    # Without registers that the estimate knows, as only a text that was changed by other commands has them.
    found = _ALPHA * size * size / total if total else inf
    if found >= INT64_END:
        # So does the processor convert a number that does not fit.
        return INT64_MIN
    whole = int(found)
    return whole + 1 if found - whole >= 0.5 else whole


def _sigma(share: float) -> float:
    """The correction for registers that are 0, from their share of all registers."""
    if share == 1.0:
        return inf
    step, found, before = 1.0, share, -1.0
    while before != found:
        share *= share
        before = found
        found += share * step
        step += step
    return found


def _tau(share: float) -> float:
    """The correction for registers that have the highest rank, from the share of the others."""
    if share in (0.0, 1.0):
        return 0.0
    step, found, before = 1.0, 1.0 - share, -1.0
    while before != found:
        share = sqrt(share)
        before = found
        step *= 0.5
        rest = 1.0 - share
        found -= rest * rest * step
    return found / 3.0
