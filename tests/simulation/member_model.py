"""A simple model of hashes, lists, sets, sorted sets and arrays, with expiry times of keys and of fields.

Values are dicts, lists and sets of Python. Each method takes the time as an argument, changes the model, and returns
the reply that a client must get. `ANY` stands for a reply that depends on whether the server has already removed a
field whose time is over.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

Value = dict[bytes, Any] | list[bytes] | set[bytes]
ValueT = TypeVar("ValueT", bound=Value)


class AnyReply:
    """Equals every reply."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return "anything"


ANY = AnyReply()


@dataclass
class MemberModel:
    """The keys of these types. A value without members is not there."""

    # (value, expiry time in Unix ms or None) by field, by key. Fields whose time is over stay here until they are set.
    hashes: dict[bytes, dict[bytes, tuple[bytes, int | None]]] = field(default_factory=dict)
    lists: dict[bytes, list[bytes]] = field(default_factory=dict)
    sets: dict[bytes, set[bytes]] = field(default_factory=dict)
    # Score by member, by key.
    ranks: dict[bytes, dict[bytes, int]] = field(default_factory=dict)
    # Element by index, by key, and the index of the last insertion, None before the first one.
    arrays: dict[bytes, dict[int, bytes]] = field(default_factory=dict)
    cursors: dict[bytes, int] = field(default_factory=dict)
    # Expiry times of keys other than hashes, in Unix ms.
    ends: dict[bytes, int] = field(default_factory=dict)

    # -- keys ------------------------------------------------------------------------------------

    def pass_time(self, now_ms: int) -> None:
        """Remove the keys whose time is over: no command sees them."""
        for key, end_ms in list(self.ends.items()):
            if now_ms > end_ms:
                self.delete(key, now_ms)

    def delete(self, key: bytes, now_ms: int) -> Any:
        """DEL."""
        value = self._find(key)
        is_doubtful = key in self.hashes and not self.live(key, now_ms)
        for values in self._all():
            values.pop(key, None)
        self.ends.pop(key, None)
        return ANY if is_doubtful else int(value is not None)

    def expire(self, key: bytes, end_ms: int) -> int:
        """PEXPIREAT, with a time to come."""
        if self._find(key) is None:
            return 0
        self.ends[key] = end_ms
        return 1

    def persist(self, key: bytes) -> int:
        """PERSIST."""
        return int(self.ends.pop(key, None) is not None)

    def _all(self) -> tuple[dict[bytes, Any], ...]:
        return self.hashes, self.lists, self.sets, self.ranks, self.arrays, self.cursors

    def _find(self, key: bytes) -> Value | None:
        return next((values[key] for values in self._all() if key in values), None)

    def _changed(
        self, values: dict[bytes, ValueT], key: bytes, new: Callable[[], ValueT], change: Callable[[ValueT], Any]
    ) -> Any:
        """The reply of a change to a value, which begins to be there with its first member and ends with its last."""
        value = values.get(key)
        value = new() if value is None else value
        reply = change(value)
        if value:
            values[key] = value
        elif values.pop(key, None) is not None:
            self.ends.pop(key, None)
        return reply

    # -- hashes ----------------------------------------------------------------------------------

    def live(self, key: bytes, now_ms: int) -> dict[bytes, tuple[bytes, int | None]]:
        """The fields of a hash whose time is not over."""
        found = self.hashes.get(key, {}).items()
        return {name: each for name, each in found if each[1] is None or now_ms <= each[1]}

    def is_in_doubt(self, key: bytes, name: bytes, now_ms: int) -> bool:
        """Whether the time of a field is over, so that the server may still have it. HPEXPIRE makes such a field live
        again, as in Redis."""
        return name in self.hashes.get(key, {}) and name not in self.live(key, now_ms)

    def set_fields(self, key: bytes, pairs: dict[bytes, bytes], now_ms: int) -> Any:
        """HSET."""
        known = self.hashes.setdefault(key, {})
        is_doubtful = any(self.is_in_doubt(key, name, now_ms) for name in pairs)
        new_count = sum(name not in known for name in pairs)
        known.update({name: (value, None) for name, value in pairs.items()})
        return ANY if is_doubtful else new_count

    def set_new_field(self, key: bytes, name: bytes, value: bytes, now_ms: int) -> int:
        """HSETNX."""
        if name in self.live(key, now_ms):
            return 0
        self.hashes.setdefault(key, {})[name] = value, None
        return 1

    def set_expiring(self, key: bytes, name: bytes, value: bytes, end_ms: int) -> int:
        """HSETEX with PXAT."""
        self.hashes.setdefault(key, {})[name] = value, end_ms
        return 1

    def increase_field(self, key: bytes, name: bytes, more: int, now_ms: int) -> int:
        """HINCRBY. A field keeps its expiry time; one whose time is over begins anew."""
        value, end_ms = self.live(key, now_ms).get(name, (b"0", None))
        result = int(value) + more
        self.hashes.setdefault(key, {})[name] = b"%d" % result, end_ms
        return result

    def field(self, key: bytes, name: bytes, now_ms: int) -> bytes | None:
        """HGET."""
        return self.live(key, now_ms).get(name, (None, None))[0]

    def delete_field(self, key: bytes, name: bytes, now_ms: int) -> Any:
        """HDEL."""
        known, is_doubtful = self.hashes.get(key, {}), self.is_in_doubt(key, name, now_ms)
        is_known = known.pop(name, None) is not None
        if not known:
            self.hashes.pop(key, None)
        return ANY if is_doubtful else int(is_known)

    def expire_field(self, key: bytes, name: bytes, end_ms: int, now_ms: int) -> list[int]:
        """HPEXPIREAT of a field that is not in doubt. A time that is over deletes the field."""
        live = self.live(key, now_ms)
        if name not in live:
            return [-2]
        if end_ms <= now_ms:
            self.delete_field(key, name, now_ms)
            return [2]
        self.hashes[key][name] = live[name][0], end_ms
        return [1]

    def persist_field(self, key: bytes, name: bytes, now_ms: int) -> list[int]:
        """HPERSIST."""
        live = self.live(key, now_ms)
        if name not in live:
            return [-2]
        value, end_ms = live[name]
        self.hashes[key][name] = value, None
        return [-1 if end_ms is None else 1]

    # -- lists -----------------------------------------------------------------------------------

    def push(self, key: bytes, elements: list[bytes], *, at_left: bool) -> int:
        """LPUSH and RPUSH."""

        def change(found: list[bytes]) -> int:
            found[:] = [*reversed(elements), *found] if at_left else [*found, *elements]
            return len(found)

        return int(self._changed(self.lists, key, list, change))

    def pop(self, key: bytes, *, at_left: bool) -> bytes | None:
        """LPOP and RPOP of one element."""
        if key not in self.lists:
            return None
        found: bytes = self._changed(self.lists, key, list, lambda value: value.pop(0 if at_left else -1))
        return found

    def move(self, key: bytes, other: bytes) -> bytes | None:
        """LMOVE LEFT RIGHT."""
        element = self.lists.get(key, [None])[0]
        if element is not None and key == other:
            self.lists[key].append(self.lists[key].pop(0))
        elif element is not None:
            self.pop(key, at_left=True)
            self.push(other, [element], at_left=False)
        return element

    def trim(self, key: bytes, count: int) -> bytes:
        """LTRIM to the last elements."""

        def change(found: list[bytes]) -> None:
            del found[: max(len(found) - count, 0)]

        self._changed(self.lists, key, list, change)
        return b"OK"

    def remove(self, key: bytes, element: bytes) -> int:
        """LREM of the first one that is equal."""

        def change(found: list[bytes]) -> int:
            if element not in found:
                return 0
            found.remove(element)
            return 1

        return int(self._changed(self.lists, key, list, change))

    # -- sets and sorted sets --------------------------------------------------------------------

    def add_members(self, key: bytes, members: set[bytes]) -> int:
        """SADD."""
        new_count = len(members - self.sets.get(key, set()))
        self.sets.setdefault(key, set()).update(members)
        return new_count

    def remove_members(self, key: bytes, members: set[bytes]) -> int:
        """SREM."""
        known_count = len(members & self.sets.get(key, set()))
        self._changed(self.sets, key, set, lambda found: found.difference_update(members))
        return known_count

    def move_member(self, key: bytes, other: bytes, member: bytes) -> int:
        """SMOVE."""
        if member not in self.sets.get(key, ()):
            return 0
        if key != other:
            self.remove_members(key, {member})
            self.add_members(other, {member})
        return 1

    def intersect(self, key: bytes, others: tuple[bytes, bytes]) -> int:
        """SINTERSTORE."""
        common = self.sets.get(others[0], set()) & self.sets.get(others[1], set())
        self.ends.pop(key, None)
        self.sets.pop(key, None)
        if common:
            self.sets[key] = common
        return len(common)

    def add_scores(self, key: bytes, scores: dict[bytes, int]) -> int:
        """ZADD."""
        found = self.ranks.setdefault(key, {})
        new_count = len(scores.keys() - found.keys())
        found.update(scores)
        return new_count

    def increase_score(self, key: bytes, member: bytes, more: int) -> bytes:
        """ZINCRBY."""
        found = self.ranks.setdefault(key, {})
        found[member] = found.get(member, 0) + more
        return b"%d" % found[member]

    def remove_score(self, key: bytes, member: bytes) -> int:
        """ZREM."""
        return int(self._changed(self.ranks, key, dict, lambda found: found.pop(member, None)) is not None)

    def pop_first(self, key: bytes) -> list[bytes]:
        """ZPOPMIN: [member, score]; nothing if there is no member."""
        if key not in self.ranks:
            return []
        member = min(self.ranks[key], key=lambda each: (self.ranks[key][each], each))
        return [member, b"%d" % self._changed(self.ranks, key, dict, lambda found: found.pop(member))]

    def remove_low(self, key: bytes, limit: int) -> int:
        """ZREMRANGEBYSCORE -inf limit."""
        low = [member for member, score in self.ranks.get(key, {}).items() if score <= limit]
        for member in low:
            self.remove_score(key, member)
        return len(low)

    # -- arrays ----------------------------------------------------------------------------------

    def set_elements(self, key: bytes, elements: dict[int, bytes]) -> int:
        """ARMSET."""
        known = self.arrays.setdefault(key, {})
        new_count = len(elements.keys() - known.keys())
        known.update(elements)
        return new_count

    def insert(self, key: bytes, element: bytes) -> int:
        """ARINSERT."""
        index = self.cursors.get(key, -1) + 1
        self.set_elements(key, {index: element})
        self.cursors[key] = index
        return index

    def remove_elements(self, key: bytes, first: int, last: int) -> int:
        """ARDELRANGE."""
        indexes = [index for index in self.arrays.get(key, ()) if first <= index <= last]
        for index in indexes:
            self._changed(self.arrays, key, dict, lambda found, index=index: found.pop(index))
        if key not in self.arrays:
            self.cursors.pop(key, None)
        return len(indexes)
