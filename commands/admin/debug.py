"""DEBUG: subcommands for test suites. It is refused unless `enable-debug-command` allows it."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from typing import Final

from ...persistence.rdb import payload
from ...protocol.replies import OK, Push, Reply, SetReply, SimpleString, Verbatim, status_lines
from ...store.errors import GenericError, StillLoading, no_such_key
from ..core.lookup import subcommand_syntax_error
from ..core.numbers import INT64_MAX, integer, integer_between, leading_integer, parse_memory
from ..core.table import Argument, Flag, command
from ..execution.context import Context
from ..keyspace.digest import digest_dataset, digest_value
from ..keyspace.digests import EMPTY
from ..keyspace.idle import key_idle_s
from ..strings.encoding import encoding_of
from .save_failed import SaveFailed

logger = logging.getLogger(__name__)

NOT_ALLOWED: Final = (
    b'DEBUG command not allowed. If the enable-debug-command option is set to "local", you can run it from a local '
    b"connection, otherwise you need to set this option in the configuration file, and then restart the server."
)


PACKED_THRESHOLD_MAX: Final = (4 << 30) - (1 << 20)
# The clock of OBJECT shows this many bits of the Unix time in seconds.
LRU_CLOCK_MAX: Final = 0xFFFFFF
# A limit below the one at which Python raises an error.
SLEEP_S_MAX: Final = 1e9
REPL_PAUSES: Final = {b"clear", b"after-fork", b"before-rdb-channel", b"on-streaming-repl-buf"}
POSITIVE: Final = b"value is out of range, must be positive"

# Subcommands refused while a dataset is loaded.
CHANGING_DATASET: Final = {b"LOADAOF", b"POPULATE", b"RELOAD"}

HELP: Final = status_lines(
    (
        b"DEBUG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        b"AOF-FLUSH-SLEEP <microsec>",
        b"    Server will sleep before flushing the AOF, this is used for testing.",
        b"CHANGE-REPL-ID",
        b"    Change the replication IDs of the instance.",
        b"    Dangerous: should be used only for testing the replication subsystem.",
        b"DIGEST",
        b"    Output a hex signature representing the current DB content.",
        b"DIGEST-VALUE <key> [<key> ...]",
        b"    Output a hex signature of the values of all the specified keys.",
        b"ERROR <string>",
        b"    Return a Redis protocol error with <string> as message. Useful for clients",
        b"    unit tests to simulate Redis errors.",
        b"LOG <message>",
        b"    Write <message> to the server log.",
        b"LOADAOF",
        b"    Flush the AOF buffers on disk and reload the AOF in memory.",
        b"REPLICATE <string>",
        b"    Replicates the provided string to replicas, allowing data divergence.",
        b"OBJECT <key>",
        b"    Show low level info about `key` and associated value.",
        b"POPULATE <count> [<prefix>] [<size>]",
        b"    Create <count> string keys named key:<num>. If <prefix> is specified then",
        b"    it is used instead of the 'key' prefix. These are not propagated to",
        b"    replicas. Cluster slots are not respected so keys not belonging to the",
        b"    current node can be created in cluster mode.",
        b"PROTOCOL <type>",
        b"    Reply with a test value of the specified type. <type> can be: string,",
        b"    integer, double, bignum, null, array, set, map, attrib, push, verbatim,",
        b"    true, false.",
        b"RELOAD [option ...]",
        b"    Save the RDB on disk and reload it back to memory. Valid <option> values:",
        b"    * MERGE: conflicting keys will be loaded from RDB.",
        b"    * NOFLUSH: the existing database will not be removed before load, but",
        b"      conflicting keys will generate an exception and kill the server.",
        b"    * NOSAVE: the database will be loaded from an existing RDB file.",
        b"    Examples:",
        b"    * DEBUG RELOAD: verify that the server is able to persist, flush and reload",
        b"      the database.",
        b"    * DEBUG RELOAD NOSAVE: replace the current database with the contents of an",
        b"      existing RDB file.",
        b"    * DEBUG RELOAD NOSAVE NOFLUSH MERGE: add the contents of an existing RDB",
        b"      file to the database.",
        b"SET-ACTIVE-EXPIRE <0|1>",
        b"    Setting it to 0 disables expiring keys (and hash-fields) in background ",
        b"    when they are not accessed (otherwise the Redis behavior). Setting it",
        b"    to 1 reenables back the default.",
        b"QUICKLIST-PACKED-THRESHOLD <size>",
        b"    Sets the threshold for elements to be inserted as plain vs packed nodes",
        b"    Default value is 1GB, allows values up to 4GB. Setting to 0 restores to default.",
        b"SLEEP <seconds>",
        b"    Stop the server for <seconds>. Decimals allowed.",
        b"PAUSE-CRON <0|1>",
        b"    Stop periodic cron job processing.",
        b"REPLYBUFFER PEAK-RESET-TIME <NEVER||RESET|time>",
        b"    Sets the time (in milliseconds) to wait between client reply buffer peak resets.",
        b"    In case NEVER is provided the last observed peak will never be reset",
        b"    In case RESET is provided the peak reset time will be restored to the default value",
        b"REPLYBUFFER RESIZING <0|1>",
        b"    Enable or disable the reply buffer resize cron job",
        b"REPL-PAUSE <clear|after-fork|before-rdb-channel|on-streaming-repl-buf>",
        b"    Pause the server's main process during various replication steps.",
        b"DICT-RESIZING <0|1>",
        b"    Enable or disable the main dict and expire dict resizing.",
        b"CHECK <key>",
        b"    Verify that all views of the stream at <key> agree with each other.",
        b"HELP",
        b"    Print this help.",
    )
)


def refusal_if_disabled(context: Context) -> GenericError | None:
    """The error if `enable-debug-command` does not allow DEBUG for this client; otherwise None."""
    setting = context.server.config.enable_debug_command
    is_enabled = setting == b"yes" or (setting == b"local" and context.client.is_local)
    return None if is_enabled else GenericError(NOT_ALLOWED)


@command(
    "DEBUG",
    arity=-2,
    flags=Flag.ADMIN | Flag.NOSCRIPT | Flag.LOADING | Flag.STALE,
    group="server",
    since="1.0.0",
    summary="Inspects and changes the server, for tests.",
    complexity="Depends on the subcommand.",
    arguments=(Argument("subcommand"), Argument("arg", optional=True, multiple=True)),
    differs=(
        "A subset: AOF-FLUSH-SLEEP, CHANGE-REPL-ID, DIGEST, DIGEST-VALUE, ERROR, LOADAOF, LOG, OBJECT, PAUSE-CRON, "
        "POPULATE, PROTOCOL, RELOAD, REPLICATE, SET-ACTIVE-EXPIRE, SLEEP, and our own CHECK. RELOAD without NOSAVE "
        "loads an RDB file in memory, and if it fails, the dataset stays as it was. DICT-RESIZING, "
        "QUICKLIST-PACKED-THRESHOLD, REPL-PAUSE and REPLYBUFFER are accepted without effect."
    ),
    refusal_if_disabled=refusal_if_disabled,
)
def debug(context: Context, argv: list[bytes]) -> Reply:
    """DEBUG subcommand [arg ...]

    Runs a subcommand and returns its reply. Raises GenericError. Source: DEBUG HELP of Redis 8.10.2.
    """
    refusal = refusal_if_disabled(context)
    if refusal is not None:
        raise refusal
    name = argv[1].upper()
    found = _SUBCOMMANDS.get(name)
    if found is None or not found[1] <= len(argv) - 2 <= found[2]:
        raise subcommand_syntax_error(b"DEBUG", argv[1])
    if context.loading and name in CHANGING_DATASET:
        raise StillLoading
    return found[0](context, argv)


# -- time ----------------------------------------------------------------------------------------

_LEADING_DECIMAL: Final = re.compile(rb"\s*([+-]?(?:\d+\.?\d*|\.\d+))")


def _sleep(context: Context, argv: list[bytes]) -> Reply:
    """SLEEP seconds: stops the whole server for that time."""
    match = _LEADING_DECIMAL.match(argv[2])
    time.sleep(max(0.0, min(float(match[1]), SLEEP_S_MAX)) if match else 0.0)
    return OK


def _set_active_expire(context: Context, argv: list[bytes]) -> Reply:
    """SET-ACTIVE-EXPIRE 0|1: enables or disables the removal of expired keys that no client reads."""
    context.server.work.expires_keys = leading_integer(argv[2]) != 0
    return OK


def _pause_cron(context: Context, argv: list[bytes]) -> Reply:
    """PAUSE-CRON 0|1: stops or resumes periodic work."""
    context.server.work.is_paused = leading_integer(argv[2]) != 0
    return OK


def _aof_flush_sleep(context: Context, argv: list[bytes]) -> Reply:
    """AOF-FLUSH-SLEEP microseconds: waits before each write to the log; 0 for no wait. No effect without a log."""
    log = context.server.storage.log
    if log is not None:
        log.flush_delay_us = max(0, leading_integer(argv[2]))
    return OK


# -- the dataset ---------------------------------------------------------------------------------


def _digest(context: Context, argv: list[bytes]) -> Reply:
    """DIGEST: returns the digest of the whole dataset."""
    return SimpleString(digest_dataset(context.store).hex().encode())


def _digest_values(context: Context, argv: list[bytes]) -> Reply:
    """DIGEST-VALUE key [key ...]: returns the digest of each value, also of an expired one; zeros for a missing key."""
    digests = []
    for key in argv[2:]:
        value = context.db.keys.get(key)
        digest = EMPTY if value is None else digest_value(EMPTY, context.db, key, value)
        digests.append(SimpleString(digest.hex().encode()))
    return digests


def _object(context: Context, argv: list[bytes]) -> Reply:
    """OBJECT key: returns a line with the encoding and size of a value, also of an expired one."""
    value = context.db.keys.get(argv[2])
    if value is None:
        raise no_such_key()
    encoding = encoding_of(argv[2], value)
    size = payload.dumped_size(value, now_ms=context.now_ms)
    idle_s = key_idle_s(context, argv[2], value)
    return SimpleString(
        b"Value at:0x%x refcount:1 encoding:%b serializedlength:%d lru:%d lru_seconds_idle:%d"
        % (id(value), encoding, size, context.now_ms // 1000 - idle_s & LRU_CLOCK_MAX, idle_s)
    )


def _check(context: Context, argv: list[bytes]) -> Reply:
    """CHECK key: checks that all views of a stream agree. A fault is an internal error, traced in the server log."""
    stream = context.db.get_stream(argv[2], context.now_ms)
    if stream is None:
        raise no_such_key()
    stream.check()
    return OK


def _populate(context: Context, argv: list[bytes]) -> Reply:
    """POPULATE count [prefix] [size]: creates keys; existing ones stay. Nothing is logged, as in Redis."""
    count = integer_between(argv[2], 0, INT64_MAX, POSITIVE)
    prefix = argv[3] if len(argv) > 3 else b"key"
    size = integer_between(argv[4], 0, INT64_MAX, POSITIVE) if len(argv) > 4 else 0
    if size > context.server.config.proto_max_bulk_len:
        raise GenericError(b"string exceeds maximum allowed size (proto-max-bulk-len)")
    for number in range(count):
        key = b"%b:%d" % (prefix, number)
        if context.db.get(key, context.now_ms) is None:
            value = b"value:%d" % number
            context.db.put(key, value[:size].ljust(size, b"\0") if size else value)
    return OK


def _reload(context: Context, argv: list[bytes]) -> Reply:
    """RELOAD [MERGE] [NOFLUSH] [NOSAVE]: writes dump.rdb, and then empties the dataset and loads it from RDB in memory.

    NOSAVE loads the present dump.rdb instead. NOFLUSH leaves the dataset as it is; MERGE allows the file to have keys
    of it.
    """
    options = {word.upper() for word in argv[2:]}
    if options - {b"MERGE", b"NOFLUSH", b"NOSAVE"}:
        raise GenericError(b"DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options.")
    storage, from_disk = context.server.storage, b"NOSAVE" in options
    if not from_disk and not storage.write_dump():
        raise SaveFailed
    storage.reload_dataset(from_disk=from_disk, flushes=b"NOFLUSH" not in options, merges=b"MERGE" in options)
    context.tracking.note_flush()
    return OK


def _load_log(context: Context, argv: list[bytes]) -> Reply:
    """LOADAOF: writes the log out, empties the dataset and loads the log."""
    context.server.storage.reload_log()
    context.tracking.note_flush()
    return OK


# -- replies -------------------------------------------------------------------------------------


def _error(context: Context, argv: list[bytes]) -> Reply:
    """ERROR string: returns an error whose code is the first word. It is not counted, because nothing failed."""
    return (b"-%b\r\n" % argv[2].replace(b"\r", b" ").replace(b"\n", b" "),)


def _log(context: Context, argv: list[bytes]) -> Reply:
    """LOG message: writes a line to the server log."""
    logger.warning("DEBUG LOG: %s", argv[2].decode("utf-8", "backslashreplace"))
    return OK


BIG_NUMBER: Final = b"1234567999999999999999999999999999999"
AFTER_ATTRIBUTE: Final = b"Some real reply following the attribute"
ATTRIBUTE: Final = (b"|1\r\n$14\r\nkey-popularity\r\n*2\r\n$7\r\nkey:123\r\n:90\r\n",)
AFTER_PUSH: Final = b"Some real reply following the push reply"
PUSH: Final = Push([b"server-cpu-usage", 42])

EXAMPLES: Final[dict[bytes, Reply]] = {
    b"STRING": b"Hello World",
    b"INTEGER": 12345,
    b"DOUBLE": 3.141,
    b"NULL": None,
    b"ARRAY": [0, 1, 2],
    b"SET": SetReply([0, 1, 2]),
    b"MAP": {0: False, 1: True, 2: False},
    b"VERBATIM": Verbatim(b"This is a verbatim\nstring"),
    b"TRUE": True,
    b"FALSE": False,
}
RESP3_EXAMPLES: Final[dict[bytes, Reply]] = {
    b"BIGNUM": (b"(%b\r\n" % BIG_NUMBER,),
    b"ATTRIB": (*ATTRIBUTE, b"$%d\r\n%b\r\n" % (len(AFTER_ATTRIBUTE), AFTER_ATTRIBUTE)),
    b"PUSH": AFTER_PUSH,
}
# Type: its example in RESP2, if that differs from the one in `EXAMPLES`.
RESP2_EXAMPLES: Final[dict[bytes, Reply]] = {
    b"BIGNUM": BIG_NUMBER,
    b"ATTRIB": AFTER_ATTRIBUTE,
    b"PUSH": GenericError(b"RESP2 is not supported by this command"),
}


def _protocol(context: Context, argv: list[bytes]) -> Reply:
    """PROTOCOL type: returns an example of a reply type."""
    name = argv[2].upper()
    special = RESP3_EXAMPLES if context.client.protocol == 3 else RESP2_EXAMPLES
    if name == b"PUSH" and context.client.protocol == 3:
        # It arrives after the reply, of the whole transaction in MULTI, and although replies are off.
        context.server.courier.deliver((context.client,), PUSH)
    if name in special:
        return special[name]
    if name not in EXAMPLES:
        raise GenericError(
            b"Wrong protocol type name. Please use one of the following: "
            b"string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|false"
        )
    return EXAMPLES[name]


# -- subcommands without effect ------------------------------------------------------------------


def _accept(context: Context, argv: list[bytes]) -> Reply:
    """DICT-RESIZING 0|1: no effect, with Python's dictionaries."""
    return OK


