"""Commands that move elements from a list to another one."""

from __future__ import annotations

from typing import Final

from ...protocol.replies import Reply
from ...store.companions.list_value import ListValue
from ...store.errors import syntax_error
from ...store.events import LPOP, RPOP
from ..core.table import Argument, Flag, KeySpec, command
from ..execution.context import Context
from .ends import push

SIDES: Final = (b"LEFT", b"RIGHT")


def is_left(token: bytes) -> bool:
    """Whether a token is LEFT, not RIGHT. Raises GenericError if it is neither."""
    word = token.upper()
    if word not in SIDES:
        raise syntax_error()
    return word == b"LEFT"


def move(context: Context, source: bytes, destination: bytes, from_left: bool, to_left: bool) -> bytes | None:
    """Moves an element and returns it; None if there is none. Nothing is logged. Raises WrongType."""
    value = context.db.find_companion(source, ListValue, context.now_ms)
    if value is None:
        return None
    context.db.find_companion(destination, ListValue, context.now_ms)
    element = value.pop(1, from_left)[0]
    push(context, destination, [element], to_left)
    value.shrink()
    context.db.settle(source, value, LPOP if from_left else RPOP)
    return element


@command(
    "LMOVE",
    arity=5,
    flags=Flag.WRITE | Flag.DENYOOM,
    keys=(
        KeySpec(
            1,
            1,
            1,
            (
                "RW",
                "access",
                "delete",
            ),
        ),
        KeySpec(
            2,
            2,
            1,
            (
                "RW",
                "insert",
            ),
        ),
    ),
    categories=("list",),
    group="list",
    since="6.2.0",
    summary="Moves an element from an end of a list to an end of another one, and returns it.",
    complexity="O(1)",
    arguments=(
        Argument("source", "key", key_spec_index=0),
        Argument("destination", "key", key_spec_index=1),
        Argument(
            "wherefrom",
            "oneof",
            arguments=(
                Argument("left", "pure-token", token="LEFT"),
                Argument("right", "pure-token", token="RIGHT"),
            ),
        ),
        Argument(
            "whereto",
            "oneof",
            arguments=(
                Argument("left", "pure-token", token="LEFT"),
                Argument("right", "pure-token", token="RIGHT"),
            ),
        ),
    ),
)
def lmove(context: Context, argv: list[bytes]) -> Reply:
    """LMOVE source destination LEFT | RIGHT LEFT | RIGHT. Returns the element, null if there is none.
    Raises WrongType, GenericError. Source: Redis 6.2."""
    from_left = is_left(argv[3])
    element = move(context, argv[1], argv[2], from_left, is_left(argv[4]))
    if element is not None:
        context.log_words(argv)
    return element


@command(
    "RPOPLPUSH",
    arity=3,
    flags=Flag.WRITE | Flag.DENYOOM,
    keys=(
        KeySpec(
            1,
            1,
            1,
            (
                "RW",
                "access",
                "delete",
            ),
        ),
        KeySpec(
            2,
            2,
            1,
            (
                "RW",
                "insert",
            ),
        ),
    ),
    categories=("list",),
    group="list",
    since="1.2.0",
    summary="Moves the last element of a list before the first one of another list, and returns it.",
    complexity="O(1)",
    arguments=(
        Argument("source", "key", key_spec_index=0),
        Argument("destination", "key", key_spec_index=1),
    ),
    deprecated=("6.2.0", "`LMOVE` with the `RIGHT` and `LEFT` arguments"),
)
def rpoplpush(context: Context, argv: list[bytes]) -> Reply:
    """RPOPLPUSH source destination. Returns the element, null if there is none. Raises WrongType. Source: Redis 1.2."""
    element = move(context, argv[1], argv[2], False, True)
    if element is not None:
        context.log_words(argv)
    return element
