"""Random fields of a hash: HRANDFIELD."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Final

from ...protocol.replies import Reply
from ...store.companions.hash_value import HashValue
from ...store.errors import GenericError, syntax_error
from ..core.long_replies import header_of
from ..core.numbers import INT64_MAX
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
from .liveness import expire_all

# With values, the number of words must be a number of 64 bits too.
PAIRS_COUNT_MAX: Final = INT64_MAX // 2


@command(
    "HRANDFIELD",
    arity=-2,
    flags=Flag.READONLY,
    keys=(KeySpec(1, 1, 1, ("RO", "access")),),
    categories=("hash",),
    group="hash",
    since="6.2.0",
    summary="Returns random fields of a hash.",
    complexity="O(N) in the number of fields returned.",
    arguments=(
        Argument("key", "key", key_spec_index=0),
        Argument(
            "options",
            "block",
            optional=True,
            arguments=(
                Argument("count", "integer"),
                Argument("withvalues", "pure-token", token="WITHVALUES", optional=True),
            ),
        ),
    ),
    tips=("nondeterministic_output",),
)
def hrandfield(context: Context, argv: list[bytes]) -> Reply:
    """HRANDFIELD key [count [WITHVALUES]]

    Without a count returns one field, null if the key is missing. A positive count returns at most so many different
    fields, a negative one exactly so many, which may repeat. Raises GenericError, WrongType. Source: Redis 6.2.
    """
    count = None if len(argv) == 2 else pick_count(argv[2])
    has_values = len(argv) == 4 and argv[3].upper() == b"WITHVALUES"
    if len(argv) > 4 or (len(argv) == 4 and not has_values):
        raise syntax_error()
    if count is not None and has_values and not -PAIRS_COUNT_MAX <= count <= PAIRS_COUNT_MAX:
        raise GenericError(b"value is out of range")
    value = context.db.read_companion(argv[1], HashValue, context.now_ms)
    if value is None:
        return None if count is None else []
    expire_all(context, argv[1], value)
    if not len(value):
        return None if count is None else []
    live_ms = context.db.member_time_ms(context.now_ms)
    if count is None:
        return _random_field(value, live_ms)
    if -max(PICKS_PER_PIECE, len(value)) <= count < 0 and value.first_due_ms >= live_ms:
        fields = value.at_each(repeated_indexes(len(value), -count))
        return _with_values(context, value, fields) if has_values else fields
    if count < 0:
        if not has_values:
            fields = value.live_fields(live_ms)
            return repeated_picks(fields, -count) if fields else []
        pairs = list(value.live_items(live_ms))
        return _repeated_pairs(context, pairs, -count) if pairs else []
    size = len(value)
    members = value.live_members(live_ms)
    if count >= size and members is not None and not (has_values and context.client.protocol == 3):
        return (header_of(2 * size if has_values else size, is_set=False), *members.bulks(True, has_values))
    if count >= size or value.first_due_ms < live_ms:
        fields = value.live_fields(live_ms)
        if count < len(fields):
            fields = random.sample(fields, count)
    else:
        fields = value.at_each(distinct_indexes(size, count))
    return _with_values(context, value, fields) if has_values else fields


def _random_field(value: HashValue, live_ms: int) -> bytes | None:
    """A random field that is not due; None if there is none."""
    if value.first_due_ms >= live_ms:
        return value.at(random_index(len(value)))
    fields = value.live_fields(live_ms)
    return random.choice(fields) if fields else None


def _with_values(context: Context, value: HashValue, fields: list[bytes]) -> Reply:
    """Existing fields with their values: pairs in RESP3, in one array in RESP2."""
    texts = value.get_all(fields)
    if context.client.protocol == 3:
        return [[fields[index], texts[index]] for index in range(len(fields))]
    words: list[bytes | None] = []
    for index in range(len(fields)):
        words.append(fields[index])
        words.append(texts[index])
    return words


def _repeated_pairs(context: Context, pairs: list[tuple[bytes, bytes]], count: int) -> Reply:
    """The reply with `count` pairs, each drawn from all. A long one is made while it is sent."""
    if count <= PICKS_PER_PIECE:
        picked = random.choices(pairs, k=count)
        if context.client.protocol == 3:
            return [list(pair) for pair in picked]
        return [word for pair in picked for word in pair]
    has_pairs = context.client.protocol == 3
    return (b"*%d\r\n" % (count if has_pairs else 2 * count), _pieces(pairs, count, b"*2\r\n" if has_pairs else b""))


def _pieces(pairs: list[tuple[bytes, bytes]], count: int, head: bytes) -> Iterator[bytes]:
    while count:
        picked = random.choices(pairs, k=min(count, PICKS_PER_PIECE))
        count -= len(picked)
        yield b"".join([b"%b$%d\r\n%b\r\n$%d\r\n%b\r\n" % (head, len(f), f, len(v), v) for f, v in picked])
