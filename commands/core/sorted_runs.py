"""A stable sort in steps: short runs are sorted one by one, and then merged range by range.

Source: "Parallel Sorting by Regular Sampling", Shi and Schaeffer, 1992, with one processor.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Generator
from typing import Any, Final

# Items of a run, and the most runs: each range that is merged looks for its begin and its end in all of them.
RUN_COUNT: Final = 8192
RUNS_MAX: Final = 128

# Returns what an item is sorted by; None for itself.
Key = Callable[[Any], Any] | None


def sort_in_steps(items: list[Any], key: Key, *, reverse: bool) -> Generator[None, None, list[Any]]:
    """The items in the order of their keys; those of equal keys keep their order, as in `sorted`."""
    if len(items) <= RUN_COUNT:
        return sorted(items, key=key, reverse=reverse)
    if reverse:
        items = items[::-1]
    runs: list[list[Any]] = []
    run_count = max(RUN_COUNT, len(items) // RUNS_MAX)
    for start in range(0, len(items), run_count):
        runs.append(sorted(items[start : start + run_count], key=key))
        yield
    ordered: list[Any] = []
    starts = [0] * len(runs)
    for pivot in _pivots(runs, key):
        smaller: list[Any] = []
        equal: list[Any] = []
        for number, run in enumerate(runs):
            middle = bisect_left(run, pivot, lo=starts[number], key=key)
            end = bisect_right(run, pivot, lo=middle, key=key)
            smaller += run[starts[number] : middle]
            equal += run[middle:end]
            starts[number] = end
        smaller.sort(key=key)
        ordered += smaller
        ordered += equal
        yield
    largest = [item for number, run in enumerate(runs) for item in run[starts[number] :]]
    largest.sort(key=key)
    ordered += largest
    # The items are spread in memory: to free all of them at once is slow.
    for run in runs:
        run.clear()
        yield
    if reverse:
        ordered.reverse()
    return ordered


def _pivots(runs: list[list[Any]], key: Key) -> list[Any]:
    """Different keys, ascending, that divide all items into about as many ranges as there are runs."""
    distance = max(len(runs[0]) // len(runs), 1)
    sample = [item for run in runs for item in run[::distance]]
    keys = sorted(sample if key is None else map(key, sample))
    picked = keys[len(runs) :: len(runs)]
    return [pivot for number, pivot in enumerate(picked) if not number or pivot != picked[number - 1]]
