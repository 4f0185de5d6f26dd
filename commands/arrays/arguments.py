"""Keys, indexes and replies that several commands on arrays share."""

from __future__ import annotations

from typing import Final

from ...protocol.replies import BigNumber, Reply
from ...store.companions.array_value import INDEX_MAX, ArrayValue
from ...store.errors import GenericError
from ...store.ids import loose_number
from ..core.int64 import INT64_MAX
from ..core.numbers import integer, plain_numbers
from ..core.table import Argument, KeySpec
from ..execution.context import Context

READ_KEYS: Final = (KeySpec(1, 1, 1, ("RO", "access")),)
UPDATE_KEYS: Final = (KeySpec(1, 1, 1, ("RW", "update")),)
DELETE_KEYS: Final = (KeySpec(1, 1, 1, ("RW", "delete")),)
KEY: Final = Argument("key", "key", key_spec_index=0)
# Digits of an index that is surely not too large: most are read at once.
PLAIN_SIZE_MAX: Final = 18
RANGE: Final = (Argument("start", "integer"), Argument("end", "integer"))


def index_of(token: bytes, maximum: int = INDEX_MAX) -> int:
    """The index that a text spells, as C's strtoull reads it: see `loose_number`. Raises GenericError."""
    if len(token) <= PLAIN_SIZE_MAX and token.isdigit():
        return int(token)
    try:
        index = loose_number(token.partition(b"\0")[0])
    except GenericError:
        index = maximum + 1
    if index > maximum:
        raise GenericError(b"invalid array index")
    return index


def indexes_of(argv: list[bytes], step: int) -> list[int]:
    """The indexes that the arguments after the key spell, or each `step`-th of them. Raises GenericError."""
    indexes = plain_numbers(argv, 2, step)
    return [index_of(token) for token in argv[2::step]] if indexes is None else indexes


def index_reply(index: int) -> Reply:
    """An index or a length as a reply: a number larger than 64 signed bits is a big number."""
    return index if index <= INT64_MAX else BigNumber(b"%d" % index)


def null_reply(context: Context) -> bytes:
    """What stands for an empty index among encoded elements."""
    return b"_\r\n" if context.client.protocol == 3 else b"$-1\r\n"


def limit_of(token: bytes) -> int:
    """The number after LIMIT. Raises GenericError."""
    limit = integer(token)
    if limit <= 0:
        raise GenericError(b"LIMIT must be positive")
    return limit


def array_to_change(context: Context, key: bytes) -> ArrayValue:
    """The array at a key. A missing one is created, and gets an element from the caller. Raises WrongType."""
    value = context.db.find_companion(key, ArrayValue, context.now_ms)
    if value is None:
        value = ArrayValue(context.limits)
        context.db.add(key, value)
    return value
