"""From start to exit code: load the log, listen, wait for the end, and leave the log whole.

The order at the end is: refuse new connections, write and fsync the log, send what is still to be sent, close. A second
signal while that goes on ends the process at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..persistence.errors import LogError
from .connection import format_address
from .listener import open_tcp_sockets, open_unix_socket
from .logs import banner

if TYPE_CHECKING:
    from .app import Server

logger = logging.getLogger(__name__)

EXIT_FAILURE: Final = 1

GARBAGE_THRESHOLDS: Final = (50_000, 20, 100)
"""Allocations between collections: a store of millions of live objects makes each full collection a pause, and nothing
on the request path makes reference cycles."""


async def run(server: Server) -> int:
    """Serve until asked to stop; the exit code. Raises OSError where it cannot listen.

    The sockets come first: a second server on the same port must fail before it touches the log.
    """
    addresses = listen(server)
    try:
        server.open_log()
    except (LogError, OSError) as error:
        logger.error("%s", error)
        return EXIT_FAILURE
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_stop_signal, server, number)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GARBAGE_THRESHOLDS)
    await server.start_accepting()
    server.start_cron()
    pid_path = write_pid_file(server)
    logger.info("%s", banner(server.config, addresses))
    logger.info("Ready to accept connections")
    await server.stopped.wait()
    code = await server.stop()
    if pid_path is not None:
        pid_path.unlink(missing_ok=True)
    logger.info("Server is now ready to exit, bye bye...")
    return code


def listen(server: Server) -> list[str]:
    """Open the sockets that `bind`, `port` and `unixsocket` name; where they listen. Raises OSError."""
    config = server.config
    opened: list[str] = []
    if config.port:
        for each in open_tcp_sockets(config.bind.decode().split(), config.port, config.tcp_backlog):
            server.add_listening_socket(each)
            opened.append(format_address(each.getsockname(), b"").decode())
    if config.unixsocket:
        path = config.unixsocket.decode()
        server.add_listening_socket(open_unix_socket(path, config.unixsocketperm, config.tcp_backlog))
        opened.append(path)
    return opened


def on_stop_signal(server: Server, number: int) -> None:
    """SIGTERM or SIGINT: stop in good order; the second one does not wait for that."""
    if server.is_stop_signalled:
        logger.warning("You insist... exiting now.")
        os._exit(EXIT_FAILURE)
    server.is_stop_signalled = True
    logger.warning("Received %s scheduling shutdown...", signal.Signals(number).name)
    server.stopped.set()


def write_pid_file(server: Server) -> Path | None:
    """Write `pidfile` if one is named; failing to is not a reason not to serve."""
    if not server.config.pidfile:
        return None
    path = Path(os.fsdecode(server.config.pidfile))
    with contextlib.suppress(OSError):
        path.write_text(f"{os.getpid()}\n")
        return path
    logger.warning("Failed to write the pid file %s", path)
    return None
