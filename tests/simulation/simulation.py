"""A server under a simulated load. Dispatcher, store, waiters and log are real; clock, sockets and disk are simulated.

    Simulation(seed, b"always").run(minutes=15)

Producers add. Consumers read, wait, claim, release, acknowledge late, stall, and reconnect. The server is killed,
between two steps or inside one, and started again from what its disk kept. A `Model` of each stream predicts every
reply, and after every step the store must equal the model.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import product
from typing import Any

from headrace.persistence.records import CHECKSUM_PREFIX
from headrace.store.ids import format_id, parse_id
from headrace.store.stream import Stream
from simulation.invariants import IDEMPOTENT_IDS, check_stream, differences, pair_differences, string_differences
from simulation.model import GROUPS, IDMP_DURATION_MS, ClaimOptions, Entry, GroupModel, Model, State, Wait
from support.crash_world import CRON_INTERVAL_MS, FOLDER, Peer, SimulatedServer, new_config
from support.inprocess import Clock
from support.replies import frame_end, parse, plain
from support.simulated_disk import Call, PowerLoss, SimulatedDisk
from support.stepping import SteppingExecutor, SteppingLoop

KEYS = (b"q0", b"q1")
GROUP_BY_CONSUMER = {b"c0": b"g", b"c1": b"g", b"c2": b"g", b"c3": b"g", b"d0": b"h", b"d1": b"h"}
VISITORS_COUNT = 20
ACKNOWLEDGED_MAX = 8
# Streams are sometimes trimmed to this length.
ENTRIES_MAX = 60
# Default share of the steps that end in a crash.
CRASH_SHARE = 0.004
# Factor for the share of crashes in rare steps: during a rewrite of the log, soon after one, and in transactions.
CRASHES_OF_INTEREST = 10
SOON_MS = 3_000
# A crash inside a step happens after at most so many operations of the disk. XADD with its fsync has five.
CRASH_CALLS_MAX = 10
# Pauses after a step, in milliseconds.
PAUSES_MS = (0, 0, 1, 3, 20, 100, 250, 500, 1000)
IDLE_MS = (0, 50, 400, 2000)
REFERENCES = (b"KEEPREF", b"DELREF", b"ACKED")
RELEASES = (b"SILENT", b"FAIL", b"FAIL", b"FATAL")
EXPIRY_MS = (1, 100, 700)


class Violation(AssertionError):
    """An invariant is broken."""


class Simulation:
    """One run, in which the server is restarted after each crash."""

    def __init__(self, seed: int, policy: bytes, *, crash_share: float = CRASH_SHARE) -> None:
        self.seed, self.policy, self._crash_share = seed, policy, crash_share
        self.rnd = random.Random(seed)
        self.clock = Clock()
        self.disk = SimulatedDisk({FOLDER: None})
        self.state = State({key: Model() for key in KEYS})
        self.counts: Counter[str] = Counter()
        self._crash_in: int | None = None
        # States that a crash in this step may leave, in order of time; empty if no crash is planned.
        self._states: list[State] = []
        # Index of the first of these states that the next reply shows, by client that waits for a reply.
        self._promised: dict[Peer, int] = {}
        # Index of the first of these states that a crash may leave: a reply has confirmed all changes before it.
        self._kept = 0
        # The last time at which a rewrite of the log was running.
        self._rewritten_ms = -SOON_MS
        self._start()
        with self.loop.running():
            for key, group in product(KEYS, GROUPS):
                assert self._call(self.producer, b"XGROUP CREATE %b %b 0 MKSTREAM" % (key, group)) == [b"OK"]

    # -- lives of the server ---------------------------------------------------------------------

    def _start(self) -> None:
        self.fsyncs, self.writer = SteppingExecutor(), SteppingExecutor()
        self.loop = SteppingLoop(self.clock)
        config = new_config(self.policy, has_rdb_base=bool(self.seed % 2))
        config.stream_idmp_duration = IDMP_DURATION_MS // 1000
        self.disk.on_boundary = self._pass_boundary
        self.server = server = SimulatedServer(config, self.clock, self.disk, self.fsyncs)
        server.move_with(self.loop, self.writer)
        server.load_now()
        self._cron_ms = self.clock()
        self._numbers = 0
        self.producer = self._connect()
        self.consumers = {name: self._connect() for name in GROUP_BY_CONSUMER}
        # (key, wait) by blocked consumer.
        self.waiting: dict[bytes, tuple[bytes, Wait]] = {}
        # Consumers that have reconnected and have not read their history yet.
        self.returned = set(self.consumers)
        self.counts["starts"] += 1

    def _connect(self) -> Peer:
        self._numbers += 1
        peer = Peer(self, self._numbers)  # type: ignore[arg-type]
        self.server.dispatcher.attach(peer)
        return peer

    def _pass_boundary(self, call: Call) -> None:
        self.fsyncs.pause()
        self.writer.pause()
        if self._crash_in is not None:
            self._crash_in -= 1
            if self._crash_in < 0:
                self._crash_in = None
                raise PowerLoss

    @property
    def models(self) -> dict[bytes, Model]:
        """The models of the streams, by key."""
        return self.state.models

    def on_acknowledged(self, peer: Peer) -> None:
        """A reply is sent. Its change must be on the disk, and synced with `always`: no crash may undo it."""
        self.require_written()
        self._kept = max(self._kept, self._promised.pop(peer, 0))
        self.counts["replies"] += 1

    def require_written(self) -> None:
        """Raises Violation if a record waits to be written or, with `always`, to be synced."""
        log = self.server.log
        assert log is not None
        if any(not part.startswith(CHECKSUM_PREFIX) for part in log._buffer):
            raise Violation(f"a reply left before its record was written, {self._where()}")
        if self.policy == b"always":
            logs = [inode for path, inode in self.disk.names.items() if path.endswith(".incr.aof") and inode]
            if any(not _is_checksum_line(inode.changes) for inode in logs):
                raise Violation(f"a reply left before its record was synced, {self._where()}")

    def _promise(self, peer: Peer) -> None:
        """Note that the present state of the model is the one that the next reply to this client shows."""
        if self._states:
            self._promised[peer] = len(self._states)
            self._come_about()

    def _come_about(self) -> None:
        """Add the present state of the model to the states that a crash may leave."""
        if self._states:
            self._states.append(self.state.copy())

    def crash(self) -> None:
        """Kill the server and start it again. Its state must include every change that a reply has confirmed."""
        self._crash_in = None
        self.counts["crashes within a rewrite"] += self.server.snapshots.runner.job is not None
        for worker in (self.fsyncs, self.writer):
            worker.shutdown(cancel_futures=True)
        if self.policy == b"always":
            self.disk = self.disk.after_power_loss(self.rnd)
        else:
            self.disk = self.disk.after_kill()
        self._start()
        self.counts["crashes"] += 1
        wrong: list[str] = []
        for state in self._states[self._kept :]:
            wrong = self._differences(state)
            if not wrong:
                self.state = state
                break
        else:
            raise Violation(f"after a restart, {self._where()}: {wrong}")
        for model in self.models.values():
            model.waits.clear()
            model.started_ms = self.clock()

    def _differences(self, state: State) -> list[str]:
        """Differences between the restarted server and this state."""
        wrong = string_differences(state.strings, self.server.store.databases[0], self.clock())
        for key in KEYS:
            wrong += differences(state.models[key], self._stream(key))
        return wrong

    def _stream(self, key: bytes) -> Stream | None:
        value = self.server.store.databases[0].keys.get(key)
        assert value is None or isinstance(value, Stream)
        return value

    # -- steps -----------------------------------------------------------------------------------

    def run(self, minutes: float) -> None:
        """Run for so many simulated minutes. Raises Violation."""
        end_ms = self.clock() + int(minutes * 60_000)
        while self.clock() < end_ms:
            self.turn()
        self.check(is_whole=True)

    def turn(self) -> None:
        """One action of one client, or a crash. Then some time passes."""
        rnd = self.rnd
        act = rnd.choice(self._actions())
        if self.server.snapshots.runner.job is not None:
            self._rewritten_ms = self.clock()
        is_of_interest = act == self._add_together or self.clock() - self._rewritten_ms < SOON_MS
        is_crashing = rnd.random() < self._crash_share * (CRASHES_OF_INTEREST if is_of_interest else 1)
        self._states = [self.state.copy()] if is_crashing else []
        self._promised.clear()
        self._kept = 0
        if is_crashing:
            self._crash_in = rnd.randrange(CRASH_CALLS_MAX)
        with self.loop.running():
            try:
                act()
                self.counts["steps"] += 1
                self._settle()
                self.pass_time(rnd.choice(PAUSES_MS))
                for worker in (self.fsyncs, self.writer):
                    for _ in range(rnd.randrange(4)):
                        self._step(worker)
            except PowerLoss:
                self.counts["crashes inside a step"] += 1
                self.counts["crashes after a reply"] += self._kept > 0
                self.crash()
            else:
                if is_crashing:
                    self._states = [self.state]
                    self._kept = 0
                    self.crash()
        self.check(is_whole=is_crashing)

    def _actions(self) -> list[Callable[[], None]]:
        ready = [name for name, peer in self.consumers.items() if name not in self.waiting]
        actions: list[Callable[[], None]] = [self._add] * 5 + [self._add_together, self._add_idempotent]
        actions += [self._delete, self._trim, self._delete_all, self._set_string, self._get_string, self._rewrite]
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

    def _settle(self) -> None:
        self.loop.run()

    def _step(self, worker: SteppingExecutor) -> None:
        job = self.server.snapshots.runner.job
        if worker is self.writer and job is not None and not job.file._is_made:
            return
        worker.step()
        self.loop.run()

    def pass_time(self, ms: int) -> None:
        """Move the clock, with a stop at each time at which something is due."""
        end_ms = self.clock() + ms
        while True:
            timers = [handle.due_ms for handle in self.loop._timers if not handle.is_cancelled]
            due_ms = min([end_ms, self._cron_ms + CRON_INTERVAL_MS, *(int(-(-due // 1)) for due in timers)])
            self.clock.advance(max(due_ms - self.clock(), 0))
            self.loop.run()
            if self.clock() >= self._cron_ms + CRON_INTERVAL_MS:
                self._cron_ms = self.clock()
                self.server.periodic.run()
                self.loop.run()
            self._check_waits()
            if self.clock() >= end_ms:
                return

    # -- what clients do -------------------------------------------------------------------------

    def _call(self, peer: Peer, *lines: bytes) -> list[Any]:
        """Send requests, and return the replies as Python values. The model must already have the resulting state."""
        if peer not in self._promised:
            self._promise(peer)
        peer.ask(*(line.decode() for line in lines))
        self.loop.run()
        replies = self._take(peer)
        if len(replies) != len(lines):
            raise Violation(f"{lines} got {replies}, {self._where()}")
        return replies

    def _take(self, peer: Peer) -> list[Any]:
        replies = []
        while peer.received:
            end = frame_end(peer.received)
            replies.append(plain(parse(bytes(peer.received[:end]))))
            del peer.received[:end]
        return replies

    def _expect(self, peer: Peer, line: bytes, expected: Any) -> None:
        self._expect_all(peer, [line], [expected])

    def _expect_all(self, peer: Peer, lines: list[bytes], expected: list[Any]) -> None:
        replies = self._call(peer, *lines)
        if replies != expected:
            raise Violation(f"{lines} got {replies}, not {expected}, {self._where()}")

    def _where(self) -> str:
        return f"seed {self.seed}, policy {self.policy.decode()}, step {self.counts['steps']}"

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
            if replies != [[[key, _entries(entries)]]]:
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
            line = b"XDELEX %b %b IDS %d %b" % (key, references, len(wanted), _ids(wanted))
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
        self._expect(self.consumers[consumer], line, [[key, _entries(entries)]] if entries else None)

    def _wait(self, consumer: bytes) -> None:
        key, name, group = self._some_group(consumer)
        block_ms = self.rnd.choice((1, 50, 700, 5000))
        entries = group.read(consumer, 2, self.clock())
        line = b"XREADGROUP GROUP %b %b COUNT 2 BLOCK %d STREAMS %b >" % (name, consumer, block_ms, key)
        if entries:
            self._expect(self.consumers[consumer], line, [[key, _entries(entries)]])
            return
        wait = Wait(name, consumer, 2, self.clock() + block_ms)
        self.models[key].waits.append(wait)
        self._come_about()
        self.waiting[consumer] = key, wait
        self.consumers[consumer].ask(line.decode())

    def _check_waits(self) -> None:
        """A wait ends after its deadline, and no earlier."""
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
            line = b"XACK %b %b %b" % (key, name, _ids(wanted))
            self._expect(self.consumers[consumer], line, group.acknowledge(wanted))

    def _acknowledge_and_delete(self, consumer: bytes) -> None:
        key, name, group = self._some_group(consumer)
        references = self.rnd.choice(REFERENCES)
        wanted = self._some_pending(group)
        if wanted:
            line = b"XACKDEL %b %b %b IDS %d %b" % (key, name, references, len(wanted), _ids(wanted))
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
            line = b"XCLAIM %b %b %b %d %b" % (key, name, claimant, idle_ms, _ids(wanted))
            self._expect(self.consumers[consumer], line, _entries(claimed))
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
            line = b"XCLAIM %b %b %b %d %b%b" % (key, name, consumer, idle_ms, _ids(wanted), words)
            expected = [format_id(entry_id) for entry_id, _ in claimed] if options.just_ids else _entries(claimed)
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
        expected = [b"0-0", _entries(claimed), [format_id(entry_id) for entry_id in gone]]
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
            line = b"XNACK %b %b %b IDS %d %b%b" % (key, name, mode, len(wanted), _ids(wanted), words)
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
        wrong = string_differences(self.state.strings, self.server.store.databases[0], self.clock())
        if wrong:
            raise Violation(f"{self._where()}: {wrong}")
        if len(self.server.dispatcher.waiters) != len(self.waiting):
            raise Violation(f"{len(self.server.dispatcher.waiters)} waiters, {self._where()}: {self.waiting}")


def _is_checksum_line(changes: list[bytes | int]) -> bool:
    """Whether only the checksum line that ends a block was written. No reply depends on it."""
    data = b"".join(change for change in changes if isinstance(change, bytes))
    return CHECKSUM_PREFIX.startswith(data[: len(CHECKSUM_PREFIX)]) and data.count(b"\n") <= 1


def _entries(entries: list[Entry]) -> list[list[Any]]:
    return [[format_id(entry_id), [b"v", value]] for entry_id, value in entries]


def _ids(entry_ids: list[int]) -> bytes:
    return b" ".join(map(format_id, entry_ids))


def _released_alike(row: list[Any]) -> list[Any]:
    """The row without the idle time of a released entry, which depends on the clock."""
    return [parse_id(row[0]), row[1], "released" if row[2] > 10**9 else row[2], row[3]]
