"""What a server of the crossing machine finds on its disk, and who is there besides the client that acts."""

from __future__ import annotations

from functools import cache

from crossing.kept_files import settings_files
from crossing.scene import OTHER_FOLDER, TAKEN_FOLDER, Peer, Scene
from support.crash_world import FOLDER
from support.inprocess import Clock
from support.lines import split
from support.simulated_disk import Inode, SimulatedDisk

LIFE_MS = 60_000
"""Between the end of the server that made the data and the start of the one that is tested."""

DATASET = """
    XADD s 1-1 f v
    XADD s 2-1 f v
    XADD s 3-1 f v
    XADD s 5-1 f v
    XADD t 2-1 f v
    SET str x
    SET num 7
    XGROUP CREATE s g 0
    XGROUP CREATE s h 2
    XGROUP CREATE t g 0
    XREADGROUP GROUP g c COUNT 3 STREAMS s >
    HSET h f v g w
    HPEXPIREAT h 4102444800000 FIELDS 1 g
    HIMPORT PREPARE fields a b
    HIMPORT SET i fields 1 2
    SADD e 1 2 x
    SADD d 1 3
    ZADD z 1 x 2 y
    RPUSH l x y z
    RPUSH m x
    PFADD p x
    ARSET a 0 x y 3
    ARSEEK a 2
    SET lifted x PX 1000
    XADD q IDMP p i1 * f v
    XADD q IDMP p i2 * f w
    XADD gone IDMP p i1 * f v
    XADD gone IDMP p i2 * f w
    XTRIM gone MAXLEN 1
    XGROUP CREATE jobs g 0 MKSTREAM
    XADD idle 1-1 f v
    XGROUP CREATE idle g 0
    XREADGROUP GROUP g c STREAMS idle >
    SELECT 1
    SET other y
    SELECT 0
"""
"""The keys that the values of the differential machine's grammar name, and some whose records are of special kinds."""

BESIDE = "dump beside a log"

FILLERS_COUNT = 25
"""Keys that give a load several steps."""


def empty_disk() -> SimulatedDisk:
    """A disk without data."""
    names: dict[str, Inode | None] = {FOLDER: None, OTHER_FOLDER: None, TAKEN_FOLDER: None}
    return SimulatedDisk({**names, **settings_files()})


def lines_of(text: str) -> list[tuple[bytes, ...]]:
    """Requests, one a line."""
    return [tuple(split(line)) for line in text.strip().splitlines()]


@cache
def _made(kind: str) -> tuple[SimulatedDisk, int]:
    """The disk that a server which was stopped in good order has left, and the time at which it did."""
    clock = Clock()
    directives = {} if kind != "rdb base" else {"aof_use_rdb_preamble": True}
    if kind == "dump":
        directives = {"appendonly": False, "save": b"3600 1"}
    scene = Scene(empty_disk(), b"no", clock, **directives)
    with scene.playing():
        scene.start()
        scene.settle()
        maker = scene.connect("maker")
        maker.ask(*lines_of(DATASET))
        for number in range(FILLERS_COUNT):
            maker.ask((b"SET", b"filler:%d" % number, b"x"))
        maker.ask((b"PERSIST", b"lifted"))  # long after the record that it undoes: between them a load can be held
        if kind == "rdb base":
            maker.ask((b"BGREWRITEAOF",))
            scene.pass_time(300)
            maker.ask((b"SET", b"increment", b"x"))
        scene.pass_time(300)
        scene.raise_signal(15)
        scene.settle()
        assert scene.has_ended, "the fixture's server does not stop"
        assert not scene.failures, scene.failures
        assert not [reply for reply in maker.replies if reply.kind == b"-"], maker.replies
    return scene.disk.after_kill(), clock()


def disk_of(kind: str) -> tuple[SimulatedDisk, Clock]:
    """A disk with the dataset, or an `empty` one, and the time at which it is used.

    The dataset is a `log`, also with an `rdb base`, or a `dump`, also `beside a log`.
    """
    clock = Clock()
    if kind == "empty":
        return empty_disk(), clock
    disk, made_ms = _made("dump" if kind == BESIDE else kind)
    disk = disk.after_kill()
    if kind == BESIDE:
        for path, inode in _made("log")[0].names.items():
            if path.startswith(f"{FOLDER}/appendonlydir"):
                disk.put(path, bytes(inode.content)) if inode else disk.make_folder(path)
    clock.now_ms = made_ms + LIFE_MS
    return disk, clock


class Company:
    """The clients that are there besides those that act: two that write, and some that wait or listen."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self.writers = [scene.connect("writer 1"), scene.connect("writer 2")]
        self.reader = scene.connect("reader")
        """Waits for entries of `jobs`, for ever."""
        self.waiter = scene.connect("waiter")
        """Waits for a replica, for ever."""
        self.listener = scene.connect("listener")
        """Listens to a channel and tracks keys, in RESP3."""

    def sit_down(self) -> None:
        """Have them wait and listen."""
        self.reader.ask((b"XREADGROUP", b"GROUP", b"g", b"reader", b"BLOCK", b"0", b"STREAMS", b"jobs", b">"))
        self.waiter.ask((b"WAIT", b"1", b"0"))
        self.listener.ask((b"HELLO", b"3"), (b"CLIENT", b"TRACKING", b"ON", b"BCAST"))
        self.listener.ask((b"PSUBSCRIBE", b"*"))

    def write(self) -> None:
        """Each writer writes, by an addition, by a string, and by a transaction."""
        scene = self._scene
        first, second = self.writers
        if not first.is_closed:
            token = scene.token()
            first.ask((b"XADD", b"~w1", b"*", b"v", token), token=token)
        if not second.is_closed:
            token, other = scene.token(), scene.token()
            second.ask((b"SET", b"~w2:%b" % token.strip(b"~"), token), token=token)
            second.ask((b"MULTI",), (b"XADD", b"~w2", b"*", b"v", other))
            second.ask((b"EXEC",), token=other)

    @property
    def waiting(self) -> list[Peer]:
        """Who waits for ever."""
        return [self.reader, self.waiter]
