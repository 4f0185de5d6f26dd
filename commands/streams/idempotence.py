"""Commands for idempotent producers, in addition to XADD's options: XCFGSET and XIDMPRECORD."""

from __future__ import annotations

from typing import Final

from ...protocol.replies import OK, Reply
from ...store.errors import GenericError, no_such_key, syntax_error
from ...store.ids import parse_id
from ..core.numbers import integer
from ..core.table import Argument, Flag, KeySpec, command
from ..execution.context import Context
from .retention_options import RETENTION_ARGUMENTS, RetentionChange, retain

# The largest values of the settings. The smallest is 1.
DURATION_S_MAX: Final = 86400
ENTRIES_MAX: Final = 10000


@command(
    "XCFGSET",
    arity=-2,
    flags=Flag.WRITE | Flag.FAST,
    keys=(KeySpec(1, 1, 1, ("RW", "update")),),
    categories=("stream",),
    group="stream",
    since="8.6.0",
    summary="Sets how long and how many idempotent IDs a stream remembers.",
    complexity="O(1)",
    arguments=(
        Argument("key", "key", key_spec_index=0),
        Argument("idmp-duration", "integer", token="IDMP-DURATION", optional=True),
        Argument("idmp-maxsize", "integer", token="IDMP-MAXSIZE", optional=True),
        *RETENTION_ARGUMENTS,
    ),
    differs="How long entries are kept is not in Redis: `RETAIN-ACKED`, `MAXAGE`, `MAXLEN`, `MAXBYTES` and "
    "`IGNORE-GROUPS-IDLE`. The log gets XTRIM for what they remove, and the settings where Redis skips them.",
)
def xcfgset(context: Context, argv: list[bytes]) -> Reply:
    """XCFGSET key [IDMP-DURATION seconds] [IDMP-MAXSIZE entries] [RETAIN-ACKED <YES | NO>] [MAXAGE ms [FORCE]]
    [MAXLEN count [FORCE]] [MAXBYTES bytes [FORCE]] [IGNORE-GROUPS-IDLE ms]

    A changed value of the first two makes the stream forget all producer and idempotent IDs. The others, which Redis
    does not have, say how long entries are kept; 0, `no` and the empty string take a value back. Returns OK.
    Raises WrongType, GenericError. Source: redis.io/commands/xcfgset, Redis 8.6.
    """
    stream = context.db.get_stream(argv[1], context.now_ms)
    if stream is None:
        raise no_such_key()
    duration_s = entries_max = 0
    retention = RetentionChange()
    redis_words: list[bytes] = []
    index = 2
    while index < len(argv):
        used = retention.scan(argv, index)
        if used:
            index += used
            continue
        word = argv[index].upper()
        if word == b"IDMP-DURATION" and index + 1 < len(argv):
            _require_first(word, duration_s)
            duration_s = integer(argv[index + 1])
            if not 1 <= duration_s <= DURATION_S_MAX:
                raise GenericError(b"IDMP-DURATION must be between 1 and 86400 seconds")
        elif word == b"IDMP-MAXSIZE" and index + 1 < len(argv):
            _require_first(word, entries_max)
            entries_max = integer(argv[index + 1])
            if not 1 <= entries_max <= ENTRIES_MAX:
                raise GenericError(b"IDMP-MAXSIZE must be between 1 and 10000 entries")
        else:
            raise syntax_error()
        redis_words += argv[index : index + 2]
        index += 2
    if not duration_s and not entries_max and not retention.values:
        raise GenericError(b"At least one parameter must be specified")
    if stream.idempotence.configure(duration_s, entries_max):
        context.log_words([*argv[:2], *redis_words])
    if retention.values:
        retain(context, argv[1], stream, retention)
    return OK


def _require_first(word: bytes, value: int) -> None:
    """Checks that the setting `word` has no value yet, which is then 0. Raises GenericError."""
    if value:
        raise GenericError(word + b" specified multiple times")


@command(
    "XIDMPRECORD",
    arity=5,
    flags=Flag.WRITE | Flag.DENYOOM | Flag.FAST,
    keys=(KeySpec(1, 1, 1, ("RW", "update")),),
    categories=("stream",),
    group="stream",
    since="8.6.2",
    summary="Remembers an idempotent ID for an entry that exists; used by the log.",
    complexity="O(log N)",
    arguments=(
        Argument("key", "key", key_spec_index=0),
        Argument("pid"),
        Argument("iid"),
        Argument("stream-id"),
    ),
)
def xidmprecord(context: Context, argv: list[bytes]) -> Reply:
    """XIDMPRECORD key producer-id idempotent-id entry-id

    Makes the stream remember that the producer added this entry with the idempotent ID. Returns OK.
    Raises WrongType, GenericError. Source: Redis 8.6.2.
    """
    _, key, producer_id, iid, token = argv
    entry_id = parse_id(token)
    if not producer_id:
        raise GenericError(b"producer ID must be non-empty")
    if not iid:
        raise GenericError(b"idempotent ID must be non-empty")
    stream = context.db.get_stream(key, context.now_ms)
    if stream is None:
        raise no_such_key()
    known_id = stream.idempotence.find(producer_id, iid)
    if context.replaying and known_id not in (None, entry_id):
        # In a log, a repeated pair means that its first use had expired by then.
        stream.idempotence.forget(producer_id, iid)
        known_id = None
    if not context.replaying and entry_id not in stream.log:
        raise GenericError(b"No such message in stream")
    if known_id == entry_id:
        return OK
    if known_id is not None:
        raise GenericError(b"IID already exists for this producer with a different stream ID")
    stream.idempotence.record(producer_id, iid, entry_id)
    context.log_words(argv)
    return OK
