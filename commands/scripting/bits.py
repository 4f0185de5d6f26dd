"""The Lua library `bit`: operations on the low 32 bits of numbers, with signed results, as in Lua BitOp."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import and_, or_, xor
from struct import Struct
from typing import Any, Final

MASK: Final = 0xFFFF_FFFF
HEX_DIGITS_MAX: Final = 8

# A double that is added to another one rounds it, and moves its integer to the low bits.
ROUNDING: Final = 2.0**52 + 2.0**51
_DOUBLE: Final = Struct("=d")
_BITS: Final = Struct("=Q")


def unsigned(number: Any) -> int:
    """Rounds a number from Lua and returns its low 32 bits. The sandbox refuses other values."""
    # As in Lua BitOp, which decides about infinities and numbers that are too large.
    bits: int = _BITS.unpack(_DOUBLE.pack(number + ROUNDING))[0]
    return bits & MASK


def signed(bits: int) -> int:
    """Returns 32 bits as a signed number, as Lua receives them."""
    bits &= MASK
    return bits - (1 << 32) if bits >> 31 else bits


def _folded(operation: Callable[[int, int], int]) -> Callable[..., int]:
    return lambda first=None, *others: signed(reduce(operation, map(unsigned, others), unsigned(first)))


def _shifting(shift: Callable[[int, int], int]) -> Callable[..., int]:
    """Makes a shift function that uses only the low five bits of the distance."""
    return lambda value=None, distance=None, *_: signed(shift(unsigned(value), unsigned(distance) & 31))


def _to_hex(value: Any = None, digits: Any = HEX_DIGITS_MAX, *_: Any) -> bytes:
    """Returns the last `digits` hexadecimal digits; in upper case if `digits` is negative."""
    count = signed(unsigned(digits))
    text = b"%08x" % unsigned(value)
    return text[-min(abs(count), HEX_DIGITS_MAX) :] if count > 0 else text[HEX_DIGITS_MAX + max(count, -8) :].upper()


def _rotate_left(bits: int, distance: int) -> int:
    return bits << distance | bits >> (32 - distance)


# The functions of the library, by name.
BIT_OPERATIONS: Final[dict[bytes, Callable[..., Any]]] = {
    b"tobit": lambda value=None, *_: signed(unsigned(value)),
    b"tohex": _to_hex,
    b"bnot": lambda value=None, *_: signed(~unsigned(value)),
    b"band": _folded(and_),
    b"bor": _folded(or_),
    b"bxor": _folded(xor),
    b"lshift": _shifting(lambda bits, distance: bits << distance),
    b"rshift": _shifting(lambda bits, distance: bits >> distance),
    b"arshift": _shifting(lambda bits, distance: signed(bits) >> distance),
    b"rol": _shifting(_rotate_left),
    b"ror": _shifting(lambda bits, distance: _rotate_left(bits, (32 - distance) & 31)),
    b"bswap": lambda value=None, *_: signed(int.from_bytes(unsigned(value).to_bytes(4, "little"), "big")),
}
