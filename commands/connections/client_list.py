"""CLIENT LIST, INFO and KILL: lists connected clients, and closes connections."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from ...protocol.replies import OK, Reply, Verbatim
from ...store.errors import GenericError, shown, syntax_error
from ..clients.client_line import describe
from ..core.numbers import INT64_MAX, integer_between, integer_or
from ..core.table import Argument, Trait, command
from .client_commands import CONNECTION, OTHERS, OWN, choices

if TYPE_CHECKING:
    from ..clients.client import Client
    from ..execution.context import Context

CLIENT_TYPES: Final = {
    b"NORMAL": "normal",
    b"MASTER": "master",
    b"REPLICA": "replica",
    b"SLAVE": "replica",
    b"PUBSUB": "pubsub",
}


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
    traits=Trait.KEEPS_CHECKS,
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
        choices("client-type", "NORMAL", "MASTER", "REPLICA", "PUBSUB", token="TYPE", since="5.0.0", optional=True),
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
    traits=Trait.KEEPS_CHECKS,
)
def client_list(context: Context, argv: list[bytes]) -> Reply:
    """CLIENT LIST [TYPE <NORMAL | MASTER | REPLICA | PUBSUB>] [ID id [id ...]]

    One line for each client, oldest first. TYPE and ID exclude each other. Unknown IDs are left out.
    """
    known = context.server.clients
    option = argv[2].upper() if len(argv) > 2 else b""
    if not option:
        clients = known.in_order()
    elif option == b"TYPE" and len(argv) == 4:
        wanted = _client_type(argv[3])
        clients = [each for each in known.in_order() if _type_of(each) == wanted]
    elif option == b"ID" and len(argv) > 3:
        found = [known.find(integer_or(word, b"Invalid client ID")) for word in argv[3:]]
        clients = [each for each in found if each is not None]
    else:
        raise syntax_error()
    lines: dict[int, bytes] = {}
    for each in clients:
        if each.id not in lines:
            lines[each.id] = describe(each, context.now_ms, argv if each is context.client else ()) + b"\n"
    return Verbatim(b"".join([lines[each.id] for each in clients]))


def _client_type(word: bytes) -> str:
    found = CLIENT_TYPES.get(word.upper())
    if found is None:
        raise GenericError(b"Unknown client type '%b'" % shown(word))
    return found


def _type_of(client: Client) -> str:
    """One of CLIENT_TYPES."""
    if client.is_replica:
        return "replica"
    if client.is_primary:
        return "master"
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
                        choices("skipme", "YES", "NO", token="SKIPME", optional=True),
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

    Options are ID, ADDR, LADDR, TYPE, USER, MAXAGE (seconds) and SKIPME (yes unless given). A client must match all of
    them.

    Returns OK if an address was given, else the number of connections closed. A client that kills itself gets its reply
    first.
    """
    clients = context.server.clients
    if len(argv) == 3:
        for client in clients.in_order():
            if client.address == argv[2]:
                clients.kill(client)
                return OK
        raise GenericError(b"No such client")
    chosen = _clients_to_kill(context, argv[2:])
    for client in chosen:
        clients.kill(client)
    return len(chosen)


def _clients_to_kill(context: Context, words: list[bytes]) -> list[Client]:
    """The clients that match all options; a repeated option replaces the earlier one. Raises GenericError."""
    if len(words) % 2:
        raise syntax_error()
    spared: Client | None = context.client
    wanted_id: int | None = None
    tests: dict[bytes, Callable[[Client], bool]] = {}
    for index in range(0, len(words), 2):
        option, value = words[index].upper(), words[index + 1]
        if option == b"ID":
            wanted_id = integer_between(value, 1, INT64_MAX, b"client-id should be greater than 0")
        elif option == b"SKIPME":
            choice = value.upper()
            if choice not in (b"YES", b"NO"):
                raise syntax_error()
            spared = context.client if choice == b"YES" else None
        else:
            tests[option] = _kill_filter(context, option, value)
    known = context.server.clients
    clients: Sequence[Client | None] = known.in_order() if wanted_id is None else [known.find(wanted_id)]
    return [
        client
        for client in clients
        if client is not None and client is not spared and all(test(client) for test in tests.values())
    ]


def _kill_filter(context: Context, option: bytes, value: bytes) -> Callable[[Client], bool]:
    if option == b"ADDR":
        return lambda client: client.address == value
    if option == b"LADDR":
        return lambda client: client.local_address == value
    if option == b"TYPE":
        wanted_type = _client_type(value)
        return lambda client: _type_of(client) == wanted_type
    if option == b"USER":
        user = context.server.accounts.users.by_name.get(value)
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
