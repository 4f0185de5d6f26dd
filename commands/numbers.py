"""Numbers in arguments: one canonical spelling each, as Redis reads them.

An integer is a signed 64-bit decimal in the one form it would itself be printed in: no sign `+`, no leading
zeros, no blanks, no `-0`. Everything else answers "value is not an integer or out of range".
"""

from __future__ import annotations

from typing import Final

from ..store.errors import GenericError, not_an_integer

INT64_MIN: Final = -(1 << 63)
INT64_MAX: Final = (1 << 63) - 1

INTEGER_TEXT_SIZE_MAX: Final = 20
"""Characters of the longest canonical integer, `-9223372036854775808`."""

PLAIN_DIGITS_MAX: Final = 18
"""As many digits always spell an integer of 64 bits: the usual case."""
ZERO: Final = ord("0")


def parse_integer(token: bytes) -> int | None:
    """The integer that `token` spells canonically, None if it spells none or one beyond 64 bits."""
    size = len(token)
    if size <= PLAIN_DIGITS_MAX and token.isdigit():
        return None if token[0] == ZERO and size > 1 else int(token)
    if not 0 < size <= INTEGER_TEXT_SIZE_MAX:
        return None
    try:
        number = int(token)
    except ValueError:
        return None
    # int() is more lenient than Redis (blanks, `+`, `_`, leading zeros): printing the number settles it.
    if b"%d" % number != token or not INT64_MIN <= number <= INT64_MAX:
        return None
    return number


def integer(token: bytes) -> int:
    """The signed 64-bit integer in `token`. Raises `value is not an integer or out of range`."""
    number = parse_integer(token)
    if number is None:
        raise not_an_integer()
    return number


def integer_or(token: bytes, text: bytes) -> int:
    """Like `integer`, where the command has an error text of its own: raises `ERR <text>`."""
    number = parse_integer(token)
    if number is None:
        raise GenericError(text)
    return number


def integer_between(token: bytes, minimum: int, maximum: int, text: bytes | None = None) -> int:
    """The integer in `token` if it lies in [minimum, maximum]. Raises `ERR <text>`, by default the usual one."""
    number = parse_integer(token)
    if number is None or not minimum <= number <= maximum:
        raise not_an_integer() if text is None else GenericError(text)
    return number


def is_canonical_integer(token: bytes) -> bool:
    """Whether `token` is exactly how a signed 64-bit integer is printed (OBJECT ENCODING `int`)."""
    return parse_integer(token) is not None
