"""The marks and types of requests and records that are kept as bytes instead of words, and of lines among records."""

from __future__ import annotations

from array import array
from typing import Final, TypeAlias

from ...protocol.requests import Request

# Entries, the two halves of their IDs, and the end offset of each entry.
Added: TypeAlias = "tuple[bytes, array[int], array[int], array[int]]"
# Group, consumer, all IDs, and for each record its number of IDs, the delivery time in Unix ms, and the delivery count.
Claimed: TypeAlias = "tuple[bytes, bytes, list[bytes], list[tuple[int, int, int]]]"


class _Mark(bytes):
    """Bytes that are equal only to the same object, so that no client can send them."""

    __slots__ = ()
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other


# The first item of a request that is kept as it was sent: `[ADDITION, key, sent, cap]` is `XADD key [MAXLEN ~ cap] *
# field value ...`. `sent` has all its bytes, and `cap` is empty without MAXLEN. The stored entry and its record are
# made by copying these bytes (benchmark rows XADD).
ADDITION: Final = _Mark(b"XADD")

# The first item of a run of records that are kept as they are in the log: `[ADDITIONS, key, sent, count]` is `count`
# times `XADD key id field value ...`, with ascending IDs. `sent` has all their bytes (benchmark row reload).
ADDITIONS: Final = _Mark(b"XADD")

# The first item of a run of claims that are kept as they are in the log: `[CLAIMS, key, sent, count]` is `count` times
# `XCLAIM key group consumer 0 id ... TIME ms RETRYCOUNT count JUSTID FORCE`, as a rewrite records the pending entries
# of one consumer.
CLAIMS: Final = _Mark(b"XCLAIM")

# The first item of a run of whole streams that are kept as they are in the log: `[STREAMS, b"", sent, count]` is
# `count` records, as a rewrite writes streams of few entries: for each stream some `XADD key id field value ...` with
# ascending IDs, and `XSETID key id ENTRIESADDED n MAXDELETEDID id`.
STREAMS: Final = _Mark(b"XSETID")


# The first item of a policy line between the records of a log: `[POLICY, word, ...]`.
POLICY: Final = _Mark(b"#HR")

# Number of items of a request or a run that is kept.
KEPT_COUNT: Final = 4


def is_run(record: Request) -> bool:
    """Whether this is a run of records that are kept as they are in the log: `ADDITIONS`, `CLAIMS` or `STREAMS`."""
    mark = record[0]
    return mark is ADDITIONS or mark is CLAIMS or mark is STREAMS
