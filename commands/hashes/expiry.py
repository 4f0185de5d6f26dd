"""Expiry times of fields: HEXPIRE, HPERSIST, HTTL and the commands like them."""

from __future__ import annotations

from typing import Final

from ...protocol.replies import Reply
from ...store.companions.hash_value import HashValue
from ...store.errors import GenericError, shown_last
from ...store.events import HDEL, HEXPIRE, HPERSIST
from ..core.numbers import integer, parse_integer
from ..core.table import Argument, Flag, KeySpec, command
from ..execution.context import Context

# Unix ms of the latest expiry time of a field, 46 bits.
DUE_MS_MAX: Final = (1 << 46) - 1
COUNT_MAX: Final = 2**31 - 1
CONDITIONS: Final = frozenset((b"NX", b"XX", b"GT", b"LT"))

# Replies for one field.
MISSING: Final = -2
NO_TIME: Final = -1
UNCHANGED: Final = 0
CHANGED: Final = 1
REMOVED: Final = 2
# The reply of HPERSIST for each result of `persist_all`, the last one for -1.
STATES: Final = (NO_TIME, CHANGED, MISSING)


def field_due_ms(context: Context, token: bytes, unit_ms: int, name: bytes, *, is_absolute: bool) -> int:
    """The Unix time in ms that a time of `unit_ms` stands for. Raises GenericError with the name of the command."""
    number = integer(token)
    if number < 0:
        raise GenericError(b"invalid expire time, must be >= 0")
    due_ms = number * unit_ms + (0 if is_absolute else context.now_ms)
    if due_ms > DUE_MS_MAX:
        raise GenericError(b"invalid expire time in '%b' command" % name)
    return due_ms


def named_fields(argv: list[bytes]) -> list[bytes]:
    """The fields of `key FIELDS count field [field ...]`. Raises GenericError."""
    if argv[2].upper() != b"FIELDS":
        raise GenericError(b"Mandatory argument FIELDS is missing or not at the right position")
    count = parse_integer(argv[3])
    if count is None or count < 1:
        raise GenericError(b"Number of fields must be a positive integer")
    if count != len(argv) - 4:
        raise GenericError(b"The `numfields` parameter must match the number of arguments")
    return argv[4:]


def _parse_options(argv: list[bytes]) -> tuple[bytes | None, int, int]:
    """The condition of HEXPIRE, the index of its first field and the number of fields. Raises GenericError."""
    conditions: list[bytes] = []
    first = count = 0
    index = 3
    while index < len(argv):
        word = argv[index].upper()
        if word in CONDITIONS:
            if word not in conditions:
                conditions.append(word)
        elif word == b"FIELDS":
            if first:
                raise GenericError(b"FIELDS keyword specified multiple times")
            if index + 2 >= len(argv):
                raise GenericError(b"FIELDS requires at least numfields and one field argument")
            number = parse_integer(argv[index + 1])
            if number is None or not 1 <= number <= COUNT_MAX:
                raise GenericError(b"Parameter `numFields` should be greater than 0")
            first, count = index + 2, number
            if first + count > len(argv):
                raise GenericError(b"wrong number of arguments")
            index = first + count - 1
        else:
            raise GenericError(b"unknown argument: %b" % shown_last(argv[index]))
        index += 1
    if not first:
        raise GenericError(b"missing FIELDS argument")
    if len(conditions) > 1:
        raise GenericError(b"Multiple condition flags specified")
    return conditions[0] if conditions else None, first, count


def _holds(condition: bytes | None, old_ms: int | None, due_ms: int) -> bool:
    """Whether a condition lets a time replace the old one. No time counts as later than any other."""
    if condition is None:
        return True
    if condition == b"NX":
        return old_ms is None
    if condition == b"LT":
        return old_ms is None or due_ms < old_ms
    return old_ms is not None and (condition == b"XX" or due_ms > old_ms)


def _expire_one(
    context: Context, key: bytes, value: HashValue, field: bytes, due_ms: int, condition: bytes | None
) -> int:
    """Sets the expiry time of a field, or removes it if that is over. Returns the number for it."""
    old_ms = value.times_of([field])[0]
    if old_ms < 0:
        return MISSING
    if not _holds(condition, old_ms or None, due_ms):
        return UNCHANGED
    if due_ms <= context.db.member_time_ms(context.now_ms):
        value.pop(field)
        context.log_expired_field(key, field)
        return REMOVED
    value.expire_at(field, due_ms)
    return CHANGED


