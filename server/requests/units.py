"""The effects of commands on their way to the log and to replicas: each command, transaction or script is one unit."""

from __future__ import annotations

from typing import Final, Protocol

from ...commands.execution import targets
from ...commands.execution.context import Context
from ...replication.feed import Feed
from ...replication.history import History
from ..reports.stats import Stats

# The records around those of a grouped unit.
MULTI_AND_EXEC: Final = 2

Effects = list[tuple[int, bytes]]


class Log(Protocol):
    """The log of effects: `persistence.aof.AppendOnlyLog`."""

    def append(self, effects: Effects, grouped: bool) -> None:
        """Append the records of one unit (`grouped`: as one MULTI/EXEC), or of several one-record units."""
        ...

    # Counts the calls of `append`.
    mark: int


class Units:
    """Takes the effects from the context and appends them to the log and to the replication stream, if there are any.

    Without a stream, the offset of the history counts the records of the log, as in Redis.
    """

    def __init__(self, context: Context, stats: Stats, history: History) -> None:
        self._context = context
        self._stats = stats
        self._history = history
        self._log: Log | None = None
        self._feed: Feed | None = None
        # Whether this server follows a primary, whose bytes are then what the offset counts.
        self._is_following = False
        # Whether effects were appended since they were last written out; replies wait for that.
        self.has_unflushed_records = False
        # Effects since the start that were taken from the context; see also `Context.unlogged_count`.
        self.changes_count = 0

    # -- where effects go ------------------------------------------------------------------------

    def log_to(self, log: Log | None) -> None:
        """Append effects to this log from now on; to none if it is None."""
        self._log = log
        self._refresh()

    def replicate_to(self, feed: Feed | None) -> None:
        """Append effects to this stream from now on; to none if it is None."""
        self._feed = feed
        self._refresh()

    def follow(self, is_following: bool) -> None:
        """Set whether this server follows a primary. Its replicas then get the bytes of that one and no effects."""
        self._is_following = is_following
        self._refresh()

    def _refresh(self) -> None:
        context = self._context
        context.replicating = self._feed is not None and not self._is_following
        context.logging = self._log is not None or context.replicating
        # On a replica without a log, the bytes of its primary may still have to go to its own replicas.
        if not context.logging and (self._feed is None or self._feed.is_empty):
            self.has_unflushed_records = False

    # -- units -----------------------------------------------------------------------------------

    @property
    def is_unit_open(self) -> bool:
        """Whether a transaction or a script is running that has had effects, which are appended together at its end."""
        return not self._context.may_block and bool(self._context.effects)

    def log_singles(self) -> None:
        """Append the effects gathered so far, as one-record units. Called before the log is flushed."""
        effects = self._context.effects
        self.changes_count += len(effects)
        if effects and self._context.logging:
            self._append(effects, grouped=False)
        effects.clear()

    def _append(self, effects: Effects, *, grouped: bool) -> None:
        context, for_log, for_replicas = self._context, effects, effects
        if context.has_targeted:
            for_log = targets.for_log(effects)
            for_replicas = effects if self._feed is None or self._is_following else targets.for_replicas(effects)
            context.has_targeted = False
        if self._log is not None and for_log:
            is_group = grouped and len(for_log) > 1
            self._log.append(for_log, is_group)
            context.client.write_mark = self._log.mark
            if self._feed is None and not self._is_following:
                self._history.offset += len(for_log) + MULTI_AND_EXEC if is_group else len(for_log)
                # A replica that is sent its first snapshot has this write only when it has confirmed the snapshot.
                context.client.write_offset = self._history.offset
        if self._feed is not None and for_replicas and not self._is_following:
            self._feed.append(for_replicas, grouped and len(for_replicas) > 1)
            context.client.write_offset = self._history.offset
        self.has_unflushed_records = True

    def log_singles_and_unit(self, singles_count: int) -> None:
        """Append the effects: the first as units of their own, the rest as one unit after the keys that it found
        expired.

        Those keys come first because the command already ran without them.
        """
        effects = self._context.effects
        unit = effects[singles_count:]
        if self._context.store.expired_keys:
            unit = self._context.take_expired() + unit
        if not unit:
            return
        del effects[singles_count:]
        self.changes_count += len(unit)
        if singles_count:
            self.log_singles()
        if self._context.logging:
            self._append(unit, grouped=len(unit) > 1)

    def log_unit(self) -> None:
        """Append the effects of the running command so far, as one unit."""
        self.log_singles_and_unit(0)

    def log_expired(self) -> None:
        """Log the keys and fields that the active cycle found expired, outside of any command; each is a unit."""
        stats = self._stats
        keys_count, fields_count = stats.expired_keys, stats.expired_subkeys
        records = self._context.take_expired()
        stats.expired_keys_active += stats.expired_keys - keys_count
        stats.expired_subkeys_active += stats.expired_subkeys - fields_count
        self._append_own(records)

    def log_own(self) -> None:
        """Log the effects of policies, outside of any command; each is a unit."""
        records = self._context.effects.copy()
        self._context.effects.clear()
        self._context.has_targeted = False
        self._append_own(records)

    def log_evicted(self, record: tuple[int, bytes]) -> None:
        """Log the removal of an evicted key, outside of any command, as a unit. It is no change, as in Redis."""
        self._context.counted_apart -= 1
        self._append_own([record])

    def _append_own(self, records: Effects) -> None:
        """Append records that no client caused, so that no client waits for them."""
        self.changes_count += len(records)
        if not records or not self._context.logging:
            return
        if self._log is not None:
            self._log.append(records, False)
        # On a writable replica they are keys that its own replicas do not have.
        if not self._is_following:
            if self._feed is not None:
                self._feed.append(targets.for_replicas(records), False)
            else:
                self._history.offset += len(records)
        self.has_unflushed_records = True
