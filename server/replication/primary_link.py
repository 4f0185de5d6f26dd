"""The connection to the primary that this server follows, from the handshake to the stream.

    connecting -> handshake -> transfer -> loading -> stream
                      |                                  ^
                      +----------- +CONTINUE ------------+

A dataset is loaded as it arrives (`transfer.py`); in the phase `loading` all of it has arrived. The commands of the
stream are run by the dispatcher, as those of a client that is asked for no permission and gets no replies
(`applier.py`). The link is a session, with a backlog of requests that are run in turn with those of clients.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from enum import Enum
from typing import Final, Protocol, cast

from ...commands.clients.client import Client, ReplyMode
from ...commands.execution.context import Context
from ...commands.permissions.users import open_user
from ...protocol.reader import REQUEST_SIZE_MAX, ProtocolError
from ...protocol.requests import Request
from ...replication.following import FullSync, Handshake, HandshakeFailed, Outcome, Position, confirmation
from ...replication.foreign import describe
from ...replication.incoming import Incoming
from ...replication.payload import Payload, PayloadError
from ..configuration.config import Config
from ..reports.stats import Stats
from ..requests.session import Session
from ..requests.turns import Turns
from ..storage.key_delay import key_delay_s
from .applier import Applier
from .arrival import Arrival
from .transfer import Transfer

logger = logging.getLogger(__name__)

# Bytes of the stream that wait to be run. With more, the socket is not read until they are.
WAITING_SIZE_MAX: Final = 1 << 20
# A sign of life to a primary that waits for the end of a load.
LIFE_SIGN: Final = b"\n"
# What the primary may have sent that ends a link.
LINK_ERRORS: Final = (HandshakeFailed, PayloadError, ProtocolError)


class Phase(Enum):
    """What a link is doing."""

    CONNECTING = "connecting"
    HANDSHAKE = "handshake"
    TRANSFER = "transfer"
    LOADING = "loading"
    STREAM = "stream"


class End(Enum):
    """Why a link has ended: this decides when the next one is tried."""

    # It was up, or may be up again at once.
    LOST = "lost"
    # It did not come up.
    FAILED = "failed"
    # It gave no sign of life for too long.
    SILENT = "silent"
    # The primary has something that cannot be taken here.
    REFUSED = "refused"


class Owner(Protocol):
    """What follows by this link: `server.replication.following.Following`."""

    def begin_full_sync(self, position: Position) -> None:
        """The primary sends its dataset as of this position."""
        ...

    def end_full_sync(self, arrival: Arrival, position: Position) -> None:
        """All of the dataset has arrived: put it in the place of the present one."""
        ...

    def begin_stream(self, outcome: Outcome) -> Position:
        """The stream begins. Returns the position before its first byte."""
        ...

    def pass_on(self, pieces: list[bytes]) -> None:
        """These bytes of the stream were applied."""
        ...

    def synced_offset(self) -> int | None:
        """The offset up to which everything is on stable storage; None without a log."""
        ...

    def end_link(self, link: PrimaryLink, end: End, reason: str) -> None:
        """The link has ended."""
        ...


class PrimaryLink(Session):
    """One connection to a primary. It has the methods of `asyncio.Protocol`."""

    def __init__(
        self,
        client_id: int,
        config: Config,
        context: Context,
        turns: Turns,
        stats: Stats,
        clock: Callable[[], int],
        monotonic: Callable[[], int],
        handshake: Handshake,
        owner: Owner,
        db_index: int,
    ) -> None:
        Session.__init__(self, Client(client_id, db=context.store.databases[db_index], created_ms=clock()))
        client = self.client
        client.user = open_user(b"(superuser)")
        client.is_primary = True
        client.reply_mode = ReplyMode.OFF
        self._config = config
        self._context = context
        self._turns = turns
        self._stats = stats
        self._clock = clock
        self._monotonic = monotonic
        self.handshake = handshake
        self._owner = owner
        self.phase = Phase.CONNECTING
        self.transport: asyncio.Transport | None = None
        self.is_closed = False
        # When bytes last arrived, by the monotonic clock, in ms.
        self.last_read_ms = monotonic()
        self.payload = Payload()
        self._transfer: Transfer | None = None
        # Whether the dataset could not be taken, and was in the form of rows.
        self.has_refused_rows = False
        # The position of the dataset that arrives.
        self._position = Position(b"", 0)
        self._applier: Applier | None = None
        # Bytes that arrived during a load, or while too many parts wait.
        self._late = bytearray()

    # -- called by the loop ----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is there: begin the handshake."""
        if self.is_closed:
            transport.close()
            return
        self.transport = cast(asyncio.Transport, transport)
        self.client.address = _address(transport.get_extra_info("peername"))
        self.client.local_address = _address(transport.get_extra_info("sockname"))
        self.phase = Phase.HANDSHAKE
        self.last_read_ms = self._monotonic()
        logger.info("Non blocking connect for SYNC fired the event.")
        self._write(self.handshake.begin())

    def data_received(self, data: bytes) -> None:
        """Take bytes of the primary."""
        if self.is_closed:
            return
        self.last_read_ms = self._monotonic()
        size = len(data)
        self._stats.primary_input_size += size
        self._stats.input_size += size
        self.client.received_size += size
        self.client.reads_count += 1
        try:
            self._take(data)
        except LINK_ERRORS as failure:
            self._end_by(failure)

    def eof_received(self) -> bool:
        """The primary sends no more."""
        return False

    def connection_lost(self, error: Exception | None) -> None:
        """The socket is closed, by either side."""
        if self.phase is Phase.STREAM:
            self.end(End.LOST, "Connection with master lost.")
        else:
            reason = "it was closed" if error is None else str(error)
            self.end(End.FAILED, f"The connection with the primary ended in the phase {self.phase.value}: {reason}")
        self.transport = None

    def pause_writing(self) -> None:
        """The primary does not read. What it gets is little."""

    def resume_writing(self) -> None:
        """The primary has read."""

    # -- the phases ------------------------------------------------------------------------------

    def _take(self, data: bytes) -> None:
        """Take bytes in the present phase. Raises HandshakeFailed, PayloadError, ProtocolError."""
        if self.phase is Phase.STREAM:
            self._take_stream(data)
        elif self.phase is Phase.HANDSHAKE:
            self._take_answers(data)
        elif self.phase is Phase.TRANSFER:
            self._take_payload(data)
        else:
            self._keep_late(data)

    def _take_answers(self, data: bytes) -> None:
        handshake = self.handshake
        self._write(handshake.receive(data))
        for note in handshake.notes:
            logger.info("%s", note)
        handshake.notes.clear()
        outcome = handshake.outcome
        if outcome is None:
            return
        if isinstance(outcome, FullSync):
            self._position = outcome.position
            self._owner.begin_full_sync(outcome.position)
            self.phase = Phase.TRANSFER
            self._transfer = Transfer(
                self.payload,
                Arrival(self._config, self._context, self._clock()),
                on_loaded=self._end_transfer,
                on_refused=self._refuse_dataset,
                hold=self._hold_reading,
                release=self._resume_reading,
                key_delay_s=lambda: key_delay_s(self._config.key_load_delay),
            )
        else:
            self._begin_stream(outcome)
        if handshake.rest:
            self._take(handshake.rest)

    def _refuse_dataset(self, reason: str) -> None:
        self.has_refused_rows = self._transfer is not None and self._transfer.arrival.has_rows
        self.end(End.REFUSED, reason)

    def _take_payload(self, data: bytes) -> None:
        transfer = self._transfer
        assert transfer is not None
        rest = transfer.feed(data)
        if self.payload.is_complete:
            self.phase = Phase.LOADING
            self._keep_late(rest)

    def _keep_late(self, data: bytes) -> None:
        """Keep bytes of the stream that cannot be run yet."""
        self._late += data
        if len(self._late) > WAITING_SIZE_MAX:
            self._hold_reading()

    def _end_transfer(self) -> None:
        """All of the dataset is loaded: continue with the stream after it."""
        assert self._transfer is not None
        arrival, self._transfer = self._transfer.arrival, None
        self._owner.end_full_sync(arrival, self._position)
        self.client.db = self._context.store.databases[arrival.stream_db_index]
        self._begin_stream(FullSync(self._position))
        logger.info("MASTER <-> REPLICA sync: Finished with success")
        late, self._late = bytes(self._late), bytearray()
        self._resume_reading()
        self.confirm()
        if late:
            self.data_received(late)

    def _begin_stream(self, outcome: Outcome) -> None:
        self.phase = Phase.STREAM
        self._applier = Applier(
            self, self._context, self._turns, self._owner.begin_stream(outcome).offset,
            size_max=max(REQUEST_SIZE_MAX, self._config.client_query_buffer_limit),
            on_applied=self._owner.pass_on, confirm=self.confirm, refuse=self._refuse,
        )  # fmt: skip

    def _hold_reading(self) -> None:
        if self.transport is not None:
            self.transport.pause_reading()

    def _resume_reading(self) -> None:
        if self.transport is not None:
            self.transport.resume_reading()

    # -- the stream ------------------------------------------------------------------------------

    def _take_stream(self, data: bytes) -> None:
        """Run bytes of the stream, or keep them while others wait. Raises ProtocolError."""
        assert self._applier is not None
        if self._applier.is_busy:
            self._keep_late(data)
        else:
            self._applier.feed(data)

    def _refuse(self, request: Request) -> None:
        self.end(
            End.REFUSED,
            f"The primary sent the command {describe(request)} in database {self.client.db.index}, which Headrace does "
            "not serve. The data up to there are kept",
        )

    def _end_by(self, failure: Exception) -> None:
        """End the link because of what the primary has sent."""
        if self.phase is Phase.STREAM:
            # As in Redis, the stream cannot be continued there: the next attempt asks for a snapshot.
            self.end(
                End.REFUSED, f"Protocol error in the stream of the primary: {failure}. The data up to there are kept"
            )
        else:
            self.end(End.FAILED, str(failure))

    # -- as a session ----------------------------------------------------------------------------

    @property
    def incoming(self) -> Incoming | None:
        """The stream; None before it begins."""
        return None if self._applier is None else self._applier.incoming

    @property
    def is_arriving(self) -> bool:
        """Whether a dataset arrives, or is loaded."""
        return self.phase is Phase.TRANSFER or self.phase is Phase.LOADING

    @property
    def silent_s(self) -> int:
        """Seconds since bytes last arrived."""
        return max(0, self._monotonic() - self.last_read_ms) // 1000

    @property
    def is_between_parts(self) -> bool:
        """Whether the dataset has exactly the commands that the offset counts."""
        return self._applier is None or self._applier.is_between_parts

    def send(self) -> None:
        """Drop the replies, which the primary does not get."""
        self.out.clear()

    def resume(self) -> None:
        """Run more of the stream."""
        applier = self._applier
        if applier is None or self.is_closed or self.client.is_held or self._turns.dispatcher.runner.is_over:
            return
        try:
            if applier.continue_part():
                self.resume_soon()
            elif self._late and not applier.is_busy and not self.is_closed:
                late, self._late = bytes(self._late), bytearray()
                self._resume_reading()
                self._take_stream(late)
        except LINK_ERRORS as failure:
            self._end_by(failure)

    def abort(self) -> None:
        """Close at once, as CLIENT KILL does."""
        self.end(End.LOST if self.phase is Phase.STREAM else End.FAILED, "Connection with master lost.")

    # -- called by the owner ---------------------------------------------------------------------

    def _write(self, data: bytes) -> None:
        if data and self.transport is not None:
            self.client.sent_size += len(data)
            self._stats.output_size += len(data)
            self.transport.write(data)

    def confirm(self) -> None:
        """Send the primary the offset that was applied, and the one that is on stable storage."""
        if self.incoming is not None:
            self._write(confirmation(self.incoming.applied, self._owner.synced_offset()))

    def show_life(self) -> None:
        """Once a second: confirm, or show that a load is under way."""
        if self.phase is Phase.STREAM:
            self.confirm()
        elif self.phase is Phase.LOADING:
            self.last_read_ms = self._monotonic()  # the primary is not read while much waits
            self._write(LIFE_SIGN)

    def end(self, end: End, reason: str) -> None:
        """Close the link, and report that to the owner. Nothing that arrived is run any more."""
        if self.is_closed:
            return
        self.close()
        self._owner.end_link(self, end, reason)

    def close(self) -> None:
        """Close the link. The owner knows."""
        self.is_closed = True
        if self._applier is not None:
            self._applier.stop()
        if self._transfer is not None:
            self._transfer.stop()
            self._transfer = None
        self.drop_requests()
        if self.transport is not None:
            self.transport.abort()


def _address(address: object) -> bytes:
    if not isinstance(address, tuple):
        return b"?:0"
    host, port = address[0], address[1]
    return (f"[{host}]:{port}" if ":" in host else f"{host}:{port}").encode()


# What connecting may raise, besides OSError.
CONNECT_ERRORS: Final = (OSError, ssl.SSLError, ssl.CertificateError, UnicodeError, OverflowError)
