"""HOTKEYS: the keys that cost the most CPU time or network traffic, measured while a client has asked for it.

A call counts when it has ended, as in Redis: outside of scripts, and only if the call did not block. Its duration and
its bytes are divided by the number of its keys. A command within EXEC counts the bytes of EXEC, and those of the
replies up to its own.
"""

from __future__ import annotations

import random
import resource
from collections.abc import Callable
from dataclasses import dataclass
from heapq import nlargest
from operator import itemgetter
from time import perf_counter_ns
from typing import Any, Final

from ...protocol.encoder import ENCODERS
from ...protocol.replies import Reply
from ..clients.client import Client, ReplyMode
from ..core.keys import find_keys
from ..core.table import Row

# Keys whose sums are kept for each metric. With more keys, those with small sums are dropped.
RANKED_MAX: Final = 4096
NS_PER_MS: Final = 1_000_000


def wire_size(argv: list[bytes]) -> int:
    """Size of a request as an array of bulk strings."""
    return len(b"*%d\r\n" % len(argv)) + sum(len(word) + len(b"$%d\r\n\r\n" % len(word)) for word in argv)


def pieces_size(pieces: list[Any]) -> int:
    """Size of encoded replies, without parts that are made while they are sent."""
    return sum(len(piece) for piece in pieces if type(piece) is bytes)


class Ranking:
    """A sum for each key, in bounded memory. The sums are exact until more than `ranked_max` keys were added.

    Then the smaller half is dropped. A key that is added later begins with the largest sum that was dropped, because
    it may have had that. So no sum is too small, and a key that was never dropped has an exact sum.
    """

    def __init__(self, ranked_max: int = RANKED_MAX) -> None:
        self._ranked_max = ranked_max
        self._sums: dict[bytes, int] = {}
        # The largest sum that was dropped.
        self._floor = 0

    def __len__(self) -> int:
        return len(self._sums)

    def add(self, key: bytes, amount: int) -> None:
        """Add an amount to the sum of a key."""
        self._sums[key] = self._sums.get(key, self._floor) + amount
        if len(self._sums) > self._ranked_max:
            self._drop_smaller_half()

    def _drop_smaller_half(self) -> None:
        ranked = sorted(self._sums.items(), key=itemgetter(1), reverse=True)
        kept_count = self._ranked_max // 2
        self._floor = ranked[kept_count][1]
        self._sums = dict(ranked[:kept_count])

    def largest(self, count: int) -> list[tuple[bytes, int]]:
        """The keys with the largest sums, largest first."""
        return nlargest(count, self._sums.items(), key=itemgetter(1))


@dataclass(frozen=True, slots=True)
class HotKeysRequest:
    """The arguments of HOTKEYS START."""

    measures_cpu: bool
    measures_net: bool
    count: int
    # None: until HOTKEYS STOP.
    duration_ms: int | None
    # One command in so many is added to the keys.
    sample_ratio: int


