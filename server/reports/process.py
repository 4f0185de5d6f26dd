"""What the system knows about this process. Sizes are bytes."""

from __future__ import annotations

import platform
import resource
import sys


def resident_size() -> int:
    """Memory of this process that is in RAM; the peak where the system does not say."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except (OSError, ValueError, IndexError):
        return peak_size()


def peak_size() -> int:
    """The most memory this process ever had in RAM."""
    # Linux counts in KiB, macOS in bytes.
    unit_size = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit_size


def gcc_version() -> str:
    """Of the compiler that made this Python; where that was another one, what Redis says then."""
    compiler, _, version = platform.python_compiler().partition(" ")
    return version.split(" ")[0] if compiler == "GCC" else "0.0.0"
