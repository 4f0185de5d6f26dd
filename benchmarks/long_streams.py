"""Rows about long streams: XADD, XREADGROUP and XACK by the number of entries, or of pending entries, of one stream.

The report draws them. `growth.py` has all commands, with data that grows around them.
"""

from __future__ import annotations

import os
from functools import partial

from benchmarks.load import benchmark, prepared
from benchmarks.peers import PeerServer
from benchmarks.row import Measure, Row, Sample
from benchmarks.streams import (
    FIELDS,
    RANDOM_BELOW,
    deliver,
    entry_id,
    fill,
    fill_numbered,
    lanes,
    new_group,
)

from support.wire import encode

PIPELINE = 16
ENTRIES = (10_000, 1_000_000, 10_000_000)
PENDING = (1_000, 1_000_000)
SIZE_NAMES = {1_000: "1 k", 10_000: "10 k", 1_000_000: "1 M", 10_000_000: "10 M"}
ADDED = 50_000
# Entries read in a run: not more than the smallest stream has.
READ = 8_000
ACKED = 20_000
COST = "CPU us"


def add_entries(server: PeerServer, size: int) -> None:
    """A stream of that length; where it ends grows a little with each run."""
    fill(server, "grown", size)
    os.sync()  # writing the rest later would count as a cost of the next run


def xadd(server: PeerServer) -> Sample:
    """XADD, pipeline 16, at the end of the stream."""
    command = ("XADD", "grown", "*", *FIELDS)
    return _cost(benchmark(server, ADDED, *command, pipeline=PIPELINE, random_below=RANDOM_BELOW))


def xreadgroup(server: PeerServer) -> Sample:
    """XREADGROUP COUNT 1, pipeline 16, from the start of the stream."""
    new_group(server, "grown")
    command = ("XREADGROUP", "GROUP", "g", "c", "COUNT", "1", "STREAMS", "grown", ">")
    return _cost(benchmark(server, READ, *command, pipeline=PIPELINE))


def _cost(sample: Sample) -> Sample:
    """The sample with its processor time for a number."""
    assert sample.cpu_us is not None
    return Sample(sample.cpu_us, sample.cpu_us)


def add_numbered(server: PeerServer, size: int) -> None:
    """A stream with as many entries as will be pending."""
    fill_numbered(server, "grown", size)


def xack_of(size: int) -> Measure:
    """The measure for `size` pending entries."""

    def xack(server: PeerServer) -> Sample:
        """XACK of single entries, pipeline 16, in the order of their delivery, until none or twenty thousand are left.

        A small pending list is made again and again, until as many have been acknowledged as of a large one.
        """
        cost_us, rounds = 0.0, max(1, ACKED // size)
        for _ in range(rounds):
            new_group(server, "grown")
            deliver(server, "grown", size)
            os.sync()
            acked = min(size, ACKED)
            requests = [(encode(("XACK", "grown", "g", entry_id(number))), b":1\r\n") for number in range(acked)]
            sample = prepared(server, acked, lanes(requests, pipeline=PIPELINE, clients=1))
            assert sample.cpu_us is not None
            cost_us += sample.cpu_us / rounds
        return Sample(cost_us, cost_us)

    return xack


def _rows() -> list[Row]:
    """The rows, smallest size first."""
    rows = []
    for name, title, measure in (("xadd", "XADD", xadd), ("xreadgroup", "XREADGROUP COUNT 1", xreadgroup)):
        for size in ENTRIES:
            rows.append(
                Row(
                    f"long-{name}-{size}",
                    f"{title} at {SIZE_NAMES[size]} entries",
                    COST,
                    measure,
                    partial(add_entries, size=size),
                    runs=3,
                    is_rate=False,
                    is_usual=False,
                    series=title,
                    size=size,
                )
            )
    for size in PENDING:
        rows.append(
            Row(
                f"long-xack-{size}",
                f"XACK at {SIZE_NAMES[size]} pending",
                COST,
                xack_of(size),
                partial(add_numbered, size=size),
                runs=3,
                is_rate=False,
                is_usual=False,
                series="XACK",
                size=size,
            )
        )
    return rows


ROWS = tuple(_rows())
