"""The error replies, one class per prefix that clients match on.

    ReplyError                 an error reply to a client
    ├── GenericError           ERR ...
    │   └── UnknownCommand         there is no command with the name that a client sent
    ├── WrongType              WRONGTYPE
    ├── NotHyperLogLog         WRONGTYPE
    ├── CorruptHyperLogLog     INVALIDOBJ
    ├── NoGroup                NOGROUP
    ├── BusyGroup              BUSYGROUP
    ├── StillLoading           LOADING
    └── (further prefixes are in the modules that raise them)

The texts are Redis' own, byte for byte: clients match on them, so they are an API.
"""

from __future__ import annotations

from typing import ClassVar, Final

# Bytes are looked for by their numbers: to look for a text of one byte takes CPython ten times as long.
NUL: Final = ord("\0")
CR: Final = ord("\r")
LF: Final = ord("\n")
SPACE: Final = ord(" ")

# Size in bytes of the longest code word of a text that has no prefix of its own.
CODE_SIZE_MAX: Final = 30


def shown(word: bytes) -> bytes:
    """Return a word of the request as an error text shows it: up to its first NUL, since Redis prints C strings."""
    return word[: word.index(NUL)] if NUL in word else word


def shown_last(word: bytes) -> bytes:
    """Like `shown`, at the end of an error text: Redis takes CR and LF off the end of the line that it prints."""
    return shown(word).rstrip(b"\r\n")


def _line(prefix: bytes, text: bytes) -> bytes:
    """Return prefix and text in one line: CR and LF inside the text become spaces, as in Redis."""
    line = prefix + b" " + text if prefix else text
    if CR in line or LF in line:
        line = line.replace(b"\r", b" ").replace(b"\n", b" ")
    return line


def _first_word(text: bytes) -> bytes:
    """Return the code word of a text without a prefix; ERR if its first word is long, or its only one, as in Redis."""
    size = text.find(SPACE, 0, CODE_SIZE_MAX + 1)
    return b"ERR" if size < 0 else text[:size]


class ReplyError(Exception):
    """An error reply, which is made from its text.

    The text is in `args`, for which every exception has room: an attribute would need a dict, which takes longer than
    all else. Exception puts it there; a method `__init__` would take longer too.
    """

    prefix: ClassVar[bytes] = b"ERR"

    @property
    def text(self) -> bytes:
        """The text without the prefix."""
        text: bytes = self.args[0]
        return text

    @property
    def wire_text(self) -> bytes:
        """What follows the `-`, prefix included, without CR LF."""
        return _line(self.prefix, self.args[0])

    @property
    def code(self) -> bytes:
        """The code word under which INFO counts the error."""
        return self.prefix or _first_word(self.wire_text)

    def __str__(self) -> str:
        return self.text.decode("utf-8", "replace")


class GenericError(ReplyError):
    """`ERR <text>`."""


class UnknownCommand(GenericError):
    """There is no command with the name that a client sent."""


class WrongType(ReplyError):
    """The key holds another type than the command works on."""

    prefix = b"WRONGTYPE"

    def __init__(self) -> None:
        super().__init__(b"Operation against a key holding the wrong kind of value")


class NotHyperLogLog(ReplyError):
    """The string at a key is no HyperLogLog."""

    prefix = b"WRONGTYPE"

    def __init__(self) -> None:
        super().__init__(b"Key is not a valid HyperLogLog string value.")


class CorruptHyperLogLog(ReplyError):
    """The sparse registers of a HyperLogLog are too few or too many."""

    prefix = b"INVALIDOBJ"

    def __init__(self) -> None:
        super().__init__(b"Corrupted HLL object detected")


class StillLoading(ReplyError):
    """The dataset is still being loaded."""

    prefix = b"LOADING"

    def __init__(self) -> None:
        super().__init__(b"Redis is loading the dataset in memory")


class NoGroup(ReplyError):
    """No such key or no such consumer group; the wording depends on the command."""

    prefix = b"NOGROUP"

    @classmethod
    def for_key(cls, key: bytes, group: bytes) -> NoGroup:
        """The error of XPENDING, XCLAIM, XAUTOCLAIM and XNACK."""
        return cls(b"No such key '%b' or consumer group '%b'" % (shown(key), shown(group)))

    @classmethod
    def for_read(cls, key: bytes, group: bytes) -> NoGroup:
        """The error of XREADGROUP, when it is called and when it wakes."""
        return cls(
            b"No such key '%b' or consumer group '%b' in XREADGROUP with GROUP option" % (shown(key), shown(group))
        )

    @classmethod
    def for_group(cls, key: bytes, group: bytes) -> NoGroup:
        """The error of XGROUP and XINFO CONSUMERS."""
        return cls(b"No such consumer group '%b' for key name '%b'" % (shown(group), shown(key)))


class BusyGroup(ReplyError):
    """XGROUP CREATE of a group that exists."""

    prefix = b"BUSYGROUP"

    def __init__(self) -> None:
        super().__init__(b"Consumer Group name already exists")


def syntax_error() -> GenericError:
    """The general error for malformed options."""
    return GenericError(b"syntax error")


def not_an_integer() -> GenericError:
    """The error for a number that is not a canonical signed 64-bit decimal."""
    return GenericError(b"value is not an integer or out of range")


def no_such_key() -> GenericError:
    """The error of a command whose key must exist."""
    return GenericError(b"no such key")


def wrong_number_of_arguments(name: bytes) -> GenericError:
    """`name` is the lower-case full name, subcommands as `xgroup|create`."""
    return GenericError(b"wrong number of arguments for '" + name + b"' command")
