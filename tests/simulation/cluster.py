"""Three servers that replicate, on a network that delays, falls silent and breaks, with crashes.

The servers have one clock, or each its own, which is minutes fast or slow and drifts: the seed decides.

    Cluster(seed).run(steps_count=300)

A client writes to the primary, and to a former one that does not know better. Now and then it waits for a replica. The
primary is killed or cut off, and the replica with the highest offset takes its place, as Sentinel does it. Rules:

    place       two servers with the same ID and offset have the same dataset
    wait        as many replicas as WAIT says have the write, and one of them takes over with it
    isolated    a primary without replicas acknowledges nothing after `min-replicas-max-lag`
    taken       no replica is sent what it cannot take
    converge    after all links are whole again, all servers have the same dataset
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from typing import Any, Final
from unittest import mock

from headrace.store.ids import SEQ_BITS
from simulation.cluster_network import ClusterNetwork
from support.crash_world import CRON_INTERVAL_MS, FOLDER, Peer, SimulatedServer, new_config
from support.digest import Digest, digest_of
from support.inprocess import Clock
from support.replies import Node as Reply
from support.replies import frame_end, parse, plain
from support.simulated_disk import Call, SimulatedDisk
from support.stepping import SteppingExecutor, SteppingLoop

NAMES: Final = ("a", "b", "c")
FIRST_PORT: Final = 7001
TIMEOUT_S: Final = 5
LAG_S_MAX: Final = 2
# A replica is counted once a second, and its last confirmation may have been on its way.
LAG_SLACK_MS: Final = 1_300
WAIT_MS: Final = 400
CONVERGE_MS_MAX: Final = 60_000
PAUSES_MS: Final = (0, 0, 1, 5, 30, 100, 400, 1200)
# While a link is silent.
LONG_PAUSES_MS: Final = (*PAUSES_MS, 1200, 1200)
KEYS: Final = ("k0", "k1", "k2")
# The place of the libraries of functions in a digest.
LIBRARIES: Final = (-1, b"libraries")
HAS_SCRIPTS: Final = find_spec("lupa") is not None


# Share of the seeds whose servers disagree about the time, by how much, and how much faster a clock may run.
SKEWED_SHARE: Final = 0.5
SKEWS_MS: Final = (-300_000, -60_000, -1_500, -20, 0, 20, 1_500, 60_000, 300_000)
DRIFTS: Final = (-0.02, -0.001, 0.0, 0.001, 0.02)


class Violation(AssertionError):
    """A rule is broken."""


class SkewedClock:
    """The wall clock of one server: Unix ms, ahead of true time by `skew_ms` at the start, and by more later."""

    def __init__(self, true_clock: Clock, skew_ms: int, drift: float) -> None:
        self._true_clock, self.skew_ms, self._drift = true_clock, skew_ms, drift
        self._start_ms = true_clock()

    def __call__(self) -> int:
        now_ms = self._true_clock()
        return now_ms + self.skew_ms + int((now_ms - self._start_ms) * self._drift)


@contextmanager
def time_standing() -> Iterator[None]:
    """No work takes time, so that no slice ends sooner on a slow machine."""
    with ExitStack() as patches:
        for name, module in list(sys.modules.items()):
            if name.startswith("headrace."):
                for clock in ("perf_counter", "perf_counter_ns"):
                    if hasattr(module, clock):
                        patches.enter_context(mock.patch.object(module, clock, return_value=0))
        yield


class ClusterNode:
    """One server with its disk. A restart is another server on the same disk."""

    def __init__(self, cluster: Cluster, name: str, port: int) -> None:
        self.cluster, self.name, self.port = cluster, name, port
        self.disk = SimulatedDisk({FOLDER: None})
        self.clock = cluster.new_clock()
        self.is_up = False
        self.server: SimulatedServer
        self._numbers = 0
        # Writes that it has confirmed and lost since in a power loss, which `appendfsync everysec` permits.
        self.excused: set[int] = set()
        # The writes that it had before a power loss.
        self._before: set[int] = set()

    # What `Peer` uses.

    @property
    def loop(self) -> SteppingLoop:
        """The loop of all."""
        return self.cluster.loop

    def on_acknowledged(self, peer: Peer) -> None:
        """Replies are looked at when they are taken."""

    # -- lives -----------------------------------------------------------------------------------

    def start(self, replicaof: bytes = b"") -> None:
        """Start, and load what the disk has."""
        self.fsyncs, self.writer = SteppingExecutor(), SteppingExecutor()
        self.disk.on_boundary = self._pass_boundary
        config = new_config(b"everysec", has_rdb_base=self.cluster.seed % 2 == 1)
        config.port, config.replicaof = self.port, replicaof
        config.repl_timeout, config.repl_ping_replica_period = TIMEOUT_S, 1
        config.repl_diskless_sync_delay = 0
        config.repl_backlog_size = 48 * 1024
        config.auto_aof_rewrite_min_size = 16 * 1024
        config.min_replicas_max_lag = LAG_S_MAX
        config.min_replicas_to_write = int(self.cluster.seed % 3 == 0)
        self.server = server = SimulatedServer(config, self.clock, self.disk, self.fsyncs)
        server.move_with(self.loop, self.writer)
        server.load_now()
        self.is_up = True
        self.excused |= self._before - self.numbers
        self.cluster.confirmed -= self.excused
        self.client = self._connect()

    def _connect(self) -> Peer:
        self._numbers += 1
        peer = Peer(self, 1_000_000 + self._numbers)  # type: ignore[arg-type]
        peer.client.address = b"127.0.0.1:1"
        self.server.dispatcher.attach(peer)
        return peer

    def renew_client(self) -> None:
        """A change of role closes clients that wait."""
        if self.client.is_closed:
            self.cluster.forget_requests(self)
            self.client = self._connect()

    def kill(self, *, is_power_loss: bool) -> None:
        """End the process."""
        self.is_up = False
        self.count_syncs()
        self.cluster.network.drop_node(self)
        link = self.server.following.link
        if link is not None:
            link.is_closed = True  # its thread and its calls are gone with the process
            if link._transfer is not None:
                link._transfer.stop()
        self.server.end()
        self._before = self.numbers if is_power_loss else set()
        for worker in (self.fsyncs, self.writer):
            worker.shutdown(cancel_futures=True)
        self.disk = self.disk.after_power_loss(self.cluster.rnd) if is_power_loss else self.disk.after_kill()
        self.cluster.forget_requests(self)

    def count_syncs(self) -> None:
        """Count what this life of the server has sent its replicas."""
        stats = self.server.stats
        self.cluster.counts["full syncs"] += stats.sync_full
        self.cluster.counts["partial syncs"] += stats.sync_partial_ok
        self.cluster.counts["starts with a place"] += self.server.loading.place is not None

    def _pass_boundary(self, call: Call) -> None:
        self.fsyncs.pause()
        self.writer.pause()

    def is_alive(self, protocol: Any) -> bool:
        """Whether this end of a connection belongs to the running process."""
        if not self.is_up:
            return False
        owner = getattr(protocol, "_owner", None)
        return owner is self.server.following if owner is not None else protocol.shared is self.server.shared

    # -- what is seen ----------------------------------------------------------------------------

    @property
    def offset(self) -> int:
        """Its place in the history."""
        return self.server.primary.history.offset

    @property
    def replid(self) -> str:
        """The ID of its history."""
        return self.server.primary.history.replid

    @property
    def digest(self) -> Digest:
        """The dataset."""
        return {**digest_of(self.server.store), LIBRARIES: tuple(sorted(self.server.context.libraries.codes))}

    @property
    def numbers(self) -> set[int]:
        """The writes that it has."""
        stream: Any = self.server.store.databases[0].keys.get(b"log")
        if stream is None:
            return set()
        pairs = [pair for pairs in stream.log.copy().all_entries() for pair in pairs]
        return {entry_id >> SEQ_BITS for entry_id, _ in pairs}

    def step(self) -> None:
        """Let the threads work as far as they can."""
        for worker in (self.fsyncs, self.writer):
            job = self.server.snapshots.runner.job
            if worker is self.writer and job is not None and not getattr(job.file, "_is_made", True):
                continue
            while worker.step():
                self.loop.run()


class Cluster:
    """One run."""

    def __init__(self, seed: int, *, is_skewed: bool | None = None) -> None:
        self.seed = seed
        self.rnd = random.Random(seed)
        self.clock = Clock()
        self.loop = SteppingLoop(self.clock)
        self.network = ClusterNetwork(self.loop, self.clock, self.rnd)
        # Not of `rnd`: a seed gives the same course with both.
        self._clocks_rnd = random.Random(f"clocks {seed}")
        self.has_skewed_clocks = self._clocks_rnd.random() < SKEWED_SHARE if is_skewed is None else is_skewed
        # Writes that at least one replica has confirmed.
        self.confirmed: set[int] = set()
        self.nodes = [ClusterNode(self, name, FIRST_PORT + index) for index, name in enumerate(NAMES)]
        self.network.nodes = {node.port: node for node in self.nodes}
        self.primary = self.nodes[0]
        self.counts: Counter[str] = Counter()
        self.counts["runs with skewed clocks"] += self.has_skewed_clocks
        # The dataset at each place.
        self._places: dict[tuple[str, int], tuple[str, Digest]] = {}
        self._number = 0
        # By node: what its client waits for.
        self._asked: dict[str, list[tuple[str, list[int]]]] = {name: [] for name in NAMES}
        # By node that is cut off from all others: since when, Unix ms.
        self._cut_since: dict[str, int] = {}
        self._next_cron_ms = {node.name: self.clock() + 30 * index for index, node in enumerate(self.nodes)}
        with self.loop.running():
            for node in self.nodes:
                node.start(b"" if node is self.primary else self._address(self.primary))
            self.settle()

    def new_clock(self) -> Clock | SkewedClock:
        """The clock of the next server."""
        if not self.has_skewed_clocks:
            return self.clock
        return SkewedClock(self.clock, self._clocks_rnd.choice(SKEWS_MS), self._clocks_rnd.choice(DRIFTS))

    @staticmethod
    def _address(node: ClusterNode) -> bytes:
        return b"127.0.0.1 %d" % node.port

    def _where(self) -> str:
        return f"seed {self.seed}, step {self.counts['steps']}"

    # -- the course ------------------------------------------------------------------------------

    def run(self, steps_count: int) -> None:
        """Run so many steps. Raises Violation."""
        try:
            with self.loop.running(), time_standing():
                self.converge()
                for _ in range(steps_count):
                    self.counts["steps"] += 1
                    self.rnd.choice(self._acts())()
                    self.settle()
                    self.pass_time(self.rnd.choice(PAUSES_MS if not self.network.cut else LONG_PAUSES_MS))
                    self.check_places()
                    if self.loop.errors:
                        raise Violation(f"{self.loop.errors[0]}, {self._where()}")
                self.converge()
        finally:
            for node in self.nodes:
                if node.is_up:
                    node.kill(is_power_loss=False)

    def _acts(self) -> list[Callable[[], None]]:
        acts: list[Callable[[], None]] = [self._write] * 12 + [self._write_and_wait] * 6 + [self._reset] * 2
        if not self.network.cut and all(node.is_up for node in self.nodes):
            acts += [self._isolate, self._cut_pair, self._kill_replica, self._restart_primary, self._rewrite]
            acts += [self._chain, self._hand_over]
        else:
            acts += [self._fail_over, self.converge]
        return acts

    def settle(self) -> None:
        """Run everything that is due."""
        while True:
            self.loop.run()
            for node in self.nodes:
                if node.is_up:
                    node.step()
            self.loop.run()
            if not self.network.deliver() and not self.loop._ready:
                break
        for node in self.nodes:
            if node.is_up:
                self._take_replies(node)
                following = node.server.following
                if following.is_refusing:
                    raise Violation(f"taken: {node.name}, {following.last_error}, {self._where()}")

    def pass_time(self, ms: int) -> None:
        """Move the clock from one event to the next."""
        end_ms = self.clock() + ms
        while self.clock() < end_ms:
            dues = [end_ms, *(self._next_cron_ms[node.name] for node in self.nodes)]
            for due_ms in (self.network.next_due_ms(), self.loop.next_due_ms()):
                if due_ms is not None:
                    dues.append(int(-(-due_ms // 1)))
            self.clock.advance(max(1, min(dues) - self.clock()))
            for node in self.nodes:
                if self.clock() >= self._next_cron_ms[node.name]:
                    self._next_cron_ms[node.name] = self.clock() + CRON_INTERVAL_MS
                    if node.is_up:
                        node.server.periodic.run()
            self.settle()

    # -- what is done ----------------------------------------------------------------------------

    def _writers(self) -> list[ClusterNode]:
        return [node for node in self.nodes if node.is_up and node.server.following.address is None]

    def _ask(self, node: ClusterNode, *lines: str, kind: str = "", numbers: tuple[int, ...] = ()) -> None:
        node.renew_client()
        for line in lines:
            self._asked[node.name].append((kind if line.startswith(("XADD log", "WAIT")) else "", list(numbers)))
        node.client.ask(*lines)

    def forget_requests(self, node: ClusterNode) -> None:
        """No more replies come to this client."""
        self._asked[node.name].clear()

    def _next_write(self) -> tuple[str, int]:
        self._number += 1
        return f"XADD log {self._number}-0 n {self._number}", self._number

    def _other_lines(self) -> list[str]:
        """Writes whose loss does not matter, in several databases."""
        rnd = self.rnd
        key = rnd.choice(KEYS)
        large = [f"SET large{rnd.randrange(3)} {rnd.choice('uvw') * 3000}" for _ in range(rnd.randrange(1, 9))]
        lines = rnd.choice(
            [
                [f"SET {key} {rnd.randrange(100)} PX {rnd.choice((20, 300, 3000))}"],
                [f"SET {key} {rnd.randrange(100)}"],
                [f"INCR n{rnd.randrange(3)}"],
                [f"DEL {key}"],
                ["XGROUP CREATE log g 0 MKSTREAM"],
                ["XREADGROUP GROUP g c COUNT 3 STREAMS log >"],
                ["XAUTOCLAIM log g d 0 0 COUNT 2 JUSTID"],
                ["MULTI", f"SET {key} x", "INCR total", "EXEC"],
                ["PUBLISH ch m"],
                large,
                large,
                large,
                [f"GET {key}"],
                [f"HSET h{rnd.randrange(2)} f{rnd.randrange(4)} {rnd.randrange(100)}"],
                [f"HINCRBY h{rnd.randrange(2)} f{rnd.randrange(4)} 1"],
                [f"HPEXPIRE h{rnd.randrange(2)} {rnd.choice((20, 300, 3000))} FIELDS 2 f0 f{rnd.randrange(1, 4)}"],
                [f"RPUSH l {rnd.randrange(9)} {rnd.randrange(9)}", "LMOVE l m LEFT RIGHT", "LTRIM m -9 -1"],
                [f"SADD s {rnd.randrange(20)}", "SPOP s 2", f"SADD s x{rnd.randrange(20)}"],
                [f"ZADD z {rnd.random()} {rnd.randrange(20)}", f"ZINCRBY z 0.1 {rnd.randrange(20)}", "ZPOPMIN z"],
                [f"ARSET array {rnd.randrange(30)} {rnd.randrange(100)}", f"ARDEL array {rnd.randrange(30)}"],
                [f"ARINSERT array {rnd.randrange(9)} {rnd.randrange(9)}", "ARRING ring 3 a b"],
                ["HIMPORT PREPARE fields a b", f"HIMPORT SET imported fields {rnd.randrange(9)} {rnd.randrange(9)}"],
                [self._function_line()],
                ["MULTI", f"HINCRBY h0 f{rnd.randrange(4)} 1", "LPOP l", f"SADD s {rnd.randrange(20)}", "EXEC"],
            ]
        )
        index = rnd.choice((0, 0, 3))
        return [f"SELECT {index}", *lines, "SELECT 0"] if index else lines

    def _function_line(self) -> str:
        name = f"f{self.rnd.randrange(3)}"
        body = f"redis.register_function('{name}', function() return {self.rnd.randrange(9)} end)"
        line = self.rnd.choice(("LOAD", "LOAD", "LOAD", "DELETE", "FLUSH"))
        if line == "FLUSH" or not HAS_SCRIPTS:
            return "FUNCTION FLUSH"
        return f"FUNCTION DELETE {name}" if line == "DELETE" else f'FUNCTION LOAD REPLACE "#!lua name={name}\\n{body}"'

    def _write(self) -> None:
        writers = self._writers()
        if writers:
            node = self.rnd.choice(writers)
            line, number = self._next_write()
            self._ask(node, *self._other_lines(), line, kind="write", numbers=(number,))

    def _write_and_wait(self) -> None:
        writers = self._writers()
        if writers:
            node = self.rnd.choice(writers)
            line, number = self._next_write()
            self._ask(node, line, kind="write", numbers=(number,))
            self._ask(node, f"WAIT 1 {WAIT_MS}", kind="wait", numbers=(number,))

    def _take_replies(self, node: ClusterNode) -> None:
        received, asked = node.client.received, self._asked[node.name]
        while received and asked:
            end = frame_end(received)
            reply = plain(parse(bytes(received[:end])))
            del received[:end]
            kind, numbers = asked.pop(0)
            if kind == "write":
                self._note_written(node, reply)
            elif kind == "wait":
                self._note_waited(node, reply, numbers[0])
        if node.client.is_closed:
            asked.clear()

    def _note_written(self, node: ClusterNode, reply: Any) -> None:
        if isinstance(reply, Reply):
            self.counts["refused writes"] += 1
            return
        self.counts["writes"] += 1
        since_ms = self._cut_since.get(node.name)
        if since_ms is not None and node.server.config.min_replicas_to_write:
            self.counts["writes of isolated primaries"] += 1
            if self.clock() - since_ms > LAG_S_MAX * 1000 + LAG_SLACK_MS:
                raise Violation(
                    f"isolated: {node.name} acknowledges after {self.clock() - since_ms} ms, {self._where()}"
                )

    def _note_waited(self, node: ClusterNode, reply: Any, number: int) -> None:
        if not isinstance(reply, int) or not reply or number not in node.numbers:
            return
        self.counts["confirmed writes"] += 1
        others = [each for each in self.nodes if each is not node]
        holders = [each.name for each in others if number in each.numbers]
        if any(number in each.excused for each in others):
            return
        if len(holders) < reply:
            raise Violation(f"wait: {reply} at {node.name} for {number}, which only {holders} have, {self._where()}")
        self.confirmed.add(number)

    def _reset(self) -> None:
        if self.network.links:
            self.rnd.choice(self.network.links).reset()
            self.counts["lost connections"] += 1

    def _rewrite(self) -> None:
        self._ask(self.rnd.choice([node for node in self.nodes if node.is_up]), "BGREWRITEAOF")

    def _isolate(self) -> None:
        node = self.rnd.choice([self.primary, self.primary, *self.nodes])
        self.network.isolate(node.name)
        self._cut_since[node.name] = self.clock()
        self.counts["isolations"] += 1

    def _cut_pair(self) -> None:
        first, second = self.rnd.sample(self.nodes, 2)
        self.network.cut.add(frozenset((first.name, second.name)))
        self.counts["cut links"] += 1

    def _kill_replica(self) -> None:
        node = self.rnd.choice([node for node in self.nodes if node is not self.primary])
        address = node.server.config.replicaof
        node.kill(is_power_loss=self.rnd.random() < 0.5)
        self.pass_time(self.rnd.choice(PAUSES_MS))
        node.start(address)
        self.counts["killed replicas"] += 1

    def _chain(self) -> None:
        """A replica follows the other one."""
        first, second = [node for node in self.nodes if node is not self.primary]
        if self._is_whole() and second.server.following.address == (b"127.0.0.1", self.primary.port):
            self._ask(first, f"REPLICAOF 127.0.0.1 {second.port}")
            self.counts["chains"] += 1

    def _hand_over(self) -> None:
        """FAILOVER, while nothing is broken. Clients write meanwhile."""
        old = self.primary
        if not self._is_whole() or any(
            node.server.following.address != (b"127.0.0.1", old.port) for node in self.nodes if node is not old
        ):
            return
        self._ask(old, "FAILOVER TIMEOUT 2000")
        for _ in range(40):
            self._write()
            self.pass_time(self.rnd.choice((5, 50, 200)))
            following = old.server.following.address
            if following is not None:
                self.primary = next(node for node in self.nodes if node.port == following[1])
                if self.primary.server.following.address is None:
                    self.counts["handed over"] += 1
                    lost = self.confirmed - self.primary.numbers
                    if lost:
                        raise Violation(f"wait: FAILOVER has lost {sorted(lost)}, {self._where()}")
                    return
        raise Violation(f"converge: FAILOVER does not end, {self._where()}")

    def _restart_primary(self) -> None:
        """The primary is killed. It comes back before it is replaced, or it is replaced."""
        node = self.primary
        node.kill(is_power_loss=self.rnd.random() < 0.5)
        self.counts["killed primaries"] += 1
        self.pass_time(self.rnd.choice(PAUSES_MS))
        if self.rnd.random() < 0.5:
            node.start()
            self.counts["restarts"] += 1
        else:
            self._fail_over()

    def _fail_over(self) -> None:
        """Promote the better of the two others, if the primary is out of their reach."""
        old = self.primary
        others = [node for node in self.nodes if node is not old]
        is_out = not old.is_up or all(frozenset((old.name, node.name)) in self.network.cut for node in others)
        is_split = frozenset(node.name for node in others) in self.network.cut
        if not is_out or is_split or not all(node.is_up for node in others):
            return
        if len({node.replid for node in others}) > 1 or not all(node.server.following._has_history for node in others):
            return
        best = max(others, key=lambda node: node.offset)
        lost = self.confirmed - best.numbers
        if lost:
            raise Violation(f"wait: {sorted(lost)} were confirmed, and {best.name} has not got them, {self._where()}")
        other = next(node for node in others if node is not best)
        self._ask(best, "REPLICAOF NO ONE")
        self._ask(other, f"REPLICAOF 127.0.0.1 {best.port}")
        self.primary = best
        self.counts["promotions"] += 1

    # -- rules -----------------------------------------------------------------------------------

    def check_places(self) -> None:
        """Two servers at one place have one dataset, now and at any time."""
        for node in self.nodes:
            if not node.is_up or node.server.context.loading:
                continue
            place = node.server.primary.find_place()
            if place is None:
                continue
            digest = node.digest
            known = self._places.setdefault((place.replid, place.offset), (node.name, digest))
            self.counts["places compared"] += known[0] != node.name
            if known[1] != digest:
                keys = [key for key in {**known[1], **digest} if known[1].get(key) != digest.get(key)]
                raise Violation(
                    f"place: {known[0]} and {node.name} differ at {place.offset} in {keys[:4]}, {self._where()}"
                )

    def converge(self) -> None:
        """Heal everything, let all follow one primary, and wait until they have the same dataset."""
        self.network.heal()
        self._cut_since.clear()
        for node in self.nodes:
            if not node.is_up:
                node.start(b"" if node is self.primary else self._address(self.primary))
        for node in self.nodes:
            if node is not self.primary:
                self._ask(node, f"REPLICAOF 127.0.0.1 {self.primary.port}")
        end_ms = self.clock() + CONVERGE_MS_MAX
        while not self._is_whole():
            if self.clock() > end_ms:
                states = [
                    (node.name, node.replid[:6], node.offset, node.server.following.last_error) for node in self.nodes
                ]
                raise Violation(f"converge: {states}, {self._where()}")
            self.pass_time(200)
        self.check_places()
        digests = [node.digest for node in self.nodes]
        if digests[1:] != digests[:-1]:
            raise Violation(f"converge: the datasets differ, {self._where()}")
        lost = self.confirmed - self.primary.numbers
        if lost:
            raise Violation(f"wait: {sorted(lost)} were confirmed and are gone, {self._where()}")
        self.counts["convergences"] += 1

    def _is_whole(self) -> bool:
        replicas = [node for node in self.nodes if node is not self.primary]
        return all(node.server.following.is_up and node.offset == self.primary.offset for node in replicas) and (
            len({node.replid for node in self.nodes}) == 1
        )
