"""MONITOR: sends each command that runs, as it was sent, to the monitoring clients."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from ..clients.client import Client
from ..clients.courier import Courier
from ..core.directives import Directives
from ..core.secrets import redact
from ..core.table import Flag, Row

# Commands that are not shown.
HIDDEN: Final = (Flag.ADMIN | Flag.SKIP_MONITOR).value

# Bytes that must be escaped in quotes.
SPECIAL: Final = re.compile(rb"[^ !#-\[\]-~]")
ESCAPES: Final = {
    b"\\": rb"\\",
    b'"': rb"\"",
    b"\n": rb"\n",
    b"\r": rb"\r",
    b"\t": rb"\t",
    b"\a": rb"\a",
    b"\b": rb"\b",
}


def quoted(word: bytes) -> bytes:
    """A word as redis-cli shows it: in quotes, unprintable bytes as `\\xHH`."""
    return b'"%b"' % SPECIAL.sub(lambda found: ESCAPES.get(found[0]) or b"\\x%02x" % found[0][0], word)


class Monitors:
    """The clients that watch."""

    def __init__(self, courier: Courier, config: Directives, *, clock_us: Callable[[], int]) -> None:
        self._courier = courier
        self._config = config
        self._clock_us = clock_us
        self.clients: dict[Client, None] = {}

    def add(self, client: Client) -> None:
        """Send a client every command from the next one on, until `remove`."""
        client.is_monitor = True
        self.clients[client] = None

    def remove(self, client: Client) -> None:
        """Stop sending commands to a client. A client that gets none is not an error."""
        if client.is_monitor:
            client.is_monitor = False
            del self.clients[client]

    def show(self, client: Client, row: Row, argv: list[bytes]) -> None:
        """Show a command that was run. Administrative commands and passwords are not shown."""
        if self.clients and not row.flag_bits & HIDDEN:
            self.show_now(client, row, argv)

    def show_now(self, client: Client, row: Row, argv: list[bytes]) -> None:
        """Show a command whatever its flags: a script is shown itself, before the commands that it calls."""
        if not self.clients:
            return
        address = b"lua" if client.is_script else client.address
        if client.is_unix:
            address = b"unix:" + self._config.unixsocket
        seconds, microseconds = divmod(self._clock_us(), 1_000_000)
        words = redact(row, argv)
        if SPECIAL.search(b"".join(words)) is None:
            shown = b'"%b"' % b'" "'.join(words)
        else:
            shown = b" ".join(map(quoted, words))
        line = b"+%d.%06d [%d %b] %b\r\n" % (seconds, microseconds, client.db.index, address, shown)
        self._courier.deliver(self.clients, (line,))
