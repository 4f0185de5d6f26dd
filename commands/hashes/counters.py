"""Numbers in hashes: HINCRBY, HINCRBYFLOAT."""

from __future__ import annotations

from ...protocol.replies import Reply
from ...store.companions.hash_value import HashValue
from ...store.errors import GenericError
from ...store.events import HINCRBY, HINCRBYFLOAT
from ..core.long_double import LongDouble
from ..core.numbers import INT64_MAX, INT64_MIN, add_decimals, integer, integer_or, is_short_decimal
from ..core.table import Argument, Flag, KeySpec, command
from ..execution.context import Context
from ..strings.counter import float_or, sum_text
from .liveness import live_value


@command(
    "HINCRBY",
    arity=4,
    flags=Flag.WRITE | Flag.DENYOOM | Flag.FAST,
    keys=(KeySpec(1, 1, 1, ("RW", "access", "update")),),
    categories=("hash",),
    group="hash",
    since="2.0.0",
    summary="Adds an integer to the number in a field.",
    complexity="O(1)",
    arguments=(
        Argument("key", "key", key_spec_index=0),
        Argument("field"),
        Argument("increment", "integer"),
    ),
)
def hincrby(context: Context, argv: list[bytes]) -> Reply:
    """HINCRBY key field increment. Returns the new number. Raises GenericError, WrongType. Source: Redis 2.0."""
    key, field, increment = argv[1], argv[2], integer(argv[3])
    db = context.db
    value = db.find_companion(key, HashValue, context.now_ms)
    old = None if value is None else live_value(context, key, value, field)
    number = 0 if old is None else integer_or(old, b"hash value is not an integer")
    number += increment
    if not INT64_MIN <= number <= INT64_MAX:
        raise GenericError(b"increment or decrement would overflow")
    if value is None or not len(value):
        value = HashValue(context.limits)
        db.add(key, value)
    value.set(field, b"%d" % number, keeps_time=True)
    value.take_template()
    db.settle(key, value, HINCRBY)
    context.log_words(argv)
    return number


@command(
    "HINCRBYFLOAT",
    arity=4,
    flags=Flag.WRITE | Flag.DENYOOM | Flag.FAST,
    keys=(KeySpec(1, 1, 1, ("RW", "access", "update")),),
    categories=("hash",),
    group="hash",
    since="2.6.0",
    summary="Adds a number to the number in a field.",
    complexity="O(1)",
    arguments=(
        Argument("key", "key", key_spec_index=0),
        Argument("field"),
        Argument("increment", "double"),
    ),
)
def hincrbyfloat(context: Context, argv: list[bytes]) -> Reply:
    """HINCRBYFLOAT key field increment

    Adds as INCRBYFLOAT does. Returns the new number as text. Raises GenericError, WrongType. Source: Redis 2.6.
    """
    key, field = argv[1], argv[2]
    increment: LongDouble | None = None
    if not is_short_decimal(argv[3]):
        increment = float_or(argv[3], b"value is not a valid float")
        if isinstance(increment, float):
            raise GenericError(b"value is NaN or Infinity")
    db = context.db
    value = db.find_companion(key, HashValue, context.now_ms)
    old = None if value is None else live_value(context, key, value, field)
    text = add_decimals(b"0" if old is None else old, argv[3])
    if text is None:
        number = float_or(b"0" if old is None else old, b"hash value is not a float")
        if increment is None:
            increment = float_or(argv[3], b"value is not a valid float")
        text = sum_text(number, increment)
    if value is None or not len(value):
        value = HashValue(context.limits)
        db.add(key, value)
    value.set(field, text, keeps_time=True)
    value.take_template()
    db.settle(key, value, HINCRBYFLOAT)
    context.log(b"HSETEX", key, b"KEEPTTL", b"FIELDS", b"1", field, text)
    return text
