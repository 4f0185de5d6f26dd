"""AROP: one result from the elements in a range of an array."""

from __future__ import annotations

import struct
from typing import Final

from ...protocol.replies import Reply
from ...protocol.scalars import shortest_text
from ...store.companions.array_value import ArrayValue
from ...store.errors import GenericError, wrong_number_of_arguments
from ..core import long_double
from ..core.int64 import INT64_MAX, INT64_MIN
from ..core.long_double import LongDouble
from ..core.numbers import parse_integer
from ..core.table import Argument, Flag, command
from ..execution.context import Context
from .arguments import KEY, RANGE, READ_KEYS, index_of

# Words of AROP without and with a text.
_PLAIN: Final = 5
_MATCHED: Final = 6
# Longest text of a double that Redis keeps in a pointer, and the bits that must be zero for that.
DOUBLE_TEXT_SIZE_MAX: Final = 32
TAG_MASK: Final = 3
# Integers below this have no more digits than are printed.
PLAIN_LIMIT: Final = 10**long_double.GENERAL_DIGITS
# Places of the results in what `ArraySlices.integers` returns.
_PLACES: Final = {b"SUM": 0, b"MIN": 1, b"MAX": 2, b"AND": 3, b"OR": 4, b"XOR": 5}


class _Number:
    """A number among the elements. A long double has no sign if it is zero."""

    __slots__ = ("is_negative", "value")

    def __init__(self, value: LongDouble, is_negative: bool) -> None:
        self.value = value
        self.is_negative = is_negative

    def text(self) -> bytes:
        """The number as Redis prints it."""
        return b"-0" if not self.value and self.is_negative else long_double.general_text(self.value)


def _number_of(element: bytes) -> LongDouble | None:
    """The number that Redis has of an element, None if it is not one.

    Redis keeps a double in place of a text that is printed again as it is, if the last bits of the double are zero.
    """
    number = long_double.parse(element)
    if number is None or b"." not in element or b"e" in element or len(element) > DOUBLE_TEXT_SIZE_MAX:
        return number
    try:
        kept = float(element)
    except ValueError:
        # It is hexadecimal.
        return number
    if struct.pack("<d", kept)[0] & TAG_MASK or shortest_text(kept) not in (element, element.removesuffix(b".0")):
        return number
    return long_double.rounded(*kept.as_integer_ratio())


def _numbers(elements: list[bytes]) -> list[_Number]:
    found: list[_Number] = []
    for element in elements:
        number = _number_of(element)
        if number is not None:
            found.append(_Number(number, element[:1] == b"-"))
    return found


def _total(numbers: list[_Number]) -> _Number:
    """The sum, rounded after each step from the left, as Redis does."""
    total = numbers[0].value
    for number in numbers[1:]:
        total = long_double.add(total, number.value)
    return _Number(total, all(number.is_negative for number in numbers))


def _extreme(numbers: list[_Number], is_least: bool) -> _Number:
    """The first of the least or of the greatest numbers."""
    found = numbers[0]
    for number in numbers[1:]:
        if number.value < found.value if is_least else number.value > found.value:
            found = number
    return found


def _integers(elements: list[bytes]) -> list[int]:
    """The numbers among elements that fit into 64 bits, without their fractions."""
    found: list[int] = []
    for element in elements:
        whole = parse_integer(element)
        if whole is None:
            number = _number_of(element)
            whole = None if number is None else long_double.as_integer(number)
        if whole is not None and INT64_MIN <= whole <= INT64_MAX:
            found.append(whole)
    return found


def _bits(name: bytes, numbers: list[int]) -> int:
    result = numbers[0]
    for number in numbers[1:]:
        if name == b"AND":
            result &= number
        elif name == b"OR":
            result |= number
        else:
            result ^= number
    return result


def combined(name: bytes, elements: list[bytes]) -> bytes | int | None:
    """The result of SUM, MIN, MAX, AND, OR or XOR, None if no element is a number."""
    if name in (b"AND", b"OR", b"XOR"):
        integers = _integers(elements)
        return _bits(name, integers) if integers else None
    numbers = _numbers(elements)
    if not numbers:
        return None
    return (_total(numbers) if name == b"SUM" else _extreme(numbers, name == b"MIN")).text()


def _integer_text(number: int) -> bytes:
    """An integer as C's `%.17Lg` prints it."""
    if -PLAIN_LIMIT < number < PLAIN_LIMIT:
        return b"%d" % number
    return long_double.general_text(number * long_double.ONE)


@command(
    "AROP",
    arity=-5,
    flags=Flag.READONLY,
    keys=READ_KEYS,
    categories=("array",),
    group="array",
    since="8.8.0",
    summary="Computes a sum, an extreme, bits or a count of the elements in a range of an array.",
    complexity="O(N) in the number of elements in the slices of the range.",
    arguments=(
        KEY,
        *RANGE,
        Argument(
            "operation",
            "oneof",
            arguments=(
                Argument("sum", "pure-token", token="SUM"),
                Argument("min", "pure-token", token="MIN"),
                Argument("max", "pure-token", token="MAX"),
                Argument("and", "pure-token", token="AND"),
                Argument("or", "pure-token", token="OR"),
                Argument("xor", "pure-token", token="XOR"),
                Argument(
                    "match",
                    "block",
                    arguments=(Argument("match", "pure-token", token="MATCH"), Argument("value")),
                ),
                Argument("used", "pure-token", token="USED"),
            ),
        ),
    ),
)
def arop(context: Context, argv: list[bytes]) -> Reply:
    """AROP key start end <SUM | MIN | MAX | AND | OR | XOR | MATCH value | USED>

    SUM, MIN and MAX return a text, null without numbers; AND, OR and XOR an integer, null without integers. MATCH
    counts the elements that equal a value, USED all. Raises WrongType, GenericError. Source: Redis 8.8.
    """
    start, end = index_of(argv[2]), index_of(argv[3])
    name = argv[4].upper()
    if name not in (b"SUM", b"MIN", b"MAX", b"AND", b"OR", b"XOR", b"MATCH", b"USED"):
        raise GenericError(b"unknown operation")
    if name == b"MATCH" and len(argv) != _MATCHED:
        raise GenericError(b"MATCH requires a value argument")
    if name != b"MATCH" and len(argv) != _PLAIN:
        raise wrong_number_of_arguments(b"arop")
    value = context.db.read_companion(argv[1], ArrayValue, context.now_ms)
    first, last = min(start, end), max(start, end)
    if value is None:
        return 0 if name in (b"MATCH", b"USED") else None
    if name == b"USED":
        return value.slices.count_between(first, last)
    if name == b"MATCH":
        return value.slices.count_equal(first, last, argv[5])
    integers = value.slices.integers(first, last)
    if integers is not None:
        # A long double holds each of these integers, and each sum on the way.
        result = integers[_PLACES[name]]
        return result if name in (b"AND", b"OR", b"XOR") else _integer_text(result)
    decimals = value.slices.decimals(first, last, _PLACES[name], shortest_text)
    return combined(name, value.slices.texts(first, last)) if decimals is None else decimals[0]
