"""The commands that a running script calls: they are checked, counted, monitored and logged like those of a client."""

from __future__ import annotations

from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Final

from ...store.errors import GenericError, ReplyError, UnknownCommand
from ..core.durations import SHORT_SHIFT
from ..core.lookup import find_row, named_row
from ..core.table import TABLE, Flag, Row, Trait
from ..execution.calls import broken, call, count_call, count_commands, failed
from ..execution.enforcement import PrimaryDown, refusal_in_script
from ..execution.targets import LogRecord, StreamRecord, for_replicas
from .errors import ScriptError
from .number_text import number_text

if TYPE_CHECKING:
    from ...protocol.replies import Reply
    from ..clients.client import Client
    from ..execution.context import Context
    from .cache import Script
    from .deadline import Deadline

# A name of this module is found faster than one of another.
read_clock: Final = perf_counter_ns

# The flags of redis.set_repl: writes go to the log, and to replicas.
REPL_AOF: Final = 1
REPL_REPLICA: Final = 2
REPL_ALL: Final = 3

NOSCRIPT: Final = Flag.NOSCRIPT.value
STALE: Final = Flag.STALE.value
DENYOOM: Final = Flag.DENYOOM.value
MAY_REPLICATE: Final = Trait.MAY_REPLICATE.value

# Time of commands after which the deadline is looked at before the next one. Lua looks at it too, more often.
LOOK_NS: Final = 5_000_000

NO_ARGUMENT: Final = b"Please specify at least one argument for this redis lib call"


def words_of(arguments: tuple[Any, ...]) -> list[bytes]:
    """Returns the words of a command that a script calls; numbers become text. Raises ScriptError."""
    if not arguments:
        raise ScriptError(NO_ARGUMENT)
    words = []
    for word in arguments:
        kind = type(word)
        if kind is not bytes and kind is not int and kind is not float:
            raise ScriptError(b"Lua redis lib command arguments must be strings or integers")
        words.append(word if kind is bytes else number_text(word))
    return words


