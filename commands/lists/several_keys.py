"""LMPOP, and what it shares with the command that waits."""

from __future__ import annotations

from ...protocol.replies import NULL_ARRAY, Reply
from ...store.companions.list_value import ListValue
from ...store.errors import syntax_error
from ..core.int64 import INT64_MAX
from ..core.numbers import integer_between
from ..core.table import Argument, Flag, KeySpec, command
from ..execution.context import Context
from .arguments import WHERE
from .ends import pop_array
from .moves import is_left


class PopRequest:
    """The arguments of LMPOP."""

    __slots__ = ("at_left", "count", "keys")

    def __init__(self, argv: list[bytes], start: int) -> None:
        """`start` is the index of the number of keys. Raises GenericError."""
        keys_count = integer_between(argv[start], 1, INT64_MAX, b"numkeys should be greater than 0")
        side = start + keys_count + 1
        if side >= len(argv):
            raise syntax_error()
        self.keys = argv[start + 1 : side]
        self.at_left = is_left(argv[side])
        self.count = 1
        rest = argv[side + 1 :]
        if rest:
            if rest[0].upper() != b"COUNT" or len(rest) == 1:
                raise syntax_error()
            self.count = integer_between(rest[1], 1, INT64_MAX, b"count should be greater than 0")
            if rest[2:]:
                raise syntax_error()


def pop_first(context: Context, request: PopRequest) -> Reply | None:
    """Pops from the first of the lists that exists, and logs it; None if there is none. Raises WrongType."""
    for key in request.keys:
        value = context.db.find_companion(key, ListValue, context.now_ms)
        if value is not None:
            count = min(request.count, len(value))
            context.log_words([b"LPOP" if request.at_left else b"RPOP", key, b"%d" % count], count)
            popped = pop_array(context, key, value, count, request.at_left)
            return (b"*2\r\n$%d\r\n%b\r\n" % (len(key), key), popped)
    return None


@command(
    "LMPOP",
    arity=-4,
    flags=Flag.WRITE | Flag.MOVABLEKEYS,
    keys=(KeySpec(2, 0, 1, ("RW", "access", "delete"), count_at=1, is_loose=True),),
    categories=("list",),
    group="list",
    since="7.0.0",
    summary="Removes elements at an end of the first list that has any, and returns them.",
    complexity="O(N + M): N keys, M elements returned.",
    arguments=(
        Argument("numkeys", "integer"),
        Argument("key", "key", multiple=True, key_spec_index=0),
        WHERE,
        Argument("count", "integer", token="COUNT", optional=True),
    ),
)
def lmpop(context: Context, argv: list[bytes]) -> Reply:
    """LMPOP numkeys key [key ...] <LEFT | RIGHT> [COUNT count]. Returns the key and its elements.

    Null if there are none. Raises WrongType, GenericError. Source: Redis 7.0.
    """
    reply = pop_first(context, PopRequest(argv, 1))
    return NULL_ARRAY if reply is None else reply
