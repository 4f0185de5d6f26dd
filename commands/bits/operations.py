"""BITOP: bitwise operations on strings."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import and_, or_, xor
from typing import Final

from ...protocol.replies import Reply
from ...store.errors import GenericError, syntax_error
from ...store.events import DEL, SET
from ...store.text import edited
from ..core.table import Argument, KeySpec, command
from ..execution.context import Context
from ..strings.values import WRITE
from .ranges import PIECE_SIZE


def _all(numbers: list[int]) -> int:
    return reduce(and_, numbers)


def _any(numbers: list[int]) -> int:
    return reduce(or_, numbers)


def _odd(numbers: list[int]) -> int:
    return reduce(xor, numbers)


def _only_in_first(numbers: list[int]) -> int:
    return numbers[0] & ~_any(numbers[1:])


def _only_in_others(numbers: list[int]) -> int:
    return _any(numbers[1:]) & ~numbers[0]


def _in_first_and_others(numbers: list[int]) -> int:
    return numbers[0] & _any(numbers[1:])


def _in_one(numbers: list[int]) -> int:
    """The bits that exactly one number has."""
    once = several = 0
    for number in numbers:
        several |= once & number
        once |= number
    return once & ~several


# What makes one integer of those of the source keys. NOT has a table of its own.
COMBINATIONS: Final[dict[bytes, Callable[[list[int]], int]]] = {
    b"AND": _all,
    b"OR": _any,
    b"XOR": _odd,
    b"DIFF": _only_in_first,
    b"DIFF1": _only_in_others,
    b"ANDOR": _in_first_and_others,
    b"ONE": _in_one,
}
# Operations on the first source key and all others.
OF_FIRST_AND_OTHERS: Final = (b"DIFF", b"DIFF1", b"ANDOR")
NOT: Final = b"NOT"
_INVERTED: Final = bytes(range(255, -1, -1))


def _combined(texts: list[bytes], combine: Callable[[list[int]], int]) -> bytes:
    """Returns the result of an operation. Zeros follow the shorter strings."""
    size = max(map(len, texts))
    pieces: list[bytes] = []
    for begin in range(0, size, PIECE_SIZE):
        end = min(begin + PIECE_SIZE, size)
        # Low bytes first: then bytes that a string does not have are zeros of its integer.
        numbers = [int.from_bytes(text[begin:end], "little") for text in texts]
        pieces.append(combine(numbers).to_bytes(end - begin, "little"))
    return b"".join(pieces)


@command(
    "BITOP",
    arity=-4,
    flags=WRITE,
    keys=(KeySpec(2, 2, 1, ("OW", "update")), KeySpec(3, -1, 1, ("RO", "access"))),
    categories=("bitmap",),
    group="bitmap",
    since="2.6.0",
    summary="Combines the bits of strings and stores the result.",
    complexity="O(N) in the total length of the strings.",
    arguments=(
        Argument(
            "operation",
            "oneof",
            arguments=(
                Argument("and", "pure-token", token="AND"),
                Argument("or", "pure-token", token="OR"),
                Argument("xor", "pure-token", token="XOR"),
                Argument("not", "pure-token", token="NOT"),
                Argument("diff", "pure-token", token="DIFF"),
                Argument("diff1", "pure-token", token="DIFF1"),
                Argument("andor", "pure-token", token="ANDOR"),
                Argument("one", "pure-token", token="ONE"),
            ),
        ),
        Argument("destkey", "key", key_spec_index=0),
        Argument("key", "key", multiple=True, key_spec_index=1),
    ),
)
def bitop(context: Context, argv: list[bytes]) -> Reply:
    """BITOP <AND | OR | XOR | NOT | DIFF | DIFF1 | ANDOR | ONE> destkey key [key ...]

    DIFF has the bits that only the first key has, DIFF1 those that any other key has and the first has not, ANDOR those
    that the first and any other have, ONE those that exactly one key has. Zeros follow the shorter strings; a missing
    key is an empty string. The result replaces a value of any type; an empty result deletes the key.

    Returns the length of the result in bytes. Raises WrongType, GenericError.
    Source: redis.io/commands/bitop, Redis 8.2.
    """
    name, target, sources = argv[1].upper(), argv[2], argv[3:]
    if name != NOT and name not in COMBINATIONS:
        raise syntax_error()
    if name == NOT and len(sources) != 1:
        raise GenericError(b"BITOP NOT must be called with a single source key.")
    if name in OF_FIRST_AND_OTHERS and len(sources) < 2:
        raise GenericError(b"BITOP %b must be called with at least two source keys." % name)
    db, now_ms = context.db, context.now_ms
    texts = [db.read_string(key, now_ms) or b"" for key in sources]
    result = texts[0].translate(_INVERTED) if name == NOT else _combined(texts, COMBINATIONS[name])
    if result:
        db.overwrite(target, edited(result), SET, now_ms)
        context.log_words(argv)
    elif db.delete(target, DEL):
        context.log_words(argv)
    return len(result)
