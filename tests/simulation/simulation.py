"""A server under a simulated load. Dispatcher, store, waiters and log are real; clock, sockets and disk are simulated.

    Simulation(seed, b"always").run(minutes=15)

Producers add. Consumers read, wait, claim, release, acknowledge late, stall, and reconnect. Clients change and take
members of other types. The server is killed, between two steps or inside one, and started again from what its disk
kept. A `Model` of each stream and a `MemberModel` predict every reply, and after every step the store must equal them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product
from typing import Any

from headrace.server.configuration.config import Config
from headrace.store.ids import format_id, parse_id
from simulation.invariants import IDEMPOTENT_IDS, check_stream, differences, pair_differences, string_differences
from simulation.member_acts import PACKED_MAX, MemberActs, member_differences
from simulation.model import GROUPS, ClaimOptions, GroupModel, Model, State, Wait
from simulation.server_run import CRASH_SHARE, Violation, entry_rows, id_words

KEYS = (b"q0", b"q1")
GROUP_BY_CONSUMER = {b"c0": b"g", b"c1": b"g", b"c2": b"g", b"c3": b"g", b"d0": b"h", b"d1": b"h"}
VISITORS_COUNT = 20
ACKNOWLEDGED_MAX = 8
# Streams are sometimes trimmed to this length.
ENTRIES_MAX = 60
IDLE_MS = (0, 50, 400, 2000)
REFERENCES = (b"KEEPREF", b"DELREF", b"ACKED")
RELEASES = (b"SILENT", b"FAIL", b"FAIL", b"FATAL")
EXPIRY_MS = (1, 100, 700)


class Simulation(MemberActs):
    """One run, in which the server is restarted after each crash."""

    def __init__(self, seed: int, policy: bytes, *, crash_share: float = CRASH_SHARE) -> None:
        super().__init__(seed, policy, State({key: Model() for key in KEYS}), crash_share=crash_share)

    def _set_up(self, config: Config) -> None:
        config.hash_max_listpack_entries = config.set_max_listpack_entries = PACKED_MAX
        config.set_max_intset_entries = config.zset_max_listpack_entries = PACKED_MAX

    def _create(self) -> None:
        for key, group in product(KEYS, GROUPS):
            assert self._call(self.producer, b"XGROUP CREATE %b %b 0 MKSTREAM" % (key, group)) == [b"OK"]

    def _connect_clients(self) -> None:
        self.consumers = {name: self._connect() for name in GROUP_BY_CONSUMER}
        # (key, wait) by blocked consumer.
        self.waiting: dict[bytes, tuple[bytes, Wait]] = {}
        # Consumers that have reconnected and have not read their history yet.
        self.returned = set(self.consumers)
        self.connect_poppers()

    def _note_restart(self) -> None:
        for model in self.models.values():
            model.waits.clear()
            model.started_ms = self.clock()

    def _is_of_interest(self, act: Callable[[], None]) -> bool:
        return act in (self._add_together, self._change_together)

    # -- lives of the server ---------------------------------------------------------------------

    @property
    def models(self) -> dict[bytes, Model]:
        """The models of the streams, by key."""
        return self.state.models

    def _differences(self, state: State) -> list[str]:
        """Differences between the restarted server and this state."""
        db, now_ms = self.server.store.databases[0], self.clock()
        wrong = string_differences(state.strings, db, now_ms) + member_differences(state.members, db, now_ms)
        for key in KEYS:
            wrong += differences(state.models[key], self._stream(key))
        return wrong

    # -- steps -----------------------------------------------------------------------------------

    def _actions(self) -> list[Callable[[], None]]:
        ready = [name for name, peer in self.consumers.items() if name not in self.waiting]
        actions: list[Callable[[], None]] = [self._add] * 5 + [self._add_together, self._add_idempotent]
        actions += [self._delete, self._trim, self._delete_all, self._set_string, self._get_string, self._rewrite]
        actions += self.member_actions()
        if ready:
            consumer = self.rnd.choice(ready)
            of_consumers: list[Callable[[bytes], None]] = [
                self._read, self._read, self._read, self._wait, self._wait,
                self._acknowledge, self._acknowledge, self._acknowledge, self._acknowledge_and_delete,
                self._claim, self._claim_with_options, self._claim_all, self._read_idle, self._release,
            ]  # fmt: skip
            if consumer in self.returned:
                of_consumers = [self._read_history] * len(of_consumers)
            actions += [lambda act=act: act(consumer) for act in of_consumers]  # type: ignore[misc]
            if self.rnd.random() < 0.1:
                actions.append(lambda: self._drop_consumer(consumer))
        actions.append(self._disconnect)
        return actions

    # -- what clients do -------------------------------------------------------------------------

    def _add(self, idempotent_id: bytes | None = None) -> None:
        key = self.rnd.choice(KEYS)
        model = self.models[key]
        if idempotent_id is not None and model.is_in_doubt(idempotent_id, self.clock()):
            stream = self._stream(key)
            assert stream is not None
            known = stream.idempotence.find(b"p", idempotent_id)
            if not model.settle(idempotent_id, known):
                raise Violation(f"{idempotent_id!r} is remembered with {known}, {self._where()}")
            self.counts["duplicates in doubt" if known else "forgotten in doubt"] += 1
        known_count = len(model.ever)
        value = b"v%d" % known_count
        option = b"IDMP p %b " % idempotent_id if idempotent_id else b""
        entry_id = model.add(value, self.clock(), idempotent_id)
        self.counts["duplicates"] += len(model.ever) == known_count
        self._expect_and_serve(key, [b"XADD %b %b* v %b" % (key, option, value)], [format_id(entry_id)])

    def _add_together(self) -> None:
        """Add entries in one transaction: a crash leaves all or none, and waiting clients are served after EXEC."""
        key = self.rnd.choice(KEYS)
        model = self.models[key]
        lines, ids = [], []
        for _ in range(self.rnd.randrange(1, 4)):
            value = b"v%d" % len(model.ever)
            lines.append(b"XADD %b * v %b" % (key, value))
            ids.append(format_id(model.add(value, self.clock())))
        queued = [b"QUEUED"] * len(lines)
        self._expect_and_serve(key, [b"MULTI", *lines, b"EXEC"], [b"OK", *queued, ids])
        self.counts["transactions"] += 1

    def _expect_and_serve(self, key: bytes, lines: list[bytes], expected: list[Any]) -> None:
        """Send requests of the producer, and check the replies to it and to the blocked readers that they wake.

        The model must already have the resulting state.
        """
        self._promise(self.producer)
        served = []
        for wait, entries in self.models[key].serve_waits(self.clock()):
            self._promise(self.consumers[wait.consumer])
            served.append((wait, entries))
        self._expect_all(self.producer, lines, expected)
        for wait, entries in served:
            replies = self._take(self.consumers[wait.consumer])
            if replies != [[[key, entry_rows(entries)]]]:
                raise Violation(f"{wait} got {replies}, not {entries}, {self._where()}")
            del self.waiting[wait.consumer]
            self.counts["waits served"] += 1

    def _add_idempotent(self) -> None:
        self._add(self.rnd.choice(IDEMPOTENT_IDS))

    def _delete(self) -> None:
        key = self.rnd.choice(KEYS)
        model = self.models[key]
        if model.entries:
            entry_id = self.rnd.choice(model.ever[-80:])
            self._expect(self.producer, b"XDEL %b %b" % (key, format_id(entry_id)), model.delete(entry_id))

    def _delete_all(self) -> None:
        key, references = self.rnd.choice(KEYS), self.rnd.choice(REFERENCES)
        model = self.models[key]
        recent = model.ever[-80:]
        wanted = self.rnd.sample(recent, min(len(recent), 2))
        if wanted:
            line = b"XDELEX %b %b IDS %d %b" % (key, references, len(wanted), id_words(wanted))
            self._expect(self.producer, line, model.delete_all(wanted, references))

    def _trim(self) -> None:
        key, references = self.rnd.choice(KEYS), self.rnd.choice((b"KEEPREF", b"DELREF"))
        trimmed = self.models[key].trim(ENTRIES_MAX, references)
        self._expect(self.producer, b"XTRIM %b MAXLEN %d %b" % (key, ENTRIES_MAX, references), trimmed)

    def _set_string(self) -> None:
        key, ttl_ms = b"e%d" % self.rnd.randrange(3), self.rnd.choice(EXPIRY_MS)
        value = b"v%d" % self.counts["steps"]
        self.state.strings[key] = value, self.clock() + ttl_ms
        self._expect(self.producer, b"SET %b %b PX %d" % (key, value, ttl_ms), b"OK")

    def _get_string(self) -> None:
        key = b"e%d" % self.rnd.randrange(3)
        value, end_ms = self.state.strings.get(key, (b"", -1))
        self._expect(self.producer, b"GET %b" % key, value if self.clock() <= end_ms else None)

    def _rewrite(self) -> None:
        if self.rnd.random() < 0.1:
            self._call(self.producer, b"BGREWRITEAOF")

    def _some_group(self, consumer: bytes) -> tuple[bytes, bytes, GroupModel]:
        """(key, name, model) of the consumer's group, in one of the two streams."""
        key, name = self.rnd.choice(KEYS), GROUP_BY_CONSUMER[consumer]
        return key, name, self.models[key].groups[name]

    def _read(self, consumer: bytes) -> None:
        key, name, group = self._some_group(consumer)
        count, no_ack = self.rnd.randrange(1, 6), self.rnd.random() < 0.1
        entries = group.read(consumer, count, self.clock(), no_ack=no_ack)
        option = b"NOACK " if no_ack else b""
        line = b"XREADGROUP GROUP %b %b COUNT %d %bSTREAMS %b >" % (name, consumer, count, option, key)
        self._expect(self.consumers[consumer], line, [[key, entry_rows(entries)]] if entries else None)

    def _wait(self, consumer: bytes) -> None:
        key, name, group = self._some_group(consumer)
        block_ms = self.rnd.choice((1, 50, 700, 5000))
        entries = group.read(consumer, 2, self.clock())
        line = b"XREADGROUP GROUP %b %b COUNT 2 BLOCK %d STREAMS %b >" % (name, consumer, block_ms, key)
        if entries:
            self._expect(self.consumers[consumer], line, [[key, entry_rows(entries)]])
            return
        wait = Wait(name, consumer, 2, self.clock() + block_ms)
        self.models[key].waits.append(wait)
        self._come_about()
        self.waiting[consumer] = key, wait
        self.consumers[consumer].ask(line.decode())

    def _check_waits(self) -> None:
        """A wait ends after its deadline, and no earlier."""
        self.check_pops()
        for consumer, (key, wait) in list(self.waiting.items()):
            replies = self._take(self.consumers[consumer])
            is_over = self.clock() > wait.deadline_ms
            if replies != ([None] if is_over else []):
                late_ms = self.clock() - wait.deadline_ms
                raise Violation(f"{wait} has {replies}, {late_ms} ms after its deadline, {self._where()}")
            if is_over:
                self.models[key].waits.remove(wait)
                del self.waiting[consumer]
                self.counts["waits timed out"] += 1

    def _some_pending(self, group: GroupModel, count_max: int = 3) -> list[int]:
        """Pending IDs, and sometimes other IDs."""
        known = list(group.pending) or group.stream.ever[-5:]
        return self.rnd.sample(known, min(len(known), self.rnd.randint(1, count_max)))

    def _acknowledge(self, consumer: bytes) -> None:
        key, name, group = self._some_group(consumer)
        wanted = self._some_pending(group, ACKNOWLEDGED_MAX)
        if wanted:
            line = b"XACK %b %b %b" % (key, name, id_words(wanted))
            self._expect(self.consumers[consumer], line, group.acknowledge(wanted))

    def _acknowledge_and_delete(self, consumer: bytes) -> None:
        key, name, group = self._some_group(consumer)
        references = self.rnd.choice(REFERENCES)
        wanted = self._some_pending(group)
        if wanted:
            line = b"XACKDEL %b %b %b IDS %d %b" % (key, name, references, len(wanted), id_words(wanted))
            self._expect(self.consumers[consumer], line, group.acknowledge_and_delete(wanted, references))

    def _read_history(self, consumer: bytes) -> None:
        self.returned.discard(consumer)
        name = GROUP_BY_CONSUMER[consumer]
        for key in KEYS:
            owned = self.models[key].groups[name].read_history(consumer, self.clock())
            rows = [[format_id(entry_id), None if value is None else [b"v", value]] for entry_id, value in owned]
            line = b"XREADGROUP GROUP %b %b STREAMS %b 0" % (name, consumer, key)
            self._expect(self.consumers[consumer], line, [[key, rows]])
            self.counts["read again"] += len(rows)
            self.counts["read again, entry deleted"] += sum(value is None for _, value in owned)

    def _idle_ms(self, group: GroupModel, wanted: Iterable[int]) -> int:
        """The minimum idle time of a claim: in half of the cases the idle time of one of these IDs, or 1 ms more."""
        owned = [group.pending[each] for each in wanted if each in group.pending]
        times_ms = [delivery.time_ms for delivery in owned if delivery.consumer is not None]
        if not times_ms or self.rnd.random() < 0.5:
            return self.rnd.choice(IDLE_MS)
        return self.clock() - self.rnd.choice(times_ms) + self.rnd.randrange(2)

    def _claimant(self, consumer: bytes) -> bytes:
        """The consumer, or sometimes a new one that only this claim creates."""
        return b"x%d" % self.rnd.randrange(VISITORS_COUNT) if self.rnd.random() < 0.1 else consumer

    def _claim(self, consumer: bytes) -> None:
        key, name, group = self._some_group(consumer)
        wanted = self._some_pending(group)
        idle_ms = self._idle_ms(group, wanted)
        if wanted:
            claimant = self._claimant(consumer)
            claimed = group.claim(claimant, idle_ms, wanted, self.clock())
            line = b"XCLAIM %b %b %b %d %b" % (key, name, claimant, idle_ms, id_words(wanted))
            self._expect(self.consumers[consumer], line, entry_rows(claimed))
            self.counts["claims"] += len(claimed)

    def _claim_with_options(self, consumer: bytes) -> None:
        """XCLAIM with time, count and all other options."""
        key, name, group = self._some_group(consumer)
        options, words = ClaimOptions(), b""
        if self.rnd.random() < 0.6:
            ago_ms = self.rnd.choice((-5, 0, 7, 300))
            options.time_ms = self.clock() - ago_ms
            words += b" TIME %d" % options.time_ms if self.rnd.random() < 0.5 else b" IDLE %d" % ago_ms
        if self.rnd.random() < 0.5:
            options.retry_count = self.rnd.randrange(9)
            words += b" RETRYCOUNT %d" % options.retry_count
        options.is_forced, options.just_ids = self.rnd.random() < 0.5, self.rnd.random() < 0.5
        wanted = self._some_delivered(group) if options.is_forced else self._some_pending(group)
        if wanted:
            words += b" FORCE" * options.is_forced + b" JUSTID" * options.just_ids
            idle_ms = self._idle_ms(group, wanted)
            claimed = group.claim(consumer, idle_ms, wanted, self.clock(), options)
            line = b"XCLAIM %b %b %b %d %b%b" % (key, name, consumer, idle_ms, id_words(wanted), words)
            expected = [format_id(entry_id) for entry_id, _ in claimed] if options.just_ids else entry_rows(claimed)
            self._expect(self.consumers[consumer], line, expected)
            self.counts["claims with options"] += len(claimed)

    def _some_delivered(self, group: GroupModel) -> list[int]:
        """IDs that were delivered to the group, pending or not."""
        known = [entry_id for entry_id in group.stream.ever[-40:] if entry_id <= group.last_delivered]
        return self.rnd.sample(known, min(len(known), self.rnd.randint(1, 3)))

    def _claim_all(self, consumer: bytes) -> None:
        key, name, group = self._some_group(consumer)
        idle_ms = self._idle_ms(group, group.pending)
        claimant = self._claimant(consumer)
        claimed, gone = group.claim_all(claimant, idle_ms, self.clock())
        line = b"XAUTOCLAIM %b %b %b %d 0 COUNT 10000" % (key, name, claimant, idle_ms)
        expected = [b"0-0", entry_rows(claimed), [format_id(entry_id) for entry_id in gone]]
        self._expect(self.consumers[consumer], line, expected)
        self.counts["claims"] += len(claimed)

    def _read_idle(self, consumer: bytes) -> None:
        key, name, group = self._some_group(consumer)
        idle_ms = self._idle_ms(group, group.pending)
        found = group.read_idle(consumer, idle_ms, self.clock())
        line = b"XREADGROUP GROUP %b %b CLAIM %d STREAMS %b >" % (name, consumer, idle_ms, key)
        (reply,) = self._call(self.consumers[consumer], line)
        rows = reply[0][1] if reply else []
        expected = [[format_id(entry_id), [b"v", value], idle, count] for entry_id, value, idle, count in found]
        # The model does not know the order of deliveries in the same millisecond.
        owned = [row[2] for row in rows if row[3] and 0 <= row[2] < 10**9]
        if sorted(map(_released_alike, rows)) != sorted(map(_released_alike, expected)) or owned != sorted(
            owned, reverse=True
        ):
            raise Violation(f"{line!r} got {rows}, not {expected}, {self._where()}")
        self.counts["claims"] += sum(row[3] > 0 for row in rows)

    def _release(self, consumer: bytes) -> None:
        key, name, group = self._some_group(consumer)
        mode, is_forced = self.rnd.choice(RELEASES), self.rnd.random() < 0.2
        count = self.rnd.randrange(9) if self.rnd.random() < 0.2 else None
        wanted = self._some_delivered(group) if is_forced else self._some_pending(group)
        if wanted:
            words = (b"" if count is None else b" RETRYCOUNT %d" % count) + b" FORCE" * is_forced
            line = b"XNACK %b %b %b IDS %d %b%b" % (key, name, mode, len(wanted), id_words(wanted), words)
            released_count = group.release(wanted, mode, retry_count=count, is_forced=is_forced)
            self._expect(self.consumers[consumer], line, released_count)

    def _drop_consumer(self, consumer: bytes) -> None:
        key, name, group = self._some_group(consumer)
        line = b"XGROUP DELCONSUMER %b %b %b" % (key, name, consumer)
        self._expect(self.producer, line, group.drop_consumer(consumer))

    def _disconnect(self) -> None:
        """A consumer's connection breaks, and a new one replaces it."""
        if self.rnd.random() < 0.7:
            return
        consumer = self.rnd.choice(sorted(self.consumers))
        self.consumers[consumer].abort()
        self.consumers[consumer] = self._connect()
        self.returned.add(consumer)
        if consumer in self.waiting:
            key, wait = self.waiting.pop(consumer)
            self.models[key].waits.remove(wait)
        self.counts["disconnects"] += 1

    # -- invariants ------------------------------------------------------------------------------

    def check(self, *, is_whole: bool = False) -> None:
        """Check what must be true after every step. Raises Violation."""
        for key in KEYS:
            model, stream = self.models[key], self._stream(key)
            wrong = check_stream(model, stream, is_whole=is_whole)
            if stream is not None and not wrong:
                wrong = pair_differences(model, stream, self.clock())
            if wrong:
                raise Violation(f"{key.decode()}, {self._where()}: {wrong}")
        db, now_ms = self.server.store.databases[0], self.clock()
        wrong = string_differences(self.state.strings, db, now_ms)
        wrong += member_differences(self.members, db, now_ms)
        if wrong:
            raise Violation(f"{self._where()}: {wrong}")
        if len(self.server.dispatcher.waiters) != len(self.waiting) + len(self.pops):
            waiting = [*self.waiting.values(), *self.pops]
            raise Violation(f"{len(self.server.dispatcher.waiters)} waiters, {self._where()}: {waiting}")


class MembersSimulation(Simulation):
    """A simulation in which clients use hashes, lists, sets and sorted sets alone."""

    def _actions(self) -> list[Callable[[], None]]:
        return [*self.member_actions(), self._rewrite]


def _released_alike(row: list[Any]) -> list[Any]:
    """The row without the idle time of a released entry, which depends on the clock."""
    return [parse_id(row[0]), row[1], "released" if row[2] > 10**9 else row[2], row[3]]
