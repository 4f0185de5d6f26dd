"""CLIENT TRACKING and its kin, for clients that ask about them: Headrace sends no invalidation messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..protocol.replies import OK, Reply, SetReply
from ..store.errors import GenericError, syntax_error
from .client_commands import CONNECTION, OWN
from .table import Argument, command

if TYPE_CHECKING:
    from .context import Context

NOT_SUPPORTED: Final = b"client side caching is not supported by this server"


def _token(word: str) -> Argument:
    return Argument(word.lower(), "pure-token", token=word)


def _flag(word: str) -> Argument:
    return Argument(word.lower(), "pure-token", token=word, optional=True)


@command(
    "CLIENT|TRACKING",
    arity=-3,
    flags=OWN,
    categories=CONNECTION,
    group="connection",
    since="6.0.0",
    summary="Turns invalidation messages for cached keys on or off.",
    complexity="O(1). Some options may introduce additional complexity.",
    arguments=(
        Argument("status", "oneof", arguments=(_token("ON"), _token("OFF"))),
        Argument("client-id", "integer", token="REDIRECT", optional=True),
        Argument("prefix", token="PREFIX", optional=True, multiple=True, multiple_token=True),
        _flag("BCAST"),
        _flag("OPTIN"),
        _flag("OPTOUT"),
        _flag("NOLOOP"),
    ),
    differs="There is no client side caching: ON is refused, OFF is what it is.",
)
def client_tracking(context: Context, argv: list[bytes]) -> Reply:
    """CLIENT TRACKING <ON | OFF>

    Raises GenericError for ON.
    """
    word = argv[2].upper()
    if word == b"ON":
        raise GenericError(NOT_SUPPORTED)
    if word != b"OFF":
        raise syntax_error()
    return OK


@command(
    "CLIENT|CACHING",
    arity=3,
    flags=OWN,
    categories=CONNECTION,
    group="connection",
    since="6.0.0",
    summary="Says whether keys of the next command are tracked.",
    complexity="O(1)",
    arguments=(Argument("mode", "oneof", arguments=(_token("YES"), _token("NO"))),),
    differs="Always refused, as nothing is ever tracked.",
)
def client_caching(context: Context, argv: list[bytes]) -> Reply:
    """CLIENT CACHING <YES | NO>"""
    raise GenericError(
        b"CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled"
    )


@command(
    "CLIENT|GETREDIR",
    arity=2,
    flags=OWN,
    categories=CONNECTION,
    group="connection",
    since="6.0.0",
    summary="Returns where invalidation messages are sent.",
    complexity="O(1)",
)
def client_getredir(context: Context, argv: list[bytes]) -> Reply:
    """CLIENT GETREDIR

    Returns -1: nothing is tracked.
    """
    return -1


@command(
    "CLIENT|TRACKINGINFO",
    arity=2,
    flags=OWN,
    categories=CONNECTION,
    group="connection",
    since="6.2.0",
    summary="Describes the tracking of the connection.",
    complexity="O(1)",
)
def client_trackinginfo(context: Context, argv: list[bytes]) -> Reply:
    """CLIENT TRACKINGINFO"""
    return {b"flags": SetReply([b"off"]), b"redirect": -1, b"prefixes": []}
