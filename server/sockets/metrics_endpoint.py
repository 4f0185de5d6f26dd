"""GET /metrics and /healthz over HTTP, on the loop that serves the clients: for Prometheus and for health checks.

Each connection has one request, which is all that a scraper needs.
"""

from __future__ import annotations

import asyncio
import os
from http import HTTPStatus
from typing import Final

from ... import __version__
from ..configuration.config import Config
from ..reports.info_source import Source
from .listener import ListenError, open_tcp_sockets

PATH: Final = "/metrics"
HEALTH_PATH: Final = "/healthz"

# The page at `/`, for a user who looks with a browser.
INDEX: Final = f"""\
<!doctype html><html lang=en><meta charset=utf-8><title>Headrace</title>
<h1>Headrace {__version__}</h1>
<p><a href="{PATH}">{PATH}</a>: the series, for Prometheus</p>
<p><a href="{HEALTH_PATH}">{HEALTH_PATH}</a>: status 200 while clients are served, 503 with the reason otherwise</p>
""".encode()
HTML: Final = "text/html; charset=utf-8"

# Bytes of a request line with its headers.
REQUEST_SIZE_MAX: Final = 16 * 1024

# Time for a request to arrive and its reply to be sent. Prometheus waits as long. Tests change it.
SECONDS_MAX = 10.0

# Requests answered at one time; further ones get status 503. Tests change it.
SCRAPE_COUNT_MAX = 8

# Connections whose request has not arrived. A further one replaces the oldest.
WAITING_COUNT_MAX: Final = 8

# Open files that the endpoint may need: connections, those that are accepted at the same moment only to be closed, and
# listening sockets. `maxclients` leaves so many unused.
DESCRIPTORS_COUNT: Final = 2 * (SCRAPE_COUNT_MAX + WAITING_COUNT_MAX)

LIBRARY_MISSING: Final = (
    "metrics-port needs the library prometheus-client: pip install 'headrace[metrics]', or set metrics-port 0"
)


class MetricsEndpoint:
    """Listens on `metrics-bind` and `metrics-port`."""

    def __init__(self, config: Config, source: Source) -> None:
        self._config = config
        # The values of the series come from it.
        self._source = source
        self._listeners: list[asyncio.Server] = []
        # Connections whose request has not arrived, oldest first.
        self._waiting: dict[asyncio.StreamWriter, None] = {}
        self._answering: set[asyncio.StreamWriter] = set()
        # The addresses on which it listens.
        self.addresses: list[tuple[str, int]] = []

    async def start(self) -> None:
        """Listen, if a port is set. Raises ListenError, also if the library is not installed."""
        config = self._config
        if not config.metrics_port:
            return
        try:
            from ..reports.metrics import render_steps
        except ImportError as missing:
            raise ListenError(LIBRARY_MISSING) from missing
        self._render_steps = render_steps
        try:
            sockets = open_tcp_sockets(os.fsdecode(config.metrics_bind).split(), config.metrics_port, WAITING_COUNT_MAX)
        except ListenError as error:
            # The remedies in the text are those of `port` and `bind`.
            raise ListenError(str(error).replace("(--", "(--metrics-")) from error
        for each in sockets:
            self.addresses.append(each.getsockname()[:2])
            listener = await asyncio.start_server(
                self._serve, sock=each, limit=REQUEST_SIZE_MAX, backlog=WAITING_COUNT_MAX
            )
            self._listeners.append(listener)

    def stop(self) -> None:
        """Accept no more requests."""
        for listener in self._listeners:
            listener.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._waiting) >= WAITING_COUNT_MAX:
            oldest = next(iter(self._waiting))
            del self._waiting[oldest]
            oldest.transport.abort()
        self._waiting[writer] = None
        writer.transport.set_write_buffer_limits(0)  # `drain` waits until everything was sent
        try:
            async with asyncio.timeout(SECONDS_MAX):
                await self._answer(reader, writer)
        except (TimeoutError, ConnectionError, asyncio.IncompleteReadError):
            pass  # The scraper has left, or was too slow, or was replaced by a newer connection.
        finally:
            self._waiting.pop(writer, None)
            self._answering.discard(writer)
            writer.transport.abort()  # not `close`, which waits for a peer that does not read

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        except asyncio.LimitOverrunError:
            await _reply(writer, _response(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE))
            return
        if writer not in self._waiting:
            return  # replaced by a newer connection
        del self._waiting[writer]
        first, *lines = head.split("\r\n")
        words = first.split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            response = _response(HTTPStatus.BAD_REQUEST)
        elif words[0] not in ("GET", "HEAD"):
            response = _response(HTTPStatus.METHOD_NOT_ALLOWED)
        elif (path := words[1].partition("?")[0]) not in (PATH, HEALTH_PATH, "/"):
            response = _response(HTTPStatus.NOT_FOUND)
        elif path == HEALTH_PATH:
            response = self._health(with_body=words[0] == "GET")
        elif path == "/":
            response = _response(HTTPStatus.OK, INDEX, HTML, with_body=words[0] == "GET")
        elif len(self._answering) >= SCRAPE_COUNT_MAX:
            response = _response(HTTPStatus.SERVICE_UNAVAILABLE)
        else:
            self._answering.add(writer)
            text, content_type = await self._render(_accept(lines))
            response = _response(HTTPStatus.OK, text, content_type, with_body=words[0] == "GET")
        await _reply(writer, response)

    def _health(self, *, with_body: bool) -> bytes:
        """Whether a client that connects now is served, and may write."""
        if self._source.context.loading:
            reason = "the dataset is being loaded"
        elif self._source.is_refusing_writes:
            reason = "writes are refused: the log or the snapshot cannot be written"
        else:
            return _response(HTTPStatus.OK, b"ok\n", with_body=with_body)
        return _response(HTTPStatus.SERVICE_UNAVAILABLE, reason.encode() + b"\n", with_body=with_body)

    async def _render(self, accept: str) -> tuple[bytes, str]:
        """The text of the series. Clients are served between the steps."""
        steps = self._render_steps(self._source, accept)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                result: tuple[bytes, str] = end.value
                return result
            await asyncio.sleep(0)


def _accept(lines: list[str]) -> str:
    """The values of all Accept headers."""
    named = [line.partition(":") for line in lines]
    return ",".join(value.strip() for name, _, value in named if name.strip().lower() == "accept")


async def _reply(writer: asyncio.StreamWriter, response: bytes) -> None:
    writer.write(response)
    await writer.drain()


def _response(
    status: HTTPStatus,
    body: bytes | None = None,
    content_type: str = "text/plain; charset=utf-8",
    *,
    with_body: bool = True,
) -> bytes:
    body = f"{status.phrase}: GET {PATH} or {HEALTH_PATH}\n".encode() if body is None else body
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode() + (body if with_body else b"")
