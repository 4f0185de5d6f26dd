"""The counters that INFO prints, and the rates computed from them.

Counters only grow until CONFIG RESETSTAT; some survive it. The calls of a command are counted on its row in the command
table.
"""

from __future__ import annotations

import os
from collections import deque
from typing import Final

from ...commands.core.table import named_rows
from ...commands.execution.counters import Counters
from ...store.clock import wall_clock_ms

# A rate is the mean over this many samples: 1.6 seconds at ten samples a second, as in Redis.
RATE_SAMPLE_COUNT: Final = 16

COUNTERS: Final = (
    "connections_received",
    "connections_rejected",
    "commands_processed",
    "commands_ns",
    "input_size",
    "output_size",
    "replicas_output_size",
    "primary_input_size",
    "reads_processed",
    "payload_checks",
    "writes_processed",
    "expired_keys",
    "expired_keys_active",
    "expired_subkeys",
    "expired_subkeys_active",
    "evicted_keys",
    "evicted_clients",
    "forks",
    "sync_full",
    "sync_partial_ok",
    "sync_partial_err",
    "pipelined_before",
    "reads_before",
    "latest_fork_us",
    "error_replies",
    "unexpected_error_replies",
    "query_buffer_limit_disconnections",
    "output_buffer_limit_disconnections",
    "acl_denied_auth",
    "acl_denied_command",
    "acl_denied_key",
    "acl_denied_channel",
    "acl_denied_certificate",
)


# Counters that CONFIG RESETSTAT leaves, as in Redis.
KEPT: Final = {name for name in COUNTERS if name.startswith("acl_denied_")}


class Rate:
    """How fast a counter grows, per second, over the last samples."""

    __slots__ = ("_last_count", "_last_ms", "_samples")

    def __init__(self) -> None:
        self._samples: deque[float] = deque(maxlen=RATE_SAMPLE_COUNT)
        self._last_count = 0
        self._last_ms: int | None = None

    def sample(self, count: int, now_ms: int) -> None:
        """Record the value of the counter. A clock that stood still or went back adds no sample."""
        if self._last_ms is not None and now_ms > self._last_ms:
            self._samples.append((count - self._last_count) * 1000 / (now_ms - self._last_ms))
        self._last_count, self._last_ms = count, now_ms

    @property
    def per_second(self) -> float:
        """The mean of the samples; 0 without any."""
        return sum(self._samples) / len(self._samples) if self._samples else 0.0


class Stats(Counters):
    """Integer counters; sizes are bytes."""

    connections_received: int
    connections_rejected: int
    # Time that the requests of clients took to run, one batch after the other.
    commands_ns: int
    input_size: int
    output_size: int
    # Of these, what replicas were sent as snapshots and stream.
    replicas_output_size: int
    # Of `input_size`, what came from the primary.
    primary_input_size: int
    reads_processed: int
    writes_processed: int
    expired_keys_active: int
    expired_subkeys_active: int
    evicted_keys: int
    evicted_clients: int
    forks: int
    # Requests of replicas: that need a snapshot, that continue, and that asked to continue and could not.
    sync_full: int
    sync_partial_ok: int
    sync_partial_err: int
    # Requests in the reads of clients that have left, less those before a reset.
    pipelined_before: int
    reads_before: int
    latest_fork_us: int
    query_buffer_limit_disconnections: int
    output_buffer_limit_disconnections: int

    def __init__(self, *, started_ms: int | None = None) -> None:
        super().__init__()
        self.started_ms = wall_clock_ms() if started_ms is None else started_ms
        # Identifies this run of the server.
        self.run_id = os.urandom(20).hex()
        for name in KEPT:
            setattr(self, name, 0)
        self.reset()

    def reset(self) -> None:
        """CONFIG RESETSTAT for all counters here and on the rows."""
        for row in named_rows():
            row.reset_statistics()
        for name in COUNTERS:
            if name not in KEPT:
                setattr(self, name, 0)
        self.forget_errors()
        # How long the used memory has been above the limit, and when the present time above it began, by
        # `perf_counter_ns`; None while it is not.
        self.exceeded_ns = 0
        self.exceeded_since_ns: int | None = None
        self.commands_rate = Rate()
        self.input_rate = Rate()
        self.output_rate = Rate()

    def note_exceeded(self, is_exceeded: bool, now_ns: int) -> None:
        """Measure for how long the used memory is above the limit. `now_ns` is by `perf_counter_ns`."""
        if is_exceeded and self.exceeded_since_ns is None:
            self.exceeded_since_ns = now_ns
        elif not is_exceeded and self.exceeded_since_ns is not None:
            self.exceeded_ns += now_ns - self.exceeded_since_ns
            self.exceeded_since_ns = None

    def sample(self, now_ms: int) -> None:
        """Add a sample to each rate; called `hz` times a second."""
        self.commands_rate.sample(self.commands_processed, now_ms)
        self.input_rate.sample(self.input_size, now_ms)
        self.output_rate.sample(self.output_size, now_ms)
