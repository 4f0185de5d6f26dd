"""How single values are written in RESP: bulk strings, integers and doubles."""

from __future__ import annotations

from math import copysign, inf
from typing import Final

from .double_digits import digits_of

INTEGERS_MAX: Final = 1024
# Small integers, encoded once.
INTEGERS: Final = [b":%d\r\n" % number for number in range(INTEGERS_MAX)]

# Whole doubles up to this are written as integers. Redis does so too, where no rounding can exceed 64 bits.
WHOLE_DOUBLE_MAX: Final = 2**62
TRAILING_ZEROS_MAX: Final = 7
# The largest scale at which other doubles are written without an exponent, as in Redis.
PLAIN_SCALE_MAX: Final = 4


def bulk(value: bytes) -> bytes:
    """Encode a bulk string."""
    return b"$%d\r\n%b\r\n" % (len(value), value)


def integer(number: int) -> bytes:
    """Encode an integer reply."""
    return INTEGERS[number] if 0 <= number < INTEGERS_MAX else b":%d\r\n" % number


def double_text(number: float) -> bytes:
    """A text that reads back as the same double, as Redis prints it; `inf`, `-inf`, `nan`.

    Whole numbers up to half the 64-bit range, and numbers with small exponents, have no exponent; all others are
    `d.ddde+x`.
    """
    if number != number or number in (inf, -inf):
        return repr(number).encode()
    if number.is_integer() and abs(number) <= WHOLE_DOUBLE_MAX:
        return b"-0" if not number and copysign(1, number) < 0 else b"%d" % int(number)
    return shortest_text(number)


def shortest_text(number: float) -> bytes:
    """Like `double_text`, but a large whole number has an exponent too."""
    if number != number or number in (inf, -inf):
        return repr(number).encode()
    sign = copysign(1, number) < 0
    digits, exponent = digits_of(abs(number)) if number else ("0", 0)
    scale = len(digits) + exponent - 1
    if exponent >= 0 and scale < len(digits) + TRAILING_ZEROS_MAX:
        text = digits + "0" * exponent
    elif exponent < 0 and (exponent > -TRAILING_ZEROS_MAX or abs(scale) < PLAIN_SCALE_MAX):
        point = len(digits) + exponent
        text = f"{digits[:point]}.{digits[point:]}" if point > 0 else f"0.{'0' * -point}{digits}"
    else:
        text = f"{digits[0]}{'.' * (len(digits) > 1)}{digits[1:]}e{scale:+d}"
    return ("-" * sign + text).encode()
