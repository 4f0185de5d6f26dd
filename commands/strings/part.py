"""Commands on parts of strings: APPEND, STRLEN, SETRANGE, GETRANGE, SUBSTR."""

from __future__ import annotations

from typing import Final

from ...protocol.replies import Reply
from ...store.database import Database
from ...store.editing import spliced
from ...store.errors import GenericError
from ...store.events import APPEND, SETRANGE
from ..core.numbers import integer
from ..core.table import Argument, Flag, KeySpec, command
from ..execution.context import Context
from .values import KEY_ARGUMENT, READ_KEY, WRITE

SUBSTRING_COMPLEXITY: Final = (
    "O(N) where N is the length of the returned string. The complexity is ultimately determined by the returned "
    "length, but because creating a substring from an existing string is very cheap, it can be considered O(1) for "
    "small strings."
)


def check_size(context: Context, size: int) -> None:
    """Checks that a string does not become larger than proto-max-bulk-len. Raises GenericError.

    It accepts any size while a log is loaded, because the limit may have been larger when the log was written.
    """
    if size > context.server.config.proto_max_bulk_len and not context.replaying:
        raise GenericError(b"string exceeds maximum allowed size (proto-max-bulk-len)")


def string_size(db: Database, key: bytes, now_ms: int) -> int | None:
    """Returns the length in bytes of the string at `key`; None if the key is missing. Raises WrongType."""
    value = db.get_string(key, now_ms)
    return None if value is None else len(value)


@command(
    "APPEND",
    arity=3,
    flags=WRITE | Flag.FAST,
    keys=(KeySpec(1, 1, 1, ("RW", "insert")),),
    categories=("string",),
    group="string",
    since="2.0.0",
    summary="Appends to a string; creates it if it does not exist.",
    complexity="O(N) in the length of the string.",
    arguments=(KEY_ARGUMENT, Argument("value")),
)
def append(context: Context, argv: list[bytes]) -> Reply:
    """APPEND key value. Returns the new length in bytes. Raises WrongType, GenericError. Source: Redis 2.0."""
    db, key, piece = context.db, argv[1], argv[2]
    # Only the length: a reference to the string would make `splice` copy the string.
    size = string_size(db, key, context.now_ms)
    if size is None:
        size = len(piece)
        db.put(key, piece, APPEND, keep_expiry=True)
    else:
        check_size(context, size + len(piece))
        size = db.splice(key, size, piece, APPEND)
    context.log_words(argv)
    return size


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
    summary="Overwrites part of a string from an offset on; creates or extends the string if necessary.",
    complexity="O(M) with M the length of the string.",
    arguments=(KEY_ARGUMENT, Argument("offset", "integer"), Argument("value")),
)
def setrange(context: Context, argv: list[bytes]) -> Reply:
    """SETRANGE key offset value

    Fills missing bytes before the offset with zeros; an empty value changes nothing. Returns the length in bytes.
    Raises WrongType, GenericError. Source: Redis 2.2.
    """
    key, offset, piece = argv[1], integer(argv[2]), argv[3]
    if offset < 0:
        raise GenericError(b"offset is out of range")
    db = context.db
    size = string_size(db, key, context.now_ms)
    if not piece:
        return size or 0
    check_size(context, offset + len(piece))
    if size is None:
        value = spliced(b"", offset, piece)
        size = len(value)
        db.put(key, value, SETRANGE, keep_expiry=True)
    else:
        size = db.splice(key, offset, piece, SETRANGE)
    context.log_words(argv)
    return size


def _declare_substring(name: str, since: str, summary: str, deprecated: tuple[str, str] | None = None) -> None:
    def substring(context: Context, argv: list[bytes]) -> Reply:
        start, end = integer(argv[2]), integer(argv[3])
        value = context.db.read_string(argv[1], context.now_ms) or b""
        if start < 0 and end < 0 and start > end:
            return b""
        size = len(value)
        if start < 0:
            start = max(0, start + size)
        if end < 0:
            end = max(0, end + size)
        # mypyc 2.4 refuses a slice whose end is before its start.
        return value[start : end + 1] if start <= end else b""

    substring.__doc__ = f"""{name} key start end

    Returns the bytes from `start` to `end`, both included; negative indexes count from the end of the string. Returns
    an empty string if the range is empty. Raises WrongType, GenericError. Source: Redis {since}.
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
