"""Commands over the length of a list and its ranges."""

from __future__ import annotations

from ...protocol.replies import OK, Reply
from ...store.companions.list_value import ListValue
from ...store.events import LTRIM
from ..core.numbers import integer
from ..core.table import Argument, Flag, KeySpec, command
from ..execution.context import Context


def _bounds(start: int, stop: int, length: int) -> tuple[int, int]:
    """The first place of a range and the number of its elements. Negative numbers count from the end."""
    start = max(start + length, 0) if start < 0 else start
    stop = min(stop + length if stop < 0 else stop, length - 1)
    return (0, 0) if start > stop else (start, stop - start + 1)


@command(
    "LLEN",
    arity=2,
    flags=Flag.READONLY | Flag.FAST,
    keys=(KeySpec(1, 1, 1, ("RO",)),),
    categories=("list",),
    group="list",
    since="1.0.0",
    summary="Counts the elements of a list.",
    complexity="O(1)",
    arguments=(Argument("key", "key", key_spec_index=0),),
)
def llen(context: Context, argv: list[bytes]) -> Reply:
    """LLEN key. Returns the length, 0 if the key is missing. Raises WrongType. Source: Redis 1.0."""
    value = context.db.read_companion(argv[1], ListValue, context.now_ms)
    return 0 if value is None else len(value)


@command(
    "LRANGE",
    arity=4,
    flags=Flag.READONLY,
    keys=(KeySpec(1, 1, 1, ("RO", "access")),),
    categories=("list",),
    group="list",
    since="1.0.0",
    summary="Returns the elements of a list between two places.",
    complexity="O(S + N): S nodes up to the start, N elements returned.",
    arguments=(
        Argument("key", "key", key_spec_index=0),
        Argument("start", "integer"),
        Argument("stop", "integer"),
    ),
)
def lrange(context: Context, argv: list[bytes]) -> Reply:
    """LRANGE key start stop. Returns the elements between the two places, both included.
    Raises WrongType, GenericError. Source: Redis 1.0."""
    start, stop = integer(argv[2]), integer(argv[3])
    value = context.db.read_companion(argv[1], ListValue, context.now_ms)
    if value is None:
        return []
    first, count = _bounds(start, stop, len(value))
    return (b"*%d\r\n" % count, value.elements.encoded(first, count))


@command(
    "LTRIM",
    arity=4,
    flags=Flag.WRITE,
    keys=(KeySpec(1, 1, 1, ("RW", "delete")),),
    categories=("list",),
    group="list",
    since="1.0.0",
    summary="Removes all elements of a list but those between two places.",
    complexity="O(N) in the number of elements removed.",
    arguments=(
        Argument("key", "key", key_spec_index=0),
        Argument("start", "integer"),
        Argument("stop", "integer"),
    ),
)
def ltrim(context: Context, argv: list[bytes]) -> Reply:
    """LTRIM key start stop. Returns OK. Raises WrongType, GenericError. Source: Redis 1.0."""
    start, stop = integer(argv[2]), integer(argv[3])
    value = context.db.find_companion(argv[1], ListValue, context.now_ms)
    if value is None:
        return OK
    length = len(value)
    first, count = _bounds(start, stop, length)
    value.elements.drop_range(first + count, length - first - count)
    value.elements.drop_range(0, first)
    value.shrink()
    context.db.settle(argv[1], value, LTRIM)
    if length > count:
        context.log_words(argv, length - count)
    return OK
