"""A proxy that can stop passing bytes, as a network that is cut: neither side is notified."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading

from support.ports import free_port

RECEIVE_SIZE = 1 << 16
TURN_S = 0.02


class CutLink:
    """Passes what comes to its port on to another port. While it is cut, bytes and new connections wait."""

    def __init__(self, target_port: int, port: int | None = None) -> None:
        self.target_port = target_port
        self.port = port or free_port()
        self._passing = threading.Event()
        self._passing.set()
        self._is_closed = False
        self._others: dict[socket.socket, socket.socket] = {}
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def cut(self) -> None:
        """Pass nothing any more."""
        self._passing.clear()

    def heal(self) -> None:
        """Pass what has waited, and what comes."""
        self._passing.set()

    def close(self) -> None:
        """Close all connections."""
        self._is_closed = True
        self._thread.join()
        for one in [self._listener, *self._others]:
            one.close()
        self._selector.close()

    def _run(self) -> None:
        while not self._is_closed:
            if not self._passing.wait(TURN_S):
                continue
            for key, _ in self._selector.select(TURN_S):
                if not self._passing.is_set():
                    break
                if key.fileobj is self._listener:
                    self._accept()
                elif key.fileobj in self._others:
                    self._pass_on(key.fileobj)  # type: ignore[arg-type]

    def _accept(self) -> None:
        near, _ = self._listener.accept()
        try:
            far = socket.create_connection(("127.0.0.1", self.target_port), 5)
        except OSError:
            near.close()
            return
        for one, other in ((near, far), (far, near)):
            one.settimeout(5)
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._others[one] = other
            self._selector.register(one, selectors.EVENT_READ)

    def _pass_on(self, one: socket.socket) -> None:
        data = b""
        with contextlib.suppress(OSError):
            data = one.recv(RECEIVE_SIZE)
        if data:
            with contextlib.suppress(OSError):
                self._others[one].sendall(data)
                return
        for end in (one, self._others[one]):
            self._selector.unregister(end)
            del self._others[end]
            end.close()
