"""Runs the rows on all servers in turn and prints the medians.

The servers run on this machine with `appendonly yes` and `appendfsync everysec`, started anew for each row, in folders
of their own. Runs alternate (Headrace, Redis; Redis, Headrace; ..) so that a slow minute of the machine meets all. A
ratio says how many times better than the other server Headrace was: the median over the pairs, the smallest and the
largest. `CPU us` is the processor time the server took for one request, with its own ratio: where the client is slower
than the servers, only that tells them apart.
"""

from __future__ import annotations

import argparse
import contextlib
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from benchmarks import tails
from benchmarks.load import MissingTool, Refused, find_redis_benchmark
from benchmarks.peers import (
    DEFAULT_NAMES,
    PEER_NAMES,
    UNIX_SOCKET,
    MissingPeer,
    Peer,
    PeerServer,
    find_peer,
    on_one_processor,
)
from benchmarks.results import SUBJECT, Result, run_of
from benchmarks.row import Row
from benchmarks.rows import ROWS

# Rewrites have a row of their own: in the others they would begin in the middle of some runs and not of others.
OPTIONS = ("--appendonly", "yes", "--appendfsync", "everysec", "--auto-aof-rewrite-percentage", "0")
CLIENTS_MAX = "10100"
# For the row of ten thousand connections.
OPEN_FILES = 10_500
# The file of results is written after a row if the last time is so long ago.
WRITE_EVERY_S = 30.0


@contextlib.contextmanager
def running(peers: list[Peer]) -> Iterator[list[PeerServer]]:
    """A server for each peer, in its own temporary folder."""
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        options = (*OPTIONS, "--maxclients", CLIENTS_MAX, "--unixsocket", UNIX_SOCKET)
        servers = [PeerServer(peer, Path(folder) / peer.name, *options) for peer in peers]
        try:
            for server in servers:
                server.start()
            yield servers
        finally:
            for server in servers:
                server.kill()


def measure_all(rows: list[Row], peers: list[Peer], runs: int | None) -> Iterator[Result]:
    """All runs of rows that share their servers, the servers taking turns in being first. Raises Refused if it is
    Headrace that refuses.
    """
    with running([peer for peer in peers if rows[0].is_light or not peer.is_light]) as servers:
        unprepared: set[PeerServer] = set()
        for server in servers:
            with leaving_out(unprepared, server, rows[0]):
                rows[0].prepare(server)
        with on_one_processor(servers) if rows[0].is_on_one_processor else contextlib.nullcontext():
            for row in rows:
                result, refusing = Result.of(row), set(unprepared)
                for number in range(min(runs or row.runs, row.runs)):
                    first = number % len(servers)
                    for server in servers[first:] + servers[:first]:
                        if server not in refusing:
                            with leaving_out(refusing, server, row):
                                result.add(server.name, row.measure(server))
                yield result


@contextlib.contextmanager
def leaving_out(refusing: set[PeerServer], server: PeerServer, row: Row) -> Iterator[None]:
    """A peer that does not know the row's command is left out of it, with a line that says so."""
    try:
        yield
    except (Refused, OSError, RuntimeError) as error:
        if server.name == SUBJECT:
            raise Refused(f"{row.name}: {error}") from error
        refusing.add(server)
        print(f"{server.peer.title} is left out of {row.name}: {error}", file=sys.stderr)


def shown(number: float | None) -> str:
    """A number; small ones with decimals."""
    if number is None:
        return f"{'-':>11}"
    return f"{number:>11,.0f}" if number >= 100 else f"{number:>11.2f}"


def table_lines(result: Result, peers: list[Peer]) -> Iterator[str]:
    """The row's lines of the printed table, one a server."""
    title = f"{result.title}, {result.unit}"
    for peer in peers:
        if peer.name in result.numbers:
            ratios, cpu_ratios = result.ratios(peer.name), result.cpu_ratios(peer.name)
            if peer.name == SUBJECT:
                ratios = cpu_ratios = []
            spread = f"{statistics.median(ratios):>7.2f} ({min(ratios):.2f}-{max(ratios):.2f})" if ratios else ""
            cpu_ratio = f"{statistics.median(cpu_ratios):>7.2f}" if cpu_ratios else ""
            numbers = shown(result.median(peer.name)), shown(result.cpu_median(peer.name))
            yield f"{title:52}{peer.name:>10}{numbers[0]}{spread:<22}{numbers[1]}{cpu_ratio}"
            if peer.name in result.tails:
                delays = (f"{name} {result.tail_median(peer.name, name):,.2f}" for name in result.tails[peer.name][0])
                yield f"{'':62}{', '.join(delays)}"
            title = ""


