"""CLIENT: the properties of a connection, and the waits of others. The list of clients is in client_list.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...protocol.replies import OK, Reply, status_lines
from ...store.errors import GenericError, shown, syntax_error
from ..clients.client import ReplyMode
from ..core.lookup import subcommand_syntax_error
from ..core.numbers import integer, timeout
from ..core.table import DECLARED, Argument, Flag, Trait, command, container
from .connection import bad_client_name, is_plain_name

if TYPE_CHECKING:
    from ..execution.context import Context

# The reply of a command without a reply.
NOTHING: Final = ()

# To look a member up in its enumeration takes longer than the rest of the command.
REPLY_ON: Final = ReplyMode.ON
REPLY_OFF: Final = ReplyMode.OFF
SKIP_NEXT: Final = ReplyMode.SKIP_NEXT

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

HELP: Final = status_lines(
    (
        b"CLIENT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        b"CACHING (YES|NO)",
        b"    Enable/disable tracking of the keys for next command in OPTIN/OPTOUT modes.",
        b"GETREDIR",
        b"    Return the client ID we are redirecting to when tracking is enabled.",
        b"GETNAME",
        b"    Return the name of the current connection.",
        b"ID",
        b"    Return the ID of the current connection.",
        b"INFO",
        b"    Return information about the current client connection.",
        b"KILL <ip:port>",
        b"    Kill connection made from <ip:port>.",
        b"KILL <option> <value> [<option> <value> [...]]",
        b"    Kill connections. Options are:",
        b"    * ADDR (<ip:port>|<unixsocket>:0)",
        b"      Kill connections made from the specified address",
        b"    * LADDR (<ip:port>|<unixsocket>:0)",
        b"      Kill connections made to specified local address",
        b"    * TYPE (NORMAL|MASTER|REPLICA|PUBSUB)",
        b"      Kill connections by type.",
        b"    * USER <username>",
        b"      Kill connections authenticated by <username>.",
        b"    * SKIPME (YES|NO)",
        b"      Skip killing current connection (default: yes).",
        b"    * ID <client-id>",
        b"      Kill connections by client id.",
        b"    * MAXAGE <maxage>",
        b"      Kill connections older than the specified age.",
        b"LIST [options ...]",
        b"    Return information about client connections. Options:",
        b"    * TYPE (NORMAL|MASTER|REPLICA|PUBSUB)",
        b"      Return clients of specified type.",
        b"UNPAUSE",
        b"    Stop the current client pause, resuming traffic.",
        b"PAUSE <timeout> [WRITE|ALL]",
        b"    Suspend all, or just write, clients for <timeout> milliseconds.",
        b"REPLY (ON|OFF|SKIP)",
        b"    Control the replies sent to the current connection.",
        b"SETNAME <name>",
        b"    Assign the name <name> to the current connection.",
        b"SETINFO <option> <value>",
        b"    Set client meta attr. Options are:",
        b"    * LIB-NAME: the client lib name.",
        b"    * LIB-VER: the client lib version.",
        b"UNBLOCK <clientid> [TIMEOUT|ERROR]",
        b"    Unblock the specified blocked client.",
        b"TRACKING (ON|OFF) [REDIRECT <id>] [BCAST] [PREFIX <prefix> [...]]",
        b"         [OPTIN] [OPTOUT] [NOLOOP]",
        b"    Control server assisted client side caching.",
        b"TRACKINGINFO",
        b"    Report tracking status for the current connection.",
        b"NO-EVICT (ON|OFF)",
        b"    Protect current client connection from eviction.",
        b"NO-TOUCH (ON|OFF)",
        b"    Will not touch LRU/LFU stats when this mode is on.",
        b"HELP",
        b"    Print this help.",
    )
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
    traits=Trait.ORDINARY,
)
def client_help(context: Context, argv: list[bytes]) -> Reply:
    """CLIENT HELP"""
    return HELP


@command(
    "CLIENT|ID",
    arity=2,
    flags=OWN,
    categories=CONNECTION,
    group="connection",
    since="5.0.0",
    summary="Returns the ID of the connection.",
    complexity="O(1)",
    traits=Trait.ORDINARY,
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
    traits=Trait.ORDINARY,
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
    traits=Trait.ORDINARY,
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
    traits=Trait.ORDINARY,
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
    clients = context.server.clients
    target = clients.find(integer(argv[2]))
    if target is None:
        return 0
    with_error = reason == b"ERROR"
    has_ended = clients.unblock(target, with_error=with_error)
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

    Holds back every command, or with WRITE every command that may write, for `timeout` ms. Keys that expire
    meanwhile are not shown, and removed after the pause. Of two pauses, the later end and the stricter mode apply.
    """
    if len(argv) > 4:
        raise subcommand_syntax_error(b"CLIENT", argv[1])
    mode = argv[3].upper() if len(argv) == 4 else b"ALL"
    if mode not in (b"WRITE", b"ALL"):
        raise GenericError(b"CLIENT PAUSE mode must be WRITE or ALL")
    pause_ms = timeout(argv[2], context.now_ms)
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
        client.reply_mode = REPLY_ON
        return OK
    if mode == b"OFF":
        client.reply_mode = REPLY_OFF
    elif mode == b"SKIP":
        if client.reply_mode is not REPLY_OFF:
            client.reply_mode = SKIP_NEXT
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
    traits=Trait.ORDINARY,
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
    upper = word.upper()
    if upper == b"ON":
        return True
    if upper != b"OFF":
        raise syntax_error()
    return False
