"""Runs a target: guided by coverage if `atheris` is installed, otherwise with mutations of the seeds.

    python -m fuzz TARGET --seconds 60 [--seed 7]        from the folder `tests`

A finding ends the run with a traceback that shows the input. A guided run also writes the input to
`fuzz-TARGET-crash-HASH`, and the same command with `--input FILE` repeats it.
"""

from __future__ import annotations

import argparse
import ctypes
import faulthandler
import hashlib
import importlib.util
import os
import random
import re
import resource
import signal
import sys
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from fuzz import targets
from fuzz.inputs import DRAWN, DRAWN_SHARE, new_input
from fuzz.seeds import seeds_of
from fuzz.targets import MEMORY_FIXED, MEMORY_PER_BYTE_MAX, TARGETS, Finding

INPUT_SIZE_MAX = 4096
# Share of the inputs for which every allocation of Python is counted, which is slow.
MEASURED_SHARE = 0.01
# Bytes by which one input may raise the resident memory, in addition to what its size allows: allocators take steps.
RESIDENT_FIXED = 1 << 20
# Bytes that one input may reserve and not touch, in addition to what its size allows.
RESERVED_FIXED = 16 << 20
# One input cannot reserve more than this, in addition to what its size allows: it would harm other processes.
REFUSED_FIXED = 512 << 20
# Processor time that one input may take. A few bytes can request much work, and counting branches slows it down.
TIME_S_MAX = 2.0
# The process is ended after this time. This ends a call that never returns to Python, where TIME_S_MAX is checked.
HANG_S = 60
REPORT_INTERVAL_S = 5.0
PROCESS = Path("/proc/self")
LIBC = ctypes.CDLL(None)
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
# The smallest block that the C allocator returns at once: glibc's default, which would otherwise rise with use.
RETURNED_SIZE_MIN = 128 << 10
_MEMORY = re.compile(rb"^(VmPeak|VmSize|VmHWM):\s+([0-9]+) kB", re.MULTILINE)


def fuzz(target: str, seconds: float, seed: int) -> int:
    """Run random inputs, the seeds first, and return their number.

    What the target raises is raised again, with the input in its notes.
    """
    rnd = random.Random(seed)
    seeds = list(seeds_of(target))
    end = time.monotonic() + seconds
    count = 0
    for data in seeds:
        run(target, data)
        count += 1
    with _ending_a_hang(seconds + HANG_S):
        while time.monotonic() < end:
            data = new_input(target, seeds, rnd)[:INPUT_SIZE_MAX]
            if rnd.random() < MEASURED_SHARE:
                measure(target, data)
            else:
                run(target, data)
            count += 1
    return count


@contextmanager
def _ending_a_hang(seconds: float) -> Iterator[None]:
    """Within this context, a call that runs longer prints its traceback, and the process is ended."""
    faulthandler.dump_traceback_later(seconds, exit=True)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


def run(target: str, data: bytes) -> None:
    """Run one input. Raises Finding if it used more memory than its size allows.

    What the target raises is raised again, with the input in its notes.
    """
    excess = _run_watched(target, data)
    if excess:
        _return_unused_memory()
        excess = _run_watched(target, data)  # memory that an allocator, an import or a cache takes once does not count
    if excess:
        raise Finding(f"{len(data)} bytes raised what the process {excess}: {target} on {data!r}")


def _run_watched(target: str, data: bytes) -> str:
    """Run one input. Returns which memory it used too much of, or an empty text."""
    if not can_watch():
        _run_noted(target, data)
        return ""
    allowed = MEMORY_PER_BYTE_MAX[target] * len(data)
    with _reserving_at_most(REFUSED_FIXED + allowed) as before:
        _run_noted(target, data)
        after = Memory.now()
    if after.reserved_most > before.reserved_most and after.reserved_most > before.reserved + RESERVED_FIXED + allowed:
        return f"reserves by {after.reserved_most - before.reserved}"
    if after.held_most > before.held_most + RESIDENT_FIXED + MEMORY_FIXED[target] + allowed:
        return f"holds by {after.held_most - before.held_most}"
    return ""


