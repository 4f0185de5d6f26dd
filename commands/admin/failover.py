"""FAILOVER: a primary changes roles with one of its replicas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...protocol.replies import OK, Reply
from ...store.errors import GenericError, syntax_error
from ..core.numbers import integer
from ..core.table import Argument, Flag, command

if TYPE_CHECKING:
    from ..execution.context import Context

# Words after TO and TIMEOUT.
TARGET_COUNT: Final = 2
TIMEOUT_COUNT: Final = 1


@command(
    "FAILOVER",
    arity=-1,
    flags=Flag.ADMIN | Flag.NOSCRIPT | Flag.STALE,
    group="server",
    since="6.2.0",
    summary="Starts a coordinated failover from a server to one of its replicas.",
    complexity="O(1)",
    arguments=(
        Argument(
            "target",
            "block",
            token="TO",
            optional=True,
            arguments=(
                Argument("host"),
                Argument("port", "integer"),
                Argument("force", "pure-token", token="FORCE", optional=True),
            ),
        ),
        Argument("abort", "pure-token", token="ABORT", optional=True),
        Argument("milliseconds", "integer", token="TIMEOUT", optional=True),
    ),
)
def failover(context: Context, argv: list[bytes]) -> Reply:
    """FAILOVER [TO host port [FORCE]] [ABORT] [TIMEOUT ms]

    Holds all writes until a replica has everything, at most for TIMEOUT, and makes it the primary, which this server
    then follows. ABORT, alone, ends a failover that has begun. With FORCE, the replica becomes the primary at the end
    of TIMEOUT, whatever it lacks. Returns OK at once; INFO has `master_failover_state`. Raises GenericError.
    Source: redis.io/commands/failover, Redis 6.2.
    """
    words = argv[1:]
    if [word.upper() for word in words] == [b"ABORT"]:
        context.server.failover.abort()
        return OK
    target: tuple[bytes, int] | None = None
    timeout_ms: int | None = None
    is_forced = False
    while words:
        word = words.pop(0).upper()
        if word == b"TIMEOUT" and len(words) >= TIMEOUT_COUNT and timeout_ms is None:
            timeout_ms = integer(words.pop(0))
            if timeout_ms <= 0:
                raise GenericError(b"FAILOVER timeout must be greater than 0")
        elif word == b"TO" and len(words) >= TARGET_COUNT and target is None:
            target = words[0], integer(words[1])
            del words[:TARGET_COUNT]
        elif word == b"FORCE" and not is_forced:
            is_forced = True
        else:
            raise syntax_error()
    context.server.failover.begin(target, timeout_ms, is_forced=is_forced)
    return OK
