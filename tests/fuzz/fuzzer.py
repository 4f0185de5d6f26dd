"""Drives a target: guided by coverage if `atheris` is installed, else with mutations of the seeds.

    python -m fuzz TARGET --seconds 60 [--seed 7]        from the folder `tests`

A finding ends the run with a traceback that names the input. Guided, it is also written to `fuzz-TARGET-crash-HASH`,
and the same command with `--input FILE` plays it again.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import random
import sys
import time
import tracemalloc
from functools import partial
from pathlib import Path

from fuzz.seeds import seeds_of
from fuzz.targets import MEMORY_FIXED, MEMORY_PER_BYTE_MAX, TARGETS, Finding, mutate

INPUT_SIZE_MAX = 4096
MEASURED_SHARE = 0.01
"""Share of the inputs during which every allocation of Python's is counted: that is slow."""
HEIGHT_FIXED = 32 << 20
"""Bytes by which one input may raise the height of the process, whatever its size: allocators take steps."""
STATUS = Path("/proc/self/status")


def fuzz(target: str, seconds: float, seed: int) -> int:
    """Mutated inputs for so long, the seeds first; how many. Raises what the target raises, the input in its notes."""
    rnd = random.Random(seed)
    seeds = list(seeds_of(target))
    end = time.monotonic() + seconds
    count = 0
    for data in seeds:
        run(target, data)
        count += 1
    while time.monotonic() < end:
        data = mutate(seeds, rnd)[:INPUT_SIZE_MAX]
        if rnd.random() < MEASURED_SHARE:
            measure(target, data)
        else:
            run(target, data)
        count += 1
    return count


def run(target: str, data: bytes) -> None:
    """One input; what is raised names it. A new height of the process must be explained by the size."""
    before = peaks()
    try:
        TARGETS[target](data)
    except BaseException as error:
        error.add_note(f"{target} on {data!r}")
        raise
    allowed = HEIGHT_FIXED + MEMORY_PER_BYTE_MAX[target] * len(data)
    for name, height in peaks().items():
        if height > before[name] + allowed:
            raise Finding(f"{len(data)} bytes raised {name} by {height - before[name]}: {target} on {data!r}")


def peaks() -> dict[str, int]:
    """The most bytes this process has had at any time: reserved (VmPeak), resident (VmHWM). Nothing but on Linux."""
    try:
        lines = STATUS.read_text().splitlines()
    except FileNotFoundError:
        return {}
    rows = (line.split() for line in lines if line.startswith(("VmPeak:", "VmHWM:")))
    return {name: int(size) * 1024 for name, size, _ in rows}


def measure(target: str, data: bytes) -> int:
    """One input: the bytes it took at the worst moment. Raises Finding if these are too many."""
    tracemalloc.start()
    try:
        run(target, data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    if peak > MEMORY_FIXED[target] + MEMORY_PER_BYTE_MAX[target] * len(data):
        raise Finding(f"{len(data)} bytes took {peak}: {target} on {data!r}")
    return peak


def _fuzz_guided(target: str, seconds: float, seed: int) -> None:
    """Guided by coverage; ends the process."""
    import atheris  # type: ignore[import-not-found,unused-ignore]

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
    atheris.Setup([sys.argv[0], *options, str(folder)], partial(run, target))
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
    elif importlib.util.find_spec("atheris") is not None:
        _fuzz_guided(options.target, options.seconds, options.seed)
    else:
        count = fuzz(options.target, options.seconds, options.seed)
        print(f"{options.target}: {count} inputs in {options.seconds:g} s, seed {options.seed}, without a finding")
