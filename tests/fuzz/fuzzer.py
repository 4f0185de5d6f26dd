"""Drives a target: guided by coverage if `atheris` is installed, else with mutations of the seeds.

    python -m fuzz TARGET --seconds 60 [--seed 7]        from the folder `tests`

A finding ends the run with a traceback that names the input. Guided, it is also written to `fuzz-TARGET-crash-HASH`,
and the same command with `--input FILE` plays it again.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import os
import random
import resource
import sys
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fuzz import targets
from fuzz.inputs import DRAWN, DRAWN_SHARE, new_input
from fuzz.seeds import seeds_of
from fuzz.targets import MEMORY_FIXED, MEMORY_PER_BYTE_MAX, TARGETS, Finding

INPUT_SIZE_MAX = 4096
MEASURED_SHARE = 0.01
"""Share of the inputs during which every allocation of Python's is counted: that is slow."""
HEIGHT_FIXED = 32 << 20
"""Bytes by which one input may raise what the process holds, whatever its size: allocators take steps."""
RESERVED_FIXED = 512 << 20
"""Bytes that it may reserve and not touch, likewise: an arena of a thread's is 128 MiB."""
REPORT_INTERVAL_S = 5.0
PROCESS = Path("/proc/self")


def fuzz(target: str, seconds: float, seed: int) -> int:
    """Made-up inputs for so long, the seeds first; how many. Raises what the target raises, the input in its notes."""
    rnd = random.Random(seed)
    seeds = list(seeds_of(target))
    end = time.monotonic() + seconds
    count = 0
    for data in seeds:
        run(target, data)
        count += 1
    while time.monotonic() < end:
        data = new_input(target, seeds, rnd)[:INPUT_SIZE_MAX]
        if rnd.random() < MEASURED_SHARE:
            measure(target, data)
        else:
            run(target, data)
        count += 1
    return count


def run(target: str, data: bytes) -> None:
    """One input; what is raised names it. What the process held and reserved meanwhile must suit its size."""
    allowed = MEMORY_PER_BYTE_MAX[target] * len(data)
    try:
        with _reserving_at_most(RESERVED_FIXED + allowed):
            before = _forget_height()
            TARGETS[target](data)
            height = _height()
    except BaseException as error:
        error.add_note(f"{target} on {data!r}")
        raise
    if height > before + HEIGHT_FIXED + allowed:
        raise Finding(f"{len(data)} bytes raised what the process holds by {height - before}: {target} on {data!r}")


@contextmanager
def _reserving_at_most(size: int) -> Iterator[None]:
    """Memory beyond so many bytes more is refused. Where the process is not told its size, nothing is."""
    if not can_watch():
        yield
        return
    pages_count = int((PROCESS / "statm").read_text().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages_count * resource.getpagesize() + size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def can_watch() -> bool:
    """Whether the kernel says how much memory the process has, and forgets how much it had: Linux."""
    return os.access(PROCESS / "clear_refs", os.W_OK)


def _forget_height() -> int:
    """From now on the most that the process has held is what it holds now: that, in bytes."""
    if can_watch():
        (PROCESS / "clear_refs").write_text("5")
    return _height()


def _height() -> int:
    """The most bytes that the process has held (VmHWM). Nothing but on Linux."""
    if not can_watch():
        return 0
    lines = (PROCESS / "status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


def measure(target: str, data: bytes) -> int:
    """One input: the bytes it took at the worst moment. Raises Finding if these are too many."""
    allowed = MEMORY_FIXED[target] + MEMORY_PER_BYTE_MAX[target] * len(data)
    peak = _peak(target, data)
    if peak > allowed:
        peak = _peak(target, data)  # what is taken once, by an import or a cache, is not the input's
    if peak > allowed:
        raise Finding(f"{len(data)} bytes took {peak}: {target} on {data!r}")
    return peak


def _peak(target: str, data: bytes) -> int:
    tracemalloc.start()
    try:
        run(target, data)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def can_be_guided() -> bool:
    """Whether atheris is installed."""
    return importlib.util.find_spec("atheris") is not None


def report(target: str) -> str:
    """What is to be said of the inputs so far, beside their number."""
    return str(targets.tally) if target == "commands" else ""


def _fuzz_guided(target: str, seconds: float, seed: int) -> None:
    """Guided by coverage; ends the process."""
    import atheris  # type: ignore[import-not-found,unused-ignore]

    rnd = random.Random(seed)
    folder = Path(f"fuzz-corpus-{target}")
    folder.mkdir(exist_ok=True)
    for data in seeds_of(target):
        (folder / hashlib.sha1(data).hexdigest()).write_bytes(data)
    options = [
        f"-max_total_time={int(seconds)}",
        f"-seed={seed}",
        f"-max_len={INPUT_SIZE_MAX}",
        f"-artifact_prefix=fuzz-{target}-",
        "-print_final_stats=1",
    ]
    reported_s = time.monotonic()

    def run_or_measure(data: bytes) -> None:
        nonlocal reported_s
        if rnd.random() < MEASURED_SHARE:
            measure(target, data)
        else:
            run(target, data)
        if report(target) and time.monotonic() >= reported_s + REPORT_INTERVAL_S:  # nothing of ours is run at the end
            reported_s = time.monotonic()
            print(report(target), flush=True)

    def draw_or_mutate(data: bytes, size_max: int, seed: int) -> bytes:
        drawn = random.Random(seed)
        if drawn.random() < DRAWN_SHARE:
            return DRAWN[target](drawn)[:size_max]
        return bytes(atheris.Mutate(data, size_max))

    mutator = {"custom_mutator": draw_or_mutate} if target in DRAWN else {}
    atheris.Setup([sys.argv[0], *options, str(folder)], run_or_measure, **mutator)
    atheris.Fuzz()


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m fuzz")
    parser.add_argument("target", choices=sorted(TARGETS))
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--input", type=Path)
    options = parser.parse_args()
    if options.input is not None:
        print(f"{measure(options.target, options.input.read_bytes())} bytes at the worst moment")
    elif can_be_guided():
        _fuzz_guided(options.target, options.seconds, options.seed)
    else:
        count = fuzz(options.target, options.seconds, options.seed)
        print(f"{options.target}: {count} inputs in {options.seconds:g} s, seed {options.seed}, without a finding")
        print(report(options.target))
