"""Commands about the connection itself: PING, ECHO, QUIT, RESET, HELLO, AUTH, SELECT, TIME."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ... import REDIS_VERSION
from ...persistence.policy_lines import text_of_ping
from ...protocol.replies import OK, PONG, Reply
from ...store.errors import GenericError, ReplyError, shown, wrong_number_of_arguments
from ..clients.client import ReplyMode
from ..core.numbers import integer_or
from ..core.secrets import words_from
from ..core.table import Argument, Flag, Trait, command
from ..execution.databases import database_at
from ..execution.enforcement import NoAuthentication, authenticate, log_out, must_authenticate
from ..execution.transactions import discard
from ..permissions.users import DEFAULT_NAME
from ..policies.handing import end_guards
from ..policies.lines import apply_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..execution.context import Context

RESET_REPLY: Final = (b"+RESET\r\n",)
REPLY_ON: Final = ReplyMode.ON

VERSION: Final = REDIS_VERSION.encode()
HANDSHAKE: Final = Flag.NOSCRIPT | Flag.LOADING | Flag.STALE | Flag.FAST | Flag.NO_AUTH | Flag.ALLOW_BUSY
CONNECTION: Final = ("connection",)
ANSWERED: Final = (
    "A wrong password is answered at each place of a pipeline. Redis sends no reply if others were made before it in "
    "one read."
)
_PLAIN_BYTES: Final = bytes(range(0x21, 0x7F))


class NoProtocol(ReplyError):
    """HELLO asked for a protocol that does not exist."""

    prefix = b"NOPROTO"

    def __init__(self) -> None:
        super().__init__(b"unsupported protocol version")


HELLO_NEEDS_AUTH: Final = (
    b"HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> "
    b"option can be used to authenticate the client and select the RESP protocol version at the same time"
)


def is_plain_name(name: bytes) -> bool:
    """Whether a client or library name has only printable, non-blank ASCII."""
    return not name.translate(None, _PLAIN_BYTES)


def bad_client_name() -> GenericError:
    """The error of CLIENT SETNAME and HELLO SETNAME."""
    return GenericError(b"Client names cannot contain spaces, newlines or special characters.")


@command(
    "PING",
    arity=-1,
    flags=Flag.FAST,
    categories=CONNECTION,
    group="connection",
    since="1.0.0",
    summary="Checks whether the server replies.",
    complexity="O(1)",
    arguments=(Argument("message", optional=True),),
    tips=("request_policy:all_shards", "response_policy:all_succeeded"),
    traits=Trait.ORDINARY | Trait.WHILE_SUBSCRIBED | Trait.REFUSED_WITH_WRITES,
)
def ping(context: Context, argv: list[bytes]) -> Reply:
    """PING [message]

    Returns PONG, or the message. A RESP2 client with subscriptions gets both, in the form of a pushed message. In the
    stream of a primary, the message may be a policy line.
    """
    if len(argv) > 2:
        raise wrong_number_of_arguments(b"ping")
    if context.replaying and (text := text_of_ping(argv)) is not None:
        apply_text(context, text)
    if context.client.protocol == 2 and context.client.is_subscriber:
        return [b"pong", argv[1] if len(argv) == 2 else b""]
    if len(argv) == 1:
        return PONG
    return argv[1]


@command(
    "ECHO",
    arity=2,
    flags=Flag.LOADING | Flag.STALE | Flag.FAST,
    categories=CONNECTION,
    group="connection",
    since="1.0.0",
    summary="Returns the message it was given.",
    complexity="O(1)",
    arguments=(Argument("message"),),
    traits=Trait.ORDINARY,
)
def echo(context: Context, argv: list[bytes]) -> Reply:
    """ECHO message"""
    return argv[1]


@command(
    "QUIT",
    arity=-1,
    flags=HANDSHAKE,
    categories=CONNECTION,
    group="connection",
    since="1.0.0",
    summary="Closes the connection after the replies before it.",
    complexity="O(1)",
    deprecated=("7.2.0", "just closing the connection"),
    traits=Trait.NOT_QUEUED | Trait.WHILE_SUBSCRIBED,
)
def quit_connection(context: Context, argv: list[bytes]) -> Reply:
    """QUIT

    Further words are ignored. Later requests are not run.
    """
    context.client.close_after_reply = True
    return OK


@command(
    "RESET",
    arity=1,
    flags=HANDSHAKE,
    categories=CONNECTION,
    group="connection",
    since="6.2.0",
    summary="Puts the connection back into the state of a new one.",
    complexity="O(1)",
    traits=Trait.NOT_QUEUED | Trait.WHILE_SUBSCRIBED,
)
def reset(context: Context, argv: list[bytes]) -> Reply:
    """RESET

    Ends MULTI, WATCH, MONITOR, tracking and all subscriptions, selects database 0 and protocol 2, removes the name,
    the fieldsets of HIMPORT and the reply mode, and logs out if a password is required. The ID and the library name
    stay.
    """
    client = context.client
    discard(context.store, client)
    end_guards(context, client)
    context.subscriptions.remove_client(client)
    context.tracking.stop(client)
    context.monitors.remove(client)
    client.db = context.db = context.store.databases[0]
    client.protocol = 2
    log_out(context, client)
    client.name = b""
    client.fieldsets.clear()
    client.reply_mode = REPLY_ON
    client.no_touch = client.no_evict = False
    return RESET_REPLY


def _secrets_of_hello(argv: list[bytes]) -> Iterable[int]:
    """The words after each AUTH among the options, and all from the first word that is no option."""
    index = 2
    while index < len(argv):
        option = argv[index].upper()
        if option == b"AUTH":
            yield from (index + 1, index + 2)
            index += 3
        elif option == b"SETNAME":
            index += 2
        else:
            yield from range(index, len(argv))
            return


@command(
    "HELLO",
    arity=-1,
    flags=HANDSHAKE,
    categories=CONNECTION,
    group="connection",
    since="6.0.0",
    summary="Chooses the protocol and describes the server.",
    complexity="O(1)",
    arguments=(
        Argument(
            "arguments",
            "block",
            optional=True,
            arguments=(
                Argument("protover", "integer"),
                Argument(
                    "auth",
                    "block",
                    token="AUTH",
                    optional=True,
                    arguments=(Argument("username"), Argument("password")),
                ),
                Argument("clientname", token="SETNAME", optional=True),
            ),
        ),
    ),
    history=(("6.2.0", "`protover` became optional; without it the connection is only described."),),
    secrets=_secrets_of_hello,
    differs=ANSWERED,
)
def hello(context: Context, argv: list[bytes]) -> Reply:
    """HELLO [protover [AUTH user password] [SETNAME name]]

    Everything is parsed first. Then the client is logged in, named and switched, in this order. The reply is already in
    the new protocol.

    Raises NoProtocol, WrongPassword, NoAuthentication, and GenericError for a bad option or name.
    """
    client = context.client
    protocol, credentials, name = _parse_hello(argv)
    if credentials is not None:
        authenticate(context, argv, *credentials)
    if must_authenticate(context, client):
        raise NoAuthentication(HELLO_NEEDS_AUTH)
    if name is not None:
        client.name = name
    if protocol is not None:
        client.protocol = protocol
    return {
        b"server": b"redis",
        b"version": VERSION,
        b"proto": client.protocol,
        b"id": client.id,
        b"mode": b"standalone",
        b"role": b"master" if context.server.following.address is None else b"replica",
        b"modules": [],
    }


def _parse_hello(argv: list[bytes]) -> tuple[int | None, tuple[bytes, bytes] | None, bytes | None]:
    """Protocol, (user, password) and client name; each is None if it is not given."""
    if len(argv) == 1:
        return None, None, None
    protocol = integer_or(argv[1], b"Protocol version is not an integer or out of range")
    if protocol not in (2, 3):
        raise NoProtocol
    credentials: tuple[bytes, bytes] | None = None
    name: bytes | None = None
    index = 2
    while index < len(argv):
        option = argv[index].upper()
        if option == b"AUTH" and index + 2 < len(argv):
            credentials = (argv[index + 1], argv[index + 2])
            index += 3
        elif option == b"SETNAME" and index + 1 < len(argv):
            name = argv[index + 1]
            if not is_plain_name(name):
                raise bad_client_name()
            index += 2
        else:
            raise GenericError(b"Syntax error in HELLO option '%b'" % shown(argv[index]))
    return protocol, credentials, name


@command(
    "AUTH",
    arity=-2,
    flags=HANDSHAKE,
    categories=CONNECTION,
    group="connection",
    since="1.0.0",
    summary="Logs in with a password.",
    complexity="O(N) where N is the number of passwords defined for the user",
    arguments=(Argument("username", optional=True, since="6.0.0"), Argument("password")),
    history=(("6.0.0", "Takes a user name."),),
    secrets=words_from(1),
    differs=ANSWERED,
)
def auth(context: Context, argv: list[bytes]) -> Reply:
    """AUTH [user] password

    Raises WrongPassword, and GenericError if one word is given and no password is set.
    """
    if len(argv) > 3:
        raise GenericError(b"syntax error")
    if len(argv) == 2 and context.server.accounts.users.default.nopass:
        raise GenericError(
            b"AUTH <password> called without any password configured for the default user. "
            b"Are you sure your configuration is correct?"
        )
    authenticate(context, argv, DEFAULT_NAME if len(argv) == 2 else argv[1], argv[-1])
    return OK


@command(
    "SELECT",
    arity=2,
    flags=Flag.LOADING | Flag.STALE | Flag.FAST,
    categories=CONNECTION,
    group="connection",
    since="1.0.0",
    summary="Changes the database of the connection.",
    complexity="O(1)",
    arguments=(Argument("index", "integer"),),
    traits=Trait.KEEPS_CHECKS,
)
def select(context: Context, argv: list[bytes]) -> Reply:
    """SELECT index. Returns OK. Raises GenericError. Source: Redis 1.0."""
    context.client.db = context.db = database_at(context, argv[1])
    return OK


@command(
    "TIME",
    arity=1,
    flags=Flag.LOADING | Flag.STALE | Flag.FAST,
    group="server",
    since="2.6.0",
    summary="Returns the server's time.",
    complexity="O(1)",
    tips=("nondeterministic_output",),
    traits=Trait.ORDINARY,
)
def time(context: Context, argv: list[bytes]) -> Reply:
    """TIME

    Returns Unix seconds, and microseconds within that second. A transaction or script has one time.
    """
    if context.may_block or context.time_read_ms != context.now_ms:
        context.time_read_ms, context.time_us = context.now_ms, context.clock_us()
    seconds, microseconds = divmod(context.time_us, 1_000_000)
    return [str(seconds).encode(), str(microseconds).encode()]
