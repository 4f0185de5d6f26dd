"""From requests to replies: the checks of every request, the handler, and the log.

Most requests come from an ordinary client (authenticated, no transaction, no pause, replies on) and name an ordinary
data command. For those the dispatcher has one flag per client and one dictionary of rows, and `execute` runs them after
three tests. Everything else goes through `_execute_checked`, which applies the checks in Redis' order, and computes the
flags again afterwards if they may have changed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from enum import Enum, auto
from operator import length_hint
from time import perf_counter_ns
from typing import Any, Final, Protocol

from ...commands.clients.blocking import Blocked
from ...commands.clients.client import Client
from ...commands.connections.transaction import ExecAborted, discard
from ...commands.core.durations import SHORT_SHIFT
from ...commands.core.lookup import find_row, named_row
from ...commands.core.request_size import request_size
from ...commands.core.table import TABLE, Handler, Row
from ...commands.execution.calls import broken, call, count_call, count_commands, failed
from ...commands.execution.context import Context
from ...commands.execution.enforcement import log_out
from ...commands.streams.add import xadd, xadd_sent
from ...persistence.grammar.kept import ADDITION
from ...persistence.grammar.streams import words_of
from ...protocol.encoder import ENCODERS
from ...protocol.replies import QUEUED, Pushed, Reply
from ...store.errors import ReplyError
from .admission import DENYOOM, Admission
from .pause import Pause
from .pushes import Pushes
from .serving import Serving
from .session import Session

logger = logging.getLogger(__name__)

ORDINARY_GROUPS: Final = {"stream", "string", "generic"}
ALSO_ORDINARY: Final = {"PING", "ECHO", "PUBLISH", "SPUBLISH"}
# Commands that use a database other than the client's. The fast path checks only the client's.
ACROSS_DATABASES: Final = {"MOVE", "COPY"}

# Commands that run at once inside MULTI.
NOT_QUEUED: Final = {"EXEC", "DISCARD", "MULTI", "WATCH", "QUIT", "RESET"}

# Largest number of words where the arity has no upper end; the reader allows fewer.
ARGUMENTS_COUNT_MAX: Final = 2**31

# Time that the requests of one read may take before other clients get their turn.
TURN_NS: Final = 5_000_000

# Bytes of replies at which the turn ends, since the peer may be a slow reader.
TURN_OUTPUT_SIZE: Final = 256 << 10

# Number of pieces of output after which their bytes are added up; each reply has one or more. After a slow call they
# are added up at once.
UNMEASURED_COUNT: Final = 16

# (handler, fewest words, most words, row, its histogram of short calls).
FastRow = tuple[Handler, int, int, Row, list[int]]


def size_of(pieces: list[Any], first: int) -> int:
    """Size of the pieces of output from `first` on, without those that are made while they are sent."""
    try:
        return sum(map(len, pieces[first:]))
    except TypeError:
        return sum(len(piece) for piece in pieces[first:] if type(piece) is bytes)


class Log(Protocol):
    """The log of effects: `persistence.aof.AppendOnlyLog`."""

    def append(self, effects: list[tuple[int, bytes]], grouped: bool) -> None:
        """Append the records of one unit (`grouped`: as one MULTI/EXEC), or of several one-record units."""
        ...

    # Counts the calls of `append`.
    mark: int


class Next(Enum):
    """What happens to the client's later requests."""

    GO_ON = auto()
    # The client is blocked: the later requests wait.
    WAIT = auto()
    # CLIENT PAUSE: this request and the later ones wait.
    HOLD = auto()
    # The later requests are dropped.
    CLOSE = auto()


