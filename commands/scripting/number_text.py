"""Numbers of Lua as text."""

from __future__ import annotations

from math import copysign, isnan

from ...protocol.encoder import double_text


def number_text(number: float) -> bytes:
    """Returns a number from Lua as the text of a command's argument."""
    if isinstance(number, int):
        return b"%d" % number
    return b"-nan" if isnan(number) and copysign(1, number) < 0 else double_text(number)
