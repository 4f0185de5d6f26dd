"""Conversion of replies of commands to Lua values, and of results of scripts to replies.

Source: "Data type conversion" of redis.io/docs/latest/develop/programmability/lua-api, and Redis 8.10.2.
"""

from __future__ import annotations

from math import isfinite
from time import monotonic_ns
from typing import Any, Final

from ...protocol.encoder import ENCODERS
from ...protocol.replies import BigNumber, DoubleText, FormattedText, Pairs, Reply, SetReply, SimpleString
from ...store.errors import ReplyError
from .errors import Failure
from .interpreter import Interpreter
from .number_text import number_text

# Maximum size in bytes of a script's reply.
REPLY_SIZE_MAX: Final = 512 << 20
# Size in bytes of an encoded reply up to which it becomes a value in Lua without lifting the memory limit. That value
# may take some thirty times as much.
UNLIFTED_SIZE_MAX: Final = 1 << 20
# Bytes counted for each element of a reply in addition to its text; an upper bound.
ELEMENT_SIZE: Final = 64

# Maximum depth of nested tables in a result; a table may contain itself.
DEPTH_MAX: Final = 100
INT_MIN: Final = -(2**31)
INTEGER_MIN: Final = -(2**63)
INTEGER_END: Final = 2**63


class WrittenError(ReplyError):
    """An error reply whose whole line, with its code, comes from a script."""

    prefix = b""

    def __init__(self, line: bytes) -> None:
        super().__init__(line)


def c_text(text: bytes) -> bytes:
    """Returns a text up to its first zero byte, as Redis reads it as a C string."""
    return text.partition(b"\0")[0]


def whole(number: float) -> int:
    """Returns a number from Lua as an integer reply, rounded towards zero.

    A number out of range becomes the smallest integer, as in C.
    """
    if not isfinite(number) or not INTEGER_MIN <= number < INTEGER_END:
        return INTEGER_MIN
    return int(number)


def as_int(number: Any) -> int:
    """Returns a number from Lua as C's `int`: rounded towards zero, the smallest one if it is out of range.

    Any other value is 0.
    """
    if type(number) not in (int, float):
        return 0
    return int(number) if INT_MIN - 1 < number < -INT_MIN else INT_MIN


def short_reply(result: tuple[Any, ...], protocol: int) -> Reply:
    """Converts a result that Lua has handed out in one piece: a status, or a short array. See `Interpreter.run`."""
    if result[0]:
        return status_of(result[1])
    replies: list[Reply] = []
    for index in range(1, len(result)):
        item = result[index]
        kind = type(item)
        if kind is bytes or kind is int:
            replies.append(item)
        elif kind is bool:
            replies.append(item if protocol == 3 else (1 if item else None))
        else:
            replies.append(whole(item))
    return replies


def status_of(text: bytes) -> SimpleString:
    """Returns a status of a script as a reply."""
    return SimpleString(c_text(text).replace(b"\r", b" ").replace(b"\n", b" "))


class Returned:
    """Converts the result of a script to a reply. Raises Failure.

    `protocol` is the one that the script has selected. Tables that contain each other make a reply endless, so the
    conversion is limited to `limit_ms` (0 is no limit) and to REPLY_SIZE_MAX.
    """

    def __init__(self, lua: Interpreter, value: Any, protocol: int, limit_ms: int) -> None:
        self._lua = lua
        self._protocol = protocol
        self._end_ns = monotonic_ns() + limit_ms * 1_000_000 if limit_ms else None
        self._size = 0
        # The errors in the reply, each with whether it was counted when it was raised.
        self.errors: list[tuple[ReplyError, bool]] = []
        self.reply: Reply = self._reply(value, 0)

    def _reply(self, value: Any, depth: int) -> Reply:
        kind = type(value)
        self._size += ELEMENT_SIZE
        if kind is bytes:
            self._size += len(value)
            return value
        if kind is bool:
            return value if self._protocol == 3 else (1 if value else None)
        if kind is int or kind is float:
            return whole(value)
        if not self._lua.is_table(value):
            return None
        return self._table(value, depth) if depth < DEPTH_MAX else self._error(b"ERR reached lua stack limit", False)

    def _error(self, text: bytes, is_counted: bool) -> ReplyError:
        error = WrittenError(text)
        self.errors.append((error, is_counted))
        return error

    def _table(self, table: Any, depth: int) -> Reply:
        kind, content, *rest = self._lua.kind_of(table)
        if kind == b"err":
            return self._error(c_text(content).rstrip(b"\r\n"), rest[0])
        if kind == b"ok":
            return status_of(content)
        if kind == b"double":
            return DoubleText(number_text(content))
        if kind == b"map":
            items = self._replies(self._lua.pairs_of(content), depth)
            return Pairs(zip(items[::2], items[1::2], strict=True))
        if kind == b"set":
            return SetReply(self._replies(self._lua.pairs_of(content), depth)[::2])
        if kind == b"big_number":
            return BigNumber(content.replace(b"\r", b" ").replace(b"\n", b" "))
        if kind == b"verbatim":
            return FormattedText(b"%-3b:%b" % (c_text(content)[:3], rest[0]))
        if kind == b"nothing":
            return None
        return self._replies(self._lua.items_of(table, content), depth)

    def _replies(self, items: Any, depth: int) -> list[Reply]:
        replies = []
        for item in items.values():
            replies.append(self._reply(item, depth + 1))
            if self._size > REPLY_SIZE_MAX or (self._end_ns is not None and monotonic_ns() > self._end_ns):
                raise Failure(b"ERR reached lua stack limit")
        return replies


