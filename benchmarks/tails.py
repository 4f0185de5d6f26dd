"""Rows about the slowest replies: their delays under a steady load, in quiet and while a job of the server runs.

Fifty connections send at about half of what the machine can take (`open_load.py`). There is a row for each job of
`JOBS`, so a new job gets its row as soon as it is there.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

from benchmarks import open_load
from benchmarks.commands import RepliedBatch
from benchmarks.load import Words, prepared
from benchmarks.open_load import Disturbance
from benchmarks.peers import PeerServer
from benchmarks.row import Row, Sample
from benchmarks.streams import ask, deliver, fill, fill_numbered, new_group

from support.servers import Server
from support.wire import encode

TABLE: Final = "tails"
RATE: Final = 20_000
# The client sends at its times as long as it needs no more than this share of one processor.
CLIENT_SHARE_MAX: Final = 0.7
# The machine is busy with something else if more than this share of the requests leaves later than this in quiet.
LATE_SHARE_MAX: Final = 0.01
LATE_S: Final = 0.001
TRIAL_S: Final = 1.0
SLOWER: Final = 0.8
RATE_MIN: Final = 1_000
# The first part of a run does not count: connections and memory are new then.
WARM_S: Final = 0.5
RUN_S: Final = 3.0
# The requests of a job are spread over this time, from the end of the warm part on.
JOB_S: Final = 1.5
# Shares of the requests, by the name of the column.
QUANTILES: Final = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999, "worst": 1.0}
SHOWN_QUANTILE: Final = "p99.9"

ENTRIES: Final = 500_000
PENDING: Final = 50_000
STRINGS: Final = 200_000
SMALL_STREAMS: Final = 20_000
PIPELINE: Final = 100


@dataclass
class Pace:
    """The rate of all rows and servers of a run, in requests/s. The first load lowers it until this client keeps up."""

    rate: int = RATE
    is_fitted: bool = False

    def fit(self, server: Server) -> None:
        """Lower the rate while a load takes too much of the client's processor."""
        while not self.is_fitted:
            share = open_load.run(server, self.rate, int(self.rate * TRIAL_S)).client_share
            if share <= CLIENT_SHARE_MAX or self.rate <= RATE_MIN:
                self.is_fitted = True
                return
            slower = max(RATE_MIN, int(self.rate * SLOWER))
            warn(f"{self.rate:,} requests/s take {share:.0%} of the client's processor; {slower:,} are sent")
            self.rate = slower


def warn(text: str) -> None:
    """Say what makes the figures less than they should be."""
    print(text, file=sys.stderr, flush=True)


PACE: Final = Pace()


@dataclass(frozen=True)
class Job:
    """What the server does besides the load."""

    name: str
    title: str
    # Makes the data that the job works on.
    prepare: Callable[[PeerServer], None] = lambda server: None
    # Sent by another client during the load, at even distances.
    requests: tuple[Words, ...] = ()
    # Sent before the load.
    setting: tuple[Words, ...] = ()


def _send(server: PeerServer, requests: Iterator[Words]) -> None:
    """Send requests in pipelines, over one connection. Raises Refused."""
    words = list(requests)
    parts = (words[first : first + PIPELINE] for first in range(0, len(words), PIPELINE))
    batches = [RepliedBatch(part, may_fail=False) for part in parts]
    prepared(server, len(words), [batches])


def entries(server: PeerServer) -> None:
    """One long stream, a tenth of it pending."""
    fill(server, "s", ENTRIES)
    new_group(server, "s")
    deliver(server, "s", PENDING)


def strings(server: PeerServer) -> None:
    """Many small strings."""
    with server.connect() as wire:
        ask(wire, "DEBUG", "POPULATE", STRINGS)


def expired_strings(server: PeerServer) -> None:
    """Small strings whose time is over, and which are not removed yet."""
    with server.connect() as wire:
        ask(wire, "DEBUG", "SET-ACTIVE-EXPIRE", 0)
    _send(server, (("SET", f"key:{number}", "value", "PX", 1) for number in range(STRINGS)))


def listed_entries(server: PeerServer) -> None:
    """A stream that is read as a whole."""
    fill_numbered(server, "s", STRINGS)


