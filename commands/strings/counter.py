"""Commands that add to numbers: INCR, DECR, INCRBY, DECRBY, INCRBYFLOAT."""

from __future__ import annotations

from typing import Final

from ...protocol.replies import Reply
from ...store.errors import GenericError
from ...store.events import INCRBY, INCRBYFLOAT
from ...store.text import SumText
from ..core import long_double
from ..core.long_double import LongDouble
from ..core.numbers import INT64_MAX, INT64_MIN, add_decimals, integer
from ..core.table import Argument, Flag, KeySpec, command
from ..execution.context import Context
from .values import KEY_ARGUMENT, WRITE

# Compiled code compares a number with one of 62 bits without making an object.
SMALL_MAX: Final = (1 << 61) - 1

COUNTER_KEY: Final = (KeySpec(1, 1, 1, ("RW", "access", "update")),)


def add_to_counter(context: Context, key: bytes, increment: int) -> int:
    """Adds to the number in a string, and returns the sum. A missing key is 0. Raises WrongType, GenericError."""
    value = context.db.get_string(key, context.now_ms)
    result = (0 if value is None else integer(value)) + increment
    if not -SMALL_MAX <= result <= SMALL_MAX and not INT64_MIN <= result <= INT64_MAX:
        raise GenericError(b"increment or decrement would overflow")
    context.db.put(key, b"%d" % result, INCRBY, keep_expiry=True)
    return result


def _declare_counter(name: str, sign: int, *, takes_number: bool, summary: str) -> None:
    def count(context: Context, argv: list[bytes]) -> Reply:
        number = integer(argv[2]) if takes_number else 1
        if sign < 0 and number == INT64_MIN:
            raise GenericError(b"decrement would overflow")
        result = add_to_counter(context, argv[1], sign * number)
        context.log_words(argv)
        return result

    number_name = "increment" if sign > 0 else "decrement"
    grammar = f"{name} key {number_name}" if takes_number else f"{name} key"
    count.__doc__ = f"{grammar}. Returns the new number. Raises WrongType, GenericError. Source: Redis 1.0."
    command(
        name,
        arity=3 if takes_number else 2,
        flags=WRITE | Flag.FAST,
        keys=COUNTER_KEY,
        categories=("string",),
        group="string",
        since="1.0.0",
        summary=summary,
        complexity="O(1)",
        arguments=(KEY_ARGUMENT, Argument(number_name, "integer")) if takes_number else (KEY_ARGUMENT,),
    )(count)


_declare_counter("INCR", 1, takes_number=False, summary="Adds one to a number.")
_declare_counter("DECR", -1, takes_number=False, summary="Subtracts one from a number.")
_declare_counter("INCRBY", 1, takes_number=True, summary="Adds to a number.")
_declare_counter("DECRBY", -1, takes_number=True, summary="Subtracts from a number.")


def float_or(text: bytes, error: bytes) -> LongDouble:
    """Returns the number in `text`, which may have a fraction. Raises GenericError with the text `error`."""
    number = long_double.parse(text)
    if number is None:
        raise GenericError(error)
    return number


def sum_text(number: LongDouble, increment: LongDouble) -> bytes:
    """Returns the sum as text. Raises GenericError if it is not finite."""
    result = long_double.add(number, increment)
    if isinstance(result, float):
        raise GenericError(b"increment would produce NaN or Infinity")
    return long_double.text_of(result)


@command(
    "INCRBYFLOAT",
    arity=3,
    flags=WRITE | Flag.FAST,
    keys=COUNTER_KEY,
    categories=("string",),
    group="string",
    since="2.6.0",
    summary="Adds to a number that may have a fraction.",
    complexity="O(1)",
    arguments=(KEY_ARGUMENT, Argument("increment", "double")),
)
def incrbyfloat(context: Context, argv: list[bytes]) -> Reply:
    """INCRBYFLOAT key increment

    Adds with 64 significant bits, as Redis does on x86-64. Returns the new number as text: up to 17 digits after the
    point, without an exponent. Raises WrongType, GenericError. Source: Redis 2.6.
    """
    key = argv[1]
    old = context.db.get_string(key, context.now_ms)
    text = add_decimals(b"0" if old is None else old, argv[2])
    if text is None:
        number = float_or(b"0" if old is None else old, b"value is not a valid float")
        text = sum_text(number, float_or(argv[2], b"value is not a valid float"))
    context.db.put(key, SumText(text), INCRBYFLOAT, keep_expiry=True)
    context.log(b"SET", key, text, b"KEEPTTL")
    return text
