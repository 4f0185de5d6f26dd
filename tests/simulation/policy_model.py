"""A model of streams whose groups have policies: see `policy_group_model` for the rules of a group.

`PolicyModel.settle` does what has become due, `serve_waits` gives blocked readers what they may have.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from simulation.model import Entry, Model, State, Wait
from simulation.policy_group_model import PolicyGroup
from simulation.policy_parts import UNORDERED, DeadLetter, PolicyWait


@dataclass
class PolicyModel(Model):
    """One stream whose groups have policies."""

    groups: dict[bytes, PolicyGroup] = field(default_factory=dict)  # type: ignore[assignment]
    waits: list[PolicyWait] = field(default_factory=list)  # type: ignore[assignment]
    # When an entry may be handed out first, for those that were added with DELAY.
    later: dict[int, int] = field(default_factory=dict)
    dead: list[DeadLetter] = field(default_factory=list)
    # Every value that was ever added, and those of the live entries that have the field of ORDER-BY.
    values: dict[int, bytes] = field(default_factory=dict)
    ordered: dict[int, bytes | None] = field(default_factory=dict)
    now_ms: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, group in self.groups.items():
            group.name = name

    def _new_group(self) -> PolicyGroup:
        return PolicyGroup(self)

    def add(self, value: bytes, now_ms: int, idempotent_id: bytes | None = None) -> int:
        """XADD key * field value. Returns the ID."""
        entry_id = super().add(value, now_ms, idempotent_id)
        self.values[entry_id] = value
        if not value.startswith(UNORDERED):
            self.ordered[entry_id] = value
        return entry_id

    def delete(self, entry_id: int) -> int:
        """XDEL."""
        count = super().delete(entry_id)
        self._follow_turns([entry_id])
        return count

    def trim(self, entries_max: int, references: bytes) -> int:
        """XTRIM MAXLEN."""
        before = list(self.entries)
        count = super().trim(entries_max, references)
        self._follow_turns(before[:count])
        return count

    def _follow_turns(self, deleted: list[int]) -> None:
        for entry_id in deleted:
            self.ordered.pop(entry_id, None)
        for group in self.groups.values():
            group.follow_turns([each for each in deleted if each in group.pending])

    def settle(self, now_ms: int) -> bool:
        """Do what is due in each group. Returns whether a consumer was deleted, or an entry became a dead letter."""
        self.now_ms = now_ms
        return sum([group.settle(now_ms) for group in self.groups.values()]) > 0

    @property
    def consumers_count(self) -> int:
        """Number of consumers of all groups."""
        return sum(len(group.consumers) for group in self.groups.values())

    def serve_waits(self, now_ms: int) -> Iterator[tuple[Wait, list[Entry]]]:
        """Serve each blocked client for which there is an entry, the longest wait first, until none can be served.

        Yields no entries for one that has only skipped some.
        """
        is_served = True
        while is_served:
            is_served = False
            for wait in list(self.waits):
                group = self.groups[wait.group]
                group.connection = wait.connection
                position = group.last_delivered
                entries = group.read(wait.consumer, wait.count, now_ms)
                if entries:
                    self.waits.remove(wait)
                    is_served = True
                    yield wait, entries
                elif group.last_delivered != position:
                    yield wait, []

    def next_due_ms(self, now_ms: int) -> int | None:
        """When time changes what may be had next."""
        times = [group.next_due_ms(now_ms) for group in self.groups.values()]
        return min((each for each in times if each is not None), default=None)

    def forget_dropped(self, pending: dict[bytes, set[int]]) -> None:
        """Deleted entries leave the pending lists when they are met. `pending` has those that are pending still."""
        for name, group in self.groups.items():
            group.recall_met()
            for entry_id in [each for each in group.pending if each not in self.entries]:
                if entry_id not in pending[name]:
                    group.drop(entry_id)


@dataclass
class PolicyState(State):
    """The whole dataset of the server."""

    models: dict[bytes, PolicyModel]  # type: ignore[assignment]

    @property
    def dead_letters(self) -> list[tuple[bytes, DeadLetter]]:
        """All dead letters, each with the key of its stream."""
        return [(key, letter) for key, model in self.models.items() for letter in model.dead]

    def redrive(self, letters: list[tuple[bytes, DeadLetter]], target_key: bytes | None, now_ms: int) -> int:
        """XREDRIVE of these dead letters, with TO if that is not None. Returns how many become new entries."""
        new_count = 0
        for key, letter in letters:
            model = self.models[key]
            model.dead.remove(letter)
            if target_key is None and letter.entry_id in model.entries:
                model.groups[letter.group].give_back(letter.entry_id, now_ms)
            else:
                self.models[target_key or key].add(letter.value, now_ms)
                new_count += 1
        return new_count
