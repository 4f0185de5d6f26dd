"""Commands that insert at the cursor of an array."""

from __future__ import annotations

from typing import Final

from ...protocol.replies import Reply
from ...store.companions.array_value import INDEX_MAX, ArrayValue
from ...store.errors import GenericError, syntax_error, wrong_number_of_arguments
from ...store.events import ARINSERT, ARRING, ARSEEK
from ..core.numbers import integer_or
from ..core.table import Argument, Flag, command
from ..execution.context import Context
from .arguments import KEY, READ_KEYS, UPDATE_KEYS, array_to_change, index_of, index_reply, null_reply

# Words of ARLASTITEMS with REV.
_REVERSED: Final = 4


@command(
    "ARINSERT",
    arity=-3,
    flags=Flag.WRITE | Flag.DENYOOM | Flag.FAST,
    keys=UPDATE_KEYS,
    categories=("array",),
    group="array",
    since="8.8.0",
    summary="Stores elements in an array after the cursor, and moves it.",
    complexity="O(N) in the number of elements.",
    arguments=(KEY, Argument("value", multiple=True)),
)
def arinsert(context: Context, argv: list[bytes]) -> Reply:
    """ARINSERT key value [value ...]. Returns the last index. Raises WrongType, GenericError. Source: Redis 8.8."""
    key, elements = argv[1], argv[2:]
    value = context.db.find_companion(key, ArrayValue, context.now_ms)
    if value is not None and value.next_index + len(elements) - 1 > INDEX_MAX:
        raise GenericError(b"insert index overflow")
    value = array_to_change(context, key)
    last = value.insert(elements)
    context.db.settle(key, value, ARINSERT)
    context.log_words(argv, len(elements))
    return index_reply(last)


@command(
    "ARLASTITEMS",
    arity=-3,
    flags=Flag.READONLY,
    keys=READ_KEYS,
    categories=("array",),
    group="array",
    since="8.8.0",
    summary="Returns the elements of an array that were inserted last.",
    complexity="O(N) in the number of elements returned.",
    arguments=(KEY, Argument("count", "integer"), Argument("rev", "pure-token", token="REV", optional=True)),
)
def arlastitems(context: Context, argv: list[bytes]) -> Reply:
    """ARLASTITEMS key count [REV]. Returns up to count elements, the newest last, or first with REV; null for an empty
    index. Raises WrongType, GenericError. Source: Redis 8.8."""
    count = integer_or(argv[2], b"invalid COUNT")
    if count <= 0:
        return []
    if len(argv) > _REVERSED:
        raise wrong_number_of_arguments(b"arlastitems")
    if len(argv) == _REVERSED and argv[3].upper() != b"REV":
        raise syntax_error()
    value = context.db.read_companion(argv[1], ArrayValue, context.now_ms)
    if value is None:
        return []
    count = min(count, len(value))
    return (b"*%d\r\n" % count, value.encoded_newest(count, len(argv) == _REVERSED, null_reply(context)))


@command(
    "ARNEXT",
    arity=2,
    flags=Flag.READONLY | Flag.FAST,
    keys=READ_KEYS,
    categories=("array",),
    group="array",
    since="8.8.0",
    summary="Returns the index after the cursor of an array.",
    complexity="O(1)",
    arguments=(KEY,),
)
def arnext(context: Context, argv: list[bytes]) -> Reply:
    """ARNEXT key. Returns the index that ARINSERT would use, 0 if the key is missing, null if no index is left.
    Raises WrongType. Source: Redis 8.8."""
    value = context.db.read_companion(argv[1], ArrayValue, context.now_ms)
    if value is None:
        return 0
    return index_reply(value.next_index) if value.next_index <= INDEX_MAX else None


@command(
    "ARRING",
    arity=-4,
    flags=Flag.WRITE | Flag.DENYOOM,
    keys=UPDATE_KEYS,
    categories=("array",),
    group="array",
    since="8.8.0",
    summary="Stores elements in an array that is used as a ring of a given size.",
    complexity="O(N) in the number of elements; O(N+M) if the ring gets another size, where M is the size.",
    arguments=(KEY, Argument("size", "integer"), Argument("value", multiple=True)),
)
def arring(context: Context, argv: list[bytes]) -> Reply:
    """ARRING key size value [value ...]. Returns the last index. Elements outside of a smaller ring are removed.
    Raises WrongType, GenericError. Source: Redis 8.8."""
    size = integer_or(argv[2], b"invalid size")
    if size <= 0:
        raise GenericError(b"size must be positive")
    elements = argv[3:]
    value = array_to_change(context, argv[1])
    last = value.insert_in_ring(size, elements)
    context.db.settle(argv[1], value, ARRING)
    context.log_words(argv, len(elements))
    return last


@command(
    "ARSEEK",
    arity=3,
    flags=Flag.WRITE | Flag.FAST,
    keys=UPDATE_KEYS,
    categories=("array",),
    group="array",
    since="8.8.0",
    summary="Moves the cursor of an array, so that an index is next.",
    complexity="O(1)",
    arguments=(KEY, Argument("index", "integer")),
)
def arseek(context: Context, argv: list[bytes]) -> Reply:
    """ARSEEK key index. Returns 1, 0 if the key is missing. After index 2^64 - 1 nothing can be inserted.
    Raises WrongType, GenericError. Source: Redis 8.8."""
    index = index_of(argv[2], INDEX_MAX + 1)
    value = context.db.find_companion(argv[1], ArrayValue, context.now_ms)
    if value is None:
        return 0
    value.cursor = index - 1 if index else None
    context.db.settle(argv[1], value, ARSEEK)
    context.log_words(argv)
    return 1