def _expire(context: Context, argv: list[bytes], name: bytes, unit_ms: int, *, is_absolute: bool = False) -> Reply:
    """Sets the expiry times of fields. Returns a number for each. Raises GenericError, WrongType."""
    key, db, now_ms = argv[1], context.db, context.now_ms
    value = db.find_companion(key, HashValue, now_ms)
    due_ms = field_due_ms(context, argv[2], unit_ms, name, is_absolute=is_absolute)
    condition, first, count = _parse_options(argv)
    fields = argv[first : first + count]
    if value is None:
        return [MISSING] * count
    value.become_listpack_ex()
    replies: list[int] = []
    changed: list[bytes] = []
    if condition is None and due_ms > db.member_time_ms(now_ms):
        changed = value.expire_all_at(fields, due_ms)
        if len(changed) == len(fields):
            replies = [CHANGED] * len(fields)
        else:
            found = set(changed)
            replies = [CHANGED if field in found else MISSING for field in fields]
    else:
        for field in fields:
            replies.append(_expire_one(context, key, value, field, due_ms, condition))
            if replies[-1] == CHANGED:
                changed.append(field)
    if changed:
        options = () if condition is None else (condition,)
        context.log_words(
            [b"HPEXPIREAT", key, b"%d" % due_ms, *options, b"FIELDS", b"%d" % len(changed), *changed], len(changed)
        )
        db.settle(key, value, HEXPIRE)
    elif REMOVED in replies:
        db.settle(key, value, HDEL)
    return replies


