"""Rows per second of one processor in the source, the sink, the audit and the loops, without Spark:
`python -m benchmarks.pipeline_parts`.

Processor time is measured, not the clock, and the best of several runs is shown: what a busy machine disturbs least.
"""

from __future__ import annotations

import tempfile
import time
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import redis
from benchmarks.pipeline import PAGE_SIZE, PIPELINE_SIZE, log_records

from headrace.pipeline.aof.scan import scan
from headrace.pipeline.aof.splits import plan_splits
from headrace.pipeline.columns.decode import Decoder
from headrace.pipeline.connection import Connection
from headrace.pipeline.connection.streams import prepare_stream
from headrace.pipeline.options.kinds import Endpoint, WriteOptions, parse
from headrace.pipeline.reading.pages import read_span
from headrace.pipeline.reading.spans import Span
from headrace.pipeline.writing.encode import Encoder
from headrace.pipeline.writing.sink import Pipeline, windows
from headrace.store.ids import ID_MAX
from support.processes import cpu_seconds
from support.servers import Server

ENTRIES = 50_000
COMMANDS = 200_000
RUNS = 7
# Less of the server's time is not shown: the kernel counts it in hundredths.
SHOWN_S = 0.1
# Rows in a batch, as Spark makes them.
BATCH = 10_000
COLUMNS = pa.schema([("_id", pa.string()), ("n", pa.int64()), ("user", pa.string()), ("price", pa.float64())])
TEXT = ("kind", "stream", "grp", "consumer", "id")
EVENTS = pa.schema(
    [(name, pa.int32()) for name in ("part", "db")]
    + [(name, pa.int64()) for name in ("split", "n", "ts", "time_ms", "deliveries")]
    + [(name, pa.string()) for name in TEXT]
)


class Parts:
    """One server with the stream `in`."""

    def __init__(self, server: Server) -> None:
        self.pid = server.pid
        self.endpoint = Endpoint(port=server.port)
        plain = redis.ConnectionPool(port=server.port, parser_class=redis._parsers._RESP2Parser)
        self.clients = {"redis-py": redis.Redis(connection_pool=plain), "hiredis": redis.Redis(port=server.port)}
        numbers = range(ENTRIES)
        rows = {
            "n": pa.array(numbers),
            "user": pa.array([f"user-{n % 1000}" for n in numbers]),
            "price": pa.array([n % 10007 / 4 for n in numbers]),
        }
        self.batches = pa.RecordBatch.from_pydict(rows)
        self.write("in", "none")

    def read(self) -> None:
        """The source."""
        assert sum(map(len, read_span(self.endpoint, Decoder(COLUMNS), Span("in", 1, ID_MAX), 5000))) == ENTRIES

    def write(self, key: str, idempotency: str) -> None:
        """The sink."""
        options = parse(WriteOptions, {"stream": key, "idempotency": idempotency})
        encoder = Encoder(options, uuid.uuid4().hex, 0, "0")
        with Connection(self.endpoint) as connection:
            if idempotency == "idmp":
                prepare_stream(connection, key.encode(), options)
            pipeline = Pipeline(connection, can_repeat=True, is_explicit=False, ack_group=None)
            for first in range(0, ENTRIES, BATCH):
                for window in windows(encoder.encode(self.batches.slice(first, BATCH), first), first, options.pipeline):
                    pipeline.send(window)
            pipeline.finish()

    def read_by_loop(self, client: redis.Redis) -> None:
        """As in `benchmarks.pipeline`."""
        start = b"-"
        while page := client.xrange("in", start, "+", PAGE_SIZE):
            for entry_id, fields in page:
                _ = (entry_id, int(fields[b"n"]), fields[b"user"].decode(), float(fields[b"price"]))
            start = b"(" + page[-1][0]

    def write_by_loop(self, client: redis.Redis) -> None:
        """As in `benchmarks.pipeline`."""
        pipe = client.pipeline(transaction=False)
        for n in range(ENTRIES):
            pipe.xadd("looped", {"n": n, "user": f"user-{n % 1000}", "price": n % 10007 / 4})
            if n % PIPELINE_SIZE == PIPELINE_SIZE - 1:
                pipe.execute()

    def show(self, name: str, what: Callable[[], Any], count: int = ENTRIES) -> None:
        """One line: what this process does in a second, and what the server does meanwhile."""
        own, server = [], []
        for _ in range(RUNS):
            own_before, server_before = time.process_time(), cpu_seconds(self.pid)[0]
            what()
            own.append(time.process_time() - own_before)
            server.append(cpu_seconds(self.pid)[0] - server_before)
        served = f"{count / min(server):>14,.0f}" if min(server) > SHOWN_S else ""
        print(f"{name:<28}{count / min(own):>14,.0f}{served}", flush=True)


def main() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        server = Server("headrace", folder / "server", "--appendonly", "yes").start()
        try:
            parts = Parts(server)
            print(f"{'per second of processor':<28}{'here':>14}{'the server':>14}")
            for client_name, client in parts.clients.items():
                parts.show(f"loop ({client_name}), reading", partial(parts.read_by_loop, client))
            parts.show("source", parts.read)
            for client_name, client in parts.clients.items():
                parts.show(f"loop ({client_name}), writing", partial(parts.write_by_loop, client))
            parts.show("sink", lambda: parts.write("out", "idmp"))
            parts.show("sink, idempotency=none", lambda: parts.write("added", "none"))
            path = folder / "log.aof"
            path.write_bytes(b"".join(log_records(COMMANDS)))
            [split] = plan_splits([path])
            parts.show("audit (commands)", lambda: sum(map(len, scan(split, EVENTS))), COMMANDS)
        finally:
            server.stop()


if __name__ == "__main__":
    main()
