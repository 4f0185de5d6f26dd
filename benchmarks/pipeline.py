"""The Spark data source against a plain redis-py loop: `python -m benchmarks.pipeline [--entries N] [--runs N]`.

Everything shares this machine: Spark as local[2], its Python workers, and the server. Runs alternate (loop, Spark;
Spark, loop; ..), and the median of the ratios of the pairs is shown, with the part of the time for which the server was
busy.
The loops read with XRANGE in pages of 2000, and write with pipelines of 500, in one process and with redis-py as it
comes. The stream is rewritten before each run of a sink, and read before each run of a source.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import redis
from benchmarks.load import cpu_time

from headrace.pipeline.events import read_events
from headrace.pipeline.session import local_session
from headrace.protocol.packing import pack_command
from support.servers import Server

FIELDS = "n bigint, user string, price double"
PAGE_SIZE = 2000
PIPELINE_SIZE = 500
LOG_COMMANDS = 1_000_000


@dataclass
class Measured:
    """Rows per second and the server's part of the time, by run."""

    rates: list[float] = field(default_factory=list)
    busy: list[float] = field(default_factory=list)

    def line(self, name: str) -> str:
        """For the table."""
        busy = f"{statistics.median(self.busy):>8.0%}" if self.busy else " " * 8
        return f"{name:<28}{statistics.median(self.rates):>12,.0f}{busy}"


