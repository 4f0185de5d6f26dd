"""Commands that set and get whole strings: SET, GET and their variants."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import xxhash

from ...protocol.replies import OK, Reply
from ...store.errors import GenericError, syntax_error
from ...store.events import DEL, EXPIRE, PERSIST, SET
from ...store.value import Value
from ..core.expire_times import TIME_MS_MAX, invalid_expire_time
from ..core.numbers import integer
from ..core.table import Argument, Flag, KeySpec, command
from ..execution.context import Context

KEY_ARGUMENT: Final = Argument("key", "key", key_spec_index=0)
EXPIRY_ARGUMENTS: Final = (
    Argument("seconds", "integer", token="EX"),
    Argument("milliseconds", "integer", token="PX"),
    Argument("unix-time-seconds", "unix-time", token="EXAT"),
    Argument("unix-time-milliseconds", "unix-time", token="PXAT"),
)
SET_EXPIRY_ARGUMENTS: Final = (
    *(replace(argument, since="2.6.12") for argument in EXPIRY_ARGUMENTS[:2]),
    *(replace(argument, since="6.2.0") for argument in EXPIRY_ARGUMENTS[2:]),
    Argument("keepttl", "pure-token", token="KEEPTTL", since="6.0.0"),
)
UNITS_MS: Final = {b"EX": 1000, b"PX": 1, b"EXAT": 1000, b"PXAT": 1}
RELATIVE_UNITS: Final = (b"EX", b"PX")
# Conditions that take an argument.
COMPARISONS: Final = (b"IFEQ", b"IFNE", b"IFDEQ", b"IFDNE")
COMPARISON_ARGUMENTS: Final = (
    Argument("ifeq-value", token="IFEQ"),
    Argument("ifne-value", token="IFNE"),
    Argument("ifdeq-digest", token="IFDEQ"),
    Argument("ifdne-digest", token="IFDNE"),
)
# Hexadecimal digits of an XXH3 digest.
DIGEST_SIZE: Final = 16

READ_KEY: Final = (KeySpec(1, 1, 1, ("RO", "access")),)
WRITE: Final = Flag.WRITE | Flag.DENYOOM


def due_time_ms(context: Context, word: bytes, token: bytes, name: bytes) -> int:
    """Returns the expiry time of EX, PX, EXAT or PXAT as Unix time in ms. Raises GenericError."""
    number = integer(token)
    due_ms = number * UNITS_MS[word]
    if number <= 0 or due_ms > TIME_MS_MAX:
        raise invalid_expire_time(name)
    if word in RELATIVE_UNITS:
        due_ms += context.now_ms
        if due_ms > TIME_MS_MAX:
            raise invalid_expire_time(name)
    return due_ms


def store_string(context: Context, key: bytes, value: bytes, due_ms: int | None) -> None:
    """Sets and logs a string, with or without an expiry time. A time in the past deletes the key."""
    db = context.db
    if due_ms is not None and due_ms <= context.now_ms and not context.replaying:
        db.remove(key, DEL)
        context.log(b"DEL", key)
        return
    db.overwrite(key, value, SET, context.now_ms)
    if due_ms is None:
        context.log(b"SET", key, value)
    else:
        db.expires[key] = due_ms
        db.announce(EXPIRE, key)
        context.log(b"SET", key, value, b"PXAT", b"%d" % due_ms)


class SetRequest:
    """The options of SET. No dataclass, since the constructor of a frozen one would cost a tenth of SET with EX."""

    __slots__ = ("compared", "condition", "expiry", "get", "keep_expiry")

    def __init__(
        self,
        condition: bytes | None,
        compared: bytes,
        expiry: tuple[bytes, bytes] | None,
        keep_expiry: bool,
        get: bool,
    ) -> None:
        # NX, XX or one of COMPARISONS.
        self.condition: Final = condition
        # The value or digest to compare with.
        self.compared: Final = compared
        # (EX | PX | EXAT | PXAT, number).
        self.expiry: Final = expiry
        self.keep_expiry: Final = keep_expiry
        self.get: Final = get


def _parse_set(argv: list[bytes]) -> SetRequest:
    condition: bytes | None = None
    expiry: tuple[bytes, bytes] | None = None
    compared, keep_expiry, get = b"", False, False
    index = 3
    while index < len(argv):
        word = argv[index].upper()
        more = index + 1 < len(argv)
        if word in (b"NX", b"XX") and condition in (None, word):
            condition = word
        elif word in COMPARISONS and condition in (None, word) and more:
            index += 1
            condition, compared = word, argv[index]
        elif word == b"GET":
            get = True
        elif word == b"KEEPTTL" and expiry is None:
            keep_expiry = True
        elif word in UNITS_MS and not keep_expiry and more and (expiry or (word,))[0] == word:
            index += 1
            expiry = (word, argv[index])
        else:
            raise syntax_error()
        index += 1
    return SetRequest(condition, compared, expiry, keep_expiry, get)


@command(
    "SET",
    arity=-3,
    flags=WRITE,
    keys=(
        KeySpec(
            1,
            1,
            1,
            ("RW", "access", "update", "variable_flags"),
            note="RW and ACCESS due to the optional `GET` argument",
        ),
    ),
    categories=("string",),
    group="string",
    since="1.0.0",
    summary="Sets a string, whatever the type of its key was.",
    complexity="O(1)",
    arguments=(
        KEY_ARGUMENT,
        Argument("value"),
        Argument(
            "condition",
            "oneof",
            optional=True,
            since="2.6.12",
            arguments=(
                Argument("nx", "pure-token", token="NX"),
                Argument("xx", "pure-token", token="XX"),
                *(replace(argument, since="8.4.0") for argument in COMPARISON_ARGUMENTS),
            ),
        ),
        Argument("get", "pure-token", token="GET", optional=True, since="6.2.0"),
        Argument(
            "expiration",
            "oneof",
            optional=True,
            arguments=SET_EXPIRY_ARGUMENTS,
        ),
    ),
    history=(
        ("2.6.12", "Added `EX`, `PX`, `NX` and `XX`."),
        ("6.0.0", "Added `KEEPTTL`."),
        ("6.2.0", "Added `GET`, `EXAT` and `PXAT`."),
        ("7.0.0", "`NX` may be combined with `GET`."),
        ("8.4.0", "Added `IFEQ`, `IFNE`, `IFDEQ` and `IFDNE`."),
    ),
    differs="With `GET` and a digest of the wrong length it replies with the error alone. Redis replies with the old "
    "value as well, so that clients take later replies for those of other commands.",
)
def set_(context: Context, argv: list[bytes]) -> Reply:
    """SET key value [NX | XX | IFEQ value | IFNE value | IFDEQ digest | IFDNE digest] [GET]
    [EX seconds | PX ms | EXAT unix-s | PXAT unix-ms | KEEPTTL]

    Returns OK; null if the condition does not hold; with GET, the old value. A missing key is not equal to any value or
    digest. A digest is an XXH3 hash, 16 hexadecimal digits. If an option is repeated, the last one counts.
    Raises WrongType, GenericError. Source: redis.io/commands/set, Redis 8.4.
    """
    key, value = argv[1], argv[2]
    if len(argv) == 3:
        context.db.overwrite(key, value, SET, context.now_ms)
        context.log(b"SET", key, value)
        return OK
    if len(argv) == 5 and (word := argv[3].upper()) in RELATIVE_UNITS:  # as caches set most of their keys
        store_string(context, key, value, due_time_ms(context, word, argv[4], b"set"))
        return OK
    request = _parse_set(argv)
    due_ms = None if request.expiry is None else due_time_ms(context, *request.expiry, b"set")
    db = context.db
    compares = request.condition in COMPARISONS
    if request.get or (compares and db.get(key, context.now_ms) is not None):
        # A comparison with a missing key does not count as a read.
        old: Value | None = db.read_string(key, context.now_ms)
    else:
        old = db.get(key, context.now_ms)
    if not _condition_holds(request, old):
        return old if request.get else None
    if request.keep_expiry:
        db.overwrite(key, value, SET, context.now_ms, keep_expiry=True)
        context.log(b"SET", key, value, b"KEEPTTL")
    else:
        store_string(context, key, value, due_ms)
    return old if request.get else OK


def _condition_holds(request: SetRequest, old: Value | None) -> bool:
    """Whether the condition of a SET holds. Raises GenericError for a digest of the wrong size."""
    condition, compared = request.condition, request.compared
    if condition is None:
        return True
    if condition == b"XX" or condition == b"NX":
        return (old is not None) == (condition == b"XX")
    if isinstance(old, bytes):
        return comparison_holds(condition, compared, old)
    return condition in (b"IFNE", b"IFDNE")


def comparison_holds(condition: bytes, compared: bytes, text: bytes) -> bool:
    """Whether a string meets IFEQ, IFNE, IFDEQ or IFDNE. Raises GenericError for a digest of the wrong size."""
    if condition in (b"IFDEQ", b"IFDNE"):
        if len(compared) != DIGEST_SIZE:
            raise GenericError(b"must be exactly 16 hexadecimal characters")
        text, compared = xxhash.xxh3_64_hexdigest(text).encode(), compared.lower()
    return (text == compared) == (condition in (b"IFEQ", b"IFDEQ"))


@command(
    "GET",
    arity=2,
    flags=Flag.READONLY | Flag.FAST,
    keys=READ_KEY,
    categories=("string",),
    group="string",
    since="1.0.0",
    summary="Returns a string.",
    complexity="O(1)",
    arguments=(KEY_ARGUMENT,),
)
def get(context: Context, argv: list[bytes]) -> Reply:
    """GET key. Returns the value, null if the key is missing. Raises WrongType. Source: Redis 1.0."""
    return context.db.read_string(argv[1], context.now_ms)


@command(
    "GETDEL",
    arity=2,
    flags=Flag.WRITE | Flag.FAST,
    keys=(KeySpec(1, 1, 1, ("RW", "access", "delete")),),
    categories=("string",),
    group="string",
    since="6.2.0",
    summary="Returns a string and deletes its key.",
    complexity="O(1)",
    arguments=(KEY_ARGUMENT,),
)
def getdel(context: Context, argv: list[bytes]) -> Reply:
    """GETDEL key. Returns the value, null if the key is missing. Raises WrongType. Source: Redis 6.2."""
    value = context.db.read_string(argv[1], context.now_ms)
    if value is not None:
        context.db.remove(argv[1], DEL)
        context.log(b"DEL", argv[1])
    return value


def _parse_getex(argv: list[bytes]) -> tuple[bytes, bytes]:
    """Parses GETEX and returns its option word, empty if there is none, and the time. Raises GenericError.

    One option may be repeated; the last one counts.
    """
    chosen = token = b""
    words = iter(argv[2:])
    for given in words:
        word = given.upper()
        if chosen not in (b"", word):
            raise syntax_error()
        chosen = word
        if word in UNITS_MS:
            following = next(words, None)
            if following is None:
                raise syntax_error()
            token = following
        elif word != b"PERSIST":
            raise syntax_error()
    return chosen, token


@command(
    "GETEX",
    arity=-2,
    flags=Flag.WRITE | Flag.FAST,
    keys=(KeySpec(1, 1, 1, ("RW", "access", "update"), note="RW and UPDATE because it changes the TTL"),),
    categories=("string",),
    group="string",
    since="6.2.0",
    summary="Returns a string and sets the expiry time of its key.",
    complexity="O(1)",
    arguments=(
        KEY_ARGUMENT,
        Argument(
            "expiration",
            "oneof",
            optional=True,
            arguments=(*EXPIRY_ARGUMENTS, Argument("persist", "pure-token", token="PERSIST")),
        ),
    ),
)
def getex(context: Context, argv: list[bytes]) -> Reply:
    """GETEX key [EX seconds | PX ms | EXAT unix-s | PXAT unix-ms | PERSIST]

    Returns the value, null if the key is missing. Raises WrongType, GenericError. Source: Redis 6.2.
    """
    word, token = _parse_getex(argv)
    key, db = argv[1], context.db
    value = db.read_string(key, context.now_ms)
    if value is None:
        return None
    if word in UNITS_MS:
        due_ms = due_time_ms(context, word, token, b"getex")
        if due_ms <= context.now_ms and not context.replaying:
            db.remove(key, DEL)
            context.log(b"DEL", key)
        else:
            db.expires[key] = due_ms
            db.touch(key, EXPIRE)
            context.log(b"PEXPIREAT", key, b"%d" % due_ms)
    elif word == b"PERSIST" and db.expires.pop(key, None) is not None:
        db.touch(key, PERSIST)
        context.log(b"PERSIST", key)
    return value


@command(
    "GETSET",
    arity=3,
    flags=WRITE | Flag.FAST,
    keys=(KeySpec(1, 1, 1, ("RW", "access", "update")),),
    categories=("string",),
    group="string",
    since="1.0.0",
    summary="Sets a string and returns the old one.",
    complexity="O(1)",
    arguments=(KEY_ARGUMENT, Argument("value")),
    deprecated=("6.2.0", "`SET` with the `!GET` argument"),
)
def getset(context: Context, argv: list[bytes]) -> Reply:
    """GETSET key value. Returns the old value; null if the key was missing. Raises WrongType. Source: Redis 1.0."""
    old = context.db.read_string(argv[1], context.now_ms)
    store_string(context, argv[1], argv[2], None)
    return old


@command(
    "SETNX",
    arity=3,
    flags=WRITE | Flag.FAST,
    keys=(KeySpec(1, 1, 1, ("OW", "insert")),),
    categories=("string",),
    group="string",
    since="1.0.0",
    summary="Sets a string if the key is missing.",
    complexity="O(1)",
    arguments=(KEY_ARGUMENT, Argument("value")),
    deprecated=("2.6.12", "`SET` with the `NX` argument"),
)
def setnx(context: Context, argv: list[bytes]) -> Reply:
    """SETNX key value. Returns 1 if it was set, else 0. Source: Redis 1.0."""
    if context.db.get(argv[1], context.now_ms) is not None:
        return 0
    store_string(context, argv[1], argv[2], None)
    return 1


def _declare_timed_set(name: str, word: bytes, time_name: str, since: str, summary: str) -> None:
    def set_timed(context: Context, argv: list[bytes]) -> Reply:
        store_string(context, argv[1], argv[3], due_time_ms(context, word, argv[2], name.lower().encode()))
        return OK

    set_timed.__doc__ = f"{name} key {time_name} value. Returns OK. Raises GenericError. Source: Redis {since}."
    command(
        name,
        arity=4,
        flags=WRITE,
        keys=(KeySpec(1, 1, 1, ("OW", "update")),),
        categories=("string",),
        group="string",
        since=since,
        summary=summary,
        complexity="O(1)",
        arguments=(KEY_ARGUMENT, Argument(time_name, "integer"), Argument("value")),
        deprecated=("2.6.12", f"`SET` with the `{word.decode()}` argument"),
    )(set_timed)


_declare_timed_set("SETEX", b"EX", "seconds", "2.0.0", "Sets a string that ends after some seconds.")
_declare_timed_set("PSETEX", b"PX", "milliseconds", "2.6.0", "Sets a string that expires after some milliseconds.")
