"""Servers that are broken on purpose: the simulator detects the defect in either of two ways.

The first checks the log whenever a reply is sent. The second checks, after a crash, the writes that replies confirmed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from headrace import is_compiled
from headrace.commands.execution.context import Context
from headrace.commands.streams import claim, group_read, release
from headrace.commands.streams.release import NackRequest
from headrace.persistence import snapshot
from headrace.persistence.aof import AppendOnlyLog
from headrace.persistence.writer import Effect
from headrace.server.requests import serving
from headrace.server.requests.turns import Turns
from headrace.server.storage.logkeeper import LogKeeper
from headrace.store.companions.companion import Companion
from headrace.store.group import Group
from headrace.store.idempotence import Idempotence
from headrace.store.pending import Delivery
from headrace.store.stream import Stream
from simulation.simulation import MembersSimulation, Simulation, Violation

pytestmark = pytest.mark.skipif(is_compiled(), reason="methods of compiled classes cannot be replaced")
MINUTES_MAX = 5.0
CRASH_SHARE = 0.3


class Credulous(Simulation):
    """A simulation that checks the state after crashes, and does not check the log at each reply."""

    def require_written(self) -> None:
        """Checks nothing."""


def reply_first(patch: pytest.MonkeyPatch) -> None:
    """Replies are sent before the write that they confirm, in the same turn of the loop."""

    def flush(self: Turns) -> None:
        self._is_flush_scheduled = False
        self.send_outgoing()
        if self.dispatcher.units.has_unflushed_records:
            self._write_log()

    patch.setattr(Turns, "flush", flush)


def reply_before_fsync(patch: pytest.MonkeyPatch) -> None:
    """With `always`, replies are sent after the write and before the fsync."""
    flush = Turns.flush

    def flush_and_sync(self: Turns) -> None:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(AppendOnlyLog, "needs_fsync_before_reply", False)
            flush(self)
        self._write_log()

    patch.setattr(Turns, "flush", flush_and_sync)


def write_with_cron(patch: pytest.MonkeyPatch) -> None:
    """Records stay in memory until the next cron."""
    patch.setattr(LogKeeper, "write", lambda self: True)


def reply_before_early_write(patch: pytest.MonkeyPatch) -> None:
    """Replies that are sent during a turn are sent before the write that they confirm."""
    patch.setattr(serving, "SERVED_AT_ONCE", 1)
    patch.setattr(LogKeeper, "write_early", lambda self: True)


BROKEN = [
    (reply_first, b"always"), (reply_first, b"everysec"), (reply_first, b"no"), (reply_before_fsync, b"always"),
    (write_with_cron, b"always"), (write_with_cron, b"no"),
]  # fmt: skip
BROKEN_EARLY = [(reply_before_early_write, b"always"), (reply_before_early_write, b"no")]
Break = Callable[[pytest.MonkeyPatch], None]


@pytest.mark.parametrize(("break_it", "policy"), [*BROKEN, *BROKEN_EARLY])
def test_reply_before_its_record_is_detected_in_the_log(
    break_it: Break, policy: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_it(monkeypatch)
    with pytest.raises(Violation, match=r"a reply left before its record was (written|synced)"):
        Simulation(1, policy).run(MINUTES_MAX)


@pytest.mark.parametrize(("break_it", "policy"), BROKEN)
def test_loss_of_a_confirmed_write_is_detected_after_a_crash(
    break_it: Break, policy: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulation = Credulous(1, policy, crash_share=CRASH_SHARE)
    break_it(monkeypatch)
    with pytest.raises(Violation, match="after a restart"):
        simulation.run(MINUTES_MAX)


def test_part_of_a_transaction_of_additions_is_detected_after_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    append = AppendOnlyLog.append

    def append_apart(self: AppendOnlyLog, effects: list[Effect], grouped: bool) -> None:
        append(self, effects, grouped and not all(b"XADD" in record for _, record in effects))

    monkeypatch.setattr(AppendOnlyLog, "append", append_apart)
    with pytest.raises(Violation, match=r"after a restart, .*'entries"):
        Simulation(0, b"always", crash_share=CRASH_SHARE).run(MINUTES_MAX)


def test_rewritten_log_without_idempotent_pairs_is_detected_after_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "_producer_records", lambda key, stream, gone: iter(()))
    with pytest.raises(Violation, match="made None, not"):
        Simulation(0, b"always").run(MINUTES_MAX)


def test_idempotent_pair_that_outlives_its_window_by_a_second_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    expire = Idempotence.expire
    monkeypatch.setattr(Idempotence, "expire", lambda self, now_ms: expire(self, now_ms - 1000))
    with pytest.raises(Violation, match="not None"):
        Simulation(1, b"no").run(MINUTES_MAX)


@pytest.mark.parametrize("policy", [b"always", b"everysec", b"no"])
def test_replies_that_leave_while_other_clients_are_served_are_written(
    policy: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "SERVED_AT_ONCE", 1)
    Simulation(1, policy, crash_share=CRASH_SHARE).run(MINUTES_MAX)


def lag_unknown(self: Stream, group: Group) -> int | None:
    return None


def forgetful(self: Stream, entry_id: int) -> bool:
    """Deletes as XTRIM does: without raising max-deleted-entry-id."""
    return self.remove(entry_id, keep_node=False)


@pytest.mark.parametrize(("name", "broken"), [("lag", lag_unknown), ("delete", forgetful)])
def test_counter_that_is_not_updated_is_detected(name: str, broken: object, monkeypatch: pytest.MonkeyPatch) -> None:
    simulation = Simulation(1, b"no")
    monkeypatch.setattr(Stream, name, broken)
    with pytest.raises(Violation, match=r"lag|deleted ID"):
        simulation.run(MINUTES_MAX)


def late_by_a_millisecond(delivery: Delivery, min_idle_ms: int, now_ms: int) -> bool:
    return not min_idle_ms or delivery.consumer is None or now_ms - delivery.time_ms > min_idle_ms


def counted(mode: bytes, request: NackRequest, delivery: Delivery | None) -> int:
    """The delivery count stays as it is in every mode."""
    return delivery.count if delivery is not None else 0


def unlogged(context: Context, key: bytes, group: Group, consumer_name: bytes) -> None:
    """Logs no record for the new consumer."""


def keep_references(self: Stream, entry_id: int) -> None:
    """Leaves the ID in all pending lists."""


def unsound(self: Stream) -> None:
    raise AssertionError("unsound")


BROKEN_COMMANDS = [
    (claim, "_is_idle_enough", late_by_a_millisecond, "XCLAIM|XAUTOCLAIM|pending"),
    (release, "_released_count", counted, "pending"),
    (claim, "log_consumer", unlogged, "after a restart.*consumers"),
    (group_read, "log_consumer", unlogged, "after a restart.*consumers"),
    (Stream, "drop_references", keep_references, "pending"),
    (Stream, "check", unsound, "seed 3, .* unsound"),
]


@pytest.mark.parametrize(("owner", "name", "broken", "message"), BROKEN_COMMANDS)
def test_broken_command_is_detected(
    owner: object, name: str, broken: object, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulation = Simulation(3, b"no", crash_share=0.03)
    monkeypatch.setattr(owner, name, broken)
    with pytest.raises(Violation, match=message):
        simulation.run(MINUTES_MAX)


def lose_expired_fields(patch: pytest.MonkeyPatch) -> None:
    """The log gets no HDEL of a field that has expired: what is added to it later is added to its old value."""
    take = Context.take_expired

    def take_keys(self: Context) -> list[Effect]:
        return [(index, record) for index, record in take(self) if b"HDEL" not in record]

    patch.setattr(Context, "take_expired", take_keys)


def rewrite_without_field_times(patch: pytest.MonkeyPatch) -> None:
    """A rewritten log has the fields of hashes, and not when they expire."""
    records = snapshot.companion_records

    def timeless(key: bytes, value: Companion) -> Iterator[bytes]:
        return (record for record in records(key, value) if b"HPEXPIREAT" not in record)

    patch.setattr(snapshot, "companion_records", timeless)


def serve_without_record(patch: pytest.MonkeyPatch) -> None:
    """A client that has waited gets an element, and the log does not."""
    log = Context.log

    def log_others(self: Context, *words: bytes) -> None:
        if words[0] != b"LPOP":
            log(self, *words)

    patch.setattr(Context, "log", log_others)


def part_a_transaction(patch: pytest.MonkeyPatch) -> None:
    """Changes of lists in a transaction are not written as one unit."""
    append = AppendOnlyLog.append

    def append_apart(self: AppendOnlyLog, effects: list[Effect], grouped: bool) -> None:
        append(self, effects, grouped and not any(b"PUSH" in record for _, record in effects))

    patch.setattr(AppendOnlyLog, "append", append_apart)


# With the share of the steps that end in a crash: where crashes are frequent, no rewrite of the log is completed.
# The seeds are of runs that come across the defect.
BROKEN_MEMBERS = [
    (lose_expired_fields, 4, 0.1, r"after a restart, .*h\d is "),
    (rewrite_without_field_times, 4, 0.01, r"after a restart, .*h\d is "),
    (serve_without_record, 4, 0.1, r"after a restart, .*l\d is "),
    (part_a_transaction, 5, 0.3, r"after a restart, .*[ahlmz]\d is "),
]


@pytest.mark.parametrize(("break_it", "seed", "crash_share", "message"), BROKEN_MEMBERS)
def test_broken_change_of_members_is_detected(
    break_it: Break, seed: int, crash_share: float, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulation = MembersSimulation(seed, b"always", crash_share=crash_share)
    break_it(monkeypatch)
    with pytest.raises(Violation, match=message):
        simulation.run(MINUTES_MAX)


@pytest.mark.parametrize("policy", [b"always", b"everysec", b"no"])
def test_crash_of_a_correct_server_loses_no_confirmed_write(policy: bytes) -> None:
    simulation = Credulous(1, policy, crash_share=CRASH_SHARE)
    simulation.run(1)
    assert simulation.counts["crashes inside a step"], simulation.counts
