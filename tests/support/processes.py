"""Processes as the kernel shows them (/proc)."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def parents() -> dict[int, int]:
    """The parent of each process."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            found[int(folder.name)] = int(_stat(int(folder.name))[1])
    return found


def descendants(pid: int) -> Iterator[int]:
    """All processes below one."""
    known = parents()
    level = [pid]
    while level:
        level = [child for child, parent in known.items() if parent in level]
        yield from level


def command_of(pid: int) -> str:
    """The words that started a process, empty if it has gone."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
    return ""


def cpu_seconds(pid: int) -> tuple[float, float]:
    """Processor time that a process has taken, all its threads together, and that of its children that have ended."""
    with contextlib.suppress(OSError):
        user, system, user_below, system_below = (int(ticks) / TICKS_PER_S for ticks in _stat(pid)[11:15])
        return user + system, user_below + system_below
    return 0.0, 0.0


def resident_bytes(pid: int) -> int:
    """Memory that a process occupies now (VmRSS); 0 if it has gone."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
    return 0


def _stat(pid: int) -> list[str]:
    # The command's name is in parentheses and may itself contain blanks.
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def resident_mib(pid: int) -> float:
    """Resident memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise ProcessLookupError(pid)


def descriptors_count(pid: int) -> int:
    """Open file descriptors of a process."""
    return len(os.listdir(f"/proc/{pid}/fd"))
