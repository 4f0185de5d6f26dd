"""The handshake of a replica with its primary, and the times of its attempts. No socket and no clock.

    replica  PING                                          primary  +PONG
             AUTH .. | REPLCONF .. | REPLCONF ..  at once           an answer to each, in order
             PSYNC id offset                                        +FULLRESYNC id offset, or +CONTINUE [id]

After the answer to PSYNC, a payload (`payload.py`) or the stream (`incoming.py`) follows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from ..protocol.packing import pack_command

ID_SIZE: Final = 40
ID_CHARACTERS: Final = frozenset(b"0123456789abcdefABCDEF")
# Bytes of an answer without its end. Redis' answers have less than 256.
LINE_SIZE_MAX: Final = 16 * 1024

# Time between two attempts, as in Redis.
RETRY_MS: Final = 1000
# The same while a replica shall take over, and clients wait.
FAILOVER_RETRY_MS: Final = 100
# Longest pause after payloads or commands that cannot be taken: each attempt may cost the primary a snapshot.
REFUSAL_PAUSE_MS_MAX: Final = 64_000


class HandshakeFailed(Exception):
    """The primary cannot be followed now. The text is one line for the user."""


class Introduction(NamedTuple):
    """What a replica sends about itself. Empty words, and a port of 0, are not sent."""

    user: bytes = b""
    password: bytes = b""
    port: int = 0
    announced_ip: bytes = b""
    # The form of a dataset that it reads besides RDB. A Redis ignores words that it does not know.
    form: bytes = b""


class Position(NamedTuple):
    """The part of a history that a replica has: its ID, and the number of its bytes."""

    replid: bytes
    offset: int


class FullSync(NamedTuple):
    """The primary sends its dataset, as of this position."""

    position: Position


class PartialSync(NamedTuple):
    """The primary continues the stream. `replid` is the ID of its history, None if it is the one asked for."""

    replid: bytes | None


Outcome = FullSync | PartialSync


class Verdict(Enum):
    """What an answer means for the handshake."""

    NEXT = "next"
    # An empty line: the primary is still preparing.
    WAIT = "wait"
    FAIL = "fail"


class Step(Enum):
    """A request of the handshake, named by what Redis calls the state of waiting for its answer."""

    PING = "ping"
    AUTH = "auth"
    PORT = "port"
    IP = "ip"
    CAPABILITIES = "capa"
    PSYNC = "psync"


# The beginnings of the answers to PING of a primary that wants a login first.
_PING_TAKEN: Final = (b"+", b"-NOAUTH", b"-NOPERM", b"-ERR operation not permitted")


def _judge_ping(line: bytes) -> Verdict:
    return Verdict.NEXT if line.startswith(_PING_TAKEN) else Verdict.FAIL


def _judge_login(line: bytes) -> Verdict:
    return Verdict.FAIL if line.startswith(b"-") else Verdict.NEXT


def _judge_any(line: bytes) -> Verdict:
    return Verdict.NEXT


def _judge_psync(line: bytes) -> Verdict:
    if not line:
        return Verdict.WAIT
    return Verdict.NEXT if line.startswith((b"+FULLRESYNC ", b"+CONTINUE")) else Verdict.FAIL


def _ping(introduction: Introduction) -> tuple[bytes, ...]:
    return (b"PING",)


def _login(introduction: Introduction) -> tuple[bytes, ...]:
    if not introduction.password:
        return ()
    names = (introduction.user,) if introduction.user else ()
    return (b"AUTH", *names, introduction.password)


def _port(introduction: Introduction) -> tuple[bytes, ...]:
    return (b"REPLCONF", b"listening-port", b"%d" % introduction.port)


def _ip(introduction: Introduction) -> tuple[bytes, ...]:
    return (b"REPLCONF", b"ip-address", introduction.announced_ip) if introduction.announced_ip else ()


def _capabilities(introduction: Introduction) -> tuple[bytes, ...]:
    # Without `eof`, every primary sends a payload with its size, and the stream right after it.
    forms = (b"capa", introduction.form) if introduction.form else ()
    return (b"REPLCONF", b"capa", b"psync2", *forms)


class _Rule(NamedTuple):
    # Returns the words of the request; none if it is not sent.
    request: Callable[[Introduction], tuple[bytes, ...]]
    judge: Callable[[bytes], Verdict]


# The steps in order, without PSYNC, whose request depends on the history.
RULES: Final[dict[Step, _Rule]] = {
    Step.PING: _Rule(_ping, _judge_ping),
    Step.AUTH: _Rule(_login, _judge_login),
    Step.PORT: _Rule(_port, _judge_any),
    Step.IP: _Rule(_ip, _judge_any),
    Step.CAPABILITIES: _Rule(_capabilities, _judge_any),
}


class Handshake:
    """One handshake. Send what `begin` and `receive` return; the handshake has ended when `outcome` is set.

    `position` is what the replica has; None if it needs the whole dataset. `is_failover`: the other server is a replica
    of this one, and shall become its primary.
    """

    def __init__(self, introduction: Introduction, position: Position | None, *, is_failover: bool = False) -> None:
        self._introduction = introduction
        self._position = position
        self.is_failover = is_failover
        self._buffer = b""
        # The steps whose answers are still missing, the next one first.
        self._waiting: list[Step] = []
        self.outcome: Outcome | None = None
        # The bytes after the last answer.
        self.rest = b""
        # Lines for the server log, in Redis' words.
        self.notes: list[str] = []

    @property
    def step(self) -> Step:
        """The step whose answer is missing."""
        return self._waiting[0]

    @property
    def has_asked(self) -> bool:
        """Whether the answer to PSYNC is missing, or was an error."""
        return self.outcome is None and self._waiting == [Step.PSYNC]

    def begin(self) -> bytes:
        """The first request."""
        self._waiting = [Step.PING]
        return pack_command(RULES[Step.PING].request(self._introduction))

    def receive(self, data: bytes) -> bytes:
        """Take bytes of the primary. Returns the requests to send. Raises HandshakeFailed."""
        self._buffer += data
        requests = b""
        while self.outcome is None and (line := self._take_line()) is not None:
            requests += self._take_answer(line)
        if self.outcome is not None:
            self.rest, self._buffer = self._buffer, b""
        return requests

    def _take_line(self) -> bytes | None:
        end = self._buffer.find(b"\n")
        if end < 0:
            if len(self._buffer) > LINE_SIZE_MAX:
                raise HandshakeFailed("The primary sent an answer that is too long")
            return None
        line, self._buffer = self._buffer[:end], self._buffer[end + 1 :]
        return line.removesuffix(b"\r")

    def _take_answer(self, line: bytes) -> bytes:
        """Take the answer to the present step. Returns the requests of the next steps."""
        step = self._waiting[0]
        verdict = _judge_psync(line) if step is Step.PSYNC else RULES[step].judge(line)
        if verdict is Verdict.FAIL:
            raise HandshakeFailed(_failure(step, line))
        if verdict is Verdict.WAIT:
            return b""
        if step is Step.PSYNC:
            self.outcome = self._read_outcome(line)
            return b""
        if line.startswith(b"-") and step is not Step.PING:
            self.notes.append(f"(Non critical) Master does not understand REPLCONF {step.value}: {_text(line[1:])}")
        del self._waiting[0]
        if step is Step.PING:
            self.notes.append("Master replied to PING, replication can continue...")
            return self._introduce()
        return b"" if self._waiting else self._ask()

    def _introduce(self) -> bytes:
        """All requests between PING and PSYNC."""
        requests = b""
        for step, rule in RULES.items():
            words = rule.request(self._introduction)
            if step is not Step.PING and words:
                self._waiting.append(step)
                requests += pack_command(words)
        return requests

    def _ask(self) -> bytes:
        self._waiting = [Step.PSYNC]
        words = (b"FAILOVER",) if self.is_failover else ()
        if self._position is None:
            self.notes.append("Partial resynchronization not possible (no cached master)")
            return pack_command((b"PSYNC", b"?", b"-1", *words))
        replid, offset = self._position
        self.notes.append(f"Trying a partial resynchronization (request {replid.decode()}:{offset + 1}).")
        return pack_command((b"PSYNC", replid, b"%d" % (offset + 1), *words))

    def _read_outcome(self, line: bytes) -> Outcome:
        words = line.split()
        if words[0] == b"+FULLRESYNC":
            if len(words) != 3 or not _is_id(words[1]) or not words[2].isdigit():
                raise HandshakeFailed(f"The primary sent a wrong answer to PSYNC: {_text(line)}")
            return FullSync(Position(words[1], int(words[2])))
        if words[0] != b"+CONTINUE" or len(words) > 2 or (len(words) == 2 and not _is_id(words[1])):
            raise HandshakeFailed(f"The primary sent a wrong answer to PSYNC: {_text(line)}")
        if self._position is None:
            raise HandshakeFailed("The primary wants to continue a history that this server does not have")
        return PartialSync(words[1] if len(words) == 2 else None)


def confirmation(offset: int, synced_offset: int | None) -> bytes:
    """The request that confirms what was applied and, with a log, what of it is on stable storage."""
    synced = () if synced_offset is None else (b"FACK", b"%d" % synced_offset)
    return pack_command((b"REPLCONF", b"ACK", b"%d" % offset, *synced))


def _is_id(word: bytes) -> bool:
    return len(word) == ID_SIZE and ID_CHARACTERS.issuperset(word)


def _text(line: bytes) -> str:
    return line.decode("utf-8", "backslashreplace")


def _failure(step: Step, line: bytes) -> str:
    if step is Step.AUTH:
        return f"Unable to AUTH to MASTER: {_text(line)}"
    if step is Step.PING:
        return f"Error reply to PING from master: '{_text(line)}'"
    if line.startswith((b"-NOMASTERLINK", b"-LOADING")):
        return f"Master is currently unable to PSYNC but should be in the future: {_text(line)}"
    return f"Unexpected reply to PSYNC from master: {_text(line)}"


@dataclass
class Attempts:
    """When a replica without a link may try again. Times are ms of a clock that the caller reads.

    A link that was up is tried again at once. After that, and after an attempt that failed, there is an attempt each
    second. After a payload or a command that cannot be taken, the pause doubles each time, until there was none for
    two minutes: a dataset may arrive, and the next command not.
    """

    due_ms: int = 0
    # Refusals in a row, and when the last one was; None before the first.
    _refusals_count: int = 0
    _refused_ms: int | None = None
    # Attempts since the link was last up, and since the server follows this primary.
    current_count: int = 0
    total_count: int = 0

    @property
    def is_new_after_loss(self) -> bool:
        """Whether there was no attempt since a link that was up is lost."""
        return self.total_count > 0 and self.current_count == 0

    def begin(self) -> None:
        """Count an attempt."""
        self.current_count += 1
        self.total_count += 1

    def lose(self, now_ms: int) -> None:
        """A link that was up is lost."""
        self.due_ms = now_ms
        self.current_count = 0

    def fail(self, now_ms: int, pause_ms: int = RETRY_MS) -> None:
        """An attempt failed."""
        self.due_ms = now_ms + pause_ms

    def refuse(self, now_ms: int) -> int:
        """The primary sent something that cannot be taken. Returns the pause in ms."""
        if self._refused_ms is not None and now_ms - self._refused_ms > 2 * REFUSAL_PAUSE_MS_MAX:
            self._refusals_count = 0
        pause_ms = min(RETRY_MS << self._refusals_count, REFUSAL_PAUSE_MS_MAX)
        self._refusals_count, self._refused_ms = self._refusals_count + 1, now_ms
        self.due_ms = now_ms + pause_ms
        return pause_ms