class Bench:
    """One server, one Spark session, and the streams `in` and `out`."""

    def __init__(self, server: Server, folder: Path, count: int) -> None:
        self.server = server
        self.folder = folder
        self.count = count
        self.client = redis.Redis(port=server.port)
        # redis-py parses in Python unless hiredis happens to be installed, as it is beside Headrace.
        plain = redis.ConnectionPool(port=server.port, parser_class=redis._parsers._RESP2Parser)
        self.plain_client = redis.Redis(connection_pool=plain)
        self.spark = local_session("benchmark", master="local[2]", spark__sql__shuffle__partitions="2")
        self.results: dict[str, Measured] = {}

    def fill(self) -> None:
        """The entries of `in`, and the same as Parquet."""
        rows = self.spark.range(self.count).selectExpr(
            "id AS n", "concat('user-', id % 1000) AS user", "CAST(id % 10007 AS double) / 4 AS price"
        )
        rows.write.mode("overwrite").parquet(str(self.folder / "rows"))
        self.write_by_spark(key="in")

    # -- what is measured ------------------------------------------------------------------------

    def source(self, **options: str) -> Any:
        """The stream as a DataFrame."""
        reader = self.spark.read.format("headrace").option("port", self.server.port).option("stream", "in")
        return reader.options(**options).schema(f"_id string, {FIELDS}").load()

    def read_by_loop(self, client: redis.Redis) -> None:
        """What a program without Spark does: pages, and a tuple for each entry."""
        start, rows = b"-", 0
        while page := client.xrange("in", start, "+", PAGE_SIZE):
            for entry_id, fields in page:
                _ = (entry_id, int(fields[b"n"]), fields[b"user"].decode(), float(fields[b"price"]))
                rows += 1
            start = b"(" + page[-1][0]
        assert rows == self.count

    def read_to_noop(self) -> None:
        """All columns, thrown away."""
        self.source().write.format("noop").mode("overwrite").save()

    def read_to_parquet(self) -> None:
        """All columns, kept."""
        self.source().write.mode("overwrite").option("compression", "zstd").parquet(str(self.folder / "out"))

    def write_by_loop(self) -> None:
        """What a program without Spark does; it has its rows at hand."""
        pipe = self.client.pipeline(transaction=False)
        for n in range(self.count):
            pipe.xadd("out", {"n": n, "user": f"user-{n % 1000}", "price": n % 10007 / 4})
            if n % PIPELINE_SIZE == PIPELINE_SIZE - 1:
                pipe.execute()
        pipe.execute()

    def write_by_spark(self, key: str = "out") -> None:
        """From Parquet, exactly once."""
        writer = self.spark.read.parquet(str(self.folder / "rows")).write.format("headrace")
        writer.option("port", self.server.port).option("stream", key).mode("append").save()

    # -- measuring -------------------------------------------------------------------------------

    def measure(self, name: str, what: Callable[[], None]) -> float:
        """Rows per second of one run."""
        self.client.delete("out")
        busy_s, started_s = cpu_time(self.server), time.perf_counter()
        what()
        elapsed_s = time.perf_counter() - started_s
        found = self.results.setdefault(name, Measured())
        found.rates.append(self.count / elapsed_s)
        found.busy.append((cpu_time(self.server) - busy_s) / elapsed_s)
        return self.count / elapsed_s

    def pair(self, names: tuple[str, str], whats: tuple[Callable[[], None], Callable[[], None]], runs: int) -> float:
        """The median of the ratios second by first."""
        ratios = []
        for run in range(runs):
            order = (0, 1) if run % 2 == 0 else (1, 0)
            rates = {index: self.measure(names[index], whats[index]) for index in order}
            ratios.append(rates[1] / rates[0])
        return statistics.median(ratios)

    def scan_log(self) -> None:
        """An append-only file as events, thrown away."""
        path = self.folder / "log.aof"
        if not path.exists():
            path.write_bytes(b"".join(log_records(LOG_COMMANDS)))
        started_s = time.perf_counter()
        events = read_events(self.spark, path, path.stat().st_size // 4)
        events.write.format("noop").mode("overwrite").save()
        rate = LOG_COMMANDS / (time.perf_counter() - started_s)
        self.results.setdefault("audit (commands)", Measured()).rates.append(rate)

    def driver_memory(self) -> int:
        """Bytes of Java heap in use after a collection."""
        runtime = self.spark._jvm.java.lang.Runtime.getRuntime()
        self.spark._jvm.java.lang.System.gc()
        return int(runtime.totalMemory() - runtime.freeMemory())


def log_records(count: int) -> list[bytes]:
    """What a server logs: of four commands two XADD, one delivery and one XACK."""
    records: list[bytes] = []
    for n in range(count // 2):
        entry_id = b"%d-%d" % (1_700_000_000_000 + n // 10, n % 10)
        fields = (b"user", b"u%d" % (n % 1000), b"item", b"item-%d" % (n % 77), b"price", b"%d" % (n % 9999))
        records.append(pack_command((b"XADD", b"orders", entry_id, *fields)))
        if n % 2 == 0:
            words = (b"XCLAIM", b"orders", b"g", b"c%d" % (n % 4), b"0", entry_id, b"TIME", b"1700000000500")
            records.append(pack_command((*words, b"RETRYCOUNT", b"1", b"FORCE", b"JUSTID", b"LASTID", entry_id)))
            records.append(pack_command((b"XACK", b"orders", b"g", entry_id)))
    return records


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--server", choices=("headrace", "oracle"), default="headrace")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        server = Server(arguments.server, folder / "server", "--appendonly", "yes")
        server.start()
        bench = Bench(server, folder, arguments.entries)
        try:
            bench.fill()
            before = bench.driver_memory()
            bench.read_to_noop()  # the first query pays for starting the workers
            bench.write_by_spark()
            plain, compiled = partial(bench.read_by_loop, bench.plain_client), partial(bench.read_by_loop, bench.client)
            ratios = {
                "loop, reading": bench.pair(
                    ("loop, reading", "source, noop"), (plain, bench.read_to_noop), arguments.runs
                ),
                "loop with hiredis, reading": bench.pair(
                    ("loop with hiredis, reading", "source, noop"), (compiled, bench.read_to_noop), arguments.runs
                ),
                "loop, writing": bench.pair(
                    ("loop, writing", "sink"), (bench.write_by_loop, bench.write_by_spark), arguments.runs
                ),
            }
            for _ in range(arguments.runs):
                bench.measure("source, Parquet", bench.read_to_parquet)
                bench.scan_log()
            after = bench.driver_memory()
        finally:
            bench.spark.stop()
            server.stop()
    print(f"{'':<28}{'rows/s':>12}{'server':>8}")
    for name, measured in bench.results.items():
        print(measured.line(name) + (f"   Spark does {ratios[name]:.1f} times as much" if name in ratios else ""))
    rows = arguments.entries * (3 * arguments.runs + 1)
    print(f"heap of the driver: {before / 2**20:.0f} MB before, {after / 2**20:.0f} MB after {rows:,} rows")


if __name__ == "__main__":
    main()
