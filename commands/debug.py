"""DEBUG: what test suites ask of a server and nobody else should. Refused unless `enable-debug-command` allows it."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from typing import Final

from ..protocol.replies import OK, Reply, SetReply, SimpleString, Verbatim
from ..store.errors import GenericError, StillLoading, no_such_key
from ..store.stream import Stream
from .context import Context
from .digest import EMPTY, digest_dataset, digest_value
from .encoding import string_encoding
from .lookup import subcommand_syntax_error
from .numbers import INT64_MAX, integer, integer_between, leading_integer, parse_memory
from .table import Argument, Flag, command

logger = logging.getLogger(__name__)

NOT_ALLOWED: Final = (
    b'DEBUG command not allowed. If the enable-debug-command option is set to "local", you can run it from a local '
    b"connection, otherwise you need to set this option in the configuration file, and then restart the server."
)


PACKED_THRESHOLD_MAX: Final = (4 << 30) - (1 << 20)
SLEEP_S_MAX: Final = 1e9
"""More than anybody waits, and less than Python refuses."""
POSITIVE: Final = b"value is out of range, must be positive"

CHANGING_DATASET: Final = {b"LOADAOF", b"POPULATE", b"RELOAD"}
"""Subcommands that must not run while the dataset is loaded."""

HELP_LINES: Final = (
    b"DEBUG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    b"AOF-FLUSH-SLEEP <microsec>",
    b"    Wait so long before each write to the append-only file.",
    b"CHECK <key>",
    b"    Verify that all views of the stream at <key> agree with each other.",
    b"DIGEST",
    b"    Answer 40 hex digits that depend on the whole dataset, the same as in Redis.",
    b"DIGEST-VALUE <key> [<key> ...]",
    b"    The same for single values.",
    b"ERROR <string>",
    b"    Answer an error reply with this text.",
    b"LOADAOF",
    b"    Write the append-only file out, empty the dataset and load the file.",
    b"LOG <message>",
    b"    Write a line to the server's log.",
    b"OBJECT <key>",
    b"    Show the encoding and size of a value.",
    b"PAUSE-CRON <0|1>",
    b"    Stop or resume periodic work: expiry, idle clients, the log's timer.",
    b"POPULATE <count> [<prefix>] [<size>]",
    b"    Make string keys <prefix>:0, <prefix>:1, ... that do not exist yet.",
    b"PROTOCOL <type>",
    b"    Answer an example of a reply type.",
    b"RELOAD [option ...]",
    b"    Turn the dataset into log records, empty it and replay them.",
    b"SET-ACTIVE-EXPIRE <0|1>",
    b"    Whether keys that nobody asks for are removed when they expire.",
    b"SLEEP <seconds>",
    b"    Stop the whole server for so long. Decimals allowed.",
    b"CHANGE-REPL-ID, DICT-RESIZING <0|1>, QUICKLIST-PACKED-THRESHOLD <size>, REPLYBUFFER <option> <value>",
    b"    Accepted; Headrace has no such part.",
    b"HELP",
    b"    Print this help.",
)


def is_allowed(context: Context) -> bool:
    """Whether `enable-debug-command` lets this client in."""
    setting = context.server.config.enable_debug_command
    return setting == b"yes" or (setting == b"local" and context.client.is_local)


@command(
    "DEBUG",
    arity=-2,
    flags=Flag.ADMIN | Flag.NOSCRIPT | Flag.LOADING | Flag.STALE,
    group="server",
    since="1.0.0",
    summary="Looks into the server and disturbs it, for tests.",
    complexity="Depends on the subcommand.",
    arguments=(Argument("subcommand"), Argument("arg", optional=True, multiple=True)),
    differs=(
        "A subset: AOF-FLUSH-SLEEP, DIGEST, DIGEST-VALUE, ERROR, LOADAOF, LOG, OBJECT, PAUSE-CRON, POPULATE, PROTOCOL, "
        "RELOAD, SET-ACTIVE-EXPIRE, SLEEP, and CHECK of our own. RELOAD goes through log records in memory, so it "
        "loses what those lose (pending entries of deleted entries, seen and active times), and knows no NOSAVE. "
        "OBJECT shows no access times. CHANGE-REPL-ID, DICT-RESIZING, QUICKLIST-PACKED-THRESHOLD and REPLYBUFFER "
        "are accepted and mean nothing here."
    ),
)
def debug(context: Context, argv: list[bytes]) -> Reply:
    """DEBUG subcommand [arg ...]

    Raises GenericError. Source: DEBUG HELP of Redis 8.10.2.
    """
    if not is_allowed(context):
        raise GenericError(NOT_ALLOWED)
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
    """SLEEP seconds: nobody is served meanwhile."""
    match = _LEADING_DECIMAL.match(argv[2])
    time.sleep(max(0.0, min(float(match[1]), SLEEP_S_MAX)) if match else 0.0)
    return OK


def _set_active_expire(context: Context, argv: list[bytes]) -> Reply:
    """SET-ACTIVE-EXPIRE 0|1."""
    context.server.periodic.expires_keys = leading_integer(argv[2]) != 0
    return OK


def _pause_cron(context: Context, argv: list[bytes]) -> Reply:
    """PAUSE-CRON 0|1."""
    context.server.periodic.is_paused = leading_integer(argv[2]) != 0
    return OK


def _aof_flush_sleep(context: Context, argv: list[bytes]) -> Reply:
    """AOF-FLUSH-SLEEP microseconds: 0 for none. Without a log there is nothing to slow down."""
    log = context.server.log
    if log is not None:
        log.flush_delay_us = max(0, leading_integer(argv[2]))
    return OK


# -- the dataset ---------------------------------------------------------------------------------


def _digest(context: Context, argv: list[bytes]) -> Reply:
    """DIGEST."""
    return SimpleString(digest_dataset(context.store).hex().encode())


def _digest_values(context: Context, argv: list[bytes]) -> Reply:
    """DIGEST-VALUE key [key ...]: zeros for a key that does not exist."""
    digests = []
    for key in argv[2:]:
        value = context.db.get(key, context.now_ms)
        digest = EMPTY if value is None else digest_value(EMPTY, context.db, key, value)
        digests.append(SimpleString(digest.hex().encode()))
    return digests


def _object(context: Context, argv: list[bytes]) -> Reply:
    """OBJECT key."""
    value = context.db.get(argv[2], context.now_ms)
    if value is None:
        raise no_such_key()
    if isinstance(value, Stream):
        value.settle_nodes()
        encoding, size = b"stream", sum(node.size for node in value.nodes.nodes)
    else:
        encoding, size = string_encoding(argv[2], value), len(value) + 1
    return SimpleString(
        b"Value at:0x%x refcount:1 encoding:%b serializedlength:%d lru:0 lru_seconds_idle:0"
        % (id(value), encoding, size)
    )


def _check(context: Context, argv: list[bytes]) -> Reply:
    """CHECK key: a stream whose views disagree is our bug: an internal error, with its traceback in the log."""
    stream = context.db.get_stream(argv[2], context.now_ms)
    if stream is None:
        raise no_such_key()
    stream.check()
    return OK


def _populate(context: Context, argv: list[bytes]) -> Reply:
    """POPULATE count [prefix] [size]: keys that exist are left alone. Nothing is logged, as in Redis."""
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
    """RELOAD [MERGE] [NOFLUSH] [NOSAVE]: the dataset is what it was, if the records say all that it holds."""
    options = {word.upper() for word in argv[2:]}
    if options - {b"MERGE", b"NOFLUSH", b"NOSAVE"}:
        raise GenericError(b"DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options.")
    if b"NOSAVE" in options:
        raise GenericError(b"Error trying to load the RDB dump, check server logs.")
    context.server.reload_dataset()
    context.tracking.note_flush()
    return OK


def _load_log(context: Context, argv: list[bytes]) -> Reply:
    """LOADAOF."""
    context.server.reload_log()
    context.tracking.note_flush()
    return OK


# -- replies -------------------------------------------------------------------------------------


def _error(context: Context, argv: list[bytes]) -> Reply:
    """ERROR string: the first word is the error's code. Nobody has failed, so no error is counted."""
    return (b"-%b\r\n" % argv[2].replace(b"\r", b" ").replace(b"\n", b" "),)