def main() -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser("python -m benchmarks", description=__doc__)
    parser.add_argument("--only", metavar="ROW[,ROW]", help="run these rows; a beginning names all rows that share it")
    parser.add_argument("--all", action="store_true", help="run all rows, those that take minutes too")
    parser.add_argument("--list", action="store_true", help="print the names of the rows, and end")
    parser.add_argument("--runs", type=int, help="runs per row, if fewer than its own (5; what takes long 3 or 1)")
    parser.add_argument(
        "--peers",
        default=",".join(DEFAULT_NAMES),
        help=f"the servers, of {','.join(PEER_NAMES)}; `all` for those that are installed (default: %(default)s)",
    )
    parser.add_argument(
        "--rate",
        type=int,
        default=tails.RATE,
        help="requests/s of the rows of tails, less if the client cannot send as many (default: %(default)s)",
    )
    parser.add_argument("--json", metavar="FILE", help="also write every number to FILE (`-`: print it instead)")
    options = parser.parse_args()
    if options.list:
        print("\n".join(f"{row.name:28}{row.title}" for row in ROWS))
        return 0
    rows = wanted_rows(parser, options.only, options.all)
    names = PEER_NAMES if options.peers == "all" else options.peers.split(",")
    if unknown := set(names) - set(PEER_NAMES):
        parser.error(f"no such server: {', '.join(sorted(unknown))}")
    allow_open_files()
    tails.PACE.rate = options.rate
    try:
        find_redis_benchmark()
        peers = installed_peers([SUBJECT, *(name for name in names if name != SUBJECT)])
        results: list[Result] = []
        path = Path(options.json) if options.json and options.json != "-" else None
        run_to_file(run(rows, peers, options.runs, quiet=options.json == "-"), peers, results, path)
    except (MissingTool, Refused) as error:
        print(error, file=sys.stderr)
        return 1
    if options.json == "-":
        print(run_of(peers, results).as_json())
    return 0


def run_to_file(measured: Iterator[Result], peers: list[Peer], results: list[Result], path: Path | None) -> None:
    """Add each result to the others, and write all to the file from time to time, as a long run may be ended early. To
    write thousands of rows takes half a second.
    """
    written_s = time.monotonic()
    try:
        for result in measured:
            results.append(result)
            if path is not None and time.monotonic() >= written_s + WRITE_EVERY_S:
                path.write_text(run_of(peers, results).as_json() + "\n")
                written_s = time.monotonic()
    finally:
        if path is not None and results:
            path.write_text(run_of(peers, results).as_json() + "\n")


def wanted_rows(parser: argparse.ArgumentParser, only: str | None, is_all: bool) -> list[Row]:
    """The rows that were asked for, in the order of the table."""
    if only is None:
        return [row for row in ROWS if is_all or row.is_usual]
    exact = {row.name for row in ROWS}
    wanted: set[str] = set()
    for word in only.split(","):
        matching = {word} if word in exact else {name for name in exact if name.startswith(word)}
        if not matching:
            parser.error(f"no such row: {word}; --list names them")
        wanted |= matching
    return [row for row in ROWS if row.name in wanted]


def allow_open_files() -> None:
    """Raise the soft limit, as far as that is allowed; the servers inherit it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    enough = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < enough:
        resource.setrlimit(resource.RLIMIT_NOFILE, (enough, hard))


def installed_peers(names: list[str]) -> list[Peer]:
    """The peers of these names; those that are missing are left out with a line each."""
    peers = []
    for name in names:
        try:
            peers.append(find_peer(name))
        except MissingPeer as error:
            print(error, file=sys.stderr)
    return peers


def run(rows: list[Row], peers: list[Peer], runs: int | None, *, quiet: bool) -> Iterator[Result]:
    """Measure the rows, printing the lines of each when they are known."""
    if not quiet:
        print("\n".join(f"{peer.name}: {peer.title}" for peer in peers))
        print(f"{'':52}{'':>10}{'median':>11}{'  ratio (spread)':22}{'CPU us':>11}{'ratio':>7}")
    for _, sharing in groupby(rows, key=lambda row: row.dataset or row.name):
        for result in measure_all(list(sharing), peers, runs):
            if not quiet:
                print("\n".join(table_lines(result, peers)), flush=True)
            yield result


if __name__ == "__main__":
    sys.exit(main())
