"""Runs the stream of a primary: its commands, in parts that count as a whole, and between those of clients."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from ...commands.core.lookup import look_up
from ...commands.core.table import Flag
from ...commands.execution.context import Context
from ...protocol.requests import Request
from ...replication.incoming import BEGINNING, Incoming, Part, size_of, unit_start
from ...store.errors import UnknownCommand
from ..requests.session import Session
from ..requests.turns import SLICE_COUNT, Turns

BLOCKING: Final = Flag.BLOCKING.value


class Applier:
    """The stream of one link, which is a session. `on_applied` gets the bytes whose commands were run, `confirm` is
    called where the primary asks for it, and `refuse` with a request that no server of this kind can run. `size_max`
    limits a request and a transaction.
    """

    def __init__(
        self,
        session: Session,
        context: Context,
        turns: Turns,
        offset: int,
        *,
        size_max: int,
        on_applied: Callable[[list[bytes]], None],
        confirm: Callable[[], None],
        refuse: Callable[[Request], None],
    ) -> None:
        self._session = session
        self._context = context
        self._turns = turns
        self._on_applied = on_applied
        self._confirm = confirm
        self._refuse = refuse
        self.incoming = Incoming(offset, size_max)
        # Parts that wait to be run, the running one first.
        self._parts: deque[Part] = deque()
        self._is_part_running = False
        # Whether the link was closed: nothing is run any more.
        self._is_over = False
        # Names of commands that were looked up and can be run.
        self._known: set[bytes] = set()

    @property
    def is_busy(self) -> bool:
        """Whether parts wait to be run."""
        return bool(self._parts)

    @property
    def is_between_parts(self) -> bool:
        """Whether the dataset has exactly the commands that the offset counts."""
        return not self._is_part_running

    def feed(self, data: bytes) -> None:
        """Take bytes of the stream while none wait, and run them as far as possible. Raises ProtocolError."""
        assert not self._parts
        self._parts.extend(self.incoming.feed(data))
        self._run_parts()

    def continue_part(self) -> bool:
        """Run more of the requests that wait. Returns whether there are more that can be run. Raises ProtocolError."""
        session, backlog = self._session, self._session.backlog
        requests = [backlog.popleft() for _ in range(min(len(backlog), SLICE_COUNT))]
        if requests:
            self._run(requests)
        if backlog and not session.client.is_held:
            return True
        self._run_parts()
        return False

    def _run_parts(self) -> None:
        """Run the parts that have arrived, as far as the slices of a turn go. Raises ProtocolError for what follows
        them, when all were run.
        """
        session = self._session
        while self._parts and not self._is_over:
            part = self._parts[0]
            if self._turns.dispatcher.runner.is_over:
                return
            if not self._is_part_running:
                refused_at = self._find_refused(part.requests)
                if refused_at is not None:
                    refused = part.requests[refused_at]
                    part = self._split_before_unit(part, refused_at)
                    if not part.requests:
                        self._refuse(refused)
                        return
                self._is_part_running = True
                if part.requests:
                    self._run(part.requests)
            if self._is_over:
                return  # a command of the primary has closed the link
            if session.has_more or session.client.is_held:
                return
            self._parts.popleft()
            self._is_part_running = False
            self._finish_part(part)
        if self.incoming.error is not None and not self._is_over:
            raise self.incoming.error

    def _run(self, requests: list[Request]) -> None:
        """Run requests: nothing expires for them, and forms are taken that clients may not use."""
        context = self._context
        context.replaying = True
        context.store.freeze()
        try:
            self._turns.run(self._session, requests)
        finally:
            context.replaying = False
            context.store.thaw()

    def _finish_part(self, part: Part) -> None:
        """Count the bytes of a part that was run."""
        pieces = self.incoming.take(part.end)
        if pieces:
            self._on_applied(pieces)
        if part.is_confirmed:
            self._confirm()

    def stop(self) -> None:
        """Run nothing any more. Commands of a part that were run are counted: they must not be sent again."""
        self._is_over = True
        if self._is_part_running:
            unrun = list(self._session.backlog)
            queue = self._session.client.transaction.queue
            if queue is not None:
                unrun = [BEGINNING, *(request for _, _, request in queue), *unrun]
            pieces = self.incoming.take(self._parts[0].end - size_of(unrun))
            self._is_part_running = False
            if pieces:
                self._on_applied(pieces)
        self._parts.clear()

    def _find_refused(self, requests: list[Request]) -> int | None:
        """The index of the first request that no server of this kind can run; None if there is none."""
        known = self._known
        for index, request in enumerate(requests):
            if request[0] not in known:
                row = look_up(request)
                if isinstance(row, UnknownCommand):
                    return index
                if isinstance(row, Exception):
                    continue  # its error is counted and logged when it is run
                if row.flag_bits & BLOCKING:
                    return index
                known.add(request[0])
        return None

    def _split_before_unit(self, part: Part, index: int) -> Part:
        """Split the first part before the command or transaction that has this request. Returns the new first part."""
        start = unit_start(part.requests, index)
        rest = part.requests[start:]
        first = Part(part.requests[:start], part.end - size_of(rest), is_confirmed=False)
        self._parts[0] = first
        self._parts.insert(1, Part(rest, part.end, part.is_confirmed))
        return first