def _log(context: Context, argv: list[bytes]) -> Reply:
    """LOG message."""
    logger.warning("DEBUG LOG: %s", argv[2].decode("utf-8", "backslashreplace"))
    return OK


BIG_NUMBER: Final = b"1234567999999999999999999999999999999"
AFTER_ATTRIBUTE: Final = b"Some real reply following the attribute"
ATTRIBUTE: Final = (b"|1\r\n$14\r\nkey-popularity\r\n*2\r\n$7\r\nkey:123\r\n:90\r\n",)
PUSH_AFTER_REPLY: Final = (
    b"$40\r\nSome real reply following the push reply\r\n",
    b">2\r\n$16\r\nserver-cpu-usage\r\n:42\r\n",
)

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
    b"PUSH": PUSH_AFTER_REPLY,
}
RESP2_EXAMPLES: Final[dict[bytes, Reply]] = {
    b"BIGNUM": BIG_NUMBER,
    b"ATTRIB": AFTER_ATTRIBUTE,
    b"PUSH": GenericError(b"RESP2 is not supported by this command"),
}
"""Types that no other command answers with: the only place where a handler looks at the protocol."""


def _protocol(context: Context, argv: list[bytes]) -> Reply:
    """PROTOCOL type."""
    name = argv[2].upper()
    special = RESP3_EXAMPLES if context.client.protocol == 3 else RESP2_EXAMPLES
    if name in special:
        return special[name]
    if name not in EXAMPLES:
        raise GenericError(
            b"Wrong protocol type name. Please use one of the following: "
            b"string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|false"
        )
    return EXAMPLES[name]


