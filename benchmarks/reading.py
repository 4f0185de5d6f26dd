"""Rows about reading: ranges, and new entries for a group."""

from __future__ import annotations

from benchmarks.load import benchmark
from benchmarks.peers import PeerServer
from benchmarks.row import Row, Sample
from benchmarks.streams import entry_id, fill, fill_numbered, new_group

PIPELINE = 16
# Entries of the stream that XRANGE and XREAD look into.
READ_ENTRIES = 100_000
# Entries of the stream that a group reads; more than one run takes.
GROUP_ENTRIES = 400_000
# Threads of the client where replies are large: one alone would be what is measured. redis-benchmark with threads stops
# the clock at the next quarter of a second, so such a row must run for many of them.
PARSING_THREADS = 2
MIDDLE_ID = entry_id(READ_ENTRIES // 2)


def prepare_read_stream(server: PeerServer) -> None:
    """A stream of 100,000 entries."""
    fill_numbered(server, "read", READ_ENTRIES)


def prepare_group_stream(server: PeerServer) -> None:
    """The entries the group reads."""
    fill(server, "group-read", server.scaled(GROUP_ENTRIES))


def xrange_few(server: PeerServer) -> Sample:
    """XRANGE COUNT 10 from the middle of 100,000 entries: mostly finding the place."""
    return benchmark(server, server.scaled(100_000), "XRANGE", "read", MIDDLE_ID, "+", "COUNT", "10")


def xread(server: PeerServer) -> Sample:
    """XREAD COUNT 100 after the middle entry: a reader that catches up."""
    command = ("XREAD", "COUNT", "100", "STREAMS", "read", MIDDLE_ID)
    return benchmark(server, server.scaled(60_000), *command, threads=PARSING_THREADS)


def xrange_many(server: PeerServer) -> Sample:
    """XRANGE COUNT 1000 from the middle of 100,000 entries: the cost of a long reply."""
    command = ("XRANGE", "read", MIDDLE_ID, "+", "COUNT", "1000")
    return benchmark(server, server.scaled(10_000), *command, threads=PARSING_THREADS)


def xreadgroup_one(server: PeerServer) -> Sample:
    """XREADGROUP COUNT 1 of new entries: a worker that takes one task at a time."""
    return _read_group(server, 100_000, 1, 1)


def xreadgroup_pipelined(server: PeerServer) -> Sample:
    """XREADGROUP COUNT 1, sixteen requests at a time."""
    return _read_group(server, 200_000, 1, PIPELINE)


def xreadgroup_many(server: PeerServer) -> Sample:
    """XREADGROUP COUNT 100: every reply makes a hundred pending entries and their log records."""
    return _read_group(server, 4_000, 100, 1)


def _read_group(server: PeerServer, requests: int, count: int, pipeline: int) -> Sample:
    """Read new entries into a pending list that is empty at first."""
    new_group(server, "group-read")
    command = ("XREADGROUP", "GROUP", "g", "c", "COUNT", str(count), "STREAMS", "group-read", ">")
    return benchmark(server, server.scaled(requests), *command, pipeline=pipeline)


RATE = "requests/s"
ROWS = (
    Row("xrange-10", "XRANGE COUNT 10", RATE, xrange_few, prepare_read_stream, target=1.0),
    Row("xread-100", "XREAD COUNT 100", RATE, xread, prepare_read_stream, target=3.0),
    Row("xrange-1000", "XRANGE COUNT 1000", RATE, xrange_many, prepare_read_stream, target=8.0),
    Row("xreadgroup-1", "XREADGROUP COUNT 1", RATE, xreadgroup_one, prepare_group_stream, target=1.0, is_light=True),
    Row(
        "xreadgroup-1-p16",
        "XREADGROUP COUNT 1, pipeline 16",
        RATE,
        xreadgroup_pipelined,
        prepare_group_stream,
        target=1.0,
        is_light=True,
    ),
    Row("xreadgroup-100", "XREADGROUP COUNT 100", RATE, xreadgroup_many, prepare_group_stream, target=2.0),
)
