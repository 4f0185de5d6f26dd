"""Commands on integers of any number of bits within strings: BITFIELD, BITFIELD_RO."""

from __future__ import annotations

from typing import Final

from ...protocol.replies import Reply
from ...store.database import Database
from ...store.errors import GenericError, syntax_error
from ...store.events import SETBIT
from ..core.numbers import integer
from ..core.table import Argument, Flag, KeySpec, command
from ..execution.context import Context
from ..strings.values import KEY_ARGUMENT, READ_KEY, WRITE
from .field_types import OVERFLOWS, WRAP, FieldType, parse_type
from .single import SINGLE_BYTES, bit_offset, make_room

GET: Final = b"GET"
SET: Final = b"SET"
INCRBY: Final = b"INCRBY"
OVERFLOW: Final = b"OVERFLOW"
# Arguments of each operation.
ARGUMENT_COUNTS: Final = {GET: 2, SET: 3, INCRBY: 3, OVERFLOW: 1}

GET_ARGUMENTS: Final = (Argument("encoding"), Argument("offset", "integer"))


class Operation:
    """One GET, SET or INCRBY."""

    __slots__ = ("first", "is_set", "is_write", "kind", "last", "number", "overflow", "shift")

    def __init__(self, name: bytes, kind: FieldType, offset: int, number: int, overflow: bytes) -> None:
        """`offset` is the index of the first bit of the field."""
        self.is_write = name != GET
        self.is_set = name == SET
        self.kind = kind
        # What is set or added.
        self.number = number
        self.overflow = overflow
        last_bit = offset + kind.size - 1
        # Indexes of the first and the last byte that the field is in, and the number of bits after it in the last one.
        self.first = offset >> 3
        self.last = last_bit >> 3
        self.shift = 7 - (last_bit & 7)


def _parse_operations(context: Context, argv: list[bytes]) -> list[Operation]:
    """Parses the operations of BITFIELD or BITFIELD_RO. Raises GenericError."""
    operations: list[Operation] = []
    overflow = WRAP
    index = 2
    while index < len(argv):
        name = argv[index].upper()
        count = ARGUMENT_COUNTS.get(name)
        if count is None or index + count >= len(argv):
            raise syntax_error()
        if name == OVERFLOW:
            overflow = argv[index + 1].upper()
            if overflow not in OVERFLOWS:
                raise GenericError(b"Invalid OVERFLOW type specified")
        else:
            kind = parse_type(argv[index + 1])
            # `#2` is the third of fields of this size.
            token = argv[index + 2]
            is_multiple = token[:1] == b"#"
            offset = bit_offset(context, token[1:] if is_multiple else token, kind.size if is_multiple else 1)
            number = 0 if name == GET else integer(argv[index + 3])
            operations.append(Operation(name, kind, offset, number, overflow))
        index += count + 1
    return operations


def _bits_around(text: bytes, operation: Operation) -> int:
    """Returns the bits of all bytes that a field is in, as one integer. Zeros follow the string."""
    bits, size = 0, len(text)
    for index in range(operation.first, operation.last + 1):
        bits = bits << 8 | (text[index] if index < size else 0)
    return bits


def _read(text: bytes, operation: Operation) -> int:
    """Returns the number in a field."""
    return operation.kind.from_bits(_bits_around(text, operation) >> operation.shift)


def _text_at(db: Database, key: bytes) -> bytes:
    value = db.keys[key]
    assert isinstance(value, bytes)
    return value


def _write(db: Database, key: bytes, operation: Operation, number: int) -> None:
    """Writes a number of the type over a field of the existing string at `key`, without a notice."""
    mask, shift = operation.kind.mask, operation.shift
    bits = _bits_around(_text_at(db, key), operation) & ~(mask << shift) | (number & mask) << shift
    size = operation.last + 1 - operation.first
    db.edit(key, operation.first, SINGLE_BYTES[bits] if size == 1 else bits.to_bytes(size, "big"))


def _run(db: Database, key: bytes, operation: Operation) -> tuple[int | None, bool]:
    """Runs an operation on the existing string at `key`. Returns its reply, and whether it changed the field."""
    old = _read(_text_at(db, key), operation)
    if not operation.is_write:
        return old, False
    is_set = operation.is_set
    new = operation.kind.fitted(
        operation.number if is_set else old + operation.number, operation.overflow, is_set=is_set
    )
    if new is None:
        return None, False
    if new != old:
        _write(db, key, operation, new)
    return old if is_set else new, new != old