class Dispatcher:
    """Runs requests. Its driver sends what is in `outgoing` and resumes the sessions in `resumable`."""

    def __init__(self, context: Context, stats: Any, monotonic: Callable[[], int], pushes: Pushes) -> None:
        self.context = context
        # Returns ms; waits and pauses are timed by it.
        self.monotonic = monotonic
        self.stats = stats
        self.log: Log | None = None
        self.serving = Serving(self)
        self.waiters = self.serving.waiters
        self.pushes = pushes
        self.sessions = pushes.sessions
        self.outgoing = pushes.outgoing
        # Sessions that stopped waiting and have requests in their backlog.
        self.resumable: dict[Session, None] = {}
        # Whether the log took records since it was last flushed; replies wait for that flush.
        self.has_unflushed_records = False
        # Whether the server was asked to stop: no more requests are run.
        self.is_over = False
        # Effects so far (rdb_changes_since_last_save).
        self.changes_count = 0
        self.admission = Admission(context)
        self.pause = Pause(context.store, monotonic)
        # Sends the replies of some sessions while others are still served; set by the driver.
        self.send_early: Callable[[list[Session]], None] = lambda sessions: None
        self._fast: dict[bytes, FastRow] = {}
        self.refresh_table()

    def refresh_table(self) -> None:
        """Rebuild the dictionary of ordinary rows, under their usual spellings."""
        for name, row in TABLE.items():
            ordinary = row.keys and row.group in ORDINARY_GROUPS and row.name not in ACROSS_DATABASES
            if row.handler is not None and not row.subcommands and (ordinary or row.name in ALSO_ORDINARY):
                words_min, words_max = abs(row.arity), row.arity if row.arity > 0 else ARGUMENTS_COUNT_MAX
                self._fast[name] = self._fast[name.lower()] = (
                    row.handler, words_min, words_max, row, row.durations.short,
                )  # fmt: skip
        added = TABLE.get(b"XADD")
        if added is not None and added.handler is xadd:  # unless it was renamed
            self._fast[ADDITION] = (xadd_sent, 4, 4, added, added.durations.short)

    # -- requests --------------------------------------------------------------------------------

    def execute(self, session: Session, requests: list[list[bytes]], now_ms: int) -> None:
        """Run the requests of one read, until one of them makes the rest wait or their time is over; the rest goes to
        the backlog. Nearly all commands are short; they are bounded by the number of requests given.

        Hot (benchmark: redis-benchmark -P 16 XADD): the loop body is the whole cost of dispatch, so it works with
        locals. One reading of the clock per command is the end of one command and the start of the next. The only trace
        of a call is one count in the histogram of its row.
        """
        context, client, out, fast = self.context, session.client, session.out, self._fast
        effects, waiting = context.effects, self.waiters.by_client
        encode, read_clock = ENCODERS[client.protocol], perf_counter_ns
        context.now_ms, context.client, context.db = now_ms, client, client.db
        db, image = client.db, context.image
        units_end = output_size = 0
        measured_count = len(out)
        measure_at = measured_count + UNMEASURED_COUNT
        uncounted = len(requests)
        iterator = iter(requests)
        began_ns = started_ns = read_clock()
        for argv in iterator:
            found = fast.get(argv[0])
            if found is None or not client.takes_fast_path or not found[1] <= len(argv) <= found[2]:
                if units_end:
                    self.log_single_units()
                    units_end = 0
                # Commands on this path count their own calls.
                remaining = length_hint(iterator)
                if uncounted != remaining + 1:
                    count_commands(context, client, uncounted - remaining - 1)
                uncounted = remaining
                argv = words_of(argv)
                after = self._execute_checked(session, argv)
                if after is not Next.GO_ON:
                    uncounted = 0
                    self._stop(session, argv, iterator, after)
                    break
                encode, db, image = ENCODERS[client.protocol], client.db, context.image
                started_ns = read_clock()
                output_size += size_of(out, measured_count)
                measured_count = len(out)
                is_over = started_ns - began_ns > TURN_NS or output_size > TURN_OUTPUT_SIZE
                if (context.yields_turn or is_over) and uncounted:
                    uncounted = 0
                    self._leave_for_later(session, iterator)
                context.yields_turn = False
                continue
            handler, _, _, row, short_calls = found
            if image is not None:
                context.preserve(row, argv)
            try:
                reply = handler(context, argv)
            except ReplyError as error:
                reply = failed(context, row, error)
            except Exception:
                reply = broken(context, row, words_of(argv))
            if type(reply) is tuple:
                out += reply
            elif type(reply) is not Blocked:
                encode(reply, out)
            ended_ns = read_clock()
            duration_ns = ended_ns - started_ns
            try:
                short_calls[duration_ns >> SHORT_SHIFT] += 1
            except IndexError:
                if type(reply) is Blocked:
                    row.durations.add(duration_ns)
                else:
                    count_call(context, client, row, words_of(argv), duration_ns)
                output_size += size_of(out, measured_count)
                measured_count = len(out)
                if ended_ns - began_ns > TURN_NS or output_size > TURN_OUTPUT_SIZE:
                    uncounted -= length_hint(iterator)
                    self._leave_for_later(session, iterator)
            if len(out) > measure_at:
                output_size += size_of(out, measured_count)
                measured_count = len(out)
                measure_at = measured_count + UNMEASURED_COUNT
                if output_size > TURN_OUTPUT_SIZE:
                    uncounted -= length_hint(iterator)
                    self._leave_for_later(session, iterator)
            started_ns = ended_ns
            if len(effects) != units_end or db.expired_keys:
                if len(effects) == units_end + 1 and not db.expired_keys:
                    units_end += 1
                else:
                    self._log_units_and_group(units_end)
                    units_end = 0
            if waiting and db.ready:
                if units_end:
                    self.log_single_units()
                    units_end = 0
                self.serving.serve_ready()
                started_ns = read_clock()
                if started_ns - began_ns > TURN_NS:
                    uncounted -= length_hint(iterator)
                    self._leave_for_later(session, iterator)
            if type(reply) is Blocked:
                client.last_command = row.name_lower
                # A blocked command counts when it has ended.
                row.durations.remove(duration_ns)
                reply.spent_ns = duration_ns
                uncounted -= length_hint(iterator) + 1
                self.serving.park(session, reply)
                session.put_back(iterator)
                break
        # Once per batch: accounting, the rest of the log, and forgetting touched keys that no client waits for.
        client.commands_count += uncounted
        self.stats.commands_processed += uncounted
        if found is not None:
            client.last_command = found[3].name_lower
        if effects:
            self.log_single_units()
        if db.ready:
            db.ready.clear()
        if out:
            self.outgoing[session] = None

    def _stop(self, session: Session, argv: list[bytes], rest: Iterable[list[bytes]], after: Next) -> None:
        """Put the requests that must wait into the backlog. After QUIT and SHUTDOWN no request is run any more."""
        if after is Next.CLOSE:
            session.drop_requests()
            return
        session.put_back(rest)
        if after is Next.HOLD:
            self.hold(session, argv)

    def hold(self, session: Session, argv: list[bytes]) -> None:
        """Make a request wait for the end of CLIENT PAUSE, before all other requests of its client."""
        session.client.is_held = True
        session.backlog.appendleft(argv)
        self.pause.held[session] = None

    def _leave_for_later(self, session: Session, rest: Iterable[list[bytes]]) -> None:
        """End the client's turn; the rest of its requests is run after other clients have had theirs."""
        session.put_back(rest)
        if session.has_more:
            self.resumable[session] = None

    # -- the checks ------------------------------------------------------------------------------

    def _execute_checked(self, session: Session, argv: list[bytes]) -> Next:
        """Run one request through every check, in Redis' order. The first check that fails is the reply."""
        client = session.client
        mode_before = client.reply_mode
        if mode_before == "skip_next":
            client.reply_mode = "skip"
        try:
            row = find_row(argv)
            client.last_command = row.name_lower
            self.admission.admit(client, row, argv)
        except ReplyError as error:
            self.pushes.running = client
            self.answer(session, self.rejected(client, argv, error), mode_before)
            self.end_run(session, argv)
            return Next.GO_ON
        if self.pause.end_ms is not None and self.pause.concerns(client, row):
            client.reply_mode = mode_before
            return Next.HOLD
        if client.transaction.queue is not None and row.name not in NOT_QUEUED:
            self._queue(client, row, argv)
            self.answer(session, QUEUED, mode_before)
            return Next.GO_ON
        reply = self.run_unit(row, argv)
        if type(reply) is Blocked:
            self.serving.park(session, reply)
        else:
            self.answer(session, reply, mode_before)
        self.end_run(session, argv)
        if self.waiters.by_client:
            self.serving.serve_ready()
        elif argv[0] not in self._fast:
            self.serving.forget_ready()
        if not client.needs_only_acl_check or argv[0] not in self._fast:
            self.refresh_client(client)
        if client.close_after_reply or self.is_over:
            return Next.CLOSE
        return Next.GO_ON if client.blocked is None else Next.WAIT

    def rejected(self, client: Client, argv: list[bytes], error: ReplyError) -> ReplyError:
        """Handle a refused command: it makes an open transaction fail. A refused EXEC ends the transaction."""
        row = named_row(argv)
        if row is not None:
            row.rejected_calls += 1
        if row is not None and row.name == "EXEC":
            discard(self.context.store, client)
            self.context.monitors.show(client, row, argv, self.context.now_ms)
            error = ExecAborted(error.text if error.prefix == b"ERR" else error.wire_text)
        elif client.transaction.queue is not None:
            client.transaction.aborted = True
        self.stats.count_error(error.wire_text)
        return error

    def _queue(self, client: Client, row: Row, argv: list[bytes]) -> None:
        transaction = client.transaction
        assert transaction.queue is not None
        transaction.queue.append(argv)
        transaction.queue_size += sum(map(len, argv))
        transaction.queue_memory_size += request_size(argv)
        transaction.has_write = transaction.has_write or row.is_write
        transaction.has_denyoom = transaction.has_denyoom or bool(row.flag_bits & DENYOOM)

    def refresh_client(self, client: Client) -> None:
        """Compute again which checks the commands of this client need, after its state has changed.

        Ordinary commands change nothing about it, unless the client's state does: CLIENT REPLY SKIP ends with any
        command.
        """
        client.needs_only_acl_check = self.admission.needs_only_acl_check(client)
        client.takes_fast_path = (
            client.needs_only_acl_check and self.pause.end_ms is None and self.admission.is_unobserved(client)
        )

    def refresh_clients(self) -> None:
        """Compute again which checks the commands of all clients need, after a change that concerns them all."""
        for session in self.sessions.values():
            self.refresh_client(session.client)

    # -- running ---------------------------------------------------------------------------------

    def run_unit(self, row: Row, argv: list[bytes], sent: list[bytes] | None = None) -> Reply:
        """Run a handler as a unit of its own. An exception becomes the reply."""
        context = self.context
        context.preserve(row, argv)
        self.pushes.running = context.client
        reply = call(context, row, argv, sent)
        if context.effects or context.store.expired_keys:
            self.log_unit()
        return reply

    def answer(self, session: Session, reply: Reply, mode_before: str) -> None:
        """Encode a reply unless CLIENT REPLY says otherwise, before or after this command."""
        client = session.client
        if mode_before == "on" or client.reply_mode == "on" or type(reply) is Pushed:
            ENCODERS[client.protocol](reply, session.out)
        if client.reply_mode == "skip":
            client.reply_mode = "on"

    def end_run(self, session: Session, argv: list[bytes]) -> None:
        """Send the running client its messages: the reply to `argv` is written, or the client waits for it."""
        client, tracking = session.client, self.context.tracking
        if tracking.own_changes:
            tracking.send_own_changes(client)
        if client.tracking is not None:
            tracking.clear_caching_choice(client, argv)
        self.pushes.end_run(session)

    # -- the log ---------------------------------------------------------------------------------

    def log_single_units(self) -> None:
        """Append the effects gathered so far to the log, as one-record units. Called before the log is flushed."""
        effects = self.context.effects
        self.changes_count += len(effects)
        if self.log is not None and effects:
            self._append(effects, grouped=False)
        effects.clear()

    def _append(self, effects: list[tuple[int, bytes]], *, grouped: bool) -> None:
        assert self.log is not None
        self.log.append(effects, grouped)
        self.context.client.write_mark = self.log.mark
        self.has_unflushed_records = True

    def _log_units_and_group(self, units_end: int) -> None:
        """Append the effects: the first `units_end` as units of their own, the rest as one unit after the keys that it
        found expired.

        Those keys come first because the command already ran without them.
        """
        effects = self.context.effects
        unit = self.context.take_expired()
        unit += effects[units_end:]
        if not unit:
            return
        del effects[units_end:]
        self.changes_count += len(unit)
        self.log_single_units()
        if self.log is not None:
            self._append(unit, grouped=len(unit) > 1)

    def log_unit(self) -> None:
        """Append the effects of the running command so far, as one unit."""
        self._log_units_and_group(0)

    def log_expired(self) -> None:
        """Log the keys that the active cycle found expired, outside of any command; each is a unit."""
        records = self.context.take_expired()
        self.changes_count += len(records)
        self.stats.expired_keys_active += len(records)
        if records and self.log is not None:
            self.log.append(records, False)
            self.has_unflushed_records = True

    def note_write_error(self, error: bytes | None) -> None:
        """Set why the log cannot be written, so that writes get MISCONF; None if it can."""
        if error != self.admission.write_error:
            self.admission.write_error = error
            self.refresh_clients()

    def note_save_failing(self, is_failing: bool) -> None:
        """Set whether writes get MISCONF because the last snapshot failed."""
        if is_failing != self.admission.is_save_failing:
            self.admission.is_save_failing = is_failing
            self.refresh_clients()

    # -- sessions --------------------------------------------------------------------------------

    def attach(self, session: Session) -> None:
        """Add a new connection."""
        self.sessions[session.client.id] = session
        log_out(self.context, session.client)
        self.refresh_client(session.client)

    def detach(self, session: Session) -> None:
        """Remove a connection with its wait, its transaction and its output."""
        client = session.client
        if self.sessions.pop(client.id, None) is None:
            return
        self.stats.pipelined_before += client.pipeline_length_sum
        self.stats.reads_before += client.reads_count
        waiter = self.waiters.of(client)
        if waiter is not None:
            self.waiters.remove(waiter)
            client.blocked = None
        discard(self.context.store, client)
        self.context.subscriptions.remove_client(client)
        self.context.tracking.stop(client)
        self.context.monitors.remove(client)
        self.outgoing.pop(session, None)
        self.pause.held.pop(session, None)
        session.drop_requests()

    # -- pause -----------------------------------------------------------------------------------

    def begin_pause(self, pause_ms: int, *, writes_only: bool) -> None:
        """Hold back commands for `pause_ms`."""
        self.pause.begin(pause_ms, writes_only=writes_only)
        self.refresh_clients()

    def end_pause(self) -> None:
        """End the pause; the clients that were held continue in order of arrival."""
        self.resumable.update(dict.fromkeys(self.pause.end()))
        self.refresh_clients()
