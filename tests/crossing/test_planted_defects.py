"""Defects that Headrace has had, put back: the machine finds each of them in the cell where two states meet."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from crossing.acts import all_acts
from crossing.crossing import Cell, Step, play
from crossing.scene import Violation
from headrace import is_compiled
from headrace.commands.execution.context import Context
from headrace.persistence import snapshot
from headrace.persistence.aof import AppendOnlyLog
from headrace.persistence.errors import LogError
from headrace.persistence.folder import LogFolder
from headrace.server.app import Server
from headrace.server.configuration import config, configfile, users
from headrace.server.configuration.changes import set_failed
from headrace.server.configuration.config import ChangeRefused, Config, Undo
from headrace.server.requests.serving import Serving
from headrace.server.requests.session import Session
from headrace.server.requests.turns import Turns
from headrace.server.requests.waiters import Waiter
from headrace.server.sockets.connection import Connection
from headrace.server.storage import loading as server_loading
from headrace.server.storage.log_life import LogLife, LogState
from headrace.server.storage.log_switch import LogSwitch
from headrace.server.storage.logkeeper import LogKeeper
from headrace.server.storage.replay import Replay
from headrace.server.storage.snapshots import Snapshots
from headrace.store.database import Store
from headrace.store.value import Value

pytestmark = pytest.mark.skipif(is_compiled(), reason="methods of compiled classes call each other whatever is put in")

Break = Callable[[pytest.MonkeyPatch], None]


def serve_after_a_failed_load(patch: pytest.MonkeyPatch) -> None:
    """The state `loading` ends with the load, however it went, and the process some turns later."""

    def load(self: Server) -> Iterator[None]:
        loaded = self.log_keeper.begin_load()
        try:
            yield from self.loading.steps(loaded)
            self.log_keeper.end_load(loaded)
        except (LogError, OSError):
            self.log_keeper.life.state = LogState.OFF
            raise

    patch.setattr(Server, "load", load)
    patch.setattr(Server, "drop_replies", lambda self: None)


def start_a_log_while_loading(patch: pytest.MonkeyPatch) -> None:
    """CONFIG SET appendonly yes does not ask whether a load runs: what is loaded so far becomes the log."""
    end_load = LogKeeper.end_load

    def prepare_on(self: LogSwitch) -> None:
        self._snapshots.start_log()

    def end_load_with_a_log(self: LogKeeper, loaded: AppendOnlyLog | None) -> None:
        if self.log is None:
            end_load(self, loaded)

    patch.setattr(LogSwitch, "prepare_on", prepare_on)
    patch.setattr(LogKeeper, "end_load", end_load_with_a_log)
    patch.setattr(LogLife, "become", lambda self, state: setattr(self, "state", state))


def refuse_after_the_effect(patch: pytest.MonkeyPatch) -> None:
    """CONFIG SET puts each directive in force as it comes; a later refusal restores the values alone."""

    def prepare(self: Config, changed: list[Any], before: list[Any]) -> None:
        for typed, directive in changed:
            value = self.value(directive)
            if directive.name == b"appendonly":
                self._callbacks[directive.name][0](value)
                if value:
                    self._preparations[directive.name][0](value)
                continue
            for preparation in self._preparations.get(directive.name, ()):
                try:
                    preparation(value)
                except (ChangeRefused, OSError) as refusal:
                    self._restore(before)
                    if changed[0][1].name == b"appendonly" and self.appendonly:
                        self._preparations[b"appendonly"][0](True)
                    raise set_failed(typed, str(refusal)) from refusal

    patch.setattr(Config, "_prepare", prepare)


def run_on_as_the_unblocked_client(patch: pytest.MonkeyPatch) -> None:
    """CLIENT UNBLOCK of a client in WAIT leaves that client as the one that runs."""
    unblock = Serving.unblock

    def unblock_and_stay(self: Serving, client: Any, *, with_error: bool) -> bool:
        was_blocked = unblock(self, client, with_error=with_error)
        self._context.client = client
        return was_blocked

    patch.setattr(Serving, "unblock", unblock_and_stay)


def thaw_for_all(patch: pytest.MonkeyPatch) -> None:
    """The end of a pause lets keys expire while a log is loaded."""
    keep_expired = Store.keep_expired

    def keep_and_thaw(self: Store, is_on: bool) -> None:
        keep_expired(self, is_on)
        self.thaw()

    patch.setattr(Store, "keep_expired", keep_and_thaw)


def send_when_the_peer_reads(patch: pytest.MonkeyPatch) -> None:
    """What waits for a slow reader leaves as soon as it reads, whatever the log still has to write."""

    def send_rest(self: Turns, session: Session) -> None:
        dispatcher = self.dispatcher
        had_news, dispatcher.units.has_unflushed_records = dispatcher.units.has_unflushed_records, False
        session.send()
        dispatcher.units.has_unflushed_records = had_news

    patch.setattr(Turns, "send_rest", send_rest)


def end_the_snapshot_with_the_log(patch: pytest.MonkeyPatch) -> None:
    """CONFIG SET appendonly no gives up whatever job runs, and calls it a success."""
    patch.setattr(Snapshots, "abort_rewrite", Snapshots.stop)


def forget_what_the_transaction_did(patch: pytest.MonkeyPatch) -> None:
    """DEBUG RELOAD drops the records that its transaction has made before it."""
    loading = server_loading.loading

    @contextlib.contextmanager
    def loading_alone(context: Context) -> Iterator[Replay]:
        with loading(context) as replay:
            yield replay
        context.effects.clear()

    patch.setattr(server_loading, "loading", loading_alone)


def run_on_after_shutdown(patch: pytest.MonkeyPatch) -> None:
    """SHUTDOWN ends the process some turns later, and requests after it are still run."""

    patch.setattr(Server, "end", lambda self: self.stopped.set())


def keep_the_old_mark(patch: pytest.MonkeyPatch) -> None:
    """An fsync in the foreground does not tell WAITAOF how far the log is synced."""
    fsync = AppendOnlyLog.fsync

    def fsync_silently(self: AppendOnlyLog) -> bool:
        mark = self.synced_mark
        is_synced = fsync(self)
        self.synced_mark = mark
        return is_synced

    patch.setattr(AppendOnlyLog, "fsync", fsync_silently)


def wake_readers_during_a_pause(patch: pytest.MonkeyPatch) -> None:
    """A reader that CLIENT PAUSE concerns is served all the same, and what it is given is logged."""
    run_again = Serving._run_again

    def run_again_now(self: Serving, waiter: Waiter, value: Value | None) -> bool:
        pause = self._runner.pause
        end_ms, pause.end_ms = pause.end_ms, None
        try:
            return run_again(self, waiter, value)
        finally:
            pause.end_ms = end_ms

    patch.setattr(Serving, "_run_again", run_again_now)


def leave_a_blocked_client_unread(patch: pytest.MonkeyPatch) -> None:
    """After many requests of a client that waits, the end of its peer is not noticed."""

    def regulate(self: Connection) -> None:
        if self.client.query_buffer_size > 4096:
            self._pause_reading()
        else:
            self._resume_reading()

    patch.setattr(Connection, "_regulate_reading", regulate)


def leave_always_without_a_sync(patch: pytest.MonkeyPatch) -> None:
    """CONFIG SET appendfsync is in force at once, also for what was written before it."""

    def change_policy(self: LogKeeper, policy: bytes) -> None:
        if self.log is not None:
            self.log.policy = policy

    init = LogKeeper.__init__

    def init_and_replace(self: LogKeeper, config: Config, *words: Any, **named: Any) -> None:
        init(self, config, *words, **named)
        config._callbacks[b"appendfsync"][-1] = lambda policy: change_policy(self, policy)

    patch.setattr(LogKeeper, "__init__", init_and_replace)


def drop_pairs_of_deleted_entries(patch: pytest.MonkeyPatch) -> None:
    """A base in RESP has the idempotent IDs of entries that are there, and no others."""

    def producer_records(key: bytes, stream: Any, deleted: frozenset[Any]) -> Iterator[bytes]:
        return producers(key, stream, frozenset())

    producers = snapshot._producer_records
    patch.setattr(snapshot, "_producer_records", producer_records)


def forget_a_directive(patch: pytest.MonkeyPatch) -> None:
    """CONFIG REWRITE changes the lines that are there, and adds none."""

    def wanted_lines(self: Config, old_text: bytes) -> Any:
        return {name: (lines, name == b"dir") for name, (lines, _) in wanted(self, old_text).items()}

    wanted = Config._wanted_lines
    patch.setattr(Config, "_wanted_lines", wanted_lines)


def write_in_place(patch: pytest.MonkeyPatch) -> None:
    """ACL SAVE and CONFIG REWRITE write over the file that is there: a crash leaves half of it."""

    def replace_file(path: bytes, text: bytes) -> None:
        with configfile.open(path, "wb") as file:
            file.write(text)

    patch.setattr(users, "replace_file", replace_file)
    patch.setattr(config, "replace_file", replace_file)


def leave_the_log_in_the_old_folder(patch: pytest.MonkeyPatch) -> None:
    """CONFIG SET dir is taken while there is a log, which stays where it is."""
    patch.setattr(LogSwitch, "_change_folder", lambda self, folder: None)


def begin_without_the_manifest(patch: pytest.MonkeyPatch) -> None:
    """Files of a log whose manifest is gone count as none: the server starts empty, and writes over them."""
    patch.setattr(LogFolder, "_refuse_lost_manifest", lambda self: None)


def unlock_what_is_written(patch: pytest.MonkeyPatch) -> None:
    """CONFIG SET dir unlocks the old folder at once, whatever still writes there."""

    def release(self: LogSwitch) -> None:
        for lock in self._locks:
            if lock is not self._keeper.lock:
                lock.release()

    patch.setattr(LogSwitch, "_release_former_folders", release)


def stay_locked_when_refused(patch: pytest.MonkeyPatch) -> None:
    """CONFIG SET dir that is refused leaves the other folder locked until the job ends."""

    def change_folder(self: LogSwitch, folder: bytes) -> Undo:
        go_back, lock = change(self, folder), self._keeper.lock

        def go_back_locked() -> None:
            go_back()
            lock.acquire()

        return go_back_locked

    change = LogSwitch._change_folder
    patch.setattr(LogSwitch, "_change_folder", change_folder)


PLANTED = [
    (serve_after_a_failed_load, "loading a bad log", "PING", b"always", "told"),
    (serve_after_a_failed_load, "loading a bad dump.rdb", "PING", b"everysec", "told"),
    (start_a_log_while_loading, "loading dump.rdb", "CONFIG|SET appendonly yes", b"always", "restart|told"),
    (refuse_after_the_effect, "serving", "CONFIG|SET appendonly no bind refused", b"always", "refused|told"),
    (run_on_as_the_unblocked_client, "in MULTI", "CLIENT|UNBLOCK <waiter>", b"no", "client"),
    (thaw_for_all, "loading a log", "CLIENT|PAUSE 300 WRITE; CLIENT|UNPAUSE", b"no", "restart"),
    (send_when_the_peer_reads, "a stalled reader that waits", "PING", b"always", "told"),
    (end_the_snapshot_with_the_log, "snapshot running", "CONFIG|SET appendonly no", b"everysec", "BGSAVE ended well"),
    (forget_what_the_transaction_did, "in MULTI", "DEBUG RELOAD", b"no", "restart"),
    (run_on_after_shutdown, "serving without a log", "SHUTDOWN", b"everysec", "restart"),
    (keep_the_old_mark, "rewrite beginning", "PING", b"always", "WAITAOF"),
    (wake_readers_during_a_pause, "paused for writes", "PING", b"everysec", "changes during a pause"),
    (leave_always_without_a_sync, "serving", "CONFIG|SET appendfsync no", b"always", "told"),
    (leave_a_blocked_client_unread, "serving", "connection many behind", b"no", "clients that wait"),
    (drop_pairs_of_deleted_entries, "rewriting", "PING", b"always", "restart"),
    (drop_pairs_of_deleted_entries, "log starting", "PING", b"no", "restart"),
    (forget_a_directive, "serving", "CONFIG|SET timeout 7", b"no", "told: .* than were saved"),
    (forget_a_directive, "loading a log", "CONFIG|REWRITE", b"no", "told: .* than were saved"),
    (write_in_place, "serving", "ACL|SAVE", b"no", "told: kill -9 leaves"),
    (write_in_place, "users in the configuration file", "CONFIG|REWRITE", b"always", "told: kill -9 leaves"),
    (begin_without_the_manifest, "no manifest", "PING", b"always", "the load is over"),
    (begin_without_the_manifest, "serving beside no manifest", "CONFIG|SET appendonly yes", b"always", "was changed"),
    (unlock_what_is_written, "snapshot running without a log", "CONFIG|SET dir /other", b"no", "lock"),
    (unlock_what_is_written, "log starting", "CONFIG|SET dir /other appendonly no", b"no", "lock"),
    (
        stay_locked_when_refused,
        "base being made without a log",
        "CONFIG|SET dir /other bind refused",
        b"no",
        "refused",
    ),
    (leave_the_log_in_the_old_folder, "serving", "CONFIG|SET dir /other", b"always", "told"),
]


@pytest.mark.parametrize(
    ("break_it", "state", "name", "policy", "message"),
    PLANTED,
    ids=[f"{each[0].__name__}-{each[1]}" for each in PLANTED],
)
def test_defect_that_is_put_back_is_found(
    break_it: Break, state: str, name: str, policy: bytes, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    acts = {each.name: each for each in all_acts()}
    cell = Cell(state, policy, tuple(Step((acts[each],)) for each in name.split("; ")), "kill")
    play(cell)
    break_it(monkeypatch)
    with pytest.raises(Violation, match=message):
        play(cell)
