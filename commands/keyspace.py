"""Keys whatever they hold: deleting, naming, copying, counting, listing, describing."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Final

from ..protocol.replies import OK, Reply, SimpleString
from ..store.database import Database, Value
from ..store.errors import GenericError, no_such_key, syntax_error
from ..store.events import COPY_TO, DEL, MOVE_FROM, MOVE_TO, RENAME_FROM, RENAME_TO, Event
from ..store.glob import compiled
from ..store.ids import loose_number
from ..store.stream import Stream
from .context import Context
from .databases import INT32_MAX, INT32_MIN, database_at
from .encoding import as_kept_under, string_encoding
from .numbers import integer, integer_between
from .table import Argument, Flag, KeySpec, command, container

SCAN_COUNT_DEFAULT: Final = 10
KEYS_AT_ONCE_MAX: Final = 5_000
"""With more keys than this, KEYS looks at them in several goes."""
KEYS_PER_PIECE: Final = 1_000

KEY_ARGUMENT: Final = Argument("key", "key", key_spec_index=0)
KEYS_ARGUMENT: Final = Argument("key", "key", key_spec_index=0, multiple=True)
SAME_OBJECT: Final = b"source and destination objects are the same"


def type_name(value: Value | None) -> bytes:
    """What TYPE answers."""
    if value is None:
        return b"none"
    return b"stream" if type(value) is Stream else b"string"


def _remove_keys(context: Context, argv: list[bytes]) -> int:
    db, now_ms = context.db, context.now_ms
    removed = [key for key in argv[1:] if db.get(key, now_ms) is not None and db.delete(key, DEL)]
    if removed:
        context.log(argv[0], *removed)
    return len(removed)


_REMOVED_KEYS: Final = (KeySpec(1, -1, 1, ("RM", "delete")),)
_SHARD_SUM: Final = ("request_policy:multi_shard", "response_policy:agg_sum")


@command(
    "DEL", arity=-2, flags=Flag.WRITE, keys=_REMOVED_KEYS, categories=("keyspace",), since="1.0.0",
    summary="Deletes keys.", complexity="O(N) in the number of keys.", arguments=(KEYS_ARGUMENT,), tips=_SHARD_SUM,
)  # fmt: skip
def delete(context: Context, argv: list[bytes]) -> Reply:
    """DEL key [key ...]. Returns the number of keys removed. Source: Redis 1.0."""
    return _remove_keys(context, argv)


@command(
    "UNLINK", arity=-2, flags=Flag.WRITE | Flag.FAST, keys=_REMOVED_KEYS, categories=("keyspace",), since="4.0.0",
    summary="Deletes keys.", complexity="O(N) in the number of keys.", arguments=(KEYS_ARGUMENT,), tips=_SHARD_SUM,
)  # fmt: skip
def unlink(context: Context, argv: list[bytes]) -> Reply:
    """UNLINK key [key ...]. Returns the number of keys removed. Source: Redis 4.0."""
    return _remove_keys(context, argv)


def _count_existing(context: Context, argv: list[bytes]) -> int:
    return sum(context.db.read(key, context.now_ms) is not None for key in argv[1:])


_SEEN_KEYS: Final = (KeySpec(1, -1, 1, ("RO",)),)


@command(
    "EXISTS", arity=-2, flags=Flag.READONLY | Flag.FAST, keys=_SEEN_KEYS, categories=("keyspace",), since="1.0.0",
    summary="Counts which keys exist.", complexity="O(N) in the number of keys.", arguments=(KEYS_ARGUMENT,),
    history=(("3.0.3", "Takes several keys."),), tips=_SHARD_SUM,
)  # fmt: skip
def exists(context: Context, argv: list[bytes]) -> Reply:
    """EXISTS key [key ...]. Returns how many exist, repeated ones counted each time. Source: Redis 3.0."""
    return _count_existing(context, argv)


@command(
    "TOUCH", arity=-2, flags=Flag.READONLY | Flag.FAST, keys=_SEEN_KEYS, categories=("keyspace",), since="3.2.1",
    summary="Counts which keys exist.", complexity="O(N) in the number of keys.", arguments=(KEYS_ARGUMENT,),
    tips=_SHARD_SUM,
)  # fmt: skip
def touch(context: Context, argv: list[bytes]) -> Reply:
    """TOUCH key [key ...]. Returns how many exist, repeated ones counted each time. Source: Redis 3.2.1."""
    for key in argv[1:]:
        context.db.use(key, context.now_ms)
    return _count_existing(context, argv)


@command(
    "TYPE",
    arity=2,
    flags=Flag.READONLY | Flag.FAST,
    keys=(KeySpec(1, 1, 1, ("RO",)),),
    categories=("keyspace",),
    since="1.0.0",
    summary="Names the type of a key's value.",
    complexity="O(1)",
    arguments=(KEY_ARGUMENT,),
)
def type_(context: Context, argv: list[bytes]) -> Reply:
    """TYPE key. Returns `stream`, `string` or `none`. Source: Redis 1.0."""
    return SimpleString(type_name(context.db.read(argv[1], context.now_ms)))


@command(
    "DBSIZE",
    arity=1,
    flags=Flag.READONLY | Flag.FAST,
    categories=("keyspace",),
    group="server",
    since="1.0.0",
    summary="Counts the keys of the database.",
    complexity="O(1)",
    tips=("request_policy:all_shards", "response_policy:agg_sum"),
)
def dbsize(context: Context, argv: list[bytes]) -> Reply:
    """DBSIZE. Returns the number of keys, expired ones included until they are removed. Source: Redis 1.0."""
    return len(context.db.keys)


@command(
    "KEYS",
    arity=2,
    flags=Flag.READONLY,
    categories=("keyspace", "dangerous"),
    since="1.0.0",
    summary="Lists the keys that match a pattern.",
    complexity="O(N) in the number of keys.",
    arguments=(Argument("pattern", "pattern"),),
    tips=("request_policy:all_shards", "nondeterministic_output_order"),
)
def keys(context: Context, argv: list[bytes]) -> Reply:
    """KEYS pattern. Returns the matching keys, in no order. Source: Redis 1.0."""
    db, now_ms = context.db, context.now_ms
    is_match = compiled(argv[1]).fullmatch
    if len(db.keys) <= KEYS_AT_ONCE_MAX:
        return [key for key in list(db.keys) if is_match(key) and db.get(key, now_ms) is not None]
    # A list of all keys is of this moment, and taken quickly; they are matched while others have their turns.
    expired = set() if db.frozen else {key for key, due_ms in db.expires.items() if due_ms < now_ms}
    return (_matching(list(db.keys), is_match, expired),)


def _matching(keys: list[bytes], is_match: Callable[[bytes], object], expired: set[bytes]) -> Iterator[bytes]:
    """The reply of KEYS, some keys at a time: work without result first, since the reply begins with their number."""
    found: list[bytes] = []
    for start in range(0, len(keys), KEYS_PER_PIECE):
        found += [key for key in keys[start : start + KEYS_PER_PIECE] if is_match(key) and key not in expired]
        yield b""
    yield b"*%d\r\n" % len(found)
    for start in range(0, len(found), KEYS_PER_PIECE):
        yield b"".join([b"$%d\r\n%b\r\n" % (len(key), key) for key in found[start : start + KEYS_PER_PIECE]])


@command(
    "RANDOMKEY",
    arity=1,
    flags=Flag.READONLY,
    categories=("keyspace",),
    since="1.0.0",
    summary="Returns some key.",
    complexity="O(1)",
    tips=("request_policy:all_shards", "response_policy:special", "nondeterministic_output"),
)
def randomkey(context: Context, argv: list[bytes]) -> Reply:
    """RANDOMKEY. Returns a key, null if there is none. Source: Redis 1.0."""
    db = context.db
    while db.keys:
        for key in db.neighbours(random.randrange(len(db.keys))):
            if db.get(key, context.now_ms) is not None:
                return key
    return None


@command(
    "SCAN",
    arity=-2,
    flags=Flag.READONLY,
    categories=("keyspace",),
    since="2.8.0",
    summary="Walks over the keys, some at a time.",
    complexity="O(COUNT) a call.",
    arguments=(
        Argument("cursor", "integer"),
        Argument("pattern", "pattern", token="MATCH", optional=True),
        Argument("count", "integer", token="COUNT", optional=True),
        Argument("type", "string", token="TYPE", optional=True, since="6.0.0"),
    ),
    history=(("6.0.0", "Added the `TYPE` option."),),
    tips=("nondeterministic_output", "request_policy:special", "response_policy:special"),
)
def scan(context: Context, argv: list[bytes]) -> Reply:
    """SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]

    Returns the next cursor (0 at the end) and keys. A key that is there during the whole walk is returned.
    Raises GenericError. Source: redis.io/commands/scan, Redis 6.0.
    """
    cursor = _parse_cursor(argv[1])
    pattern, count, wanted_type = _parse_scan(argv)
    is_match = compiled(pattern).fullmatch
    db, now_ms = context.db, context.now_ms
    found, cursor = db.scan(cursor, count)
    shown: list[bytes] = []
    for key in found:
        value = db.get(key, now_ms)
        if value is not None and is_match(key) and wanted_type in (None, type_name(value)):
            shown.append(key)
    return [b"%d" % cursor, shown]


def _parse_cursor(token: bytes) -> int:
    try:
        return loose_number(token)
    except GenericError:
        raise GenericError(b"invalid cursor") from None


def _parse_scan(argv: list[bytes]) -> tuple[bytes, int, bytes | None]:
    pattern, count, wanted_type = b"*", SCAN_COUNT_DEFAULT, None
    for index in range(2, len(argv), 2):
        word = argv[index].upper()
        if index + 1 == len(argv):
            raise syntax_error()
        if word == b"COUNT":
            count = integer(argv[index + 1])
            if count < 1:
                raise syntax_error()
        elif word == b"MATCH":
            pattern = argv[index + 1]
        elif word == b"TYPE":
            wanted_type = argv[index + 1].lower()
        else:
            raise syntax_error()
    return pattern, count, wanted_type


def _move_value(
    source: Database, key: bytes, target: Database, new_key: bytes, value: Value, leaving: Event, arriving: Event
) -> None:
    """Take a value with its expiry time to another name or database, and announce either side's event."""
    due_ms = source.expires.get(key)
    source.remove(key)
    old = target.replace(new_key, as_kept_under(key, value))
    if due_ms is not None:
        target.expires[new_key] = due_ms
    source.announce(leaving, key)
    target.announce(arriving, new_key)
    target.announce_overwritten(new_key, old, value)


