"""Commands on single elements of an array, and on its sizes."""

from __future__ import annotations

from ...protocol.replies import Reply
from ...store.companions.array_value import INDEX_MAX, ArrayValue
from ...store.errors import GenericError, no_such_key, syntax_error, wrong_number_of_arguments
from ...store.events import ARDEL, ARMSET, ARSET
from ..core.table import Argument, Flag, command
from ..execution.context import Context
from .arguments import DELETE_KEYS, KEY, READ_KEYS, UPDATE_KEYS, array_to_change, index_of, index_reply, indexes_of


@command(
    "ARCOUNT",
    arity=2,
    flags=Flag.READONLY | Flag.FAST,
    keys=READ_KEYS,
    categories=("array",),
    group="array",
    since="8.8.0",
    summary="Returns how many elements an array has.",
    complexity="O(1)",
    arguments=(KEY,),
)
def arcount(context: Context, argv: list[bytes]) -> Reply:
    """ARCOUNT key. Returns the number of elements, 0 if the key is missing. Raises WrongType. Source: Redis 8.8."""
    value = context.db.read_companion(argv[1], ArrayValue, context.now_ms)
    return 0 if value is None else len(value)


@command(
    "ARDEL",
    arity=-3,
    flags=Flag.WRITE | Flag.FAST,
    keys=DELETE_KEYS,
    categories=("array",),
    group="array",
    since="8.8.0",
    summary="Removes elements of an array by their indexes.",
    complexity="O(N) in the number of indexes.",
    arguments=(KEY, Argument("index", "integer", multiple=True)),
)
def ardel(context: Context, argv: list[bytes]) -> Reply:
    """ARDEL key index [index ...]. Returns how many elements were removed. Raises WrongType, GenericError.
    Source: Redis 8.8."""
    indexes = indexes_of(argv, 1)
    value = context.db.find_companion(argv[1], ArrayValue, context.now_ms)
    if value is None:
        return 0
    removed = value.remove_each(indexes)
    if removed:
        context.db.settle(argv[1], value, ARDEL)
        context.log_words(argv, removed)
    return removed


@command(
    "ARGET",
    arity=3,
    flags=Flag.READONLY | Flag.FAST,
    keys=READ_KEYS,
    categories=("array",),
    group="array",
    since="8.8.0",
    summary="Returns the element at an index of an array.",
    complexity="O(1)",
    arguments=(KEY, Argument("index", "integer")),
)
def arget(context: Context, argv: list[bytes]) -> Reply:
    """ARGET key index. Returns the element, null if there is none. Raises WrongType, GenericError.
    Source: Redis 8.8."""
    value = context.db.read_companion(argv[1], ArrayValue, context.now_ms)
    index = index_of(argv[2])
    return None if value is None else value.at(index)


@command(
    "ARINFO",
    arity=-2,
    flags=Flag.READONLY,
    keys=READ_KEYS,
    categories=("array",),
    group="array",
    since="8.8.0",
    summary="Describes an array.",
    complexity="O(N) in the number of slices.",
    arguments=(KEY, Argument("full", "pure-token", token="FULL", optional=True)),
)
def arinfo(context: Context, argv: list[bytes]) -> Reply:
    """ARINFO key [FULL]. Returns a map; FULL adds averages over the slices. Raises WrongType, GenericError.
    Source: Redis 8.8."""
    if len(argv) > 3 or (len(argv) == 3 and argv[2].upper() != b"FULL"):
        raise syntax_error()
    value = context.db.read_companion(argv[1], ArrayValue, context.now_ms)
    if value is None:
        raise no_such_key()
    slice_count, directory_size, block_count = value.slices.directory()
    found: dict[Reply, Reply] = {
        b"count": len(value),
        b"len": index_reply(value.end),
        # 0 also if no index is left.
        b"next-insert-index": index_reply(value.next_index if value.next_index <= INDEX_MAX else 0),
        b"slices": slice_count,
        b"directory-size": directory_size,
        b"super-dir-entries": block_count,
        b"slice-size": value.slices.slice_size,
    }
    if len(argv) == 3:
        dense_count, elements_count, dense_room, sparse_count, sparse_room = value.slices.shapes()
        found[b"dense-slices"] = dense_count
        found[b"sparse-slices"] = sparse_count
        found[b"avg-dense-size"] = dense_room / dense_count if dense_count else 0.0
        found[b"avg-dense-fill"] = elements_count / dense_room if dense_count else 0.0
        found[b"avg-sparse-size"] = sparse_room / sparse_count if sparse_count else 0.0
    return found


