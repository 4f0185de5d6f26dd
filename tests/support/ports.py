"""Ports for servers: none is given to two test processes of this machine, nor by the system to a client."""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from collections.abc import Iterator
from functools import cache
from itertools import cycle
from pathlib import Path
from typing import BinaryIO

FIRST = 10_000
BLOCK_COUNT = 100
# FIRST + BLOCK_COUNT * BLOCK_SIZE stays below 32,768, where Linux' ports for clients begin.
BLOCK_SIZE = 200


def free_port() -> int:
    """A port that no process listens on now."""
    ports = _ports(os.getpid())
    for _ in range(BLOCK_SIZE):
        port = next(ports)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise OSError(f"none of {BLOCK_SIZE} ports is free")


@cache
def _ports(pid: int) -> Iterator[int]:
    """The ports of a block that this process has locked, again and again."""
    start = FIRST + _locked_block(pid)[0] * BLOCK_SIZE
    return cycle(range(start, start + BLOCK_SIZE))


@cache
def _locked_block(_: int) -> tuple[int, BinaryIO]:
    """A block that no living process has, and its lock, which ends with the process."""
    folder = Path(tempfile.gettempdir()) / f"headrace-test-ports-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    for block in random.sample(range(BLOCK_COUNT), BLOCK_COUNT):
        lock = (folder / str(block)).open("wb")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            continue
        return block, lock
    raise OSError(f"{BLOCK_COUNT} test processes are running already")
