"""Numbers of Lua as text."""

from __future__ import annotations

from math import copysign, isnan
from typing import Final

from ...protocol.scalars import double_text

# Larger whole numbers are written as doubles, as in Redis.
WHOLE_MAX: Final = 2**62


def number_text(number: float) -> bytes:
    """Returns a number from Lua as the text of a command's argument."""
    if isinstance(number, int):
        return b"%d" % number if abs(number) <= WHOLE_MAX else double_text(float(number))
    return b"-nan" if isnan(number) and copysign(1, number) < 0 else double_text(number)
