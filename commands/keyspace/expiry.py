"""Expiry times: EXPIRE, TTL and their variants, PERSIST."""

from __future__ import annotations

from typing import Final

from ...protocol.replies import Reply
from ...store import events
from ...store.errors import GenericError
from ..core.expire_times import TIME_MS_MAX, invalid_expire_time
from ..core.numbers import integer
from ..core.table import Argument, Flag, Handler, KeySpec, Trait, command
from ..execution.context import Context

NO_KEY: Final = -2
NO_EXPIRY: Final = -1

KEY_ARGUMENT: Final = Argument("key", "key", key_spec_index=0)
CONDITION_ARGUMENT: Final = Argument(
    "condition",
    "oneof",
    optional=True,
    since="7.0.0",
    arguments=tuple(Argument(word.lower(), "pure-token", token=word) for word in ("NX", "XX", "GT", "LT")),
)
CONDITIONS: Final = frozenset((b"NX", b"XX", b"GT", b"LT"))


def _parse_conditions(argv: list[bytes]) -> set[bytes]:
    conditions: set[bytes] = set()
    for token in argv[3:]:
        word = token.upper()
        if word not in CONDITIONS:
            raise GenericError(b"Unsupported option " + token)
        conditions.add(word)
    if b"NX" in conditions and len(conditions) > 1:
        raise GenericError(b"NX and XX, GT or LT options at the same time are not compatible")
    if b"GT" in conditions and b"LT" in conditions:
        raise GenericError(b"GT and LT options at the same time are not compatible")
    return conditions


def _holds(conditions: set[bytes], present_ms: int | None, due_ms: int) -> bool:
    """Whether the conditions allow the new time. A key without expiry counts as one that expires at infinity."""
    if b"NX" in conditions and present_ms is not None:
        return False
    if b"XX" in conditions and present_ms is None:
        return False
    if b"GT" in conditions and (present_ms is None or due_ms <= present_ms):
        return False
    return not (b"LT" in conditions and present_ms is not None and due_ms >= present_ms)


def _set_expiry(context: Context, argv: list[bytes], *, unit_ms: int, is_relative: bool) -> Reply:
    conditions = _parse_conditions(argv) if len(argv) > 3 else None
    number = integer(argv[2])
    due_ms = number * unit_ms
    if not -TIME_MS_MAX - 1 <= due_ms <= TIME_MS_MAX:
        raise invalid_expire_time(argv[0].lower())
    if is_relative:
        due_ms += context.now_ms
        if due_ms > TIME_MS_MAX:
            raise invalid_expire_time(argv[0].lower())
    db, key = context.db, argv[1]
    if db.get(key, context.now_ms) is None:
        return 0
    if conditions is not None and not _holds(conditions, db.expires.get(key), due_ms):
        return 0
    if due_ms <= context.now_ms and not context.replaying:
        db.delete(key, events.DEL)
        context.log(b"DEL", key)
        return 1
    db.expires[key] = due_ms
    db.touch(key, events.EXPIRE)
    if conditions is None:
        context.log(b"PEXPIREAT", key, b"%d" % due_ms)
    else:
        context.log(b"PEXPIREAT", key, b"%d" % due_ms, *argv[3:])
    return 1


def _declare_expire(
    name: str, unit_ms: int, *, is_relative: bool, since: str, argument: Argument, summary: str
) -> None:
    def expire(context: Context, argv: list[bytes]) -> Reply:
        return _set_expiry(context, argv, unit_ms=unit_ms, is_relative=is_relative)

    declare = command(
        name,
        arity=-3,
        flags=Flag.WRITE | Flag.FAST,
        keys=(KeySpec(1, 1, 1, ("RW", "update")),),
        categories=("keyspace",),
        group="generic",
        since=since,
        summary=summary,
        complexity="O(1)",
        arguments=(KEY_ARGUMENT, argument, CONDITION_ARGUMENT),
        history=(("7.0.0", "Added the `NX`, `XX`, `GT` and `LT` conditions."),),
    )
    expire.__doc__ = (
        f"{name} key {argument.name} [NX | XX | GT | LT]. Returns 1 if the time was set, 0 if the key is missing or "
        "the condition does not hold. Raises GenericError. Source: Redis 7.0."
    )
    declare(expire)