class Run:
    """One run of a script: what it may do, and the client that its commands see. It selects its own database."""

    def __init__(
        self, context: Context, client: Client, script: Script, deadline: Deadline, *, read_only: bool
    ) -> None:
        """`client` is for commands of scripts only: each run gives it what its caller has."""
        caller = self._caller = context.client
        self._context = context
        self._deadline = deadline
        self._read_only = read_only or b"no-writes" in script.flags
        self._may_need_memory = b"allow-oom" in script.flags or not _is_out_of_memory(context)
        # The flags of redis.set_repl for the next writes.
        self.replication = REPL_ALL
        # When the deadline is looked at next, as `perf_counter_ns`, and whether that is now. The script has just begun:
        # its first command need not look, unless the server is to stop.
        self._look_ns = 0
        self._must_look = deadline.is_stopping
        # Whether the next ordinary commands need no check but that of their rows, and whether this is true of writes.
        # What it depends on is changed by other commands only.
        self._is_quick = False
        self._may_write = False
        # Commands that are not counted yet.
        self._uncounted = 0
        self.client = client
        client.id, client.db, client.protocol = caller.id, context.db, 2
        client.user, client.tracking, client.no_touch = caller.user, caller.tracking, caller.no_touch
        if client.fieldsets:
            client.fieldsets = {}
        client.governed, client.governed_max = caller.governed, caller.governed_max
        # The commands of a script do not change what the server follows.
        self._is_stale = context.server.following.is_stale
        if self._is_stale and b"allow-stale" not in script.flags:
            raise PrimaryDown
        if script.has_shebang and b"no-writes" not in script.flags:
            self._require_writes(asked_read_only=read_only)
        self._is_quick = self._has_no_checks()

    def _require_writes(self, *, asked_read_only: bool) -> None:
        """Refuses a script that declares writes if writes are not possible now. Raises ReplyError."""
        if asked_read_only:
            raise GenericError(b"Can not execute a script with write flag using *_ro command.")
        refusal = self._refusal_of_writes()
        if refusal is not None:
            raise refusal
        if not self._may_need_memory and (refusal := self._context.server.memory.refusal()) is not None:
            raise refusal

    def look_at_deadline(self) -> None:
        """Raises ScriptError if the script must end now. Called before each command."""
        if self._must_look:
            self._deadline.require()
            self._look_ns = read_clock() + LOOK_NS
            self._must_look = False

    def execute(self, words: list[bytes]) -> Reply:
        """Runs a command and returns its reply. An error of the command or of its checks is the reply.

        Hot (benchmark: command-eval): an ordinary command takes the way that the dispatcher has for those of clients.
        """
        row = TABLE.get(words[0].upper())
        if row is None or not self._is_quick or not row.is_ordinary or row.flag_bits & NOSCRIPT or row.subcommands:
            return self._execute_checked(words)
        if len(words) != row.arity if row.arity > 0 else len(words) < -row.arity:
            return self._execute_checked(words)
        if row.trait_bits & MAY_REPLICATE or (row.is_write and not self._may_write and not self._admits_writes()):
            return self._execute_checked(words)
        handler = row.handler
        if handler is None:
            return self._execute_checked(words)
        context, client = self._context, self.client
        if row.is_write:
            self._deadline.has_written = True
            if context.image is not None:
                context.preserve(row, words)
        effects = context.effects
        effects_before = len(effects)
        started_ns = read_clock()
        try:
            reply = handler(context, words)
        except ReplyError as error:
            reply = failed(context, row, error)
        except Exception:
            reply = broken(context, row, words)
        ended_ns = read_clock()
        self._uncounted += 1
        duration_ns = ended_ns - started_ns
        short_calls = row.recorder.short
        bucket = duration_ns >> SHORT_SHIFT
        if bucket < len(short_calls) and duration_ns < context.watched_ns:
            short_calls[bucket] += 1
        else:
            count_call(context, client, row, words, duration_ns)
        if ended_ns >= self._look_ns:
            self._must_look = True
        self._take_effects(effects_before)
        return reply

    def count(self) -> None:
        """Counts the commands that are not counted yet. Called before a command that may see their number, and at the
        end.
        """
        if self._uncounted:
            count_commands(self._context, self.client, self._uncounted)
            self._uncounted = 0

    def _execute_checked(self, words: list[bytes]) -> Reply:
        self.count()
        self._must_look = True
        context = self._context
        try:
            row = self._admitted(words)
        except ReplyError as error:
            rejected = named_row(words)
            if rejected is not None:
                rejected.rejected_calls += 1
            context.server.stats.count_error(error.code)
            return error
        if row.is_write:
            self._deadline.has_written = True
        context.preserve(row, words)
        effects_before = len(context.effects)
        reply = call(context, row, row.handler, words)
        self._take_effects(effects_before)
        context.db = self.client.db
        self._is_quick = self._has_no_checks()
        self._may_write = False
        return reply

    def _admits_writes(self) -> bool:
        """Whether writes are possible now; if they are, they stay so until a command of another kind."""
        self._may_write = not self._read_only and self._refusal_of_writes() is None
        return self._may_write

    def _take_effects(self, effects_before: int) -> None:
        """Sends the effects of a command where the script has chosen, after those of keys that have expired in it."""
        context = self._context
        if self.replication != REPL_ALL:
            self._target(effects_before)
        if context.store.expired_keys:
            context.effects[effects_before:effects_before] = context.take_expired()

    def _has_no_checks(self) -> bool:
        """Whether an ordinary command needs no check, and leaves no trace but its count."""
        context, client = self._context, self.client
        return (
            client.user.is_unrestricted
            and client.tracking is None
            and not client.no_touch
            and not self._caller.is_primary
            and not context.own_keys.is_on
            and not context.is_counting
            and not context.records_uses
            and not context.monitors.clients
            and not context.hot_keys.is_active
            and not self._is_stale
        )

    def _target(self, effects_before: int) -> None:
        """Send the effects of a command only where the script has chosen."""
        context = self._context
        made = context.effects[effects_before:]
        del context.effects[effects_before:]
        if self.replication & REPL_AOF:
            context.effects += [(index, LogRecord(record)) for index, record in made]
        elif self.replication & REPL_REPLICA and context.replicating:
            context.effects += [(index, StreamRecord(record)) for index, record in for_replicas(made)]
        context.has_targeted = context.has_targeted or len(context.effects) > effects_before
        context.counted_apart += len(made) - (len(context.effects) - effects_before)

    def _admitted(self, words: list[bytes]) -> Row:
        row = self._found(words)
        if row.flag_bits & NOSCRIPT:
            raise GenericError(b"This Redis command is not allowed from script")
        context = self._context
        if not self.client.user.is_unrestricted:
            refusal = refusal_in_script(context, self._caller, row, words)
            if refusal is not None:
                raise refusal
        if self._is_stale and not row.flag_bits & STALE:
            raise GenericError(b"Can not execute the command on a stale replica")
        if row.is_write or row.trait_bits & MAY_REPLICATE:
            self._admit_write(row)
        if row.flag_bits & DENYOOM and not self._may_need_memory and not self._deadline.has_written:
            out_of_memory = context.server.memory.refusal()
            if out_of_memory is not None:
                raise out_of_memory
        return row

    def _found(self, words: list[bytes]) -> Row:
        """Returns the row of a command. Raises GenericError with the texts for scripts."""
        try:
            return find_row(words)
        except ReplyError as error:
            if type(error) is UnknownCommand:
                self._context.unserved.note(self._caller, words[0])
            if named_row(words) is None:
                raise GenericError(b"Unknown Redis command called from script") from None
            raise GenericError(b"Wrong number of args calling Redis command from script") from None

    def _admit_write(self, row: Row) -> None:
        if self._read_only:
            raise GenericError(b"Write commands are not allowed from read-only scripts.")
        refusal = self._refusal_of_writes() if row.is_write else None
        if refusal is not None:
            raise refusal

    def _refusal_of_writes(self) -> ReplyError | None:
        """Why clients may not write now. The primary of this server always may."""
        return None if self._caller.is_primary else self._context.server.storage.refusal_of_writes()

    def allows(self, words: list[bytes]) -> bool:
        """Whether the user may run a command, for redis.acl_check_cmd. Raises ScriptError."""
        row = named_row(words)
        if row is None:
            raise ScriptError(b"Invalid command passed to redis.acl_check_cmd()")
        try:
            find_row(words)
        except ReplyError:
            raise ScriptError(b"Wrong number of args for redis.acl_check_cmd()") from None
        return self.client.user.check(row, words) is None


def _is_out_of_memory(context: Context) -> bool:
    """Whether commands that need memory are refused now."""
    return context.is_counting and context.server.memory.refusal() is not None
