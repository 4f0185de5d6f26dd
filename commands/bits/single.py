"""Commands on one bit of a string: SETBIT, GETBIT."""

from __future__ import annotations

from typing import Final

from ...protocol.replies import Reply
from ...store.database import Database
from ...store.editing import spliced
from ...store.errors import GenericError
from ...store.events import SETBIT
from ...store.text import EMBEDDED_SIZE_MAX, EditedText
from ..core.numbers import integer_between, parse_integer
from ..core.table import Argument, Flag, KeySpec, command
from ..execution.context import Context
from ..strings.part import string_size
from ..strings.values import KEY_ARGUMENT, READ_KEY, WRITE

NOT_AN_OFFSET: Final = b"bit offset is not an integer or out of range"
NOT_A_BIT: Final = b"bit is not an integer or out of range"

# All bytes, each as a string.
SINGLE_BYTES: Final = tuple(bytes((number,)) for number in range(256))


def bit_offset(context: Context, token: bytes, unit: int = 1) -> int:
    """Returns the index of a bit, which is `unit` times the number in `token`. Raises GenericError.

    The bit is in the first proto-max-bulk-len bytes. While a log is loaded it may be anywhere, because the limit may
    have been larger when the log was written.
    """
    number = parse_integer(token)
    if number is None or number < 0:
        raise GenericError(NOT_AN_OFFSET)
    offset = number * unit
    if offset >> 3 >= context.server.config.proto_max_bulk_len and not context.replaying:
        raise GenericError(NOT_AN_OFFSET)
    return offset


def make_room(db: Database, key: bytes, byte_index: int, last_byte: bytes, now_ms: int) -> bool:
    """Creates or extends the string at `key`, so that it has a byte at this index. Returns whether it did: then the
    string ends with `last_byte`, after zeros.

    Only a new key is announced. The string is `raw` from then on, even if nothing changes later, as in Redis.
    Raises WrongType.
    """
    # Only the length: a reference to the string would make `edit` copy the string.
    size = string_size(db, key, now_ms)
    if size is None:
        db.add(key, spliced(b"", byte_index, last_byte))
        return True
    if size <= byte_index:
        db.edit(key, byte_index, last_byte)
        return True
    if size <= EMBEDDED_SIZE_MAX and not isinstance(db.keys[key], EditedText):
        db.edit(key, 0, b"")
    return False


def _byte_at(db: Database, key: bytes, index: int) -> int:
    """Returns a byte of the string at `key`. A function of its own, so that no reference to the string remains."""
    value = db.keys[key]
    assert isinstance(value, bytes)
    return value[index]


@command(
    "SETBIT",
    arity=4,
    flags=WRITE,
    keys=(KeySpec(1, 1, 1, ("RW", "access", "update")),),
    categories=("bitmap",),
    group="bitmap",
    since="2.2.0",
    summary="Sets or clears one bit of a string; creates or extends the string if necessary.",
    complexity="O(1)",
    arguments=(KEY_ARGUMENT, Argument("offset", "integer"), Argument("value", "integer")),
)
def setbit(context: Context, argv: list[bytes]) -> Reply:
    """SETBIT key offset value

    Bit 0 is the highest bit of the first byte. Fills missing bytes with zeros. Returns the old bit.
    Raises WrongType, GenericError. Source: Redis 2.2.
    """
    key, db = argv[1], context.db
    offset = bit_offset(context, argv[2])
    bit = integer_between(argv[3], 0, 1, NOT_A_BIT)
    index, mask = offset >> 3, 0x80 >> (offset & 7)
    if make_room(db, key, index, SINGLE_BYTES[mask if bit else 0], context.now_ms):
        db.touch(key, SETBIT)
        context.log_words(argv)
        return 0
    byte = _byte_at(db, key, index)
    old = 1 if byte & mask else 0
    if old != bit:
        db.splice(key, index, SINGLE_BYTES[byte ^ mask], SETBIT)
        context.log_words(argv)
    return old


@command(
    "GETBIT",
    arity=3,
    flags=Flag.READONLY | Flag.FAST,
    keys=READ_KEY,
    categories=("bitmap",),
    group="bitmap",
    since="2.2.0",
    summary="Returns one bit of a string.",
    complexity="O(1)",
    arguments=(KEY_ARGUMENT, Argument("offset", "integer")),
)
def getbit(context: Context, argv: list[bytes]) -> Reply:
    """GETBIT key offset. Returns the bit, 0 if the string has none there or the key is missing.

    Raises WrongType, GenericError. Source: Redis 2.2.
    """
    offset = bit_offset(context, argv[2])
    text = context.db.read_string(argv[1], context.now_ms)
    index = offset >> 3
    if text is None or index >= len(text):
        return 0
    return text[index] >> (7 - (offset & 7)) & 1
