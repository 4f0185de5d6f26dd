"""Commands that wait for an element of a list."""

from __future__ import annotations

from typing import Final

from ...protocol.replies import NULL_ARRAY, Reply
from ...store.companions.list_value import ListValue
from ..clients.blocking import Blocked
from ..core.numbers import timeout_in_seconds
from ..core.table import Argument, Flag, KeySpec, command
from ..execution.context import Context
from .arguments import HOW_MANY, MOVE_ARGUMENTS, MOVE_KEYS, WHERE
from .ends import pop
from .moves import MoveRequest, is_left, move, move_several
from .several_keys import PopRequest, pop_first

# Words of BLMOVEM that moves one element.
BLMOVEM_WORDS: Final = 6


def _wait(
    context: Context, keys: list[bytes], argv: list[bytes], timeout_ms: int, at_once: Reply = NULL_ARRAY
) -> Reply:
    """Waits; the reply is `at_once` in a transaction or a script."""
    if not context.may_block:
        return at_once
    return Blocked(keys, argv, timeout_ms or None, waits_for=ListValue)


def _pop(context: Context, argv: list[bytes], at_left: bool) -> Reply:
    timeout_ms = timeout_in_seconds(argv[len(argv) - 1], context.now_ms)
    keys = argv[1 : len(argv) - 1]
    for key in keys:
        value = context.db.find_companion(key, ListValue, context.now_ms)
        if value is not None:
            element = pop(context, key, value, at_left)
            context.log(b"LPOP" if at_left else b"RPOP", key)
            return [key, element]
    return _wait(context, keys, argv, timeout_ms)


@command(
    "BLPOP",
    arity=-3,
    flags=Flag.WRITE | Flag.BLOCKING,
    keys=(KeySpec(1, -2, 1, ("RW", "access", "delete")),),
    categories=("list",),
    group="list",
    since="2.0.0",
    summary="Removes the first element of the first list that has any. Waits if there is none.",
    complexity="O(N) in the number of keys.",
    arguments=(
        Argument("key", "key", multiple=True, key_spec_index=0),
        Argument("timeout", "double"),
    ),
    history=(("6.0.0", "`timeout` is interpreted as a double instead of an integer."),),
)
def blpop(context: Context, argv: list[bytes]) -> Reply:
    """BLPOP key [key ...] timeout. Returns the key and its first element, null after the time.
    Raises WrongType, GenericError. Source: Redis 6.0."""
    return _pop(context, argv, True)


@command(
    "BRPOP",
    arity=-3,
    flags=Flag.WRITE | Flag.BLOCKING,
    keys=(KeySpec(1, -2, 1, ("RW", "access", "delete")),),
    categories=("list",),
    group="list",
    since="2.0.0",
    summary="Removes the last element of the first list that has any. Waits if there is none.",
    complexity="O(N) in the number of keys.",
    arguments=(
        Argument("key", "key", multiple=True, key_spec_index=0),
        Argument("timeout", "double"),
    ),
    history=(("6.0.0", "`timeout` is interpreted as a double instead of an integer."),),
)
def brpop(context: Context, argv: list[bytes]) -> Reply:
    """BRPOP key [key ...] timeout. Returns the key and its last element, null after the time.
    Raises WrongType, GenericError. Source: Redis 6.0."""
    return _pop(context, argv, False)


@command(
    "BLMPOP",
    arity=-5,
    flags=Flag.WRITE | Flag.BLOCKING | Flag.MOVABLEKEYS,
    keys=(KeySpec(3, 0, 1, ("RW", "access", "delete"), count_at=2, is_loose=True),),
    categories=("list",),
    group="list",
    since="7.0.0",
    summary="Removes elements at an end of the first list that has any, and waits if there is none.",
    complexity="O(N + M): N keys, M elements returned.",
    arguments=(
        Argument("timeout", "double"),
        Argument("numkeys", "integer"),
        Argument("key", "key", multiple=True, key_spec_index=0),
        WHERE,
        Argument("count", "integer", token="COUNT", optional=True),
    ),
)
def blmpop(context: Context, argv: list[bytes]) -> Reply:
    """BLMPOP timeout numkeys key [key ...] <LEFT | RIGHT> [COUNT count]. Returns the key and its elements.

    Null after the time. Raises WrongType, GenericError. Source: Redis 7.0.
    """
    request = PopRequest(argv, 2)
    timeout_ms = timeout_in_seconds(argv[1], context.now_ms)
    reply = pop_first(context, request)
    return _wait(context, request.keys, argv, timeout_ms) if reply is None else reply


