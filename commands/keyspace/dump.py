"""DUMP and RESTORE: values in the serialization format of Redis."""

from __future__ import annotations

from typing import Final

from ...persistence.errors import RdbError
from ...persistence.rdb import payload
from ...protocol.replies import OK, Reply
from ...store.errors import GenericError, ReplyError, syntax_error
from ...store.events import DEL, NEW, RESTORE
from ...store.key_uses import FREQUENCY_MAX, SavedUse
from ..core.numbers import INT64_MAX, integer
from ..core.table import Argument, Flag, KeySpec, Trait, command
from ..execution.context import Context
from .keys import KEY_ARGUMENT


class BusyKey(ReplyError):
    """The error of RESTORE without REPLACE if the key exists."""

    prefix = b"BUSYKEY"

    def __init__(self) -> None:
        super().__init__(b"Target key name already exists.")


@command(
    "DUMP",
    arity=2,
    flags=Flag.READONLY,
    keys=(KeySpec(1, 1, 1, ("RO", "access")),),
    categories=("keyspace",),
    since="2.6.0",
    summary="Returns a value as bytes for RESTORE.",
    complexity="O(N) in the size of the value.",
    arguments=(KEY_ARGUMENT,),
    tips=("nondeterministic_output",),
    differs="Deleted entries of a stream are not in the payload. A hash of HIMPORT has 0 where Redis has a number of "
    "its own. If Headrace was installed without a C compiler, texts "
    "of more than 64 KiB and streams of more than 256 KiB are not compressed. Otherwise the payload is that of Redis "
    "byte for byte.",
)
def dump(context: Context, argv: list[bytes]) -> Reply:
    """DUMP key. Returns the payload; null if the key is missing. Source: Redis 2.6, payloads of Redis 8.10."""
    value = context.db.read(argv[1], context.now_ms)
    context.db.use(argv[1], context.now_ms)
    if value is None:
        return None
    pieces = payload.dump(value, now_ms=context.now_ms)
    return (b"$%d\r\n" % sum(map(len, pieces)), *pieces, b"\r\n")


def _is_check_wanted(context: Context) -> bool:
    """Whether `sanitize-dump-payload` asks for a full check, which every payload gets anyway."""
    setting = context.server.config.sanitize_dump_payload
    return setting == b"yes" or (setting == b"clients" and context.client.user.sanitizes_payload)


class RestoreOptions:
    """The options of RESTORE. It is no dataclass, because a compiled dataclass is slower."""

    __slots__ = ("frequency", "idle_s", "is_absolute", "replace")

    def __init__(self, replace: bool, is_absolute: bool, idle_s: int, frequency: int | None) -> None:
        self.replace: Final = replace
        self.is_absolute: Final = is_absolute
        # Idle time of the restored value.
        self.idle_s: Final = idle_s
        # Its counter of uses, for an LFU policy.
        self.frequency: Final = frequency


def _parse_options(argv: list[bytes]) -> RestoreOptions:
    """Parses the options of RESTORE. FREQ excludes IDLETIME. Raises GenericError."""
    idle_s = 0
    frequency: int | None = None
    replace = is_absolute = has_idle_time = False
    index = 4
    while index < len(argv):
        word, has_value = argv[index].upper(), index + 1 < len(argv)
        if word == b"REPLACE":
            replace = True
        elif word == b"ABSTTL":
            is_absolute = True
        elif word == b"IDLETIME" and has_value and frequency is None:
            index += 1
            idle_s = integer(argv[index])
            if idle_s < 0:
                raise GenericError(b"Invalid IDLETIME value, must be >= 0")
            has_idle_time = True
        elif word == b"FREQ" and has_value and not has_idle_time:
            index += 1
            frequency = integer(argv[index])
            if not 0 <= frequency <= FREQUENCY_MAX:
                raise GenericError(b"Invalid FREQ value, must be >= 0 and <= 255")
        else:
            raise syntax_error()
        index += 1
    return RestoreOptions(replace, is_absolute, idle_s, frequency)


