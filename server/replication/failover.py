"""FAILOVER: this primary hands its role to one of its replicas, and no answered write is lost.

    no-failover -> waiting-for-sync       writes are held; a replica that has confirmed the whole stream is awaited
                -> failover-in-progress   this server follows the replica, and asks it to be the primary
                -> no-failover            the replica has accepted; if it refuses, this server is the primary again

The request is `PSYNC <replid> <offset> FAILOVER`; `accept` is the side of the replica. The states have Redis' names.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import Enum
from typing import Final, NamedTuple, Protocol

from ...commands.clients.client import Client
from ...commands.clients.client_line import describe
from ...commands.clients.replica import ReplicaState
from ...replication.history import History
from ...store.errors import GenericError
from ..requests.pause import ENDLESS_MS, Cause
from .link import Link, address_of

logger = logging.getLogger(__name__)

ABORTED: Final = "Failover manually aborted"
TOO_LATE: Final = "Replica never caught up before timeout"
REFUSED: Final = "Failover target rejected psync request"


class State(Enum):
    """The steps of a failover, as INFO names them."""

    NONE = "no-failover"
    WAITING = "waiting-for-sync"
    IN_PROGRESS = "failover-in-progress"


class Address(NamedTuple):
    """How clients reach a replica."""

    host: bytes
    port: int

    def __str__(self) -> str:
        return f"{self.host.decode('utf-8', 'backslashreplace')}:{self.port}"


class Replicas(Protocol):
    """The replicas of this server: `server.replication.primary.Primary`."""

    history: History
    links: list[Link]
    # Whether requests for synchronization are refused, as the role changes.
    is_failing_over: bool
    # Whether no sign of life is sent, so that the stream has an end that replicas can reach.
    is_quiet: bool

    @property
    def online(self) -> list[Link]:
        """The replicas that have their snapshot."""
        ...


class Role(Protocol):
    """The role of this server: `server.replication.following.Following`."""

    address: tuple[bytes, int] | None
    # Whether the server that is followed shall take over: the link says so, and reports its answer.
    is_failing_over: bool
    on_answer: Callable[[bool], None]

    def follow(self, host: bytes, port: int) -> bool:
        """REPLICAOF host port."""
        ...

    def promote(self) -> None:
        """REPLICAOF NO ONE."""
        ...


class Holder(Protocol):
    """What holds the commands of clients back: `server.requests.dispatch.Dispatcher`."""

    def begin_pause(self, pause_ms: int, *, writes_only: bool, cause: Cause = Cause.COMMAND) -> None:
        """Hold back commands for `pause_ms`."""
        ...

    def end_pause(self, cause: Cause = Cause.COMMAND) -> None:
        """Let the commands that were held run."""
        ...


class Failover:
    """The failover of one server. `monotonic` returns ms. `call_soon` calls a function when the running command has
    ended. `finish` sends what a change of the role has given clients.
    """

    def __init__(
        self,
        replicas: Replicas,
        role: Role,
        holder: Holder,
        clock: Callable[[], int],
        monotonic: Callable[[], int],
        *,
        call_soon: Callable[[Callable[[], None]], None],
        finish: Callable[[], None],
    ) -> None:
        self._replicas = replicas
        self._role = role
        self._holder = holder
        self._clock = clock
        self._monotonic = monotonic
        self._call_soon = call_soon
        self._finish = finish
        self.state = State.NONE
        # The replica that takes over; None while any may.
        self._target: Address | None = None
        # When the wait for it ends, by the monotonic clock in ms; None without an end.
        self._end_ms: int | None = None
        # Whether it takes over at that time, in any case.
        self._is_forced = False
        role.on_answer = self._take_answer

    @property
    def is_running(self) -> bool:
        """Whether there is a failover."""
        return self.state is not State.NONE

    # -- the side of the primary -----------------------------------------------------------------

    def begin(self, target: tuple[bytes, int] | None, timeout_ms: int | None, *, is_forced: bool) -> None:
        """FAILOVER: hold writes, and wait for the target, or for any replica if it is None. Raises GenericError."""
        if self.is_running:
            raise GenericError(b"FAILOVER already in progress.")
        if self._role.address is not None:
            raise GenericError(b"FAILOVER is not valid when server is a replica.")
        if not self._replicas.links:
            raise GenericError(b"FAILOVER requires connected replicas.")
        if is_forced and (timeout_ms is None or target is None):
            raise GenericError(b"FAILOVER with force option requires both a timeout and target HOST and IP.")
        address = None if target is None else Address(*target)
        if address is not None:
            self._check_target(address)
        logger.info("FAILOVER requested to %s.", address or "any replica")
        self.state = State.WAITING
        self._target, self._is_forced = address, is_forced
        self._end_ms = None if timeout_ms is None else self._monotonic() + timeout_ms
        self._replicas.is_failing_over = True
        self._replicas.is_quiet = timeout_ms is not None
        self._holder.begin_pause(ENDLESS_MS, writes_only=True, cause=Cause.FAILOVER)
        self._call_soon(self.check)

    def _check_target(self, target: Address) -> None:
        link = self._find(target)
        if link is None:
            raise GenericError(b"FAILOVER target HOST and PORT is not a replica.")
        if link.replica.state is not ReplicaState.ONLINE:
            raise GenericError(b"FAILOVER target replica is not online.")

    def _find(self, target: Address) -> Link | None:
        host, port = target
        for link in self._replicas.links:
            if address_of(link).lower() == host.lower() and link.replica.port == port:
                return link
        return None

    def _is_synced(self, link: Link | None) -> bool:
        return link is not None and link.replica.confirmed_offset == self._replicas.history.offset

    def note_confirmed(self) -> None:
        """A replica has confirmed something."""
        if self.state is State.WAITING:
            self._call_soon(self.check)

    def check(self) -> None:
        """Hand the role over if the replica has everything, or if its time is over. No command is running."""
        if self.state is not State.WAITING:
            return
        if self._end_ms is not None and self._monotonic() >= self._end_ms:
            if not self._is_forced:
                self.abort(TOO_LATE)
            elif self._target is not None:
                logger.info("FAILOVER to %s time out exceeded, failing over.", self._target)
                self._hand_over(self._target)
            self._finish()
            return
        if self._target is None:
            synced = [link for link in self._replicas.online if self._is_synced(link)]
            target = Address(address_of(synced[0]), synced[0].replica.port) if synced else None
        else:
            target = self._target if self._is_synced(self._find(self._target)) else None
        if target is not None:
            logger.info("Failover target %s is synced, failing over.", target)
            self._hand_over(target)
            self._finish()

    def _hand_over(self, target: Address) -> None:
        """Follow the target. Writes are held until it has answered."""
        self.state, self._target = State.IN_PROGRESS, target
        self._role.is_failing_over = True
        self._role.follow(*target)

    def _take_answer(self, is_accepted: bool) -> None:
        """The target has answered."""
        if self.state is not State.IN_PROGRESS:
            return
        if is_accepted:
            self._end()
        else:
            self.abort(REFUSED)

    def abort(self, reason: str = ABORTED) -> None:
        """Be the primary again, and run the writes that were held. Raises GenericError without a failover."""
        if not self.is_running:
            raise GenericError(b"No failover in progress.")
        logger.info("FAILOVER to %s aborted: %s", self._target or "any replica", reason)
        is_following = self.state is State.IN_PROGRESS
        self._role.is_failing_over = False
        if is_following:
            self._role.promote()
        self._end()

    def _end(self) -> None:
        self.state, self._target, self._end_ms = State.NONE, None, None
        self._role.is_failing_over = False
        self._replicas.is_failing_over = False
        self._replicas.is_quiet = False
        self._holder.end_pause(Cause.FAILOVER)

    # -- the side of the replica -----------------------------------------------------------------

    def accept(self, client: Client, replid: bytes) -> None:
        """PSYNC .. FAILOVER: the primary of this server, which sends it, wants to be a replica. Raises GenericError."""
        logger.info("Failover request received for replid %s.", replid.decode("utf-8", "backslashreplace"))
        if self._role.address is None:
            raise GenericError(b"PSYNC FAILOVER can't be sent to a master.")
        if replid.lower() != self._replicas.history.replid.encode():
            raise GenericError(b"PSYNC FAILOVER replid must match my replid.")
        self._role.promote()
        line = describe(client, self._clock()).decode("utf-8", "replace")
        logger.info("MASTER MODE enabled (failover request from '%s')", line)