class Replies:
    """Converts encoded replies of commands to Lua values.

    It parses the encoded form, which is uniform; handlers return replies in several forms.
    """

    def __init__(self, lua: Interpreter) -> None:
        self._lua = lua
        self._data = b""
        self._position = 0

    def value(self, reply: Reply, protocol: int) -> Any:
        """Returns a reply as a Lua value; an error becomes a table, as `redis.pcall` returns it. A status is a pair of
        its text and True: Lua makes the table.
        """
        kind = type(reply)
        if kind is int or (kind is bytes and len(reply) <= UNLIFTED_SIZE_MAX):
            return reply
        if kind is SimpleString and len(reply) <= UNLIFTED_SIZE_MAX:
            return bytes(reply), True
        if reply is None and protocol == 2:
            return False
        pieces: list[Any] = []
        ENCODERS[protocol](reply, pieces)
        self._data = b"".join(piece if type(piece) is bytes else b"".join(piece) for piece in pieces)
        self._position = 0
        if len(self._data) > UNLIFTED_SIZE_MAX:
            self._lua.lift()
        return self._next()

    def error(self, text: bytes) -> Any:
        """Returns the Lua value of an error that the server has not counted."""
        return self._lua.table_from({b"err": text})

    def _line(self) -> bytes:
        end = self._data.index(b"\r\n", self._position)
        line = self._data[self._position : end]
        self._position = end + 2
        return line

    def _blob(self, size: int) -> bytes:
        blob = self._data[self._position : self._position + size]
        self._position += size + 2
        return blob

    def _items(self, count: int) -> Any:
        return self._lua.table(*[self._next() for _ in range(count)])

    def _next(self) -> Any:
        line = self._line()
        mark, rest = line[:1], line[1:]
        if mark == b"$":
            return False if rest == b"-1" else self._blob(int(rest))
        if mark == b":":
            return int(rest)
        if mark == b"+":
            return self._lua.table_from({b"ok": rest})
        if mark == b"-":
            return self._lua.table_from({b"err": rest, b"ignore_error_stats_update": True})
        if mark == b"*" or mark == b">":
            return False if rest == b"-1" else self._items(int(rest))
        return self._next_of_resp3(mark, rest)

    def _next_of_resp3(self, mark: bytes, rest: bytes) -> Any:
        lua = self._lua
        if mark == b"_":
            return None
        if mark == b"#":
            return rest == b"t"
        if mark == b",":
            return lua.table_from({b"double": float(rest)})
        if mark == b"%":
            return lua.table_from({b"map": lua.table_from({self._next(): self._next() for _ in range(int(rest))})})
        if mark == b"~":
            return lua.table_from({b"set": lua.table_from({self._next(): True for _ in range(int(rest))})})
        if mark == b"=":
            blob = self._blob(int(rest))
            text = lua.table_from({b"format": blob[:3], b"string": blob[4:]})
            return lua.table_from({b"verbatim_string": text})
        raise AssertionError(f"no reply begins with {mark!r}")
