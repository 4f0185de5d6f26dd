"""CLIENT TRACKING and related commands: which keys a client gets invalidations of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...protocol.replies import OK, Reply, SetReply
from ...store.errors import GenericError, shown, syntax_error
from ..clients.tracking_mode import TrackingMode
from ..core.numbers import integer
from ..core.table import Argument, Trait, command
from .client_commands import CONNECTION, OWN

if TYPE_CHECKING:
    from ..execution.context import Context

SWITCH_FIRST: Final = (
    b"You can't switch %b mode%b before disabling tracking for this client, and then re-enabling it with a different "
    b"mode."
)


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
)
def client_tracking(context: Context, argv: list[bytes]) -> Reply:
    """CLIENT TRACKING <ON | OFF> [REDIRECT client-id] [PREFIX prefix [PREFIX prefix ...]] [BCAST] [OPTIN] [OPTOUT]
    [NOLOOP]

    ON sends `invalidate` once for each key that was read and has changed since. With BCAST, it is sent for every change
    of a key with one of the prefixes (without prefixes: of every key). With OPTIN and OPTOUT, CLIENT CACHING chooses
    the keys that are remembered. NOLOOP omits the client's own changes. REDIRECT sends to another client. Raises
    GenericError.
    """
    client, word = context.client, argv[2].upper()
    if word == b"OFF" and len(argv) == 3:
        context.tracking.stop(client)
        return OK
    mode, prefixes = _parse_mode(context, argv)
    if word == b"ON":
        _require_compatible(mode, prefixes, client.tracking)
        mode.prefixes = dict.fromkeys(prefixes or ([b""] if mode.is_broadcast else []))
        context.tracking.start(client, mode)
    elif word == b"OFF":
        context.tracking.stop(client)
    else:
        raise syntax_error()
    return OK


def _parse_mode(context: Context, argv: list[bytes]) -> tuple[TrackingMode, list[bytes]]:
    """Parse everything after ON or OFF. Returns the prefixes as they were given."""
    mode = TrackingMode()
    prefixes: list[bytes] = []
    index = 3
    while index < len(argv):
        option, has_value = argv[index].upper(), index + 1 < len(argv)
        if option == b"REDIRECT" and has_value:
            index += 1
            if mode.redirect_id:
                raise GenericError(b"A client can only redirect to a single other client")
            mode.redirect_id = integer(argv[index])
            if context.server.courier.find(mode.redirect_id) is None:
                raise GenericError(b"The client ID you want redirect to does not exist")
        elif option == b"PREFIX" and has_value:
            index += 1
            prefixes.append(argv[index])
        elif option == b"BCAST":
            mode.is_broadcast = True
        elif option == b"OPTIN":
            mode.opt_in = True
        elif option == b"OPTOUT":
            mode.opt_out = True
        elif option == b"NOLOOP":
            mode.no_loop = True
        else:
            raise syntax_error()
        index += 1
    return mode, prefixes


def _require_compatible(mode: TrackingMode, prefixes: list[bytes], present: TrackingMode | None) -> None:
    """Check the options against each other, and against the present mode. Raises GenericError."""
    if prefixes and not mode.is_broadcast:
        raise GenericError(b"PREFIX option requires BCAST mode to be enabled")
    if present is not None and present.is_broadcast != mode.is_broadcast:
        raise GenericError(SWITCH_FIRST % (b"BCAST", b" on/off"))
    if mode.is_broadcast and (mode.opt_in or mode.opt_out):
        raise GenericError(b"OPTIN and OPTOUT are not compatible with BCAST")
    if mode.opt_in and mode.opt_out:
        raise GenericError(b"You can't specify both OPTIN mode and OPTOUT mode")
    if present is not None and ((mode.opt_in and present.opt_out) or (mode.opt_out and present.opt_in)):
        raise GenericError(SWITCH_FIRST % (b"OPTIN/OPTOUT", b""))
    require_apart(prefixes, sorted(present.prefixes) if present is not None else [])


def require_apart(given: list[bytes], present: list[bytes]) -> None:
    """Check that no prefix of a client begins with another one, since a key would be sent twice. Raises GenericError.

    As in Redis, the error names the first given prefix that overlaps with another one, and the first of those.
    """
    index = _first_overlapping(given, present)
    if index is None:
        return
    prefix = given[index]
    for others, which in ((present, b"an existing"), (given[index + 1 :], b"another provided")):
        for other in others:
            if prefix.startswith(other) or other.startswith(prefix):
                raise GenericError(
                    b"Prefix '%b' overlaps with %b prefix '%b'. Prefixes for a single client must not overlap."
                    % (shown(prefix), which, shown(other))
                )


def _first_overlapping(given: list[bytes], present: list[bytes]) -> int | None:
    """Index of the first given prefix that overlaps with any other; None if there is none.

    In order, all prefixes that begin with a prefix follow it. So each is only compared with the last one that began
    with no other.
    """
    in_order = sorted([*((prefix, index) for index, prefix in enumerate(given)), *((each, -1) for each in present)])
    overlapping: set[int] = set()
    shortest, shortest_index = None, -1
    for prefix, index in in_order:
        if shortest is not None and prefix.startswith(shortest):
            overlapping |= {index, shortest_index}
        else:
            shortest, shortest_index = prefix, index
    return min(overlapping - {-1}, default=None)


@command(
    "CLIENT|CACHING",
    arity=3,
    flags=OWN,
    categories=CONNECTION,
    group="connection",
    since="6.0.0",
    summary="Chooses whether keys of the next command are tracked.",
    complexity="O(1)",
    arguments=(Argument("mode", "oneof", arguments=(_token("YES"), _token("NO"))),),
)
def client_caching(context: Context, argv: list[bytes]) -> Reply:
    """CLIENT CACHING <YES | NO>

    Applies to the next command, or the next transaction. Raises GenericError outside of OPTIN (YES) and OPTOUT (NO).
    """
    mode, word = context.client.tracking, argv[2].upper()
    if mode is None:
        raise GenericError(
            b"CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled"
        )
    if word == b"YES" and not mode.opt_in:
        raise GenericError(b"CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.")
    if word == b"NO" and not mode.opt_out:
        raise GenericError(b"CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.")
    if word not in (b"YES", b"NO"):
        raise syntax_error()
    mode.has_caching_choice = True
    return OK


@command(
    "CLIENT|GETREDIR",
    arity=2,
    flags=OWN,
    categories=CONNECTION,
    group="connection",
    since="6.0.0",
    summary="Returns where invalidation messages are sent.",
    complexity="O(1)",
    traits=Trait.ORDINARY,
)
def client_getredir(context: Context, argv: list[bytes]) -> Reply:
    """CLIENT GETREDIR

    Returns a client ID, 0 without redirection, -1 without tracking.
    """
    mode = context.client.tracking
    return -1 if mode is None else mode.redirect_id


@command(
    "CLIENT|TRACKINGINFO",
    arity=2,
    flags=OWN,
    categories=CONNECTION,
    group="connection",
    since="6.2.0",
    summary="Describes the tracking of the connection.",
    complexity="O(1)",
    traits=Trait.ORDINARY,
)
def client_trackinginfo(context: Context, argv: list[bytes]) -> Reply:
    """CLIENT TRACKINGINFO"""
    mode, is_broken = context.client.tracking, context.client.is_redirect_broken
    if mode is None:
        off = [b"off", b"broken_redirect"] if is_broken else [b"off"]
        return {b"flags": SetReply(off), b"redirect": -1, b"prefixes": []}
    flags = {
        b"on": True,
        b"bcast": mode.is_broadcast,
        b"optin": mode.opt_in,
        b"caching-yes": mode.opt_in and mode.has_caching_choice,
        b"optout": mode.opt_out,
        b"caching-no": mode.opt_out and mode.has_caching_choice,
        b"noloop": mode.no_loop,
        b"broken_redirect": is_broken,
    }
    flags_set = SetReply([name for name, is_set in flags.items() if is_set])
    return {b"flags": flags_set, b"redirect": mode.redirect_id, b"prefixes": sorted(mode.prefixes)}
