"""Numbers in arguments: each has one canonical spelling, as in Redis.

An integer is a signed 64-bit decimal in the form in which it is printed: no sign `+`, no leading zeros, no blanks, no
`-0`. Anything else raises "value is not an integer or out of range". Some directives and a few old arguments are read
as C does, which is more lenient: `loose_integer`, `leading_integer`, `parse_memory`. The length of a text is checked
before int(), which raises an exception for more than some thousand digits.
"""

from __future__ import annotations

import math
import re
import sys
from typing import Final

from ...store.errors import GenericError, not_an_integer
from . import long_double
from .int64 import INT64_MAX, INT64_MIN, UINT64_MAX

try:
    from .decimals import add_decimals, is_short_decimal, parse_decimal
    from .integers import parse_integer, plain_numbers
except ImportError:  # there was no C compiler at installation
    from .decimals_plain import add_decimals, is_short_decimal, parse_decimal
    from .integers_plain import parse_integer, plain_numbers

__all__ = [
    "INT64_MAX", "INT64_MIN", "UINT64_MAX", "add_decimals", "integer", "integer_between", "integer_or",
    "is_canonical_integer", "is_short_decimal", "leading_integer", "loose_integer", "parse_float", "parse_integer",
    "parse_memory", "plain_numbers", "timeout", "timeout_in_seconds",
]  # fmt: skip


# Compiled code calls these in less time than names that are imported, which it looks up at each call.
_parse_integer: Final = parse_integer
_parse_decimal: Final = parse_decimal


def integer(token: bytes) -> int:
    """The signed 64-bit integer in `token`. Raises `value is not an integer or out of range`."""
    number = _parse_integer(token)
    if number is None:
        raise not_an_integer()
    return number


def integer_or(token: bytes, text: bytes) -> int:
    """Like `integer`, for commands with an error text of their own: raises `ERR <text>`."""
    number = _parse_integer(token)
    if number is None:
        raise GenericError(text)
    return number


def integer_between(token: bytes, minimum: int, maximum: int, text: bytes | None = None) -> int:
    """The integer in `token` if it is in [minimum, maximum]. Raises `ERR <text>`, by default the usual one."""
    number = _parse_integer(token)
    if number is None or not minimum <= number <= maximum:
        raise not_an_integer() if text is None else GenericError(text)
    return number


def timeout(token: bytes, now_ms: int) -> int:
    """The number of milliseconds to wait. Raises GenericError, also if the wait would end after 2^63 - 1 in Unix ms."""
    timeout_ms = integer_or(token, b"timeout is not an integer or out of range")
    if timeout_ms < 0:
        raise GenericError(b"timeout is negative")
    if timeout_ms > INT64_MAX - now_ms:
        raise GenericError(b"timeout is out of range")
    return timeout_ms


def timeout_in_seconds(token: bytes, now_ms: int) -> int:
    """The number of milliseconds to wait, from seconds that may have a fraction. Raises GenericError."""
    seconds = parse_float(token)
    if seconds is None:
        seconds = _beyond_a_double(token)
    if seconds * 1000 > INT64_MAX:
        raise GenericError(b"timeout is out of range")
    timeout_ms = -1 if seconds == -math.inf else math.ceil(seconds * 1000)
    if timeout_ms < 0:
        raise GenericError(b"timeout is negative")
    if timeout_ms > INT64_MAX - now_ms:
        raise GenericError(b"timeout is out of range")
    return timeout_ms


def _beyond_a_double(token: bytes) -> float:
    """Seconds that Redis reads as a long double: an infinity, or the smallest double, stands for what is beyond."""
    number = long_double.parse(token)
    if number is None:
        raise GenericError(b"timeout is not a float or out of range")
    is_long = number >= long_double.ONE or number <= -long_double.ONE
    magnitude = math.inf if is_long else sys.float_info.min
    return magnitude if number > 0 else -magnitude


def is_canonical_integer(token: bytes) -> bool:
    """Whether `token` is exactly the printed form of a signed 64-bit integer (OBJECT ENCODING `int`)."""
    return _parse_integer(token) is not None


# Blanks, sign and digits. Twenty digits always overflow, so more are not needed.
_LEADING: Final = re.compile(rb"[ \t\n\v\f\r]*([+-]?)0*([0-9]{0,20})")
_MEMORY: Final = re.compile(rb"([0-9]*)(b|k|kb|m|mb|g|gb)?", re.IGNORECASE)
_MEMORY_DIGITS_MAX: Final = 127
_UNIT_SIZE: Final = {
    b"": 1, b"b": 1, b"k": 1000, b"kb": 1 << 10, b"m": 1000**2, b"mb": 1 << 20, b"g": 1000**3, b"gb": 1 << 30,
}  # fmt: skip


def leading_integer(token: bytes) -> int:
    """The digits at the start, within 64 bits, as C's strtoll reads them; 0 if there are none."""
    found = _LEADING.match(token)
    assert found is not None
    number = int(found[1] + (found[2] or b"0"))
    return max(INT64_MIN, min(number, INT64_MAX))


def loose_integer(token: bytes) -> int | None:
    """`leading_integer` if all of the token is blanks and digits in this order, or nothing; else None."""
    digits = token.lstrip(b" \t\n\v\f\r")
    digits = digits[1:] if digits[:1] in (b"+", b"-") else digits
    return leading_integer(token) if digits.isdigit() or not token else None


def parse_memory(token: bytes) -> int | None:
    """`100mb` in bytes, at most UINT64_MAX: kb, mb and gb are powers of 1024, k, m and g of 1000. Returns 0 for the
    empty text, None for any other.
    """
    found = _MEMORY.fullmatch(token)
    if found is None or len(found[1]) > _MEMORY_DIGITS_MAX:
        return None
    return min(int(found[1] or b"0") * _UNIT_SIZE[(found[2] or b"").lower()], UINT64_MAX)


# Possessive, as in `long_double`: if the rest does not match, digits are not divided anew between the two places.
_HEXADECIMAL: Final = re.compile(rb"[+-]?0x(?:[0-9a-f]++\.?[0-9a-f]*+|\.[0-9a-f]+)(?:p[+-]?[0-9]+)?", re.IGNORECASE)
_INFINITY: Final = re.compile(rb"([+-]?)inf(?:inity)?", re.IGNORECASE)
_SIGNIFICANT: Final = re.compile(rb"[^p]*[1-9a-f]", re.IGNORECASE)


def parse_float(token: bytes) -> float | None:
    """The double that all of `token` spells, as C reads it; None for nan, and if it is too large or too small."""
    whole = _parse_integer(token)
    if whole is not None:
        return float(whole)
    number = _parse_decimal(token)
    if number is not None:
        return number
    if infinity := _INFINITY.fullmatch(token):
        return -math.inf if infinity[1] == b"-" else math.inf
    if not _HEXADECIMAL.fullmatch(token):
        return None
    try:
        number = float.fromhex(token.decode())
    except OverflowError:
        return None
    is_out_of_range = math.isinf(number) or (not number and _SIGNIFICANT.match(token.lower().replace(b"0x", b"")))
    return None if is_out_of_range else number
