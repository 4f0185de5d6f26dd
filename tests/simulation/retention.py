"""Streams that remove entries by themselves under a simulated load: see `server_run`, and `retention_model`.

    RetentionSimulation(seed, b"always").run_steps(1000)

Producers add. Consumers of two groups read, acknowledge, release, claim and stall; groups are deleted and created. The
limits of the streams change now and then. The server is killed and started again. After every step, what has gone is
no more than the rules allow, and no less than they demand.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

from headrace.store.ids import format_id
from headrace.store.stream import Stream
from simulation.invariants import check_stream, differences
from simulation.model import GROUPS, GroupModel, State
from simulation.retention_model import Limits, RetentionModel
from simulation.server_run import CRASH_SHARE, ServerRun, Violation, entry_rows, id_words

KEYS = (b"r0", b"r1")
CONSUMERS = (b"a", b"b")
VALUE_SIZE = 60
# Times differ after each step.
PAUSES_MS = (1, 2, 5, 20, 60, 150, 400, 1500)
AGES_MS = (0, 0, 0, 300, 900)
LENGTHS = (0, 0, 0, 5, 12)
SIZES = (0, 0, 0, 2_000, 4_000)
IGNORED_IDLE_MS = (0, 0, 500, 1_500)


class RetentionSimulation(ServerRun[State]):
    """One run, in which the server is restarted after each crash."""

    def __init__(self, seed: int, policy: bytes, *, crash_share: float = CRASH_SHARE) -> None:
        super().__init__(seed, policy, State({key: RetentionModel() for key in KEYS}), crash_share=crash_share)

    # -- frame -----------------------------------------------------------------------------------

    def _create(self) -> None:
        for key, group in product(KEYS, GROUPS):
            assert self._call(self.producer, b"XGROUP CREATE %b %b 0 MKSTREAM" % (key, group)) == [b"OK"]
            self.models[key].create_group(group, 0, self.clock())

    def _connect_clients(self) -> None:
        """The producer sends everything: nothing here depends on connections."""

    def _note_restart(self) -> None:
        for model in self.models.values():
            model.started_at_ms = self.clock()

    @property
    def models(self) -> dict[bytes, RetentionModel]:
        """The models of the streams, by key."""
        return self.state.models  # type: ignore[return-value]

    def _pause_ms(self) -> int:
        """See `ServerRun`. Often the next step is in the last millisecond before something is due, or in the first."""
        due_ms = self._next_due_ms()
        if due_ms is None or self.rnd.random() < 0.5:
            return self.rnd.choice(PAUSES_MS)
        return max(min(due_ms - self.clock(), PAUSES_MS[-1]) - self.rnd.randrange(2), 1)

    def _next_due_ms(self) -> int | None:
        times = [model.next_due_ms(self.clock()) for model in self.models.values()]
        return min((each for each in times if each is not None), default=None)

    def _check_waits(self) -> None:
        """See `ServerRun`. The server has looked at its streams."""
        for key in KEYS:
            self.counts["gone by time"] += self._take_over(key)

    def _live(self, key: bytes) -> list[int]:
        return [entry_id for pairs in self._require(key).log.copy().all_entries() for entry_id, _ in pairs]

    def _require(self, key: bytes) -> Stream:
        stream = self._stream(key)
        assert stream is not None
        return stream

    # -- acts ------------------------------------------------------------------------------------

    def _actions(self) -> list[Callable[[], None]]:
        actions = [self._add] * 6 + [self._read] * 4 + [self._acknowledge] * 5
        return [*actions, self._release, self._claim_all, self._delete, self._configure, self._rewrite, self._regroup]

    def _do(self, key: bytes, line: bytes, expected: object, *, is_plain_read: bool = False) -> None:
        """Send a request, and check its reply. The policy of the stream is applied before that is sent, unless the
        request is a plain read.
        """
        self.server.turns.retention_due_ns = 0
        self._promise(self.producer)
        self._expect(self.producer, line, expected)
        if is_plain_read:
            return
        model = self.models[key]
        must_count, gone_count = model.must_go_count(self.clock()), self._take_over(key)
        model.unconfirmed.clear()
        if gone_count < must_count:
            raise Violation(f"{line!r} left {must_count} entries, {gone_count} went, {self._where()}: {model.limits}")
        size_max = model.limits.size_max
        if size_max and self._require(key).log.count_over(size_max) and model.may_go(next(iter(model.entries)), 0):
            raise Violation(f"{line!r} left more than {size_max} bytes, {self._where()}: {model.limits}")

    def _take_over(self, key: bytes) -> int:
        """Let the entries be gone that the server has removed, if it may. Returns how many those are."""
        model, live = self.models[key], self._live(key)
        gone_count = len(model.entries) - len(live)
        if list(model.entries)[gone_count:] != live or not 0 <= gone_count <= model.may_go_count(self.clock()):
            raise Violation(f"{key!r} has {live} at {self.clock()}, {self._where()}: {model}")
        model.drop_first(gone_count)
        self.counts["gone"] += gone_count
        return gone_count

    def _some_group(self) -> tuple[bytes, bytes, GroupModel] | None:
        """Key, name and model of a group."""
        key, name = self.rnd.choice(KEYS), self.rnd.choice(GROUPS)
        group = self.models[key].groups.get(name)
        return None if group is None else (key, name, group)

    def _add(self) -> None:
        key = self.rnd.choice(KEYS)
        model = self.models[key]
        value = b"%0*d" % (VALUE_SIZE, len(model.ever))
        entry_id = model.add(value, self.clock())
        self._do(key, b"XADD %b * v %b" % (key, value), format_id(entry_id))

    def _read(self) -> None:
        found = self._some_group()
        if found is None:
            return
        key, name, group = found
        consumer, count, no_ack = self.rnd.choice(CONSUMERS), self.rnd.randrange(1, 6), self.rnd.random() < 0.2
        entries = group.read(consumer, count, self.clock(), no_ack=no_ack)
        self.models[key].used_ms[name] = self.clock()
        option = b"NOACK " if no_ack else b""
        line = b"XREADGROUP GROUP %b %b COUNT %d %bSTREAMS %b >" % (name, consumer, count, option, key)
        self._do(key, line, [[key, entry_rows(entries)]] if entries else None, is_plain_read=not no_ack)

    def _acknowledge(self) -> None:
        found = self._some_group()
        if found is None or not found[2].pending:
            return
        key, name, group = found
        wanted = sorted(group.pending)[: self.rnd.randrange(1, 8)]
        if self.rnd.random() < 0.3:
            wanted = self.rnd.sample(sorted(group.pending), 1)
        self._do(key, b"XACK %b %b %b" % (key, name, id_words(wanted)), group.acknowledge(wanted))

    def _release(self) -> None:
        found = self._some_group()
        if found is None or not found[2].pending:
            return
        key, name, group = found
        wanted = self.rnd.sample(sorted(group.pending), 1)
        line = b"XNACK %b %b FAIL IDS 1 %b" % (key, name, id_words(wanted))
        self._do(key, line, group.release(wanted, b"FAIL"))

    def _claim_all(self) -> None:
        """Deleted entries leave the pending list, which kept those after them."""
        found = self._some_group()
        if found is None:
            return
        key, name, group = found
        consumer = self.rnd.choice(CONSUMERS)
        claimed, gone = group.claim_all(consumer, 0, self.clock())
        self.models[key].used_ms[name] = self.clock()
        line = b"XAUTOCLAIM %b %b %b 0 0 COUNT 10000" % (key, name, consumer)
        self._do(key, line, [b"0-0", entry_rows(claimed), [format_id(entry_id) for entry_id in gone]])

    def _delete(self) -> None:
        key = self.rnd.choice(KEYS)
        model = self.models[key]
        if model.entries:
            entry_id = self.rnd.choice(list(model.entries))
            self._do(key, b"XDEL %b %b" % (key, format_id(entry_id)), model.delete(entry_id))

    def _configure(self) -> None:
        key, rnd = self.rnd.choice(KEYS), self.rnd
        values = {b"MAXAGE": rnd.choice(AGES_MS), b"MAXLEN": rnd.choice(LENGTHS), b"MAXBYTES": rnd.choice(SIZES)}
        forced = frozenset(name for name, value in values.items() if value and rnd.random() < 0.3)
        model = self.models[key]
        model.limits = Limits(
            retains_acked=rnd.random() < 0.5,
            age_max_ms=values[b"MAXAGE"],
            length_max=values[b"MAXLEN"],
            size_max=values[b"MAXBYTES"],
            ignored_idle_ms=rnd.choice(IGNORED_IDLE_MS),
            forced=forced,
        )
        model.set_ms = self.clock()
        self._do(key, b"XCFGSET %b %b" % (key, model.limits.words()), b"OK")

    def _regroup(self) -> None:
        """A group is deleted, or created again, at the beginning or at the end of the stream."""
        key, name = self.rnd.choice(KEYS), self.rnd.choice(GROUPS)
        model = self.models[key]
        if name in model.groups:
            if self.rnd.random() < 0.3:
                del model.groups[name]
                self._do(key, b"XGROUP DESTROY %b %b" % (key, name), 1)
            return
        word, position = self.rnd.choice(((b"0", 0), (b"$", model.last_id)))
        model.create_group(name, position, self.clock())
        self._do(key, b"XGROUP CREATE %b %b %b" % (key, name, word), b"OK")

    def _rewrite(self) -> None:
        if self.rnd.random() < 0.3:
            self._call(self.producer, b"BGREWRITEAOF")

    # -- invariants ------------------------------------------------------------------------------

    def check(self, *, is_whole: bool = False) -> None:
        """Check what must be true after every step. Raises Violation."""
        for key, model in self.models.items():
            overdue_count = model.overdue_count(self.clock())
            wrong = check_stream(model, self._require(key), is_whole=is_whole) + self._limit_differences(key, model)
            if overdue_count:
                wrong.append(f"{overdue_count} entries have not gone: {model.limits}")
            if wrong:
                raise Violation(f"{key.decode()} at {self.clock()}, {self._where()}: {wrong}")

    def _limit_differences(self, key: bytes, model: RetentionModel) -> list[str]:
        policy = self._require(key).policy
        found = b"" if policy is None else b" ".join(policy.words())
        wanted = model.limits.set_words()
        return [] if found == wanted else [f"limits {found!r}, not {wanted!r}"]

    def _differences(self, state: State) -> list[str]:
        """See `ServerRun`. What went by itself just before, no reply has confirmed."""
        wrong: list[str] = []
        for key, model in state.models.items():
            assert isinstance(model, RetentionModel)
            live = self._live(key)
            model.restore(set(live))
            gone_count = len(model.entries) - len(live)
            if 0 < gone_count <= model.may_go_count(self.clock()):
                model.drop_first(gone_count)
                model.unconfirmed.clear()
            wrong += differences(model, self._require(key)) + self._limit_differences(key, model)
        return wrong
