"""Commands that add to HyperLogLogs, count and merge them: PFADD, PFCOUNT, PFMERGE."""

from __future__ import annotations

from ...protocol.replies import OK, Reply
from ...store.database import Database
from ...store.editing import edited
from ...store.errors import CorruptHyperLogLog, NotHyperLogLog
from ...store.events import PFADD
from ...store.hyperloglog import (
    EMPTY,
    STALE_EMPTY,
    HyperLogLog,
    cached_estimate,
    estimate_of,
    estimate_registers,
    is_dense,
    is_hyperloglog,
    raise_registers,
    registers_of,
    with_estimate,
    with_packed_registers,
)
from ...store.hyperloglog_form import CORRUPT, NO_ROOM, REGISTERS_COUNT
from ...store.registers import packed, raised_dense, raised_sparse
from ...store.text import EMBEDDED_SIZE_MAX, EditedText
from ...store.value import Value, plain_text
from ..core.table import Argument, Flag, KeySpec, Trait, command
from ..execution.context import Context


def checked(value: Value | None) -> bytes | None:
    """Returns a value, which must be a HyperLogLog; None if there is none. Raises WrongType, NotHyperLogLog."""
    text = plain_text(value)
    if text is not None and not is_hyperloglog(text):
        raise NotHyperLogLog
    return text


def keep_apart(db: Database, key: bytes, text: bytes) -> None:
    """Keeps a string apart from its key from now on, as Redis does before it changes one, whether it then does or not:
    OBJECT ENCODING shows it."""
    if len(text) <= EMBEDDED_SIZE_MAX and type(text) is not EditedText:
        store_quietly(db, key, text)


def store_quietly(db: Database, key: bytes, text: bytes) -> None:
    """Stores the string of an existing key, which does not count as a change."""
    db.keys.put(key, edited(text), keep_expiry=True)


@command(
    "PFADD",
    arity=-2,
    flags=Flag.WRITE | Flag.DENYOOM | Flag.FAST,
    keys=(KeySpec(1, 1, 1, ("RW", "insert")),),
    categories=("hyperloglog",),
    group="hyperloglog",
    since="2.8.9",
    summary="Adds elements to a HyperLogLog; creates it if it does not exist.",
    complexity="O(1) for each element.",
    arguments=(Argument("key", "key", key_spec_index=0), Argument("element", optional=True, multiple=True)),
)
def pfadd(context: Context, argv: list[bytes]) -> Reply:
    """PFADD key [element ...]

    Returns 1 if a register has changed or the key is new, otherwise 0. Where the sparse registers are corrupt, the
    elements before the one that found it stay added, as in Redis. Raises WrongType, NotHyperLogLog,
    CorruptHyperLogLog. Source: Redis 2.8.9.
    """
    db, key = context.db, argv[1]
    text = checked(db.get(key, context.now_ms))
    changes_count, index = 0, 2
    if text is None:
        text, changes_count = STALE_EMPTY, 1
    if not is_dense(text):
        text, raised_count, index, outcome = raised_sparse(text, argv, index, context.limits.hyperloglog_size_max)
        changes_count += raised_count
        try:
            if outcome == CORRUPT:
                raise CorruptHyperLogLog
            if outcome == NO_ROOM:
                text = with_packed_registers(text, packed(registers_of(text)))
        except CorruptHyperLogLog:
            store_quietly(db, key, text)
            raise
        if not changes_count:
            keep_apart(db, key, text)
    if is_dense(text):
        text, raised_count = raised_dense(text, argv, index)
        changes_count += raised_count
    if not changes_count:
        return 0
    db.put(key, edited(text), PFADD, keep_expiry=True)
    context.log_words(argv, changes_count)
    return 1


@command(
    "PFCOUNT",
    arity=-2,
    flags=Flag.READONLY,
    traits=Trait.MAY_REPLICATE,
    keys=(
        KeySpec(
            1,
            -1,
            1,
            ("RW", "access"),
            note="RW because it may change the internal representation of the key, and propagate to replicas",
        ),
    ),
    categories=("hyperloglog",),
    group="hyperloglog",
    since="2.8.9",
    summary="Returns the estimated number of distinct elements of HyperLogLogs.",
    complexity="O(1) for one key. O(N) with N being the number of keys, which takes much longer for each of them.",
    arguments=(Argument("key", "key", multiple=True, key_spec_index=0),),
)
def pfcount(context: Context, argv: list[bytes]) -> Reply:
    """PFCOUNT key [key ...]

    Returns the estimate for one HyperLogLog, or for the union of several. A new estimate for one is kept in its string:
    that is a change. Raises WrongType, NotHyperLogLog, CorruptHyperLogLog. Source: Redis 2.8.9.
    """
    db = context.db
    if len(argv) > 2:
        return estimate_registers(_union(context, argv[1:])[0])
    key = argv[1]
    text = checked(db.read(key, context.now_ms))
    if text is None:
        return 0
    keep_apart(db, key, text)
    found = cached_estimate(text)
    if found is None:
        found = estimate_of(text)
        db.put(key, edited(with_estimate(text, found)), keep_expiry=True)
        context.log_words(argv)
    return found


def _union(context: Context, keys: list[bytes]) -> tuple[bytes, bool]:
    """Returns the registers of the union of the HyperLogLogs at these keys, and whether any of these has dense ones.
    Raises WrongType, NotHyperLogLog, CorruptHyperLogLog."""
    union, has_dense = bytearray(REGISTERS_COUNT), False
    for key in keys:
        text = checked(context.db.read(key, context.now_ms))
        if text is not None:
            raise_registers(union, text)
            has_dense = has_dense or is_dense(text)
    return bytes(union), has_dense


@command(
    "PFMERGE",
    arity=-2,
    flags=Flag.WRITE | Flag.DENYOOM,
    keys=(KeySpec(1, 1, 1, ("RW", "access", "insert")), KeySpec(2, -1, 1, ("RO", "access"))),
    categories=("hyperloglog",),
    group="hyperloglog",
    since="2.8.9",
    summary="Merges HyperLogLogs into one.",
    complexity="O(N) to merge N HyperLogLogs, each of which takes long.",
    arguments=(
        Argument("destkey", "key", key_spec_index=0),
        Argument("sourcekey", "key", optional=True, multiple=True, key_spec_index=1),
    ),
)
def pfmerge(context: Context, argv: list[bytes]) -> Reply:
    """PFMERGE destkey [sourcekey ...]

    The destination is one of the sources. It has dense registers if one of them has. Raises WrongType,
    NotHyperLogLog, CorruptHyperLogLog. Source: Redis 2.8.9.
    """
    db, key = context.db, argv[1]
    registers, has_dense = _union(context, argv[1:])
    text = checked(db.get(key, context.now_ms))
    if text is None:
        text = EMPTY
    if has_dense:
        text = with_packed_registers(text, packed(registers))
    else:
        value = HyperLogLog(text, context.limits.hyperloglog_size_max)
        value.raise_all(registers)
        value.mark_stale()
        text = bytes(value.data)
    db.put(key, edited(text), PFADD, keep_expiry=True)
    context.log_words(argv)
    return OK
