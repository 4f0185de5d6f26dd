"""From start to exit code: load the log, listen, wait for a request to stop, and stop in order.

The order of a stop is: wait for replicas that lag (`stopping`), write and fsync the log, refuse new connections, send
the waiting replies, close. As in Redis, a second signal changes nothing about that, except a SIGINT, which ends the
process at once. If the dataset cannot be written, the server continues, and the next signal ends it nevertheless.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import resource
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, Final

from .. import __version__, build_form
from ..persistence.errors import LogError, explain
from ..persistence.files import open_regular, temporary_path
from .app import Server
from .configuration.config import ChangeRefused, Config
from .configuration.directives import BY_NAME
from .reports.logs import banner
from .requests.renaming import rename_commands
from .sockets.connection import format_address
from .sockets.listener import ListenError, UnixSocketFile, open_unix_socket
from .sockets.metrics_endpoint import DESCRIPTORS_COUNT, MetricsEndpoint
from .sockets.tcp_listener import TcpListener
from .sockets.tls import TlsError
from .sockets.tls_listener import TlsListener
from .storage.key_delay import WAIT_S_MAX, key_delay_s
from .storage.paths import dump_path
from .supervision import Supervisor

logger = logging.getLogger(__name__)

EXIT_FAILURE: Final = 1

STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)

# For so long after a failed stop, another signal ends the server nevertheless.
SECOND_SIGNAL_S: Final = 60

# Time between two turns in which clients get their LOADING errors.
LOADING_TURN_S: Final = 0.005

# Open files that are not clients, as Redis counts them: listening sockets, the log, snapshots, the loop's own. Files
# for metrics are added to these.
RESERVED_DESCRIPTORS_COUNT: Final = 32

# Allocations between garbage collections. A full collection of millions of live objects is a pause, and requests make
# no reference cycles.
GARBAGE_THRESHOLDS: Final = (50_000, 20, 100)


def serve(config: Config) -> int:
    """Run a server until it is asked to stop. Returns the exit code. Raises ListenError, ConfigError."""
    rename_commands(config.renamings)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(_start(config))


async def _start(config: Config) -> int:
    return await run(Server(config))


def new_event_loop() -> asyncio.AbstractEventLoop:
    """uvloop's loop where it is installed, else asyncio's. uvloop halves the cost of a read and a write."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


async def run(server: Server) -> int:
    """Serve until asked to stop. Returns the exit code. Raises ListenError.

    The sockets are opened first: a second server on the same port must fail before it touches the log.
    """
    limit_clients(server.config)
    addresses = listen(server)
    unix_socket = own_unix_socket(server.config)
    try:
        return await _run(server, addresses)
    finally:
        if unix_socket is not None:
            unix_socket.remove()


async def _run(server: Server, addresses: list[str]) -> int:
    metrics = MetricsEndpoint(server.config, server)
    await metrics.start()
    catch_stop_signals(server)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    supervisor = Supervisor(server.config.supervised, os.environ)
    supervisor.begin()
    server.supervised_by = supervisor.mode
    server.snapshots.while_saving = supervisor.keep_alive
    try:
        return await _run_reported(server, addresses, metrics, supervisor)
    finally:
        supervisor.end()


async def _run_reported(server: Server, addresses: list[str], metrics: MetricsEndpoint, supervisor: Supervisor) -> int:
    logger.info("Headrace %s starts, in the %s form", __version__, build_form())
    log_initialized(server.config)
    await server.start_accepting()
    keep_objects()
    gc.disable()
    try:
        await load(server, supervisor.keep_alive)
    except (LogError, OSError) as error:
        logger.error("%s", explain(error))
        server.drop_replies()
        return EXIT_FAILURE
    if not server.stopped.is_set():
        await _serve(server, addresses, supervisor.ready)
    supervisor.stopping()
    metrics.stop()
    code = await server.stop()
    logger.info("Server is now ready to exit, bye bye...")
    return code


async def _serve(server: Server, addresses: list[str], report_ready: Callable[[], None]) -> None:
    """Serve the loaded dataset until asked to stop."""
    # The objects of the load stay. Looking for cycles among them would take as long as half of a load of short streams.
    gc.freeze()
    gc.enable()
    gc.set_threshold(*GARBAGE_THRESHOLDS)
    server.periodic.start()
    pid_path = write_pid_file(server)
    logger.info("%s", banner(server.config, addresses))
    warn_of_folder(server.config)
    logger.info("Ready to accept connections")
    report_ready()
    await server.stopped.wait()
    if pid_path is not None:
        pid_path.unlink(missing_ok=True)


def keep_objects() -> None:
    """Exclude the objects that exist now from garbage collections, after one that frees what is in cycles."""
    gc.collect()
    gc.freeze()