@command(
    "RENAME",
    arity=3,
    flags=Flag.WRITE,
    keys=(KeySpec(1, 1, 1, ("RW", "access", "delete")), KeySpec(2, 2, 1, ("OW", "update"))),
    categories=("keyspace",),
    since="1.0.0",
    summary="Gives a key another name, over whatever has it.",
    complexity="O(1)",
    arguments=(KEY_ARGUMENT, Argument("newkey", "key", key_spec_index=1)),
)
def rename(context: Context, argv: list[bytes]) -> Reply:
    """RENAME key newkey. Returns OK. Raises GenericError if the key is missing. Source: Redis 1.0."""
    db, key, new_key = context.db, argv[1], argv[2]
    value = db.get(key, context.now_ms)
    if value is None:
        raise no_such_key()
    db.use(key, context.now_ms)
    if key != new_key:
        db.get(new_key, context.now_ms)
        _move_value(db, key, db, new_key, value, RENAME_FROM, RENAME_TO)
        context.log(*argv)
    return OK


@command(
    "RENAMENX",
    arity=3,
    flags=Flag.WRITE | Flag.FAST,
    keys=(KeySpec(1, 1, 1, ("RW", "access", "delete")), KeySpec(2, 2, 1, ("OW", "insert"))),
    categories=("keyspace",),
    since="1.0.0",
    summary="Gives a key another name that is free.",
    complexity="O(1)",
    arguments=(KEY_ARGUMENT, Argument("newkey", "key", key_spec_index=1)),
    history=(("3.2.0", "The two names may be the same."),),
)
def renamenx(context: Context, argv: list[bytes]) -> Reply:
    """RENAMENX key newkey. Returns 1, or 0 if the new name is taken. Raises GenericError. Source: Redis 1.0."""
    db, key, new_key = context.db, argv[1], argv[2]
    value = db.get(key, context.now_ms)
    if value is None:
        raise no_such_key()
    db.use(key, context.now_ms)
    if db.get(new_key, context.now_ms) is not None:
        return 0
    _move_value(db, key, db, new_key, value, RENAME_FROM, RENAME_TO)
    context.log(*argv)
    return 1


