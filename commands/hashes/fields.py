"""Commands on the fields of a hash: those that set, read and remove them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...protocol.replies import OK, Pairs, Reply
from ...store.companions.hash_value import HashValue
from ...store.companions.members import Members
from ...store.errors import wrong_number_of_arguments
from ...store.events import HDEL, HEXPIRED, HSET
from ...store.glob import matching_texts
from ..core.member_scan import parse_cursor, parse_member_scan
from ..core.table import Argument, Flag, KeySpec, command
from ..execution.context import Context
from ..execution.slices import LONG_COUNT
from .liveness import live_value


def _set_fields(context: Context, argv: list[bytes]) -> int:
    """Sets the fields of HSET or HMSET. Returns the number of new ones. Raises WrongType, GenericError."""
    if len(argv) % 2:
        raise wrong_number_of_arguments(argv[0].lower())
    key, db = argv[1], context.db
    value = db.find_companion(key, HashValue, context.now_ms)
    if value is None:
        value = HashValue(context.limits)
        db.add(key, value)
    count = len(argv) // 2 - 1
    value.expect(count)
    new_count = int(value.set(argv[2], argv[3])) if count == 1 else value.set_words(argv[2:])
    value.take_template()
    db.settle(key, value, HSET)
    context.log_words(argv, count)
    return new_count


@command(
    "HSET",
    arity=-4,
    flags=Flag.WRITE | Flag.DENYOOM | Flag.FAST,
    keys=(KeySpec(1, 1, 1, ("RW", "update")),),
    categories=("hash",),
    group="hash",
    since="2.0.0",
    summary="Sets fields of a hash, which is made if there is none.",
    complexity="O(N) in the number of fields.",
    arguments=(
        Argument("key", "key", key_spec_index=0),
        Argument(
            "data",
            "block",
            multiple=True,
            arguments=(
                Argument("field"),
                Argument("value"),
            ),
        ),
    ),
    history=(("4.0.0", "Accepts multiple `field` and `value` arguments."),),
)
def hset(context: Context, argv: list[bytes]) -> Reply:
    """HSET key field value [field value ...]. Returns the number of new fields. Raises GenericError, WrongType.

    Source: Redis 4.0.
    """
    return _set_fields(context, argv)


@command(
    "HMSET",
    arity=-4,
    flags=Flag.WRITE | Flag.DENYOOM | Flag.FAST,
    keys=(KeySpec(1, 1, 1, ("RW", "update")),),
    categories=("hash",),
    group="hash",
    since="2.0.0",
    summary="Sets fields of a hash.",
    complexity="O(N) in the number of fields.",
    arguments=(
        Argument("key", "key", key_spec_index=0),
        Argument(
            "data",
            "block",
            multiple=True,
            arguments=(
                Argument("field"),
                Argument("value"),
            ),
        ),
    ),
    deprecated=("4.0.0", "`HSET` with multiple field-value pairs"),
)
def hmset(context: Context, argv: list[bytes]) -> Reply:
    """HMSET key field value [field value ...]. Returns OK. Raises GenericError, WrongType. Source: Redis 2.0."""
    _set_fields(context, argv)
    return OK


@command(
    "HSETNX",
    arity=4,
    flags=Flag.WRITE | Flag.DENYOOM | Flag.FAST,
    keys=(KeySpec(1, 1, 1, ("RW", "insert")),),
    categories=("hash",),
    group="hash",
    since="2.0.0",
    summary="Sets a field of a hash if there is no such field.",
    complexity="O(1)",
    arguments=(
        Argument("key", "key", key_spec_index=0),
        Argument("field"),
        Argument("value"),
    ),
)
def hsetnx(context: Context, argv: list[bytes]) -> Reply:
    """HSETNX key field value. Returns 1, or 0 if the field exists. Raises WrongType. Source: Redis 2.0."""
    key, field = argv[1], argv[2]
    db = context.db
    value = db.find_companion(key, HashValue, context.now_ms)
    if value is None:
        value = HashValue(context.limits)
        db.add(key, value)
    elif live_value(context, key, value, field) is not None:
        return 0
    elif not len(value):
        value = HashValue(context.limits)
        db.add(key, value)
    value.set(field, argv[3])
    value.take_template()
    db.settle(key, value, HSET)
    context.log_words(argv)
    return 1


@command(
    "HGET",
    arity=3,
    flags=Flag.READONLY | Flag.FAST,
    keys=(KeySpec(1, 1, 1, ("RO", "access")),),
    categories=("hash",),
    group="hash",
    since="2.0.0",
    summary="Returns the value of a field.",
    complexity="O(1)",
    arguments=(
        Argument("key", "key", key_spec_index=0),
        Argument("field"),
    ),
)
def hget(context: Context, argv: list[bytes]) -> Reply:
    """HGET key field. Returns the value; null if there is none. Raises WrongType. Source: Redis 2.0."""
    value = context.db.read_companion(argv[1], HashValue, context.now_ms)
    return None if value is None else live_value(context, argv[1], value, argv[2])


@command(
    "HMGET",
    arity=-3,
    flags=Flag.READONLY | Flag.FAST,
    keys=(KeySpec(1, 1, 1, ("RO", "access")),),
    categories=("hash",),
    group="hash",
    since="2.0.0",
    summary="Returns the values of fields.",
    complexity="O(N) in the number of fields.",
    arguments=(
        Argument("key", "key", key_spec_index=0),
        Argument("field", multiple=True),
    ),
)
def hmget(context: Context, argv: list[bytes]) -> Reply:
    """HMGET key field [field ...]. Returns values, null for a missing field. Raises WrongType. Source: Redis 2.0."""
    key, db = argv[1], context.db
    value = db.read_companion(key, HashValue, context.now_ms)
    if value is None:
        return [None] * (len(argv) - 2)
    live_ms = db.member_time_ms(context.now_ms)
    if value.first_due_ms >= live_ms:
        return value.get_all(argv[2:])
    has_expired = False
    texts: list[bytes | None] = []
    for field in argv[2:]:
        if value.is_due(field, live_ms):
            # The field that takes the key with it is announced as DEL alone.
            has_expired |= db.drop_field(key, value, field) and len(value) > 0
            texts.append(None)
        else:
            texts.append(value.get(field))
    if has_expired:
        db.announce(HEXPIRED, key)
    if not len(value):
        db.discard(key)
    return texts


def _bulks(
    context: Context, value: HashValue, live_ms: int, has_fields: bool, has_values: bool
) -> tuple[Any, ...] | None:
    """The elements of a reply with all fields, or their values, or both in turn; None if it takes no less time to
    encode what other methods of the hash return. Those of a large hash are encoded while they are sent."""
    members = value.live_members(live_ms)
    if members is None:
        return None
    if len(members) < LONG_COUNT:
        return tuple(members.bulks(has_fields, has_values))
    return (_pieces(context, members.copy(), has_fields, has_values),)


def _pieces(context: Context, members: Members, has_fields: bool, has_values: bool) -> Iterator[bytes]:
    """The elements of a reply with the fields of a large hash, which no one else has."""
    yield from members.bulks(has_fields, has_values)
    for heap in members.heaps():
        context.store.garbage.add(heap)


@command(
    "HGETALL",
    arity=2,
    flags=Flag.READONLY,
    keys=(KeySpec(1, 1, 1, ("RO", "access")),),
    categories=("hash",),
    group="hash",
    since="2.0.0",
    summary="Returns all fields with their values.",
    complexity="O(N) in the number of fields.",
    arguments=(Argument("key", "key", key_spec_index=0),),
    tips=("nondeterministic_output_order",),
)
def hgetall(context: Context, argv: list[bytes]) -> Reply:
    """HGETALL key. Returns a map from fields to values. Raises WrongType. Source: Redis 2.0."""
    value = context.db.read_companion(argv[1], HashValue, context.now_ms)
    if value is None:
        return Pairs([])
    live_ms = context.db.member_time_ms(context.now_ms)
    bulks = _bulks(context, value, live_ms, True, True)
    if bulks is not None:
        return (b"*%d\r\n" % (2 * len(value)) if context.client.protocol == 2 else b"%%%d\r\n" % len(value), *bulks)
    return value.live_words(live_ms) if context.client.protocol == 2 else Pairs(value.live_items(live_ms))


@command(
    "HKEYS",
    arity=2,
    flags=Flag.READONLY,
    keys=(KeySpec(1, 1, 1, ("RO", "access")),),
    categories=("hash",),
    group="hash",
    since="2.0.0",
    summary="Returns all fields.",
    complexity="O(N) in the number of fields.",
    arguments=(Argument("key", "key", key_spec_index=0),),
    tips=("nondeterministic_output_order",),
)
def hkeys(context: Context, argv: list[bytes]) -> Reply:
    """HKEYS key. Returns the fields. Raises WrongType. Source: Redis 2.0."""
    value = context.db.read_companion(argv[1], HashValue, context.now_ms)
    if value is None:
        return []
    live_ms = context.db.member_time_ms(context.now_ms)
    bulks = _bulks(context, value, live_ms, True, False)
    return value.live_fields(live_ms) if bulks is None else (b"*%d\r\n" % len(value), *bulks)


@command(
    "HVALS",
    arity=2,
    flags=Flag.READONLY,
    keys=(KeySpec(1, 1, 1, ("RO", "access")),),
    categories=("hash",),
    group="hash",
    since="2.0.0",
    summary="Returns the values of all fields.",
    complexity="O(N) in the number of fields.",
    arguments=(Argument("key", "key", key_spec_index=0),),
    tips=("nondeterministic_output_order",),
)
def hvals(context: Context, argv: list[bytes]) -> Reply:
    """HVALS key. Returns the values. Raises WrongType. Source: Redis 2.0."""
    value = context.db.read_companion(argv[1], HashValue, context.now_ms)
    if value is None:
        return []
    live_ms = context.db.member_time_ms(context.now_ms)
    bulks = _bulks(context, value, live_ms, False, True)
    return value.live_values(live_ms) if bulks is None else (b"*%d\r\n" % len(value), *bulks)


@command(
    "HLEN",
    arity=2,
    flags=Flag.READONLY | Flag.FAST,
    keys=(KeySpec(1, 1, 1, ("RO",)),),
    categories=("hash",),
    group="hash",
    since="2.0.0",
    summary="Counts the fields of a hash.",
    complexity="O(1)",
    arguments=(Argument("key", "key", key_spec_index=0),),
)
def hlen(context: Context, argv: list[bytes]) -> Reply:
    """HLEN key. Returns the number of fields, 0 if the key is missing. Raises WrongType. Source: Redis 2.0."""
    value = context.db.read_companion(argv[1], HashValue, context.now_ms)
    return 0 if value is None else len(value)


@command(
    "HSTRLEN",
    arity=3,
    flags=Flag.READONLY | Flag.FAST,
    keys=(KeySpec(1, 1, 1, ("RO",)),),
    categories=("hash",),
    group="hash",
    since="3.2.0",
    summary="Returns the length of the value of a field.",
    complexity="O(1)",
    arguments=(
        Argument("key", "key", key_spec_index=0),
        Argument("field"),
    ),
)
def hstrlen(context: Context, argv: list[bytes]) -> Reply:
    """HSTRLEN key field. Returns bytes, 0 if there is no such field. Raises WrongType. Source: Redis 3.2."""
    value = context.db.read_companion(argv[1], HashValue, context.now_ms)
    return 0 if value is None else len(live_value(context, argv[1], value, argv[2]) or b"")


@command(
    "HEXISTS",
    arity=3,
    flags=Flag.READONLY | Flag.FAST,
    keys=(KeySpec(1, 1, 1, ("RO",)),),
    categories=("hash",),
    group="hash",
    since="2.0.0",
    summary="Tells whether a hash has a field.",
    complexity="O(1)",
    arguments=(
        Argument("key", "key", key_spec_index=0),
        Argument("field"),
    ),
)
def hexists(context: Context, argv: list[bytes]) -> Reply:
    """HEXISTS key field. Returns 1 or 0. Raises WrongType. Source: Redis 2.0."""
    value = context.db.read_companion(argv[1], HashValue, context.now_ms)
    return int(value is not None and live_value(context, argv[1], value, argv[2]) is not None)


@command(
    "HDEL",
    arity=-3,
    flags=Flag.WRITE | Flag.FAST,
    keys=(KeySpec(1, 1, 1, ("RW", "delete")),),
    categories=("hash",),
    group="hash",
    since="2.0.0",
    summary="Removes fields of a hash; the last one takes the key with it.",
    complexity="O(N) in the number of fields.",
    arguments=(
        Argument("key", "key", key_spec_index=0),
        Argument("field", multiple=True),
    ),
    history=(("2.4.0", "Accepts multiple `field` arguments."),),
)
def hdel(context: Context, argv: list[bytes]) -> Reply:
    """HDEL key field [field ...]. Returns the number of fields that were there. Raises WrongType. Source: Redis 2.4."""
    key, db = argv[1], context.db
    value = db.find_companion(key, HashValue, context.now_ms)
    if value is None:
        return 0
    fields = argv[2:]
    removed = len(fields) - value.pop_all(fields).count(None)
    if removed:
        db.settle(key, value, HDEL)
        context.log_words(argv, removed)
    return removed


@command(
    "HSCAN",
    arity=-3,
    flags=Flag.READONLY,
    keys=(KeySpec(1, 1, 1, ("RO", "access")),),
    categories=("hash",),
    group="hash",
    since="2.8.0",
    summary="Iterates over the fields of a hash, some with each call.",
    complexity="O(COUNT) a call.",
    arguments=(
        Argument("key", "key", key_spec_index=0),
        Argument("cursor", "integer"),
        Argument("pattern", "pattern", token="MATCH", optional=True),
        Argument("count", "integer", token="COUNT", optional=True),
        Argument("novalues", "pure-token", token="NOVALUES", optional=True),
    ),
    tips=("nondeterministic_output",),
)
def hscan(context: Context, argv: list[bytes]) -> Reply:
    """HSCAN key cursor [MATCH pattern] [COUNT count] [NOVALUES]

    Returns the next cursor (0 at the end), and fields, each followed by its value unless NOVALUES is given. A field
    that is there during the whole iteration is returned. Raises GenericError, WrongType. Source: Redis 7.4.
    """
    cursor = parse_cursor(argv[2])
    value = context.db.read_companion(argv[1], HashValue, context.now_ms)
    if value is None:
        return [b"0", []]
    options = parse_member_scan(argv)
    live_ms = context.db.member_time_ms(context.now_ms)
    if options.pattern is None and not options.has_novalues and value.first_due_ms >= live_ms:
        words, cursor = value.scan_words(cursor, options.count_hint)
        return [b"%d" % cursor, words]
    found, cursor = value.scan(cursor, options.count_hint)
    found = value.live(found, live_ms)
    if options.pattern is not None:
        found = matching_texts(options.pattern, found)
    if options.has_novalues:
        return [b"%d" % cursor, found]
    return [b"%d" % cursor, [word for pair in zip(found, value.get_all(found), strict=True) for word in pair]]
