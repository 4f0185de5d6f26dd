"""INCREX: a counter with bounds and an expiry time, for rate limiters."""

from __future__ import annotations

import math
from typing import Final

from ...protocol.replies import DoubleText, Reply
from ...store.errors import GenericError, syntax_error
from ...store.events import DEL, EXPIRE, INCRBY, INCRBYFLOAT, PERSIST
from ...store.text import SumText
from ..core import long_double
from ..core.long_double import LARGEST, LongDouble
from ..core.numbers import INT64_MAX, INT64_MIN, integer, integer_or
from ..core.table import Argument, Flag, command
from ..execution.context import Context
from .counter import COUNTER_KEY, float_or
from .values import EXPIRY_ARGUMENTS, KEY_ARGUMENT, UNITS_MS, WRITE, due_time_ms

STANDING_ALONE: Final = (b"SATURATE", b"ENX", b"PERSIST")
TAKING_ONE: Final = (b"BYINT", b"BYFLOAT", b"LBOUND", b"UBOUND", *UNITS_MS)
# Groups of options that exclude each other: a request may have one option of each group.
EXCLUSIVE: Final = ((b"BYINT", b"BYFLOAT"), (*UNITS_MS, b"PERSIST"), (b"ENX", b"PERSIST"))


def _is_excluded(word: bytes, options: dict[bytes, bytes]) -> bool:
    """Whether an option excludes one of the others."""
    for group in EXCLUSIVE:
        if word in group:
            for other in group:
                if other in options:
                    return True
    return False


def _parse_options(argv: list[bytes]) -> dict[bytes, bytes]:
    """Parses the options into a map from name to argument, and checks the increment. Raises GenericError."""
    options: dict[bytes, bytes] = {}
    index = 2
    while index < len(argv):
        word = argv[index].upper()
        if word in TAKING_ONE and index + 1 < len(argv):
            index += 1
        elif word not in STANDING_ALONE:
            raise syntax_error()
        if options and (word in options or _is_excluded(word, options)):
            raise syntax_error()
        options[word] = argv[index]
        if word == b"BYINT":
            integer_or(argv[index], b"Increment is not an integer or out of range")
        elif word == b"BYFLOAT" and isinstance(float_or(argv[index], b"Increment is not a valid float"), float):
            raise GenericError(b"BYFLOAT increment cannot be Infinity")
        index += 1
    return options


def _timed_by(options: dict[bytes, bytes]) -> bytes | None:
    """The option that sets an expiry time."""
    if options:
        for word in UNITS_MS:
            if word in options:
                return word
    return None


def _due_ms(context: Context, options: dict[bytes, bytes]) -> int | None:
    """The expiry time that the options set, Unix ms. Raises GenericError."""
    timed_by = _timed_by(options)
    if timed_by is not None:
        return due_time_ms(context, timed_by, options[timed_by], b"increx")
    if b"ENX" in options:
        raise GenericError(b"ENX flag requires an expiration")
    return None


def _whole_bound(options: dict[bytes, bytes], name: bytes, default: int) -> int:
    text = options.get(name)
    return default if text is None else integer_or(text, name + b" is not an integer or out of range")


def _float_bound(options: dict[bytes, bytes], name: bytes, default: LongDouble) -> LongDouble:
    text = options.get(name)
    return default if text is None else float_or(text, name + b" is not a valid float")


def _bounds_exchanged() -> GenericError:
    return GenericError(b"LBOUND can't be greater than UBOUND")


def _add_whole(context: Context, key: bytes, options: dict[bytes, bytes]) -> Reply:
    """Adds an integer; see `increx`."""
    lowest, highest = _whole_bound(options, b"LBOUND", INT64_MIN), _whole_bound(options, b"UBOUND", INT64_MAX)
    if lowest > highest:
        raise _bounds_exchanged()
    increment = integer(options.get(b"BYINT", b"1"))
    due_ms = _due_ms(context, options)
    old = context.db.get_string(key, context.now_ms)
    number = 0 if old is None else integer(old)
    result = number + increment
    if not lowest <= result <= highest:
        if b"SATURATE" not in options:
            return [number, 0]
        result = lowest if result < lowest else highest
    applied = result - number
    if not INT64_MIN <= applied <= INT64_MAX:
        raise GenericError(b"applied increment would overflow")
    _store(context, key, b"%d" % result, due_ms, options)
    return [result, applied]


