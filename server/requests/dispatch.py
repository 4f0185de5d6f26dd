"""From requests to replies: the checks of every request, the handler, and the log.

Most requests come from an ordinary client (authenticated, no pause, replies on), which only the rules of its user can
refuse a command. So each client has a table of the rows that its user may run, which is made when rights or states
change, and a lookup in it is the only check. `execute` runs ordinary commands itself, and gives the others to `_run`.
What is not in the table goes through `_execute_checked`, which applies the checks in Redis' order. `_run` computes the
table again if it may have changed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from enum import Enum, auto
from operator import length_hint
from time import perf_counter_ns
from typing import Any, Final

from ...commands.clients.blocking import Blocked
from ...commands.clients.client import NO_COMMAND, Client, ReplyMode
from ...commands.core.durations import SHORT_SHIFT
from ...commands.core.lookup import look_up, named_row
from ...commands.core.table import Flag, Handler, Row, Trait
from ...commands.execution.calls import broken, count_call, count_commands, failed
from ...commands.execution.context import Context
from ...commands.execution.enforcement import log_out
from ...commands.execution.transactions import discard
from ...commands.permissions.allowed_rows import NO_ROWS, find_allowed, subscriber_table_of, table_of
from ...commands.policies.handing import end_guards
from ...persistence.grammar.streams import words_of
from ...protocol.encoder import ENCODERS
from ...protocol.replies import POSTPONED, QUEUED
from ...replication.history import History
from ...store.errors import ReplyError, UnknownCommand
from ..reports.stats import Stats
from .admission import Admission
from .pause import Cause, Pause
from .pushes import Pushes
from .runner import Runner
from .serving import Serving
from .session import Session
from .units import Units

logger = logging.getLogger(__name__)

NOT_QUEUED: Final = Trait.NOT_QUEUED.value
# Commands that are not ordinary touch keys only if they have one of these flags.
MAY_TOUCH_KEYS: Final = (Flag.WRITE | Flag.ADMIN | Flag.SCRIPT_RUNNER).value
QUEUED_LINE: Final = b"+QUEUED\r\n"

# Time that the requests of one read may take before other clients get their turn.
TURN_NS: Final = 5_000_000

# Bytes of replies at which the turn ends, since the peer may be a slow reader.
TURN_OUTPUT_SIZE: Final = 256 << 10

# Number of pieces of output after which their bytes are added up; each reply has one or more. After a slow call they
# are added up at once.
UNMEASURED_COUNT: Final = 16


def size_of(pieces: list[Any], first: int) -> int:
    """Size of the pieces of output from `first` on, without those that are made while they are sent."""
    size = 0
    for index in range(first, len(pieces)):
        piece = pieces[index]
        if isinstance(piece, bytes):
            size += len(piece)
    return size


def replies_of(session: Session) -> list[Any]:
    """Where the replies of the client's commands go: after CLIENT REPLY OFF, where no one reads them."""
    return session.out if session.client.reply_mode is REPLY_ON else []


def begin_reply(client: Client) -> ReplyMode:
    """Begin the command after CLIENT REPLY SKIP, if this is one. Returns which replies were sent before."""
    mode_before = client.reply_mode
    if mode_before is SKIP_NEXT:
        client.reply_mode = SKIP
    return mode_before


class Next(Enum):
    """What happens to the client's later requests."""

    GO_ON = auto()
    # The client is blocked: the later requests wait.
    WAIT = auto()
    # A pause: this request and the later ones wait.
    HOLD = auto()
    # The later requests are dropped.
    CLOSE = auto()


# To look a member up in its enumeration takes longer than most checks.
GO_ON: Final = Next.GO_ON
REPLY_ON: Final = ReplyMode.ON
SKIP: Final = ReplyMode.SKIP
SKIP_NEXT: Final = ReplyMode.SKIP_NEXT
HOLD: Final = Next.HOLD
CLOSE: Final = Next.CLOSE
WAIT: Final = Next.WAIT


