"""ORDER-BY against a simple model: any commands in any order, restarts among them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import hiredis
import pytest

from headrace.store.stream import Stream
from support.inprocess import START_MS, Rig
from support.turns import waiting_entries

COMMANDS_COUNT = 400
CONSUMERS = ("a", "b")
# Longer than any run, on the clock of the test.
IDLE_MS = 500_000
DELAY_MS_MAX = 200


class Model:
    """What the group should hold. IDs are their first halves."""

    def __init__(self) -> None:
        self.values: dict[int, str | None] = {}
        self.live: set[int] = set()
        # Owner, empty for released entries, delivery count, and when a released entry may be had again.
        self.pending: dict[int, tuple[str, int, int]] = {}
        # When new entries may be had.
        self.later: dict[int, int] = {}
        self.now_ms = START_MS
        self.last_id = 0
        self.is_ordered = True
        self.waiting_max = 10_000

    def has_turn(self, entry_id: int) -> bool:
        return not self.is_ordered or entry_id not in waiting_entries({*self.pending, entry_id}, self.live_values)

    @property
    def live_values(self) -> dict[int, str | None]:
        return {each: self.values[each] for each in self.live}

    @property
    def waiting_count(self) -> int:
        return len(waiting_entries(self.pending, self.live_values)) if self.is_ordered else 0

    def ready(self) -> list[int]:
        """Released entries that have the turn and are not delayed."""
        return [
            each
            for each, (owner, _, due_ms) in self.pending.items()
            if not owner and due_ms <= self.now_ms and self.has_turn(each)
        ]

    def claim(self, consumer: str, ids: list[int]) -> None:
        for each in ids:
            self.pending[each] = (consumer, self.pending[each][1] + 1, 0)

    def read_new(self, consumer: str, count: int) -> list[int]:
        """Deliver new entries, and let those wait that must."""
        given: list[int] = []
        waiting_count = self.waiting_count
        for each in sorted(self.live):
            if each <= self.last_id or len(given) == count:
                continue
            due_ms = self.later.get(each, 0)
            if self.has_turn(each) and due_ms <= self.now_ms:
                self.pending[each] = (consumer, 1, 0)
                given.append(each)
            elif each in self.pending:
                continue
            elif self.has_turn(each):
                self.pending[each] = ("", 0, due_ms)
            elif waiting_count >= self.waiting_max:
                break
            else:
                waiting_count += 1
                self.pending[each] = ("", 0, due_ms)
            self.last_id = each
        return given

    def read(self, consumer: str, count: int, given: list[int]) -> None:
        """Check what a plain read was given, and note it."""
        ready = [each for each in self.ready() if each in self.live]
        again = given[: len(ready)]
        assert len(set(again)) == min(count, len(ready))
        assert set(again) <= set(ready)
        self.claim(consumer, again)
        new = self.read_new(consumer, count - len(again)) if len(again) < count else []
        assert given == again + new

    def delete(self, ids: list[int], *, drops: bool = False) -> None:
        self.live.difference_update(ids)
        for each in ids if drops else ():
            self.pending.pop(each, None)

    def drop_owned(self, consumer: str) -> None:
        self.pending = {each: row for each, row in self.pending.items() if row[0] != consumer}


class Run:
    """One server, the model of its group, and random commands for both."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.source = random.Random(seed)
        self.model = Model()
        self.rig = Rig(dir=str(folder).encode(), appendonly=True, enable_debug_command=b"yes")
        self.rig.server.load_now()
        self.caller = self.rig.connect()
        self.next_id = 1
        self.ask("XGROUP CREATE s g 0 MKSTREAM")
        self.ask("XGROUP CONFIG s g ORDER-BY k REDELIVER 10000000")

    def ask(self, line: str) -> Any:
        """The reply to one command, which is no error."""
        reader = hiredis.Reader()
        reader.feed(self.caller.call(line))
        reply = reader.gets()
        assert not isinstance(reply, Exception), f"{line}: {reply}"
        return reply

    def some_ids(self) -> list[int]:
        known = [*self.model.pending, *self.model.values] or [1]
        return sorted(set(self.source.choices(known, k=self.source.choice((1, 1, 4)))))

    def words(self, ids: list[int]) -> str:
        return " ".join(f"{each}-0" for each in ids)

    # -- one command each --------------------------------------------------------------------------

    def add(self) -> None:
        for _ in range(self.source.choice((1, 3, 8))):
            value = self.source.choice([None, "x", "y", "z", str(self.source.randrange(9))])
            delay_ms = self.source.choice((0, 0, 0, self.source.randrange(1, DELAY_MS_MAX)))
            delay = f"DELAY {delay_ms}" if delay_ms else ""
            self.ask(f"XADD s {delay} {self.next_id}-0 " + ("f v" if value is None else f"f v k {value}"))
            if delay_ms:
                self.model.later[self.next_id] = self.model.now_ms + delay_ms
            self.model.values[self.next_id] = value
            self.model.live.add(self.next_id)
            self.next_id += 1

    def read(self) -> None:
        consumer, count = self.source.choice(CONSUMERS), self.source.choice((1, 2, 100))
        reply = self.ask(f"XREADGROUP GROUP g {consumer} COUNT {count} STREAMS s >")
        self.model.read(consumer, count, ids_of(reply[0][1] if reply else []))

    def acknowledge(self) -> None:
        ids = self.some_ids()
        assert self.ask(f"XACK s g {self.words(ids)}") == sum([each in self.model.pending for each in ids])
        for each in ids:
            self.model.pending.pop(each, None)

    def release(self) -> None:
        ids, delay_ms = self.some_ids(), self.source.choice((0, 0, self.source.randrange(1, DELAY_MS_MAX)))
        delay = f" DELAY {delay_ms}" if delay_ms else ""
        self.ask(f"XNACK s g FAIL IDS {len(ids)} {self.words(ids)}{delay}")
        for each in ids:
            if each in self.model.pending:
                self.model.pending[each] = ("", self.model.pending[each][1], self.model.now_ms + delay_ms)

    def force(self) -> None:
        entry_id = self.source.choice(list(self.model.values) or [1])
        self.ask(f"XNACK s g FAIL IDS 1 {entry_id}-0 FORCE")
        if entry_id in self.model.live or entry_id in self.model.pending:
            self.model.pending[entry_id] = ("", self.model.pending.get(entry_id, ("", 0, 0))[1], 0)

    def claim(self) -> None:
        consumer, ids, is_patient = self.source.choice(CONSUMERS), self.some_ids(), self.source.random() < 0.5
        reply = ids_of(self.ask(f"XCLAIM s g {consumer} {IDLE_MS if is_patient else 0} {self.words(ids)}"))
        ready = self.model.ready() if is_patient else list(self.model.pending)
        expected = [each for each in ids if each in ready and each in self.model.live]
        assert reply == expected
        self.model.claim(consumer, expected)

    def autoclaim(self) -> None:
        consumer = self.source.choice(CONSUMERS)
        _, claimed, _ = self.ask(f"XAUTOCLAIM s g {consumer} {IDLE_MS} 0 COUNT 1000")
        expected = sorted([each for each in self.model.ready() if each in self.model.live])
        assert ids_of(claimed) == expected
        self.model.claim(consumer, expected)

    def claiming_read(self) -> None:
        consumer = self.source.choice(CONSUMERS)
        reply = self.ask(f"XREADGROUP GROUP g {consumer} CLAIM {IDLE_MS} STREAMS s >")
        ready = [each for each in self.model.ready() if each in self.model.live]
        self.model.claim(consumer, ready)
        new = self.model.read_new(consumer, 1000)
        given = ids_of(reply[0][1] if reply else [])
        assert sorted(given[: len(ready)]) == sorted(ready)
        assert given[len(ready) :] == new

    def delete(self) -> None:
        ids = self.some_ids()
        how = self.source.choice(("XDEL s", "XDELEX s KEEPREF IDS N", "XDELEX s DELREF IDS N", "XACKDEL s g IDS N"))
        self.ask(f"{how.replace('N', str(len(ids)))} {self.words(ids)}")
        if how.startswith("XACKDEL"):
            ids = [each for each in ids if each in self.model.pending]
        self.model.delete(ids, drops="DELREF" in how or "XACKDEL" in how)

    def trim(self) -> None:
        count = self.source.randrange(30)
        how = self.source.choice(("", " DELREF"))
        if self.source.random() < 0.3:
            self.ask(f"XADD s MAXLEN = {count}{how} {self.next_id}-0 f v")
            self.model.values[self.next_id] = None
            self.model.live.add(self.next_id)
            self.next_id += 1
        else:
            self.ask(f"XTRIM s MAXLEN {count}{how}")
        live = sorted(self.model.live)
        self.model.delete(live[: max(len(live) - count, 0)], drops=bool(how))

    def leave(self) -> None:
        consumer, releases = self.source.choice(CONSUMERS), self.source.random() < 0.5
        self.ask(f"XGROUP DELCONSUMER s g {consumer}" + (" RELEASE" if releases else ""))
        if releases:
            self.model.pending = {
                each: ("", row[1], 0) if row[0] == consumer else row for each, row in self.model.pending.items()
            }
        else:
            self.model.drop_owned(consumer)

    def configure(self) -> None:
        field, waiting_max = self.source.choice(("k", "k", "")), self.source.choice((0, 0, 1, 5))
        self.ask(f'XGROUP CONFIG s g ORDER-BY "{field}" MAX-PARKED {waiting_max if field else 0}')
        self.model.is_ordered = bool(field)
        self.model.waiting_max = waiting_max or 10_000

    def set_back(self) -> None:
        last_id = self.source.randrange(self.next_id)
        pending = {each for each in self.model.pending if each > last_id}
        if not pending:
            self.ask(f"XGROUP SETID s g {last_id}-0")
            self.model.last_id = last_id

    def move(self) -> None:
        for line in self.source.choice((["RENAME s t", "RENAME t s"], ["COPY s t", "DEL s", "RENAME t s"])):
            self.ask(line)

    def wait(self) -> None:
        delay_ms = self.source.randrange(DELAY_MS_MAX)
        self.rig.pass_time(delay_ms)
        self.model.now_ms += delay_ms

    def restart(self) -> None:
        """Load the log, or an RDB file."""
        self.ask(self.source.choice(("DEBUG LOADAOF", "DEBUG RELOAD")))

    # -- comparing ---------------------------------------------------------------------------------

    @property
    def group(self) -> Any:
        stream = self.rig.server.store.databases[0].streams[b"s"]
        assert isinstance(stream, Stream)
        return stream.groups[b"g"]

    def compare(self) -> None:
        """Compare the pending lists. Entries that are deleted may have left."""
        shown = {int(row[0].partition(b"-")[0]): (row[1].decode(), row[3]) for row in self.ask("XPENDING s g - + 9999")}
        gone = set(self.model.pending) - set(shown)
        assert not gone & self.model.live
        for each in gone:
            del self.model.pending[each]
        assert shown == {each: row[:2] for each, row in self.model.pending.items()}
        self.group.check()


