"""Extended-precision numbers, which Redis uses for INCRBYFLOAT and INCREX BYFLOAT.

They are C's `long double` on x86: 64 significant bits and an exponent of 15 bits. Python has no such type, so a finite
number is an `int` in units of the smallest positive number, and each result is rounded to a number that a `long double`
can represent. Infinities are those of `float`.
Source: Redis 8.10.2 on x86-64, as observed.
"""

from __future__ import annotations

import math
import re
from typing import Final

# A finite number is an int, in units of 2 ** EXPONENT_MIN; an infinity is `inf` or `-inf`.
LongDouble = int | float

SIGNIFICANT_BITS: Final = 64
EXPONENT_MAX: Final = 16384
# The exponent of the smallest positive number.
EXPONENT_MIN: Final = -16445

# The number 1. It is a call because mypyc crashes on a constant of more than 4300 digits, the most that Python prints.
ONE: Final = int(pow(2, -EXPONENT_MIN))
LARGEST: Final = (ONE << SIGNIFICANT_BITS) - ONE << EXPONENT_MAX - SIGNIFICANT_BITS

# Maximum size in bytes of a text to parse, as in Redis.
TEXT_SIZE_MAX: Final = 5 * 1024 - 1

# Maximum number of digits printed after the point.
FRACTION_DIGITS: Final = 17

# Any number with more digits before the point is too large.
WHOLE_DIGITS_MAX: Final = 4933
# Any number with more zeros between the point and its first digit is too small.
ZEROS_MAX: Final = 4950

# Possessive: if the rest does not match, digits are not divided anew between the two places, in quadratic time.
_DECIMAL: Final = re.compile(rb"([+-]?)(?=\.?[0-9])([0-9]*+)\.?([0-9]*+)(?:[eE]([+-]?)([0-9]+))?")
_HEXADECIMAL: Final = re.compile(
    rb"([+-]?)0[xX](?=\.?[0-9a-fA-F])([0-9a-fA-F]*+)\.?([0-9a-fA-F]*+)(?:[pP]([+-]?)([0-9]+))?"
)
_INFINITY: Final = re.compile(rb"([+-]?)inf(?:inity)?", re.IGNORECASE)


def parse(text: bytes) -> LongDouble | None:
    """Parses `text` as C's strtold does. Returns None if it is not a number, or is too large or too small."""
    if not 0 < len(text) <= TEXT_SIZE_MAX:
        return None
    if infinity := _INFINITY.fullmatch(text):
        return -math.inf if infinity[1] == b"-" else math.inf
    if decimal := _DECIMAL.fullmatch(text):
        sign, whole, part, *exponent = decimal.groups(b"")
        number = _from_decimal(whole + part, _exponent(*exponent) - len(part))
    elif hexadecimal := _HEXADECIMAL.fullmatch(text):
        sign, whole, part, *exponent = hexadecimal.groups(b"")
        number = _from_hexadecimal(int(whole + part, 16), _exponent(*exponent) - 4 * len(part))
    else:
        return None
    return -number if sign == b"-" and number is not None else number


def _exponent(sign: bytes, digits: bytes) -> int:
    """Returns an exponent, or one that is too large or too small for any text if it has many digits."""
    significant = digits.lstrip(b"0")
    size = int(significant[:9] or b"0")
    return -size if sign == b"-" else size


def _from_decimal(digits: bytes, exponent: int) -> LongDouble | None:
    """Returns the number `digits * 10 ** exponent`; None if it is too large or too small."""
    significant = digits.lstrip(b"0")
    if not significant:
        return 0
    if not -ZEROS_MAX <= len(significant) + exponent <= WHOLE_DIGITS_MAX:
        return None
    mantissa, power = _integer(significant), 10 ** abs(exponent)
    return _in_range(mantissa * power, 1) if exponent > 0 else _in_range(mantissa, power)


# Python converts at most 4,300 digits at once, in quadratic time. The longest text and the largest number have fewer
# than twice as many as these.
DIGITS_AT_ONCE: Final = 2600
_HALF: Final = 10**DIGITS_AT_ONCE


def _integer(digits: bytes) -> int:
    """Returns the integer with these digits."""
    return int(digits[:-DIGITS_AT_ONCE] or b"0") * _HALF + int(digits[-DIGITS_AT_ONCE:])


def _digits(integer: int) -> str:
    """Returns the digits of an integer that is not negative."""
    high, low = divmod(integer, _HALF)
    return f"{high}{low:0{DIGITS_AT_ONCE}d}" if high else str(low)