RESTORE_ARGUMENTS: Final = (
    KEY_ARGUMENT,
    Argument("ttl", "integer"),
    Argument("serialized-value"),
    Argument("replace", "pure-token", token="REPLACE", optional=True, since="3.0.0"),
    Argument("absttl", "pure-token", token="ABSTTL", optional=True, since="5.0.0"),
    Argument("seconds", "integer", token="IDLETIME", optional=True, since="5.0.0"),
    Argument("frequency", "integer", token="FREQ", optional=True, since="5.0.0"),
)
RESTORE_HISTORY: Final = (
    ("3.0.0", "Added the `REPLACE` modifier."),
    ("5.0.0", "Added the `ABSTTL` modifier."),
    ("5.0.0", "Added the `IDLETIME` and `FREQ` options."),
)


@command(
    "RESTORE",
    arity=-4,
    flags=Flag.WRITE | Flag.DENYOOM,
    keys=(KeySpec(1, 1, 1, ("OW", "update")),),
    categories=("keyspace", "dangerous"),
    since="2.6.0",
    summary="Creates a key from the payload of a DUMP.",
    complexity="O(N) in the size of the value.",
    arguments=RESTORE_ARGUMENTS,
    history=RESTORE_HISTORY,
    traits=Trait.KEEPS_USE_TIMES,
    differs="Values of modules are `Bad data format`. Payloads are checked in full, whatever "
    "the value of `sanitize-dump-payload`. A score of `-0` in a listpack, which no command of Redis writes, becomes 0.",
)
def restore(context: Context, argv: list[bytes]) -> Reply:
    """RESTORE key ttl serialized-value [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]

    `ttl` is in milliseconds from now, 0 for no expiry; with ABSTTL it is a Unix time in ms. A time in the past creates
    no key, and deletes the key to be replaced. Returns OK. Raises BusyKey, GenericError.
    Source: redis.io/commands/restore, Redis 5.0.
    """
    options = _parse_options(argv)
    db, key, now_ms = context.db, argv[1], context.now_ms
    is_there = db.get(key, now_ms) is not None
    if is_there and not options.replace:
        raise BusyKey
    due_ms = integer(argv[2])
    if due_ms < 0:
        raise GenericError(b"Invalid TTL value, must be >= 0")
    if not payload.is_intact(argv[3]):
        raise GenericError(b"DUMP payload version or checksum are wrong")
    try:
        value = payload.restore(argv[3], context.limits, now_ms=now_ms)
    except RdbError:
        raise GenericError(b"Bad data format") from None
    if due_ms and not options.is_absolute:
        due_ms += now_ms
        if due_ms > INT64_MAX:
            # Overflows as in Redis, so that the time is in the past.
            due_ms -= 2**64
    if due_ms and due_ms <= now_ms and not context.replaying:
        if is_there:
            db.delete(key, DEL)
            context.log(b"DEL", key)
        return OK
    if not isinstance(value, bytes):
        value.used_ms = now_ms - options.idle_s * 1000
        if _is_check_wanted(context):
            context.server.stats.payload_checks += 1
    db.announce(NEW, key)
    old = db.replace(key, value)
    if db.uses is not None:
        db.uses.load(key, value, SavedUse(options.idle_s, options.frequency), now_ms)
    if due_ms:
        db.expires[key] = due_ms
    db.announce(RESTORE, key)
    db.announce_overwritten(key, old, value)
    if due_ms and not options.is_absolute:
        context.log_words([argv[0], key, b"%d" % due_ms, *argv[3:], b"ABSTTL"])
    else:
        context.log_words(argv)
    return OK


@command(
    "RESTORE-ASKING",
    arity=-4,
    flags=Flag.WRITE | Flag.DENYOOM | Flag.ASKING,
    keys=(KeySpec(1, 1, 1, ("OW", "update")),),
    categories=("keyspace", "dangerous"),
    group="server",
    since="3.0.0",
    summary="Creates a key from the payload of a DUMP, as the nodes of a cluster do.",
    complexity="O(N) in the size of the value.",
    arguments=RESTORE_ARGUMENTS,
    history=RESTORE_HISTORY,
    traits=Trait.KEEPS_USE_TIMES,
)
def restore_asking(context: Context, argv: list[bytes]) -> Reply:
    """RESTORE-ASKING key ttl serialized-value [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]

    See `restore`. Source: Redis 3.0.
    """
    return restore(context, argv)
