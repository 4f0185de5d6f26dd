"""A port before a primary that passes only so many bytes of what it sends, so that a step of replication lasts."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

# Small, so that a snapshot of some MiB does not fit into the buffers of the system.
RECEIVE_SIZE = 1 << 14


class HeldLink:
    """Passes what comes to `port` on to the primary, and the first `passed_max` bytes of its answers, all connections
    together. The others wait until `release`. A connection of which one side has gone is closed.
    """

    def __init__(self, target_port: int, passed_max: int) -> None:
        self._target_port = target_port
        self._left = passed_max
        self._is_released = threading.Event()
        self._is_closed = False
        self._open: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def is_holding(self) -> bool:
        """Whether there were more bytes than may pass."""
        return self._left == 0

    def release(self) -> None:
        """Pass what has waited, and all that comes."""
        self._is_released.set()

    def close(self) -> None:
        """Close all connections."""
        self._is_closed = True
        self.release()
        for each in [self._listener, *self._open]:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        while not self._is_closed:
            with suppress(OSError):
                near, _ = self._listener.accept()
                self._open.append(near)
                self._connect(near)

    def _connect(self, near: socket.socket) -> None:
        far = socket.socket()
        self._open.append(far)
        far.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_SIZE)
        try:
            far.connect(("127.0.0.1", self._target_port))
        except OSError:
            near.close()
            return
        threading.Thread(target=self._pass, args=(near, far), daemon=True).start()
        threading.Thread(target=self._pass_back, args=(far, near), daemon=True).start()

    def _pass(self, near: socket.socket, far: socket.socket) -> None:
        with suppress(OSError):
            while data := near.recv(RECEIVE_SIZE):
                far.sendall(data)
        end(near, far)

    def _pass_back(self, far: socket.socket, near: socket.socket) -> None:
        with suppress(OSError):
            while data := far.recv(RECEIVE_SIZE):
                if not self._is_released.is_set():
                    passed, data = data[: self._left], data[self._left :]
                    self._left -= len(passed)
                    near.sendall(passed)
                    if data:
                        self._is_released.wait()
                near.sendall(data)
        end(near, far)


def end(*ends: socket.socket) -> None:
    """End a connection on both sides."""
    for each in ends:
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