@command(
    "MOVE",
    arity=3,
    flags=Flag.WRITE | Flag.FAST,
    keys=(KeySpec(1, 1, 1, ("RW", "access", "update")),),
    categories=("keyspace",),
    since="1.0.0",
    summary="Moves a key to another database.",
    complexity="O(1)",
    arguments=(KEY_ARGUMENT, Argument("db", "integer")),
)
def move(context: Context, argv: list[bytes]) -> Reply:
    """MOVE key db. Returns 1, or 0 if the key is missing or there is one of its name. Raises GenericError.

    Source: Redis 1.0.
    """
    db, key = context.db, argv[1]
    target = database_at(context, argv[2])
    if target is db:
        raise GenericError(SAME_OBJECT)
    value = db.get(key, context.now_ms)
    if value is None or target.get(key, context.now_ms) is not None:
        return 0
    _move_value(db, key, target, key, value, MOVE_FROM, MOVE_TO)
    context.log(*argv)
    return 1


@command(
    "COPY",
    arity=-3,
    flags=Flag.WRITE | Flag.DENYOOM,
    keys=(KeySpec(1, 1, 1, ("RO", "access")), KeySpec(2, 2, 1, ("OW", "update"))),
    categories=("keyspace",),
    since="6.2.0",
    summary="Copies a key's value and expiry time to another name or database.",
    complexity="O(N) in what the value holds.",
    arguments=(
        Argument("source", "key", key_spec_index=0),
        Argument("destination", "key", key_spec_index=1),
        Argument("destination-db", "integer", token="DB", optional=True),
        Argument("replace", "pure-token", token="REPLACE", optional=True),
    ),
)
def copy(context: Context, argv: list[bytes]) -> Reply:
    """COPY source destination [DB n] [REPLACE]

    Returns 1, or 0 if the source is missing or the destination exists. Raises GenericError. Source: Redis 6.2.
    """
    target, replace = context.db, False
    index = 3
    while index < len(argv):
        word = argv[index].upper()
        if word == b"REPLACE":
            replace = True
        elif word == b"DB" and index + 1 < len(argv):
            index += 1
            target = database_at(context, argv[index])
        else:
            raise syntax_error()
        index += 1
    key, new_key = argv[1], argv[2]
    if target is context.db and key == new_key:
        raise GenericError(SAME_OBJECT)
    value = context.db.read(key, context.now_ms)
    if value is None or (target.get(new_key, context.now_ms) is not None and not replace):
        return 0
    due_ms = context.db.expires.get(key)
    twin = value.copy() if isinstance(value, Stream) else as_kept_under(key, value)
    old = target.replace(new_key, twin)
    context.db.use(key, context.now_ms)
    target.use(new_key, context.now_ms)
    if due_ms is not None:
        target.expires[new_key] = due_ms
    target.announce(COPY_TO, new_key)
    target.announce_overwritten(new_key, old, twin)
    context.log(*argv)
    return 1


