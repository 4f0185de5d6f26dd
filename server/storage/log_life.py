"""The life of the append-only log: its states, and which state may follow which.

                 +-----------------------------------------------------+
                 v                                                     |
    LOADING --> OFF --> WANTED --> STARTING --> ON --> AWAITING_SYNC --> REWRITING
       |                 ^  ^         |         ^ ^         |              |
       +-----------------+  +---------+         | +---------+--------------+
       +----------------------------------------+

`LogKeeper` owns the one `LogLife` of a server. Loading, shutdown, snapshots and CONFIG SET read the state here and have
no flags of their own. A step that the table does not have is a defect of Headrace and raises AssertionError.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final


class LogState(Enum):
    """Where the effects of commands go in each state."""

    # Effects are not logged: `appendonly no`.
    OFF = auto()
    # The dataset is being loaded, and no command changes it. Whether there will be a log is decided after the load.
    LOADING = auto()
    # Effects are not logged yet. The log starts when the running job has ended, the transaction is complete, or the
    # delay after a failed start is over.
    WANTED = auto()
    # Effects go to a temporary file until the base that they continue is complete. Until then the old files are the
    # log.
    STARTING = auto()
    # Effects go to the log.
    ON = auto()
    # Effects go to the log. A rewrite begins when the running fsync has ended.
    AWAITING_SYNC = auto()
    # Effects go to a new increment, whose base is being written.
    REWRITING = auto()
    # The log is closed for good: the server stops.
    ENDED = auto()


# The states that may follow each state.
NEXT_STATES: Final[dict[LogState, frozenset[LogState]]] = {
    LogState.OFF: frozenset({LogState.LOADING, LogState.WANTED, LogState.STARTING, LogState.ENDED}),
    LogState.LOADING: frozenset({LogState.OFF, LogState.WANTED, LogState.ON, LogState.ENDED}),
    LogState.WANTED: frozenset({LogState.OFF, LogState.STARTING, LogState.ENDED}),
    LogState.STARTING: frozenset({LogState.OFF, LogState.WANTED, LogState.ON, LogState.ENDED}),
    LogState.ON: frozenset({LogState.OFF, LogState.AWAITING_SYNC, LogState.REWRITING, LogState.ENDED}),
    LogState.AWAITING_SYNC: frozenset({LogState.OFF, LogState.ON, LogState.REWRITING, LogState.ENDED}),
    LogState.REWRITING: frozenset({LogState.OFF, LogState.ON, LogState.ENDED}),
    LogState.ENDED: frozenset(),
}

# States in which the log has what a reply promises.
KEPT: Final = frozenset({LogState.ON, LogState.AWAITING_SYNC, LogState.REWRITING})


class LogLife:
    """The state of one server's log."""

    def __init__(self) -> None:
        self.state = LogState.OFF

    def become(self, state: LogState) -> None:
        """Enter the next state. Raises AssertionError if the table does not allow it."""
        assert state in NEXT_STATES[self.state], f"the log cannot be {state.name} after {self.state.name}"
        self.state = state
