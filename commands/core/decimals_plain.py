"""Decimal numbers in arguments, for installations without a C compiler: `decimals` does the same in C."""

from __future__ import annotations

import math
import re
from typing import Final

from . import long_double

_DECIMAL: Final = re.compile(rb"[+-]?(?:[0-9]++\.?[0-9]*+|\.[0-9]+)(?:e[+-]?[0-9]+)?", re.IGNORECASE)
_SIGNIFICANT: Final = re.compile(rb"[^e]*[1-9]", re.IGNORECASE)
_SHORT: Final = re.compile(rb"(?=.{1,32}$)[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)")


def parse_decimal(token: bytes) -> float | None:
    """The double that `token` spells in digits; None for other spellings, and if it is too large or too small."""
    if not _DECIMAL.fullmatch(token):
        return None
    number = float(token)
    if math.isinf(number) or (not number and _SIGNIFICANT.match(token)):
        return None
    return number


def is_short_decimal(token: bytes) -> bool:
    """Whether `token` is a number that `add_decimals` adds: of few digits, without an exponent.

    In C none is where a `long double` has other than the 64 significant bits that it has on x86.
    """
    return _SHORT.fullmatch(token) is not None


def add_decimals(left: bytes, right: bytes) -> bytes | None:
    """The sum of two short decimals as `long_double.text_of` prints it; None for other spellings."""
    if not is_short_decimal(left) or not is_short_decimal(right):
        return None
    one, other = long_double.parse(left), long_double.parse(right)
    assert isinstance(one, int)
    assert isinstance(other, int)
    found = long_double.add(one, other)
    assert isinstance(found, int)
    return long_double.text_of(found)
