"""Powers of ten as doubles have them, with a fraction and an exponent of two, but more precise."""

from __future__ import annotations

from typing import Final

# The powers that are used: each is so many times ten as large as the one before.
FIRST_POWER: Final = -348
POWERS_STEP: Final = 8
POWERS_COUNT: Final = 87
_WORD_BITS: Final = 64


def power_of_ten(index: int) -> tuple[int, int]:
    """A power of ten as a fraction of 64 bits and an exponent of two."""
    power = FIRST_POWER + index * POWERS_STEP
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
