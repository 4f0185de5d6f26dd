"""What is given bytes of a stranger, and what must be true whatever the bytes are.

A target takes bytes and returns; what it raises is a finding. Errors that the code under test documents are no
findings: they are what it says to a person.
"""

from __future__ import annotations

import logging
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from errno import ENOMEM
from functools import cache
from importlib.util import find_spec

from fuzz.lua_scripts import Runner
from headrace.commands.core.lookup import named_row
from headrace.commands.core.table import Flag
from headrace.persistence.errors import LogError, RdbError
from headrace.persistence.grammar import codec_plain, streams
from headrace.persistence.grammar.kept import ADDITION
from headrace.persistence.rdb import payload
from headrace.persistence.rdb.file import FileReader
from headrace.protocol import frames_plain
from headrace.protocol.packing import splitter
from headrace.protocol.reader import RequestReader
from headrace.protocol.requests import Request
from headrace.server.configuration.config import Config
from headrace.server.configuration.config_lines import ConfigError
from headrace.server.configuration.configfile import load_text
from headrace.store.nodes import StreamLimits
from headrace.store.stream import Stream
from headrace.store.value import Value
from support.crash_world import FOLDER, SimulatedServer, new_config
from support.digest import Digest, digest_of, stream_digest
from support.inprocess import START_MS, Clock, Rig
from support.simulated_disk import Inode, SimulatedDisk
from support.stepping import SteppingExecutor
from support.wire import encode

Target = Callable[[bytes], None]

KEY = b"k"
# Of every stream that was read.
QUESTIONS = (
    [b"XRANGE", KEY, b"-", b"+"],
    [b"XREVRANGE", KEY, b"+", b"-", b"COUNT", b"3"],
    [b"XINFO", b"STREAM", KEY, b"FULL", b"COUNT", b"0"],
    [b"XINFO", b"GROUPS", KEY],
    [b"MEMORY", b"USAGE", KEY],
    [b"COPY", KEY, b"copy"],
)


class Finding(AssertionError):
    """Something that must not be."""


