"""Commands that find, replace, add and remove single elements of a list."""

from __future__ import annotations

from ...protocol.replies import OK, Reply
from ...store.companions.list_value import ListValue
from ...store.errors import GenericError, no_such_key, syntax_error
from ...store.events import LINSERT, LREM, LSET
from ..core.int64 import INT64_MAX, INT64_MIN
from ..core.numbers import integer, integer_between
from ..core.random_picks import OUT_OF_RANGE
from ..core.table import Argument, Flag, KeySpec, command
from ..execution.context import Context


@command(
    "LINDEX",
    arity=3,
    flags=Flag.READONLY,
    keys=(KeySpec(1, 1, 1, ("RO", "access")),),
    categories=("list",),
    group="list",
    since="1.0.0",
    summary="Returns the element at a place of a list.",
    complexity="O(N) in the number of nodes up to the place.",
    arguments=(
        Argument("key", "key", key_spec_index=0),
        Argument("index", "integer"),
    ),
)
def lindex(context: Context, argv: list[bytes]) -> Reply:
    """LINDEX key index. Returns the element, null if there is none. A negative index counts from the end.
    Raises WrongType, GenericError. Source: Redis 1.0."""
    value = context.db.read_companion(argv[1], ListValue, context.now_ms)
    if value is None:
        return None
    index = integer(argv[2])
    index = index + len(value) if index < 0 else index
    return value.elements.at(index) if 0 <= index < len(value) else None


@command(
    "LSET",
    arity=4,
    flags=Flag.WRITE | Flag.DENYOOM,
    keys=(KeySpec(1, 1, 1, ("RW", "update")),),
    categories=("list",),
    group="list",
    since="1.0.0",
    summary="Replaces the element at a place of a list.",
    complexity="O(N) in the number of nodes up to the place.",
    arguments=(
        Argument("key", "key", key_spec_index=0),
        Argument("index", "integer"),
        Argument("element"),
    ),
)
def lset(context: Context, argv: list[bytes]) -> Reply:
    """LSET key index element. Returns OK. Raises WrongType, GenericError. Source: Redis 1.0."""
    value = context.db.find_companion(argv[1], ListValue, context.now_ms)
    if value is None:
        raise no_such_key()
    index = integer(argv[2])
    index = index + len(value) if index < 0 else index
    value.make_room(argv[3])
    if not 0 <= index < len(value):
        raise GenericError(b"index out of range")
    value.elements.replace_at(index, argv[3])
    value.shrink()
    context.db.settle(argv[1], value, LSET)
    context.log_words(argv)
    return OK


@command(
    "LINSERT",
    arity=5,
    flags=Flag.WRITE | Flag.DENYOOM,
    keys=(KeySpec(1, 1, 1, ("RW", "insert")),),
    categories=("list",),
    group="list",
    since="2.2.0",
    summary="Adds an element before or after another one of a list.",
    complexity="O(N) in the number of elements before the other one.",
    arguments=(
        Argument("key", "key", key_spec_index=0),
        Argument(
            "where",
            "oneof",
            arguments=(
                Argument("before", "pure-token", token="BEFORE"),
                Argument("after", "pure-token", token="AFTER"),
            ),
        ),
        Argument("pivot"),
        Argument("element"),
    ),
)
def linsert(context: Context, argv: list[bytes]) -> Reply:
    """LINSERT key <BEFORE | AFTER> pivot element. Returns the new length; -1 if no element equals the pivot.

    0 if the key is missing. Raises WrongType, GenericError. Source: Redis 2.2.
    """
    where = argv[2].upper()
    if where not in (b"BEFORE", b"AFTER"):
        raise syntax_error()
    value = context.db.find_companion(argv[1], ListValue, context.now_ms)
    if value is None:
        return 0
    value.make_room(argv[4])
    if not value.elements.insert(argv[3], argv[4], where == b"AFTER"):
        return -1
    context.db.settle(argv[1], value, LINSERT)
    context.db.signal_ready(argv[1])
    context.log_words(argv)
    return len(value)


