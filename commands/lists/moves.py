"""Commands that move elements from a list to another one."""

from __future__ import annotations

from typing import Final

from ...protocol.replies import NULL_ARRAY, Reply
from ...store.companions.list_value import ListValue
from ...store.errors import syntax_error
from ...store.events import LPOP, RPOP
from ..core.int64 import INT64_MAX
from ..core.numbers import integer_between
from ..core.table import Argument, Flag, command
from ..execution.context import Context
from .arguments import HOW_MANY, MOVE_ARGUMENTS, MOVE_KEYS
from .ends import push

SIDES: Final = (b"LEFT", b"RIGHT")
# Words that say how many elements LMOVEM moves.
HOW_MANY_WORDS: Final = 3


def is_left(token: bytes) -> bool:
    """Whether a token is LEFT, not RIGHT. Raises GenericError if it is neither."""
    word = token.upper()
    if word not in SIDES:
        raise syntax_error()
    return word == b"LEFT"


class MoveRequest:
    """The arguments of LMOVEM."""

    __slots__ = ("count", "destination", "from_left", "in_bulk", "is_exact", "sides", "source", "to_left")

    def __init__(self, argv: list[bytes], start: int) -> None:
        """`start` is the index of COUNT or EXACTLY. Raises GenericError."""
        self.source, self.destination, self.sides = argv[1], argv[2], argv[3:5]
        self.from_left, self.to_left = is_left(argv[3]), is_left(argv[4])
        self.count, self.is_exact, self.in_bulk = 1, False, False
        rest = argv[start:]
        if not rest:
            return
        word = rest[0].upper()
        if len(rest) != HOW_MANY_WORDS or word not in (b"COUNT", b"EXACTLY"):
            raise syntax_error()
        self.count = integer_between(rest[1], 1, INT64_MAX, b"count should be greater than 0")
        self.is_exact = word == b"EXACTLY"
        order = rest[2].upper()
        if order not in (b"OBO", b"BULK"):
            raise syntax_error()
        self.in_bulk = order == b"BULK"


def move_several(context: Context, request: MoveRequest) -> list[bytes] | None:
    """Moves elements and returns them; None if there are none, or too few. Nothing is logged. Raises WrongType."""
    value = context.db.find_companion(request.source, ListValue, context.now_ms)
    if value is None:
        return None
    if request.is_exact and len(value) < request.count:
        return None
    context.db.find_companion(request.destination, ListValue, context.now_ms)
    moved = value.pop(request.count, request.from_left)
    if request.in_bulk and not request.from_left:
        moved.reverse()
    pushed = moved[::-1] if request.in_bulk and request.to_left else moved
    popped = LPOP if request.from_left else RPOP
    if request.source == request.destination:
        context.db.announce(popped, request.source)
        push(context, request.destination, pushed, request.to_left)
        value.shrink()
    else:
        push(context, request.destination, pushed, request.to_left)
        value.shrink()
        context.db.settle(request.source, value, popped)
    return pushed[::-1] if request.to_left else pushed


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
    keys=MOVE_KEYS,
    categories=("list",),
    group="list",
    since="6.2.0",
    summary="Moves an element from an end of a list to an end of another one, and returns it.",
    complexity="O(1)",
    arguments=MOVE_ARGUMENTS,
)
def lmove(context: Context, argv: list[bytes]) -> Reply:
    """LMOVE source destination <LEFT | RIGHT> <LEFT | RIGHT>. Returns the element, null if there is none.

    Raises WrongType, GenericError. Source: Redis 6.2.
    """
    from_left = is_left(argv[3])
    element = move(context, argv[1], argv[2], from_left, is_left(argv[4]))
    if element is not None:
        context.log_words(argv)
    return element


@command(
    "RPOPLPUSH",
    arity=3,
    flags=Flag.WRITE | Flag.DENYOOM,
    keys=MOVE_KEYS,
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


@command(
    "LMOVEM",
    arity=-5,
    flags=Flag.WRITE | Flag.DENYOOM,
    keys=MOVE_KEYS,
    categories=("list",),
    group="list",
    since="8.10.0",
    summary="Moves several elements from a list to another one, and returns them.",
    complexity="O(N) in the number of elements moved.",
    arguments=(
        *MOVE_ARGUMENTS,
        HOW_MANY,
    ),
)
def lmovem(context: Context, argv: list[bytes]) -> Reply:
    """LMOVEM source destination <LEFT | RIGHT> <LEFT | RIGHT> [<COUNT count | EXACTLY count> <OBO | BULK>]

    Returns the elements in the order in which they are in the destination; null if there are none, or too few for
    EXACTLY. Raises WrongType, GenericError. Source: Redis 8.10.
    """
    request = MoveRequest(argv, 5)
    moved = move_several(context, request)
    if moved is None:
        return NULL_ARRAY
    context.log_words(argv, len(moved))
    return moved
