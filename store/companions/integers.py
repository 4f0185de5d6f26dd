"""Members and elements that Redis keeps as integers."""

from __future__ import annotations

from typing import Final

# Digits of a signed integer of 64 bits, with its sign.
INTEGER_SIZE_MAX: Final = 20
INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1


def as_integer(text: bytes) -> int | None:
    """The signed 64-bit integer of which a text is the canonical form; None for other texts."""
    if not text or len(text) > INTEGER_SIZE_MAX:
        return None
    digits = text[1:] if text[0] == 45 else text
    if not digits.isdigit() or (digits[0] == 48 and len(text) > 1):
        return None
    number = int(text)
    return number if INT64_MIN <= number <= INT64_MAX else None
