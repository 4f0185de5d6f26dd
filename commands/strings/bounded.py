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


class Addition:
    """The increment and the bounds of an INCREX. Either all three are integers, or all three are long doubles."""

    __slots__ = ("highest", "increment", "is_whole", "lowest")

    def __init__(self, increment: LongDouble, lowest: LongDouble, highest: LongDouble, is_whole: bool) -> None:
        self.increment: Final = increment
        self.lowest: Final = lowest
        self.highest: Final = highest
        self.is_whole: Final = is_whole


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


def _addition(options: dict[bytes, bytes]) -> Addition:
    is_whole = b"BYFLOAT" not in options
    bounds: list[LongDouble] = []
    for name, default in (
        (b"LBOUND", INT64_MIN if is_whole else -LARGEST),
        (b"UBOUND", INT64_MAX if is_whole else LARGEST),
    ):
        if name not in options:
            bounds.append(default)
        elif is_whole:
            bounds.append(integer_or(options[name], name + b" is not an integer or out of range"))
        else:
            bounds.append(float_or(options[name], name + b" is not a valid float"))
    if bounds[0] > bounds[1]:
        raise GenericError(b"LBOUND can't be greater than UBOUND")
    if is_whole:
        return Addition(integer(options.get(b"BYINT", b"1")), bounds[0], bounds[1], is_whole)
    return Addition(float_or(options[b"BYFLOAT"], b""), bounds[0], bounds[1], is_whole)


def _result(old: bytes | None, addition: Addition, *, saturate: bool) -> tuple[LongDouble, LongDouble, bool]:
    """Returns the new number, the amount added, and whether the string must be set. Raises GenericError."""
    if addition.is_whole:
        number: LongDouble = 0 if old is None else integer(old)
        result = number + addition.increment
    else:
        number = 0 if old is None else float_or(old, b"value is not a valid float")
        if isinstance(number, float):
            raise GenericError(b"value cannot be Infinity")
        result = long_double.add(number, addition.increment)
    is_infinite = not addition.is_whole and result in (math.inf, -math.inf)
    if is_infinite or not addition.lowest <= result <= addition.highest:
        if not saturate:
            return number, 0, False
        result = min(max(result, addition.lowest), addition.highest)
    applied = result - number if addition.is_whole else long_double.add(result, -number)
    if isinstance(applied, float) and math.isinf(applied):
        raise GenericError(b"applied increment would be Infinity")
    if addition.is_whole and not INT64_MIN <= applied <= INT64_MAX:
        raise GenericError(b"applied increment would overflow")
    return result, applied, True


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
    addition = _addition(options)
    timed_by = _timed_by(options)
    if b"ENX" in options and timed_by is None:
        raise GenericError(b"ENX flag requires an expiration")
    due_ms = None if timed_by is None else due_time_ms(context, timed_by, options[timed_by], b"increx")
    key, db = argv[1], context.db
    old = db.get_string(key, context.now_ms)
    result, applied, is_set = _result(old, addition, saturate=b"SATURATE" in options)
    texts = [b"%d" % each if addition.is_whole else long_double.text_of(int(each)) for each in (result, applied)]
    if is_set:
        keeps_expiry = b"ENX" in options and key in db.expires
        text = texts[0] if addition.is_whole else SumText(texts[0])
        _store(context, key, text, None if keeps_expiry else due_ms, persist=b"PERSIST" in options)
    return [result, applied] if addition.is_whole else [DoubleText(text) for text in texts]


def _store(context: Context, key: bytes, text: bytes, due_ms: int | None, *, persist: bool) -> None:
    """Sets and logs the sum. An expiry time in the past deletes the key.

    The expiry time stays if `due_ms` is None and `persist` is false.
    """
    db = context.db
    if due_ms is not None and due_ms <= context.now_ms and not context.replaying:
        db.remove(key, DEL)
        context.log(b"DEL", key)
        return
    db.put(key, text, INCRBYFLOAT if isinstance(text, SumText) else INCRBY, keep_expiry=True)
    if due_ms is not None:
        db.expires[key] = due_ms
        db.announce(EXPIRE, key)
        context.log(b"SET", key, text, b"PXAT", b"%d" % due_ms)
    elif not persist:
        context.log(b"SET", key, text, b"KEEPTTL")
    else:
        if db.expires.pop(key, None) is not None:
            db.announce(PERSIST, key)
        context.log(b"SET", key, text)