@command(
    "BITFIELD",
    arity=-2,
    flags=WRITE,
    keys=(
        KeySpec(
            1,
            1,
            1,
            ("RW", "access", "update", "variable_flags"),
            has_bit_fields=True,
            note="This command allows both access and modification of the key",
        ),
    ),
    categories=("bitmap",),
    group="bitmap",
    since="3.2.0",
    differs="One that fails, and makes a string or makes it longer, is logged, so that replicas have the same string.",
    summary="Reads, sets and adds to integers of any number of bits within a string.",
    complexity="O(1) for each operation",
    arguments=(
        KEY_ARGUMENT,
        Argument(
            "operation",
            "oneof",
            optional=True,
            multiple=True,
            arguments=(
                Argument("get-block", "block", token="GET", arguments=GET_ARGUMENTS),
                Argument(
                    "write",
                    "block",
                    arguments=(
                        Argument(
                            "overflow-block",
                            "oneof",
                            token="OVERFLOW",
                            optional=True,
                            arguments=(
                                Argument("wrap", "pure-token", token="WRAP"),
                                Argument("sat", "pure-token", token="SAT"),
                                Argument("fail", "pure-token", token="FAIL"),
                            ),
                        ),
                        Argument(
                            "write-operation",
                            "oneof",
                            arguments=(
                                Argument(
                                    "set-block",
                                    "block",
                                    token="SET",
                                    arguments=(*GET_ARGUMENTS, Argument("value", "integer")),
                                ),
                                Argument(
                                    "incrby-block",
                                    "block",
                                    token="INCRBY",
                                    arguments=(*GET_ARGUMENTS, Argument("increment", "integer")),
                                ),
                            ),
                        ),
                    ),
                ),
            ),
        ),
    ),
)
def bitfield(context: Context, argv: list[bytes]) -> Reply:
    """BITFIELD key [<GET type offset | [OVERFLOW <WRAP | SAT | FAIL>] <SET type offset value |
    INCRBY type offset increment>> ...]

    A type is i1 to i64, signed, or u1 to u63. An offset is in bits, or with `#` in fields of the type. OVERFLOW is for
    the operations after it: WRAP, the default, drops high bits, SAT keeps the nearest number, FAIL changes nothing. The
    string is first extended to the last bit that is to be written, even if all operations fail.

    Returns a number for each operation: GET and SET return the old one, INCRBY the new one; null for one that failed.
    Raises WrongType, GenericError. Source: redis.io/commands/bitfield, Redis 3.2.
    """
    operations = _parse_operations(context, argv)
    last = -1
    for operation in operations:
        if operation.is_write and operation.last > last:
            last = operation.last
    if last < 0:
        return _read_all(context, argv[1], operations)
    key, db = argv[1], context.db
    has_grown = make_room(db, key, last, b"\0", context.now_ms)
    replies: list[Reply] = []
    changes_count = 0
    for operation in operations:
        reply, has_changed = _run(db, key, operation)
        replies.append(reply)
        # Each write to a string that has become longer counts, unless it failed.
        if operation.is_write and (has_changed or (has_grown and reply is not None)):
            changes_count += 1
    if changes_count:
        db.touch(key, SETBIT)
        context.log_words(argv, changes_count)
    elif has_grown:
        context.log_words(argv, 0)  # not in Redis, whose replicas then have another string
    return replies


def _read_all(context: Context, key: bytes, operations: list[Operation]) -> Reply:
    """Runs operations that only read. Raises WrongType."""
    text = context.db.read_string(key, context.now_ms) or b""
    return [_read(text, operation) for operation in operations]


@command(
    "BITFIELD_RO",
    arity=-2,
    flags=Flag.READONLY | Flag.FAST,
    keys=READ_KEY,
    categories=("bitmap",),
    group="bitmap",
    since="6.0.0",
    summary="Reads integers of any number of bits within a string.",
    complexity="O(1) for each operation",
    arguments=(
        KEY_ARGUMENT,
        Argument(
            "get-block",
            "block",
            token="GET",
            optional=True,
            multiple=True,
            multiple_token=True,
            arguments=GET_ARGUMENTS,
        ),
    ),
)
def bitfield_ro(context: Context, argv: list[bytes]) -> Reply:
    """BITFIELD_RO key [GET type offset [GET type offset ...]]

    Does what BITFIELD does with GET alone.

    Returns a number for each GET. Raises WrongType, GenericError. Source: Redis 6.0.
    """
    operations = _parse_operations(context, argv)
    for operation in operations:
        if operation.is_write:
            raise GenericError(b"BITFIELD_RO only supports the GET subcommand")
    return _read_all(context, argv[1], operations)
