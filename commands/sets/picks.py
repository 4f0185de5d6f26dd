"""Random members of a set: SPOP, SRANDMEMBER."""

from __future__ import annotations

from typing import Final

from ...protocol.replies import Reply, SetReply
from ...store.companions.set_value import SetValue
from ...store.errors import syntax_error
from ...store.events import DEL, SPOP
from ..core.long_replies import header_of
from ..core.numbers import INT64_MAX, integer_between
from ..core.random_picks import (
    PICKS_PER_PIECE,
    distinct_indexes,
    pick_count,
    random_index,
    repeated_indexes,
    repeated_picks,
)
from ..core.table import Argument, Flag, KeySpec, command
from ..execution.context import Context

POSITIVE: Final = b"value is out of range, must be positive"
# If no more than this part of the members that are removed is left, Redis moves them to a new set.
LEFT_PART: Final = 5
# Members that one record of the log removes.
REMOVED_PER_RECORD: Final = 1024


@command(
    "SPOP",
    arity=-2,
    flags=Flag.WRITE | Flag.FAST,
    keys=(KeySpec(1, 1, 1, ("RW", "access", "delete")),),
    categories=("set",),
    group="set",
    since="1.0.0",
    summary="Removes random members of a set and returns them.",
    complexity="O(N) in the number of members.",
    arguments=(
        Argument("key", "key", key_spec_index=0),
        Argument("count", "integer", optional=True, since="3.2.0"),
    ),
    history=(("3.2.0", "Added the `count` argument."),),
    tips=("nondeterministic_output",),
)
def spop(context: Context, argv: list[bytes]) -> Reply:
    """SPOP key [count]

    Without a count returns one member, null if the key is missing; otherwise a set of at most so many members. Raises
    GenericError, WrongType. Source: Redis 3.2.
    """
    if len(argv) > 3:
        raise syntax_error()
    count = None if len(argv) == 2 else integer_between(argv[2], 0, INT64_MAX, POSITIVE)
    key, db = argv[1], context.db
    value = db.find_companion(key, SetValue, context.now_ms)
    if value is None:
        return None if count is None else SetReply([])
    if count is None:
        member = value.at(random_index(len(value)))
        value.discard(member)
        db.settle(key, value, SPOP)
        context.log(b"SREM", key, member)
        return member
    if not count:
        return SetReply([])
    if count >= len(value):
        members = value.members()
        db.announce(SPOP, key)
        db.delete(key, DEL)
        context.log_words([b"DEL", key], len(members))
        return SetReply(members)
    members = value.at_each(distinct_indexes(len(value), count))
    value.discard_all(members)
    if len(value) * LEFT_PART <= count:
        value.leave_table()
    db.settle(key, value, SPOP)
    records_before = context.records_count
    for start in range(0, count, REMOVED_PER_RECORD):
        context.log(b"SREM", key, *members[start : start + REMOVED_PER_RECORD])
    context.count_changes(count, records_before=records_before)
    return SetReply(members)


@command(
    "SRANDMEMBER",
    arity=-2,
    flags=Flag.READONLY,
    keys=(KeySpec(1, 1, 1, ("RO", "access")),),
    categories=("set",),
    group="set",
    since="1.0.0",
    summary="Returns random members of a set.",
    complexity="O(N) in the number of members.",
    arguments=(
        Argument("key", "key", key_spec_index=0),
        Argument("count", "integer", optional=True, since="2.6.0"),
    ),
    history=(("2.6.0", "Added the optional `count` argument."),),
    tips=("nondeterministic_output",),
)
def srandmember(context: Context, argv: list[bytes]) -> Reply:
    """SRANDMEMBER key [count]

    Without a count returns one member, null if the key is missing. A positive count returns at most so many different
    members, a negative one exactly so many, which may repeat. Raises GenericError, WrongType. Source: Redis 2.6.
    """
    if len(argv) > 3:
        raise syntax_error()
    count = None if len(argv) == 2 else pick_count(argv[2])
    value = context.db.read_companion(argv[1], SetValue, context.now_ms)
    if value is None:
        return None if count is None else []
    size = len(value)
    if count is None:
        return value.at(random_index(size))
    if -max(PICKS_PER_PIECE, size) <= count < 0:
        return value.at_each(repeated_indexes(size, -count))
    if count < 0:
        return repeated_picks(value.members(), -count)
    if count >= size:
        pieces = value.bulks()
        return value.members() if pieces is None else (header_of(size, is_set=False), *pieces)
    return value.at_each(distinct_indexes(size, count))
