"""Strings by their bytes: how many there are, some of them, and changes in place."""

from __future__ import annotations

from typing import Final

from ..protocol.replies import Reply
from ..store.errors import GenericError
from ..store.events import APPEND, SETRANGE
from ..store.text import edited
from .context import Context
from .numbers import integer
from .string import KEY_ARGUMENT, READ_KEY, WRITE
from .table import Argument, Flag, KeySpec, command

SUBSTRING_COMPLEXITY: Final = (
    "O(N) where N is the length of the returned string. The complexity is ultimately determined by the returned "
    "length, but because creating a substring from an existing string is very cheap, it can be considered O(1) for "
    "small strings."
)


def check_size(context: Context, size: int) -> None:
    """No string may grow beyond what one argument can carry. Raises GenericError.

    The limit is for clients: what the log holds was allowed when it was written.
    """
    if size > context.server.config.proto_max_bulk_len and not context.loading:
        raise GenericError(b"string exceeds maximum allowed size (proto-max-bulk-len)")


@command(
    "APPEND",
    arity=3,
    flags=WRITE | Flag.FAST,
    keys=(KeySpec(1, 1, 1, ("RW", "insert")),),
    categories=("string",),
    group="string",
    since="2.0.0",
    summary="Appends to a string, creating it if need be.",
    complexity="O(N) in the length of the string.",
    arguments=(KEY_ARGUMENT, Argument("value")),
)
def append(context: Context, argv: list[bytes]) -> Reply:
    """APPEND key value. Returns the new length in bytes. Raises WrongType, GenericError. Source: Redis 2.0."""
    old = context.db.get_string(argv[1], context.now_ms)
    value = argv[2]
    if old is not None:
        check_size(context, len(old) + len(value))
        value = edited(old + value)
    context.db.put(argv[1], value, APPEND, keep_expiry=True)
    context.log(*argv)
    return len(value)


@command(
    "STRLEN",
    arity=2,
    flags=Flag.READONLY | Flag.FAST,
    keys=(KeySpec(1, 1, 1, ("RO",)),),
    categories=("string",),
    group="string",
    since="2.2.0",
    summary="Returns a string's length in bytes.",
    complexity="O(1)",
    arguments=(KEY_ARGUMENT,),
)
def strlen(context: Context, argv: list[bytes]) -> Reply:
    """STRLEN key. Returns the length, 0 if the key is missing. Raises WrongType. Source: Redis 2.2."""
    return len(context.db.read_string(argv[1], context.now_ms) or b"")


@command(
    "SETRANGE",
    arity=4,
    flags=WRITE,
    keys=(KeySpec(1, 1, 1, ("RW", "update")),),
    categories=("string",),
    group="string",
    since="2.2.0",
    summary="Overwrites part of a string from an offset on, creating and lengthening it if need be.",
    complexity="O(M) with M the length of the string.",
    arguments=(KEY_ARGUMENT, Argument("offset", "integer"), Argument("value")),
)
def setrange(context: Context, argv: list[bytes]) -> Reply:
    """SETRANGE key offset value

    Bytes that are missing before the offset become zeros; an empty value changes nothing. Returns the length in
    bytes. Raises WrongType, GenericError. Source: Redis 2.2.
    """
    key, offset, piece = argv[1], integer(argv[2]), argv[3]
    if offset < 0:
        raise GenericError(b"offset is out of range")
    old = context.db.get_string(key, context.now_ms) or b""
    if not piece:
        return len(old)
    check_size(context, offset + len(piece))
    # Views, so that a long string is copied once.
    view = memoryview(old)
    gap = bytes(max(offset - len(old), 0))
    value = edited(b"".join((view[:offset], gap, piece, view[offset + len(piece) :])))
    context.db.put(key, value, SETRANGE, keep_expiry=True)
    context.log(*argv)
    return len(value)


def _declare_substring(name: str, since: str, summary: str, deprecated: tuple[str, str] | None = None) -> None:
    def substring(context: Context, argv: list[bytes]) -> Reply:
        start, end = integer(argv[2]), integer(argv[3])
        value = context.db.read_string(argv[1], context.now_ms) or b""
        if start < 0 and end < 0 and start > end:
            return b""
        start, end = (max(0, place + len(value) if place < 0 else place) for place in (start, end))
        return value[start : end + 1]

    substring.__doc__ = f"""{name} key start end

    The bytes from `start` to `end`, both included; negative ones count from the end of the string. Returns an empty
    string where there are none. Raises WrongType, GenericError. Source: Redis {since}.
    """
    command(
        name,
        arity=4,
        flags=Flag.READONLY,
        keys=READ_KEY,
        categories=("string",),
        group="string",
        since=since,
        summary=summary,
        complexity=SUBSTRING_COMPLEXITY,
        arguments=(KEY_ARGUMENT, Argument("start", "integer"), Argument("end", "integer")),
        deprecated=deprecated,
    )(substring)


_declare_substring("GETRANGE", "2.4.0", "Returns part of a string.")
_declare_substring("SUBSTR", "1.0.0", "Returns part of a string: the old name of GETRANGE.", ("2.0.0", "`GETRANGE`"))
