"""The servers that are compared: Headrace, the two Redis, and fakeredis' server."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from headrace import __version__, build_form
from support.servers import Server, oracle_folder, oracle_version

JEMALLOC_NAMES = ("libjemalloc.so.2", "libjemalloc.so")
LIBRARY_FOLDERS = ("/usr/lib", "/usr/lib64", "/usr/local/lib")
PEER_NAMES = ("headrace", "redis", "debian", "fakeredis")
DEFAULT_NAMES = PEER_NAMES[:2]
# fakeredis, a test double, gets the fiftieth part of the requests.
FAKE_SCALE = 0.02


# Each server listens there too, in its folder.
UNIX_SOCKET = "server.sock"


class MissingPeer(Exception):
    """A requested server is not installed; the text has the remedy."""


@dataclass(frozen=True)
class Peer:
    """One server program."""

    name: str
    # The name with the version, and other facts that affect the figures.
    title: str
    words: tuple[str, ...]
    # The part of a row's requests that it is sent.
    scale: float = 1.0
    # Whether it runs light rows only.
    is_light: bool = False


class PeerServer(Server):
    """A running peer."""

    def __init__(self, peer: Peer, folder: Path, *options: str, start_deadline_s: float = 30.0) -> None:
        super().__init__(peer.name, folder, *options, start_deadline_s=start_deadline_s)
        self.peer = peer

    def program(self) -> list[str]:
        """The words that start it."""
        return list(self.peer.words)

    def scaled(self, requests: int) -> int:
        """The number of its requests when others get `requests`."""
        return max(1, int(requests * self.peer.scale))


@contextmanager
def on_one_processor(servers: Sequence[PeerServer]) -> Iterator[None]:
    """Within this context, the servers share one processor, and this process has the others.

    The processors of a virtual machine may differ in speed by half, and each from second to second: servers that take
    turns on the same one are slowed alike. Without a second processor, nothing changes.
    """
    available = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
    if len(available) < 2:
        yield
        return
    shared = max(available)
    for server in servers:
        for thread in os.listdir(f"/proc/{server.pid}/task"):
            with suppress(ProcessLookupError):  # it has ended meanwhile
                os.sched_setaffinity(int(thread), {shared})
    os.sched_setaffinity(0, available - {shared})
    try:
        yield
    finally:
        os.sched_setaffinity(0, available)


def find_peer(name: str) -> Peer:
    """The peer of that name. Raises MissingPeer."""
    return {"headrace": _headrace, "redis": _redis, "debian": _redis_on_path, "fakeredis": _fakeredis}[name]()


def _headrace() -> Peer:
    title = f"Headrace {__version__} ({build_form()} form)"
    return Peer("headrace", title, (sys.executable, "-m", "headrace"))


def _redis() -> Peer:
    folder = oracle_folder()
    if folder is None:
        raise MissingPeer("no redis-server to compare with: `make oracle` installs it")
    program = str(folder / "redis-server")
    title = f"Redis {oracle_version(folder)}"
    build = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    if "malloc=libc" not in build:
        return Peer("redis", title, (program,))
    # Redis is built with jemalloc as a rule; this one was not, and gets it if the system has it.
    library = next(_jemalloc_paths(), None)
    if library is None:
        return Peer("redis", f"{title} with the C library's allocator", (program,))
    return Peer("redis", f"{title} with jemalloc", ("env", f"LD_PRELOAD={library}", program))


def _jemalloc_paths() -> Iterator[Path]:
    for folder in LIBRARY_FOLDERS:
        for name in JEMALLOC_NAMES:
            yield from sorted(Path(folder).glob(f"**/{name}"))


def _redis_on_path() -> Peer:
    found = shutil.which("redis-server")
    if found is None:
        raise MissingPeer("no redis-server of the distribution: apt-get install redis-server")
    return Peer("debian", f"Redis {oracle_version(Path(found).parent)} of the distribution", (found,))


def _fakeredis() -> Peer:
    try:
        version = importlib.metadata.version("fakeredis")
    except importlib.metadata.PackageNotFoundError as error:
        raise MissingPeer("no fakeredis: pip install '.[bench]'") from error
    script = Path(__file__).with_name("fake_server.py")
    return Peer("fakeredis", f"fakeredis {version}", (sys.executable, str(script)), FAKE_SCALE, is_light=True)
