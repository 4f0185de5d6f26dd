"""Commands on keys of any type: DEL, UNLINK, EXISTS, TOUCH, TYPE."""

from __future__ import annotations

from typing import Final

from ...protocol.replies import Reply
from ...store.companions.kinds import COMPANIONS
from ...store.events import DEL
from ...store.value import STREAM, STRING, type_name
from ..core.table import Argument, Flag, KeySpec, Trait, command
from ..execution.context import Context

KEY_ARGUMENT: Final = Argument("key", "key", key_spec_index=0)
KEYS_ARGUMENT: Final = Argument("key", "key", key_spec_index=0, multiple=True)


# The replies of TYPE, encoded.
TYPE_REPLIES: Final = {
    name: (b"+%b\r\n" % name,) for name in (b"none", STREAM, STRING, *(kind.type_name for kind in COMPANIONS))
}


def _remove_keys(context: Context, argv: list[bytes]) -> int:
    db, now_ms = context.db, context.now_ms
    if len(argv) == 2:  # as nearly all
        key = argv[1]
        if db.get(key, now_ms) is None or not db.delete(key, DEL):
            return 0
        context.log(argv[0], key)
        return 1
    count = sum([db.get(key, now_ms) is not None and db.delete(key, DEL) for key in argv[1:]])
    if count:
        context.log_words(argv, count)
    return count


_REMOVED_KEYS: Final = (KeySpec(1, -1, 1, ("RM", "delete")),)
_SHARD_SUM: Final = ("request_policy:multi_shard", "response_policy:agg_sum")


@command(
    "DEL", arity=-2, flags=Flag.WRITE, keys=_REMOVED_KEYS, categories=("keyspace",), since="1.0.0",
    summary="Deletes keys.", complexity="O(N) in the number of keys.", arguments=(KEYS_ARGUMENT,), tips=_SHARD_SUM,
    traits=Trait.REMOVES_KEYS,
)  # fmt: skip
def delete(context: Context, argv: list[bytes]) -> Reply:
    """DEL key [key ...]. Returns the number of keys removed. Source: Redis 1.0."""
    return _remove_keys(context, argv)


@command(
    "UNLINK", arity=-2, flags=Flag.WRITE | Flag.FAST, keys=_REMOVED_KEYS, categories=("keyspace",), since="4.0.0",
    summary="Deletes keys.", complexity="O(N) in the number of keys.", arguments=(KEYS_ARGUMENT,), tips=_SHARD_SUM,
    traits=Trait.REMOVES_KEYS,
)  # fmt: skip
def unlink(context: Context, argv: list[bytes]) -> Reply:
    """UNLINK key [key ...]. Returns the number of keys removed. Source: Redis 4.0."""
    return _remove_keys(context, argv)


def _count_existing(context: Context, argv: list[bytes]) -> int:
    db, now_ms = context.db, context.now_ms
    if len(argv) == 2:
        return int(db.read(argv[1], now_ms) is not None)
    return sum([db.read(key, now_ms) is not None for key in argv[1:]])


_SEEN_KEYS: Final = (KeySpec(1, -1, 1, ("RO",)),)


@command(
    "EXISTS", arity=-2, flags=Flag.READONLY | Flag.FAST, keys=_SEEN_KEYS, categories=("keyspace",), since="1.0.0",
    summary="Counts the keys that exist.", complexity="O(N) in the number of keys.", arguments=(KEYS_ARGUMENT,),
    history=(("3.0.3", "Takes several keys."),), tips=_SHARD_SUM, traits=Trait.KEEPS_USE_TIMES,
)  # fmt: skip
def exists(context: Context, argv: list[bytes]) -> Reply:
    """EXISTS key [key ...]. Returns how many exist; a repeated key counts each time. Source: Redis 3.0."""
    return _count_existing(context, argv)


@command(
    "TOUCH", arity=-2, flags=Flag.READONLY | Flag.FAST, keys=_SEEN_KEYS, categories=("keyspace",), since="3.2.1",
    summary="Counts the keys that exist.", complexity="O(N) in the number of keys.", arguments=(KEYS_ARGUMENT,),
    tips=_SHARD_SUM, traits=Trait.ALWAYS_TOUCHES,
)  # fmt: skip
def touch(context: Context, argv: list[bytes]) -> Reply:
    """TOUCH key [key ...]. Returns how many exist; a repeated key counts each time. Source: Redis 3.2.1."""
    db, now_ms = context.db, context.now_ms
    for key in argv[1:]:
        db.use(key, now_ms)
    return _count_existing(context, argv)


@command(
    "TYPE",
    arity=2,
    flags=Flag.READONLY | Flag.FAST,
    keys=(KeySpec(1, 1, 1, ("RO",)),),
    categories=("keyspace",),
    since="1.0.0",
    summary="Returns the type of a key's value.",
    complexity="O(1)",
    arguments=(KEY_ARGUMENT,),
    traits=Trait.KEEPS_USE_TIMES,
)
def type_(context: Context, argv: list[bytes]) -> Reply:
    """TYPE key. Returns `stream`, `string` or `none`. Source: Redis 1.0."""
    value = context.db.read(argv[1], context.now_ms)
    return TYPE_REPLIES[b"none" if value is None else type_name(value)]
