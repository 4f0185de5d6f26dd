"""Headrace publishes the keyspace events that Redis publishes, and sends the same invalidations to caching clients."""

from __future__ import annotations

import random

import pytest

from compat.test_fuzz import COMMANDS_PER_SEED, random_command, setup_script
from support.comparison import first_difference, report
from support.lines import split
from support.scripts import MAIN, Line, Player, Script, read_scripts
from support.servers import Server
from support.wire import encode

pytestmark = pytest.mark.oracle

# Every class of events, including those that `A` does not include.
EVENTS = "KEAmnoc"
SEEDS = range(100, 112)


class Listener(Player):
    """Plays a script while a subscriber receives every event, and a cache receives the name of every changed key.

    A third client, the keeper, receives both on one connection. Before each step it reads the keys of the step.
    """

    def begin(self) -> None:
        """Listen from the first step on."""
        super().begin()
        assert self.control.call("CONFIG", "SET", "notify-keyspace-events", EVENTS) == b"+OK\r\n"
        self.ears = {who: self.server.connect(3) for who in ("subscriber", "cache", "keeper")}
        self.ears["subscriber"].call("PSUBSCRIBE", "__key*")
        self.ears["cache"].call("CLIENT", "TRACKING", "ON", "BCAST")
        self.ears["keeper"].call("CLIENT", "TRACKING", "ON")
        self.ears["keeper"].call("PSUBSCRIBE", "__keyspace*")
        self.heard: list[tuple[Line, dict[str, bytes]]] = []
        # Messages that the keeper received while it waited for a reply.
        self.heard_early: list[bytes] = []

    def read(self, words: list[bytes]) -> None:
        """Let the keeper read the keys with these names."""
        keeper = self.ears["keeper"]
        keeper.send("EXISTS", *words)
        while (frame := keeper.receive()).startswith(b">"):
            self.heard_early.append(frame)

    def _step(self, line: Line) -> None:
        if line.command:
            self.read(split(line.command))
        super()._step(line)
        heard = self.hear()
        if line.mode == "?":  # an awaited reply may have arrived in the previous step
            _, before = self.heard.pop()
            heard = {who: before[who] + data for who, data in heard.items()}
        self.heard.append((line, heard))

    def hear(self) -> dict[str, bytes]:
        """The messages since the last call. Two replies to PING prove that no more messages are on the way."""
        for _ in range(2):
            self.control.call("PING")
        found = {}
        early, self.heard_early = self.heard_early, []
        for who, wire in self.ears.items():
            frames = early if who == "keeper" else []
            while (frame := wire.receive_if_arrived()) is not None:
                frames.append(frame)
            found[who] = b"".join(frames)
        return found

    def end(self) -> None:
        """Turn events off, and close the connections."""
        self.control.call("CONFIG", "SET", "notify-keyspace-events", "")
        for wire in self.ears.values():
            wire.close()
        super().end()


@pytest.mark.parametrize("script", read_scripts(), ids=lambda script: f"{script.family}: {script.title}"[:90])
def test_events_and_invalidations_of_scripts_are_the_same(script: Script, headrace: Server, oracle: Server) -> None:
    listeners = [Listener(server, 2) for server in (headrace, oracle)]
    for listener in listeners:
        listener.play(script)
    wrong = [
        f"{script.family}.txt:{line.number}  {line.command}: what the {who} hears\n"
        + first_difference(data, theirs[who])
        for (line, ours), (_, theirs) in zip(*(listener.heard for listener in listeners), strict=True)
        for who, data in ours.items()
        if data != theirs[who]
    ]
    if wrong:
        pytest.fail(report(repr(script.title), wrong), pytrace=False)


@pytest.mark.parametrize("seed", SEEDS)
def test_events_and_invalidations_of_random_commands_are_the_same(seed: int, headrace: Server, oracle: Server) -> None:
    source = random.Random(seed)
    listeners = [Listener(server, 2) for server in (headrace, oracle)]
    wrong: list[str] = []
    try:
        for listener in listeners:
            listener.begin()
            listener.run(setup_script())
        for number in range(COMMANDS_PER_SEED):
            argv = random_command(source)
            for listener in listeners:
                listener.read(argv)
                listener.wires[MAIN].call(*argv)
            ours, theirs = (listener.hear() for listener in listeners)
            text = f"seed {seed}, command {number}: {b' '.join(argv).decode('latin-1')!r}"
            wrong += [
                f"{text}: what the {who} hears\n{first_difference(ours[who], theirs[who])}"
                for who in ours
                if ours[who] != theirs[who]
            ]
    finally:
        for listener in listeners:
            listener.end()
    if wrong:
        pytest.fail(report(f"seed {seed}", wrong), pytrace=False)


READS = [
    "XREADGROUP GROUP g c MAXSIZE {} STREAMS t s u > > >",
    "XREADGROUP GROUP g c MAXSIZE {} CLAIM 0 STREAMS t s u > > >",
    "XREAD MAXSIZE {} STREAMS no t s u 0 0 0 0",
    "XREAD MAXSIZE {} STREAMS t no s nor u 0 0 0 0 0",
    "EVAL \"return redis.call('XREADGROUP', 'GROUP', 'g', 'c', 'MAXSIZE', {}, 'STREAMS', 't', 's', '>', '>')\" 0",
]
# Values of MAXSIZE. The largest is more than the size of all entries and events.
SIZES = range(20, 800, 20)


@pytest.mark.parametrize("begin", [[], ["MULTI", "XGROUP CREATECONSUMER t g d", "XREAD STREAMS no 0"]])
@pytest.mark.parametrize("read", READS)
def test_events_that_a_read_brings_to_its_client_count_against_maxsize(
    read: str, begin: list[str], headrace: Server, oracle: Server
) -> None:
    replies: list[list[bytes]] = []
    for server in (headrace, oracle):
        server.reset()
        with server.connect() as control, server.connect(3) as wire:
            control.call("CONFIG", "SET", "notify-keyspace-events", EVENTS)
            wire.call("PSUBSCRIBE", "__keyspace*")
            of_server = []
            for size in SIZES:
                control.call("FLUSHALL")
                for number, key in enumerate("stu", 1):
                    control.call("XADD", key, f"{number}-1", "f", "v")
                    control.call("XGROUP", "CREATE", key, "g", "0")
                wire.call("ECHO", "begin")
                lines = [*begin, read.format(size), *(["EXEC"] if begin else []), "ECHO end"]
                wire.send_bytes(b"".join(encode(split(line)) for line in lines))
                received = b""
                while not received.endswith(b"$3\r\nend\r\n"):
                    received += wire.receive()
                of_server.append(received)
            replies.append(of_server)
            control.call("CONFIG", "SET", "notify-keyspace-events", "")
    for size, ours, theirs in zip(SIZES, *replies, strict=True):
        assert ours == theirs, f"MAXSIZE {size}: {first_difference(ours, theirs)}"
    assert len({reply.count(b"1-1") for reply in replies[1]}) > 1, "the sizes make a difference"
