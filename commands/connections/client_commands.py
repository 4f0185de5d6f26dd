"""CLIENT: the properties of a connection, and the waits of others. The list of clients is in client_list.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...protocol.replies import OK, Reply, SimpleString
from ...store.errors import GenericError, shown, syntax_error
from ..clients.client import ReplyMode
from ..core.lookup import subcommand_syntax_error
from ..core.numbers import INT64_MAX, integer, integer_or
from ..core.table import DECLARED, Argument, Flag, Trait, command, container
from .connection import bad_client_name, is_plain_name

if TYPE_CHECKING:
    from ..execution.context import Context

# The reply of a command without a reply.
NOTHING: Final = ()

CONNECTION: Final = ("connection",)
# Flags of commands that concern only the client itself.
OWN: Final = Flag.NOSCRIPT | Flag.LOADING | Flag.STALE
# Flags of commands that concern other connections.
OTHERS: Final = OWN | Flag.ADMIN

ON_OR_OFF: Final = (
    Argument(
        "enabled",
        "oneof",
        arguments=(Argument("on", "pure-token", token="ON"), Argument("off", "pure-token", token="OFF")),
    ),
)

HELP_LINES: Final = (
    b"CLIENT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    b"CACHING (YES|NO)",
    b"    Whether the keys of the next command are tracked, under OPTIN or OPTOUT.",
    b"GETNAME",
    b"    The name of this connection.",
    b"GETREDIR",
    b"    The ID of the connection that hears of tracked keys instead of this one.",
    b"ID",
    b"    The ID of this connection.",
    b"INFO",
    b"    The line of this connection in CLIENT LIST.",
    b"KILL <ip:port>",
    b"    Close the connection from that address.",
    b"KILL <option> <value> [<option> <value> [...]]",
    b"    Close every connection that fits all of: ID, ADDR, LADDR, TYPE, USER, MAXAGE (seconds), SKIPME (yes|no).",
    b"LIST [TYPE <type> | ID <id> [<id> ...]]",
    b"    One line for each connection.",
    b"NO-EVICT (ON|OFF)",
    b"    Whether maxmemory-clients spares this connection.",
    b"NO-TOUCH (ON|OFF)",
    b"    Whether reading a stream counts as using it (OBJECT IDLETIME).",
    b"PAUSE <timeout> [WRITE|ALL]",
    b"    Hold back commands, or only writes, for that many milliseconds.",
    b"REPLY (ON|OFF|SKIP)",
    b"    Whether this connection gets replies.",
    b"SETINFO <LIB-NAME|LIB-VER> <value>",
    b"    Say which library is talking.",
    b"SETNAME <name>",
    b"    Name this connection; empty takes the name away.",
    b"TRACKING (ON|OFF) [REDIRECT <id>] [BCAST] [PREFIX <prefix> [...]] [OPTIN] [OPTOUT] [NOLOOP]",
    b"    Tell this connection when keys change that it has read, or that have a prefix.",
    b"TRACKINGINFO",
    b"    How this connection is tracked.",
    b"UNBLOCK <clientid> [TIMEOUT|ERROR]",
    b"    End the wait of a blocked connection.",
    b"UNPAUSE",
    b"    End CLIENT PAUSE.",
    b"HELP",
    b"    Print this help.",
)

container(
    "CLIENT",
    group="connection",
    since="2.4.0",
    summary="Container of the commands about connections.",
    traits=Trait.KEEPS_CACHING_CHOICE,
)


def choices(
    name: str, *words: str, since: str | None = None, token: str | None = None, optional: bool = False
) -> Argument:
    """One of several fixed words."""
    tokens = tuple(Argument(word.lower(), "pure-token", token=word) for word in words)
    return Argument(name, "oneof", token=token, optional=optional, since=since, arguments=tokens)


@command(
    "CLIENT|HELP",
    arity=2,
    flags=Flag.LOADING | Flag.STALE,
    categories=CONNECTION,
    group="connection",
    since="5.0.0",
    summary="Lists the subcommands.",
    complexity="O(1)",
)
def client_help(context: Context, argv: list[bytes]) -> Reply:
    """CLIENT HELP"""
    return [SimpleString(line) for line in HELP_LINES]


@command(
    "CLIENT|ID",
    arity=2,
    flags=OWN,
    categories=CONNECTION,
    group="connection",
    since="5.0.0",
    summary="Returns the ID of the connection.",
    complexity="O(1)",
)
def client_id(context: Context, argv: list[bytes]) -> Reply:
    """CLIENT ID

    IDs grow and are never used again.
    """
    return context.client.id


@command(
    "CLIENT|GETNAME",
    arity=2,
    flags=OWN,
    categories=CONNECTION,
    group="connection",
    since="2.6.9",
    summary="Returns the name of the connection.",
    complexity="O(1)",
)
def client_getname(context: Context, argv: list[bytes]) -> Reply:
    """CLIENT GETNAME

    Returns null if no name is set.
    """
    return context.client.name or None


@command(
    "CLIENT|SETNAME",
    arity=3,
    flags=OWN,
    categories=CONNECTION,
    group="connection",
    since="2.6.9",
    summary="Names the connection.",
    complexity="O(1)",
    arguments=(Argument("connection-name"),),
    tips=("request_policy:all_nodes", "response_policy:all_succeeded"),
)
def client_setname(context: Context, argv: list[bytes]) -> Reply:
    """CLIENT SETNAME name

    An empty name removes the name. Raises GenericError for blanks or unprintable bytes.
    """
    if not is_plain_name(argv[2]):
        raise bad_client_name()
    context.client.name = argv[2]
    return OK


@command(
    "CLIENT|SETINFO",
    arity=4,
    flags=OWN,
    categories=CONNECTION,
    group="connection",
    since="7.2.0",
    summary="Sets the name or version of the client's library.",
    complexity="O(1)",
    arguments=(
        Argument(
            "attr",
            "oneof",
            arguments=(Argument("libname", token="LIB-NAME"), Argument("libver", token="LIB-VER")),
        ),
    ),
    tips=("request_policy:all_nodes", "response_policy:all_succeeded"),
)
def client_setinfo(context: Context, argv: list[bytes]) -> Reply:
    """CLIENT SETINFO <LIB-NAME name | LIB-VER version>"""
    attribute = argv[2].upper()
    if attribute not in (b"LIB-NAME", b"LIB-VER"):
        raise GenericError(b"Unrecognized option '%b'" % shown(argv[2]))
    if not is_plain_name(argv[3]):
        raise GenericError(b"%b cannot contain spaces, newlines or special characters." % argv[2])
    if attribute == b"LIB-NAME":
        context.client.library_name = argv[3]
    else:
        context.client.library_version = argv[3]
    return OK


@command(
    "CLIENT|UNBLOCK",
    arity=-3,
    flags=OTHERS,
    categories=CONNECTION,
    group="connection",
    since="5.0.0",
    summary="Ends the wait of a blocked connection.",
    complexity="O(log N) where N is the number of client connections",
    arguments=(Argument("client-id", "integer"), choices("unblock-type", "TIMEOUT", "ERROR", optional=True)),
)
def client_unblock(context: Context, argv: list[bytes]) -> Reply:
    """CLIENT UNBLOCK id [TIMEOUT | ERROR]

    The target gets the reply of its timeout, or an UNBLOCKED error. Returns 1, or 0 if it was not blocked.
    """
    if len(argv) > 4:
        raise subcommand_syntax_error(b"CLIENT", argv[1])
    reason = argv[3].upper() if len(argv) == 4 else b"TIMEOUT"
    if reason not in (b"TIMEOUT", b"ERROR"):
        raise GenericError(b"CLIENT UNBLOCK reason should be TIMEOUT or ERROR")
    target = context.server.clients.by_id.get(integer(argv[2]))
    if target is None:
        return 0
    with_error = reason == b"ERROR"
    has_ended = context.server.clients.unblock(target, with_error=with_error)
    if has_ended and with_error:
        # Redis counts a failed call of the command that was running when the error was made, too.
        DECLARED[b"CLIENT"].subcommands[b"UNBLOCK"].failed_calls += 1
    return int(has_ended)


@command(
    "CLIENT|PAUSE",
    arity=-3,
    flags=OTHERS,
    categories=CONNECTION,
    group="connection",
    since="3.0.0",
    summary="Holds back commands for some time.",
    complexity="O(1)",
    arguments=(Argument("timeout", "integer"), choices("mode", "WRITE", "ALL", since="6.2.0", optional=True)),
    history=(("6.2.0", "The mode `WRITE`."),),
)
def client_pause(context: Context, argv: list[bytes]) -> Reply:
    """CLIENT PAUSE timeout [WRITE | ALL]

    Holds back every command, or with WRITE every command that may write, for `timeout` ms. During a pause nothing
    expires. Of two pauses, the later end and the stricter mode apply.
    """
    if len(argv) > 4:
        raise subcommand_syntax_error(b"CLIENT", argv[1])
    mode = argv[3].upper() if len(argv) == 4 else b"ALL"
    if mode not in (b"WRITE", b"ALL"):
        raise GenericError(b"CLIENT PAUSE mode must be WRITE or ALL")
    not_a_timeout = b"timeout is not an integer or out of range"
    pause_ms = integer_or(argv[2], not_a_timeout)
    if pause_ms < 0:
        raise GenericError(b"timeout is negative")
    if pause_ms > INT64_MAX - context.now_ms:
        raise GenericError(not_a_timeout)
    context.server.clients.pause(pause_ms, writes_only=mode == b"WRITE")
    return OK


@command(
    "CLIENT|UNPAUSE",
    arity=2,
    flags=OTHERS,
    categories=CONNECTION,
    group="connection",
    since="6.2.0",
    summary="Ends CLIENT PAUSE.",
    complexity="O(N) Where N is the number of paused clients",
)
def client_unpause(context: Context, argv: list[bytes]) -> Reply:
    """CLIENT UNPAUSE"""
    context.server.clients.unpause()
    return OK


@command(
    "CLIENT|REPLY",
    arity=3,
    flags=OWN,
    categories=CONNECTION,
    group="connection",
    since="3.2.0",
    summary="Turns the replies of the connection on or off.",
    complexity="O(1)",
    arguments=(choices("action", "ON", "OFF", "SKIP"),),
)
def client_reply(context: Context, argv: list[bytes]) -> Reply:
    """CLIENT REPLY <ON | OFF | SKIP>

    OFF has no reply, and neither have later commands. SKIP has no reply, and neither has the next command.
    """
    client = context.client
    mode = argv[2].upper()
    if mode == b"ON":
        client.reply_mode = ReplyMode.ON
        return OK
    if mode == b"OFF":
        client.reply_mode = ReplyMode.OFF
    elif mode == b"SKIP":
        if client.reply_mode is not ReplyMode.OFF:
            client.reply_mode = ReplyMode.SKIP_NEXT
    else:
        raise syntax_error()
    return NOTHING


@command(
    "CLIENT|NO-EVICT",
    arity=3,
    flags=OTHERS,
    categories=CONNECTION,
    group="connection",
    since="7.0.0",
    summary="Protects the connection from eviction.",
    complexity="O(1)",
    arguments=ON_OR_OFF,
)
def client_no_evict(context: Context, argv: list[bytes]) -> Reply:
    """CLIENT NO-EVICT <ON | OFF>

    ON protects the connection from being closed for `maxmemory-clients`.
    """
    context.client.no_evict = _is_on(argv[2])
    return OK


@command(
    "CLIENT|NO-TOUCH",
    arity=3,
    flags=OWN,
    categories=CONNECTION,
    group="connection",
    since="7.2.0",
    summary="Keeps reads from marking keys as used.",
    complexity="O(1)",
    arguments=ON_OR_OFF,
)
def client_no_touch(context: Context, argv: list[bytes]) -> Reply:
    """CLIENT NO-TOUCH <ON | OFF>"""
    context.client.no_touch = _is_on(argv[2])
    return OK


def _is_on(word: bytes) -> bool:
    if word.upper() not in (b"ON", b"OFF"):
        raise syntax_error()
    return word.upper() == b"ON"
