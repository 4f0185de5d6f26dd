"""Rules that groups with policies and their dead letters always obey. Each function returns one line of text for each
broken rule.
"""

from __future__ import annotations

from headrace.store.entry_form import fields_of
from headrace.store.ids import format_id
from headrace.store.policies.agenda import NEVER_MS
from headrace.store.stream import Stream
from simulation.policy_model import PolicyModel, PolicyState
from simulation.policy_parts import DeadLetter, field_of

DEAD_KEY = b"dead"


def words_of_dead_letters(stream: Stream | None) -> list[list[bytes]]:
    """Fields and values of each entry of the dead-letter stream, oldest first."""
    if stream is None:
        return []
    return [list(map(bytes, fields_of(entry))) for pairs in stream.log.copy().all_entries() for _, entry in pairs]


def words_of(key: bytes, letter: DeadLetter) -> list[bytes]:
    """Fields and values that a dead letter of the stream at `key` must have."""
    return [
        field_of(letter.value), letter.value, b"_stream", key, b"_id", format_id(letter.entry_id),
        b"_group", letter.group, b"_consumer", letter.consumer, b"_deliveries", b"%d" % letter.deliveries,
        b"_reason", letter.reason, b"_time_ms", b"%d" % letter.time_ms,
    ]  # fmt: skip


def dead_differences(state: PolicyState, stream: Stream | None) -> list[str]:
    """Each dead letter is in the dead-letter stream, once, in the order of time."""
    wanted = [words_of(key, letter) for key, letter in state.dead_letters]
    if len({tuple(words[2:8]) for words in wanted}) < len(wanted):
        return ["an entry is in the dead-letter stream twice"]
    found = words_of_dead_letters(stream)
    if sorted(found) != sorted(wanted):
        different = [each for each in found if each not in wanted], [each for each in wanted if each not in found]
        return [f"{len(found)} dead letters, not {len(wanted)}: {different[0]}, not {different[1]}"]
    times = [int(words[-1]) for words in found]
    return [] if times == sorted(times) else [f"dead letters of {times}"]


def policy_differences(model: PolicyModel, stream: Stream, now_ms: int) -> list[str]:
    """Settings and due times that are not those of the model."""
    wrong = []
    for name, group in model.groups.items():
        found = stream.groups[name]
        words = b"" if found.policy is None else b" ".join(found.policy.words())
        pairs = group.settings.words(DEAD_KEY).split()
        set_words = [
            word for at in range(0, len(pairs), 2) for word in pairs[at : at + 2] if pairs[at + 1] not in (b"0", b"no")
        ]
        if words != b" ".join(set_words):
            wrong.append(f"group {name.decode()} has {words!r}, not {set_words}")
        rules = found.pending.rules
        # After a start, the first visit finds out who has the turn.
        end_ms = NEVER_MS if rules is None or (rules.order is None and group.settings.is_ordered) else NEVER_MS + 1
        delays = {} if rules is None else {each: due for each, due in rules.delays.walk() if now_ms < due < end_ms}
        due_of = {each: delivery.ready_ms for each, delivery in group.pending.items() if group.is_waiting(each, now_ms)}
        due_of = {each: due if due > now_ms else NEVER_MS for each, due in due_of.items()}
        waiting = {each: due for each, due in due_of.items() if due < end_ms}
        if delays != waiting:
            wrong.append(f"group {name.decode()} delays {delays}, not {waiting}")
    return wrong