def _from_hexadecimal(mantissa: int, exponent: int) -> LongDouble | None:
    """Returns the number `mantissa * 2 ** exponent`; None if it is too large or too small."""
    if not mantissa:
        return 0
    if not EXPONENT_MIN <= mantissa.bit_length() + exponent <= EXPONENT_MAX:
        return None
    return _in_range(mantissa << max(exponent, 0), 1 << max(-exponent, 0))


def _in_range(numerator: int, denominator: int) -> LongDouble | None:
    number = rounded(numerator, denominator)
    return number if number and number != math.inf else None


def rounded(numerator: int, denominator: int) -> LongDouble:
    """Rounds a quotient to the nearest long double, ties to even. Returns an infinity if it exceeds the largest one.

    It takes linear time, because the quotient that is computed has 64 bits.
    """
    magnitude = abs(numerator)
    # 2 ** (exponent - 1) <= magnitude / denominator < 2 ** exponent; the estimate from the sizes is off by at most one.
    exponent = magnitude.bit_length() - denominator.bit_length()
    exponent += magnitude << max(-exponent, 0) >= denominator << max(exponent, 0)
    unit = max(exponent - SIGNIFICANT_BITS, EXPONENT_MIN)
    divisor = denominator << max(unit, 0)
    quotient, rest = divmod(magnitude << max(-unit, 0), divisor)
    quotient += 2 * rest > divisor or (2 * rest == divisor and quotient & 1)
    number = quotient << unit - EXPONENT_MIN
    if number > LARGEST:
        return math.inf if numerator > 0 else -math.inf
    return number if numerator > 0 else -number


def add(left: LongDouble, right: LongDouble) -> LongDouble:
    """Returns the rounded sum; NaN for opposite infinities."""
    if isinstance(left, float) or isinstance(right, float):
        infinities = [number for number in (left, right) if isinstance(number, float)]
        return sum(infinities)
    return rounded(left + right, ONE)


def text_of(number: int) -> bytes:
    """Returns the number as Redis prints it: up to 17 digits after the point, without zeros at the end."""
    exact = abs(number) * 10**FRACTION_DIGITS
    # Rounds to the nearest, ties to even.
    scaled = exact + (ONE >> 1) - 1 + (exact >> -EXPONENT_MIN & 1) >> -EXPONENT_MIN
    digits = _digits(scaled).rjust(FRACTION_DIGITS + 1, "0")
    text = f"{digits[:-FRACTION_DIGITS]}.{digits[-FRACTION_DIGITS:]}".rstrip("0").rstrip(".")
    return (b"-" if number < 0 and scaled else b"") + text.encode()


# Significant digits of a number in the general form, and the smallest exponent of ten that is printed without `e`.
GENERAL_DIGITS: Final = 17
GENERAL_EXPONENT_MIN: Final = -4
_LOG10_OF_2: Final = math.log10(2)


def general_text(number: LongDouble) -> bytes:
    """Returns the number as C's `%.17Lg` prints it: 17 significant digits, without zeros at the end."""
    if isinstance(number, float):
        return repr(number).encode()
    if not number:
        return b"0"
    magnitude = abs(number)
    exponent = math.floor((magnitude.bit_length() - 1 + EXPONENT_MIN) * _LOG10_OF_2)
    digits = _significant(magnitude, exponent)
    if len(digits) > GENERAL_DIGITS:
        exponent += 1
        digits = _significant(magnitude, exponent)
    digits = digits.rstrip("0")
    if not GENERAL_EXPONENT_MIN <= exponent < GENERAL_DIGITS:
        text = f"{digits[0]}{'.' * (len(digits) > 1)}{digits[1:]}e{exponent:+03d}"
    elif exponent < 0:
        text = f"0.{'0' * (-exponent - 1)}{digits}"
    else:
        whole, part = digits[: exponent + 1].ljust(exponent + 1, "0"), digits[exponent + 1 :]
        text = f"{whole}.{part}" if part else whole
    return (b"-" if number < 0 else b"") + text.encode()


def _significant(magnitude: int, exponent: int) -> str:
    """Returns the digits of a number from 10 ** exponent on, rounded to the nearest, ties to even."""
    shift = GENERAL_DIGITS - 1 - exponent
    numerator, divisor = magnitude * 10 ** max(shift, 0), ONE * 10 ** max(-shift, 0)
    quotient, rest = divmod(numerator, divisor)
    quotient += 2 * rest > divisor or (2 * rest == divisor and quotient & 1)
    return str(quotient)


def as_integer(number: LongDouble) -> int | None:
    """Returns the number without its fraction, None for an infinity."""
    if isinstance(number, float):
        return None
    return number // ONE if number >= 0 else -(-number // ONE)
