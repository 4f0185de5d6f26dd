"""What the system reports about this process. Sizes are bytes."""

from __future__ import annotations

import os
import platform
import resource
import sys
from functools import cache
from typing import Final

PAGE_SIZE: Final = resource.getpagesize()
# Seven numbers in one line.
STATM_SIZE_MAX: Final = 256


def resident_size() -> int:
    """Memory of this process that is in RAM; the peak if the system does not report it."""
    try:
        return int(os.pread(_statm(), STATM_SIZE_MAX, 0).split()[1]) * PAGE_SIZE
    except (OSError, ValueError, IndexError):
        return peak_size()


@cache
def _statm() -> int:
    """The descriptor of this process' figures, which stays open: to open the file takes far longer than to read it."""
    return os.open("/proc/self/statm", os.O_RDONLY)


@cache
def system_size() -> int:
    """Memory of the whole system."""
    return PAGE_SIZE * os.sysconf("SC_PHYS_PAGES")


def peak_size() -> int:
    """The peak of this process' memory in RAM."""
    # Linux counts in KiB, macOS in bytes.
    unit_size = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit_size


def cpu_seconds() -> tuple[float, float]:
    """Processor time of this process, all its threads together: (user, system)."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime, usage.ru_stime


def descriptors_count() -> int | None:
    """Open files and sockets of this process, None if the system does not report them."""
    try:
        return len(os.listdir("/proc/self/fd")) - 1  # the listing itself has one
    except OSError:
        return None


def descriptors_max() -> int | None:
    """How many this process may have, None for no limit."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if limit == resource.RLIM_INFINITY else limit


@cache
def system_name() -> str:
    """The name and the release of the operating system, and the machine."""
    system = os.uname()
    return f"{system.sysname} {system.release} {system.machine}"


@cache
def gcc_version() -> str:
    """The version of the GCC that built this Python; Redis' text for another compiler."""
    compiler, _, version = platform.python_compiler().partition(" ")
    return version.split(" ")[0] if compiler == "GCC" else "0.0.0"