# -- whole databases -------------------------------------------------------------------------------

_FLUSH_ARGUMENTS: Final = (
    Argument(
        "flush-type",
        "oneof",
        optional=True,
        arguments=(
            Argument("async", "pure-token", token="ASYNC", since="4.0.0"),
            Argument("sync", "pure-token", token="SYNC", since="6.2.0"),
        ),
    ),
)
_FLUSH_HISTORY: Final = (("4.0.0", "Added `ASYNC`."), ("6.2.0", "Added `SYNC`."))


def _require_flush_word(argv: list[bytes]) -> None:
    if len(argv) > 2 or (len(argv) == 2 and argv[1].upper() not in (b"ASYNC", b"SYNC")):
        raise syntax_error()


@command(
    "FLUSHDB",
    arity=-1,
    flags=Flag.WRITE,
    categories=("keyspace", "dangerous"),
    group="server",
    since="1.0.0",
    summary="Removes all keys of the database.",
    complexity="O(N) in the number of keys.",
    arguments=_FLUSH_ARGUMENTS,
    history=_FLUSH_HISTORY,
    tips=("request_policy:all_shards", "response_policy:all_succeeded"),
)
def flushdb(context: Context, argv: list[bytes]) -> Reply:
    """FLUSHDB [ASYNC | SYNC]. Returns OK. Raises GenericError. Source: Redis 6.2."""
    _require_flush_word(argv)
    context.db.clear()
    context.tracking.note_flush()
    context.log(*argv)
    return OK