def _add_floats(context: Context, key: bytes, options: dict[bytes, bytes]) -> Reply:
    """Adds a long double; see `increx`."""
    lowest, highest = _float_bound(options, b"LBOUND", -LARGEST), _float_bound(options, b"UBOUND", LARGEST)
    if lowest > highest:
        raise _bounds_exchanged()
    increment = float_or(options[b"BYFLOAT"], b"")
    due_ms = _due_ms(context, options)
    old = context.db.get_string(key, context.now_ms)
    number: LongDouble = 0 if old is None else float_or(old, b"value is not a valid float")
    if isinstance(number, float):
        raise GenericError(b"value cannot be Infinity")
    result = long_double.add(number, increment)
    if result in (math.inf, -math.inf) or not lowest <= result <= highest:
        if b"SATURATE" not in options:
            return [DoubleText(long_double.text_of(int(number))), DoubleText(long_double.text_of(0))]
        result = min(max(result, lowest), highest)
    applied = long_double.add(result, -number)
    if isinstance(applied, float) and math.isinf(applied):
        raise GenericError(b"applied increment would be Infinity")
    text = long_double.text_of(int(result))
    _store(context, key, SumText(text), due_ms, options)
    return [DoubleText(text), DoubleText(long_double.text_of(int(applied)))]


@command(
    "INCREX",
    arity=-2,
    flags=WRITE | Flag.FAST,
    keys=COUNTER_KEY,
    categories=("string",),
    group="string",
    since="8.8.0",
    summary="Adds to a number within bounds, and sets the expiry time of its key.",
    complexity="O(1)",
    arguments=(
        KEY_ARGUMENT,
        Argument(
            "increment",
            "oneof",
            optional=True,
            arguments=(
                Argument("float", "double", token="BYFLOAT"),
                Argument("integer", "integer", token="BYINT"),
            ),
        ),
        Argument("saturate", "pure-token", token="SATURATE", optional=True),
        Argument("lowerbound", token="LBOUND", optional=True),
        Argument("upperbound", token="UBOUND", optional=True),
        Argument(
            "expiration",
            "oneof",
            optional=True,
            arguments=(*EXPIRY_ARGUMENTS, Argument("persist", "pure-token", token="PERSIST")),
        ),
        Argument("enx", "pure-token", token="ENX", optional=True),
    ),
)
def increx(context: Context, argv: list[bytes]) -> Reply:
    """INCREX key [BYFLOAT float | BYINT integer] [SATURATE] [LBOUND number] [UBOUND number]
    [EX seconds | PX ms | EXAT unix-s | PXAT unix-ms | PERSIST] [ENX]

    Adds 1, or the number of BYINT or BYFLOAT. A missing key counts as 0. If the sum is out of bounds, nothing changes;
    with SATURATE the sum becomes the bound. Without an expiry option the key keeps its expiry time; with ENX it keeps
    an expiry time that it has.

    Returns the number and the amount added to it. Raises WrongType, GenericError. Source: Redis 8.8.
    """
    options = _parse_options(argv)
    add = _add_floats if b"BYFLOAT" in options else _add_whole
    return add(context, argv[1], options)


def _store(context: Context, key: bytes, text: bytes, due_ms: int | None, options: dict[bytes, bytes]) -> None:
    """Sets and logs the sum. An expiry time in the past deletes the key.

    The expiry time stays if `due_ms` is None, unless PERSIST removes it, or if ENX keeps one.
    """
    db = context.db
    if due_ms is not None and b"ENX" in options and key in db.expires:
        due_ms = None
    if due_ms is not None and due_ms <= context.now_ms and not context.replaying:
        db.remove(key, DEL)
        context.log(b"DEL", key)
        return
    db.put(key, text, INCRBYFLOAT if isinstance(text, SumText) else INCRBY, keep_expiry=True)
    if due_ms is not None:
        db.expires[key] = due_ms
        db.announce(EXPIRE, key)
        context.log(b"SET", key, text, b"PXAT", b"%d" % due_ms)
    elif b"PERSIST" not in options:
        context.log(b"SET", key, text, b"KEEPTTL")
    else:
        if db.expires.pop(key, None) is not None:
            db.announce(PERSIST, key)
        context.log(b"SET", key, text)
