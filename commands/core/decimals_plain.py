"""Decimal numbers in arguments, for installations without a C compiler: `decimals` does the same in C."""

from __future__ import annotations

import math
import re
from typing import Final

_DECIMAL: Final = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?", re.IGNORECASE)
_SIGNIFICANT: Final = re.compile(rb"[^e]*[1-9]", re.IGNORECASE)


def parse_decimal(token: bytes) -> float | None:
    """The double that `token` spells in digits; None for other spellings, and if it is too large or too small."""
    if not _DECIMAL.fullmatch(token):
        return None
    number = float(token)
    if math.isinf(number) or (not number and _SIGNIFICANT.match(token)):
        return None
    return number
