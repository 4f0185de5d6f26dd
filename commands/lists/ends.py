"""Commands that add or remove elements at the ends of a list."""

from __future__ import annotations

from typing import Final

from ...protocol.replies import NULL_ARRAY, Reply
from ...store.companions.list_value import ListValue
from ...store.errors import wrong_number_of_arguments
from ...store.events import LPOP, LPUSH, RPOP, RPUSH
from ..core.int64 import INT64_MAX
from ..core.numbers import integer_between
from ..core.table import Argument, Flag, KeySpec, command
from ..execution.context import Context

# Words of LPOP and RPOP with a count.
COUNTED: Final = 3


def push(context: Context, key: bytes, elements: list[bytes], at_left: bool) -> int:
    """Adds elements at an end of the list at a key, which is created if it is missing, and announces it. Nothing is
    logged. Returns the new length. Raises WrongType."""
    db = context.db
    value = db.find_companion(key, ListValue, context.now_ms)
    if value is None:
        value = ListValue(context.limits)
        db.add(key, value)
    if at_left:
        value.push_left(elements)
    else:
        value.push_right(elements)
    length = len(value)
    db.settle(key, value, LPUSH if at_left else RPUSH)
    db.signal_ready(key)
    return length


def pop(context: Context, key: bytes, value: ListValue, at_left: bool) -> bytes:
    """Removes the element at an end of a list, and announces it. Nothing is logged."""
    popped = value.pop(1, at_left)[0]
    _announce(context, key, value, at_left)
    return popped


def pop_array(context: Context, key: bytes, value: ListValue, count: int, at_left: bool) -> bytes:
    """Like `pop`, for `count` elements. Returns the array of them, encoded."""
    popped = value.pop_encoded(count, at_left)
    _announce(context, key, value, at_left)
    return b"*%d\r\n%b" % (count, popped)


def _announce(context: Context, key: bytes, value: ListValue, at_left: bool) -> None:
    value.shrink()
    context.db.settle(key, value, LPOP if at_left else RPOP)


def _push(context: Context, argv: list[bytes], at_left: bool) -> Reply:
    length = push(context, argv[1], argv[2:], at_left)
    context.log_words(argv, len(argv) - 2)
    return length


def _push_if_there(context: Context, argv: list[bytes], at_left: bool) -> Reply:
    if context.db.find_companion(argv[1], ListValue, context.now_ms) is None:
        return 0
    return _push(context, argv, at_left)


def _pop(context: Context, argv: list[bytes], at_left: bool) -> Reply:
    count = -1
    if len(argv) > COUNTED:
        raise wrong_number_of_arguments(b"lpop" if at_left else b"rpop")
    if len(argv) == COUNTED:
        count = integer_between(argv[2], 0, INT64_MAX, b"value is out of range, must be positive")
    value = context.db.find_companion(argv[1], ListValue, context.now_ms)
    if value is None:
        return None if count < 0 else NULL_ARRAY
    if not count:
        return []
    if count < 0:
        context.log_words(argv)
        return pop(context, argv[1], value, at_left)
    count = min(count, len(value))
    context.log_words(argv, count)
    return (pop_array(context, argv[1], value, count, at_left),)


@command(
    "LPUSH",
    arity=-3,
    flags=Flag.WRITE | Flag.DENYOOM | Flag.FAST,
    keys=(KeySpec(1, 1, 1, ("RW", "insert")),),
    categories=("list",),
    group="list",
    since="1.0.0",
    summary="Adds elements before the first one of a list, one after the other. Creates the list if it is missing.",
    complexity="O(N) in the number of elements added.",
    arguments=(
        Argument("key", "key", key_spec_index=0),
        Argument("element", multiple=True),
    ),
    history=(("2.4.0", "Accepts multiple `element` arguments."),),
)
def lpush(context: Context, argv: list[bytes]) -> Reply:
    """LPUSH key element [element ...]. Returns the new length. Raises WrongType. Source: Redis 1.0."""
    return _push(context, argv, True)


