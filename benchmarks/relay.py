"""A port between a replica and its primary: what the primary sends is counted, and the connection can be cut."""

from __future__ import annotations

import socket
from contextlib import suppress
from threading import Lock, Thread
from typing import Final

RECEIVE_SIZE: Final = 1 << 18


class Relay:
    """Passes bytes between the clients of `port` and the primary, in threads of its own."""

    def __init__(self, primary_port: int) -> None:
        self._primary_port = primary_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        # Bytes of the primary that were passed on since the last cut.
        self.passed_size = 0
        self._is_cut = False
        self._open: list[socket.socket] = []
        self._lock = Lock()
        Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Relay:
        return self

    def __exit__(self, *_: object) -> None:
        self.cut()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def cut(self) -> None:
        """End all connections, and each new one at once."""
        with self._lock:
            self._is_cut = True
            for each in self._open:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
            self._open.clear()
            self.passed_size = 0

    def heal(self) -> None:
        """Let new connections through."""
        self._is_cut = False

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                with self._lock:
                    if self._is_cut:
                        near.close()
                        continue
                    far = socket.create_connection(("127.0.0.1", self._primary_port))
                    self._open += [near, far]
                Thread(target=self._pass, args=(near, far), daemon=True).start()
                Thread(target=self._pass, args=(far, near), kwargs={"is_counted": True}, daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, *, is_counted: bool = False) -> None:
        with suppress(OSError):
            while data := source.recv(RECEIVE_SIZE):
                with self._lock:
                    if is_counted and not self._is_cut:
                        self.passed_size += len(data)
                target.sendall(data)
        for each in (source, target):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
