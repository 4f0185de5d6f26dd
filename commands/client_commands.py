"""CLIENT: who is connected, and what may be done to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from ..protocol.replies import OK, Reply, SimpleString, Verbatim
from ..store.errors import GenericError, shown, syntax_error
from .client_line import describe
from .connection import bad_client_name, is_plain_name
from .lookup import subcommand_syntax_error
from .numbers import INT64_MAX, integer, integer_between, integer_or
from .table import Argument, Flag, command, container

if TYPE_CHECKING:
    from .client import Client
    from .context import Context

NOTHING: Final = ()
"""The reply of a command that answers nothing at all."""

CONNECTION: Final = ("connection",)
OWN: Final = Flag.NOSCRIPT | Flag.LOADING | Flag.STALE
"""Flags of what a client does to itself."""
OTHERS: Final = OWN | Flag.ADMIN
"""Flags of what reaches beyond the own connection."""

CLIENT_TYPES: Final = {
    b"NORMAL": "normal",
    b"MASTER": "master",
    b"REPLICA": "replica",
    b"SLAVE": "replica",
    b"PUBSUB": "pubsub",
}

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

container("CLIENT", group="connection", since="2.4.0", summary="Container of the commands about connections.")


def _choices(
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

    Returns null where no name is set.
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

    An empty name takes the name away. Raises GenericError for blanks or unprintable bytes.
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
    summary="Says which library the client uses.",
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
    """CLIENT SETINFO <LIB-NAME | LIB-VER> value"""
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
    "CLIENT|INFO",
    arity=2,
    flags=OWN,
    categories=CONNECTION,
    group="connection",
    since="6.2.0",
    summary="Describes the connection.",
    complexity="O(1)",
    tips=("nondeterministic_output",),
)
def client_info(context: Context, argv: list[bytes]) -> Reply:
    """CLIENT INFO"""
    return Verbatim(describe(context.client, context.now_ms, argv) + b"\n")


@command(
    "CLIENT|LIST",
    arity=-2,
    flags=OTHERS,
    categories=CONNECTION,
    group="connection",
    since="2.4.0",
    summary="Describes all connections.",
    complexity="O(N) where N is the number of client connections",
    arguments=(
        _choices("client-type", "NORMAL", "MASTER", "REPLICA", "PUBSUB", token="TYPE", since="5.0.0", optional=True),
        Argument("client-id", "integer", token="ID", since="6.2.0", optional=True, multiple=True),
    ),
    history=(
        ("2.8.12", "The field `id`."),
        ("5.0.0", "The filter `TYPE`."),
        ("6.0.0", "The field `user`."),
        ("6.2.0", "The fields `argv-mem`, `tot-mem`, `laddr` and `redir`, and the filter `ID`."),
        ("7.0.0", "The fields `resp`, `multi-mem`, `rbs` and `rbp`."),
        ("7.0.3", "The field `ssub`."),
        ("7.2.0", "The fields `lib-name` and `lib-ver`."),
        ("7.4.0", "The field `watch`."),
        ("8.0.0", "The field `io-thread`."),
    ),
    tips=("nondeterministic_output",),
)
def client_list(context: Context, argv: list[bytes]) -> Reply:
    """CLIENT LIST [TYPE <NORMAL | MASTER | REPLICA | PUBSUB> | ID id [id ...]]

    One line for each client, oldest first. Unknown IDs are left out.
    """
    clients: Iterable[Client] = context.server.clients.values()
    option = argv[2].upper() if len(argv) > 2 else b""
    if option == b"TYPE" and len(argv) == 4:
        wanted = _client_type(argv[3])
        clients = [each for each in clients if _type_of(each) == wanted]
    elif option == b"ID" and len(argv) > 3:
        known = context.server.clients
        ids = [integer_or(word, b"Invalid client ID") for word in argv[3:]]
        clients = [known[each] for each in ids if each in known]
    elif option:
        raise syntax_error()
    lines = [describe(each, context.now_ms, argv if each is context.client else ()) for each in clients]
    return Verbatim(b"".join(line + b"\n" for line in lines))


def _client_type(word: bytes) -> str:
    found = CLIENT_TYPES.get(word.upper())
    if found is None:
        raise GenericError(b"Unknown client type '%b'" % shown(word))
    return found


def _type_of(client: Client) -> str:
    """One of CLIENT_TYPES; without replication only these two occur."""
    return "pubsub" if client.is_subscriber else "normal"


@command(
    "CLIENT|KILL",
    arity=-3,
    flags=OTHERS,
    categories=CONNECTION,
    group="connection",
    since="2.4.0",
    summary="Closes connections.",
    complexity="O(N) where N is the number of client connections",
    arguments=(
        Argument(
            "filter",
            "oneof",
            arguments=(
                Argument("old-format", display="ip:port", deprecated_since="2.8.12"),
                Argument(
                    "new-format",
                    "oneof",
                    multiple=True,
                    arguments=(
                        Argument("client-id", "integer", token="ID", optional=True, since="2.8.12"),
                        Argument(
                            "client-type",
                            "oneof",
                            token="TYPE",
                            since="2.8.12",
                            optional=True,
                            arguments=(
                                Argument("normal", "pure-token", token="NORMAL"),
                                Argument("master", "pure-token", token="MASTER", since="3.2.0"),
                                Argument("slave", "pure-token", token="SLAVE"),
                                Argument("replica", "pure-token", token="REPLICA", since="5.0.0"),
                                Argument("pubsub", "pure-token", token="PUBSUB"),
                            ),
                        ),
                        Argument("username", token="USER", optional=True),
                        Argument("addr", token="ADDR", optional=True, display="ip:port"),
                        Argument("laddr", token="LADDR", optional=True, since="6.2.0", display="ip:port"),
                        _choices("skipme", "YES", "NO", token="SKIPME", optional=True),
                        Argument("maxage", "integer", token="MAXAGE", optional=True, since="7.4.0"),
                    ),
                ),
            ),
        ),
    ),
    history=(
        ("2.8.12", "Filters by option."),
        ("2.8.12", "The option `ID`."),
        ("3.2.0", "The type `master`."),
        ("5.0.0", "The type `replica`; `slave` still means the same."),
        ("6.2.0", "The option `LADDR`."),
        ("7.4.0", "The option `MAXAGE`."),
    ),
)
def client_kill(context: Context, argv: list[bytes]) -> Reply:
    """CLIENT KILL address | <option value> [option value ...]

    Options are ID, ADDR, LADDR, TYPE, USER, MAXAGE (seconds) and SKIPME (yes unless given); a client must fit all.

    Returns OK in the form with an address, else the number of connections closed; one's own closes after the reply.
    """
    clients = list(context.server.clients.values())
    if len(argv) == 3:
        found = next((client for client in clients if client.address == argv[2]), None)
        if found is None:
            raise GenericError(b"No such client")
        context.server.kill_client(found)
        return OK
    tests = _kill_filters(context, argv[2:])
    chosen = [client for client in clients if all(test(client) for test in tests)]
    for client in chosen:
        context.server.kill_client(client)
    return len(chosen)


def _kill_filters(context: Context, words: list[bytes]) -> list[Callable[[Client], bool]]:
    """What a client must fit; a repeated option replaces the earlier one."""
    if len(words) % 2:
        raise syntax_error()
    tests: dict[bytes, Callable[[Client], bool]] = {b"SKIPME": lambda client: client is not context.client}
    for word, value in zip(words[::2], words[1::2], strict=True):
        option = word.upper()
        if option == b"SKIPME":
            if value.upper() not in (b"YES", b"NO"):
                raise syntax_error()
            tests.pop(option, None)
            if value.upper() == b"YES":
                tests[option] = lambda client: client is not context.client
        else:
            tests[option] = _kill_filter(context, option, value)
    return list(tests.values())


def _kill_filter(context: Context, option: bytes, value: bytes) -> Callable[[Client], bool]:
    if option == b"ID":
        wanted_id = integer_between(value, 1, INT64_MAX, b"client-id should be greater than 0")
        return lambda client: client.id == wanted_id
    if option == b"ADDR":
        return lambda client: client.address == value
    if option == b"LADDR":
        return lambda client: client.local_address == value
    if option == b"TYPE":
        wanted_type = _client_type(value)
        return lambda client: _type_of(client) == wanted_type
    if option == b"USER":
        user = context.server.users.by_name.get(value)
        if user is None:
            raise GenericError(b"No such user '%b'" % shown(value))
        return lambda client: client.user is user
    if option == b"MAXAGE":
        age_s = integer_or(value, b"maxage is not an integer or out of range")
        if age_s < 1:
            raise GenericError(b"maxage should be greater than 0")
        now_ms = context.now_ms
        return lambda client: (now_ms - client.created_ms) // 1000 >= age_s
    raise syntax_error()


@command(
    "CLIENT|UNBLOCK",
    arity=-3,
    flags=OTHERS,
    categories=CONNECTION,
    group="connection",
    since="5.0.0",
    summary="Ends the wait of a blocked connection.",
    complexity="O(log N) where N is the number of client connections",
    arguments=(Argument("client-id", "integer"), _choices("unblock-type", "TIMEOUT", "ERROR", optional=True)),
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
    target = context.server.clients.get(integer(argv[2]))
    if target is None:
        return 0
    return int(context.server.unblock_client(target, with_error=reason == b"ERROR"))


@command(
    "CLIENT|PAUSE",
    arity=-3,
    flags=OTHERS,
    categories=CONNECTION,
    group="connection",
    since="3.0.0",
    summary="Holds commands back for a while.",
    complexity="O(1)",
    arguments=(Argument("timeout", "integer"), _choices("mode", "WRITE", "ALL", since="6.2.0", optional=True)),
    history=(("6.2.0", "The mode `WRITE`."),),
)
def client_pause(context: Context, argv: list[bytes]) -> Reply:
    """CLIENT PAUSE timeout [WRITE | ALL]

    For `timeout` ms every command, or with WRITE every command that may write, waits. Nothing expires meanwhile.
    Of two pauses the later end and the stricter mode hold.
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
    end_ms = context.now_ms + pause_ms
    if end_ms > INT64_MAX:
        raise GenericError(not_a_timeout)
    context.server.pause_clients(end_ms, writes_only=mode == b"WRITE")
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
    context.server.unpause_clients()
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
    arguments=(_choices("action", "ON", "OFF", "SKIP"),),
)
def client_reply(context: Context, argv: list[bytes]) -> Reply:
    """CLIENT REPLY <ON | OFF | SKIP>

    OFF answers nothing, itself included; SKIP silences itself and the next command.
    """
    client = context.client
    mode = argv[2].upper()
    if mode == b"ON":
        client.reply_mode = "on"
        return OK
    if mode == b"OFF":
        client.reply_mode = "off"
    elif mode == b"SKIP":
        if client.reply_mode != "off":
            client.reply_mode = "skip_next"
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

    ON keeps the connection from being closed for `maxmemory-clients`.
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
