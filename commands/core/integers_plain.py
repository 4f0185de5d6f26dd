"""Integers in arguments, for installations without a C compiler: `integers` does the same in C."""

from __future__ import annotations

from typing import Final

from .int64 import INT64_MAX, INT64_MIN

# Characters of the longest canonical integer, `-9223372036854775808`.
INTEGER_TEXT_SIZE_MAX: Final = 20

# A number of this many digits always fits 64 bits: the usual case.
PLAIN_DIGITS_MAX: Final = 18
ZERO: Final = ord("0")


def parse_integer(token: bytes) -> int | None:
    """The integer that `token` spells canonically; None if it spells none or one beyond 64 bits."""
    size = len(token)
    if size <= PLAIN_DIGITS_MAX and token.isdigit():
        return None if token[0] == ZERO and size > 1 else int(token)
    if not 0 < size <= INTEGER_TEXT_SIZE_MAX:
        return None
    try:
        number = int(token)
    except ValueError:
        return None
    # int() is more lenient than Redis (blanks, `+`, `_`, leading zeros), so the number is printed and compared.
    if b"%d" % number != token or not INT64_MIN <= number <= INT64_MAX:
        return None
    return number


def plain_numbers(tokens: list[bytes], first: int, step: int) -> list[int] | None:
    """The numbers that tokens spell, from the one at `first` on and then each `step`-th; None if one of them has more
    than 18 digits or anything but digits. Leading zeros are allowed."""
    if first < 0 or step < 1:
        raise ValueError(first, step)
    numbers: list[int] = []
    for token in tokens[first::step]:
        if len(token) > PLAIN_DIGITS_MAX or not token.isdigit():
            return None
        numbers.append(int(token))
    return numbers