def ids_of(entries: list[Any]) -> list[int]:
    return [int(entry[0].partition(b"-")[0]) for entry in entries]


STEPS = {
    Run.add: 8, Run.read: 8, Run.acknowledge: 8, Run.release: 4, Run.force: 1, Run.claim: 3, Run.autoclaim: 1,
    Run.claiming_read: 1, Run.delete: 2, Run.trim: 1, Run.leave: 1, Run.configure: 1, Run.set_back: 1, Run.move: 1,
    Run.wait: 4, Run.restart: 1,
}  # fmt: skip


@pytest.mark.parametrize("seed", range(12))
def test_the_order_is_that_of_a_simple_model(seed: int, tmp_path: Path) -> None:
    print("seed", seed)
    run = Run(seed, tmp_path)
    for number in range(COMMANDS_COUNT):
        (step,) = run.source.choices(list(STEPS), weights=list(STEPS.values()))
        print(number, step.__name__)
        step(run)
        run.compare()
    # All that lives is delivered in the end.
    run.rig.pass_time(DELAY_MS_MAX)
    run.model.now_ms += DELAY_MS_MAX
    for _ in range(2 * len(run.model.values)):
        run.read()
        ids = [each for each, (owner, _, _) in run.model.pending.items() if owner]
        if ids:
            run.ask(f"XACK s g {run.words(ids)}")
            for each in ids:
                del run.model.pending[each]
    run.compare()
    assert not [each for each in run.model.pending if each in run.model.live]
    assert not [each for each in run.model.live if each > run.model.last_id]
