"""One client's socket: reads requests, passes them to the dispatcher, writes replies, and decides when to wait.

No requests are run while the client is blocked, held by CLIENT PAUSE, or does not read its replies. Requests that
arrive meanwhile are kept as bytes. The socket of a blocked or held client is still read, up to
`client-query-buffer-limit`, so that the end of its peer is noticed. The socket of any other client is not read past
`READ_AHEAD_SIZE`.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from dataclasses import dataclass
from itertools import takewhile
from time import perf_counter_ns
from typing import Any, Final, cast

from ...commands.clients.client import Client, ReplyMode
from ...commands.execution.context import Context
from ...commands.execution.enforcement import must_authenticate
from ...persistence.grammar.streams import addition_splitter
from ...protocol.reader import UNAUTHENTICATED_BUFFER_SIZE_MAX, RequestReader
from ..configuration.config import Config
from ..replication.link import Follower
from ..reports.activity import (
    log_accepted,
    log_broken,
    log_closed_by_peer,
    log_over_query_limit,
    log_protocol_error,
)
from ..reports.stats import Stats
from ..requests.client_limits import UNAUTHENTICATED_OUTPUT_SIZE_MAX, ClientLimits
from ..requests.cross_protocol import CrossProtocol
from ..requests.dispatch import Dispatcher
from ..requests.session import Session
from ..requests.turns import SLICE_COUNT, Turns
from .closed_transport import CLOSED_TRANSPORT, close_at_once

# Bytes of requests kept for a client that has a long pipeline or does not read its replies. With more, its socket is
# not read until they are run. With one more read they are still below the smallest `client-query-buffer-limit`.
READ_AHEAD_SIZE: Final = 256 * 1024

# Bytes of those that are parsed at once: parsed requests take several times the memory of their bytes.
READ_SIZE: Final = 64 * 1024

# Unsent bytes at which a client's requests are no longer run: enough for a range of a thousand entries at full speed.
OUTPUT_SIZE_HIGH: Final = 256 * 1024

# Unsent bytes at which they are run again.
OUTPUT_SIZE_LOW: Final = 64 * 1024

# Time for which a long reply is produced before other clients have their turn.
PRODUCTION_NS: Final = 4_000_000

# Bytes of a long reply that are sent at once.
PRODUCTION_SIZE: Final = 256 * 1024


def format_address(address: Any, path: bytes) -> bytes:
    """The address as CLIENT LIST shows it: `ip:port`; for a Unix socket its path, with port 0."""
    if not isinstance(address, tuple):
        return path + b":0"
    host, port = address[0], address[1]
    return (f"[{host}]:{port}" if ":" in host else f"{host}:{port}").encode()


@dataclass
class Shared:
    """The parts of the server that all connections use."""

    config: Config
    context: Context
    dispatcher: Dispatcher
    turns: Turns
    limits: ClientLimits
    stats: Stats
    cross_protocol: CrossProtocol
    clock: Callable[[], int]
    # Returns a number that no client has had before.
    next_client_id: Callable[[], int]


class Connection(Session):
    """The asyncio side of a session. It has the methods of `asyncio.Protocol`, without the base class, which no
    compiled class can have.
    """

    def __init__(self, shared: Shared, admit: Callable[[Connection], bytes | None]) -> None:
        self.shared = shared
        # Admits a connection; else returns what the client is sent before the connection closes.
        self._admit = admit
        self.reader = RequestReader(split=addition_splitter())
        self.transport: asyncio.Transport
        self.is_closed = False
        # With TLS, the connection ends when the peer ends its side: no more replies can be sent.
        self.is_tls = False
        self.is_write_paused = False
        self._is_reading_paused = False
        self._is_transport_full = False
        self._is_production_scheduled = False
        # The peer has ended its side, or has sent something that cannot be parsed; the replies so far are still sent.
        self._is_ending = False
        self._has_peer_ended = False
        # What is notified about a peer that is a replica.
        self.follower: Follower | None = None
        # What `has_taken_output` last saw.
        self._seen_taken_size = 0
        Session.__init__(self, Client(shared.next_client_id()))

    # -- called by the loop ----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept the client, or refuse it."""
        self.transport = cast(asyncio.Transport, transport)
        self.configure_output()
        self.is_tls = transport.get_extra_info("ssl_object") is not None
        client = self.client
        client.measure_output = self.output_size
        connected_socket: socket.socket | None = transport.get_extra_info("socket")
        if connected_socket is not None:
            client.descriptor = connected_socket.fileno()
            client.is_unix = connected_socket.family == socket.AF_UNIX
            if not client.is_unix:
                self._configure_socket(connected_socket)
        unix_path: bytes = self.shared.config.unixsocket
        client.address = format_address(transport.get_extra_info("peername"), unix_path)
        client.local_address = format_address(transport.get_extra_info("sockname"), unix_path)
        log_accepted(client)
        refusal = self._admit(self)
        if refusal is not None:
            self.is_closed = True
            self.transport.write(refusal)
            self.transport.close()
            return
        self.configure_reader()

    def _configure_socket(self, connected_socket: socket.socket) -> None:
        connected_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        keepalive_s: int = self.shared.config.tcp_keepalive
        if keepalive_s:
            connected_socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            connected_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, keepalive_s)
            connected_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, max(1, keepalive_s // 3))
            connected_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)

    @property
    def must_log_in(self) -> bool:
        """Whether the client must log in and has not."""
        return must_authenticate(self.shared.context, self.client)

    def configure_reader(self) -> None:
        """Set the reader's present limits."""
        config = self.shared.config
        self.reader.bulk_size_max = config.proto_max_bulk_len
        self.reader.query_buffer_size_max = config.client_query_buffer_limit
        if self.must_log_in is self.reader.authenticated:
            self.reader.authenticated = not self.reader.authenticated
            self.configure_output()

    def configure_output(self) -> None:
        """Make the transport report when its buffer reaches the smallest limit."""
        high = min(OUTPUT_SIZE_HIGH, self.shared.limits.smallest_output_limit())
        if self.must_log_in:
            high = min(high, UNAUTHENTICATED_OUTPUT_SIZE_MAX)
        self.transport.set_write_buffer_limits(high=high, low=min(OUTPUT_SIZE_LOW, high // 4))

    def output_size(self) -> int:
        """Size of the output that the peer has not taken yet, without output that is still to be produced."""
        size = self.transport.get_write_buffer_size()
        return size + sum(len(piece) for piece in self.out if type(piece) is bytes) if self.is_write_paused else size

    @property
    def has_output(self) -> bool:
        """Whether the peer has not taken all replies yet."""
        return bool(self.out or self.unsent_size())

    def unsent_size(self) -> int:
        """Bytes in the transport that the peer has not taken yet."""
        return self.transport.get_write_buffer_size()

    def write_stream(self, data: bytes | memoryview) -> None:
        """Send bytes that are no reply, as a replica gets them."""
        if not self.is_closed:
            self.client.sent_size += len(data)
            self.shared.stats.replicas_output_size += len(data)
            self.transport.write(data)

    def has_taken_output(self) -> bool:
        """Whether the peer has taken some of the output that it kept waiting at the last call, or keeps waiting now."""
        unsent_size = self.transport.get_write_buffer_size()
        before, self._seen_taken_size = self._seen_taken_size, self.client.sent_size - unsent_size if unsent_size else 0
        return self._seen_taken_size != before

    def data_received(self, data: bytes) -> None:
        """Run the complete requests, or keep the bytes if requests already wait."""
        if self.is_closed:
            return
        reader, client = self.reader, self.client
        size = len(data)
        stats = self.shared.stats
        stats.input_size += size
        stats.reads_processed += 1
        client.received_size += size
        client.reads_count += 1
        if self.backlog or self.unread or client.blocked is not None or client.is_held or self.is_write_paused:
            self._keep(data)
            return
        is_known = client.authenticated and reader.authenticated
        requests = reader.feed(data) if is_known else self._feed_before_login(data)
        if requests:
            client.query_buffer_size += size
            client.pipeline_length_sum += len(requests)
            self.shared.turns.run(self, requests)
        else:
            client.last_active_ms = self.shared.clock()
        if not (self.backlog or self.unread):
            client.query_buffer_size = reader.buffered_size
        if reader.error is not None or reader.dropped or not client.rows or client.transaction.queue is not None:
            self._check_limits()

    def _keep(self, data: bytes) -> None:
        """Keep the bytes after those that already wait."""
        self.unread += data
        self.client.query_buffer_size += len(data)
        if self.is_over_query_limit:
            self._end_over_query_limit()
        else:
            self._regulate_reading()

    def _read_on(self) -> None:
        """Parse the next of the bytes that were kept."""
        unread, reader, client = self.unread, self.reader, self.client
        with memoryview(unread) as view:
            data = bytes(view[:READ_SIZE])
        del unread[:READ_SIZE]
        client.query_buffer_size = reader.buffered_size + len(data) + len(unread)
        is_known = client.authenticated and reader.authenticated
        requests = reader.feed(data) if is_known else self._feed_before_login(data)
        client.pipeline_length_sum += len(requests)
        self.backlog.extend(requests)
        if reader.error is not None or reader.dropped:
            unread.clear()
            self._check_limits()

    @property
    def is_over_query_limit(self) -> bool:
        """Whether the client's unparsed and unrun requests exceed the query limit. Complete arguments of the request
        that arrives do not count.
        """
        client, reader = self.client, self.reader
        size_max = reader.query_buffer_size_max
        if self.must_log_in:
            size_max = min(size_max, UNAUTHENTICATED_BUFFER_SIZE_MAX)
        size = client.query_buffer_size - (reader.buffered_size - reader.unparsed_size)
        return size + client.transaction.queue_memory_size > size_max

    def _end_over_query_limit(self) -> None:
        log_over_query_limit(self.client, self.shared.clock())
        self.shared.stats.query_buffer_limit_disconnections += 1
        self.abort()

    def _check_limits(self) -> None:
        """After a fault of the reader or within a transaction, close the connection if a limit is exceeded."""
        reader = self.reader
        if reader.is_cross_protocol:
            self._is_ending = True
            self._pause_reading()
            self._end_if_done()
        elif reader.dropped or self.is_over_query_limit:
            self._end_over_query_limit()
        elif reader.error is not None:
            log_protocol_error(self.client, reader.error, self.shared.clock())
            self._is_ending = True
            self._pause_reading()
            self._end_if_done()

    def _feed_before_login(self, data: bytes) -> list[list[bytes]]:
        """Parse under the tight limits of a client that has not logged in. After AUTH, the rest of the same read is
        parsed under the normal limits.
        """
        self.configure_reader()
        reader = self.reader
        requests = reader.feed(data)
        if reader.error is None or not requests:
            return requests
        error, reader.error = reader.error, None
        self.shared.turns.run(self, requests)
        reader.error = error
        if not self.client.authenticated:
            return []
        self.configure_output()
        requests = reader.authenticate()
        if not (self.must_wait or self.has_more):
            return requests
        self.backlog.extend(requests)
        return []

    def eof_received(self) -> bool:
        """The peer sends no more. Its requests are still run and answered, unless the client waits for something."""
        self._is_ending = self._has_peer_ended = True
        if self.is_waiting:
            self.shared.dispatcher.detach(self)
            return False
        return not self.is_tls and bool(self.out or self.has_more)

    def pause_writing(self) -> None:
        """The peer does not read: stop running its requests."""
        self._is_transport_full = True
        self.is_write_paused = self.follower is None

    def resume_writing(self) -> None:
        """The peer has read: continue."""
        self._is_transport_full = self.is_write_paused = False
        if self.follower is not None:
            self.follower.resume()
        if self.out:
            self.shared.turns.send_rest(self)
        self.resume()

    def connection_lost(self, error: Exception | None) -> None:
        """The socket is closed, by either side."""
        if self._has_peer_ended:
            log_closed_by_peer(self.client, self.shared.clock())
        elif error is not None and not self.is_closed:
            log_broken(self.client, error, self.shared.clock())
        self.is_closed = True
        if self.follower is not None:
            self.follower.end()
            self.follower = None
        self.shared.dispatcher.detach(self)
        self.shared.turns.follow_visits()
        # Both refer back to this object. Without them the connection is freed now, not by the garbage collector.
        self.transport = CLOSED_TRANSPORT
        self.client.measure_output = int

    # -- called by the server --------------------------------------------------------------------

    @property
    def is_waiting(self) -> bool:
        """Whether the client waits for others: for an entry, for example, or for the end of CLIENT PAUSE."""
        return self.client.blocked is not None or self.client.is_held

    @property
    def must_wait(self) -> bool:
        """Whether no requests may be run now."""
        return self.is_waiting or self.is_write_paused or self.is_closed

    def resume(self) -> None:
        """Run the next requests that wait, and read the socket again once few wait."""
        if self.must_wait:
            return
        backlog = self.backlog
        had_backlog = bool(backlog)
        if self.unread and not backlog:
            self._read_on()
        requests = [backlog.popleft() for _ in range(min(len(backlog), SLICE_COUNT))]
        if self.has_more:
            self.shared.dispatcher.resumable[self] = None
        if requests:
            self.shared.turns.run(self, requests)
            if not self.client.rows or self.client.transaction.queue is not None:
                self._check_limits()
            if self.unread and had_backlog and not (backlog or self.must_wait):
                # What arrived after the backlog is run in the same turn, as in Redis: both were sent before the request
                # that ended the wait.
                self.resume()
                return
        elif self.unread:
            self.shared.turns.finish()
        if not self.has_more:
            self.client.query_buffer_size = self.reader.buffered_size
        if self._has_peer_ended and self.is_waiting:
            self.close()  # no peer is left to get the reply
            return
        self._regulate_reading()
        self._end_if_done()

    def send(self) -> None:
        """Give the transport the output made so far, in one piece. Replies and pushes all use this method."""
        assert not self.shared.dispatcher.units.has_unflushed_records, "the log is written before anything leaves"
        out = self.out
        if out and not self.is_closed:
            try:
                data = b"".join(out) if len(out) > 1 else out[0]
                size = len(data)
            except TypeError:
                self._produce()
                return
            self.client.sent_size += size
            stats = self.shared.stats
            stats.output_size += size
            stats.writes_processed += 1
            self.transport.write(data)
        out.clear()
        if self.is_write_paused or self._is_ending or self.client.close_after_reply:
            self._after_send()

    def _after_send(self) -> None:
        """Checks that few clients need: whether the peer reads too slowly, and whether the connection is done."""
        if self.is_write_paused and self.shared.limits.closes(self):
            return
        if self.is_write_paused and not self._is_transport_full:
            self._end_production()  # the rest of it was already made
        self._end_if_done()

    def _produce(self) -> None:
        """Make and send output that is produced while it is sent: as much as the peer takes, for a few milliseconds.

        Until all of it is sent, the client's requests wait, as if the client did not read.
        """
        self.is_write_paused = True
        out, end_ns = self.out, perf_counter_ns() + PRODUCTION_NS
        while out and not self._is_transport_full:
            if perf_counter_ns() > end_ns:
                self._produce_soon()
                break
            self._hand_over(self._next_pieces(out))
        if not (self.shared.limits.closes(self) or out):
            self._end_production()

    def _end_production(self) -> None:
        self.is_write_paused = self._is_transport_full
        self.resume_soon()

    def _next_pieces(self, out: list[Any]) -> bytes:
        """The next output in line, some of it made now; empty if a producer has worked without a result."""
        ready = list(takewhile(lambda piece: type(piece) is bytes, out))
        if ready:
            del out[: len(ready)]
            return b"".join(ready)
        pieces: list[bytes] = []
        size = 0
        for piece in out[0]:
            pieces.append(piece)
            size += len(piece)
            if not piece or size >= PRODUCTION_SIZE:
                break
        else:
            del out[0]
        return b"".join(pieces)

    def _hand_over(self, data: bytes) -> None:
        if data:
            self.client.sent_size += len(data)
            self.shared.stats.output_size += len(data)
            self.shared.stats.writes_processed += 1
            self.transport.write(data)

    def _produce_soon(self) -> None:
        if not self._is_production_scheduled:
            self._is_production_scheduled = True
            asyncio.get_running_loop().call_soon(self._continue_production)

    def _continue_production(self) -> None:
        self._is_production_scheduled = False
        if self.out and not self.is_closed and not self._is_transport_full:
            self.shared.turns.send_rest(self)

    def abort(self) -> None:
        """Close at once, without sending the unsent output."""
        self.shared.dispatcher.detach(self)
        self.is_closed = True
        close_at_once(self.transport)

    def close(self) -> None:
        """Close after the unsent output was sent."""
        self.shared.dispatcher.detach(self)
        self.is_closed = True
        self.transport.close()

    # --------------------------------------------------------------------------------------------

    def _end_if_done(self) -> None:
        """Close when no replies are due any more: after QUIT, after a protocol error, after the peer's end."""
        if self.is_closed or self.out:
            return
        if self.client.close_after_reply:
            self.close()
            return
        if self.has_more or self.is_waiting:
            return
        if self.reader.is_cross_protocol:
            self.shared.cross_protocol.note(self.client.address)
            self.abort()
        elif self.reader.error is not None:
            self.client.close_after_reply = True
            self.shared.stats.count_error(self.reader.error.code)
            if self.client.reply_mode is ReplyMode.ON:
                self.out.append(b"-%b\r\n" % self.reader.error.wire_text)
            self.shared.turns.send_rest(self)
        elif self._is_ending:
            self.close()

    def _regulate_reading(self) -> None:
        """Stop reading the socket while enough requests wait and the client waits for no other client."""
        if self.reader.error is not None or self.reader.dropped:
            return
        if self.client.query_buffer_size > READ_AHEAD_SIZE and self.has_more and not self.is_waiting:
            self._pause_reading()
        else:
            self._resume_reading()

    def _pause_reading(self) -> None:
        if not self._is_reading_paused and not self.is_closed:
            self._is_reading_paused = True
            self.transport.pause_reading()

    def _resume_reading(self) -> None:
        if self._is_reading_paused and not self.is_closed:
            self._is_reading_paused = False
            self.transport.resume_reading()
