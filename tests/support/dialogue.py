r"""Dialogues: several connections that get messages without a request, on two servers that are then compared.

A `#` line starts a dialogue on an emptied server. Every other line is one step:

    @ name value      CONFIG SET
    a> command        the command on connection `a`; a name that ends in 3 (`b3`) speaks RESP3
    a~ command        the same, but the lines of what it brings are compared in any order
    a= command        the same, waited for: the reply takes some time, or after CLIENT REPLY OFF until something comes
                      unasked
    a.                connection `a` is closed
    ms 20             that much time passes on the server's clock

After each step everything that has arrived at any connection is taken down, in order, byte for byte. `<id:a>` is the
client ID of connection `a`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from support.lines import split
from support.replies import frame_end
from support.servers import Server
from support.wire import Wire

# Client IDs are not smaller, so that no other number in a reply is taken for one.
ID_MIN = 100
DATA = Path(__file__).parent.parent / "compat" / "data" / "dialogues"


@dataclass
class Dialogue:
    """Steps on one emptied server."""

    family: str
    title: str
    steps: list[tuple[int, str]] = field(default_factory=list)


@dataclass(frozen=True)
class Heard:
    """What one connection received because of one step."""

    number: int
    step: str
    who: str
    data: bytes

    def __str__(self) -> str:
        return f"{self.who} heard {self.data!r}"


def read_dialogues() -> list[Dialogue]:
    """Every dialogue of the data folder."""
    return [each for path in sorted(DATA.glob("*.txt")) for each in parse_dialogues(path.stem, path.read_text("utf-8"))]


def parse_dialogues(family: str, text: str) -> list[Dialogue]:
    """The dialogues of one text."""
    found: list[Dialogue] = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("#"):
            found.append(Dialogue(family, line[1:].strip()))
        elif line.strip():
            found[-1].steps.append((number, line.strip()))
    return found


class Stage:
    """Plays one dialogue on one server."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.wires: dict[str, Wire] = {}
        self.ids: dict[str, int] = {}
        self.heard: list[Heard] = []

    def play(self, dialogue: Dialogue) -> list[Heard]:
        """Everything that was heard."""
        self.server.reset()
        self.control = self.server.connect()
        while self.control.ask("CLIENT", "ID") < ID_MIN:
            self.control.close()
            self.control = self.server.connect()
        try:
            for number, step in dialogue.steps:
                self._step(number, step)
        finally:
            for wire in [*self.wires.values(), self.control]:
                wire.close()
        return self.heard

    def _step(self, number: int, step: str) -> None:
        is_ordered = True
        if step.startswith("@ "):
            reply = self.control.call("CONFIG", "SET", *split(step[2:]))
            assert reply == b"+OK\r\n", (step, reply)
        elif step.startswith("ms "):
            self._pass_time(int(step[3:]))
        elif match := re.fullmatch(r"([a-z]+3?)\.", step):
            self.wires.pop(match[1]).close()
            self._wait_until_gone(self.ids[match[1]])
        else:
            who, mode, command = re.fullmatch(r"([a-z]+3?)([>~=]) (.*)", step).groups()  # type: ignore[union-attr]
            is_ordered = mode != "~"
            self._wire(who).send(*split(re.sub(r"<id:(\w+)>", lambda found: str(self._id(found[1])), command)))
            if mode == "=":
                self._wire(who).wait()
        self._collect(number, step, is_ordered=is_ordered)

    def _wire(self, who: str) -> Wire:
        if who not in self.wires:
            assert who not in self.ids, "a name that is closed is not used again"
            wire = self.wires[who] = self.server.connect(3 if who.endswith("3") else 2)
            self.ids[who] = wire.ask("CLIENT", "ID")
        return self.wires[who]

    def _id(self, who: str) -> int:
        self._wire(who)
        return self.ids[who]

    def _pass_time(self, milliseconds: int) -> None:
        end_us = self._server_time_us() + milliseconds * 1000
        while self._server_time_us() < end_us:
            continue

    def _server_time_us(self) -> int:
        seconds, microseconds = self.control.ask("TIME")
        return int(seconds) * 1_000_000 + int(microseconds)

    def _wait_until_gone(self, client_id: int) -> None:
        while self.control.ask("CLIENT", "LIST", "ID", client_id):
            continue

    def _collect(self, number: int, step: str, *, is_ordered: bool) -> None:
        # Two later replies prove that whatever the step brought has been sent.
        for _ in range(2):
            self.control.call("PING")
        for who, wire in self.wires.items():
            frames = [self._without_ids(frame) for frame in self._arrived(wire)]
            if frames:
                lines = b"".join(frames).split(b"\r\n")
                self.heard.append(Heard(number, step, who, b"\r\n".join(lines if is_ordered else sorted(lines))))

    def _arrived(self, wire: Wire) -> list[bytes]:
        """Every whole frame that is there, and whether the server has closed. What monitors see of the collecting
        itself is left out."""
        frames: list[bytes] = []
        control = b" 127.0.0.1:%d] " % self.control.socket.getsockname()[1]
        try:
            while (frame := wire.receive_if_arrived()) is not None:
                frames.append(frame)
        except ConnectionError:
            while wire.buffer:
                end = frame_end(wire.buffer)
                frames.append(bytes(wire.buffer[:end]))
                del wire.buffer[:end]
            frames.append(b"<closed>")
        return [frame for frame in frames if control not in frame[:60]]

    def _without_ids(self, frame: bytes) -> bytes:
        """The frame without what differs from server to server: client IDs, addresses, times, a build's modules."""
        if frame[4:].startswith(b"$6\r\nserver\r\n") or frame[5:].startswith(b"$6\r\nserver\r\n"):
            return b"<hello>\r\n"
        frame = re.sub(rb"\+\d+\.\d{6} \[(\d+) [\d.]+:\d+\]", rb"+<time> [\1 <address>]", frame)
        frame = re.sub(rb"\b1[0-9]{12}-[0-9]+\b", b"<generated>", frame)
        if frame.startswith((b":", b"*", b"%", b">")):
            for who, client_id in self.ids.items():
                frame = frame.replace(b":%d\r\n" % client_id, b":<id:%b>\r\n" % who.encode())
        return frame
