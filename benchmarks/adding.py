"""Rows about connections and XADD: the waits of a producer."""

from __future__ import annotations

from benchmarks.load import benchmark
from benchmarks.peers import PeerServer
from benchmarks.row import Row, Sample
from benchmarks.streams import FIELDS, RANDOM_BELOW

PIPELINE = 16
KEYS = 10_000
TRIMMED_LENGTH = 10_000
LARGE_VALUE = "x" * 1024


def ping(server: PeerServer) -> Sample:
    """PING: the cost of connections without the store; the upper limit of every other row."""
    return benchmark(server, server.scaled(150_000), "PING")


def xadd(server: PeerServer) -> Sample:
    """XADD of three short fields, each client waiting for its reply: the common producer."""
    return _add(server, 150_000, 1)


def xadd_pipelined(server: PeerServer) -> Sample:
    """XADD sixteen at a time: the producer that batches, where the cost per command shows."""
    return _add(server, 600_000, PIPELINE)


def xadd_trimmed(server: PeerServer) -> Sample:
    """XADD with MAXLEN ~ 10000: a stream that is trimmed while it grows."""
    return _add(server, 600_000, PIPELINE, "MAXLEN", "~", str(TRIMMED_LENGTH))


def xadd_keys(server: PeerServer) -> Sample:
    """XADD to ten thousand streams in random order."""
    add = ("XADD", "added:__rand_int__", "*", *FIELDS)
    return benchmark(server, server.scaled(400_000), *add, pipeline=PIPELINE, random_below=KEYS)


def xadd_large(server: PeerServer) -> Sample:
    """One field of 1 KiB, of which twelve bytes vary."""
    _start_anew(server)
    add = ("XADD", "added", "*", "value", LARGE_VALUE + "__rand_int__")
    return benchmark(server, server.scaled(200_000), *add, pipeline=PIPELINE, random_below=RANDOM_BELOW)


def _add(server: PeerServer, requests: int, pipeline: int, *trimming: str) -> Sample:
    _start_anew(server)
    add = ("XADD", "added", *trimming, "*", *FIELDS)
    return benchmark(server, server.scaled(requests), *add, pipeline=pipeline, random_below=RANDOM_BELOW)


def _start_anew(server: PeerServer) -> None:
    with server.connect() as wire:
        wire.call("DEL", "added")


RATE = "requests/s"
ROWS = (
    Row("ping", "PING", RATE, ping, target=1.0, is_light=True),
    Row("xadd", "XADD", RATE, xadd, target=1.0, is_light=True),
    Row("xadd-p16", "XADD, pipeline 16", RATE, xadd_pipelined, target=1.0, is_light=True),
    Row("xadd-maxlen", "XADD MAXLEN ~ 10000, pipeline 16", RATE, xadd_trimmed, target=1.0),
    Row("xadd-keys", "XADD over 10,000 keys, pipeline 16", RATE, xadd_keys, target=1.0),
    Row("xadd-1kb", "XADD of 1 KiB, pipeline 16", RATE, xadd_large, target=1.0),
)