class Dispatcher:
    """Runs requests. `Turns` sends what is in `outgoing` and resumes the sessions in `resumable`."""

    def __init__(
        self, context: Context, stats: Stats, history: History, monotonic: Callable[[], int], pushes: Pushes
    ) -> None:
        self.context = context
        # Returns ms; waits and pauses are timed by it.
        self.monotonic = monotonic
        self.stats = stats
        self.pushes = pushes
        self.pause = Pause(context.store, monotonic)
        self.units = Units(context, stats, history)
        self.runner = Runner(context, stats, pushes, self.pause, self.units)
        self.serving = Serving(context, self.runner, monotonic)
        self.waiters = self.serving.waiters
        self.admission = Admission(context)
        self.sessions = pushes.sessions
        self.outgoing = pushes.outgoing
        self.resumable = self.runner.resumable
        # Whether a command of this read may have touched keys of other databases while no client waited.
        self._may_have_touched = False

    # -- requests --------------------------------------------------------------------------------

    def execute(self, session: Session, requests: list[list[bytes]], now_ms: int) -> None:
        """Run the requests of one read, until one of them makes the rest wait, or the time or output of the turn is
        used up; the rest goes to the backlog. Short commands are not timed: the caller bounds their number.

        Hot (benchmark: redis-benchmark -P 16 XADD): the loop body is the whole cost of dispatch, so it works with
        locals. One reading of the clock per command is the end of one command and the start of the next. The only trace
        of a call is one count in the histogram of its row.
        """
        context, client, out = self.context, session.client, replies_of(session)
        effects, units, waiting = context.effects, self.units, self.waiters.by_client
        encode, read_clock = ENCODERS[client.protocol], perf_counter_ns
        context.now_ms, context.client, context.db = now_ms, client, client.db
        db, image, watched_ns = client.db, context.image, context.watched_ns
        monitors, records_uses = context.monitors.clients, context.records_uses
        units_end = output_size = 0
        measured_count = len(out)
        measure_at = measured_count + UNMEASURED_COUNT
        uncounted = len(requests)
        if uncounted > 1:
            db.keys.fetch_soon(requests)
        iterator = iter(requests)
        began_ns = started_ns = read_clock()
        for argv in iterator:
            found = find_allowed(client.rows, argv)
            if found is None or not found.row.is_ordinary or not client.is_plain:
                if units_end:
                    units.log_singles()
                    units_end = 0
                # Commands on this path count their own calls. A script may show what follows from the requests before.
                remaining = length_hint(iterator)
                if uncounted != remaining + 1:
                    count_commands(context, client, uncounted - remaining - 1)
                uncounted = remaining
                argv = words_of(argv)
                if found is None:
                    after = self._execute_checked(session, argv)
                else:
                    client.last_command = found.row.name_lower
                    after = self._run(session, found.row, argv, begin_reply(client))
                if after is not GO_ON:
                    uncounted = 0
                    self._stop(session, argv, iterator, after)
                    break
                if db.ready:  # no client waits, or those that waited have been served
                    db.ready.clear()
                encode, db, image = ENCODERS[client.protocol], client.db, context.image
                watched_ns, records_uses = context.watched_ns, context.records_uses
                started_ns = read_clock()
                output_size += size_of(out, measured_count)
                out = replies_of(session)
                measured_count = len(out)
                is_over = started_ns - began_ns > TURN_NS or output_size > TURN_OUTPUT_SIZE
                if (context.yields_turn or is_over) and uncounted:
                    uncounted = 0
                    self._leave_for_later(session, iterator)
                context.yields_turn = False
                continue
            row, handler, short_calls = found.row, found.handler, found.short_calls
            if client.transaction.queue is not None and not row.trait_bits & NOT_QUEUED:
                self._queue(client, row, handler, argv)
                out.append(QUEUED_LINE)
                uncounted -= 1
                continue
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
            if monitors:
                context.monitors.show(client, row, words_of(argv))
            if records_uses:
                context.note_uses(row, argv)
            bucket = duration_ns >> SHORT_SHIFT
            is_short = bucket < len(short_calls)
            if is_short and duration_ns < watched_ns:
                short_calls[bucket] += 1
            elif type(reply) is Blocked:
                row.recorder.add(duration_ns)
            else:
                count_call(context, client, row, argv, duration_ns)
            if not is_short:
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
                    units.log_singles_and_unit(units_end)
                    units_end = 0
            if waiting and db.ready:
                if units_end:
                    units.log_singles()
                    units_end = 0
                self.serving.serve_ready()
                started_ns = read_clock()
                if started_ns - began_ns > TURN_NS:
                    uncounted -= length_hint(iterator)
                    self._leave_for_later(session, iterator)
            if type(reply) is Blocked:
                client.last_command = row.name_lower
                # A blocked command counts when it has ended.
                row.recorder.remove(duration_ns)
                reply.spent_ns = duration_ns
                uncounted -= length_hint(iterator) + 1
                self.serving.park(session, reply)
                session.put_back(iterator)
                break
        # Once per batch: accounting, the rest of the log, and forgetting touched keys that no client waits for.
        client.commands_count += uncounted
        self.stats.commands_processed += uncounted
        self.stats.commands_ns += started_ns - began_ns
        if found is not None:
            client.last_command = found.row.name_lower
        if effects:
            units.log_singles()
        if db.ready:
            db.ready.clear()
        if self._may_have_touched:
            self._may_have_touched = False
            if not waiting:
                self.serving.forget_ready()
        if session.out:
            self.outgoing[session] = None

    def _stop(self, session: Session, argv: list[bytes], rest: Iterable[list[bytes]], after: Next) -> None:
        """Put the requests that must wait into the backlog. After QUIT and SHUTDOWN no request is run any more."""
        if after is CLOSE:
            session.drop_requests()
            return
        session.put_back(rest)
        if after is HOLD:
            self.runner.hold(session, argv)

    def _leave_for_later(self, session: Session, rest: Iterable[list[bytes]]) -> None:
        """End the client's turn; the rest of its requests is run after other clients have had theirs.

        It is taken out of `rest`, the iterator of `execute`, which ends with that.
        """
        session.put_back(rest)
        if session.has_more:
            self.resumable[session] = None

    # -- the checks ------------------------------------------------------------------------------

    def _execute_checked(self, session: Session, argv: list[bytes]) -> Next:
        """Run one request through every check, in Redis' order. The first failed check gives the reply; otherwise the
        command is run, queued in MULTI, or held by a pause.
        """
        client = session.client
        mode_before = begin_reply(client)
        row = look_up(argv)
        if not isinstance(row, Row):
            named = named_row(argv)
            client.last_command = NO_COMMAND if named is None else named.name_lower
            if type(row) is UnknownCommand:
                self.context.unserved.note(client, argv[0])
            self._reject(session, named, argv, row, mode_before)
            return GO_ON
        client.last_command = row.name_lower
        refusal = self.admission.refusal_of(client, row, argv)
        if refusal is not None:
            self._reject(session, row, argv, refusal, mode_before)
            return GO_ON
        if self.pause.end_ms is not None and self.pause.concerns(client, row):
            client.reply_mode = mode_before
            return HOLD
        return self._run(session, row, argv, mode_before)

    def _run(self, session: Session, row: Row, argv: list[bytes], mode_before: ReplyMode) -> Next:
        """Run a request that no check refuses, or queue it in MULTI, and follow what it has changed."""
        client, runner = session.client, self.runner
        if client.transaction.queue is not None and not row.trait_bits & NOT_QUEUED:
            assert row.handler is not None
            self._queue(client, row, row.handler, argv)
            runner.answer(session, QUEUED, mode_before)
            return GO_ON
        reply = runner.run_unit(row, argv)
        if reply is POSTPONED:
            client.reply_mode = mode_before
            self.pushes.end_run(session)
            return HOLD
        if type(reply) is Blocked:
            self.serving.park(session, reply)
        else:
            runner.answer(session, reply, mode_before)
        runner.end_run(session, argv)
        if self.waiters.by_client:
            self.serving.serve_ready()
        elif not row.is_ordinary and row.flag_bits & MAY_TOUCH_KEYS:
            self._may_have_touched = True
        if row.may_change_client or not client.needs_only_acl_check or not client.rows:
            self.refresh_client(client)
        if client.close_after_reply or runner.is_over:
            return CLOSE
        return GO_ON if client.blocked is None else WAIT

    def _reject(
        self, session: Session, row: Row | None, argv: list[bytes], error: ReplyError, mode_before: ReplyMode
    ) -> None:
        """Answer a request that is refused, or names no command (`row` is None)."""
        client, runner = session.client, self.runner
        runner.begin_run(client)
        runner.answer(session, runner.rejected(client, row, argv, error), mode_before)
        runner.end_run(session, argv)

    def _queue(self, client: Client, row: Row, handler: Handler, argv: list[bytes]) -> None:
        """Have EXEC run the command, unless it runs none."""
        transaction = client.transaction
        if transaction.aborted or transaction.dirty:
            return
        assert transaction.queue is not None
        transaction.queue.append((row, handler, argv))
        if not row.is_ordinary:
            client.transaction.is_ordinary = False
            client.rows = NO_ROWS  # until EXEC, which may change the client

    def refresh_client(self, client: Client) -> None:
        """Compute again which checks the commands of this client need, after its state has changed. Ordinary commands
        change nothing about it.
        """
        admission = self.admission
        client.is_plain = admission.is_plain(client)
        with_writes = client.needs_only_acl_check = admission.needs_only_acl_check(client)
        if not client.transaction.is_ordinary or self.pause.end_ms is not None:
            client.rows = NO_ROWS
        elif with_writes or admission.reads_need_only_acl_check(client):
            client.rows = table_of(client.user, with_writes=with_writes)
        elif client.is_subscriber and admission.subscribing_needs_only_acl_check(client):
            client.rows = subscriber_table_of(client.user)
        else:
            client.rows = NO_ROWS

    def refresh_clients(self) -> None:
        """Compute again which checks the commands of all clients need, after a change that concerns them all."""
        for session in self.sessions.values():
            self.refresh_client(session.client)

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

    def note_lacking_replicas(self, lacks: bool) -> None:
        """Set whether writes get NOREPLICAS because too few replicas keep up."""
        if lacks != self.admission.lacks_replicas:
            self.admission.lacks_replicas = lacks
            self.refresh_clients()

    def follow(self, is_following: bool, *, is_read_only: bool, is_stale: bool) -> None:
        """Set whether this server follows a primary: then nothing of it expires here, writes of clients may be refused
        with READONLY, and all of their commands with MASTERDOWN.
        """
        admission, own_keys = self.admission, self.context.own_keys
        self.pause.follow(is_following)
        self.units.follow(is_following)
        is_writable = is_following and not is_read_only
        if not is_following:
            own_keys.clear()
        if (is_read_only, is_stale, is_writable) != (admission.is_read_only, admission.is_stale, own_keys.is_on):
            admission.is_read_only, admission.is_stale, own_keys.is_on = is_read_only, is_stale, is_writable
            self.refresh_clients()

    def end_waits(self) -> None:
        """End all waits with an error, and close the clients: the role of the server has changed."""
        self.serving.end_all()

    # -- sessions --------------------------------------------------------------------------------

    def attach_primary(self, session: Session) -> None:
        """Add the connection to the primary, whose commands are run from now on."""
        self.sessions[session.client.id] = session
        self.refresh_client(session.client)

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
        end_guards(self.context, client)
        self.context.subscriptions.remove_client(client)
        self.context.tracking.stop(client)
        self.context.monitors.remove(client)
        self.outgoing.pop(session, None)
        self.pause.held.pop(session, None)
        session.drop_requests()

    # -- pause -----------------------------------------------------------------------------------

    def begin_pause(self, pause_ms: int, *, writes_only: bool, cause: Cause = Cause.COMMAND) -> None:
        """Hold back commands for `pause_ms`."""
        if pause_ms or self.pause.end_ms is not None:
            self.pause.begin(pause_ms, writes_only=writes_only, cause=cause)
            self.refresh_clients()

    def end_pause(self, cause: Cause = Cause.COMMAND) -> None:
        """End a pause; the clients that were held continue in order of arrival."""
        if self.pause.end_ms is not None:
            self.resumable.update(dict.fromkeys(self.pause.end(cause)))
            self.refresh_clients()

    def end_due_pauses(self) -> None:
        """End the pauses whose end has passed."""
        self.resumable.update(dict.fromkeys(self.pause.end_due()))
        self.refresh_clients()
