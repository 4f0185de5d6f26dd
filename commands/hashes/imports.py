"""HIMPORT: hashes with the same fields. A connection names the fields once, then sends only the values of each hash."""

from __future__ import annotations

from ...persistence.rdb.payload import unchecked_dump
from ...protocol.replies import OK, Reply
from ...store.companions.hash_value import HashValue
from ...store.errors import GenericError
from ...store.events import HSET
from ..clients.fieldset import Fieldset
from ..core.table import NO_FLAGS, Argument, Flag, KeySpec, Trait, command, container
from ..execution.context import Context

container(
    "HIMPORT",
    group="hash",
    since="8.10.0",
    summary="Commands that import hashes with the same fields.",
    categories=("hash",),
)


@command(
    "HIMPORT|SET",
    arity=-5,
    flags=Flag.WRITE | Flag.DENYOOM,
    keys=(KeySpec(2, 2, 1, ("OW", "update")),),
    categories=("hash",),
    group="hash",
    since="8.10.0",
    summary="Makes a hash of the fields of a fieldset, with these values.",
    complexity="O(N) in the number of fields.",
    arguments=(
        Argument("key", "key", key_spec_index=0),
        Argument("fieldset-name"),
        Argument("value", multiple=True),
    ),
    differs="Each hash has the names of its fields, which Redis has once for all hashes with the same fields: "
    "`hash_templates` and `hash_template_keys` of `INFO` stay 0.",
)
def himport_set(context: Context, argv: list[bytes]) -> Reply:
    """HIMPORT SET key fieldset-name value [value ...]

    Replaces a hash, with its expiry time, or creates one. Returns OK. Raises WrongType if the key has a value of
    another type, GenericError. Source: Redis 8.10.
    """
    key, db, now_ms = argv[2], context.db, context.now_ms
    db.find_companion(key, HashValue, now_ms)
    fieldset = context.client.fieldsets.get(argv[3])
    if fieldset is None:
        raise GenericError(b"no such fieldset")
    if len(argv) - 4 != len(fieldset.fields):
        raise GenericError(b"value count does not match fieldset field count")
    value = HashValue.of_template(fieldset.fields, fieldset.arranged(argv[4:]), context.limits)
    db.overwrite(key, value, HSET, now_ms)
    if context.logging:
        # Replicas and the log do not know the fieldsets of connections.
        context.log(b"RESTORE", key, b"0", unchecked_dump(value, now_ms=now_ms), b"REPLACE")
    else:
        context.unlogged_count += 1
    return OK


@command(
    "HIMPORT|PREPARE",
    arity=-4,
    flags=Flag.DENYOOM,
    categories=("hash",),
    group="hash",
    since="8.10.0",
    summary="Names the fields of a fieldset, for this connection.",
    complexity="O(N*log(N)) in the number of fields.",
    arguments=(
        Argument("fieldset-name"),
        Argument("field", multiple=True),
    ),
    tips=("request_policy:all_shards",),
    traits=Trait.ORDINARY,
)
def himport_prepare(context: Context, argv: list[bytes]) -> Reply:
    """HIMPORT PREPARE fieldset-name field [field ...]

    Replaces a fieldset with this name. It lasts until HIMPORT DISCARD, HIMPORT DISCARDALL, RESET, or the end of the
    connection or the script. Returns OK. Raises GenericError. Source: Redis 8.10.
    """
    names = argv[3:]
    if len(set(names)) < len(names):
        raise GenericError(b"duplicate field name in fieldset")
    context.client.fieldsets[argv[2]] = Fieldset(names)
    return OK


@command(
    "HIMPORT|DISCARD",
    arity=3,
    flags=NO_FLAGS,
    categories=("hash",),
    group="hash",
    since="8.10.0",
    summary="Removes a fieldset.",
    complexity="O(1)",
    arguments=(Argument("fieldset-name"),),
    tips=("request_policy:all_shards",),
    traits=Trait.ORDINARY,
)
def himport_discard(context: Context, argv: list[bytes]) -> Reply:
    """HIMPORT DISCARD fieldset-name. Returns 1, or 0 if there is none. Hashes stay. Source: Redis 8.10."""
    return int(context.client.fieldsets.pop(argv[2], None) is not None)


@command(
    "HIMPORT|DISCARDALL",
    arity=2,
    flags=NO_FLAGS,
    categories=("hash",),
    group="hash",
    since="8.10.0",
    summary="Removes all fieldsets of this connection.",
    complexity="O(N) in the number of fieldsets.",
    tips=("request_policy:all_shards",),
    traits=Trait.ORDINARY,
)
def himport_discardall(context: Context, argv: list[bytes]) -> Reply:
    """HIMPORT DISCARDALL. Returns the number of fieldsets. Source: Redis 8.10."""
    fieldsets = context.client.fieldsets
    count = len(fieldsets)
    fieldsets.clear()
    return count
