"""Reply values: what handlers return and the encoders turn into RESP2 or RESP3.

| Python value               | RESP2                                             | RESP3                   |
|----------------------------|---------------------------------------------------|-------------------------|
| `bytes`                    | bulk string                                       | same                    |
| `int`                      | integer                                           | same                    |
| `None`                     | null bulk `$-1`                                   | null `_`                |
| `NULL_ARRAY`               | null array `*-1`                                  | null `_`                |
| `list`                     | array                                             | same                    |
| `dict`                     | flat array                                        | map, in order           |
| `Pairs` (list of pairs)    | flat array                                        | map, keys may repeat    |
| `SetReply` (list)          | array                                             | set                     |
| `PairList` (list of pairs) | array of 2-arrays                                 | map, keys may repeat    |
| `Push` (list)              | array                                             | push                    |
| `bool`                     | integer 1 / 0                                     | boolean                 |
| `float`, `DoubleText`      | bulk string                                       | double                  |
| `BigNumber`                | bulk string                                       | big number              |
| `SimpleString`             | simple string                                     | same                    |
| `Verbatim`                 | bulk string                                       | verbatim `txt`          |
| `FormattedText`            | bulk string                                       | verbatim                |
| `ErrorReply`               | error                                             | same                    |
| `tuple` of `bytes`         | as it is: pieces that are already encoded         | same                    |
| `Pushed` (tuple)           | as `tuple`, also while CLIENT REPLY mutes replies | same                    |

The tuple is for the hot path (benchmark rows XADD, XRANGE, XREADGROUP): pieces that are the same in both protocols are
passed to the transport without another encoding. An element may be an iterator of bytes: a part of a long reply that is
made while it is sent, a few milliseconds at a time, as fast as the client reads. An empty piece means work without a
result yet.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Protocol


class ErrorReply(Protocol):
    """An error, usually an exception. `wire_text` is what follows the `-`, without CR LF."""

    @property
    def wire_text(self) -> bytes: ...


class SimpleString(bytes):
    """A status line such as `OK`, without CR and LF."""

    __slots__ = ()


class Verbatim(bytes):
    """Text for people, e.g. INFO."""

    __slots__ = ()


class FormattedText(bytes):
    """Verbatim text of a script: the three bytes that name its format, a colon, and the text."""

    __slots__ = ()


class DoubleText(bytes):
    """A double that is already printed, with more digits than a `float` holds."""

    __slots__ = ()


class BigNumber(bytes):
    """An integer of any size, printed."""

    __slots__ = ()


class Pairs(list[tuple[Any, Any]]):
    """A map whose keys may repeat; RESP2 flattens it."""

    __slots__ = ()


class PairList(list[tuple[Any, Any]]):
    """A map in RESP3 that RESP2 shows as an array of two-element arrays (XREAD, XREADGROUP)."""

    __slots__ = ()


class SetReply(list[Any]):
    """A set in RESP3."""

    __slots__ = ()


class Push(list[Any]):
    """An out-of-band message."""

    __slots__ = ()


class Pushed(tuple[bytes, ...]):
    """Encoded pushes that are the reply to a command such as SUBSCRIBE."""

    __slots__ = ()


class NullArray:
    """The RESP2 null array `*-1`; RESP3 has only one null."""

    __slots__ = ()


NULL_ARRAY: Final = NullArray()


class Postponed:
    """No reply yet: nothing was done, and the command is run when a pause has ended."""

    __slots__ = ()


POSTPONED: Final = Postponed()

OK: Final = (b"+OK\r\n",)
PONG: Final = (b"+PONG\r\n",)
QUEUED: Final = (b"+QUEUED\r\n",)

# Any value of the table above.
Reply = Any


def status_lines(lines: Iterable[bytes]) -> tuple[bytes, ...]:
    """The array of these status lines, encoded: the reply of HELP, which is the same in both protocols."""
    encoded = [b"+%b\r\n" % line for line in lines]
    return (b"*%d\r\n%b" % (len(encoded), b"".join(encoded)),)
