"""Commands that rename, move or copy keys: RENAME, RENAMENX, MOVE, COPY."""

from __future__ import annotations

from typing import Final

from ...protocol.replies import OK, Reply
from ...store.companions.companion import Companion
from ...store.database import Database
from ...store.errors import GenericError, no_such_key, syntax_error
from ...store.events import COPY_TO, MOVE_FROM, MOVE_TO, NEW, RENAME_FROM, RENAME_TO, Event
from ...store.value import Value
from ..core.table import Argument, Flag, KeySpec, Trait, command
from ..execution.context import Context
from ..execution.databases import database_at
from ..policies.upkeep import note_stream
from ..strings.encoding import keep_encoding
from .keys import KEY_ARGUMENT

SAME_OBJECT: Final = b"source and destination objects are the same"


def _move_value(
    source: Database, key: bytes, target: Database, new_key: bytes, value: Value, leaving: Event, arriving: Event
) -> None:
    """Moves a value with its expiry time to another name or database, and sends the event of each side."""
    due_ms = source.expires.get(key)
    target.announce(NEW, new_key)
    source.remove(key)
    old = target.replace(new_key, keep_encoding(key, value))
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
    summary="Renames a key; replaces a key that has the new name.",
    complexity="O(1)",
    arguments=(KEY_ARGUMENT, Argument("newkey", "key", key_spec_index=1)),
    traits=Trait.CARRIES_EXPIRY,
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
        note_stream(context, db, new_key)
        context.log(*argv)
    return OK


@command(
    "RENAMENX",
    arity=3,
    flags=Flag.WRITE | Flag.FAST,
    keys=(KeySpec(1, 1, 1, ("RW", "access", "delete")), KeySpec(2, 2, 1, ("OW", "insert"))),
    categories=("keyspace",),
    since="1.0.0",
    summary="Renames a key if no key has the new name.",
    complexity="O(1)",
    arguments=(KEY_ARGUMENT, Argument("newkey", "key", key_spec_index=1)),
    history=(("3.2.0", "The two names may be the same."),),
    traits=Trait.CARRIES_EXPIRY,
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
    note_stream(context, db, new_key)
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
    traits=Trait.ACROSS_DATABASES | Trait.CARRIES_EXPIRY,
)
def move(context: Context, argv: list[bytes]) -> Reply:
    """MOVE key db. Returns 1, or 0 if the key is missing or exists in `db`. Raises GenericError.

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
    target.begin_uses(key, context.now_ms)
    note_stream(context, target, key)
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
    complexity="O(N) in the size of the value.",
    arguments=(
        Argument("source", "key", key_spec_index=0),
        Argument("destination", "key", key_spec_index=1),
        Argument("destination-db", "integer", token="DB", optional=True),
        Argument("replace", "pure-token", token="REPLACE", optional=True),
    ),
    traits=Trait.ACROSS_DATABASES | Trait.CARRIES_EXPIRY,
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
    twin: Value
    if isinstance(value, bytes):
        twin = keep_encoding(key, value)
    elif isinstance(value, Companion):
        companion = value.copy()
        value.used_ms = companion.used_ms = context.now_ms
        twin = companion
    else:
        stream = value.copy()
        value.used_ms = stream.used_ms = context.now_ms
        twin = stream
    target.announce(NEW, new_key)
    old = target.replace(new_key, twin)
    if target is not context.db:
        target.begin_uses(new_key, context.now_ms)
    if due_ms is not None:
        target.expires[new_key] = due_ms
    target.announce(COPY_TO, new_key)
    if target.is_observed:
        target.announce_overwritten(new_key, old, twin)
    note_stream(context, target, new_key)
    context.log_words(argv)
    return 1