@command(
    "ARLEN",
    arity=2,
    flags=Flag.READONLY | Flag.FAST,
    keys=READ_KEYS,
    categories=("array",),
    group="array",
    since="8.8.0",
    summary="Returns the largest index of an array that has an element, plus one.",
    complexity="O(1)",
    arguments=(KEY,),
)
def arlen(context: Context, argv: list[bytes]) -> Reply:
    """ARLEN key. Returns the length, 0 if the key is missing. Raises WrongType. Source: Redis 8.8."""
    value = context.db.read_companion(argv[1], ArrayValue, context.now_ms)
    return 0 if value is None else index_reply(value.end)


@command(
    "ARMGET",
    arity=-3,
    flags=Flag.READONLY | Flag.FAST,
    keys=READ_KEYS,
    categories=("array",),
    group="array",
    since="8.8.0",
    summary="Returns the elements at several indexes of an array.",
    complexity="O(N) in the number of indexes.",
    arguments=(KEY, Argument("index", "integer", multiple=True)),
)
def armget(context: Context, argv: list[bytes]) -> Reply:
    """ARMGET key index [index ...]. Returns the elements, null for each empty index. Raises WrongType, GenericError.
    Source: Redis 8.8."""
    value = context.db.read_companion(argv[1], ArrayValue, context.now_ms)
    indexes = indexes_of(argv, 1)
    return [None] * len(indexes) if value is None else value.slices.many(indexes)


@command(
    "ARMSET",
    arity=-4,
    flags=Flag.WRITE | Flag.DENYOOM | Flag.FAST,
    keys=UPDATE_KEYS,
    categories=("array",),
    group="array",
    since="8.8.0",
    summary="Stores elements at several indexes of an array.",
    complexity="O(N) in the number of elements.",
    arguments=(
        KEY,
        Argument("data", "block", multiple=True, arguments=(Argument("index", "integer"), Argument("value"))),
    ),
)
def armset(context: Context, argv: list[bytes]) -> Reply:
    """ARMSET key index value [index value ...]. Returns how many of the indexes were empty. Raises WrongType,
    GenericError. Source: Redis 8.8."""
    if len(argv) % 2:
        raise wrong_number_of_arguments(b"armset")
    indexes = indexes_of(argv, 2)
    value = array_to_change(context, argv[1])
    added = value.put_each(indexes, argv[3::2])
    context.db.settle(argv[1], value, ARMSET)
    context.log_words(argv, len(indexes))
    return added


@command(
    "ARSET",
    arity=-4,
    flags=Flag.WRITE | Flag.DENYOOM | Flag.FAST,
    keys=UPDATE_KEYS,
    categories=("array",),
    group="array",
    since="8.8.0",
    summary="Stores elements in an array from an index on.",
    complexity="O(N) in the number of elements.",
    arguments=(KEY, Argument("index", "integer"), Argument("value", multiple=True)),
)
def arset(context: Context, argv: list[bytes]) -> Reply:
    """ARSET key index value [value ...]. Returns how many of the indexes were empty. Raises WrongType, GenericError.
    Source: Redis 8.8."""
    first = index_of(argv[2])
    elements = argv[3:]
    if first + len(elements) - 1 > INDEX_MAX:
        raise GenericError(b"array index overflow")
    value = array_to_change(context, argv[1])
    added = value.put_all(first, elements)
    context.db.settle(argv[1], value, ARSET)
    context.log_words(argv, len(elements))
    return added