def _change_replid(context: Context, argv: list[bytes]) -> Reply:
    """CHANGE-REPL-ID: no replica can continue from before."""
    context.server.replicas.forget_history()
    return OK


def _replicate(context: Context, argv: list[bytes]) -> Reply:
    """REPLICATE command [arg ...]: send replicas a command that is not run here."""
    context.relay(argv[2:])
    return OK


def _reply_buffer(context: Context, argv: list[bytes]) -> Reply:
    """REPLYBUFFER PEAK-RESET-TIME NEVER|RESET|ms, REPLYBUFFER RESIZING 0|1: no effect, as there is no such buffer."""
    option, value = argv[2].upper(), argv[3].upper()
    if option == b"PEAK-RESET-TIME" and value not in (b"NEVER", b"RESET"):
        integer(argv[3])
    elif option not in (b"PEAK-RESET-TIME", b"RESIZING"):
        raise subcommand_syntax_error(b"DEBUG", argv[1])
    return OK


def _repl_pause(context: Context, argv: list[bytes]) -> Reply:
    """REPL-PAUSE clear|after-fork|before-rdb-channel|on-streaming-repl-buf: no effect, as there are no such steps."""
    if argv[2].lower() not in REPL_PAUSES:
        raise subcommand_syntax_error(b"DEBUG", argv[1])
    return OK


