"""Entries counted into Redis' nodes: `node_counts` for installations without a C compiler. Both behave alike."""

from __future__ import annotations

from array import array
from typing import Final

from hiredis import Reader

from .node_sizes import Continued, Opened, OpenNode, integer_size, signed_difference, string_size

IS_COMPILED: Final = False

# Bytes of a node without its entries, its field names and their number.
HEAD_SIZE: Final = 7 + 2 + 2 + 2

# Integers up to here take two bytes in a listpack.
SMALL_MAX: Final = 127

# Strings up to this length have a header of one byte.
SHORT_MAX: Final = 63


def count_run(
    data: bytes, ms: array[int], seq: array[int], size_max: int, entries_max: int, node: OpenNode | None
) -> tuple[Continued, list[Opened]]:
    """Count entries that follow each other, given as their reply forms and the halves of their IDs, into `node` and the
    new nodes that Redis would open after it. `entries_max` 0: no limit.

    Hot: in the pure form, the first XTRIM or XINFO after a million XADDs waits for this. So small numbers and short
    strings, the usual case, are sized inline.
    """
    reader = Reader()
    reader.feed(b"*%d\r\n%b" % (len(ms), data))
    opened: list[Opened] = []
    continued = (0, 0)
    first_ms, first_seq, live, total, node_size, names = node if node is not None else (0, 0, 0, 0, size_max, [])
    first_row, added = -1, 0
    for row, (_, pairs) in enumerate(reader.gets()):
        if node_size + sum(map(len, pairs)) >= size_max or (entries_max and total >= entries_max):
            if first_row < 0:
                continued = (added, node_size)
            else:
                opened.append((first_row, added, node_size, names))
            if pairs[::2] != names:
                names = pairs[::2]
            first_row, first_ms, first_seq = row, ms[row], seq[row]
            live = total = added = 0
            node_size = HEAD_SIZE + integer_size(len(names)) + sum(map(string_size, names))
        if live >= SMALL_MAX:  # with fewer, the counter of live entries does not grow
            node_size += integer_size(live + 1) - integer_size(live)
        delta_ms, delta_seq = ms[row] - first_ms, seq[row] - first_seq
        node_size += 2 if 0 <= delta_ms <= SMALL_MAX else integer_size(signed_difference(ms[row], first_ms))
        node_size += 2 if 0 <= delta_seq <= SMALL_MAX else integer_size(signed_difference(seq[row], first_seq))
        if pairs[::2] == names:
            texts = pairs[1::2]
            node_size += 2 + integer_size(len(texts) + 3)
        else:
            texts = pairs
            node_size += 2 + integer_size(len(texts) // 2) + integer_size(len(texts) + 4)
        for text in texts:
            length = len(text)
            node_size += length + 2 if length <= SHORT_MAX and not text[-1:].isdigit() else string_size(text)
        live += 1
        total += 1
        added += 1
    if first_row < 0:
        return (added, node_size), opened
    opened.append((first_row, added, node_size, names))
    return continued, opened