@command(
    "BLMOVE",
    arity=6,
    flags=Flag.WRITE | Flag.DENYOOM | Flag.BLOCKING,
    keys=MOVE_KEYS,
    categories=("list",),
    group="list",
    since="6.2.0",
    summary="Moves an element from a list to another one, and waits if there is none.",
    complexity="O(1)",
    arguments=(
        *MOVE_ARGUMENTS,
        Argument("timeout", "double"),
    ),
)
def blmove(context: Context, argv: list[bytes]) -> Reply:
    """BLMOVE source destination <LEFT | RIGHT> <LEFT | RIGHT> timeout. Returns the element, null after the time.
    Raises WrongType, GenericError. Source: Redis 6.2."""
    from_left, to_left = is_left(argv[3]), is_left(argv[4])
    timeout_ms = timeout_in_seconds(argv[5], context.now_ms)
    element = move(context, argv[1], argv[2], from_left, to_left)
    if element is None:
        return _wait(context, [argv[1]], argv, timeout_ms, None)
    context.log(b"LMOVE", argv[1], argv[2], argv[3], argv[4])
    return element


@command(
    "BRPOPLPUSH",
    arity=4,
    flags=Flag.WRITE | Flag.DENYOOM | Flag.BLOCKING,
    keys=MOVE_KEYS,
    categories=("list",),
    group="list",
    since="2.2.0",
    summary="Moves the last element of a list before the first one of another list, and waits if there is none.",
    complexity="O(1)",
    arguments=(
        Argument("source", "key", key_spec_index=0),
        Argument("destination", "key", key_spec_index=1),
        Argument("timeout", "double"),
    ),
    history=(("6.0.0", "`timeout` is interpreted as a double instead of an integer."),),
    deprecated=("6.2.0", "`BLMOVE` with the `RIGHT` and `LEFT` arguments"),
)
def brpoplpush(context: Context, argv: list[bytes]) -> Reply:
    """BRPOPLPUSH source destination timeout. Returns the element, null after the time.
    Raises WrongType, GenericError. Source: Redis 6.0."""
    timeout_ms = timeout_in_seconds(argv[3], context.now_ms)
    element = move(context, argv[1], argv[2], False, True)
    if element is None:
        return _wait(context, [argv[1]], argv, timeout_ms, None)
    context.log(b"RPOPLPUSH", argv[1], argv[2])
    return element


@command(
    "BLMOVEM",
    arity=-6,
    flags=Flag.WRITE | Flag.DENYOOM | Flag.BLOCKING,
    keys=MOVE_KEYS,
    categories=("list",),
    group="list",
    since="8.10.0",
    summary="Moves several elements from a list to another one, and waits if there are too few.",
    complexity="O(N) in the number of elements moved.",
    arguments=(
        *MOVE_ARGUMENTS,
        Argument("timeout", "double"),
        HOW_MANY,
    ),
)
def blmovem(context: Context, argv: list[bytes]) -> Reply:
    """BLMOVEM source destination <LEFT | RIGHT> <LEFT | RIGHT> timeout [<COUNT count | EXACTLY count> <OBO | BULK>]

    Returns the elements, null after the time. Raises WrongType, GenericError. Source: Redis 8.10.
    """
    is_left(argv[3])
    is_left(argv[4])
    timeout_ms = timeout_in_seconds(argv[5], context.now_ms)
    request = MoveRequest(argv, 6)
    moved = move_several(context, request)
    if moved is None:
        return _wait(context, [request.source], argv, timeout_ms)
    order = argv[len(argv) - 1].upper() if len(argv) > BLMOVEM_WORDS else b"BULK"
    context.log_words([b"LMOVEM", *argv[1:5], b"EXACTLY", b"%d" % len(moved), order], len(moved))
    return moved
