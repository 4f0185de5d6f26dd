"""Commands that list keys: DBSIZE, KEYS, RANDOMKEY, SCAN."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Final

from ...protocol.encoder import bulks
from ...protocol.replies import Reply
from ...store.errors import syntax_error
from ...store.glob import literal_prefix, matching_keys
from ...store.value import Value, type_name
from ..core.member_scan import COUNT_DEFAULT, parse_cursor
from ..core.numbers import integer
from ..core.table import Argument, Flag, Trait, command
from ..execution.context import Context

# With more keys than this, KEYS matches them in several loop turns.
KEYS_AT_ONCE_MAX: Final = 5_000
# Expired keys after which RANDOMKEY returns one, if expired keys are kept and each key expires. As in Redis.
STALE_TRIES_MAX: Final = 100
KEYS_PER_PIECE: Final = 1_000


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
    traits=Trait.ORDINARY,
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
    traits=Trait.ORDINARY,
)
def keys(context: Context, argv: list[bytes]) -> Reply:
    """KEYS pattern. Returns the matching keys, in no defined order. Expired keys are not removed. Source: Redis 1.0."""
    db, now_ms = context.db, context.now_ms
    has_stale = db.keys.first_due_ms < now_ms
    stale = {key for key in db.expires if db.is_stale(key, now_ms)} if has_stale else set()
    # The keys that may match are listed at once, which is fast. They are matched while other clients are served.
    candidates = db.keys.beginning(literal_prefix(argv[1]))
    if len(candidates) <= KEYS_AT_ONCE_MAX:
        return _shown(candidates, argv[1], stale)
    return (_matching(candidates, argv[1], stale),)


def _shown(keys: list[bytes], pattern: bytes, stale: set[bytes]) -> list[bytes]:
    """The keys that match, without those that have expired."""
    found = matching_keys(pattern, keys)
    return [key for key in found if key not in stale] if stale else found


def _matching(keys: list[bytes], pattern: bytes, stale: set[bytes]) -> Iterator[bytes]:
    """Yields the reply of KEYS in pieces. The first ones are empty: the reply begins with the number of matches."""
    found: list[bytes] = []
    for start in range(0, len(keys), KEYS_PER_PIECE):
        found += _shown(keys[start : start + KEYS_PER_PIECE], pattern, stale)
        yield b""
    yield b"*%d\r\n" % len(found)
    for start in range(0, len(found), KEYS_PER_PIECE):
        yield bulks(found[start : start + KEYS_PER_PIECE])


@command(
    "RANDOMKEY",
    arity=1,
    flags=Flag.READONLY,
    categories=("keyspace",),
    since="1.0.0",
    summary="Returns a random key.",
    complexity="O(1)",
    tips=("request_policy:all_shards", "response_policy:special", "nondeterministic_output"),
    traits=Trait.ORDINARY,
)
def randomkey(context: Context, argv: list[bytes]) -> Reply:
    """RANDOMKEY. Returns a key; null if the database is empty. Source: Redis 1.0."""
    db = context.db
    tries_count = 0
    while db.keys:
        key = db.keys.keys_at([int(random.random() * len(db.keys))])[0]
        if db.get(key, context.now_ms) is not None:
            return key
        tries_count += 1
        if tries_count >= STALE_TRIES_MAX and db.keeps_expired and len(db.expires) == len(db.keys):
            return key
    return None


@command(
    "SCAN",
    arity=-2,
    flags=Flag.READONLY,
    categories=("keyspace",),
    since="2.8.0",
    summary="Iterates over the keys, some with each call.",
    complexity="O(COUNT) a call.",
    arguments=(
        Argument("cursor", "integer"),
        Argument("pattern", "pattern", token="MATCH", optional=True),
        Argument("count", "integer", token="COUNT", optional=True),
        Argument("type", "string", token="TYPE", optional=True, since="6.0.0"),
    ),
    history=(("6.0.0", "Added the `TYPE` option."),),
    tips=("nondeterministic_output", "request_policy:special", "response_policy:special"),
    differs="A cursor that no call returned continues somewhere, as in Redis, but at another place.",
    traits=Trait.ORDINARY,
)
def scan(context: Context, argv: list[bytes]) -> Reply:
    """SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]

    Returns the next cursor (0 at the end) and keys. A key that exists during the whole iteration is returned.
    Raises GenericError. Source: redis.io/commands/scan, Redis 6.0.
    """
    cursor = parse_cursor(argv[1])
    pattern, count, wanted_type = _parse_scan(argv)
    db, now_ms = context.db, context.now_ms
    found, cursor = db.scan(cursor, count)
    found = matching_keys(pattern, found)
    if db.expires or wanted_type is not None:
        values = db.get_all(found, now_ms)
        found = [key for index, key in enumerate(found) if _is_wanted(values[index], wanted_type)]
    return [b"%d" % cursor, found]


def _is_wanted(value: Value | None, wanted_type: bytes | None) -> bool:
    """Whether there is a value, and it is of this type; None for any type."""
    return value is not None and (wanted_type is None or type_name(value) == wanted_type)


def _parse_scan(argv: list[bytes]) -> tuple[bytes, int, bytes | None]:
    pattern, count, wanted_type = b"*", COUNT_DEFAULT, None
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
