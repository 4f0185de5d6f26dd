"""Functions that run code on untrusted bytes, and check what must be true for all bytes.

A target takes bytes and returns. An exception from a target is a finding. A target expects the errors that the code
under test documents, as these are messages for users.
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
from headrace.store.limits import Limits
from headrace.store.stream import Stream
from support.crash_world import FOLDER, SimulatedServer, new_config
from support.digest import Digest, digest_of, stream_digest
from support.inprocess import START_MS, Clock, Rig
from support.simulated_disk import Inode, SimulatedDisk
from support.stepping import SteppingExecutor
from support.wire import encode

Target = Callable[[bytes], None]

KEY = b"k"
# Requests about every stream that was read.
QUESTIONS = (
    [b"XRANGE", KEY, b"-", b"+"],
    [b"XREVRANGE", KEY, b"+", b"-", b"COUNT", b"3"],
    [b"XINFO", b"STREAM", KEY, b"FULL", b"COUNT", b"0"],
    [b"XINFO", b"GROUPS", KEY],
    [b"MEMORY", b"USAGE", KEY],
    [b"COPY", KEY, b"copy"],
)


class Finding(AssertionError):
    """A defect of the code under test."""


class _Alarm(logging.Handler):
    """Raises Finding for an internal error that the server logs, even though the server continues."""

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


# Requests, the error, whether the connection must close, and the size of an incomplete request in the buffer.
Outcome = tuple[list[Request], bytes | None, bool, int]


def resp(data: bytes) -> None:
    """Requests and errors are the same if the bytes arrive at once, one by one, or in two halves.

    This is checked before and after login, with and without additions in the form in which they were sent, and with
    the compiled and the plain twin. After login, the reader continues with bytes that it had to refuse before.
    """
    middle = len(data) // 2
    cuts = [[data], [data[:middle], data[middle:]], [data[index : index + 1] for index in range(len(data))]]
    expected = {}
    for authenticated in (True, False):
        expected[authenticated] = whole = _read([data], RequestReader(), authenticated)
        for make_splitter in (splitter, streams.addition_splitter):
            for pieces in cuts:
                reader = RequestReader(split=make_splitter())
                _compare(whole, _read(pieces, reader, authenticated), "cut or kept")
    for pieces in cuts[:2]:  # the fast path reads neither single bytes nor bytes before login
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
        reader.error.__traceback__ = None  # otherwise it refers to the reader, which is then freed late
        return requests, reader.error.wire_text, reader.dropped, 0
    return requests, None, reader.dropped, 0 if reader.dropped else reader.buffered_size


def words_sent(request: Request) -> Request:
    """The words of a request. For an addition in the form in which it was sent, all forms and twins must agree."""
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
    """Number of requests of `commands` by outcome and by name of the row."""

    # Requests that the dispatcher ran.
    executed: Counter[str] = field(default_factory=Counter)
    # Requests that blocked or had a reply that is no error.
    accepted: Counter[str] = field(default_factory=Counter)
    # Inputs without a request that was executed.
    idle_inputs_count: int = 0

    def __str__(self) -> str:
        return (
            f"{self.executed.total()} requests to {len(self.executed)} commands executed, {self.accepted.total()} to "
            f"{len(self.accepted)} accepted; of {self.idle_inputs_count} inputs nothing was run"
        )


tally = Tally()


def commands(data: bytes) -> None:
    """Every request gets a reply or blocks, no handler has an internal error, and the dataset stays consistent.

    Requests to commands with the flag `admin` are skipped: they can end this process, write files, open ports, or
    change its folder. A user who may run them controls the server anyway.
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
    """A file is read, or refused with a reason. A value that was read is consistent and usable."""
    # One for all values: a rig has cycles, and those of several would count as memory until they are collected.
    rig: Rig | None = None
    try:
        for key in FileReader((data,), Limits(), now_ms=START_MS, drops_expired=False, skips_foreign=True):
            if isinstance(key.value, Stream):
                rig = rig or Rig()
                _use(key.value, rig)
    except RdbError:
        return


def restore(data: bytes) -> None:
    """A serialized value is read, or refused. A value that was read is consistent and usable."""
    if len(data) < payload.FOOTER_SIZE + 1:
        return
    try:
        value = payload.restore(data, Limits(), now_ms=START_MS)
    except RdbError:
        return
    if isinstance(value, Stream):
        _use(value, Rig())


def _use(value: Stream, rig: Rig) -> None:
    """A stream that was read can be queried, serialized without a change, and emptied."""
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
    """A log is loaded, truncated or refused. What was loaded is consistent, and loading it again gives the same.

    The log may begin with an RDB file, as a base does.
    """
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
    """The dataset that a server loads from this disk, which it may repair. Raises LogError, OSError."""
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
    """A configuration is accepted, or refused with one line of text."""
    if b"include" in data.lower():
        return
    try:
        load_text(Config(), data)
    except ConfigError as error:
        if not str(error):
            raise Finding("refused without a word") from error


@cache
def runner() -> Runner:
    """The runner of all scripts in this process."""
    return Runner()


def scripts(data: bytes) -> None:
    """A script ends in time, uses bounded memory, does not affect the next one, and does not end the server."""
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

# Peak of memory in bytes that one byte of input may cost, by target. An LZF string may expand to 88 times its size, and
# each request creates objects. See MEMORY_FIXED.
MEMORY_PER_BYTE_MAX = {
    "resp": 64,
    "commands": 512,
    "rdb": 512,
    "restore": 512,
    "aof": 512,
    "config": 256,
    "scripts": 64,
}
# Peak of memory in bytes that an empty input may cost, by target. Targets that run requests, load a log or query a
# value need a server with all its databases. The reply to COMMAND DOCS takes 1.3 MB.
MEMORY_FIXED = {
    "resp": 1 << 16,
    "commands": 1 << 21,
    "rdb": 1 << 18,
    "restore": 1 << 18,
    "aof": 1 << 19,
    "config": 1 << 16,
    "scripts": 1 << 18,
}
