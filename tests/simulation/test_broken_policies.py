"""Groups whose policies are broken on purpose, each in one way: the simulation must find the defect."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from headrace import is_compiled
from headrace.commands.execution.context import Context
from headrace.commands.policies import absences, dead_letters, redelivery, release, skipping, upkeep
from headrace.commands.policies.redelivery import Room
from headrace.commands.streams import group as xgroup
from headrace.commands.streams import redrive
from headrace.commands.streams import release as xnack
from headrace.commands.streams.group_read import _GroupRead
from headrace.commands.streams.read_request import ReadRequest
from headrace.persistence.grammar.streams import pack_acknowledged
from headrace.store.ids import parse_id
from headrace.store.pending import PendingEntries
from headrace.store.policies.absences import Absences
from headrace.store.policies.agenda import NEVER_MS, Agenda, Step
from headrace.store.policies.group_policy import GroupPolicy
from headrace.store.policies.ordering import Ordering
from headrace.store.policies.rules import UNLIMITED, PendingRules
from headrace.store.stream import Stream
from simulation.policies import PolicySimulation
from simulation.policy_invariants import DEAD_KEY
from simulation.server_run import Violation

pytestmark = pytest.mark.skipif(is_compiled(), reason="methods of compiled classes cannot be replaced")
STEPS_MAX = 2500
CRASH_SHARE = 0.02

Break = Callable[[pytest.MonkeyPatch], None]


def redeliver_a_millisecond_early(patch: pytest.MonkeyPatch) -> None:
    init = Step.__init__
    patch.setattr(Step, "__init__", lambda self, wait_ms, *, is_spent: init(self, wait_ms - 1, is_spent=is_spent))


def redeliver_a_millisecond_late(patch: pytest.MonkeyPatch) -> None:
    due = Step.due
    patch.setattr(Step, "due", lambda self, now_ms: due(self, now_ms - 1))


def wake_no_reader_for_idle_entries(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Agenda, "next_due_ms", lambda self, after_ms=-1: NEVER_MS)


def give_idle_entries_before_released_ones(patch: pytest.MonkeyPatch) -> None:
    candidates = redelivery._candidates

    def reordered(*arguments: object, **options: object) -> Iterator[object]:
        found = list(candidates(*arguments, **options))  # type: ignore[arg-type]
        return iter([each for each in found if each[1].consumer] + [each for each in found if not each[1].consumer])

    patch.setattr(redelivery, "_candidates", reordered)


def deliver_once_too_often(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(GroupPolicy, "is_spent", lambda self, count: 0 < self.spent_from < count)


def end_delays_a_millisecond_early(patch: pytest.MonkeyPatch) -> None:
    settle = PendingRules.settle
    patch.setattr(PendingRules, "settle", lambda self, now_ms: settle(self, now_ms + 1))


def claim_what_is_held(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PendingRules, "is_held", lambda self, entry_id, delivery: False)


def guard_after_the_connection_is_closed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PendingRules, "end_guard", lambda self, holder: None)


def back_off_by_the_next_step(patch: pytest.MonkeyPatch) -> None:
    backoff_after = GroupPolicy.backoff_after
    patch.setattr(GroupPolicy, "backoff_after", lambda self, count: backoff_after(self, count + 1))


def ignore_the_bounds(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Room, "take", lambda self, owner, consumer: True)


def bury_when_a_reader_comes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(upkeep, "bury_spent", lambda context, key, stream, group: 0)


def keep_buried_entries_pending_in_the_log(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(dead_letters, "pack_acknowledged", lambda key, group, _: pack_acknowledged(key, group, b"0-1"))


def delete_what_another_group_needs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Stream, "is_referenced", lambda self, entry_id: False)


def keep_due_times_out_of_the_log(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(release, "log_due", lambda context, key, group, due_of: None)


def keep_settings_out_of_the_log(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Context, "log_policy", lambda self, words: None)


def count_a_silent_release(patch: pytest.MonkeyPatch) -> None:
    released_count = xnack._released_count

    def counted(mode: bytes, request: xnack.NackRequest, delivery: object) -> int:
        return released_count(b"FAIL" if mode == b"SILENT" else mode, request, delivery)  # type: ignore[arg-type]

    patch.setattr(xnack, "_released_count", counted)


def hand_out_before_the_delay_of_an_addition(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(skipping.Skipping, "deliverable", lambda self, entries, *, become_pending: entries)


def hand_out_later_entries_of_a_value(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Ordering, "must_wait", lambda self, entry_id, entry: False)


def give_no_turn_to_the_next(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Ordering, "leave", lambda self, ids, leave=Ordering.leave: leave(self, ids) and [])


def give_no_turn_after_a_deletion(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PendingRules, "note_deleted", lambda self, ids, first_id: None)


def claim_what_waits_for_its_turn(patch: pytest.MonkeyPatch) -> None:
    is_held = PendingRules.is_held
    patch.setattr(
        PendingRules,
        "is_held",
        lambda self, entry_id, delivery: self.delays.get(entry_id) != NEVER_MS and is_held(self, entry_id, delivery),
    )


def give_the_turn_to_all_entries(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Ordering, "has_turn", lambda self, entry_id: True)


def park_without_a_bound(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Ordering, "waiting_count", 0)


def delete_consumers_a_millisecond_early(patch: pytest.MonkeyPatch) -> None:
    expect, since_ms = Absences.expect, Absences.absent_since_ms
    patch.setattr(Absences, "expect", lambda self, name, since_ms: expect(self, name, since_ms - 1))
    patch.setattr(Absences, "absent_since_ms", lambda self, consumer: since_ms(self, consumer) - 1)


def delete_consumers_a_millisecond_late(patch: pytest.MonkeyPatch) -> None:
    expect = Absences.expect
    patch.setattr(Absences, "expect", lambda self, name, since_ms: expect(self, name, since_ms + 1))


def delete_consumers_that_are_connected(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Absences, "is_connected", lambda self, name: False)


def keep_consumers_whose_connection_is_closed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Absences, "note_close", lambda self, connection, now_ms: None)


def drop_what_absent_consumers_have(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(absences, "release_owned", lambda context, key, group, name: 0)


def keep_deletions_by_time_out_of_the_log(patch: pytest.MonkeyPatch) -> None:
    log = Context.log
    patch.setattr(Context, "log", lambda self, *words: words[1] != b"DELCONSUMER" and log(self, *words))


def drop_what_a_deleted_consumer_has(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(xgroup, "release_owned", lambda context, key, group, name: 0)


def keep_released_entries_of_a_consumer_out_of_the_log(patch: pytest.MonkeyPatch) -> None:
    log_words = Context.log_words

    def without_releases(self: Context, words: list[bytes], count: int = 1) -> None:
        if not {b"XNACK", b"SILENT", b"RETRYCOUNT"} <= set(words):
            log_words(self, words, count)

    patch.setattr(Context, "log_words", without_releases)


def keep_redriven_dead_letters_in_the_log(patch: pytest.MonkeyPatch) -> None:
    log_words = Context.log_words

    def without_deletions(self: Context, words: list[bytes], count: int = 1) -> None:
        if words[:2] != [b"XDEL", DEAD_KEY]:
            log_words(self, words, count)

    patch.setattr(Context, "log_words", without_deletions)


def keep_redriven_entries_out_of_the_log(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(redrive, "log_released", lambda context, key, group, ids, count: None)


def redrive_with_the_old_count(patch: pytest.MonkeyPatch) -> None:
    give_back = redrive._give_back

    def counted(context: Context, key: bytes, group_name: bytes, id_text: bytes) -> bool:
        is_given_back = give_back(context, key, group_name, id_text)
        if is_given_back:
            context.db.streams[key].groups[group_name].release(parse_id(id_text), count=1)
        return is_given_back

    patch.setattr(redrive, "_give_back", counted)


def redrive_those_of_other_groups(patch: pytest.MonkeyPatch) -> None:
    parse = redrive._parse
    patch.setattr(
        redrive, "_parse", lambda argv: redrive.RedriveRequest(parse(argv).count, None, parse(argv).target_key)
    )


def claim_by_reads_a_millisecond_early(patch: pytest.MonkeyPatch) -> None:
    init = _GroupRead.__init__

    def early(self: _GroupRead, context: Context, request: ReadRequest) -> None:
        init(self, context, request)
        if self.claim_idle_ms:
            self.claim_idle_ms -= 1

    patch.setattr(_GroupRead, "__init__", early)


def claim_by_reads_what_may_not_be_had(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PendingEntries, "walk_claimable", PendingEntries.walk_by_time)


def give_as_many_new_entries_as_without_claims(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(_GroupRead, "_new_max", lambda self, group, consumer, room: room.new_max if room else UNLIMITED)


BROKEN: tuple[Break, ...] = (
    redeliver_a_millisecond_early,
    redeliver_a_millisecond_late,
    wake_no_reader_for_idle_entries,
    give_idle_entries_before_released_ones,
    deliver_once_too_often,
    end_delays_a_millisecond_early,
    claim_what_is_held,
    guard_after_the_connection_is_closed,
    back_off_by_the_next_step,
    ignore_the_bounds,
    bury_when_a_reader_comes,
    keep_buried_entries_pending_in_the_log,
    delete_what_another_group_needs,
    keep_due_times_out_of_the_log,
    keep_settings_out_of_the_log,
    count_a_silent_release,
    hand_out_before_the_delay_of_an_addition,
    hand_out_later_entries_of_a_value,
    give_no_turn_to_the_next,
    give_no_turn_after_a_deletion,
    claim_what_waits_for_its_turn,
    give_the_turn_to_all_entries,
    park_without_a_bound,
    delete_consumers_a_millisecond_early,
    delete_consumers_a_millisecond_late,
    delete_consumers_that_are_connected,
    keep_consumers_whose_connection_is_closed,
    drop_what_absent_consumers_have,
    keep_deletions_by_time_out_of_the_log,
    drop_what_a_deleted_consumer_has,
    keep_released_entries_of_a_consumer_out_of_the_log,
    keep_redriven_dead_letters_in_the_log,
    keep_redriven_entries_out_of_the_log,
    redrive_with_the_old_count,
    redrive_those_of_other_groups,
    claim_by_reads_a_millisecond_early,
    claim_by_reads_what_may_not_be_had,
    give_as_many_new_entries_as_without_claims,
)


@pytest.mark.parametrize("break_it", BROKEN)
def test_broken_policy_is_found(break_it: Break, monkeypatch: pytest.MonkeyPatch) -> None:
    simulation = PolicySimulation(1, b"no", crash_share=CRASH_SHARE)
    break_it(monkeypatch)
    with pytest.raises(Violation):
        simulation.run_steps(STEPS_MAX)
