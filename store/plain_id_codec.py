"""Entry IDs to and from text and columns: `id_codec` where that was not compiled. Both do the same."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from itertools import accumulate
from operator import sub
from typing import Final

SEQ_BITS: Final = 72
SEQ_MASK: Final = (1 << SEQ_BITS) - 1
DIGITS_MAX: Final = 19
"""Digits of a number that surely fits 64 bits."""


def read_id(token: bytes, missing_seq: int = 0) -> int | None:
    """The ID that `ms-seq`, or `ms` with `missing_seq`, means; None if it is not as plain as that."""
    ms, dash, seq = token.partition(b"-")
    if ms.isdigit() and len(ms) <= DIGITS_MAX:
        if seq.isdigit() and len(seq) <= DIGITS_MAX:
            return int(ms) << SEQ_BITS | int(seq)
        if not dash:
            return int(ms) << SEQ_BITS | missing_seq
    return None


def read_ids(tokens: list[bytes], start: int) -> list[int] | None:
    """The IDs of `tokens[start:]`; None if one of them is not plain."""
    ids: list[int] = []
    for token in tokens[start:]:
        entry_id = read_id(token)
        if entry_id is None:
            return None
        ids.append(entry_id)
    return ids


def format_id(entry_id: int) -> bytes:
    """Canonical decimal form, `ms-seq`."""
    return b"%d-%d" % (entry_id >> SEQ_BITS, entry_id & SEQ_MASK)


def bulk_ids(ids: list[int]) -> bytes:
    """The IDs as bulk strings, one behind the other."""
    texts = map(format_id, ids)
    return b"".join([b"$%d\r\n%b\r\n" % (len(text), text) for text in texts])


def ids_between(ms: array[int], seq: array[int], low: int, high: int) -> list[int]:
    """The IDs whose halves stand in two columns at `low` to `high` (excluded)."""
    return [ms << SEQ_BITS | seq for ms, seq in zip(ms[low:high], seq[low:high], strict=True)]


def position_of(ms: array[int], seq: array[int], entry_id: int) -> int:
    """Index of the first ID in ascending columns that is not below `entry_id`."""
    wanted_ms = entry_id >> SEQ_BITS
    low = bisect_left(ms, wanted_ms)
    if low == len(ms) or ms[low] != wanted_ms:
        return low
    return bisect_left(seq, entry_id & SEQ_MASK, low, bisect_right(ms, wanted_ms, low))


def add_row(ms: array[int], seq: array[int], ends: array[int], entry_id: int, end: int) -> None:
    """Add an ID and an end offset to the columns."""
    ms.append(entry_id >> SEQ_BITS)
    seq.append(entry_id & SEQ_MASK)
    ends.append(end)


def differences(column: array[int]) -> array[int]:
    """The first number, and what each that follows adds to the one before it; the column ascends."""
    steps = column[:1]
    steps.extend(array("Q", map(sub, column[1:], column)))
    return steps


def running_sums(steps: array[int]) -> array[int]:
    """The inverse of `differences`."""
    return array("Q", accumulate(steps))