def log_initialized(config: Config) -> None:
    """Log that the ports are open, in Redis' words, which its tests and tools wait for. The PID is in its logo."""
    logger.info("Running mode=standalone, port=%d. PID: %d", config.port or config.tls_port, os.getpid())
    logger.info("Server initialized")


def warn_of_folder(config: Config) -> None:
    """Warn at the start, rather than at the stop, of a folder in which no snapshot can be written."""
    if config.save and not config.appendonly and not os.access(config.dir or b".", os.W_OK):
        logger.warning(
            "Snapshots cannot be written to %s: choose another folder (--dir), or save no snapshots (--save '')",
            os.fsdecode(config.dir),
        )


def limit_clients(config: Config) -> None:
    """Limit `maxclients`, now and after each change, to what this process may open."""

    others_count = RESERVED_DESCRIPTORS_COUNT + (DESCRIPTORS_COUNT if config.metrics_port else 0)

    def check(wanted_count: int) -> None:
        count = allow_clients(wanted_count, others_count)
        if count < wanted_count:
            raise ChangeRefused(
                f"The operating system is not able to handle the specified number of clients, try with {count}"
            )

    count = allow_clients(config.maxclients, others_count)
    if count < config.maxclients:
        logger.warning(
            "Current maximum open files is %d. maxclients has been reduced from %d to %d to compensate for low ulimit. "
            "If you need higher maxclients increase 'ulimit -n'.",
            resource.getrlimit(resource.RLIMIT_NOFILE)[0],
            config.maxclients,
            count,
        )
        config.assign(BY_NAME[b"maxclients"], [b"%d" % count])
    config.before_change("maxclients", check)


