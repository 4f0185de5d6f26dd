"""Groups with policies under a simulated load: see `server_run`, and `policy_model` for the rules.

    PolicySimulation(seed, b"always").run_steps(1000)

Producers add, also with DELAY. Consumers of two groups read, wait, acknowledge, release, claim, stall, share
connections, and lose them. The settings of the groups change now and then. The server is killed and started again.
Every reply, and the state after every step and at every moment at which something is due, is that of the model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

from headrace.store.group import Group
from headrace.store.ids import format_id
from simulation.invariants import check_stream, differences
from simulation.model import GROUPS, ClaimOptions, Entry, Wait
from simulation.policy_group_model import PolicyGroup
from simulation.policy_invariants import (
    DEAD_KEY,
    dead_differences,
    policy_differences,
    words_of,
    words_of_dead_letters,
)
from simulation.policy_model import PolicyModel, PolicyState
from simulation.policy_parts import UNORDERED, Given, PolicyWait, Settings, field_of
from simulation.server_run import CRASH_SHARE, ServerRun, Violation, id_words
from support.crash_world import Peer

KEYS = (b"q0", b"q1")
GROUP_BY_CONSUMER = {b"c0": b"g", b"c1": b"g", b"c2": b"g", b"c3": b"g", b"d0": b"h", b"d1": b"h"}
# This consumer has no connection of its own.
GUEST = b"c3"
# Acknowledges little.
SLOW = b"c2"
# Entries of a stream from which on the oldest are trimmed.
ENTRIES_MAX = 40
# Dead letters from which on the stream of them is deleted.
DEAD_MAX = 50
# Times differ after each step, so that a model can tell deliveries by their time.
PAUSES_MS = (1, 1, 2, 5, 20, 60, 150, 400)
REDELIVER_MS = ((), (80,), (200,), (50, 150), (30, 300, 700))
BACKOFF_MS = ((), (60,), (20, 250), (40, 100, 300))
DELAYS_MS = (None, None, None, None, 0, 1, 40, 300)
LATER_MS = (0, 0, 0, 30, 400)
LEASES_MS = (0, 0, 0, 300)
TTL_MS = (0, 0, 0, 150, 400, 900)
IDLE_MS = (0, 0, 40, 200)
# Values that many entries have. The others have one each.
SHARED_VALUES = (b"x", b"y", b"z")


class PolicySimulation(ServerRun[PolicyState]):
    """One run, in which the server is restarted after each crash."""

    def __init__(self, seed: int, policy: bytes, *, crash_share: float = CRASH_SHARE) -> None:
        # Readers that must have been served when the server has run.
        self._served: list[tuple[Peer, bytes, Wait, list[Entry]]] = []
        super().__init__(seed, policy, PolicyState({key: PolicyModel() for key in KEYS}), crash_share=crash_share)

    # -- frame -----------------------------------------------------------------------------------

    def _create(self) -> None:
        for key, group in product(KEYS, GROUPS):
            assert self._call(self.producer, b"XGROUP CREATE %b %b 0 MKSTREAM" % (key, group)) == [b"OK"]

    def _connect_clients(self) -> None:
        self.peers = {name: self._connect() for name in GROUP_BY_CONSUMER if name != GUEST}
        # (key, wait) by blocked connection.
        self.waiting: dict[Peer, tuple[bytes, PolicyWait]] = {}
        self._served.clear()

    def _note_restart(self) -> None:
        for key, model in self.models.items():
            model.waits.clear()
            self._end_connections(key, model)
        self.server.periodic.run()
        self.loop.run()
        for key, model in self.models.items():
            model.settle(self.clock())
            model.forget_dropped(self._pending_ids(key))
            for group in model.groups.values():
                if group.settings.is_ordered:
                    group.arrange(group.by_release())
                self._adopt_order(key, group)

    def _end_step_by_crash(self) -> None:
        """See `ServerRun`. What groups did by themselves no reply has confirmed."""
        self._come_about()
        self.crash()

    def _end_connections(self, key: bytes, model: PolicyModel) -> None:
        for name, group in model.groups.items():
            group.end_connections(self._seen_ms(key, name))

    def _seen_ms(self, key: bytes, name: bytes) -> dict[bytes, int]:
        """When the server has seen the consumers of a group: a log does not have this, nor does a reply."""
        return {consumer.name: consumer.seen_ms for consumer in self._group(key, name).consumers.values()}

    def _adopt_order(self, key: bytes, group: PolicyGroup) -> None:
        """Let the model have the order of the server where none is promised: after a start, and among entries that
        were not to be had before the settings changed.
        """
        pending = self._group(key, group.name).pending
        rules, now_ms = pending.rules, self.clock()
        released = pending.released if rules is None else [*rules.ready, *rules.fresh, *rules.spent]
        ready = [each for each in released if each in pending.released and each in group.pending]
        ready = [each for each in ready if not group.is_waiting(each, now_ms)]
        owned = [entry_id for entry_id, delivery in pending.walk_by_time() if delivery.consumer is not None]
        group.put_in_order(ready, owned)

    def _group(self, key: bytes, name: bytes) -> Group:
        stream = self._stream(key)
        assert stream is not None
        return stream.groups[name]

    def _pending_ids(self, key: bytes) -> dict[bytes, set[int]]:
        return {name: {entry_id for entry_id, _ in self._group(key, name).pending.walk()} for name in GROUPS}

    @property
    def models(self) -> dict[bytes, PolicyModel]:
        """The models of the streams, by key."""
        return self.state.models

    # -- time ------------------------------------------------------------------------------------

    def _pause_ms(self) -> int:
        """See `ServerRun`. Often the next step is in the last millisecond before something is due, or in the first."""
        due_ms = self._next_due_ms()
        if due_ms is None or self.rnd.random() < 0.6:
            return self.rnd.choice(PAUSES_MS)
        return max(min(due_ms - self.clock(), PAUSES_MS[-1]) - self.rnd.randrange(2), 1)

    def _next_due_ms(self) -> int | None:
        times = [model.next_due_ms(self.clock()) for model in self.models.values()]
        return min((each for each in times if each is not None), default=None)

    def _note_time(self) -> None:
        for key, wait in self.waiting.values():
            if self.clock() > wait.deadline_ms and wait in self.models[key].waits:
                self.models[key].waits.remove(wait)
        self._follow()

    def _follow(self) -> None:
        """Let the model do what is due, and serve readers that wait. The server must do so when it runs next."""
        for key, model in self.models.items():
            dead_count, consumers_count = len(model.dead), model.consumers_count
            if model.settle(self.clock()):
                self._come_about()
                self.counts["dead letters by time"] += len(model.dead) - dead_count
                self.counts["consumers deleted by time"] += consumers_count - model.consumers_count
            self._serve_waits(key, model)

    def _serve_waits(self, key: bytes, model: PolicyModel) -> None:
        for wait, entries in model.serve_waits(self.clock()):
            assert isinstance(wait, PolicyWait)
            if not entries:
                self._come_about()
                continue
            peer = next(each for each, (_, its) in self.waiting.items() if its is wait)
            self._promise(peer)
            self._served.append((peer, key, wait, entries))

    def _check_waits(self) -> None:
        """A wait ends when there is an entry for its reader or after its deadline, and no earlier."""
        for peer, key, wait, entries in self._served:
            replies = self._take(peer)
            if replies != [[[key, entry_rows(entries)]]]:
                raise Violation(f"{wait} got {replies}, not {entries} at {self.clock()}, {self._where()}")
            del self.waiting[peer]
            self.counts["waits served"] += 1
        self._served.clear()
        for peer, (_, wait) in list(self.waiting.items()):
            replies, is_over = self._take(peer), self.clock() > wait.deadline_ms
            if replies != ([None] if is_over else []):
                raise Violation(f"{wait} has {replies} at {self.clock()}, {self._where()}")
            if is_over:
                del self.waiting[peer]
                self.counts["waits timed out"] += 1

    # -- acts ------------------------------------------------------------------------------------

    def _actions(self) -> list[Callable[[], None]]:
        actions: list[Callable[[], None]] = [self._add] * 4
        actions += [self._delete, self._trim, self._configure, self._rewrite, self._disconnect]
        actions += [self._empty_dead, self._redrive]
        consumer = self.rnd.choice(list(GROUP_BY_CONSUMER))
        peer = self._peer(consumer)
        if peer is not None:
            of_consumers: list[Callable[[bytes, Peer], None]] = [
                self._read, self._read, self._read, self._wait, self._wait, self._wait, self._acknowledge,
                self._release, self._release, self._claim, self._claim_with_options, self._claim_all,
                self._read_history, self._read_claiming, self._delete_consumer,
            ]  # fmt: skip
            if consumer != SLOW:
                of_consumers += [self._acknowledge] * 3
            actions += [lambda act=act: act(consumer, peer) for act in of_consumers]  # type: ignore[misc]
        return actions

    def _peer(self, consumer: bytes) -> Peer | None:
        """The connection of a consumer, which may be that of another one; None if it is blocked."""
        is_guest = consumer == GUEST or self.rnd.random() < 0.1
        peer = self.peers[self.rnd.choice(list(self.peers)) if is_guest else consumer]
        return None if peer in self.waiting else peer

    def _do(self, peer: Peer, line: bytes, expected: Any) -> None:
        """Send a request, and check its reply and those to blocked readers. The model must have the state after it."""
        self._promise(peer)
        for key, model in self.models.items():
            self._serve_waits(key, model)
        self._follow()
        self._expect(peer, line, expected)
        self._run_timers()
        self._check_waits()

    def _run_timers(self) -> None:
        """Let the server do what has become due by a request. It does so less than a millisecond after it."""
        self.server.turns.run_timers()
        self.loop.run()

    def _add(self) -> None:
        key = self.rnd.choice(KEYS)
        model = self.models[key]
        value = self._some_value(len(model.ever))
        delay_ms = self.rnd.choice(LATER_MS)
        entry_id = model.add(value, self.clock())
        if delay_ms:
            model.later[entry_id] = self.clock() + delay_ms
            self.counts["added with DELAY"] += 1
        option = b"DELAY %d " % delay_ms if delay_ms else b""
        self._do(self.producer, b"XADD %b %b* %b %b" % (key, option, field_of(value), value), format_id(entry_id))

    def _some_value(self, number: int) -> bytes:
        if self.rnd.random() < 0.6:
            return self.rnd.choice(SHARED_VALUES)
        return (UNORDERED if self.rnd.random() < 0.3 else b"v") + b"%d" % number

    def _delete(self) -> None:
        key = self.rnd.choice(KEYS)
        model = self.models[key]
        if model.entries and self.rnd.random() < 0.7:
            entry_id = self.rnd.choice(list(model.entries))
            self._do(self.producer, b"XDEL %b %b" % (key, format_id(entry_id)), model.delete(entry_id))

    def _trim(self) -> None:
        key = self.rnd.choice(KEYS)
        trimmed = self.models[key].trim(ENTRIES_MAX, b"KEEPREF")
        self._do(self.producer, b"XTRIM %b MAXLEN %d" % (key, ENTRIES_MAX), trimmed)

    def _rewrite(self) -> None:
        if self.rnd.random() < 0.2:
            self._call(self.producer, b"BGREWRITEAOF")

    def _empty_dead(self) -> None:
        """Now and then, the dead letters are thrown away."""
        if len(self.state.dead_letters) > DEAD_MAX:
            for model in self.models.values():
                model.dead.clear()
            self._do(self.producer, b"DEL %b" % DEAD_KEY, 1)

    def _redrive(self) -> None:
        """Some dead letters go back, oldest first. Of those of the same millisecond, any may be the oldest."""
        rnd = self.rnd
        if rnd.random() < 0.4:
            return
        count, group = rnd.randrange(1, 8), rnd.choice((None, None, *GROUPS))
        target_key = rnd.choice(KEYS) if rnd.random() < 0.15 else None
        expected = {tuple(words_of(*each)): each for each in self.state.dead_letters}
        letters = [expected[tuple(words)] for words in words_of_dead_letters(self._stream(DEAD_KEY))]
        letters = [each for each in letters if group in (None, each[1].group)][:count]
        new_count = self.state.redrive(letters, target_key, self.clock())
        self.counts["redriven as new entries"] += new_count
        self.counts["redriven to their groups"] += len(letters) - new_count
        line = b"XREDRIVE %b COUNT %d" % (DEAD_KEY, count)
        line += b"" if group is None else b" GROUP %b" % group
        line += b"" if target_key is None else b" TO %b" % target_key
        self._do(self.producer, line, [len(letters), []])

    def _configure(self) -> None:
        key, name = self.rnd.choice(KEYS), self.rnd.choice(GROUPS)
        group = self.models[key].groups[name]
        self._adopt_order(key, group)
        before = len(self.models[key].dead)
        released = list(self._group(key, name).pending.released)
        group.configure(self._some_settings(), self.clock(), released, self._seen_ms(key, name))
        line = b"XGROUP CONFIG %b %b %b" % (key, name, group.settings.words(DEAD_KEY))
        self.counts["dead letters by settings"] += len(self.models[key].dead) - before
        self._do(self.producer, line, b"OK")

    def _some_settings(self) -> Settings:
        rnd = self.rnd
        if rnd.random() < 0.1:
            return Settings()
        has_dead_letters, guards, is_ordered = rnd.random() < 0.7, rnd.random() < 0.5, rnd.random() < 0.6
        return Settings(
            redeliver_ms=rnd.choice(REDELIVER_MS),
            guards=guards,
            lease_max_ms=rnd.choice(LEASES_MS) if guards else 0,
            deliveries_max=rnd.choice((0, 0, 2, 3, 5)),
            has_dead_letters=has_dead_letters,
            deletes_dead=has_dead_letters and rnd.random() < 0.5,
            backoff_ms=rnd.choice(BACKOFF_MS),
            pending_max=rnd.choice((0, 0, 1, 3, 6)),
            group_pending_max=rnd.choice((0, 0, 0, 4, 8)),
            releases_on_deletion=rnd.random() < 0.3,
            consumer_ttl_ms=rnd.choice(TTL_MS),
            is_ordered=is_ordered,
            parked_max=rnd.choice((0, 0, 1, 3)) if is_ordered else 0,
        )

    def _some_group(self, consumer: bytes, peer: Peer) -> tuple[bytes, bytes, PolicyGroup]:
        """(key, name, model) of the consumer's group, in one of the two streams."""
        key, name = self.rnd.choice(KEYS), GROUP_BY_CONSUMER[consumer]
        group = self.models[key].groups[name]
        group.connection = peer.client.id
        return key, name, group

    def _read(self, consumer: bytes, peer: Peer) -> None:
        key, name, group = self._some_group(consumer, peer)
        count, no_ack = self.rnd.randrange(1, 5), self.rnd.random() < 0.1
        entries = group.read(consumer, count, self.clock(), no_ack=no_ack)
        option = b"NOACK " if no_ack else b""
        line = b"XREADGROUP GROUP %b %b COUNT %d %bSTREAMS %b >" % (name, consumer, count, option, key)
        self._do(peer, line, [[key, entry_rows(entries)]] if entries else None)
        self.counts["read"] += len(entries)

    def _read_claiming(self, consumer: bytes, peer: Peer) -> None:
        key, name, group = self._some_group(consumer, peer)
        if group.settings == Settings():
            self._adopt_order(key, group)  # delays that have ended may be forgotten
        count, idle_ms = self.rnd.randrange(1, 5), self._idle_ms(group, list(group.pending))
        before = len(group.stream.dead)
        entries = group.read_claiming(consumer, idle_ms, count, self.clock())
        self.counts["dead letters by claim"] += len(group.stream.dead) - before
        self.counts["claims of reads"] += sum(self.clock() > each[2] for each in entries if len(each) > 2)
        line = b"XREADGROUP GROUP %b %b COUNT %d CLAIM %d STREAMS %b >" % (name, consumer, count, idle_ms, key)
        self._do(peer, line, [[key, entry_rows(entries)]] if entries else None)

    def _wait(self, consumer: bytes, peer: Peer) -> None:
        key, name, group = self._some_group(consumer, peer)
        block_ms, count = self.rnd.choice((1, 50, 300, 2000)), self.rnd.randrange(1, 4)
        entries = group.read(consumer, count, self.clock())
        line = b"XREADGROUP GROUP %b %b COUNT %d BLOCK %d STREAMS %b >" % (name, consumer, count, block_ms, key)
        if entries:
            self._do(peer, line, [[key, entry_rows(entries)]])
            return
        wait = PolicyWait(name, consumer, count, self.clock() + block_ms, peer.client.id)
        self.models[key].waits.append(wait)
        self.waiting[peer] = key, wait
        self._come_about()
        self._follow()
        peer.ask(line.decode())
        self.loop.run()
        self._check_waits()

    def _read_history(self, consumer: bytes, peer: Peer) -> None:
        if self.rnd.random() < 0.7:
            return
        key, name, group = self._some_group(consumer, peer)
        owned = group.read_history(consumer, self.clock())
        rows = [[format_id(entry_id), None if value is None else [field_of(value), value]] for entry_id, value in owned]
        self._do(peer, b"XREADGROUP GROUP %b %b STREAMS %b 0" % (name, consumer, key), [[key, rows]])

    def _some_pending(self, group: PolicyGroup, count_max: int = 3) -> list[int]:
        """Pending IDs, and sometimes other IDs."""
        known = list(group.pending) or group.stream.ever[-5:]
        return self.rnd.sample(known, min(len(known), self.rnd.randint(1, count_max)))

    def _acknowledge(self, consumer: bytes, peer: Peer) -> None:
        key, name, group = self._some_group(consumer, peer)
        owned = [each for each, delivery in group.pending.items() if delivery.consumer == consumer]
        wanted = owned[:5] or self._some_pending(group)
        if wanted:
            line = b"XACK %b %b %b" % (key, name, id_words(wanted))
            self._do(peer, line, group.acknowledge(wanted))

    def _release(self, consumer: bytes, peer: Peer) -> None:
        key, name, group = self._some_group(consumer, peer)
        mode = self.rnd.choice((b"SILENT", b"FAIL", b"FAIL", b"FAIL", b"FATAL"))
        delay_ms = self.rnd.choice(DELAYS_MS)
        wanted = self._some_pending(group)
        if wanted:
            before = len(group.stream.dead)
            words = b"" if delay_ms is None else b" DELAY %d" % delay_ms
            line = b"XNACK %b %b %b IDS %d %b%b" % (key, name, mode, len(wanted), id_words(wanted), words)
            count = group.release_later(wanted, mode, self.clock(), delay_ms=delay_ms)
            self.counts["dead letters by release"] += len(group.stream.dead) - before
            self._do(peer, line, count)

    def _delete_consumer(self, consumer: bytes, peer: Peer) -> None:
        """A consumer is deleted that does not wait: one that does may be created again by its wait."""
        key, name, group = self._some_group(consumer, peer)
        is_waiting = any((each.group, each.consumer) == (name, consumer) for each in self.models[key].waits)
        if is_waiting or self.rnd.random() < 0.5:
            return
        releases = self.rnd.random() < 0.5
        line = b"XGROUP DELCONSUMER %b %b %b%b" % (key, name, consumer, b" RELEASE" * releases)
        self.counts["consumers deleted"] += consumer in group.consumers
        self._do(peer, line, group.delete_consumer(consumer, self.clock(), releases=releases))

    def _idle_ms(self, group: PolicyGroup, wanted: list[int]) -> int:
        """The minimum idle time of a claim: often the idle time of one of these IDs, or 1 ms more."""
        owned = [
            group.pending[each].time_ms for each in wanted if each in group.pending and group.pending[each].time_ms
        ]
        if not owned or self.rnd.random() < 0.5:
            return self.rnd.choice(IDLE_MS)
        return self.clock() - self.rnd.choice(owned) + self.rnd.randrange(2)

    def _claim(self, consumer: bytes, peer: Peer) -> None:
        self._claim_some(consumer, peer, ClaimOptions(), b"")

    def _claim_with_options(self, consumer: bytes, peer: Peer) -> None:
        options, words = ClaimOptions(just_ids=self.rnd.random() < 0.5), b""
        if self.rnd.random() < 0.5:
            options.retry_count = self.rnd.randrange(5)
            words = b" RETRYCOUNT %d" % options.retry_count
        self._claim_some(consumer, peer, options, words + b" JUSTID" * options.just_ids)

    def _claim_some(self, consumer: bytes, peer: Peer, options: ClaimOptions, words: bytes) -> None:
        key, name, group = self._some_group(consumer, peer)
        wanted = self._some_pending(group)
        if wanted:
            idle_ms, before = self._idle_ms(group, wanted), len(group.stream.dead)
            claimed = group.claim(consumer, idle_ms, wanted, self.clock(), options)
            line = b"XCLAIM %b %b %b %d %b%b" % (key, name, consumer, idle_ms, id_words(wanted), words)
            self.counts["claims"] += len(claimed)
            self.counts["dead letters by claim"] += len(group.stream.dead) - before
            ids = [format_id(entry_id) for entry_id, _ in claimed]
            self._do(peer, line, ids if options.just_ids else entry_rows(claimed))

    def _claim_all(self, consumer: bytes, peer: Peer) -> None:
        if self.rnd.random() < 0.5:
            return
        key, name, group = self._some_group(consumer, peer)
        idle_ms = self._idle_ms(group, list(group.pending))
        claimed, gone = group.claim_all(consumer, idle_ms, self.clock())
        line = b"XAUTOCLAIM %b %b %b %d 0 COUNT 10000" % (key, name, consumer, idle_ms)
        self.counts["claims"] += len(claimed)
        self._do(peer, line, [b"0-0", entry_rows(claimed), [format_id(entry_id) for entry_id in gone]])

    def _disconnect(self) -> None:
        """A connection breaks, and a new one replaces it."""
        name = self.rnd.choice(list(self.peers))
        peer = self.peers[name]
        if peer in self.waiting:
            key, wait = self.waiting.pop(peer)
            self.models[key].waits.remove(wait)
        for key, group in product(KEYS, GROUPS):
            self.models[key].groups[group].end_connection(peer.client.id, self.clock())
        self._follow()
        peer.abort()
        self._run_timers()
        self._check_waits()
        self.peers[name] = self._connect()
        self.counts["disconnects"] += 1

    # -- invariants ------------------------------------------------------------------------------

    def check(self, *, is_whole: bool = False) -> None:
        """Check what must be true after every step. Raises Violation."""
        for key, model in self.models.items():
            model.forget_dropped(self._pending_ids(key))
            stream = self._stream(key)
            assert stream is not None
            wrong = check_stream(model, stream, is_whole=is_whole) + policy_differences(model, stream, self.clock())
            if wrong:
                raise Violation(f"{key.decode()} at {self.clock()}, {self._where()}: {wrong}")
        wrong = dead_differences(self.state, self._stream(DEAD_KEY))
        if wrong:
            raise Violation(f"{self._where()}: {wrong}")
        if len(self.server.dispatcher.waiters) != len(self.waiting):
            raise Violation(f"{len(self.server.dispatcher.waiters)} waiters, {self._where()}: {self.waiting}")

    def _differences(self, state: PolicyState) -> list[str]:
        """See `ServerRun`. After its start, the server may have done what was due."""
        wrong = self._differences_as_it_is(state)
        if wrong:
            for key, model in state.models.items():
                self._end_connections(key, model)
                model.settle(self.clock())
            wrong = self._differences_as_it_is(state)
        return wrong

    def _differences_as_it_is(self, state: PolicyState) -> list[str]:
        wrong = dead_differences(state, self._stream(DEAD_KEY))
        for key, model in state.models.items():
            stream = self._stream(key)
            if stream is None:
                return ["the stream is gone"]
            model.forget_dropped(self._pending_ids(key))
            wrong += differences(model, stream) + policy_differences(model, stream, self.clock())
        return wrong


def entry_rows(entries: Sequence[Given]) -> list[list[Any]]:
    """The reply with these entries."""
    return [[format_id(entry_id), [field_of(value), value], *rest] for entry_id, value, *rest in entries]