@command(
    "FLUSHALL",
    arity=-1,
    flags=Flag.WRITE,
    categories=("keyspace", "dangerous"),
    group="server",
    since="1.0.0",
    summary="Removes all keys of all databases.",
    complexity="O(N) in the number of keys.",
    arguments=_FLUSH_ARGUMENTS,
    history=_FLUSH_HISTORY,
    tips=("request_policy:all_shards", "response_policy:all_succeeded"),
)
def flushall(context: Context, argv: list[bytes]) -> Reply:
    """FLUSHALL [ASYNC | SYNC]. Returns OK. Raises GenericError. Source: Redis 6.2."""
    _require_flush_word(argv)
    for db in context.store.databases:
        db.clear()
    context.tracking.note_flush()
    context.log(*argv)
    return OK


@command(
    "SWAPDB",
    arity=3,
    flags=Flag.WRITE | Flag.FAST,
    categories=("keyspace", "dangerous"),
    group="server",
    since="4.0.0",
    summary="Exchanges two databases.",
    complexity="O(N) in the number of keys watched or waited for.",
    arguments=(Argument("index1", "integer"), Argument("index2", "integer")),
)
def swapdb(context: Context, argv: list[bytes]) -> Reply:
    """SWAPDB index1 index2. Returns OK; clients see the other keys at once. Raises GenericError. Source: Redis 4.0."""
    first = integer_between(argv[1], INT32_MIN, INT32_MAX, b"invalid first DB index")
    second = integer_between(argv[2], INT32_MIN, INT32_MAX, b"invalid second DB index")
    databases = context.store.databases
    if not (0 <= first < len(databases) and 0 <= second < len(databases)):
        raise GenericError(b"DB index is out of range")
    databases[first].swap_with(databases[second])
    context.log(*argv)
    return OK


# -- OBJECT ----------------------------------------------------------------------------------------

container("OBJECT", group="generic", since="2.2.3", summary="Commands that look into a key's value.")

_OBJECT_KEY: Final = (KeySpec(2, 2, 1, ("RO",)),)
NO_LFU: Final = (
    b"An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching between "
    b"policies at runtime LRU and LFU data will take some time to adjust."
)


