"""Commands on several strings: MGET, MSET, MSETNX, MSETEX."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ...protocol.replies import OK, Reply
from ...store.errors import GenericError, syntax_error, wrong_number_of_arguments
from ...store.events import EXPIRE, SET
from ..core.numbers import parse_integer
from ..core.table import Argument, Flag, KeySpec, command
from ..execution.context import Context
from .values import KEY_ARGUMENT, SET_EXPIRY_ARGUMENTS, UNITS_MS, WRITE, due_time_ms

DATA_ARGUMENT: Final = Argument("data", "block", multiple=True, arguments=(KEY_ARGUMENT, Argument("value")))
SHARDS: Final = ("request_policy:multi_shard", "response_policy:all_succeeded")
KEYS_COUNT_MAX: Final = 2**31 - 1


@command(
    "MSET",
    arity=-3,
    flags=WRITE,
    keys=(KeySpec(1, -1, 2, ("OW", "update")),),
    categories=("string",),
    group="string",
    since="1.0.1",
    summary="Sets several strings at once.",
    complexity="O(N) in the number of keys.",
    arguments=(DATA_ARGUMENT,),
    tips=SHARDS,
)
def mset(context: Context, argv: list[bytes]) -> Reply:
    """MSET key value [key value ...]. Returns OK. Raises GenericError. Source: Redis 1.0."""
    if len(argv) % 2 == 0:
        raise wrong_number_of_arguments(b"mset")
    db, now_ms = context.db, context.now_ms
    for index in range(1, len(argv), 2):
        db.overwrite(argv[index], argv[index + 1], SET, now_ms)
    context.log_words(argv, len(argv) // 2)
    return OK


@command(
    "MGET",
    arity=-2,
    flags=Flag.READONLY | Flag.FAST,
    keys=(KeySpec(1, -1, 1, ("RO", "access")),),
    categories=("string",),
    group="string",
    since="1.0.0",
    summary="Returns several strings.",
    complexity="O(N) in the number of keys.",
    arguments=(Argument("key", "key", key_spec_index=0, multiple=True),),
    tips=("request_policy:multi_shard",),
)
def mget(context: Context, argv: list[bytes]) -> Reply:
    """MGET key [key ...]. Returns the values; null for a key that is missing or has another type. Source: Redis 1.0."""
    return context.db.read_strings(argv[1:], context.now_ms)


@command(
    "MSETNX",
    arity=-3,
    flags=WRITE,
    keys=(KeySpec(1, -1, 2, ("OW", "insert")),),
    categories=("string",),
    group="string",
    since="1.0.1",
    summary="Sets several strings at once, if none of their keys exists.",
    complexity="O(N) in the number of keys.",
    arguments=(DATA_ARGUMENT,),
)
def msetnx(context: Context, argv: list[bytes]) -> Reply:
    """MSETNX key value [key value ...]. Returns 1, or 0 if a key exists. Raises GenericError. Source: Redis 1.0."""
    if len(argv) % 2 == 0:
        raise wrong_number_of_arguments(b"msetnx")
    db, now_ms = context.db, context.now_ms
    if any(db.get(key, now_ms) is not None for key in argv[1::2]):
        return 0
    for index in range(1, len(argv), 2):
        db.overwrite(argv[index], argv[index + 1], SET, now_ms)
    context.log_words(argv, len(argv) // 2)
    return 1


def _parse_msetex(argv: list[bytes]) -> tuple[int, bytes | None, int | None, bool]:
    """Parses MSETEX. Raises GenericError.

    Returns the index of the first option, NX or XX, the index of the time, and whether keys keep their expiry times.
    """
    count = parse_integer(argv[1])
    if count is None or not 0 < count <= KEYS_COUNT_MAX:
        raise GenericError(b"invalid numkeys value")
    options_start = 2 + 2 * count
    if options_start > len(argv):
        raise GenericError(b"wrong number of key-value pairs")
    condition: bytes | None = None
    time_index: int | None = None
    keep_expiry = False
    index = options_start
    while index < len(argv):
        word = argv[index].upper()
        if word in (b"NX", b"XX") and condition in (None, word):
            condition = word
        elif word == b"KEEPTTL" and time_index is None:
            keep_expiry = True
        elif (
            word in UNITS_MS
            and not keep_expiry
            and index + 1 < len(argv)
            and (time_index is None or argv[time_index - 1].upper() == word)
        ):
            index += 1
            time_index = index
        else:
            raise syntax_error()
        index += 1
    return options_start, condition, time_index, keep_expiry


@command(
    "MSETEX",
    arity=-4,
    flags=WRITE | Flag.MOVABLEKEYS,
    keys=(KeySpec(2, 0, 2, ("OW", "update"), count_at=1),),
    categories=("string",),
    group="string",
    since="8.4.0",
    summary="Sets several strings at once, with one expiry time for all.",
    complexity="O(N) in the number of keys.",
    arguments=(
        Argument("numkeys", "integer"),
        DATA_ARGUMENT,
        Argument(
            "condition",
            "oneof",
            optional=True,
            arguments=(Argument("nx", "pure-token", token="NX"), Argument("xx", "pure-token", token="XX")),
        ),
        Argument(
            "expiration",
            "oneof",
            optional=True,
            arguments=tuple(replace(argument, since=None) for argument in SET_EXPIRY_ARGUMENTS),
        ),
    ),
    tips=SHARDS,
)
def msetex(context: Context, argv: list[bytes]) -> Reply:
    """MSETEX numkeys key value [key value ...] [NX | XX] [EX seconds | PX ms | EXAT unix-s | PXAT unix-ms | KEEPTTL]

    Sets all strings or none: none with NX if a key exists, none with XX if a key is missing. If an option is repeated,
    the last one counts. Returns 1, or 0 if no string was set. Raises GenericError.
    Source: redis.io/commands/msetex, Redis 8.4.
    """
    options_start, condition, time_index, keep_expiry = _parse_msetex(argv)
    due_ms = None
    if time_index is not None:
        due_ms = due_time_ms(context, argv[time_index - 1].upper(), argv[time_index], b"msetex")
    db, now_ms = context.db, context.now_ms
    keys = argv[2:options_start:2]
    if condition is not None and any((db.get(key, now_ms) is None) == (condition == b"XX") for key in keys):
        return 0
    for index in range(2, options_start, 2):
        key, value = argv[index], argv[index + 1]
        db.announce_overwritten(key, db.get(key, now_ms), value)
        db.put(key, value, keep_expiry=keep_expiry)
        if due_ms is not None:
            db.expires[key] = due_ms
            db.announce(EXPIRE, key)
        db.announce(SET, key)
    options = [] if due_ms is None else [b"PXAT", b"%d" % due_ms]
    context.log_words([b"MSETEX", *argv[1:options_start], *([b"KEEPTTL"] if keep_expiry else options)], len(keys))
    return 1
