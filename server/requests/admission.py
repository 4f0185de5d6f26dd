"""Checks before a command runs: the client, the command, and the state of the server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ...commands.clients.client import Client, ReplyMode
from ...commands.core.table import Flag, Row, Trait
from ...commands.execution.context import Context
from ...commands.execution.enforcement import NoAuthentication, PrimaryDown, must_authenticate, refusal_of
from ...store.errors import GenericError, ReplyError, StillLoading

SAVE_FAILING: Final = (
    b"Redis is configured to save RDB snapshots, but it's currently unable to persist to disk. Commands that may "
    b"modify the data set are disabled, because this instance is configured to report errors during writes if RDB "
    b"snapshotting fails (stop-writes-on-bgsave-error option). Please check the Redis logs for details about the RDB "
    b"error."
)


class NoReplicas(ReplyError):
    """Writes are refused while too few replicas keep up (`min-replicas-to-write`)."""

    prefix = b"NOREPLICAS"

    def __init__(self) -> None:
        super().__init__(b"Not enough good replicas to write.")


class ReadOnlyReplica(ReplyError):
    """Writes are refused while this server follows a primary (`replica-read-only`)."""

    prefix = b"READONLY"

    def __init__(self) -> None:
        super().__init__(b"You can't write against a read only replica.")


class Misconfigured(ReplyError):
    """Writes are refused while the log or the snapshots cannot be written."""

    prefix = b"MISCONF"


NO_AUTH: Final = Flag.NO_AUTH.value
NO_MULTI: Final = Flag.NO_MULTI.value
DENYOOM: Final = Flag.DENYOOM.value
WRITE: Final = Flag.WRITE.value
LOADING: Final = Flag.LOADING.value
STALE: Final = Flag.STALE.value
READS_OR_WRITES: Final = (Flag.READONLY | Flag.WRITE).value
REFUSED_WITH_WRITES: Final = Trait.REFUSED_WITH_WRITES.value
RUNS_QUEUE: Final = Trait.RUNS_QUEUE.value
WHILE_SUBSCRIBED: Final = Trait.WHILE_SUBSCRIBED.value
MAY_REPLICATE: Final = Trait.MAY_REPLICATE.value
REPLY_ON: Final = ReplyMode.ON
REPLY_OFF: Final = ReplyMode.OFF


class Admission:
    """The checks of one server, in Redis' order."""

    def __init__(self, context: Context) -> None:
        self.context = context
        # Whether writes are refused because the last snapshot failed.
        self.is_save_failing = False
        # Why the log cannot be written, as MISCONF says it; None while it can.
        self.write_error: bytes | None = None
        # Whether fewer replicas keep up than `min-replicas-to-write` requires.
        self.lacks_replicas = False
        # Whether this server follows a primary and takes no writes of clients.
        self.is_read_only = False
        # Evicts keys if more memory is used than `maxmemory` allows; `now_ms` is its argument.
        self.evict: Callable[[int], None] = _evict_nothing
        # Whether the link to the primary is down, and old data are not served then.
        self.is_stale = False

    @property
    def is_refusing_writes(self) -> bool:
        """Whether writes are refused with MISCONF."""
        return self.write_error is not None or self.is_save_failing

    def refusal_of_writes(self) -> ReplyError | None:
        """What writes get while they are refused, None while they are not."""
        if self.is_read_only:
            return ReadOnlyReplica()
        return self._misconfigured() or (NoReplicas() if self.lacks_replicas else None)

    def _misconfigured(self) -> Misconfigured | None:
        """What writes, and some other commands, get while the dataset cannot be written to disk."""
        if self.write_error is not None:
            return Misconfigured(b"Errors writing to the AOF file: " + self.write_error)
        return Misconfigured(SAVE_FAILING) if self.is_save_failing else None

    def refusal_of(self, client: Client, row: Row, argv: list[bytes]) -> ReplyError | None:
        """The error of the first check that fails; None if the command may run or be queued now."""
        context = self.context
        if row.refusal_if_disabled is not None and (refusal := row.refusal_if_disabled(context)) is not None:
            return refusal
        needs_only_acl_check = client.needs_only_acl_check
        if (
            not needs_only_acl_check
            and not client.is_primary
            and must_authenticate(context, client)
            and not row.flag_bits & NO_AUTH
        ):
            return NoAuthentication()
        if client.transaction.queue is not None and row.flag_bits & NO_MULTI:
            return GenericError(b"Command not allowed inside a transaction")
        if not client.user.is_unrestricted and (refusal := refusal_of(context, row, argv)) is not None:
            return refusal
        return None if needs_only_acl_check else self._refusal_now(client, row)

    def _refusal_now(self, client: Client, row: Row) -> ReplyError | None:
        """The checks after those of the user's rules."""
        context = self.context
        if context.is_counting:
            self.evict(context.now_ms)
            if _may_need_memory(client, row) and (refusal := context.server.memory.refusal()) is not None:
                return refusal
        if client.is_primary:
            return None
        misconfigured = self._misconfigured()
        if misconfigured is not None and (row.trait_bits & REFUSED_WITH_WRITES or may_write(client, row)):
            return misconfigured
        if self.lacks_replicas and may_write(client, row):
            return NoReplicas()
        if self.is_read_only and may_write(client, row):
            return ReadOnlyReplica()
        if client.protocol == 2 and client.is_subscriber and not row.trait_bits & WHILE_SUBSCRIBED:
            return GenericError(
                b"Can't execute '%b': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this "
                b"context" % row.name_lower
            )
        if self.is_stale and not _may_run_when_stale(client, row):
            return PrimaryDown()
        if context.loading and not row.flag_bits & LOADING:
            return StillLoading()
        # Redis treats a monitor as a replica.
        if (client.is_monitor or client.is_replica) and (
            row.flag_bits & READS_OR_WRITES or row.trait_bits & MAY_REPLICATE
        ):
            return GenericError(b"Replica can't interact with the keyspace")
        return None

    def needs_only_acl_check(self, client: Client) -> bool:
        """Whether only the user's rules, and MULTI, can refuse a command of this client."""
        if client.is_primary:
            return not self.context.is_counting
        is_writable = not self.is_read_only and not self.context.own_keys.is_on
        return is_writable and self.reads_need_only_acl_check(client)

    def reads_need_only_acl_check(self, client: Client) -> bool:
        """Whether only these can refuse a command that writes nothing: see `needs_only_acl_check`."""
        return not client.is_subscriber and self.subscribing_needs_only_acl_check(client)

    def subscribing_needs_only_acl_check(self, client: Client) -> bool:
        """Whether only these can refuse a command that subscribers may send with either protocol."""
        return (
            not client.close_after_reply
            and not client.is_monitor
            and not client.is_replica
            and not self.lacks_replicas
            and not self.is_stale
            and self.write_error is None
            and not self.is_save_failing
            and not self.context.is_counting
            and not self.context.loading
            and not must_authenticate(self.context, client)
        )

    def is_plain(self, client: Client) -> bool:
        """Whether an ordinary command of this client leaves no trace of its own, except in the slow log, the latency
        monitor and at monitors, and does not change whether replies are sent.
        """
        return (
            (client.reply_mode is REPLY_ON or client.reply_mode is REPLY_OFF)
            and not client.no_touch
            and client.tracking is None
            and client.id not in self.context.tracking.receivers
            and not self.context.hot_keys.is_active
        )


def _evict_nothing(now_ms: int) -> None:
    """Stands for the eviction of a server that is not put together yet."""


def _may_need_memory(client: Client, row: Row) -> bool:
    """Whether the command, or one of the queue that it runs, may make the dataset grow."""
    return bool(row.flag_bits & DENYOOM) or bool(row.trait_bits & RUNS_QUEUE and client.transaction.has_flag(DENYOOM))


def _may_run_when_stale(client: Client, row: Row) -> bool:
    """Whether the command, and all of the queue that it runs, do not need data of the primary."""
    if not row.flag_bits & STALE:
        return False
    return not row.trait_bits & RUNS_QUEUE or all(
        queued.flag_bits & STALE for queued, _, _ in client.transaction.queue or ()
    )


def may_write(client: Client, row: Row) -> bool:
    """Whether the command, or one of the queue that it runs, writes."""
    return row.is_write or bool(row.trait_bits & RUNS_QUEUE and client.transaction.has_flag(WRITE))
