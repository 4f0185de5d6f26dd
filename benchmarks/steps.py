"""What a call costs, counted so that the same call costs the same on every machine.

A step is a line of Python that runs, or a function in C that is called. A loop over entries in Python takes steps for
each of them; one in C (`sorted`, `sum(map(len, ..))`) does not, but mostly makes objects, which the memory shows. Only
the `codecs` form and the `pure` form have steps: compiled Python reports nothing.
"""

from __future__ import annotations

import gc
import itertools
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any
from unittest.mock import patch

from headrace.commands.execution import calls
from headrace.server.requests import dispatch

# Requests are not timed: each takes so long, and the turn of a client has no end.
REQUEST_NS = 1_000
NO_END_NS = 1 << 62


@dataclass(frozen=True)
class Cost:
    """Steps of a call, and the bytes by which the memory of Python's objects grew at most while it ran."""

    steps: int
    memory_size: int


@contextmanager
def without_time() -> Iterator[None]:
    """Requests run without a clock, without the garbage collector, and without another tracer, as that of coverage."""
    tracer, profiler, was_enabled = sys.gettrace(), sys.getprofile(), gc.isenabled()
    ticks = itertools.count(0, REQUEST_NS).__next__
    with ExitStack() as stack:
        for module, name, value in (
            (dispatch, "perf_counter_ns", ticks),
            (calls, "perf_counter_ns", ticks),
            (dispatch, "TURN_NS", NO_END_NS),
        ):
            stack.enter_context(patch.object(module, name, value))
        sys.settrace(None)
        sys.setprofile(None)
        gc.disable()
        try:
            yield
        finally:
            sys.settrace(tracer)
            sys.setprofile(profiler)
            if was_enabled:
                gc.enable()


def steps_of(call: Callable[[], object]) -> int:
    """The steps of a call."""
    counted = [0]

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            counted[0] += 1
        return trace

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        if event == "c_call":
            counted[0] += 1

    sys.setprofile(profile)
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(None)
        sys.setprofile(None)
    return counted[0]


def memory_of(call: Callable[[], object]) -> int:
    """The bytes by which the memory of Python's objects grows at most during a call."""
    tracemalloc.start(1)
    try:
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        call()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


def cheapest(make_call: Callable[[int], Callable[[], object]], count: int) -> Cost:
    """The smallest cost of `2 * count` calls, half of them for each figure: a table that grows does so in few calls."""
    steps = min(steps_of(make_call(number)) for number in range(count))
    return Cost(steps, min(memory_of(make_call(number)) for number in range(count, 2 * count)))