def _times(context: Context, argv: list[bytes], unit_ms: int, *, is_absolute: bool) -> Reply:
    """The expiry times of fields, or the time until then. Raises GenericError, WrongType."""
    now_ms = context.now_ms
    value = context.db.read_companion(argv[1], HashValue, now_ms)
    fields = named_fields(argv)
    if value is None:
        return [MISSING] * len(fields)
    live_ms = context.db.member_time_ms(now_ms)
    replies: list[int] = []
    for due_ms in value.times_of(fields):
        if not due_ms:
            replies.append(NO_TIME)
        elif due_ms < live_ms:
            replies.append(MISSING)
        else:
            time_ms = due_ms if is_absolute else max(due_ms - now_ms, 0)
            # As Redis rounds.
            replies.append((time_ms + unit_ms - 1) // unit_ms)
    return replies


@command(
    "HEXPIRE",
    arity=-6,
    flags=Flag.WRITE | Flag.FAST,
    keys=(KeySpec(1, 1, 1, ("RW", "update")),),
    categories=("hash",),
    group="hash",
    since="7.4.0",
    summary="Sets the expiry times of fields, in seconds from now.",
    complexity="O(N) in the number of fields.",
    arguments=(
        Argument("key", "key", key_spec_index=0),
        Argument("seconds", "integer"),
        Argument(
            "condition",
            "oneof",
            optional=True,
            arguments=(
                Argument("nx", "pure-token", token="NX"),
                Argument("xx", "pure-token", token="XX"),
                Argument("gt", "pure-token", token="GT"),
                Argument("lt", "pure-token", token="LT"),
            ),
        ),
        Argument(
            "fields",
            "block",
            token="FIELDS",
            arguments=(
                Argument("numfields", "integer"),
                Argument("field", multiple=True),
            ),
        ),
    ),
)
def hexpire(context: Context, argv: list[bytes]) -> Reply:
    """HEXPIRE key seconds [NX | XX | GT | LT] FIELDS count field [field ...]

    Returns for each field 1, 0 if the condition does not hold, 2 if the time is over and the field was removed, -2 if
    there is no such field. Raises GenericError, WrongType. Source: Redis 7.4.
    """
    return _expire(context, argv, b"hexpire", 1000)


@command(
    "HPEXPIRE",
    arity=-6,
    flags=Flag.WRITE | Flag.FAST,
    keys=(KeySpec(1, 1, 1, ("RW", "update")),),
    categories=("hash",),
    group="hash",
    since="7.4.0",
    summary="Sets the expiry times of fields, in milliseconds from now.",
    complexity="O(N) in the number of fields.",
    arguments=(
        Argument("key", "key", key_spec_index=0),
        Argument("milliseconds", "integer"),
        Argument(
            "condition",
            "oneof",
            optional=True,
            arguments=(
                Argument("nx", "pure-token", token="NX"),
                Argument("xx", "pure-token", token="XX"),
                Argument("gt", "pure-token", token="GT"),
                Argument("lt", "pure-token", token="LT"),
            ),
        ),
        Argument(
            "fields",
            "block",
            token="FIELDS",
            arguments=(
                Argument("numfields", "integer"),
                Argument("field", multiple=True),
            ),
        ),
    ),
)
def hpexpire(context: Context, argv: list[bytes]) -> Reply:
    """HPEXPIRE key milliseconds [NX | XX | GT | LT] FIELDS count field [field ...]

    Returns for each field 1, 0 if the condition does not hold, 2 if the time is over and the field was removed, -2 if
    there is no such field. Raises GenericError, WrongType. Source: Redis 7.4.
    """
    return _expire(context, argv, b"hpexpire", 1)


@command(
    "HEXPIREAT",
    arity=-6,
    flags=Flag.WRITE | Flag.FAST,
    keys=(KeySpec(1, 1, 1, ("RW", "update")),),
    categories=("hash",),
    group="hash",
    since="7.4.0",
    summary="Sets the expiry times of fields as Unix times in seconds.",
    complexity="O(N) in the number of fields.",
    arguments=(
        Argument("key", "key", key_spec_index=0),
        Argument("unix-time-seconds", "unix-time"),
        Argument(
            "condition",
            "oneof",
            optional=True,
            arguments=(
                Argument("nx", "pure-token", token="NX"),
                Argument("xx", "pure-token", token="XX"),
                Argument("gt", "pure-token", token="GT"),
                Argument("lt", "pure-token", token="LT"),
            ),
        ),
        Argument(
            "fields",
            "block",
            token="FIELDS",
            arguments=(
                Argument("numfields", "integer"),
                Argument("field", multiple=True),
            ),
        ),
    ),
)
def hexpireat(context: Context, argv: list[bytes]) -> Reply:
    """HEXPIREAT key unix-time-seconds [NX | XX | GT | LT] FIELDS count field [field ...]

    Returns for each field 1, 0 if the condition does not hold, 2 if the time is over and the field was removed, -2 if
    there is no such field. Raises GenericError, WrongType. Source: Redis 7.4.
    """
    return _expire(context, argv, b"hexpireat", 1000, is_absolute=True)


@command(
    "HPEXPIREAT",
    arity=-6,
    flags=Flag.WRITE | Flag.FAST,
    keys=(KeySpec(1, 1, 1, ("RW", "update")),),
    categories=("hash",),
    group="hash",
    since="7.4.0",
    summary="Sets the expiry times of fields as Unix times in milliseconds.",
    complexity="O(N) in the number of fields.",
    arguments=(
        Argument("key", "key", key_spec_index=0),
        Argument("unix-time-milliseconds", "unix-time"),
        Argument(
            "condition",
            "oneof",
            optional=True,
            arguments=(
                Argument("nx", "pure-token", token="NX"),
                Argument("xx", "pure-token", token="XX"),
                Argument("gt", "pure-token", token="GT"),
                Argument("lt", "pure-token", token="LT"),
            ),
        ),
        Argument(
            "fields",
            "block",
            token="FIELDS",
            arguments=(
                Argument("numfields", "integer"),
                Argument("field", multiple=True),
            ),
        ),
    ),
)
def hpexpireat(context: Context, argv: list[bytes]) -> Reply:
    """HPEXPIREAT key unix-time-milliseconds [NX | XX | GT | LT] FIELDS count field [field ...]

    Returns for each field 1, 0 if the condition does not hold, 2 if the time is over and the field was removed, -2 if
    there is no such field. Raises GenericError, WrongType. Source: Redis 7.4.
    """
    return _expire(context, argv, b"hpexpireat", 1, is_absolute=True)


@command(
    "HPERSIST",
    arity=-5,
    flags=Flag.WRITE | Flag.FAST,
    keys=(KeySpec(1, 1, 1, ("RW", "update")),),
    categories=("hash",),
    group="hash",
    since="7.4.0",
    summary="Removes the expiry times of fields.",
    complexity="O(N) in the number of fields.",
    arguments=(
        Argument("key", "key", key_spec_index=0),
        Argument(
            "fields",
            "block",
            token="FIELDS",
            arguments=(
                Argument("numfields", "integer"),
                Argument("field", multiple=True),
            ),
        ),
    ),
)
def hpersist(context: Context, argv: list[bytes]) -> Reply:
    """HPERSIST key FIELDS count field [field ...]

    Returns for each field 1, -1 if it has no expiry time, -2 if there is no such field. Raises GenericError, WrongType.
    Source: Redis 7.4.
    """
    key, db = argv[1], context.db
    value = db.find_companion(key, HashValue, context.now_ms)
    fields = named_fields(argv)
    if value is None:
        return [MISSING] * len(fields)
    replies = [STATES[state] for state in value.persist_all(fields, db.member_time_ms(context.now_ms))]
    if CHANGED in replies:
        db.settle(key, value, HPERSIST)
        context.log_words(argv)
    return replies


@command(
    "HTTL",
    arity=-5,
    flags=Flag.READONLY | Flag.FAST,
    keys=(KeySpec(1, 1, 1, ("RO", "access")),),
    categories=("hash",),
    group="hash",
    since="7.4.0",
    summary="Returns the seconds until fields expire.",
    complexity="O(N) in the number of fields.",
    arguments=(
        Argument("key", "key", key_spec_index=0),
        Argument(
            "fields",
            "block",
            token="FIELDS",
            arguments=(
                Argument("numfields", "integer"),
                Argument("field", multiple=True),
            ),
        ),
    ),
    tips=("nondeterministic_output",),
)
def httl(context: Context, argv: list[bytes]) -> Reply:
    """HTTL key FIELDS count field [field ...]

    Returns for each field seconds, -1 if it has no expiry time, -2 if there is no such field. Raises GenericError,
    WrongType. Source: Redis 7.4.
    """
    return _times(context, argv, 1000, is_absolute=False)


@command(
    "HPTTL",
    arity=-5,
    flags=Flag.READONLY | Flag.FAST,
    keys=(KeySpec(1, 1, 1, ("RO", "access")),),
    categories=("hash",),
    group="hash",
    since="7.4.0",
    summary="Returns the milliseconds until fields expire.",
    complexity="O(N) in the number of fields.",
    arguments=(
        Argument("key", "key", key_spec_index=0),
        Argument(
            "fields",
            "block",
            token="FIELDS",
            arguments=(
                Argument("numfields", "integer"),
                Argument("field", multiple=True),
            ),
        ),
    ),
    tips=("nondeterministic_output",),
)
def hpttl(context: Context, argv: list[bytes]) -> Reply:
    """HPTTL key FIELDS count field [field ...]

    Returns for each field ms, -1 if it has no expiry time, -2 if there is no such field. Raises GenericError,
    WrongType. Source: Redis 7.4.
    """
    return _times(context, argv, 1, is_absolute=False)


@command(
    "HEXPIRETIME",
    arity=-5,
    flags=Flag.READONLY | Flag.FAST,
    keys=(KeySpec(1, 1, 1, ("RO", "access")),),
    categories=("hash",),
    group="hash",
    since="7.4.0",
    summary="Returns the expiry times of fields in seconds.",
    complexity="O(N) in the number of fields.",
    arguments=(
        Argument("key", "key", key_spec_index=0),
        Argument(
            "fields",
            "block",
            token="FIELDS",
            arguments=(
                Argument("numfields", "integer"),
                Argument("field", multiple=True),
            ),
        ),
    ),
)
def hexpiretime(context: Context, argv: list[bytes]) -> Reply:
    """HEXPIRETIME key FIELDS count field [field ...]

    Returns for each field Unix time in seconds, -1 if it has no expiry time, -2 if there is no such field. Raises
    GenericError, WrongType. Source: Redis 7.4.
    """
    return _times(context, argv, 1000, is_absolute=True)


@command(
    "HPEXPIRETIME",
    arity=-5,
    flags=Flag.READONLY | Flag.FAST,
    keys=(KeySpec(1, 1, 1, ("RO", "access")),),
    categories=("hash",),
    group="hash",
    since="7.4.0",
    summary="Returns the expiry times of fields in milliseconds.",
    complexity="O(N) in the number of fields.",
    arguments=(
        Argument("key", "key", key_spec_index=0),
        Argument(
            "fields",
            "block",
            token="FIELDS",
            arguments=(
                Argument("numfields", "integer"),
                Argument("field", multiple=True),
            ),
        ),
    ),
)
def hpexpiretime(context: Context, argv: list[bytes]) -> Reply:
    """HPEXPIRETIME key FIELDS count field [field ...]

    Returns for each field Unix time in ms, -1 if it has no expiry time, -2 if there is no such field. Raises
    GenericError, WrongType. Source: Redis 7.4.
    """
    return _times(context, argv, 1, is_absolute=True)