def _packed_threshold(context: Context, argv: list[bytes]) -> Reply:
    """QUICKLIST-PACKED-THRESHOLD size: checks the size; no effect, as there are no lists."""
    size = parse_memory(argv[2])
    if size is None or size > PACKED_THRESHOLD_MAX:
        raise GenericError(b"argument must be a memory value bigger than 1 and smaller than 4gb")
    return OK


def _help(context: Context, argv: list[bytes]) -> Reply:
    """HELP: returns lines of text."""
    return HELP


ARGUMENTS_COUNT_MAX: Final = 2**31

# Subcommand: (handler, minimum and maximum number of arguments). They are not rows, as Redis shows only DEBUG.
_SUBCOMMANDS: Final[dict[bytes, tuple[Callable[[Context, list[bytes]], Reply], int, int]]] = {
    b"AOF-FLUSH-SLEEP": (_aof_flush_sleep, 1, 1),
    b"CHANGE-REPL-ID": (_change_replid, 0, 0),
    b"CHECK": (_check, 1, 1),
    b"DICT-RESIZING": (_accept, 1, 1),
    b"DIGEST": (_digest, 0, 0),
    b"DIGEST-VALUE": (_digest_values, 0, ARGUMENTS_COUNT_MAX),
    b"ERROR": (_error, 1, 1),
    b"HELP": (_help, 0, 0),
    b"LOADAOF": (_load_log, 0, ARGUMENTS_COUNT_MAX),
    b"LOG": (_log, 1, 1),
    b"OBJECT": (_object, 1, 1),
    b"PAUSE-CRON": (_pause_cron, 1, 1),
    b"POPULATE": (_populate, 1, 3),
    b"PROTOCOL": (_protocol, 1, 1),
    b"QUICKLIST-PACKED-THRESHOLD": (_packed_threshold, 1, 1),
    b"REPLICATE": (_replicate, 1, ARGUMENTS_COUNT_MAX),
    b"RELOAD": (_reload, 0, ARGUMENTS_COUNT_MAX),
    b"REPL-PAUSE": (_repl_pause, 1, 1),
    b"REPLYBUFFER": (_reply_buffer, 2, 2),
    b"SET-ACTIVE-EXPIRE": (_set_active_expire, 1, 1),
    b"SLEEP": (_sleep, 1, 1),
}
