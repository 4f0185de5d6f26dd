"""Commands on the members of one set: SADD, SREM, SMOVE, and those that read them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ...protocol.encoder import bulks
from ...protocol.replies import Reply, SetReply
from ...store.companions.set_value import INTSET, SetValue
from ...store.errors import GenericError
from ...store.events import SADD, SREM
from ...store.glob import matching_texts
from ..core.long_replies import header_of
from ..core.member_scan import parse_cursor, parse_member_scan
from ..core.table import Argument, Flag, KeySpec, command
from ..execution.context import Context
from ..execution.slices import LONG_COUNT, STEP_COUNT

# Words of SREM with one member.
SINGLE: Final = 3


@command(
    "SADD",
    arity=-3,
    flags=Flag.WRITE | Flag.DENYOOM | Flag.FAST,
    keys=(KeySpec(1, 1, 1, ("RW", "insert")),),
    categories=("set",),
    group="set",
    since="1.0.0",
    summary="Adds members to a set, which is made if there is none.",
    complexity="O(N) in the number of members.",
    arguments=(
        Argument("key", "key", key_spec_index=0),
        Argument("member", multiple=True),
    ),
    history=(("2.4.0", "Accepts multiple `member` arguments."),),
)
def sadd(context: Context, argv: list[bytes]) -> Reply:
    """SADD key member [member ...]. Returns the number of members that are new. Raises WrongType. Source: Redis 2.4."""
    key, db, count = argv[1], context.db, len(argv) - 2
    value = db.find_companion(key, SetValue, context.now_ms)
    if value is None:
        value = SetValue.for_member(context.limits, argv[2], count)
        db.add(key, value)
    else:
        value.expect(count)
    added = int(value.add(argv[2])) if count == 1 else value.add_all(argv[2:])
    if added:
        db.settle(key, value, SADD)
        context.log_words(argv, added)
    return added


@command(
    "SREM",
    arity=-3,
    flags=Flag.WRITE | Flag.FAST,
    keys=(KeySpec(1, 1, 1, ("RW", "delete")),),
    categories=("set",),
    group="set",
    since="1.0.0",
    summary="Removes members from a set; the last one takes the key with it.",
    complexity="O(N) in the number of members.",
    arguments=(
        Argument("key", "key", key_spec_index=0),
        Argument("member", multiple=True),
    ),
    history=(("2.4.0", "Accepts multiple `member` arguments."),),
)
def srem(context: Context, argv: list[bytes]) -> Reply:
    """SREM key member [member ...]. Returns how many were there. Raises WrongType. Source: Redis 2.4."""
    key, db = argv[1], context.db
    value = db.find_companion(key, SetValue, context.now_ms)
    if value is None:
        return 0
    removed = int(value.discard(argv[2])) if len(argv) == SINGLE else value.discard_all(argv[2:])
    if removed:
        db.settle(key, value, SREM)
        context.log_words(argv, removed)
    return removed


@command(
    "SMOVE",
    arity=4,
    flags=Flag.WRITE | Flag.FAST,
    keys=(
        KeySpec(1, 1, 1, ("RW", "access", "delete")),
        KeySpec(2, 2, 1, ("RW", "insert")),
    ),
    categories=("set",),
    group="set",
    since="1.0.0",
    summary="Moves a member from one set to another.",
    complexity="O(1)",
    arguments=(
        Argument("source", "key", key_spec_index=0),
        Argument("destination", "key", key_spec_index=1),
        Argument("member"),
    ),
)
def smove(context: Context, argv: list[bytes]) -> Reply:
    """SMOVE source destination member

    Returns 1, or 0 if the member is not in the source. Raises WrongType. Source: Redis 1.0.
    """
    source_key, target_key, member = argv[1:]
    db, now_ms = context.db, context.now_ms
    # Both keys are looked up, and removed if they have expired, before anything is checked.
    db.get(target_key, now_ms)
    source = db.find_companion(source_key, SetValue, now_ms)
    if source is None:
        return 0
    target = db.find_companion(target_key, SetValue, now_ms)
    if source is target:
        return int(member in source)
    if not source.discard(member):
        return 0
    # The order in which Redis announces and invalidates.
    db.recount(source)
    db.announce(SREM, source_key)
    if not len(source):
        db.discard(source_key)
    is_new_key = target is None
    if target is None:
        target = SetValue.for_member(context.limits, member, 1)
        db.add(target_key, target)
    added = target.add(member)
    db.touch(source_key)
    if added or is_new_key:
        db.settle(target_key, target, SADD)
    context.log_words(argv, 1 + added)
    return 1


@command(
    "SISMEMBER",
    arity=3,
    flags=Flag.READONLY | Flag.FAST,
    keys=(KeySpec(1, 1, 1, ("RO",)),),
    categories=("set",),
    group="set",
    since="1.0.0",
    summary="Tells whether a set has a member.",
    complexity="O(1)",
    arguments=(
        Argument("key", "key", key_spec_index=0),
        Argument("member"),
    ),
)
def sismember(context: Context, argv: list[bytes]) -> Reply:
    """SISMEMBER key member. Returns 1 or 0. Raises WrongType. Source: Redis 1.0."""
    value = context.db.read_companion(argv[1], SetValue, context.now_ms)
    return int(value is not None and argv[2] in value)


@command(
    "SMISMEMBER",
    arity=-3,
    flags=Flag.READONLY | Flag.FAST,
    keys=(KeySpec(1, 1, 1, ("RO", "access")),),
    categories=("set",),
    group="set",
    since="6.2.0",
    summary="Tells which of the members a set has.",
    complexity="O(N) in the number of members.",
    arguments=(
        Argument("key", "key", key_spec_index=0),
        Argument("member", multiple=True),
    ),
)
def smismember(context: Context, argv: list[bytes]) -> Reply:
    """SMISMEMBER key member [member ...]. Returns 1 or 0 for each. Raises WrongType. Source: Redis 6.2."""
    value = context.db.read_companion(argv[1], SetValue, context.now_ms)
    if value is None:
        return [0] * (len(argv) - 2)
    return value.has_each(argv[2:])


@command(
    "SCARD",
    arity=2,
    flags=Flag.READONLY | Flag.FAST,
    keys=(KeySpec(1, 1, 1, ("RO",)),),
    categories=("set",),
    group="set",
    since="1.0.0",
    summary="Counts the members of a set.",
    complexity="O(1)",
    arguments=(Argument("key", "key", key_spec_index=0),),
)
def scard(context: Context, argv: list[bytes]) -> Reply:
    """SCARD key. Returns the number of members, 0 if the key is missing. Raises WrongType. Source: Redis 1.0."""
    value = context.db.read_companion(argv[1], SetValue, context.now_ms)
    return 0 if value is None else len(value)


@command(
    "SMEMBERS",
    arity=2,
    flags=Flag.READONLY,
    keys=(KeySpec(1, 1, 1, ("RO", "access")),),
    categories=("set",),
    group="set",
    since="1.0.0",
    summary="Returns all members of a set.",
    complexity="O(N) in the number of members.",
    arguments=(Argument("key", "key", key_spec_index=0),),
    tips=("nondeterministic_output_order",),
)
def smembers(context: Context, argv: list[bytes]) -> Reply:
    """SMEMBERS key. Returns the members. Raises WrongType. Source: Redis 1.0."""
    value = context.db.read_companion(argv[1], SetValue, context.now_ms)
    if value is not None and len(value) >= LONG_COUNT:
        return (header_of(len(value), is_set=context.client.protocol == 3), _pieces(context, value.copy()))
    if value is None:
        return SetReply([])
    pieces = value.bulks()
    if pieces is None:
        return SetReply(value.members())
    return (header_of(len(value), is_set=context.client.protocol == 3), *pieces)


def _pieces(context: Context, value: SetValue) -> Iterator[bytes]:
    """The members of a large set that no one else has, encoded while they are sent."""
    pieces = value.bulks()
    if pieces is not None:
        yield from pieces
    else:
        for members in value.parts(STEP_COUNT):
            yield bulks(members)
    context.store.garbage.add_value(value)


@command(
    "SSCAN",
    arity=-3,
    flags=Flag.READONLY,
    keys=(KeySpec(1, 1, 1, ("RO", "access")),),
    categories=("set",),
    group="set",
    since="2.8.0",
    summary="Iterates over the members of a set, some with each call.",
    complexity="O(COUNT) a call.",
    arguments=(
        Argument("key", "key", key_spec_index=0),
        Argument("cursor", "integer"),
        Argument("pattern", "pattern", token="MATCH", optional=True),
        Argument("count", "integer", token="COUNT", optional=True),
    ),
    tips=("nondeterministic_output",),
)
def sscan(context: Context, argv: list[bytes]) -> Reply:
    """SSCAN key cursor [MATCH pattern] [COUNT count]

    Returns the next cursor (0 at the end) and members. A member that is there during the whole iteration is returned.
    Raises GenericError, WrongType. Source: Redis 2.8.
    """
    cursor = parse_cursor(argv[2])
    value = context.db.read_companion(argv[1], SetValue, context.now_ms)
    if value is None:
        return [b"0", []]
    options = parse_member_scan(argv)
    if options.has_novalues:
        raise GenericError(b"NOVALUES option can only be used in HSCAN")
    if options.pattern is None and value.encoding == INTSET and len(value) >= LONG_COUNT:
        return (b"*2\r\n$1\r\n0\r\n*%d\r\n" % len(value), _pieces(context, value.copy()))
    found, cursor = value.scan(cursor, options.count_hint)
    return [b"%d" % cursor, found if options.pattern is None else matching_texts(options.pattern, found)]