def _return_unused_memory() -> None:
    """Return unused memory of the C allocator to the system: it would hide an input that takes as much."""
    if hasattr(LIBC, "malloc_trim"):
        LIBC.malloc_trim(0)


def _run_noted(target: str, data: bytes) -> None:
    try:
        with _taking_at_most(TIME_S_MAX):
            TARGETS[target](data)
    except BaseException as error:
        error.add_note(f"{target} on {data!r}")
        raise


@contextmanager
def _taking_at_most(seconds: float) -> Iterator[None]:
    """Within this context, more processor time raises Finding."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise Finding(f"took more than {seconds:g} s")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


class Memory(NamedTuple):
    """Bytes of the process, as the kernel counts them."""

    # The maximum since the process started.
    reserved_most: int
    reserved: int
    # The maximum since it was last reset.
    held_most: int

    @staticmethod
    def now() -> Memory:
        """The present values in /proc."""
        found = dict(_MEMORY.findall((PROCESS / "status").read_bytes()))
        return Memory(*(int(found[name]) * 1024 for name in (b"VmPeak", b"VmSize", b"VmHWM")))


@contextmanager
def _reserving_at_most(size: int) -> Iterator[Memory]:
    """Within this context, the process can reserve only so many more bytes. The maximum of resident memory is reset.

    The maximum of reserved memory cannot be reset. If it is much larger than what is reserved now, the difference is
    reserved within this context, so that a further reservation raises the maximum.
    """
    (PROCESS / "clear_refs").write_bytes(b"5")
    before = Memory.now()
    hidden_size = before.reserved_most - before.reserved - RESERVED_FIXED
    with mmap(-1, hidden_size, flags=MAP_PRIVATE | MAP_ANONYMOUS, prot=0) if hidden_size > 0 else nullcontext():
        if hidden_size > 0:
            before = Memory.now()
        limits = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (before.reserved + size, limits[1]))
        try:
            yield before
        finally:
            resource.setrlimit(resource.RLIMIT_AS, limits)


@cache
def can_watch() -> bool:
    """Whether the kernel reports the memory of the process and can reset the maximum, as Linux does.

    If so, the first call also makes the C allocator return freed memory at once.
    """
    if not os.access(PROCESS / "clear_refs", os.W_OK):
        return False
    if hasattr(LIBC, "mallopt"):
        LIBC.mallopt(M_TRIM_THRESHOLD, RETURNED_SIZE_MIN)
        LIBC.mallopt(M_MMAP_THRESHOLD, RETURNED_SIZE_MIN)
    return True


def measure(target: str, data: bytes) -> int:
    """Run one input, and return its peak of memory in bytes. Raises Finding if it is too high."""
    run(target, data)
    allowed = MEMORY_FIXED[target] + MEMORY_PER_BYTE_MAX[target] * len(data)
    peak = _peak(target, data)
    if peak > allowed:
        peak = _peak(target, data)  # memory that an import or a cache takes once does not count
    if peak > allowed:
        raise Finding(f"{len(data)} bytes took {peak}: {target} on {data!r}")
    return peak


def _peak(target: str, data: bytes) -> int:
    tracemalloc.start()
    try:
        _run_noted(target, data)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def can_be_guided() -> bool:
    """Whether atheris is installed."""
    return importlib.util.find_spec("atheris") is not None


def report(target: str) -> str:
    """A summary of the inputs so far, without their number."""
    return str(targets.tally) if target == "commands" else ""


def _fuzz_guided(target: str, seconds: float, seed: int) -> None:
    """Fuzz guided by coverage. Ends the process."""
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
        f"-timeout={HANG_S}",
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
        if (
            report(target) and time.monotonic() >= reported_s + REPORT_INTERVAL_S
        ):  # libFuzzer ends the process without a call
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
    """Run the command line that the docstring of this module describes."""
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
