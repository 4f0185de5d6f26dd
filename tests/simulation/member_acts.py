"""What clients do in a simulation with values of types other than streams, and how the store is compared with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headrace.store.companions.array_value import ArrayValue
from headrace.store.companions.hash_value import HashValue
from headrace.store.companions.list_value import ListValue
from headrace.store.companions.set_value import SetValue
from headrace.store.companions.sorted_set_value import SortedSetValue
from headrace.store.database import Database
from simulation.member_model import MemberModel
from simulation.model import State
from simulation.server_run import ServerRun, Violation
from support.crash_world import Peer

HASHES = (b"h0", b"h1")
LISTS = (b"l0", b"l1")
SETS = (b"m0", b"m1", b"m2")
RANKS = (b"z0", b"z1")
ARRAYS = (b"a0", b"a1")
# Two of them are in the first slice of an array.
INDEXES = (0, 1, 4095, 4096, 5000, 1 << 40)
NAMES_COUNT = 12
# Values with more members than this get the encoding of large ones.
PACKED_MAX = 8
ELEMENTS_MAX = 12
EXPIRY_MS = (1, 100, 700, 5_000, 60_000)
BLOCK_MS = (1, 50, 700, 5_000)
POPPERS = (b"p0", b"p1")

# (request, reply, keys of lists and sorted sets that have more members now).
Step = tuple[bytes, Any, list[bytes]]


@dataclass
class Pop:
    """A blocked BLPOP, BLMOVE or BZPOPMIN."""

    name: bytes
    key: bytes
    # Of BLMOVE, where the element goes.
    other: bytes | None
    deadline_ms: int


class MemberActs(ServerRun[State]):
    """The part of a simulation that has these types."""

    def connect_poppers(self) -> None:
        """Connect the clients that wait for elements."""
        self.poppers: dict[bytes, Peer] = {name: self._connect() for name in POPPERS}
        # The longest wait first.
        self.pops: list[Pop] = []

    @property
    def members(self) -> MemberModel:
        """The model."""
        return self.state.members

    # -- acts ------------------------------------------------------------------------------------

    def member_actions(self) -> list[Callable[[], None]]:
        """What may happen next, each as often as it is likely."""
        actions: list[Callable[[], None]] = [self._change_members] * 6 + [self._change_together]
        if len(self.pops) < len(POPPERS):
            actions += [self._wait_for_member] * 2
        return actions

    def _change_members(self) -> None:
        self._send_steps([self._some_step()], is_unit=False)

    def _change_together(self) -> None:
        """Changes of several types in one transaction: a crash leaves all or none."""
        self._send_steps([self._some_step() for _ in range(self.rnd.randrange(2, 5))], is_unit=True)
        self.counts["transactions of members"] += 1

    def _some_step(self) -> Step:
        self.members.pass_time(self.clock())
        steps = self._hash_step, self._list_step, self._set_step, self._rank_step, self._array_step
        return self.rnd.choice((self._hash_step, *steps))()

    def _send_steps(self, steps: list[Step], *, is_unit: bool) -> None:
        """Send requests whose changes the model has, and check the replies, also to clients that these wake."""
        lines, replies = [line for line, _, _ in steps], [reply for _, reply, _ in steps]
        if is_unit:
            lines, replies = [b"MULTI", *lines, b"EXEC"], [b"OK", *[b"QUEUED"] * len(lines), replies]
        self._promise(self.producer)
        served = self._serve_pops([key for _, _, keys in steps for key in keys])
        self._expect_all(self.producer, lines, replies)
        for name, expected in served:
            found = self._take(self.poppers[name])
            if found != [expected]:
                raise Violation(f"{name.decode()} got {found}, not {expected}, {self._where()}")
            self.counts["pops served"] += 1

    def _serve_pops(self, ready: list[bytes]) -> list[tuple[bytes, Any]]:
        """The clients that get a member, with their replies, after these keys have got members."""
        served = []
        while ready:
            key = ready.pop(0)
            for pop in [each for each in self.pops if each.key == key]:
                reply = self._popped(pop)
                if reply is None:
                    break
                self.pops.remove(pop)
                self._promise(self.poppers[pop.name])
                served.append((pop.name, reply))
                if pop.other is not None:
                    ready.append(pop.other)
        return served

    def _popped(self, pop: Pop) -> Any:
        """The reply to a client that waits, if there is a member for it."""
        if pop.key in RANKS:
            found = self.members.pop_first(pop.key)
            return [pop.key, *found] if found else None
        if pop.other is not None:
            return self.members.move(pop.key, pop.other)
        element = self.members.pop(pop.key, at_left=True)
        return None if element is None else [pop.key, element]

    def _wait_for_member(self) -> None:
        self.members.pass_time(self.clock())
        name = self.rnd.choice([each for each in POPPERS if all(pop.name != each for pop in self.pops)])
        block_ms = self.rnd.choice(BLOCK_MS)
        keys = (*LISTS, *RANKS)
        # Mostly one without members, so that there is a wait.
        empty = [key for key in keys if key not in self.members.lists and key not in self.members.ranks]
        key = self.rnd.choice(empty if empty and self.rnd.random() < 0.8 else keys)
        pop = Pop(name, key, None, self.clock() + block_ms)
        seconds = b"%d.%03d" % divmod(block_ms, 1000)
        if key in RANKS:
            line = b"BZPOPMIN %b %b" % (key, seconds)
        elif self.rnd.random() < 0.5:
            pop.other = self.rnd.choice(LISTS)
            line = b"BLMOVE %b %b LEFT RIGHT %b" % (key, pop.other, seconds)
        else:
            line = b"BLPOP %b %b" % (key, seconds)
        reply = self._popped(pop)
        if reply is None:
            self.pops.append(pop)
            self._come_about()
            self.poppers[name].ask(line.decode())
            return
        peer = self.poppers[name]
        self._promise(peer)
        served = self._serve_pops([] if pop.other is None else [pop.other])
        self._expect(peer, line, reply)
        for other, expected in served:
            found = self._take(self.poppers[other])
            if found != [expected]:
                raise Violation(f"{other.decode()} got {found}, not {expected}, {self._where()}")

    def check_pops(self) -> None:
        """A wait ends after its deadline, and no earlier."""
        for pop in list(self.pops):
            replies = self._take(self.poppers[pop.name])
            is_over = self.clock() > pop.deadline_ms
            if replies != ([None] if is_over else []):
                raise Violation(f"{pop} has {replies} at {self.clock()}, {self._where()}")
            if is_over:
                self.pops.remove(pop)
                self.counts["pops timed out"] += 1

    # -- requests of each type -------------------------------------------------------------------

    def _name(self) -> bytes:
        return b"n%d" % self.rnd.randrange(NAMES_COUNT)

    def _some(self, new: Callable[[], bytes]) -> list[bytes]:
        """One to three different names."""
        return list(dict.fromkeys(new() for _ in range(self.rnd.randrange(1, 4))))

    def _hash_step(self) -> Step:
        rnd, model, now_ms = self.rnd, self.members, self.clock()
        key, name, value = rnd.choice(HASHES), self._name(), b"%d" % self.counts["steps"]
        end_ms = now_ms + rnd.choice((-1, 0, *EXPIRY_MS, *EXPIRY_MS))
        to_come_ms = now_ms + rnd.choice(EXPIRY_MS)
        kind = rnd.randrange(12)
        if kind < 2:
            pairs = dict.fromkeys(self._some(self._name), value)
            words = b" ".join(b"%b %b" % each for each in pairs.items())
            return b"HSET %b %b" % (key, words), model.set_fields(key, pairs, now_ms), []
        if kind < 4:
            return b"HINCRBY %b %b 7" % (key, name), model.increase_field(key, name, 7, now_ms), []
        if kind < 7 and not model.is_in_doubt(key, name, now_ms):
            line = b"HPEXPIREAT %b %d FIELDS 1 %b" % (key, end_ms, name)
            return line, model.expire_field(key, name, end_ms, now_ms), []
        if kind == 7:
            line = b"HSETEX %b PXAT %d FIELDS 1 %b %b" % (key, to_come_ms, name, value)
            return line, model.set_expiring(key, name, value, to_come_ms), []
        if kind == 8:
            return b"HSETNX %b %b %b" % (key, name, value), model.set_new_field(key, name, value, now_ms), []
        if kind == 9:
            return b"HPERSIST %b FIELDS 1 %b" % (key, name), model.persist_field(key, name, now_ms), []
        if kind < 7 or kind == 10:
            return b"HGET %b %b" % (key, name), model.field(key, name, now_ms), []
        if rnd.random() < 0.2:
            return b"DEL %b" % key, model.delete(key, now_ms), []
        return b"HDEL %b %b" % (key, name), model.delete_field(key, name, now_ms), []

    def _list_step(self) -> Step:
        rnd, model = self.rnd, self.members
        key, at_left = rnd.choice(LISTS), rnd.random() < 0.5
        kind = rnd.randrange(12)
        if kind < 4:
            elements = [b"%d" % rnd.randrange(20) for _ in range(rnd.randrange(1, 4))]
            line = b"%bPUSH %b %b" % (b"L" if at_left else b"R", key, b" ".join(elements))
            return line, model.push(key, elements, at_left=at_left), [key]
        if kind < 7:
            return b"%bPOP %b" % (b"L" if at_left else b"R", key), model.pop(key, at_left=at_left), []
        if kind == 7:
            other = rnd.choice(LISTS)
            return b"LMOVE %b %b LEFT RIGHT" % (key, other), model.move(key, other), [other]
        if kind == 8:
            return b"LTRIM %b -%d -1" % (key, ELEMENTS_MAX), model.trim(key, ELEMENTS_MAX), []
        if kind == 9:
            element = b"%d" % rnd.randrange(20)
            return b"LREM %b 1 %b" % (key, element), model.remove(key, element), []
        return self._key_step(key)

    def _set_step(self) -> Step:
        rnd, model = self.rnd, self.members
        key, other = rnd.choice(SETS), rnd.choice(SETS)
        # Often of integers alone, which have an encoding of their own.
        new = self._name if rnd.random() < 0.2 else lambda: b"%d" % rnd.randrange(NAMES_COUNT)
        kind = rnd.randrange(9)
        if kind < 4:
            members = self._some(new)
            return b"SADD %b %b" % (key, b" ".join(members)), model.add_members(key, set(members)), []
        if kind < 6:
            members = self._some(new)
            return b"SREM %b %b" % (key, b" ".join(members)), model.remove_members(key, set(members)), []
        if kind == 6:
            member = new()
            return b"SMOVE %b %b %b" % (key, other, member), model.move_member(key, other, member), []
        if kind == 7:
            others = rnd.choice(SETS), rnd.choice(SETS)
            return b"SINTERSTORE %b %b %b" % (key, *others), model.intersect(key, others), []
        return self._key_step(key)

    def _rank_step(self) -> Step:
        rnd, model = self.rnd, self.members
        key, member = rnd.choice(RANKS), self._name()
        kind = rnd.randrange(8)
        if kind < 3:
            scores = {name: rnd.randrange(-3, 9) for name in self._some(self._name)}
            words = b" ".join(b"%d %b" % (score, name) for name, score in scores.items())
            return b"ZADD %b %b" % (key, words), model.add_scores(key, scores), [key]
        if kind == 3:
            return b"ZINCRBY %b 2 %b" % (key, member), model.increase_score(key, member, 2), [key]
        if kind == 4:
            return b"ZREM %b %b" % (key, member), model.remove_score(key, member), []
        if kind == 5:
            return b"ZPOPMIN %b" % key, model.pop_first(key), []
        if kind == 6:
            limit = rnd.randrange(-3, 5)
            return b"ZREMRANGEBYSCORE %b -inf %d" % (key, limit), model.remove_low(key, limit), []
        return self._key_step(key)

    def _array_step(self) -> Step:
        rnd, model = self.rnd, self.members
        key, index, element = rnd.choice(ARRAYS), rnd.choice(INDEXES), b"%d" % self.counts["steps"]
        kind = rnd.randrange(7)
        if kind < 2:
            elements = dict.fromkeys((index, rnd.choice(INDEXES)), element)
            words = b" ".join(b"%d %b" % each for each in elements.items())
            return b"ARMSET %b %b" % (key, words), model.set_elements(key, elements), []
        if kind < 4:
            return b"ARINSERT %b %b" % (key, element), model.insert(key, element), []
        if kind < 6:
            last = rnd.choice((index, index, 4096))
            removed_count = model.remove_elements(key, min(index, last), max(index, last))
            return b"ARDELRANGE %b %d %d" % (key, index, last), removed_count, []
        return self._key_step(key)

    def _key_step(self, key: bytes) -> Step:
        rnd, model, now_ms = self.rnd, self.members, self.clock()
        if rnd.random() < 0.5:
            end_ms = now_ms + rnd.choice(EXPIRY_MS)
            return b"PEXPIREAT %b %d" % (key, end_ms), model.expire(key, end_ms), []
        if rnd.random() < 0.5:
            return b"PERSIST %b" % key, model.persist(key), []
        return b"DEL %b" % key, model.delete(key, now_ms), []


def member_differences(model: MemberModel, db: Database, now_ms: int) -> list[str]:
    """Values of these types that differ in the database, as commands see them now, or whose views do not agree."""
    wrong = []
    for key in (*HASHES, *LISTS, *SETS, *RANKS, *ARRAYS):
        end_ms = model.ends.get(key)
        expected: Any = model.live(key, now_ms) or model.lists.get(key) or model.sets.get(key) or model.ranks.get(key)
        if key in model.arrays:
            expected = model.arrays[key], model.cursors.get(key)
        if expected is not None and end_ms is not None and now_ms > end_ms:
            expected = end_ms = None
        found, found_end_ms = _seen(db, key, now_ms)
        if (found or None, found_end_ms) != (expected or None, end_ms):
            wrong.append(f"{key.decode()} is {found} until {found_end_ms}, not {expected} until {end_ms}")
    return wrong


def _seen(db: Database, key: bytes, now_ms: int) -> tuple[Any, int | None]:
    """The value and the expiry time of a key, as commands see them now."""
    value, end_ms = db.keys.get(key), db.expires.get(key)
    if value is None or (end_ms is not None and now_ms > end_ms):
        return None, None
    if isinstance(value, HashValue):
        value.check()
        return {name: (each, value.due_ms(name)) for name, each in value.live_items(now_ms)}, end_ms
    if isinstance(value, ListValue):
        value.check()
        return list(value), end_ms
    if isinstance(value, SetValue):
        value.check()
        return set(value.members()), end_ms
    if isinstance(value, ArrayValue):
        value.check()
        return (dict(value.items()), value.cursor), end_ms
    assert isinstance(value, SortedSetValue)
    value.check()
    return dict(value.items()), end_ms