_declare_expire(
    "EXPIRE", 1000, is_relative=True, since="1.0.0", argument=Argument("seconds", "integer"),
    summary="Sets the expiry time of a key, in seconds from now.",
)  # fmt: skip
_declare_expire(
    "PEXPIRE", 1, is_relative=True, since="2.6.0", argument=Argument("milliseconds", "integer"),
    summary="Sets the expiry time of a key, in milliseconds from now.",
)  # fmt: skip
_declare_expire(
    "EXPIREAT", 1000, is_relative=False, since="1.2.0", argument=Argument("unix-time-seconds", "unix-time"),
    summary="Sets the expiry time of a key, as a Unix time in seconds.",
)  # fmt: skip
_declare_expire(
    "PEXPIREAT", 1, is_relative=False, since="2.6.0", argument=Argument("unix-time-milliseconds", "unix-time"),
    summary="Sets the expiry time of a key, as a Unix time in milliseconds.",
)  # fmt: skip


def _declare_ttl(
    name: str,
    since: str,
    summary: str,
    shown: Handler,
    *,
    tips: tuple[str, ...] = (),
    history: tuple[tuple[str, str], ...] = (),
) -> None:
    declare = command(
        name,
        arity=2,
        flags=Flag.READONLY | Flag.FAST,
        keys=(KeySpec(1, 1, 1, ("RO", "access")),),
        categories=("keyspace",),
        group="generic",
        since=since,
        summary=summary,
        complexity="O(1)",
        arguments=(KEY_ARGUMENT,),
        history=history,
        tips=tips,
        traits=Trait.KEEPS_USE_TIMES,
    )
    declare(shown)


def _due_ms(context: Context, key: bytes) -> int:
    """Returns the expiry time of a key as Unix time in ms; or NO_KEY or NO_EXPIRY."""
    if context.db.read(key, context.now_ms) is None:
        return NO_KEY
    return context.db.expires.get(key, NO_EXPIRY)


def ttl(context: Context, argv: list[bytes]) -> Reply:
    """TTL key. Returns the seconds left, rounded; -1 without expiry, -2 if the key is missing. Source: Redis 2.8."""
    due_ms = _due_ms(context, argv[1])
    return due_ms if due_ms < 0 else (max(due_ms - context.now_ms, 0) + 500) // 1000


def pttl(context: Context, argv: list[bytes]) -> Reply:
    """PTTL key. Returns the milliseconds left; -1 without expiry, -2 if the key is missing. Source: Redis 2.8."""
    due_ms = _due_ms(context, argv[1])
    return due_ms if due_ms < 0 else max(due_ms - context.now_ms, 0)


def expiretime(context: Context, argv: list[bytes]) -> Reply:
    """EXPIRETIME key. Returns a Unix time in seconds, -1 without expiry, -2 without a key. Source: Redis 7.0."""
    due_ms = _due_ms(context, argv[1])
    return due_ms if due_ms < 0 else (due_ms + 500) // 1000


def pexpiretime(context: Context, argv: list[bytes]) -> Reply:
    """PEXPIRETIME key. Returns a Unix time in ms; -1 without expiry, -2 if the key is missing. Source: Redis 7.0."""
    return _due_ms(context, argv[1])


_VARYING: Final = ("nondeterministic_output",)
_MISSING_KEY_HISTORY: Final = (("2.8.0", "Returns -2 if the key is missing."),)
_declare_ttl(
    "TTL", "1.0.0", "Returns the seconds until a key expires.", ttl, tips=_VARYING, history=_MISSING_KEY_HISTORY
)
_declare_ttl(
    "PTTL", "2.6.0", "Returns the milliseconds until a key expires.", pttl, tips=_VARYING, history=_MISSING_KEY_HISTORY
)
_declare_ttl("EXPIRETIME", "7.0.0", "Returns the expiry time of a key, as a Unix time in seconds.", expiretime)
_declare_ttl("PEXPIRETIME", "7.0.0", "Returns the expiry time of a key, as a Unix time in milliseconds.", pexpiretime)


@command(
    "PERSIST",
    arity=2,
    flags=Flag.WRITE | Flag.FAST,
    keys=(KeySpec(1, 1, 1, ("RW", "update")),),
    categories=("keyspace",),
    group="generic",
    since="2.2.0",
    summary="Removes the expiry time of a key.",
    complexity="O(1)",
    arguments=(KEY_ARGUMENT,),
)
def persist(context: Context, argv: list[bytes]) -> Reply:
    """PERSIST key. Returns 1 if the key had an expiry time, else 0. Source: Redis 2.2."""
    db, key = context.db, argv[1]
    if db.get(key, context.now_ms) is None or key not in db.expires:
        return 0
    del db.expires[key]
    db.touch(key, events.PERSIST)
    context.log(b"PERSIST", key)
    return 1
