"""What the server reports to the program that started it: systemd, by datagrams to $NOTIFY_SOCKET, or upstart.

    supervised systemd   READY=1 when clients are served, STOPPING=1 at the stop, STATUS=.. in between, and WATCHDOG=1
                         as often as $WATCHDOG_USEC requires
    supervised upstart   the process stops itself (SIGSTOP) when clients are served; upstart continues it
    supervised auto      upstart if there is $UPSTART_JOB, else systemd if there is $NOTIFY_SOCKET, else nothing

While the server cannot run its loop because a file is loaded or saved, `keep_alive` is called between two parts of that
work. There is no RELOADING=1: SIGHUP is ignored, and no file is read again.
Source: sd_notify(3); redis.conf of Redis 8.10.2, and its behaviour.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Callable, Mapping, MutableMapping
from time import monotonic
from typing import Final

logger = logging.getLogger(__name__)

# A longer start or stop asks systemd for so much more time, this often.
EXTENSION_US: Final = 30_000_000
EXTENSION_INTERVAL_S: Final = 5.0

# More frequent reports would only fill the queue of systemd.
WATCHDOG_INTERVAL_S_MIN: Final = 0.01


def detect(supervised: bytes, environment: Mapping[str, str]) -> bytes:
    """The program to report to: `upstart`, `systemd`, or `no` if the environment does not have what it sets.

    If there is one, `daemonize` has no effect, as in Redis.
    """
    variables = {b"upstart": "UPSTART_JOB", b"systemd": "NOTIFY_SOCKET"}
    wanted = variables if supervised == b"auto" else (supervised,)
    return next((each for each in wanted if environment.get(variables.get(each, ""))), b"no")


class Supervisor:
    """Reports the life of this process, as `supervised` says. `environment` is that of the process; `clock_s` is
    monotonic.
    """

    def __init__(
        self, supervised: bytes, environment: MutableMapping[str, str], *, clock_s: Callable[[], float] = monotonic
    ) -> None:
        self._supervised = supervised
        self._environment = environment
        self._clock_s = clock_s
        self._mode = detect(supervised, environment)
        self._socket: socket.socket | None = None
        self._last_report_s = clock_s()
        # Whether the last report could not be sent. That is logged once.
        self._is_failing = False
        # Seconds between two reports to the watchdog; 0 if there is none.
        self._watchdog_s = self._watchdog_interval_s() if self._mode == b"systemd" else 0.0
        self._timer: asyncio.TimerHandle | None = None

    def _watchdog_interval_s(self) -> float:
        """Half of the time that systemd allows, as sd_watchdog_enabled(3) recommends."""
        usec, pid = self._environment.get("WATCHDOG_USEC", ""), self._environment.get("WATCHDOG_PID", "")
        if not usec.isdecimal() or (pid and pid != str(os.getpid())):
            return 0.0
        return max(int(usec) / 2e6, WATCHDOG_INTERVAL_S_MIN)

    @property
    def mode(self) -> str:
        """The program that is notified: `systemd`, `upstart` or `no`."""
        return self._mode.decode()

    # -- the life of the server ------------------------------------------------------------------

    def begin(self) -> None:
        """Report that the dataset is being loaded, and begin to report to the watchdog. Runs on the loop."""
        if self._mode == b"systemd":
            logger.info(
                "Supervised by systemd. Please make sure you set appropriate values for TimeoutStartSec and "
                "TimeoutStopSec in your service unit."
            )
            self._open()
            self._report("STATUS=Loading the dataset")
        elif self._supervised == b"systemd":
            logger.warning("systemd supervision error: NOTIFY_SOCKET not found!")
        elif self._supervised == b"upstart" and self._mode == b"no":
            logger.warning("Upstart supervision requested, but UPSTART_JOB not found!")
        if self._watchdog_s:
            self._watch()

    def ready(self) -> None:
        """Report that clients are served."""
        self._report("STATUS=Ready to accept connections", "READY=1")
        if self._mode == b"upstart":
            logger.info("supervised by upstart, will stop to signal readiness.")
            del self._environment["UPSTART_JOB"]
            os.kill(os.getpid(), signal.SIGSTOP)

    def stopping(self) -> None:
        """Report that the server ends."""
        self._report("STATUS=Stopping", "STOPPING=1")

    def end(self) -> None:
        """Report nothing more."""
        if self._timer is not None:
            self._timer.cancel()
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def keep_alive(self) -> None:
        """Ask for more time if the last report is old. Called often in long work that keeps the loop."""
        if self._socket is None:
            return
        interval_s = min(self._watchdog_s or EXTENSION_INTERVAL_S, EXTENSION_INTERVAL_S)
        if self._clock_s() - self._last_report_s >= interval_s:
            self._report(f"EXTEND_TIMEOUT_USEC={EXTENSION_US}", "WATCHDOG=1")

    # -- reports ---------------------------------------------------------------------------------

    def _watch(self) -> None:
        """Report to the watchdog, and again after half of its time."""
        self._report("WATCHDOG=1")
        self._timer = asyncio.get_running_loop().call_later(self._watchdog_s, self._watch)

    def _open(self) -> None:
        """Connect to $NOTIFY_SOCKET. A failure is logged, and nothing is reported."""
        path = self._environment["NOTIFY_SOCKET"]
        # A name after @ is in the abstract namespace.
        address = os.fsencode("\0" + path[1:] if path.startswith("@") else path)
        notified = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        # A full queue must not hold up the clients.
        notified.setblocking(False)
        try:
            notified.connect(address)
        except OSError as error:
            logger.warning("systemd supervision error: %s: %s", path, error.strerror)
            notified.close()
            return
        self._socket = notified

    def _report(self, *lines: str) -> None:
        if self._socket is None:
            return
        self._last_report_s = self._clock_s()
        try:
            self._socket.send("\n".join(lines).encode())
        except OSError as error:
            if not self._is_failing:
                logger.warning("systemd supervision error: %s", error.strerror)
            self._is_failing = True
        else:
            self._is_failing = False
