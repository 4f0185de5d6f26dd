r"""Scripts: the same commands for two servers, whose replies are then compared.

A `#` line starts a script on an empty database. `{a|b}` in a line stands for one step per alternative; `"\xff"` is a
byte. Lines run on one connection, unless they begin with

    @ name value      CONFIG SET, not compared
    a> command        the command on connection `a`, whose reply is awaited
    a! command        the same, but the command may block: its reply shows up after whatever step serves it
    a?                wait for the reply `a` still owes (a timeout, for instance)

`<id:a>` is the client ID of connection `a`. Clients that still wait at the end are unblocked. Then the state of every
key is compared as well.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from support.lines import expand, split
from support.normalise import agree, normalise
from support.servers import Server
from support.wire import REPLY_TIMEOUT_S, Wire

DATA = Path(__file__).parent.parent / "compat" / "data" / "scripts"
MAIN = ""


@dataclass(frozen=True)
class Line:
    """One step as written: who (`""` is the main connection), how (`>`, `!`, `?` or `@`), and what."""

    number: int
    who: str
    mode: str
    command: str


@dataclass
class Script:
    """Steps on one initially empty database."""

    family: str
    title: str
    lines: list[Line] = field(default_factory=list)


@dataclass(frozen=True)
class Observation:
    """A reply as it was seen: normalised, with the step after which it arrived."""

    number: int
    who: str
    command: str
    reply: bytes

    def agrees_with(self, other: Observation) -> bool:
        """Whether both are the same step, answered the same."""
        return replace(self, reply=b"") == replace(other, reply=b"") and agree(self.reply, other.reply)

    @property
    def name(self) -> str:
        """Who said what."""
        return f"{self.who}> {self.command}" if self.who else self.command

    def __str__(self) -> str:
        return f"{self.name} -> {self.reply[:200]!r}"


def read_scripts() -> list[Script]:
    """Every script of the data folder, in order of file name."""
    scripts: list[Script] = []
    for path in sorted(DATA.glob("*.txt")):
        for number, text in enumerate(path.read_text("utf-8").splitlines(), 1):
            if text.startswith("#"):
                scripts.append(Script(path.stem, text[1:].strip()))
            elif text.strip():
                scripts[-1].lines += _lines(number, text)
    return scripts


def _lines(number: int, text: str) -> list[Line]:
    match = re.match(r"(?:(@) |([a-z])([>!?])(?: |$))?(.*)", text)
    assert match
    mode = match[1] or match[3] or ">"
    return [Line(number, match[2] or MAIN, mode, command) for command in expand(match[4])]


class Player:
    """Plays one script on one server."""

    def __init__(self, server: Server, protocol: int) -> None:
        self.server = server
        self.protocol = protocol
        self.wires: dict[str, Wire] = {}
        self.ids: dict[str, int] = {}
        self.waiting: dict[str, Line] = {}
        self.seen: list[Observation] = []

    def play(self, script: Script) -> list[Observation]:
        """All replies, then the state of every key."""
        self.begin()
        try:
            self.run(script)
            return self.seen + self.state()
        finally:
            self.end()

    def begin(self) -> None:
        """Connect to an emptied server."""
        self.server.reset()
        self.control = self.server.connect()
        self._connect(MAIN)

    def run(self, script: Script) -> None:
        """All steps; clients that still wait after them are unblocked."""
        for line in script.lines:
            self._step(line)
        for who in sorted(self.waiting):
            self.control.call("CLIENT", "UNBLOCK", self.ids[who])
            self._arrived(who, self.wires[who].receive(), 0)

    def end(self) -> None:
        """Close every connection. A script may have paused what servers do once a second."""
        self.control.call("DEBUG", "PAUSE-CRON", 0)
        for wire in [*self.wires.values(), self.control]:
            wire.close()

    def _connect(self, who: str) -> Wire:
        if who not in self.wires:
            wire = self.wires[who] = self.server.connect(self.protocol)
            self.ids[who] = wire.ask("CLIENT", "ID")
        return self.wires[who]

    def _step(self, line: Line) -> None:
        if line.mode == "@":
            reply = self.control.call("CONFIG", "SET", *line.command.split())
            assert reply == b"+OK\r\n", (line, reply)
            return
        wire = self._connect(line.who)
        if line.mode == "?":
            if line.who in self.waiting:
                self._arrived(line.who, wire.receive(), line.number)
            else:
                self.seen[-1] = replace(self.seen[-1], number=line.number)  # it has come early, on a busy machine
            return
        argv = self._arguments(line.command)
        wire.send(*argv)
        if line.mode == "!":
            self.waiting[line.who] = line
            self._await_block(line)
        else:
            self._observe(line.number, line.who, line.command, argv, wire.receive())
        self._settle(line.number)

    def _arguments(self, command: str) -> list[bytes]:
        return split(re.sub(r"<id:([a-z])>", lambda match: str(self.ids[match[1]]), command))

    def _observe(self, number: int, who: str, command: str, argv: list[bytes], raw: bytes) -> None:
        self.seen.append(Observation(number, who, command, normalise(raw, argv)))

    def _await_block(self, line: Line) -> None:
        """Continue only when the server reports that the client is blocked, or has answered."""
        deadline = time.monotonic() + REPLY_TIMEOUT_S
        while time.monotonic() < deadline:
            raw = self.wires[line.who].receive_if_arrived()
            if raw is not None:
                self._arrived(line.who, raw, line.number)
                return
            if b"blocked_clients:%d\r\n" % len(self.waiting) in self.control.ask("INFO", "clients"):
                return
        raise AssertionError(f"neither blocked nor answered: {line}")

    def _settle(self, number: int) -> None:
        """Collect what this step brought to the waiting clients: one later reply proves that it was all sent."""
        if self.waiting:
            self.control.call("PING")
            for who in sorted(self.waiting):
                raw = self.wires[who].receive_if_arrived()
                if raw is not None:
                    self._arrived(who, raw, number)

    def _arrived(self, who: str, raw: bytes, number: int) -> None:
        line = self.waiting.pop(who)
        self._observe(number, who, line.command, self._arguments(line.command), raw)

    def state(self) -> list[Observation]:
        """Everything that can be asked about every key of database 0."""
        seen = []
        with self.server.connect(self.protocol) as wire:
            for key in sorted(wire.ask("KEYS", "*")):
                for argv in self._state_commands(wire, key):
                    command = "state: " + " ".join(word.decode("latin-1") for word in argv)
                    seen.append(Observation(0, MAIN, command, normalise(wire.call(*argv), argv)))
        return seen

    def _state_commands(self, wire: Wire, key: bytes) -> list[list[bytes]]:
        commands = [[b"TYPE", key], [b"PTTL", key]]
        if wire.call("TYPE", key) != b"+stream\r\n":
            return [*commands, [b"GET", key]]
        groups = wire.ask("XINFO", "GROUPS", key)
        commands += [
            [b"XRANGE", key, b"-", b"+"],
            [b"XINFO", b"STREAM", key, b"FULL", b"COUNT", b"0"],
            [b"XINFO", b"GROUPS", key],
        ]
        for group in groups:
            name = group[b"name"] if isinstance(group, dict) else group[1]
            commands += [
                [b"XPENDING", key, name],
                [b"XPENDING", key, name, b"-", b"+", b"1000"],
                [b"XINFO", b"CONSUMERS", key, name],
            ]
        return commands