def allow_clients(wanted_count: int, others_count: int = RESERVED_DESCRIPTORS_COUNT) -> int:
    """Raise the limit on open files for `wanted_count` clients and `others_count` other files, as far as the system
    permits. Returns how many clients the limit allows.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted_count + others_count
    if soft == resource.RLIM_INFINITY:
        return wanted_count
    if hard == resource.RLIM_INFINITY:
        attempts = [(needed, hard)]
    else:
        attempts = [(needed, max(needed, hard)), (min(needed, hard), hard)]  # the first may need a privilege
    for limits in attempts:
        if soft < needed:
            with contextlib.suppress(OSError, ValueError):
                resource.setrlimit(resource.RLIMIT_NOFILE, limits)
                soft = limits[0]
    return max(1, min(wanted_count, soft - others_count))


async def load(server: Server, keep_alive: Callable[[], None] = lambda: None) -> None:
    """Load the dataset, and answer clients in between; `keep_alive` is called as often. Raises LogError, OSError."""
    turn_end_s = perf_counter() + LOADING_TURN_S
    keys_before = 0
    for _ in server.load():
        if server.config.key_load_delay:
            keys_count = sum(len(db.keys) for db in server.store.databases)
            await wait_for_keys(server, float(keys_count - keys_before))
            keys_before = keys_count
        if perf_counter() >= turn_end_s:
            keep_alive()
            await asyncio.sleep(0)
            if server.stopped.is_set():
                return
            turn_end_s = perf_counter() + LOADING_TURN_S


async def wait_for_keys(server: Server, keys_count: float) -> None:
    """Wait as long as so many keys cost in addition (`key-load-delay`), until the stop or a change of the directive."""
    while keys_count > 0 and not server.stopped.is_set():
        delay_s = key_delay_s(server.config.key_load_delay)
        if not delay_s:
            return
        wait_s = min(WAIT_S_MAX, keys_count * delay_s)
        keys_count -= wait_s / delay_s
        await asyncio.sleep(wait_s)


def listen(server: Server) -> list[str]:
    """Open the sockets that `bind`, `port`, `tls-port` and `unixsocket` name. Returns their addresses. Raises
    ListenError.
    """
    config = server.config
    opened: list[str] = []
    tls = listen_over_tls(server) if config.tls_port else None
    server.acceptor.tcp = tcp = TcpListener(config, tls, server.acceptor.new_connection)
    opened += [format_address(each.getsockname(), b"").decode() for each in tcp.sockets]
    opened += [format_address(each.getsockname(), b"").decode() + " (TLS)" for each in tcp.tls_sockets]
    if config.unixsocket:
        path = os.fsdecode(config.unixsocket)
        server.acceptor.add(open_unix_socket(path, config.unixsocketperm, config.tcp_backlog))
        opened.append(path)
    if not opened:
        raise ListenError(
            f"Configured to not listen anywhere, exiting: this machine has none of {config.bind.decode()}"
        )
    return opened


def own_unix_socket(config: Config) -> UnixSocketFile | None:
    """The file of the Unix socket that has just been opened."""
    return UnixSocketFile(Path(os.fsdecode(config.unixsocket))) if config.unixsocket else None


def listen_over_tls(server: Server) -> TlsListener:
    """Returns a TLS listener with valid certificates. Raises ListenError."""
    try:
        return TlsListener(
            server.config, server.stats, server.acceptor.new_connection, lambda: len(server.dispatcher.sessions)
        )
    except TlsError as error:
        raise ListenError(f"Failed to configure TLS, aborting: {error}") from None


def on_stop_signal(server: Server, number: int, *, is_second: bool = False) -> None:
    """Stop the server in order, on SIGTERM or SIGINT, after a wait for replicas that lag.

    `is_second`: a stop has failed just before.
    """
    stopping = server.stopping
    if stopping.wait is not None and stopping.is_signalled and number == signal.SIGINT:
        exit_without_saving(server)
    log_stop_signal(number)
    if server.stopped.is_set():
        return
    stopping.is_signalled = True
    options = server.config.shutdown_on_sigint if number == signal.SIGINT else server.config.shutdown_on_sigterm
    words = options.split()
    stopping.begin(partial(finish_stop, server, words, is_second=is_second), is_now=is_second or b"now" in words)


def finish_stop(server: Server, words: list[bytes], *, is_second: bool) -> bool:
    """Write everything, as the words of the directive say, and end the server. Returns False if it cannot end.

    `is_second`: a stop has failed just before.
    """
    # Signals that arrive from here on bypass the loop. The loop waits while a snapshot is written. If that failed, the
    # loop would take a signal that arrived before the failure for one that arrived after it.
    wakeup_descriptor = signal.set_wakeup_fd(-1)
    for each in STOP_SIGNALS:
        signal.signal(each, partial(on_signal_while_stopping, server))
    save = None if b"save" not in words and b"nosave" not in words else b"save" in words
    if not server.prepare_stop(save):
        if not is_second and b"force" not in words:
            logger.error(
                "Errors trying to shut down the server, so it continues: the line before says why. Another signal "
                "within %d seconds ends it without saving the dataset.",
                SECOND_SIGNAL_S,
            )
            signal.set_wakeup_fd(wakeup_descriptor, warn_on_full_buffer=False)
            catch_stop_signals(server, is_second=True)
            asyncio.get_running_loop().call_later(SECOND_SIGNAL_S, catch_stop_signals, server)
            return False
        logger.error("Exiting without saving the dataset.")
        server.exit_code = EXIT_FAILURE
    server.end()
    return True


def log_stop_signal(number: int) -> None:
    """Log the line of Redis for a signal that asks for a stop."""
    logger.warning("Received %s scheduling shutdown...", signal.Signals(number).name)


def on_signal_while_stopping(server: Server, number: int, _: object) -> None:
    """Handle a signal after the one that stops the server: SIGINT, as Ctrl-C sends it, ends the process at once.

    SIGTERM changes nothing: a process manager may send it twice, once to the process and once to its group.
    """
    if number == signal.SIGINT:
        exit_without_saving(server)
    log_stop_signal(number)


def exit_without_saving(server: Server) -> None:
    """Exit at once, without a snapshot; remove the part of one that was written."""
    logger.warning("You insist... exiting now.")
    with contextlib.suppress(OSError):
        server.log_keeper.files.remove(temporary_path(dump_path(server.config)))
    os._exit(EXIT_FAILURE)


def catch_stop_signals(server: Server, *, is_second: bool = False) -> None:
    """Handle SIGTERM and SIGINT in the loop, and at once in a script that keeps the loop waiting."""
    loop = asyncio.get_running_loop()
    server.context.scripts.is_stopping = False
    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, partial(on_stop_signal, server, number, is_second=is_second))
        signal.signal(number, partial(_end_script, server, signal.getsignal(number)))


def _end_script(server: Server, to_loop: Any, *received: Any) -> None:
    """Handle a stop signal while a script runs: end a script that has written nothing, then pass the signal to the
    loop.

    If a second signal arrives before the loop gets the first, and it is SIGINT, it must not wait for the script either.
    """
    if server.context.scripts.is_stopping and received[0] == signal.SIGINT:
        exit_without_saving(server)
    server.context.scripts.is_stopping = True
    to_loop(*received)


def write_pid_file(server: Server) -> Path | None:
    """Write `pidfile` if one is named, but not through a link. A failure does not stop the server."""
    if not server.config.pidfile:
        return None
    path = Path(os.fsdecode(server.config.pidfile))
    try:
        descriptor = open_regular(str(path), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW)
        with os.fdopen(descriptor, "w") as file:
            file.write(f"{os.getpid()}\n")
    except OSError as error:
        logger.warning("Failed to write the pid file (pidfile): %s", explain(error))
        return None
    return path
