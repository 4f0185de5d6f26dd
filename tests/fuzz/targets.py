"""What is given bytes of a stranger, and what must be true whatever the bytes are.

A target takes bytes and returns; what it raises is a finding. Errors that the code under test documents are no
findings: they are what it says to a person.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable

from headrace.commands.lookup import named_row
from headrace.commands.table import Flag
from headrace.persistence.errors import LogError, RdbError
from headrace.persistence.rdb import payload
from headrace.persistence.rdb.file import FileReader
from headrace.protocol.reader import RequestReader
from headrace.server.config import Config
from headrace.server.configfile import ConfigError, load_text
from headrace.store.nodes import StreamLimits
from support.crash_world import FOLDER, SimulatedServer, new_config
from support.inprocess import START_MS, Clock, Rig
from support.simulated_disk import Inode, SimulatedDisk
from support.stepping import SteppingExecutor

Target = Callable[[bytes], None]


class Finding(AssertionError):
    """Something that must not be."""


class _Alarm(logging.Handler):
    """An internal error that the server survived is a finding all the same."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.ERROR and record.exc_info:
            raise Finding(record.getMessage()) from record.exc_info[1]


def resp(data: bytes) -> None:
    """Requests read whole, byte by byte and in two halves are the same, and so is the error."""
    whole = _read([data])
    middle = len(data) // 2
    for pieces in ([data[:middle], data[middle:]], [data[index : index + 1] for index in range(len(data))]):
        if _read(pieces) != whole:
            raise Finding(f"read whole {whole}, in pieces {_read(pieces)}")


def _read(pieces: list[bytes]) -> tuple[list[list[bytes]], bytes | None, bool]:
    reader = RequestReader()
    requests = [list(request) for piece in pieces for request in reader.feed(piece)]
    return requests, None if reader.error is None else reader.error.wire_text, reader.dropped


def commands(data: bytes) -> None:
    """Requests of any words: every one is answered or waits, no handler breaks, and the dataset stays sound."""
    rig = Rig()
    logger = logging.getLogger("headrace.commands.calls")
    alarm = _Alarm()
    logger.addHandler(alarm)
    try:
        caller = rig.connect()
        for request in RequestReader().feed(data):
            row = named_row(request) if request and request[0] else None
            if row is None or row.flags & Flag.ADMIN or caller.client.blocked is not None:
                continue
            rig.dispatcher.execute(caller.session, [request], rig.clock())
            caller.output()
    finally:
        logger.removeHandler(alarm)
    for db in rig.server.store.databases:
        db.check()


def rdb(data: bytes) -> None:
    """A file is read, or refused with a reason."""
    try:
        for _ in FileReader((data,), StreamLimits(), now_ms=START_MS, drops_expired=False, skips_foreign=True):
            pass
    except RdbError:
        return


def restore(data: bytes) -> None:
    """A serialized value is read, or refused."""
    if len(data) < payload.FOOTER_SIZE + 1:
        return
    try:
        payload.restore(data, StreamLimits(), now_ms=START_MS)
    except RdbError:
        return


def aof(data: bytes) -> None:
    """A log is loaded, cut or refused; what was loaded is sound, and loads again to the same."""
    folder = f"{FOLDER}/appendonlydir"
    disk = SimulatedDisk(
        {
            FOLDER: None,
            folder: None,
            f"{folder}/appendonly.aof.manifest": Inode(b"file appendonly.aof.1.incr.aof seq 1 type i\n"),
            f"{folder}/appendonly.aof.1.incr.aof": Inode(data),
        }
    )
    executor = SteppingExecutor()
    try:
        server = SimulatedServer(new_config(b"no"), Clock(), disk, executor)
        server.load_now()
        for db in server.store.databases:
            db.check()
    except (LogError, OSError):
        return
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


TARGETS: dict[str, Target] = {
    "resp": resp,
    "commands": commands,
    "rdb": rdb,
    "restore": restore,
    "aof": aof,
    "config": config,
}

MEMORY_PER_BYTE_MAX = {"resp": 64, "commands": 512, "rdb": 512, "restore": 512, "aof": 512, "config": 256}
"""Bytes that one byte of input may cost at the worst moment, by target. An LZF string alone may unfold to 88 times its
size; where requests are run, each of them makes objects. See MEMORY_FIXED."""
MEMORY_FIXED = {
    "resp": 1 << 16,
    "commands": 1 << 19,
    "rdb": 1 << 16,
    "restore": 1 << 16,
    "aof": 1 << 19,
    "config": 1 << 16,
}
"""What a target may take for an empty input, by target: where requests are run or a log is loaded, a server with all
its databases."""


def mutate(seeds: list[bytes], rnd: random.Random) -> bytes:
    """Something that is nearly one of the seeds."""
    data = bytearray(rnd.choice(seeds))
    for _ in range(rnd.choice((1, 1, 2, 4, 8))):
        place = rnd.randrange(len(data) + 1)
        kind = rnd.randrange(7)
        if kind == 0 and data:
            data[place % len(data)] = rnd.randrange(256)
        elif kind == 1 and data:
            data[place % len(data)] ^= 1 << rnd.randrange(8)
        elif kind == 2:
            del data[place : place + rnd.choice((1, 1, 2, 8, 64))]
        elif kind == 3:
            data[place:place] = rnd.choice((b"\r\n", b"0", b"-1", b"$", b"*", b"\xff", b"9223372036854775808", b"\x00"))
        elif kind == 4:
            other = rnd.choice(seeds)
            start = rnd.randrange(len(other) + 1)
            data[place:place] = other[start : start + rnd.choice((4, 16, 64))]
        elif kind == 5:
            data[place:place] = data[place : place + rnd.choice((1, 8, 32))]
        else:
            del data[place:]
    return bytes(data)