def small_streams(server: PeerServer) -> None:
    """Streams of one entry with a group."""
    _send(server, (("XADD", f"s:{number}", "1-1", "f", "v") for number in range(SMALL_STREAMS)))
    _send(server, (("XGROUP", "CREATE", f"s:{number}", "g", "0") for number in range(SMALL_STREAMS)))


LARGE_ENTRIES: Final = (("XADD", "large", "*", "value", "x" * 65_536),) * 500
NEW_GROUPS: Final = tuple(("XGROUP", "CREATE", f"s:{number}", "h", "0") for number in range(SMALL_STREAMS // 4))

QUIET: Final = Job("quiet", "nothing else")
JOBS: Final = (
    QUIET,
    Job("fsync-always", "appendfsync always", setting=(("CONFIG", "SET", "appendfsync", "always"),)),
    Job("fsync-no", "appendfsync no", setting=(("CONFIG", "SET", "appendfsync", "no"),)),
    Job("large", "entries of 64 KiB, 20 MB/s of log, everysec", requests=LARGE_ENTRIES),
    Job("rewrite", "BGREWRITEAOF of 500,000 entries", entries, (("BGREWRITEAOF",),)),
    Job("snapshot", "BGSAVE of 500,000 entries", entries, (("BGSAVE",),)),
    Job("expiry", "200,000 keys expire at once", expired_strings, (("DEBUG", "SET-ACTIVE-EXPIRE", 1),)),
    Job("unlink", "UNLINK of 500,000 entries", entries, (("UNLINK", "s"),)),
    Job("flush", "FLUSHDB ASYNC of 200,000 keys", strings, (("FLUSHDB", "ASYNC"),)),
    Job("trim-nearly", "XTRIM ~ of 500,000 entries", entries, (("XTRIM", "s", "MAXLEN", "~", 1000, "LIMIT", 0),)),
    Job("trim", "XTRIM = of 500,000 entries", entries, (("XTRIM", "s", "MAXLEN", "=", 1000),)),
    Job("range", "XRANGE of 200,000 entries, four times", listed_entries, (("XRANGE", "s", "-", "+"),) * 4),
    Job("collector", "20,000 streams, and new groups", small_streams, NEW_GROUPS),
)


def prepare(server: PeerServer, job: Job) -> None:
    """The data of the job, and its settings."""
    PACE.fit(server)
    job.prepare(server)
    with server.connect() as wire:
        for words in job.setting:
            ask(wire, *words)


def measure(server: PeerServer, job: Job) -> Sample:
    """The quantiles of the delays in ms, and the rate at which they were measured."""
    rate = PACE.rate
    times_s = [WARM_S + place * JOB_S / len(job.requests) for place in range(len(job.requests))]
    disturbance = Disturbance(times_s, [encode(words) for words in job.requests])
    delays = open_load.run(server, rate, int(rate * (WARM_S + RUN_S)), disturbance)
    late = sum(delay_s > LATE_S for delay_s in delays.sent_s) / len(delays.sent_s)
    if job is QUIET and late > LATE_SHARE_MAX:
        warn(f"{late:.0%} of the requests left more than {LATE_S * 1000:g} ms late: this machine is busy")
    counted_s = sorted(delays.replied_s[int(rate * WARM_S) :])
    tail = {name: quantile(counted_s, share) * 1000 for name, share in QUANTILES.items()}
    return Sample(tail[SHOWN_QUANTILE], tail={**tail, "rate": rate})


def quantile(ordered: list[float], share: float) -> float:
    """The smallest number that is not exceeded by this share of them."""
    return ordered[max(0, -int(-share * len(ordered) // 1) - 1)]


def row_name(job: Job) -> str:
    """The name of the row of this job."""
    return f"tail-{job.name}"


ROWS = tuple(
    Row(
        row_name(job),
        f"{SHOWN_QUANTILE}, {job.title}",
        "ms",
        partial(measure, job=job),
        partial(prepare, job=job),
        target=1.0,
        runs=1,
        is_rate=False,
        is_usual=False,
        table=TABLE,
    )
    for job in JOBS
)