# -- what has no meaning here --------------------------------------------------------------------


def _accept(context: Context, argv: list[bytes]) -> Reply:
    """CHANGE-REPL-ID, DICT-RESIZING 0|1: there are no replicas, and Python's dictionaries resize as they like."""
    return OK


def _reply_buffer(context: Context, argv: list[bytes]) -> Reply:
    """REPLYBUFFER PEAK-RESET-TIME NEVER|RESET|ms, REPLYBUFFER RESIZING 0|1: replies are not kept in such buffers."""
    option, value = argv[2].upper(), argv[3].upper()
    if option == b"PEAK-RESET-TIME" and value not in (b"NEVER", b"RESET"):
        integer(argv[3])
    elif option not in (b"PEAK-RESET-TIME", b"RESIZING"):
        raise subcommand_syntax_error(b"DEBUG", argv[1])
    return OK


def _packed_threshold(context: Context, argv: list[bytes]) -> Reply:
    """QUICKLIST-PACKED-THRESHOLD size: there are no lists; the size is checked all the same."""
    size = parse_memory(argv[2])
    if size is None or size > PACKED_THRESHOLD_MAX:
        raise GenericError(b"argument must be a memory value bigger than 1 and smaller than 4gb")
    return OK


def _help(context: Context, argv: list[bytes]) -> Reply:
    """HELP."""
    return [SimpleString(line) for line in HELP_LINES]


ARGUMENTS_COUNT_MAX: Final = 2**31

_SUBCOMMANDS: Final[dict[bytes, tuple[Callable[[Context, list[bytes]], Reply], int, int]]] = {
    b"AOF-FLUSH-SLEEP": (_aof_flush_sleep, 1, 1),
    b"CHANGE-REPL-ID": (_accept, 0, 0),
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
    b"RELOAD": (_reload, 0, ARGUMENTS_COUNT_MAX),
    b"REPLYBUFFER": (_reply_buffer, 2, 2),
    b"SET-ACTIVE-EXPIRE": (_set_active_expire, 1, 1),
    b"SLEEP": (_sleep, 1, 1),
}
"""(handler, fewest arguments, most arguments) by subcommand word. Not rows: Redis shows DEBUG as one command."""
