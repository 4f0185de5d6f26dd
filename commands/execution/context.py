"""What a handler can use besides the store: the caller, the time, the log, and the server's services."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ...persistence.policy_lines import log_lines
from ...protocol.packing import pack_command
from ...store.database import Database, Store
from ...store.image import StoreImage
from ...store.key_uses import UseKind, UseRules
from ...store.limits import Limits
from ..clients.client import Client
from ..clients.subscriptions import Subscriptions
from ..clients.tracking import Tracking
from ..core.keys import find_keys
from ..core.table import Flag, Row, Trait
from ..observing.divergences import Divergences
from ..observing.hot_keys import HotKeys
from ..observing.latency import LatencyMonitor
from ..observing.modifications import Modifications
from ..observing.monitors import Monitors
from ..observing.notifications import Notifications
from ..observing.slow_log import SlowLog
from ..observing.unserved import UnservedCommands
from .own_keys import OwnKeys
from .script_engine import LibraryEngine, ScriptEngine
from .services import Services
from .targets import PolicyRecord, StreamRecord
from .visits import Visits

# Longer than any call.
NEVER_NS: Final = 1 << 60
KEEPS_USE_TIMES: Final = Trait.KEEPS_USE_TIMES.value
SCRIPT_RUNNER: Final = Flag.SCRIPT_RUNNER.value


class Context:
    """The context of a server's commands. `client`, `db` and `now_ms` are set before each batch of requests, and before
    a blocked command is run again.

    Effects are the changes of a command, in a form that needs no clock to be replayed. A handler that changed something
    calls `log(...)` with the arguments of each command that a replay must run. Several effects of one command become
    one MULTI/EXEC group.
    """

    __slots__ = (
        "client",
        "clock_us",
        "counted_apart",
        "db",
        "dead_letters_logged_ms",
        "divergences",
        "effects",
        "has_targeted",
        "hot_keys",
        "image",
        "is_counting",
        "latency",
        "libraries",
        "limits",
        "loading",
        "logging",
        "may_block",
        "monitors",
        "notifications",
        "now_ms",
        "own_keys",
        "records_uses",
        "replaying",
        "replicating",
        "scripts",
        "server",
        "shared_reads",
        "slow_log",
        "store",
        "subscriptions",
        "time_read_ms",
        "time_us",
        "tracking",
        "unlogged_count",
        "unserved",
        "use_rules",
        "visits",
        "watched_ns",
        "yields_turn",
    )

    # What the server offers; set where it is put together, as are `scripts` and `libraries`.
    server: Services
    scripts: ScriptEngine
    libraries: LibraryEngine
    # Who sent the running command.
    client: Client

    def __init__(
        self,
        store: Store,
        subscriptions: Subscriptions,
        notifications: Notifications,
        tracking: Tracking,
        monitors: Monitors,
        hot_keys: HotKeys,
        clock_us: Callable[[], int],
    ) -> None:
        self.store = store
        self.subscriptions = subscriptions
        self.notifications = notifications
        self.tracking = tracking
        self.monitors = monitors
        self.hot_keys = hot_keys
        self.clock_us = clock_us
        self.db: Database = store.databases[0]
        # Unix time in ms, one reading per command batch.
        self.now_ms = 0
        # The last time that TIME returned, in Unix us, and `now_ms` when it was read.
        self.time_us = 0
        self.time_read_ms = 0
        # (database index, RESP record) in order; `server.requests.units` appends them to the log and the stream.
        self.effects: list[tuple[int, bytes]] = []
        # Whether some of them go only to the log, or only to replicas.
        self.has_targeted = False
        # False while effects go nowhere (neither log nor replicas, loading): `log` then only counts.
        self.logging = True
        # Whether they go to replicas.
        self.replicating = False
        # Effects that were not recorded.
        self.unlogged_count = 0
        # Changes of commands that did not make one record for each change: their changes less their records.
        self.counted_apart = 0
        # While several waiters of a key are served: key and reply of an XREAD, by protocol and words. Others with the
        # same request get the same bytes.
        self.shared_reads: dict[tuple[int, tuple[bytes, ...]], tuple[bytes, tuple[bytes]]] | None = None
        # True while the dataset is loaded at the start or by DEBUG; clients then get LOADING.
        self.loading = False
        # True while effects are run, from a log that is loaded or from a primary: LIMIT is not enforced, IDMP takes
        # explicit IDs and makes none, nothing expires.
        self.replaying = False
        # The stream directives in force; shared with every stream.
        self.limits = Limits()
        # The snapshot being read in the background; None if there is none.
        self.image: StoreImage | None = None
        # Whether memory is so short that every write must be measured at once.
        self.is_counting = False
        # What is recorded of the uses of keys, for the eviction policies that need it. `records_uses` is whether
        # commands are recorded one by one.
        self.use_rules: UseRules | None = None
        self.records_uses = False
        # False inside MULTI/EXEC and in scripts.
        self.may_block = True
        # Whether other clients get their turn before the client's next request. Set by a command, reset by its caller.
        self.yields_turn = False
        # Keys that clients have written on a writable replica.
        self.own_keys = OwnKeys(store)
        # When groups with policies must be looked after.
        self.visits = Visits()
        # When the log of the server said last that a dead letter failed; Unix ms.
        self.dead_letters_logged_ms = 0
        self.slow_log = SlowLog()
        self.unserved = UnservedCommands()
        self.divergences = Divergences()
        self.latency = LatencyMonitor()
        # Calls of at least this duration are passed to the slow log and the latency monitor.
        self.watched_ns = NEVER_NS

    def refresh_listeners(self) -> None:
        """Set the databases' callbacks for listeners; none during a load. Called when a listener, or `loading`, has
        changed.
        """
        on_change = self.tracking.note_change if self.tracking.is_on and not self.loading else None
        on_event = self.notifications.publish if self.notifications.is_on and not self.loading else None
        records_changes = self.use_rules is not None and self.use_rules.kind is UseKind.LRM and not self.loading
        for db in self.store.databases:
            listener = Modifications(self, db, on_change).note if records_changes else on_change
            db.listen(on_change=listener, on_event=on_event)

    def record_uses(self, rules: UseRules | None) -> None:
        """Record from now on when or how often keys are used, as these rules say; nothing if they are None."""
        self.use_rules = rules
        self.store.record_uses(rules)
        self.records_uses = rules is not None and rules.kind is not UseKind.LRM
        self.refresh_listeners()

    def note_uses(self, row: Row, argv: list[bytes], *, keeps_times: bool = False) -> None:
        """Record that a command has used its keys. Called after each command while `records_uses`. `keeps_times`: only
        keys that it has created, for CLIENT NO-TOUCH."""
        uses = self.db.uses
        # A script uses its keys by its commands.
        if uses is None or row.trait_bits & KEEPS_USE_TIMES or row.flag_bits & SCRIPT_RUNNER:
            return
        keys = self.db.keys
        for key, _ in find_keys(row, argv):
            value = keys.get(key)
            if value is not None and not (keeps_times and (not row.is_write or uses.has_use(key, value))):
                uses.note_use(key, value, self.now_ms)

    def log(self, *arguments: bytes) -> None:
        """Add an effect of the running command, to be replayed in the current database."""
        if self.logging:
            self.log_record(pack_command(arguments))
        else:
            self.unlogged_count += 1

    def log_words(self, words: list[bytes], changes_count: int = 1) -> None:
        """Add an effect, often the request itself, which counts as so many changes (save points go by them)."""
        self.counted_apart += changes_count - 1
        if self.logging:
            self.effects.append((self.db.index, pack_command(words)))
        else:
            self.unlogged_count += 1

    def log_record(self, record: bytes) -> None:
        """Record an effect of the running command that is packed already."""
        if self.logging:
            self.effects.append((self.db.index, record))
        else:
            self.unlogged_count += 1

    def relay(self, words: list[bytes]) -> None:
        """Let replicas run a command that changes no data. It is not logged, and counts as no change."""
        if self.replicating:
            self.effects.append((self.db.index, StreamRecord(pack_command(words))))
            self.has_targeted = True
            self.counted_apart -= 1

    def log_policy(self, words: list[bytes]) -> None:
        """Add a policy line as an effect, to be applied in the current database. It counts as one change.

        The log gets it as lines that Redis skips, and replicas as a PING: see `persistence.policy_lines`.
        """
        if self.logging:
            self.effects.append((self.db.index, PolicyRecord(log_lines(words))))
            self.has_targeted = True
        else:
            self.unlogged_count += 1

    @property
    def records_count(self) -> int:
        """Effects of the running unit so far, recorded or not."""
        return len(self.effects) + self.unlogged_count

    def count_changes(self, changes_count: int, *, records_before: int) -> None:
        """Count the records since `records_count` was `records_before` as so many changes (save points go by them)."""
        self.counted_apart += changes_count - (self.records_count - records_before)

    def preserve(self, row: Row, argv: list[bytes]) -> None:
        """Copy the values that the command may change to a snapshot that is being read. Called before each command."""
        if self.image is None or not row.is_write:
            return
        self.preserve_keys([key for key, _ in find_keys(row, argv)])

    def preserve_keys(self, keys: list[bytes]) -> None:
        """Copy the values of these keys, which are about to change, to the snapshot that is being read, if any."""
        if self.image is None:
            return
        for key in keys:
            value = self.db.keys.get(key)
            if value is not None and not isinstance(value, bytes):
                self.image.preserve(value)

    def recount(self, row: Row, argv: list[bytes]) -> None:
        """Measure the streams that the command changed. Called after a write while `is_counting`. Other values are
        measured with each change."""
        for key, _ in find_keys(row, argv):
            stream = self.db.streams.get(key)
            if stream is not None:
                self.db.recount(stream)

    def log_expired_field(self, key: bytes, field: bytes) -> None:
        """Log that a field is removed because its new expiry time is over, and count it as expired, as Redis does."""
        self.log(b"HDEL", key, field)
        self.server.stats.expired_subkeys += 1

    def take_expired(self) -> list[tuple[int, bytes]]:
        """Count the keys and fields that have expired since the last call, and return the records that delete them.
        They are no changes, as in Redis.
        """
        places = self.store.expired_keys
        records: list[tuple[int, bytes]] = []
        for place in places:
            is_key = len(place) == 2
            self.server.stats.expired_keys += is_key
            self.server.stats.expired_subkeys += not is_key
            records.append((place[0], pack_command((b"DEL" if is_key else b"HDEL", *place[1:]))))
        self.counted_apart -= len(places)
        places.clear()
        return records