@command(
    "LREM",
    arity=4,
    flags=Flag.WRITE,
    keys=(KeySpec(1, 1, 1, ("RW", "delete")),),
    categories=("list",),
    group="list",
    since="1.0.0",
    summary="Removes the elements of a list that equal a given one.",
    complexity="O(N) in the length of the list.",
    arguments=(
        Argument("key", "key", key_spec_index=0),
        Argument("count", "integer"),
        Argument("element"),
    ),
)
def lrem(context: Context, argv: list[bytes]) -> Reply:
    """LREM key count element. Removes up to count elements from the left, from the right if it is negative, all if it
    is 0. Returns how many were removed. Raises WrongType, GenericError. Source: Redis 1.0."""
    count = integer(argv[2])
    if count == INT64_MIN:
        raise GenericError(OUT_OF_RANGE)
    value = context.db.find_companion(argv[1], ListValue, context.now_ms)
    if value is None:
        return 0
    removed = value.elements.remove_equal(argv[3], abs(count) or len(value), count >= 0)
    if removed:
        value.shrink()
        context.db.settle(argv[1], value, LREM)
        context.log_words(argv, removed)
    return removed


class _Search:
    """The options of LPOS."""

    __slots__ = ("count", "length_max", "rank")

    def __init__(self) -> None:
        self.rank = 1
        # None without COUNT; 0 for all places.
        self.count: int | None = None
        # 0 for all elements.
        self.length_max = 0


def _parse_search(argv: list[bytes]) -> _Search:
    search = _Search()
    for at in range(3, len(argv), 2):
        word = argv[at].upper()
        if at + 1 == len(argv):
            raise syntax_error()
        number = argv[at + 1]
        if word == b"RANK":
            search.rank = integer(number)
            if search.rank == INT64_MIN:
                raise GenericError(OUT_OF_RANGE)
            if not search.rank:
                raise GenericError(
                    b"RANK can't be zero: use 1 to start from the first match, 2 from the second ... "
                    b"or use negative to start from the end of the list"
                )
        elif word == b"COUNT":
            search.count = integer_between(number, 0, INT64_MAX, b"COUNT can't be negative")
        elif word == b"MAXLEN":
            search.length_max = integer_between(number, 0, INT64_MAX, b"MAXLEN can't be negative")
        else:
            raise syntax_error()
    return search


def _places(value: ListValue, element: bytes, search: _Search) -> list[int]:
    """The places of an element, as many as asked for."""
    count = 1 if search.count is None else search.count or len(value)
    return value.elements.places(
        element,
        skipped=abs(search.rank) - 1,
        count=min(count, len(value)),
        seen_max=min(search.length_max or len(value), len(value)),
        from_left=search.rank > 0,
    )


@command(
    "LPOS",
    arity=-3,
    flags=Flag.READONLY,
    keys=(KeySpec(1, 1, 1, ("RO", "access")),),
    categories=("list",),
    group="list",
    since="6.0.6",
    summary="Finds the places of an element in a list.",
    complexity="O(N) in the length of the list.",
    arguments=(
        Argument("key", "key", key_spec_index=0),
        Argument("element"),
        Argument("rank", "integer", token="RANK", optional=True),
        Argument("num-matches", "integer", token="COUNT", optional=True),
        Argument("len", "integer", token="MAXLEN", optional=True),
    ),
)
def lpos(context: Context, argv: list[bytes]) -> Reply:
    """LPOS key element [RANK rank] [COUNT num-matches] [MAXLEN len]

    Returns the place of the element, null if there is none; an array with COUNT. RANK is the number of the first match
    that counts, from the right if it is negative. MAXLEN limits how many elements are compared.
    Raises WrongType, GenericError. Source: Redis 6.0.6.
    """
    search = _parse_search(argv)
    value = context.db.read_companion(argv[1], ListValue, context.now_ms)
    places: list[int] = [] if value is None else _places(value, argv[2], search)
    if search.count is not None:
        return list(places)
    return places[0] if places else None
