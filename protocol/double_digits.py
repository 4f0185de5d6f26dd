"""The digits of a double as Redis prints them.

They read back as the same double, and are nearly always the fewest digits that do. For one double in some two hundred
there is a digit more, which is why the algorithm is that of Redis: Grisu2 of Florian Loitsch, "Printing Floating-Point
Numbers Quickly and Accurately with Integers". Source: fpconv of Redis, which rounds as here.
"""

from __future__ import annotations

from functools import cache
from struct import Struct
from typing import Final

_DOUBLE: Final = Struct(">d")
_FRACTION_BITS: Final = 52
_HIDDEN: Final = 1 << _FRACTION_BITS
_EXPONENT_MASK: Final = 0x7FF
_EXPONENT_BIAS: Final = 1023 + _FRACTION_BITS
_WORD_BITS: Final = 64

# The powers of ten that are kept: each is so many times ten as large as the one before.
_FIRST_POWER: Final = -348
_POWERS_STEP: Final = 8
_POWERS_COUNT: Final = 87
# Limits of the exponent of a product.
_PRODUCT_EXPONENT_MIN: Final = -60
_PRODUCT_EXPONENT_MAX: Final = -32
_LOG_TEN_OF_TWO: Final = 0.30102999566398114
# The digits of the whole part of a product are at most so many.
_WHOLE_DIGITS: Final = 10


@cache
def _power(index: int) -> tuple[int, int]:
    """A power of ten as a fraction of 64 bits and an exponent of two."""
    power = _FIRST_POWER + index * _POWERS_STEP
    numerator, denominator = (10**power, 1) if power >= 0 else (1, 10**-power)
    exponent = numerator.bit_length() - denominator.bit_length() - _WORD_BITS
    while True:
        up, down = (numerator, denominator << exponent) if exponent >= 0 else (numerator << -exponent, denominator)
        fraction = (2 * up + down) // (2 * down)
        if fraction >> _WORD_BITS:
            exponent += 1
        elif not fraction >> (_WORD_BITS - 1):
            exponent -= 1
        else:
            return fraction, exponent


def _power_for(exponent: int) -> int:
    """The index of the power of ten that makes a product with a small exponent."""
    index = (int(-(exponent + _POWERS_COUNT) * _LOG_TEN_OF_TWO) - _FIRST_POWER) // _POWERS_STEP
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


def digits_of(number: float) -> tuple[str, int]:
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
    return digits, scale - (_FIRST_POWER + index * _POWERS_STEP)


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
