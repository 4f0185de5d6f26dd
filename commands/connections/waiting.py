"""Waiting for writes to become durable: WAIT for replicas, of which there are none, and WAITAOF for the disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...protocol.replies import Reply
from ...store.errors import GenericError
from ..clients.blocking import Blocked
from ..core.numbers import INT64_MAX, integer, integer_between, timeout
from ..core.table import Argument, Flag, command

if TYPE_CHECKING:
    from ..clients.client import Client
    from ..execution.context import Context

# Replicas that have acknowledged writes: there is no replication.
REPLICAS_COUNT: Final = 0

TIMEOUT_ARGUMENT = Argument("timeout", "integer")


def _as_int32(number: int) -> int:
    """The number cut to a C int, in which Redis stores the number of replicas."""
    return (number + 2**31) % 2**32 - 2**31


class ReplicaProgress:
    """The `Progress` of WAIT. No replica acknowledges anything."""

    def is_enough(self) -> bool:
        """Whether the wait is over: WAIT waits only for more replicas than there are."""
        return False

    def reply(self) -> Reply:
        """The number of replicas that have acknowledged."""
        return REPLICAS_COUNT


class LocalProgress:
    """The `Progress` of WAITAOF: whether the log on this disk has what the client had written before the command."""

    def __init__(self, context: Context, client: Client, local_wanted: int, replicas_wanted: int) -> None:
        self._context = context
        self._mark = client.write_mark
        # Whether there is no log yet: what the client has written is then in the base of the log that starts.
        self._waits_for_base = context.server.storage.log is None
        self._local_wanted = local_wanted
        self._replicas_wanted = replicas_wanted

    def is_enough(self) -> bool:
        """Whether the wait is over. Raises GenericError if the log is turned off."""
        if self._local_wanted and not self._context.server.config.appendonly:
            raise GenericError(b"WAITAOF cannot be used when numlocal is set but appendonly is disabled.")
        return self._local() >= self._local_wanted and self._replicas_wanted <= REPLICAS_COUNT

    def reply(self) -> Reply:
        """1 if the local log is synced that far, and the number of replicas that have acknowledged."""
        return [self._local(), REPLICAS_COUNT]

    def _local(self) -> int:
        log = self._context.server.storage.log
        if log is None or (self._waits_for_base and log.is_starting):
            return 0
        return int(log.synced_mark >= self._mark)


@command(
    "WAIT",
    arity=3,
    flags=Flag.BLOCKING,
    categories=("connection",),
    group="generic",
    since="3.0.0",
    summary="Waits until replicas have the writes of this client.",
    complexity="O(1)",
    arguments=(Argument("numreplicas", "integer"), TIMEOUT_ARGUMENT),
    tips=("request_policy:all_shards", "response_policy:agg_min"),
    differs="There is no replication: it always answers 0, at once or when the timeout has passed.",
)
def wait(context: Context, argv: list[bytes]) -> Reply:
    """WAIT numreplicas timeout-ms. Returns the number of replicas that have acknowledged. Raises GenericError.

    Source: redis.io/commands/wait, Redis 3.0.
    """
    replicas_wanted = _as_int32(integer(argv[1]))
    block_ms = timeout(argv[2], context.now_ms) or None
    if replicas_wanted <= REPLICAS_COUNT or not context.may_block:
        return REPLICAS_COUNT
    return Blocked([], argv, block_ms, progress=ReplicaProgress())


@command(
    "WAITAOF",
    arity=4,
    flags=Flag.BLOCKING,
    categories=("connection",),
    group="generic",
    since="7.2.0",
    summary="Waits until the writes of this client are on stable storage, here and on replicas.",
    complexity="O(1)",
    arguments=(Argument("numlocal", "integer"), Argument("numreplicas", "integer"), TIMEOUT_ARGUMENT),
    tips=("request_policy:all_shards", "response_policy:agg_min"),
    differs="There is no replication: no replica ever acknowledges.",
)
def waitaof(context: Context, argv: list[bytes]) -> Reply:
    """WAITAOF numlocal numreplicas timeout-ms. Returns [1 if the local log is synced that far, replicas].

    Raises GenericError. Source: redis.io/commands/waitaof, Redis 7.2.
    """
    local_wanted = integer(argv[1])
    if local_wanted not in (0, 1):
        raise GenericError(b"value is out of range, value must between 0 and 1")
    replicas_wanted = _as_int32(integer_between(argv[2], 0, INT64_MAX, b"value is out of range, must be positive"))
    block_ms = timeout(argv[3], context.now_ms) or None
    progress = LocalProgress(context, context.client, local_wanted, replicas_wanted)
    if progress.is_enough() or not context.may_block:
        return progress.reply()
    return Blocked([], argv, block_ms, progress=progress)
