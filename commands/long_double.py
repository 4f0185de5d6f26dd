"""Extended-precision numbers, as Redis computes INCRBYFLOAT and INCREX BYFLOAT with them.

A C `long double` on x86: 64 significant bits, an exponent of 15. Python has none, so a finite number is kept as the
exact `Fraction` it stands for, and every result is rounded to what such a number can hold. Infinities are those of
`float`.
Source: Redis 8.10.2 on x86-64, as observed.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from fractions import Fraction
from typing import Final

LongDouble = Fraction | float
"""Exact if finite, else `inf` or `-inf`."""

SIGNIFICANT_BITS: Final = 64
EXPONENT_MAX: Final = 16384
EXPONENT_MIN: Final = -16445
"""That of the least number there is."""

LARGEST: Final = Fraction((1 << SIGNIFICANT_BITS) - 1 << EXPONENT_MAX - SIGNIFICANT_BITS)

TEXT_SIZE_MAX: Final = 5 * 1024 - 1
"""Bytes; no longer text is read, by Redis as here."""

FRACTION_DIGITS: Final = 17
"""Digits behind the point that are printed."""

DECIMAL_EXPONENT_MAX: Final = 20_000
"""Far beyond what a number can be, with all digits of a text; and small enough to compute with."""

_DECIMAL: Final = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_HEXADECIMAL: Final = re.compile(rb"([+-]?)0[xX]([0-9a-fA-F]*)\.?([0-9a-fA-F]*)(?:[pP]([+-]?[0-9]+))?")
_INFINITY: Final = re.compile(rb"([+-]?)inf(?:inity)?", re.IGNORECASE)


def parse(text: bytes) -> LongDouble | None:
    """The number that `text` spells as C would read it, None if it is none, or too large, or too small to be told."""
    if not 0 < len(text) <= TEXT_SIZE_MAX:
        return None
    if infinity := _INFINITY.fullmatch(text):
        return -math.inf if infinity[1] == b"-" else math.inf
    if _DECIMAL.fullmatch(text):
        exact = _from_decimal(text)
    elif (hexadecimal := _HEXADECIMAL.fullmatch(text)) and (hexadecimal[2] or hexadecimal[3]):
        exact = _from_hexadecimal(*hexadecimal.groups(b""))
    else:
        return None
    if exact is None:
        return None
    number = rounded(exact)
    is_out_of_range = isinstance(number, float) or (exact != 0 and number == 0)
    return None if is_out_of_range else number


def _from_decimal(text: bytes) -> Fraction | None:
    mantissa, _, exponent_text = text.lower().partition(b"e")
    digits = Decimal(mantissa.decode())
    if not digits:
        return Fraction(0)
    exponent = int(exponent_text or b"0") if len(exponent_text) < 10 else DECIMAL_EXPONENT_MAX
    if abs(exponent) >= DECIMAL_EXPONENT_MAX:
        return None
    return Fraction(digits) * Fraction(10) ** exponent


def _from_hexadecimal(sign: bytes, whole: bytes, part: bytes, exponent_text: bytes) -> Fraction | None:
    mantissa = int(whole + part, 16)
    if not mantissa:
        return Fraction(0)
    exponent = int(exponent_text or b"0") if len(exponent_text) < 10 else 10 * DECIMAL_EXPONENT_MAX
    if abs(exponent) >= 10 * DECIMAL_EXPONENT_MAX:
        return None
    exact = mantissa * Fraction(2) ** (exponent - 4 * len(part))
    return -exact if sign == b"-" else exact


def rounded(exact: Fraction) -> LongDouble:
    """The nearest number there is, of two the even one; an infinity beyond the largest."""
    if not exact:
        return exact
    # 2 ** (exponent - 1) <= abs(exact) < 2 ** exponent, found from the sizes and at most one off.
    exponent = exact.numerator.bit_length() - exact.denominator.bit_length()
    exponent += abs(exact) >= Fraction(2) ** exponent
    unit = Fraction(2) ** max(exponent - SIGNIFICANT_BITS, EXPONENT_MIN)
    nearest = round(exact / unit) * unit
    if abs(nearest) > LARGEST:
        return math.inf if exact > 0 else -math.inf
    return nearest


def add(left: LongDouble, right: LongDouble) -> LongDouble:
    """The sum; NaN of two infinities that cancel out."""
    if isinstance(left, float) or isinstance(right, float):
        infinities = [number for number in (left, right) if isinstance(number, float)]
        return sum(infinities)
    return rounded(left + right)


def text_of(number: Fraction) -> bytes:
    """The number as Redis prints it: all digits before the point, up to 17 behind it, no zeros at the end."""
    scaled = round(number * 10**FRACTION_DIGITS)
    # Through Decimal: printing an integer of more than 4,300 digits is refused, as it takes long.
    digits = f"{Decimal(abs(scaled)):f}".rjust(FRACTION_DIGITS + 1, "0")
    text = f"{digits[:-FRACTION_DIGITS]}.{digits[-FRACTION_DIGITS:]}".rstrip("0").rstrip(".")
    return (b"-" if scaled < 0 else b"") + text.encode()
