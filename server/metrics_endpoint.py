"""GET /metrics over HTTP, served by the loop that serves the clients: for Prometheus, not for browsers or the open net.

One request a connection, which is all that a scraper needs.
"""

from __future__ import annotations

import asyncio
import os
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from .listener import ListenError, open_tcp_sockets

if TYPE_CHECKING:
    from .app import Server

PATH: Final = "/metrics"

REQUEST_SIZE_MAX: Final = 16 * 1024
"""Bytes of a request line with its headers."""

SECONDS_MAX: Final = 10.0
"""For a request to arrive and its answer to leave: Prometheus gives up then, too."""

SCRAPE_COUNT_MAX: Final = 8
"""Connections at one time; further ones are told to come later."""

LIBRARY_MISSING: Final = (
    "metrics-port needs the library prometheus-client: pip install 'headrace[metrics]', or set metrics-port 0"
)


class MetricsEndpoint:
    """Listens on `metrics-bind` and `metrics-port`."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._listeners: list[asyncio.Server] = []
        self._scrape_count = 0
        self.addresses: list[tuple[str, int]] = []
        """Where it listens."""

    async def start(self) -> None:
        """Listen, if a port is set. Raises ListenError, also if the library is not installed."""
        config = self._server.config
        if not config.metrics_port:
            return
        try:
            from .metrics import render_steps
        except ImportError as error:
            raise ListenError(LIBRARY_MISSING) from error
        self._render_steps = render_steps
        try:
            sockets = open_tcp_sockets(os.fsdecode(config.metrics_bind).split(), config.metrics_port, SCRAPE_COUNT_MAX)
        except ListenError as error:
            # Its remedies are those of `port` and `bind`.
            raise ListenError(str(error).replace("(--", "(--metrics-")) from error
        for each in sockets:
            self.addresses.append(each.getsockname()[:2])
            self._listeners.append(await asyncio.start_server(self._serve, sock=each, limit=REQUEST_SIZE_MAX))

    def stop(self) -> None:
        """Take no more requests."""
        for listener in self._listeners:
            listener.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._scrape_count += 1
        try:
            async with asyncio.timeout(SECONDS_MAX):
                await self._answer(reader, writer)
        except (TimeoutError, ConnectionError, asyncio.IncompleteReadError):
            pass  # The scraper is gone, or too slow to be answered.
        finally:
            self._scrape_count -= 1
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        except asyncio.LimitOverrunError:
            await _reply(writer, HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
            return
        first, *lines = head.split("\r\n")
        words = first.split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            await _reply(writer, HTTPStatus.BAD_REQUEST)
        elif words[0] not in ("GET", "HEAD"):
            await _reply(writer, HTTPStatus.METHOD_NOT_ALLOWED)
        elif words[1].partition("?")[0] != PATH:
            await _reply(writer, HTTPStatus.NOT_FOUND)
        elif self._scrape_count > SCRAPE_COUNT_MAX:
            await _reply(writer, HTTPStatus.SERVICE_UNAVAILABLE)
        else:
            text, content_type = await self._render(_accept(lines))
            await _reply(writer, HTTPStatus.OK, text, content_type, with_body=words[0] == "GET")

    async def _render(self, accept: str) -> tuple[bytes, str]:
        """The text; clients are served between its steps."""
        steps = self._render_steps(self._server, accept)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                result: tuple[bytes, str] = end.value
                return result
            await asyncio.sleep(0)


def _accept(lines: list[str]) -> str:
    """The values of all Accept headers."""
    named = (line.partition(":") for line in lines)
    return ",".join(value.strip() for name, _, value in named if name.strip().lower() == "accept")


async def _reply(
    writer: asyncio.StreamWriter,
    status: HTTPStatus,
    body: bytes | None = None,
    content_type: str = "text/plain; charset=utf-8",
    *,
    with_body: bool = True,
) -> None:
    body = f"{status.phrase}: GET {PATH}\n".encode() if body is None else body
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
        "Connection: close\r\n\r\n"
    )
    writer.write(head.encode() + (body if with_body else b""))
    await writer.drain()
