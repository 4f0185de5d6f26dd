"""Running one command for a client, and giving the client its reply."""

from __future__ import annotations

import logging
from typing import Final

from ...commands.clients.client import NO_COMMAND, Client, ReplyMode
from ...commands.clients.client_line import describe
from ...commands.core.table import Row, Trait
from ...commands.execution.calls import call
from ...commands.execution.context import Context
from ...commands.execution.transactions import ExecAborted, discard
from ...commands.permissions.allowed_rows import NO_ROWS
from ...protocol.encoder import ENCODERS
from ...protocol.replies import Pushed, Reply
from ...store.errors import ReplyError
from ..reports.stats import Stats
from .pause import Pause
from .pushes import Pushes
from .session import Session
from .units import Units

logger = logging.getLogger(__name__)

RUNS_QUEUE: Final = Trait.RUNS_QUEUE.value
REPLY_ON: Final = ReplyMode.ON
SKIP: Final = ReplyMode.SKIP


class Runner:
    """Runs a command for the requests of a read and for blocked commands.

    `Turns` sends what is in `outgoing` and resumes the sessions in `resumable`.
    """

    def __init__(self, context: Context, stats: Stats, pushes: Pushes, pause: Pause, units: Units) -> None:
        self.context = context
        self._stats = stats
        self._pushes = pushes
        self.pause = pause
        self.units = units
        self.sessions = pushes.sessions
        self.outgoing = pushes.outgoing
        # Sessions whose backlog can be run: a wait or a pause has ended, or their turn was used up.
        self.resumable: dict[Session, None] = {}
        # Whether the server was asked to stop: no more requests are run.
        self.is_over = False

    def run_unit(self, row: Row, argv: list[bytes], sent: list[bytes] | None = None) -> Reply:
        """Run a handler as a unit of its own. An exception becomes the reply."""
        context = self.context
        context.preserve(row, argv)
        self.begin_run(context.client)
        reply = call(context, row, row.handler, argv, sent)
        if context.effects or context.store.expired_keys:
            self.units.log_unit()
        return reply

    def answer(self, session: Session, reply: Reply, mode_before: ReplyMode) -> None:
        """Encode a reply if CLIENT REPLY was on before the command or is on after it; a `Pushed` always."""
        client = session.client
        if client.is_replica:
            # An empty tuple is no reply.
            if type(reply) is not tuple or reply:
                end_replica(session, reply)
            return
        if mode_before is REPLY_ON or client.reply_mode is REPLY_ON or type(reply) is Pushed:
            ENCODERS[client.protocol](reply, session.out)
        if client.reply_mode is SKIP:
            client.reply_mode = REPLY_ON
            client.rows = NO_ROWS  # until the dispatcher has computed them again

    def end_run(self, session: Session, argv: list[bytes]) -> None:
        """Send the running client its messages: the reply to `argv` is written, or the client waits for it."""
        client, tracking = session.client, self.context.tracking
        if tracking.own_changes:
            tracking.send_own_changes(client)
        if client.tracking is not None:
            tracking.clear_caching_choice(client, argv)
        self._pushes.end_run(session)

    def begin_run(self, client: Client) -> None:
        """Hold back the messages to this client until its reply is written."""
        self._pushes.running = client

    def rejected(self, client: Client, row: Row | None, argv: list[bytes], error: ReplyError) -> ReplyError:
        """Handle a refused command, or one that does not exist (`row` is None): it makes an open transaction fail. A
        refused EXEC ends the transaction.
        """
        if row is not None:
            row.rejected_calls += 1
        if row is not None and row.trait_bits & RUNS_QUEUE:
            discard(self.context.store, client)
            self.context.monitors.show(client, row, argv)
            error = ExecAborted(error.text if error.prefix == b"ERR" else error.wire_text)
        elif client.transaction.queue is not None:
            client.transaction.aborted = True
        self._stats.count_error(error.code)
        if client.is_primary:
            self._stats.unexpected_error_replies += 1
            self.context.divergences.note(error, argv[0].lower(), self.context.now_ms)
        return error

    def hold(self, session: Session, argv: list[bytes]) -> None:
        """Make a request wait until the pauses that concern it have ended, before all other requests of its client."""
        session.client.is_held = True
        session.backlog.appendleft(argv)
        self.pause.held[session] = None


def end_replica(session: Session, reply: Reply) -> None:
    """Close a replica that has sent what has a reply: it would take the reply for a part of the stream."""
    client = session.client
    name = "<unknown>" if client.last_command == NO_COMMAND else client.last_command.decode("utf-8", "replace")
    logger.warning(
        "Replica generated a reply to command '%s', disconnecting it: %s",
        name, describe(client, client.last_active_ms).decode("utf-8", "replace"),
    )  # fmt: skip
    if isinstance(reply, ReplyError):
        text = reply.text if reply.prefix == b"ERR" else b"-" + reply.wire_text
        logger.warning(
            "== CRITICAL == This master is sending an error to its replica: '%s' after processing the command '%s'",
            text.decode("utf-8", "backslashreplace"), name,
        )  # fmt: skip
    session.abort()
