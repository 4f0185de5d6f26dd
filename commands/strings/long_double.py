"""Extended-precision numbers, which Redis uses for INCRBYFLOAT and INCREX BYFLOAT.

They are C's `long double` on x86: 64 significant bits and an exponent of 15 bits. Python has no such type, so a finite
number is an exact `Fraction`, and each result is rounded to a number that a `long double` can represent. Infinities are
those of `float`.
Source: Redis 8.10.2 on x86-64, as observed.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from fractions import Fraction
from typing import Final

# A finite number is an exact Fraction; an infinity is `inf` or `-inf`.
LongDouble = Fraction | float

SIGNIFICANT_BITS: Final = 64
EXPONENT_MAX: Final = 16384
# The exponent of the smallest positive number.
EXPONENT_MIN: Final = -16445

LARGEST: Final = Fraction((1 << SIGNIFICANT_BITS) - 1 << EXPONENT_MAX - SIGNIFICANT_BITS)

# Maximum size in bytes of a text to parse, as in Redis.
TEXT_SIZE_MAX: Final = 5 * 1024 - 1

# Maximum number of digits printed after the point.
FRACTION_DIGITS: Final = 17

# Larger than the exponent of any valid number with the longest text, and small enough for fast arithmetic.
DECIMAL_EXPONENT_MAX: Final = 20_000

_DECIMAL: Final = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_HEXADECIMAL: Final = re.compile(rb"([+-]?)0[xX]([0-9a-fA-F]*)\.?([0-9a-fA-F]*)(?:[pP]([+-]?[0-9]+))?")
_INFINITY: Final = re.compile(rb"([+-]?)inf(?:inity)?", re.IGNORECASE)


def parse(text: bytes) -> LongDouble | None:
    """Parses `text` as C's strtold does. Returns None if it is not a number, or is too large or too small."""
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
    """Rounds to the nearest long double, ties to even. Returns an infinity if `exact` exceeds the largest one."""
    if not exact:
        return exact
    # 2 ** (exponent - 1) <= abs(exact) < 2 ** exponent; the estimate from the sizes is off by at most one.
    exponent = exact.numerator.bit_length() - exact.denominator.bit_length()
    exponent += abs(exact) >= Fraction(2) ** exponent
    unit = Fraction(2) ** max(exponent - SIGNIFICANT_BITS, EXPONENT_MIN)
    nearest = round(exact / unit) * unit
    if abs(nearest) > LARGEST:
        return math.inf if exact > 0 else -math.inf
    return nearest


def add(left: LongDouble, right: LongDouble) -> LongDouble:
    """Returns the rounded sum; NaN for opposite infinities."""
    if isinstance(left, float) or isinstance(right, float):
        infinities = [number for number in (left, right) if isinstance(number, float)]
        return sum(infinities)
    return rounded(left + right)


def text_of(number: Fraction) -> bytes:
    """Returns the number as Redis prints it: up to 17 digits after the point, without zeros at the end."""
    scaled = round(number * 10**FRACTION_DIGITS)
    # Decimal, because Python refuses to print an integer of more than 4,300 digits.
    digits = f"{Decimal(abs(scaled)):f}".rjust(FRACTION_DIGITS + 1, "0")
    text = f"{digits[:-FRACTION_DIGITS]}.{digits[-FRACTION_DIGITS:]}".rstrip("0").rstrip(".")
    return (b"-" if scaled < 0 else b"") + text.encode()
