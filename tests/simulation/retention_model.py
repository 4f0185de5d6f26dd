"""A model of what a stream keeps by itself (`XCFGSET`): a rule for each entry, and no index.

An entry goes if a rule says so and all entries before it go. Some rules leave the server a choice, for some time or for
a few entries: `may_go_count` has the most first entries that may go now, `must_go_count` those that must.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from headrace.store.ids import SEQ_BITS
from simulation.model import GroupModel, Model

# The server looks at all streams once a second, in one of ten turns.
LOOK_MS = 1_100
# More bytes of memory than an entry takes besides its value.
ENTRY_SIZE_MAX = 400


@dataclass
class Limits:
    """What `XCFGSET` has set: times in ms, 0 for what is not set. `forced` has the names of limits with FORCE."""

    retains_acked: bool = True
    age_max_ms: int = 0
    length_max: int = 0
    size_max: int = 0
    ignored_idle_ms: int = 0
    forced: frozenset[bytes] = frozenset()

    def words(self) -> bytes:
        """All options as words of `XCFGSET`, those that are not set as well."""
        limits = {b"MAXAGE": self.age_max_ms, b"MAXLEN": self.length_max, b"MAXBYTES": self.size_max}
        words = [b"RETAIN-ACKED", b"yes" if self.retains_acked else b"no"]
        for name, value in limits.items():
            words += [name, b"%d" % value] + ([b"FORCE"] if name in self.forced else [])
        return b" ".join([*words, b"IGNORE-GROUPS-IDLE", b"%d" % self.ignored_idle_ms])

    def set_words(self) -> bytes:
        """The options that are set, as words of `XCFGSET`."""
        words = self.words()
        for unset in (b"RETAIN-ACKED yes", b"MAXAGE 0", b"MAXLEN 0", b"MAXBYTES 0", b"IGNORE-GROUPS-IDLE 0"):
            words = b" ".join(words.replace(unset, b"").split())
        return words


@dataclass
class RetentionModel(Model):
    """One stream with limits."""

    limits: Limits = field(default_factory=Limits)
    # When the limits were set, the server was started, and each group was created or used last.
    set_ms: int = 0
    started_at_ms: int = 0
    used_ms: dict[bytes, int] = field(default_factory=dict)
    # Entries that went by time alone, which no reply has confirmed.
    unconfirmed: dict[int, bytes] = field(default_factory=dict)
    # Since when entries must go that only a look by time finds.
    overdue_ms: dict[int, int] = field(default_factory=dict)

    def create_group(self, name: bytes, position: int, now_ms: int) -> None:
        """XGROUP CREATE. What the group has skipped will never be delivered to it."""
        group = self.groups[name] = GroupModel(self, last_delivered=position)
        group.dropped = {entry_id for entry_id in self.ever if entry_id <= position}
        self.used_ms[name] = now_ms

    # -- rules for an entry ------------------------------------------------------------------------

    def _is_over_limit(self, entry_id: int, now_ms: int, *, forced: bool, counts_all_bytes: bool) -> bool:
        """Whether a limit with FORCE, or without it, does not keep an entry."""
        limits = self.limits
        later = [value for each, value in self.entries.items() if each >= entry_id]
        size = sum(map(len, later)) + ENTRY_SIZE_MAX * len(later) if counts_all_bytes else 0
        over = {
            b"MAXAGE": 0 < limits.age_max_ms < now_ms - (entry_id >> SEQ_BITS),
            b"MAXLEN": 0 < limits.length_max < len(later),
            b"MAXBYTES": 0 < limits.size_max < size and len(later) > 1,
        }
        return any(is_over for name, is_over in over.items() if (name in limits.forced) == forced)

    def _idle_ms(self, name: bytes, now_ms: int) -> int:
        """How long a group has been idle. A start begins this time again."""
        return now_ms - max(self.used_ms[name], self.started_at_ms)

    def _counting(self, now_ms: int) -> tuple[list[GroupModel], list[GroupModel]]:
        """The groups that keep entries, and those that may. A group has the whole time after the limits were set."""
        ignored_ms = self.limits.ignored_idle_ms
        certain, uncertain = [], []
        for name, group in self.groups.items():
            if not ignored_ms or self._idle_ms(name, now_ms) < ignored_ms:
                certain.append(group)
            elif min(self._idle_ms(name, now_ms), now_ms - self.set_ms) - LOOK_MS < ignored_ms:
                uncertain.append(group)
        return certain, uncertain

    def may_go(self, entry_id: int, now_ms: int) -> bool:
        """Whether the rules let an entry go."""
        certain, uncertain = self._counting(now_ms)
        if self._is_over_limit(entry_id, now_ms, forced=True, counts_all_bytes=True):
            return True
        if self._is_over_limit(entry_id, now_ms, forced=False, counts_all_bytes=True) and _none(
            _has_pending, certain, entry_id
        ):
            return True
        is_needed_by_none = not certain and any(not _needs(group, entry_id) for group in uncertain)
        is_acked = _none(_needs, certain, entry_id) and (bool(certain) or is_needed_by_none)
        return not self.limits.retains_acked and is_acked

    def must_go(self, entry_id: int, now_ms: int) -> bool:
        """Whether the rules let no server keep an entry. How many bytes it takes is not known here."""
        certain, uncertain = self._counting(now_ms)
        groups = certain + uncertain
        if self._is_over_limit(entry_id, now_ms, forced=True, counts_all_bytes=False):
            return True
        if self._is_over_limit(entry_id, now_ms, forced=False, counts_all_bytes=False) and _none(
            _has_pending, groups, entry_id
        ):
            return True
        return not self.limits.retains_acked and bool(certain) and _none(_needs, groups, entry_id)

    # -- what goes ---------------------------------------------------------------------------------

    def may_go_count(self, now_ms: int) -> int:
        """How many of the first entries may go."""
        return _first_count(self.entries, lambda each: self.may_go(each, now_ms))

    def must_go_count(self, now_ms: int) -> int:
        """How many of the first entries must go when a command has used the stream."""
        return _first_count(self.entries, lambda each: self.must_go(each, now_ms))

    def drop_first(self, count: int) -> None:
        """The first entries go, as with XTRIM."""
        for entry_id in list(self.entries)[:count]:
            self.unconfirmed[entry_id] = self.entries.pop(entry_id)
            self.deleted.add(entry_id)
            self.overdue_ms.pop(entry_id, None)

    def restore(self, live: set[int]) -> None:
        """A start has found these entries: what went without a confirmation may be there again."""
        again = {entry_id: value for entry_id, value in self.unconfirmed.items() if entry_id in live}
        self.entries = again | self.entries
        self.deleted -= again.keys()
        self.unconfirmed.clear()
        self.overdue_ms.clear()

    def overdue_count(self, now_ms: int) -> int:
        """How many first entries must have gone by time alone, since the server looks at each stream once a second."""
        must = list(self.entries)[: self.must_go_count(now_ms)]
        self.overdue_ms = {entry_id: self.overdue_ms.get(entry_id, now_ms) for entry_id in must}
        return _first_count(must, lambda each: now_ms - self.overdue_ms[each] > LOOK_MS)

    def next_due_ms(self, now_ms: int) -> int | None:
        """When the next entry is too old, or the next group idle for too long."""
        limits = self.limits
        times = [(entry_id >> SEQ_BITS) + limits.age_max_ms + 1 for entry_id in self.entries if limits.age_max_ms]
        if limits.ignored_idle_ms:
            times += [now_ms - self._idle_ms(name, now_ms) + limits.ignored_idle_ms for name in self.groups]
        return min((each for each in times if each > now_ms), default=None)


def _has_pending(group: GroupModel, entry_id: int) -> bool:
    """Whether a group has an entry pending, or one before it, which need not be in the stream."""
    return any(each <= entry_id for each in group.pending)


def _needs(group: GroupModel, entry_id: int) -> bool:
    """Whether a group has an entry pending or unread, or one before it."""
    return entry_id > group.last_delivered or _has_pending(group, entry_id)


def _none(rule: Callable[[GroupModel, int], bool], groups: list[GroupModel], entry_id: int) -> bool:
    return not any(rule(group, entry_id) for group in groups)


def _first_count(entry_ids: Iterable[int], goes: Callable[[int], bool]) -> int:
    """How many of the first entries go, up to the first one that stays."""
    count = 0
    for entry_id in entry_ids:
        if not goes(entry_id):
            break
        count += 1
    return count
