"""Doubles as Redis prints them: `double_texts` for installations without a C compiler. Both behave alike.

The digits read back as the same double, and are nearly always the fewest digits that do. For one double in some two
hundred there is a digit more, which is why the algorithm is that of Redis: Grisu2 of Florian Loitsch, "Printing
Floating-Point Numbers Quickly and Accurately with Integers". Source: fpconv of Redis, which rounds as here.
"""

from __future__ import annotations

from functools import cache
from math import copysign, inf
from struct import Struct
from typing import Final

from .powers_of_ten import FIRST_POWER, POWERS_COUNT, POWERS_STEP, power_of_ten

# Whole doubles up to this are written as integers. Redis does so too, where no rounding can exceed 64 bits.
WHOLE_DOUBLE_MAX: Final = 2**62
TRAILING_ZEROS_MAX: Final = 7
# The largest scale at which other doubles are written without an exponent, as in Redis.
PLAIN_SCALE_MAX: Final = 4

_DOUBLE: Final = Struct(">d")
_FRACTION_BITS: Final = 52
_HIDDEN: Final = 1 << _FRACTION_BITS
_EXPONENT_MASK: Final = 0x7FF
_EXPONENT_BIAS: Final = 1023 + _FRACTION_BITS
_WORD_BITS: Final = 64

# Limits of the exponent of a product.
_PRODUCT_EXPONENT_MIN: Final = -60
_PRODUCT_EXPONENT_MAX: Final = -32
_LOG_TEN_OF_TWO: Final = 0.30102999566398114
# The digits of the whole part of a product are at most so many.
_WHOLE_DIGITS: Final = 10


@cache
def _power(index: int) -> tuple[int, int]:
    return power_of_ten(index)


def _power_for(exponent: int) -> int:
    """The index of the power of ten that makes a product with a small exponent."""
    index = (int(-(exponent + POWERS_COUNT) * _LOG_TEN_OF_TWO) - FIRST_POWER) // POWERS_STEP
    while True:
        product_exponent = exponent + _power(index)[1] + _WORD_BITS
        if product_exponent < _PRODUCT_EXPONENT_MIN:
            index += 1
        elif product_exponent > _PRODUCT_EXPONENT_MAX:
            index -= 1
        else:
            return index


def _multiply(one: int, other: int) -> int:
    """The upper 64 bits of a product, rounded."""
    return (one * other + (1 << 63)) >> _WORD_BITS


def _digits_of(number: float) -> tuple[str, int]:
    """The digits of a positive, finite double, and the power of ten of the last one."""
    bits = int.from_bytes(_DOUBLE.pack(number), "big")
    fraction = bits & (_HIDDEN - 1)
    exponent = bits >> _FRACTION_BITS & _EXPONENT_MASK
    if exponent:
        fraction += _HIDDEN
    exponent = max(exponent, 1) - _EXPONENT_BIAS
    # The double, and the limits between which all numbers are read as it, with 64 bits and one exponent.
    shift = _WORD_BITS - fraction.bit_length()
    upper_fraction = (2 * fraction + 1) << (shift - 1)
    # The next smaller double is nearer to a power of two.
    places = 2 if fraction == _HIDDEN else 1
    lower_fraction = ((fraction << places) - 1) << (shift - places)
    index = _power_for(exponent - shift)
    power, power_exponent = _power(index)
    point = -(exponent - shift + power_exponent + _WORD_BITS)
    upper = _multiply(upper_fraction, power) - 1
    lower = _multiply(lower_fraction, power) + 1
    digits, scale = _generate(upper, _multiply(fraction << shift, power), upper - lower, point)
    return digits, scale - (FIRST_POWER + index * POWERS_STEP)


def _generate(upper: int, middle: int, delta: int, point: int) -> tuple[str, int]:
    """The digits of a number that is less than `upper` by `delta` at most, near `middle`, and the power of ten of the
    last one. `point` bits are after the point."""
    distance = upper - middle
    whole, part = upper >> point, upper & ((1 << point) - 1)
    digits: list[int] = []
    for scale in range(_WHOLE_DIGITS - 1, -1, -1):
        divisor = 10**scale
        digit, whole = divmod(whole, divisor)
        if digit or digits:
            digits.append(digit)
        rest = (whole << point) + part
        if rest <= delta:
            _round(digits, delta, rest, divisor << point, distance)
            return "".join(map(str, digits)), scale
    scale, unit = 0, 1
    while True:
        part *= 10
        delta *= 10
        unit *= 10
        scale -= 1
        digit, part = part >> point, part & ((1 << point) - 1)
        if digit or digits:
            digits.append(digit)
        if part < delta:
            _round(digits, delta, part, 1 << point, distance * unit)
            return "".join(map(str, digits)), scale


def _round(digits: list[int], delta: int, rest: int, step: int, distance: int) -> None:
    """Make the last digit smaller while this brings the number nearer to the double."""
    while (
        rest < distance
        and delta - rest >= step
        and (rest + step < distance or distance - rest > rest + step - distance)
    ):
        digits[-1] -= 1
        rest += step


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
    digits, exponent = _digits_of(abs(number)) if number else ("0", 0)
    scale = len(digits) + exponent - 1
    if exponent >= 0 and scale < len(digits) + TRAILING_ZEROS_MAX:
        text = digits + "0" * exponent
    elif exponent < 0 and (exponent > -TRAILING_ZEROS_MAX or abs(scale) < PLAIN_SCALE_MAX):
        point = len(digits) + exponent
        text = f"{digits[:point]}.{digits[point:]}" if point > 0 else f"0.{'0' * -point}{digits}"
    else:
        text = f"{digits[0]}{'.' * (len(digits) > 1)}{digits[1:]}e{scale:+d}"
    return ("-" * sign + text).encode()
