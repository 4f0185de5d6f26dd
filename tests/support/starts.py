"""Attempts to start a server: what it prints and how it ends, within some hundredths of a second each.

Each attempt is a process of its own, forked from one that has imported everything.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import sys
from dataclasses import dataclass
from pathlib import Path

READY = b"Ready to accept connections"
DEADLINE_S = 30.0
POLL_S = 0.01

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["headrace.server.app", "headrace.server.main", "headrace.server.reports.metrics"])


@dataclass(frozen=True)
class Attempt:
    """The result of a start. `code` is None if the server was ready; it was ended then."""

    code: int | None
    output: str

    def require_clear_end(self) -> None:
        """Check that the server serves, or prints one line about why it does not."""
        assert "Traceback" not in self.output, self.output
        if self.code is not None:
            assert self.code == 1, (self.code, self.output)
            assert self.output.strip(), "it ended without a word"


def attempt(words: list[bytes], folder: Path) -> Attempt:
    """Start a server with these options in a folder of its own."""
    folder.mkdir(exist_ok=True)
    log = folder / "output"
    usual = [b"--dir", os.fsencode(folder), b"--port", b"0", b"--unixsocket", os.fsencode(folder / "s.sock")]
    process = _context.Process(target=_run, args=([*usual, b"--save", b"", *words], str(log)))
    process.start()
    waited_s = 0.0
    while process.exitcode is None and waited_s < DEADLINE_S:
        process.join(POLL_S)
        waited_s += POLL_S
        if log.exists() and READY in log.read_bytes():
            process.kill()
            process.join()
            return Attempt(None, log.read_text("utf-8", "replace"))
    assert process.exitcode is not None, f"neither ready nor ended: {log.read_text('utf-8', 'replace')}"
    return Attempt(process.exitcode, log.read_text("utf-8", "replace"))


def _run(words: list[bytes], log: str) -> None:
    from headrace.server.main import main

    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for standard in (1, 2):
        os.dup2(descriptor, standard)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError):
            stream.reconfigure(errors="backslashreplace", line_buffering=True)  # type: ignore[union-attr]
    sys.exit(main([os.fsdecode(word) for word in words]))