@command(
    "OBJECT|ENCODING",
    arity=3,
    flags=Flag.READONLY,
    keys=_OBJECT_KEY,
    categories=("keyspace",),
    since="2.2.3",
    summary="Names how a value would be kept by Redis.",
    complexity="O(1)",
    arguments=(KEY_ARGUMENT,),
    tips=("nondeterministic_output",),
)
def object_encoding(context: Context, argv: list[bytes]) -> Reply:
    """OBJECT ENCODING key. Returns `stream`, `int`, `embstr` or `raw`; null without key. Source: Redis 2.2.3."""
    value = context.db.inspect(argv[2], context.now_ms)
    if value is None:
        return None
    if isinstance(value, Stream):
        return b"stream"
    return string_encoding(argv[2], value)


@command(
    "OBJECT|REFCOUNT",
    arity=3,
    flags=Flag.READONLY,
    keys=_OBJECT_KEY,
    categories=("keyspace",),
    since="2.2.3",
    summary="Counts the references to a value.",
    complexity="O(1)",
    arguments=(KEY_ARGUMENT,),
    tips=("nondeterministic_output",),
)
def object_refcount(context: Context, argv: list[bytes]) -> Reply:
    """OBJECT REFCOUNT key. Returns 1, as no value is shared; null without key. Source: Redis 2.2.3."""
    return None if context.db.inspect(argv[2], context.now_ms) is None else 1


@command(
    "OBJECT|IDLETIME",
    arity=3,
    flags=Flag.READONLY,
    keys=_OBJECT_KEY,
    categories=("keyspace",),
    since="2.2.3",
    summary="Tells how long a value has not been used.",
    complexity="O(1)",
    arguments=(KEY_ARGUMENT,),
    tips=("nondeterministic_output",),
    differs="Access times are kept of streams only; that of a string is always 0.",
)
def object_idletime(context: Context, argv: list[bytes]) -> Reply:
    """OBJECT IDLETIME key. Returns seconds; null without key. Source: Redis 2.2.3."""
    value = context.db.inspect(argv[2], context.now_ms)
    if isinstance(value, Stream):
        used_ms = value.used_ms or context.server.stats.started_ms
        return max(0, context.now_ms - used_ms) // 1000
    return None if value is None else 0


@command(
    "OBJECT|FREQ",
    arity=3,
    flags=Flag.READONLY,
    keys=_OBJECT_KEY,
    categories=("keyspace",),
    since="4.0.0",
    summary="Tells how often a value is used, under an LFU policy.",
    complexity="O(1)",
    arguments=(KEY_ARGUMENT,),
    tips=("nondeterministic_output",),
)
def object_freq(context: Context, argv: list[bytes]) -> Reply:
    """OBJECT FREQ key. Null without key; else the error of a server without LFU policy. Source: Redis 4.0."""
    if context.db.inspect(argv[2], context.now_ms) is None:
        return None
    raise GenericError(NO_LFU)


OBJECT_HELP: Final = (
    b"OBJECT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    b"ENCODING <key>",
    b"    Return the kind of internal representation used in order to store the value",
    b"    associated with a <key>.",
    b"FREQ <key>",
    b"    Return the access frequency index of the <key>. The returned integer is",
    b"    proportional to the logarithm of the recent access frequency of the key.",
    b"IDLETIME <key>",
    b"    Return the idle time of the <key>, that is the approximated number of",
    b"    seconds elapsed since the last access to the key.",
    b"REFCOUNT <key>",
    b"    Return the number of references of the value associated with the specified",
    b"    <key>.",
    b"HELP",
    b"    Print this help.",
)


@command(
    "OBJECT|HELP",
    arity=2,
    flags=Flag.LOADING | Flag.STALE,
    categories=("keyspace",),
    since="6.2.0",
    summary="Lists the subcommands of OBJECT.",
    complexity="O(1)",
)
def object_help(context: Context, argv: list[bytes]) -> Reply:
    """OBJECT HELP. Source: Redis 6.2."""
    return [SimpleString(line) for line in OBJECT_HELP]