@command(
    "RPUSH",
    arity=-3,
    flags=Flag.WRITE | Flag.DENYOOM | Flag.FAST,
    keys=(KeySpec(1, 1, 1, ("RW", "insert")),),
    categories=("list",),
    group="list",
    since="1.0.0",
    summary="Adds elements after the last one of a list. Creates the list if it is missing.",
    complexity="O(N) in the number of elements added.",
    arguments=(
        Argument("key", "key", key_spec_index=0),
        Argument("element", multiple=True),
    ),
    history=(("2.4.0", "Accepts multiple `element` arguments."),),
)
def rpush(context: Context, argv: list[bytes]) -> Reply:
    """RPUSH key element [element ...]. Returns the new length. Raises WrongType. Source: Redis 1.0."""
    return _push(context, argv, False)


@command(
    "LPUSHX",
    arity=-3,
    flags=Flag.WRITE | Flag.DENYOOM | Flag.FAST,
    keys=(KeySpec(1, 1, 1, ("RW", "insert")),),
    categories=("list",),
    group="list",
    since="2.2.0",
    summary="Adds elements before the first one of a list that exists.",
    complexity="O(N) in the number of elements added.",
    arguments=(
        Argument("key", "key", key_spec_index=0),
        Argument("element", multiple=True),
    ),
    history=(("4.0.0", "Accepts multiple `element` arguments."),),
)
def lpushx(context: Context, argv: list[bytes]) -> Reply:
    """LPUSHX key element [element ...]. Returns the new length, 0 if the key is missing. Raises WrongType.
    Source: Redis 2.2."""
    return _push_if_there(context, argv, True)


@command(
    "RPUSHX",
    arity=-3,
    flags=Flag.WRITE | Flag.DENYOOM | Flag.FAST,
    keys=(KeySpec(1, 1, 1, ("RW", "insert")),),
    categories=("list",),
    group="list",
    since="2.2.0",
    summary="Adds elements after the last one of a list that exists.",
    complexity="O(N) in the number of elements added.",
    arguments=(
        Argument("key", "key", key_spec_index=0),
        Argument("element", multiple=True),
    ),
    history=(("4.0.0", "Accepts multiple `element` arguments."),),
)
def rpushx(context: Context, argv: list[bytes]) -> Reply:
    """RPUSHX key element [element ...]. Returns the new length, 0 if the key is missing. Raises WrongType.
    Source: Redis 2.2."""
    return _push_if_there(context, argv, False)


@command(
    "LPOP",
    arity=-2,
    flags=Flag.WRITE | Flag.FAST,
    keys=(KeySpec(1, 1, 1, ("RW", "access", "delete")),),
    categories=("list",),
    group="list",
    since="1.0.0",
    summary="Removes the first elements of a list and returns them.",
    complexity="O(N) in the number of elements returned.",
    arguments=(
        Argument("key", "key", key_spec_index=0),
        Argument("count", "integer", optional=True, since="6.2.0"),
    ),
    history=(("6.2.0", "Added the `count` argument."),),
)
def lpop(context: Context, argv: list[bytes]) -> Reply:
    """LPOP key [count]. Returns the first element, or an array with a count; null if the key is missing.
    Raises WrongType, GenericError. Source: Redis 6.2."""
    return _pop(context, argv, True)


@command(
    "RPOP",
    arity=-2,
    flags=Flag.WRITE | Flag.FAST,
    keys=(KeySpec(1, 1, 1, ("RW", "access", "delete")),),
    categories=("list",),
    group="list",
    since="1.0.0",
    summary="Removes the last elements of a list and returns them.",
    complexity="O(N) in the number of elements returned.",
    arguments=(
        Argument("key", "key", key_spec_index=0),
        Argument("count", "integer", optional=True, since="6.2.0"),
    ),
    history=(("6.2.0", "Added the `count` argument."),),
)
def rpop(context: Context, argv: list[bytes]) -> Reply:
    """RPOP key [count]. Returns the last element, or an array with a count; null if the key is missing.
    Raises WrongType, GenericError. Source: Redis 6.2."""
    return _pop(context, argv, False)
