"""Commands on ranges of indexes of an array."""

from __future__ import annotations

from typing import Any, Final

from ...protocol.replies import Reply
from ...store.companions.array_value import ArrayValue
from ...store.errors import GenericError, syntax_error, wrong_number_of_arguments
from ...store.events import ARDELRANGE
from ..core.int64 import INT64_MAX
from ..core.table import Argument, Flag, command
from ..execution.context import Context
from .arguments import DELETE_KEYS, KEY, RANGE, READ_KEYS, index_of, index_reply, limit_of, null_reply

# Indexes that ARGETRANGE returns at most.
RANGE_MAX: Final = 1_000_000
# Words of ARSCAN without and with LIMIT.
_PLAIN: Final = 4
_LIMITED: Final = 6


@command(
    "ARDELRANGE",
    arity=-4,
    flags=Flag.WRITE,
    keys=DELETE_KEYS,
    categories=("array",),
    group="array",
    since="8.8.0",
    summary="Removes the elements in ranges of indexes of an array.",
    complexity="O(N) in the number of elements and slices in the ranges.",
    arguments=(KEY, Argument("range", "block", multiple=True, arguments=RANGE)),
)
def ardelrange(context: Context, argv: list[bytes]) -> Reply:
    """ARDELRANGE key start end [start end ...]. Returns how many elements were removed. Both ends of a range are
    included, in any order. Raises WrongType, GenericError. Source: Redis 8.8."""
    if len(argv) % 2:
        raise wrong_number_of_arguments(b"ardelrange")
    indexes = [index_of(token) for token in argv[2:]]
    value = context.db.find_companion(argv[1], ArrayValue, context.now_ms)
    if value is None:
        return 0
    removed = 0
    for at in range(0, len(indexes), 2):
        start, end = indexes[at], indexes[at + 1]
        removed += value.remove_range(min(start, end), max(start, end))
    if removed:
        context.db.settle(argv[1], value, ARDELRANGE)
        context.log_words(argv, removed)
    return removed


@command(
    "ARGETRANGE",
    arity=4,
    flags=Flag.READONLY,
    keys=READ_KEYS,
    categories=("array",),
    group="array",
    since="8.8.0",
    summary="Returns the elements in a range of indexes of an array, with empty indexes.",
    complexity="O(N) in the length of the range.",
    arguments=(KEY, *RANGE),
)
def argetrange(context: Context, argv: list[bytes]) -> Reply:
    """ARGETRANGE key start end. Returns the elements, null for each empty index; from the end if it is before the
    start. Raises WrongType, GenericError. Source: Redis 8.8."""
    start, end = index_of(argv[2]), index_of(argv[3])
    first, last = min(start, end), max(start, end)
    value = context.db.read_companion(argv[1], ArrayValue, context.now_ms)
    if last - first >= RANGE_MAX:
        raise GenericError(b"range exceeds maximum of %d items" % RANGE_MAX)
    if value is None:
        return [None] * (last - first + 1)
    elements = value.slices.encoded_range(first, last, end < start, null_reply(context))
    return (b"*%d\r\n" % (last - first + 1), elements)


@command(
    "ARSCAN",
    arity=-4,
    flags=Flag.READONLY,
    keys=READ_KEYS,
    categories=("array",),
    group="array",
    since="8.8.0",
    summary="Returns the elements in a range of indexes of an array with their indexes.",
    complexity="O(N) in the number of elements in the slices of the range.",
    arguments=(KEY, *RANGE, Argument("limit", "integer", token="LIMIT", optional=True)),
)
def arscan(context: Context, argv: list[bytes]) -> Reply:
    """ARSCAN key start end [LIMIT limit]. Returns pairs of an index and its element; from the end if it is before the
    start. Raises WrongType, GenericError. Source: Redis 8.8."""
    start, end = index_of(argv[2]), index_of(argv[3])
    limit = 0
    if len(argv) not in (_PLAIN, _LIMITED):
        raise wrong_number_of_arguments(b"arscan")
    if len(argv) == _LIMITED:
        if argv[4].upper() != b"LIMIT":
            raise syntax_error()
        limit = limit_of(argv[5])
    value = context.db.read_companion(argv[1], ArrayValue, context.now_ms)
    if value is None:
        return []
    first, last = min(start, end), max(start, end)
    count = limit or len(value)
    if last <= INT64_MAX:
        found_count, replies = value.slices.encoded_pairs(first, last, count, start > end)
        return (b"*%d\r\n" % found_count, replies)
    found: list[Any] = value.slices.pairs(first, last, count, start > end)
    for pair in found:
        pair[0] = index_reply(pair[0])
    return found
