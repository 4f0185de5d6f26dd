"""Waiting for writes to become durable: WAIT for replicas, and WAITAOF for disks, here and there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...protocol.replies import Reply
from ...store.errors import GenericError
from ..clients.blocking import Blocked
from ..core.numbers import INT64_MAX, integer, integer_between, timeout
from ..core.table import Argument, Flag, Trait, command

if TYPE_CHECKING:
    from ..clients.client import Client
    from ..execution.context import Context

# What Redis adds to the errors on a replica.
WAIT_NOTE: Final = (
    b"Please also note that since Redis 4.0 if a replica is configured to be writable (which is not the default) "
    b"writes to replicas are just local and are not propagated."
)
WAITAOF_NOTE: Final = b"Please also note that writes to replicas are just local and are not propagated."

TIMEOUT_ARGUMENT = Argument("timeout", "integer")


def _as_int32(number: int) -> int:
    """The number cut to a C int, in which Redis stores the number of replicas."""
    return (number + 2**31) % 2**32 - 2**31


class ReplicaProgress:
    """The `Progress` of WAIT: how many replicas have what the client had written before the command."""

    def __init__(self, context: Context, client: Client, replicas_wanted: int) -> None:
        self._context = context
        self._offset = client.write_offset
        self._replicas_wanted = replicas_wanted

    def is_enough(self) -> bool:
        """Whether the wait is over."""
        return self.reply() >= self._replicas_wanted

    def reply(self) -> int:
        """The number of replicas that have confirmed."""
        return self._context.server.replicas.confirmed_count(self._offset)


class DiskProgress:
    """The `Progress` of WAITAOF: whether the log here, and the logs of replicas, have on stable storage what the client
    had written before the command.
    """

    def __init__(self, context: Context, client: Client, local_wanted: int, replicas_wanted: int) -> None:
        self._context = context
        self._mark, self._offset = client.write_mark, client.write_offset
        # Whether there is no log yet: what the client has written is then in the base of the log that starts.
        self._waits_for_base = context.server.storage.log is None
        self._local_wanted = local_wanted
        self._replicas_wanted = replicas_wanted

    def is_enough(self) -> bool:
        """Whether the wait is over. Raises GenericError if the log is turned off."""
        if self._local_wanted and not self._context.server.config.appendonly:
            raise GenericError(b"WAITAOF cannot be used when numlocal is set but appendonly is disabled.")
        return self._local() >= self._local_wanted and self._replicas() >= self._replicas_wanted

    def reply(self) -> Reply:
        """1 if the local log is synced that far, and the number of replicas that have acknowledged."""
        return [self._local(), self._replicas()]

    def _replicas(self) -> int:
        return self._context.server.replicas.synced_count(self._offset)

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
    traits=Trait.KEEPS_CHECKS,
)
def wait(context: Context, argv: list[bytes]) -> Reply:
    """WAIT numreplicas timeout-ms. Returns the number of replicas that have acknowledged. Raises GenericError.

    Source: redis.io/commands/wait, Redis 3.0.
    """
    if context.server.following.address is not None:
        raise GenericError(b"WAIT cannot be used with replica instances. " + WAIT_NOTE)
    replicas_wanted = _as_int32(integer(argv[1]))
    block_ms = timeout(argv[2], context.now_ms) or None
    replicas, client = context.server.replicas, context.client
    count = replicas.confirmed_count(client.write_offset)
    if count >= replicas_wanted or not context.may_block:
        return count
    replicas.ask_confirmation()
    return Blocked([], argv, block_ms, progress=ReplicaProgress(context, client, replicas_wanted))


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
    traits=Trait.KEEPS_CHECKS,
)
def waitaof(context: Context, argv: list[bytes]) -> Reply:
    """WAITAOF numlocal numreplicas timeout-ms. Returns [1 if the local log is synced that far, replicas].

    Raises GenericError. Source: redis.io/commands/waitaof, Redis 7.2.
    """
    if context.server.following.address is not None:
        raise GenericError(b"WAITAOF cannot be used with replica instances. " + WAITAOF_NOTE)
    local_wanted = integer(argv[1])
    if local_wanted not in (0, 1):
        raise GenericError(b"value is out of range, value must between 0 and 1")
    replicas_wanted = _as_int32(integer_between(argv[2], 0, INT64_MAX, b"value is out of range, must be positive"))
    block_ms = timeout(argv[3], context.now_ms) or None
    progress = DiskProgress(context, context.client, local_wanted, replicas_wanted)
    if progress.is_enough() or not context.may_block:
        return progress.reply()
    if replicas_wanted:
        context.server.replicas.ask_confirmation()
    return Blocked([], argv, block_ms, progress=progress)
