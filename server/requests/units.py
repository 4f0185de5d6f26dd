"""The effects of commands on their way to the log: each command, transaction or script is one unit."""

from __future__ import annotations

from typing import Final, Protocol

from ...commands.execution.context import Context
from ..reports.stats import Stats

# The records around those of a grouped unit.
MULTI_AND_EXEC: Final = 2


class Log(Protocol):
    """The log of effects: `persistence.aof.AppendOnlyLog`."""

    def append(self, effects: list[tuple[int, bytes]], grouped: bool) -> None:
        """Append the records of one unit (`grouped`: as one MULTI/EXEC), or of several one-record units."""
        ...

    # Counts the calls of `append`.
    mark: int


class Units:
    """Takes the effects from the context and appends them to the log, if there is one."""

    def __init__(self, context: Context, stats: Stats) -> None:
        self._context = context
        self._stats = stats
        self.log: Log | None = None
        # Whether the log took records since it was last flushed; replies wait for that flush.
        self.has_unflushed_records = False
        # Effects since the start that were taken from the context; see also `Context.unlogged_count`.
        self.changes_count = 0

    def log_singles(self) -> None:
        """Append the effects gathered so far, as one-record units. Called before the log is flushed."""
        effects = self._context.effects
        self.changes_count += len(effects)
        if self.log is not None and effects:
            self._append(effects, grouped=False)
        effects.clear()

    def _append(self, effects: list[tuple[int, bytes]], *, grouped: bool) -> None:
        assert self.log is not None
        self.log.append(effects, grouped)
        self._stats.log_records += len(effects) + MULTI_AND_EXEC if grouped else len(effects)
        self._context.client.write_mark = self.log.mark
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
        if self.log is not None:
            self._append(unit, grouped=len(unit) > 1)

    def log_unit(self) -> None:
        """Append the effects of the running command so far, as one unit."""
        self.log_singles_and_unit(0)

    def log_expired(self) -> None:
        """Log the keys that the active cycle found expired, outside of any command; each is a unit."""
        records = self._context.take_expired()
        self.changes_count += len(records)
        self._stats.expired_keys_active += len(records)
        if records and self.log is not None:
            self.log.append(records, False)
            self._stats.log_records += len(records)
            self.has_unflushed_records = True
