"""ROLE and REPLICAOF, for tools. There is no replication: the replies are those of a master without replicas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...protocol.replies import OK, Reply
from ...store.errors import GenericError
from ..core.numbers import integer_between
from ..core.table import Argument, Flag, command

if TYPE_CHECKING:
    from ..execution.context import Context

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
NO_REPLICATION: Final = "There is no replication: only NO ONE is accepted."


@command(
    "ROLE",
    arity=1,
    flags=Flag.NOSCRIPT | Flag.LOADING | Flag.STALE | Flag.FAST,
    categories=("admin", "dangerous"),
    group="server",
    since="2.8.12",
    summary="Returns the server's role, which is master.",
    complexity="O(1)",
    differs="The offset is the number of records in the log, and several entries of a delivery are one record.",
)
def role(context: Context, argv: list[bytes]) -> Reply:
    """ROLE. Returns `master`, the replication offset, which is the number of records in the log, and an empty array."""
    return [b"master", context.server.stats.log_records, []]


@command(
    "REPLICAOF",
    arity=3,
    flags=REPLICAOF_FLAGS,
    group="server",
    since="5.0.0",
    summary="Makes the server a master, which it always is.",
    complexity="O(1)",
    arguments=REPLICAOF_ARGUMENTS,
    differs=NO_REPLICATION,
)
def replicaof(context: Context, argv: list[bytes]) -> Reply:
    """REPLICAOF <host port | NO ONE>. Returns OK for NO ONE. Raises GenericError for any other arguments.

    Source: redis.io/commands/replicaof, Redis 5.0.
    """
    if [word.upper() for word in argv[1:]] == [b"NO", b"ONE"]:
        return OK
    integer_between(argv[2], 0, PORT_MAX, b"Invalid master port")
    raise GenericError(b"Headrace is a standalone server: it has no replication")


@command(
    "SLAVEOF",
    arity=3,
    flags=REPLICAOF_FLAGS,
    group="server",
    since="1.0.0",
    summary="Makes the server a master: the old name of REPLICAOF.",
    complexity="O(1)",
    arguments=REPLICAOF_ARGUMENTS,
    deprecated=("5.0.0", "`REPLICAOF`"),
    differs=NO_REPLICATION,
)
def slaveof(context: Context, argv: list[bytes]) -> Reply:
    """SLAVEOF <host port | NO ONE>. Returns OK for NO ONE. Raises GenericError for any other arguments."""
    return replicaof(context, argv)