class Measurement:
    """What was measured since HOTKEYS START."""

    def __init__(self, request: HotKeysRequest, now_ms: int) -> None:
        self.request = request
        self.started_ms = now_ms
        # When it was stopped; None while it is running.
        self.stopped_ms: int | None = None
        self._cpu_at_start = self._cpu_used = resource.getrusage(resource.RUSAGE_SELF)
        # Of all commands that have keys, also of those that are not in the sample.
        self.spent_ns = 0
        self.net_size = 0
        # The part of `net_size` that was added to keys.
        self.ranked_net_size = 0
        self.by_cpu_ns = Ranking()
        self.by_net_size = Ranking()
        # CPU time of the measurement itself.
        self.own_ns = 0

    @property
    def is_active(self) -> bool:
        """Whether commands are still measured."""
        return self.stopped_ms is None

    @property
    def own_ms(self) -> int:
        """CPU time of the measurement itself, in whole ms."""
        return self.own_ns // NS_PER_MS

    def stop(self, now_ms: int) -> None:
        """Stop measuring."""
        self._cpu_used = resource.getrusage(resource.RUSAGE_SELF)
        self.stopped_ms = now_ms

    def add(self, keys: list[bytes], duration_ns: int, net_size: int, *, is_sampled: bool) -> None:
        """Add a call."""
        self.spent_ns += duration_ns
        self.net_size += net_size
        if not is_sampled:
            return
        share_ns, share_size = duration_ns // len(keys), net_size // len(keys)
        if self.request.measures_cpu:
            for key in keys:
                self.by_cpu_ns.add(key, share_ns)
        if self.request.measures_net:
            self.ranked_net_size += share_size * len(keys)
            for key in keys:
                self.by_net_size.add(key, share_size)

    def report(self, now_ms: int) -> dict[bytes, object]:
        """The reply to HOTKEYS GET."""
        request = self.request
        usage = resource.getrusage(resource.RUSAGE_SELF) if self.stopped_ms is None else self._cpu_used
        ended_ms = now_ms if self.stopped_ms is None else self.stopped_ms
        fields: dict[bytes, object] = {
            b"tracking-active": int(self.is_active),
            b"sample-ratio": request.sample_ratio,
            b"selected-slots": [[0, 16383]],
            b"all-commands-all-slots-us": self.spent_ns // 1000,
            b"net-bytes-all-commands-all-slots": self.net_size,
            b"collection-start-time-unix-ms": self.started_ms,
            b"collection-duration-ms": ended_ms - self.started_ms,
        }
        if request.measures_cpu:
            fields[b"total-cpu-time-user-ms"] = int((usage.ru_utime - self._cpu_at_start.ru_utime) * 1000)
            fields[b"total-cpu-time-sys-ms"] = int((usage.ru_stime - self._cpu_at_start.ru_stime) * 1000)
        if request.measures_net:
            fields[b"total-net-bytes"] = self.ranked_net_size
        if request.measures_cpu:
            largest = self.by_cpu_ns.largest(request.count)
            # A key whose calls took no whole microsecond is not shown, as in Redis.
            times_us = [(key, spent_ns // 1000) for key, spent_ns in largest if spent_ns >= 1000]
            fields[b"by-cpu-time-us"] = [part for pair in times_us for part in pair]
        if request.measures_net:
            largest = self.by_net_size.largest(request.count)
            fields[b"by-net-bytes"] = [part for pair in largest for part in pair]
        return fields


class RunningExec:
    """The EXEC that is running: the size of its request, and of its reply so far."""

    __slots__ = ("_argv", "_measured_count", "_measured_size", "_pieces")

    def __init__(self, argv: list[bytes], pieces: list[bytes]) -> None:
        self._argv = argv
        self._pieces = pieces
        self._measured_count = 0
        self._measured_size = 0

    def size(self) -> int:
        """Size of the request and of the reply so far."""
        pieces = self._pieces
        self._measured_size += pieces_size(pieces[self._measured_count :])
        self._measured_count = len(pieces)
        return wire_size(self._argv) + self._measured_size


class HotKeys:
    """The measurement of one server. It calls `refresh_clients` when it starts or stops.

    While `is_active`, all clients leave the dispatcher's fast path, and each call is passed to `note`.
    """

    def __init__(self, *, refresh_clients: Callable[[], None]) -> None:
        self._refresh_clients = refresh_clients
        self._random = random.Random()
        # The last one, running or stopped; None before HOTKEYS START and after HOTKEYS RESET.
        self.last: Measurement | None = None
        self.is_active = False
        # Set by EXEC while `is_active`.
        self.running_exec: RunningExec | None = None

    def start(self, request: HotKeysRequest, now_ms: int) -> None:
        """Begin a new measurement, instead of the last one."""
        self.last = Measurement(request, now_ms)
        self._set_active(True)

    def stop(self, now_ms: int) -> bool:
        """Stop measuring, and keep the result. Returns False if nothing is being measured."""
        if self.last is None or not self.is_active:
            return False
        self.last.stop(now_ms)
        self._set_active(False)
        return True

    def reset(self) -> None:
        """Forget the result."""
        self.last = None

    def cron(self, now_ms: int) -> None:
        """Stop at the end of DURATION."""
        if self.last is None or not self.is_active:
            return
        duration_ms = self.last.request.duration_ms
        if duration_ms is not None and now_ms - self.last.started_ms >= duration_ms:
            self.stop(now_ms)

    def _set_active(self, is_active: bool) -> None:
        self.is_active = is_active
        self._refresh_clients()

    def note(self, client: Client, row: Row, argv: list[bytes], reply: Reply, duration_ns: int) -> None:
        """Add a call that has ended and did not block."""
        measurement, running_exec = self.last, self.running_exec
        if measurement is None or (client.is_script and running_exec is None):
            return
        began_ns = perf_counter_ns()
        keys = [key for key, _ in find_keys(row, argv)]
        if keys:
            pieces: list[Any] = []
            if client.reply_mode is ReplyMode.ON:
                ENCODERS[client.protocol](reply, pieces)
            net_size = pieces_size(pieces)
            if running_exec is None:
                net_size += wire_size(argv)
            elif not client.is_script:
                net_size += running_exec.size()
            ratio = measurement.request.sample_ratio
            is_sampled = ratio == 1 or self._random.randrange(ratio) == 0
            measurement.add(keys, duration_ns, net_size, is_sampled=is_sampled)
        measurement.own_ns += perf_counter_ns() - began_ns