class _Alarm(logging.Handler):
    """An internal error that the server survived is a finding all the same."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.ERROR:
            raise Finding(record.getMessage()) from sys.exc_info()[1]


@contextmanager
def _alarmed() -> Iterator[None]:
    logger = logging.getLogger("headrace.commands.execution.calls")
    alarm = _Alarm()
    logger.addHandler(alarm)
    try:
        yield
    finally:
        logger.removeHandler(alarm)


# Requests, the error, whether the connection must close, and how many bytes of a request are waited for.
Outcome = tuple[list[Request], bytes | None, bool, int]


def resp(data: bytes) -> None:
    """Requests read whole, byte by byte and in two halves are the same, and so is the error: of a stranger and of a
    client that is known, with additions kept as they were sent and without, by the compiled twin and by the other.
    What a stranger may not send yet is read once it may."""
    middle = len(data) // 2
    cuts = [[data], [data[:middle], data[middle:]], [data[index : index + 1] for index in range(len(data))]]
    expected = {}
    for authenticated in (True, False):
        expected[authenticated] = whole = _read([data], RequestReader(), authenticated)
        for make_splitter in (splitter, streams.addition_splitter):
            for pieces in cuts:
                reader = RequestReader(split=make_splitter())
                _compare(whole, _read(pieces, reader, authenticated), "cut or kept")
    for pieces in cuts[:2]:  # byte by byte, and of a stranger's bytes, nothing is read the fast way
        reader = RequestReader()
        reader._split = frames_plain.splitter()
        _compare(expected[True], _read(pieces, reader, True), "in the plain twin")
    _compare(
        expected[True], _read([data], RequestReader(split=streams.addition_splitter()), False, is_let_in=True), "let in"
    )


def _compare(expected: Outcome, found: Outcome, how: str) -> None:
    if found != expected:
        raise Finding(f"read whole {expected}, {how} {found}")


def _read(pieces: list[bytes], reader: RequestReader, authenticated: bool, *, is_let_in: bool = False) -> Outcome:
    reader.authenticated = authenticated
    found = [request for piece in pieces for request in reader.feed(piece)]
    if is_let_in:
        found += reader.authenticate()
    requests = [words_sent(request) for request in found]
    if reader.error is not None:
        reader.error.__traceback__ = None  # a reader that it leads to would only go when cycles are looked for
        return requests, reader.error.wire_text, reader.dropped, 0
    return requests, None, reader.dropped, 0 if reader.dropped else reader.buffered_size


def words_sent(request: Request) -> Request:
    """The words of a request. Of one that was kept as it was sent, both forms must say the same, and all of it hold."""
    if request[0] is not ADDITION:
        return request
    words = streams.words_of(request)
    if not words or request[1:] != [words[1], encode(tuple(words)), words[4] if words[2] != b"*" else b""]:
        raise Finding(f"{words} was kept as {request}")
    if codec_plain.words_of(request) != words:
        raise Finding(f"the plain twin has other words than {words} of {request}")
    return words


@dataclass
class Tally:
    """What became of the requests of `commands`, by the name of the row."""

    # Given to the dispatcher.
    executed: Counter[str] = field(default_factory=Counter)
    # Answered by something other than an error, or made to wait.
    accepted: Counter[str] = field(default_factory=Counter)
    # Inputs of which nothing was executed.
    idle_inputs_count: int = 0

    def __str__(self) -> str:
        return (
            f"{self.executed.total()} requests to {len(self.executed)} commands executed, {self.accepted.total()} to "
            f"{len(self.accepted)} accepted; of {self.idle_inputs_count} inputs nothing was run"
        )


tally = Tally()


def commands(data: bytes) -> None:
    """Requests of any words: every one is answered or waits, no handler breaks, and the dataset stays sound.

    Requests to commands with the flag `admin` are skipped: they end this process, write to its disk, open ports,
    change its folder. Who may run them owns the server anyway.
    """
    rig = Rig()
    is_idle = True
    with _alarmed():
        caller = rig.connect()
        for request in RequestReader(split=streams.addition_splitter()).feed(data):  # as a connection reads
            row = named_row(request) if request and request[0] else None
            if row is None or row.flags & Flag.ADMIN:
                continue
            if caller.client.blocked is not None or caller.client.close_after_reply:
                caller = rig.connect()
            rig.dispatcher.execute(caller.session, [request], rig.clock())
            reply = caller.output()
            is_idle = False
            tally.executed[row.name] += 1
            if not reply.startswith((b"-", b"!")):
                tally.accepted[row.name] += 1
    tally.idle_inputs_count += is_idle
    for db in rig.server.store.databases:
        db.check()


def rdb(data: bytes) -> None:
    """A file is read, or refused with a reason; a value that is read is sound, and serves."""
    try:
        for key in FileReader((data,), StreamLimits(), now_ms=START_MS, drops_expired=False, skips_foreign=True):
            _use(key.value)
    except RdbError:
        return


def restore(data: bytes) -> None:
    """A serialized value is read, or refused; what is read is sound, and serves."""
    if len(data) < payload.FOOTER_SIZE + 1:
        return
    try:
        value = payload.restore(data, StreamLimits(), now_ms=START_MS)
    except RdbError:
        return
    _use(value)


def _use(value: Value) -> None:
    """A stream that was read answers whatever may be asked, is what is dumped of it, and can be emptied."""
    if not isinstance(value, Stream):
        return
    value.check()
    again = payload.restore(b"".join(payload.dump(value, now_ms=START_MS)), value.limits, now_ms=START_MS)
    assert isinstance(again, Stream)
    again.check()
    if stream_digest(again) != stream_digest(value):
        raise Finding("what was read, dumped and read again is another stream")
    requests = list(QUESTIONS)
    for name in value.groups:
        requests += (
            [b"XPENDING", KEY, name, b"-", b"+", b"100"],
            [b"XINFO", b"CONSUMERS", KEY, name],
            [b"XREADGROUP", b"GROUP", name, b"c", b"STREAMS", KEY, b">"],
            [b"XAUTOCLAIM", KEY, name, b"d", b"0", b"-"],
            [b"XREADGROUP", b"GROUP", name, b"d", b"STREAMS", KEY, b"0"],
        )
    rig = Rig()
    db = rig.server.store.databases[0]
    db.put(KEY, value)
    caller = rig.connect()
    with _alarmed():
        for request in (*requests, [b"XTRIM", KEY, b"MAXLEN", b"0"]):
            rig.dispatcher.execute(caller.session, [request], rig.clock())
            if not caller.output():
                raise Finding(f"no answer to {request}")
            db.check()


def aof(data: bytes) -> None:
    """A log is loaded, cut or refused; what was loaded is sound, and loads again to the same. It may begin with an RDB
    file, as a base does."""
    folder = f"{FOLDER}/appendonlydir"
    disk = SimulatedDisk(
        {
            FOLDER: None,
            folder: None,
            f"{folder}/appendonly.aof.manifest": Inode(b"file appendonly.aof.1.incr.aof seq 1 type i\n"),
            f"{folder}/appendonly.aof.1.incr.aof": Inode(data),
        }
    )
    try:
        found = _load(disk)
    except (LogError, OSError) as error:
        if isinstance(error, OSError) and error.errno == ENOMEM:
            raise
        return
    if _load(disk.after_kill()) != found:
        raise Finding("loaded twice, the log gives two states")


def _load(disk: SimulatedDisk) -> Digest:
    """What a server finds on this disk, which it may repair. Raises LogError, OSError."""
    executor = SteppingExecutor()
    try:
        server = SimulatedServer(new_config(b"no"), Clock(), disk, executor)
        server.load_now()
        for db in server.store.databases:
            db.check()
        return digest_of(server.store)
    finally:
        executor.shutdown(cancel_futures=True)


def config(data: bytes) -> None:
    """A configuration is taken, or refused with a line for a person."""
    if b"include" in data.lower():
        return
    try:
        load_text(Config(), data)
    except ConfigError as error:
        if not str(error):
            raise Finding("refused without a word") from error


@cache
def runner() -> Runner:
    """Where scripts run."""
    return Runner()


def scripts(data: bytes) -> None:
    """A script ends in time, takes a bounded amount of memory, leaves nothing to the next, and the server lives."""
    problem = runner().run(data)
    if problem:
        raise Finding(problem)


TARGETS: dict[str, Target] = {
    "resp": resp,
    "commands": commands,
    "rdb": rdb,
    "restore": restore,
    "aof": aof,
    "config": config,
    **({"scripts": scripts} if find_spec("lupa") is not None else {}),
}

# Bytes that one byte of input may cost at the worst moment, by target. An LZF string alone may unfold to 88 times its
# size; where requests are run, each of them makes objects. See MEMORY_FIXED.
MEMORY_PER_BYTE_MAX = {
    "resp": 64,
    "commands": 512,
    "rdb": 512,
    "restore": 512,
    "aof": 512,
    "config": 256,
    "scripts": 64,
}
# What a target may take for an empty input, by target: where requests are run, a log is loaded, or a value is read and
# then asked, a server with all its databases; the reply to COMMAND DOCS takes 1.3 MB while it is made.
MEMORY_FIXED = {
    "resp": 1 << 16,
    "commands": 1 << 21,
    "rdb": 1 << 18,
    "restore": 1 << 18,
    "aof": 1 << 19,
    "config": 1 << 16,
    "scripts": 1 << 18,
}
