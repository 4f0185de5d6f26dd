"""ROLE and REPLICAOF: which server this one follows, and which follow it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from ...protocol.replies import OK, Reply, SimpleString
from ...store.errors import GenericError
from ..clients.client_line import describe
from ..core.numbers import integer_between
from ..core.table import Argument, Flag, Trait, command

if TYPE_CHECKING:
    from ..execution.context import Context

logger = logging.getLogger(__name__)

PORT_MAX: Final = 65535

REPLICAOF_FLAGS: Final = Flag.ADMIN | Flag.NOSCRIPT | Flag.STALE | Flag.NO_ASYNC_LOADING
REPLICAOF_ARGUMENTS: Final = (
    Argument(
        "args",
        "oneof",
        arguments=(
            Argument("host-port", "block", arguments=(Argument("host"), Argument("port", "integer"))),
            Argument(
                "no-one",
                "block",
                arguments=(Argument("no", "pure-token", token="NO"), Argument("one", "pure-token", token="ONE")),
            ),
        ),
    ),
)
ALREADY: Final = SimpleString(b"OK Already connected to specified master")


@command(
    "ROLE",
    arity=1,
    flags=Flag.NOSCRIPT | Flag.LOADING | Flag.STALE | Flag.FAST,
    categories=("admin", "dangerous"),
    group="server",
    since="2.8.12",
    summary="Returns the server's role, and its replicas or the state of the link to its master.",
    complexity="O(1)",
    differs="Without replicas, the offset is the number of records in the log, and several entries of a delivery are "
    "one record.",
    traits=Trait.ORDINARY,
)
def role(context: Context, argv: list[bytes]) -> Reply:
    """ROLE. Returns `master`, the replication offset, and address, port and confirmed offset of each replica. A replica
    returns `slave`, host and port of its master, the state of the link and the offset, -1 without a link.
    """
    line = context.server.following.role_line
    if line is not None:
        return line
    replicas = context.server.replicas
    return [b"master", replicas.offset, replicas.role_lines()]


@command(
    "REPLICAOF",
    arity=3,
    flags=REPLICAOF_FLAGS,
    group="server",
    since="5.0.0",
    summary="Makes the server follow another one, or be a master.",
    complexity="O(1)",
    arguments=REPLICAOF_ARGUMENTS,
)
def replicaof(context: Context, argv: list[bytes]) -> Reply:
    """REPLICAOF <host port | NO ONE>

    The server follows the other one from now on: it takes over its dataset and everything that is added to it. With NO
    ONE it keeps what it has, and takes writes again. Returns OK, before anything has arrived. Raises GenericError.
    Source: redis.io/commands/replicaof, Redis 5.0.
    """
    following = context.server.following
    if context.server.failover.is_running:
        raise GenericError(b"REPLICAOF not allowed while failing over.")
    if [word.upper() for word in argv[1:]] == [b"NO", b"ONE"]:
        if following.address is not None:
            following.promote()
            logger.info("MASTER MODE enabled (user request from '%s')", _line_of(context, argv))
        return OK
    port = integer_between(argv[2], 0, PORT_MAX, b"Invalid master port")
    if not following.follow(argv[1], port):
        logger.info(
            "REPLICAOF would result into synchronization with the master we are already connected with. No operation "
            "performed."
        )
        return ALREADY
    host = argv[1].decode("utf-8", "backslashreplace")
    logger.info("REPLICAOF %s:%d enabled (user request from '%s')", host, port, _line_of(context, argv))
    return OK


def _line_of(context: Context, argv: list[bytes]) -> str:
    """The client as CLIENT LIST shows it."""
    return describe(context.client, context.now_ms, argv).decode("utf-8", "replace")


@command(
    "SLAVEOF",
    arity=3,
    flags=REPLICAOF_FLAGS,
    group="server",
    since="1.0.0",
    summary="Makes the server follow another one, or be a master: the old name of REPLICAOF.",
    complexity="O(1)",
    arguments=REPLICAOF_ARGUMENTS,
    deprecated=("5.0.0", "`REPLICAOF`"),
)
def slaveof(context: Context, argv: list[bytes]) -> Reply:
    """SLAVEOF <host port | NO ONE>. See REPLICAOF. Returns OK. Raises GenericError."""
    return replicaof(context, argv)
