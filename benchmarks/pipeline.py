"""The Spark data source compared with redis-py loops: `python -m benchmarks.pipeline [--only PART ..] [--entries N]`.

Parts: `reading`, `writing`, `audit`, and by name only `memory`.

Everything shares this machine: Spark as local[2], its Python workers, and the server. Rows per second by the clock also
depend on how busy the machine was. So the processor time of a million rows is shown by process, and an estimate for two
idle processors: the server is one thread, the rest is not.

The loops are what a user writes: one process, redis-py, a tuple of typed values for each entry; XRANGE in pages of
2000, XADD in pipelines of 500. redis-py parses in Python, and in C if hiredis is installed: both are shown. Runs
alternate (loop, Spark; Spark, loop; ..), and medians are shown.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import redis

from headrace.pipeline.connection import Connection
from headrace.pipeline.events import read_events
from headrace.pipeline.options import Endpoint
from headrace.pipeline.session import local_session
from headrace.protocol.packing import pack_command
from support.processes import command_of, cpu_seconds, descendants, resident_bytes
from support.servers import Server

PARTS = ("reading", "writing", "audit")
FIELDS = "n bigint, user string, price double"
PAGE_SIZE = 2000
PIPELINE_SIZE = 500
# Entries, or commands, unless told otherwise. A log is long: with less of it the start of a query counts for much.
ENTRIES = {"reading": 1_000_000, "writing": 1_000_000, "audit": 5_000_000, "memory": 10_000_000}
MEMORY_BATCH = 500_000
# How often memory is looked at.
EVERY_S = 2.0
PROCESSORS = 2
# A loop is this process; Python workers and Java belong to Spark.
WHO = ("loop", "python", "java", "server")


class Family:
    """The processes below this one, by who they are."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def pids(self) -> dict[str, list[int]]:
        """Process IDs by WHO."""
        found: dict[str, list[int]] = {who: [] for who in WHO} | {"loop": [os.getpid()], "server": [self._server.pid]}
        for pid in descendants(os.getpid()):
            if pid != self._server.pid:
                found["java" if "org.apache.spark" in command_of(pid) else "python"].append(pid)
        return found

    def cpu(self) -> dict[str, float]:
        """Seconds of processor time so far, by WHO."""
        used = {who: [cpu_seconds(pid) for pid in pids] for who, pids in self.pids().items()}
        found = {who: sum(own for own, _ in times) for who, times in used.items()}
        # Python processes that have ended were children of others, or of Java.
        found["python"] += sum(below for who in ("python", "java") for _, below in used[who])
        return found


@dataclass
class Measured:
    """What runs of the same have shown."""

    # Rows per second by the clock.
    rates: list[float] = field(default_factory=list)
    # Seconds of processor time for a million rows, by WHO.
    cpu: list[dict[str, float]] = field(default_factory=list)

    def medians(self) -> dict[str, float]:
        """Of the processor times."""
        return {who: statistics.median(run[who] for run in self.cpu) for who in WHO}

    def at_best(self) -> float:
        """Rows per second where nothing else is done: as fast as the server alone allows, and all together."""
        used = self.medians()
        if used["loop"] > used["python"]:  # the loop and the server wait for each other
            return 1e6 / (used["loop"] + used["server"])
        return 1e6 / max(used["server"], sum(used.values()) / PROCESSORS)

    def line(self, name: str) -> str:
        """For the table."""
        parts = "".join(f"{seconds:>8.2f}" for seconds in self.medians().values())
        return f"{name:<28}{statistics.median(self.rates):>12,.0f}{parts}{self.at_best():>12,.0f}"


class Bench:
    """One server, one Spark session, and the streams `in` and `out`."""

    def __init__(self, server: Server, folder: Path, count: int, runs: int) -> None:
        self.folder = folder
        self.count = count
        self.runs = runs
        self.port = server.port
        self.family = Family(server)
        # redis-py parses in Python unless hiredis is installed, as it is with Headrace.
        plain = redis.ConnectionPool(port=server.port, parser_class=redis._parsers._RESP2Parser)
        self.plain_client = redis.Redis(connection_pool=plain)
        self.client = redis.Redis(port=server.port)
        self.spark = local_session("benchmark", master=f"local[{PROCESSORS}]", spark__sql__shuffle__partitions="2")
        self.results: dict[str, Measured] = {}

    # -- reading ---------------------------------------------------------------------------------

    def reading(self) -> None:
        """The source, and loops that read."""
        rows = self.rows()
        self.write_rows(rows, "in")
        self.read_to_noop()  # the first query pays for starting the workers
        loops = {"loop, reading": self.plain_client, "loop with hiredis, reading": self.client}
        for run in range(self.runs):
            whats = [(name, partial(self.read_by_loop, client)) for name, client in loops.items()]
            whats += [("source, noop", self.read_to_noop), ("source, Parquet", self.read_to_parquet)]
            for name, what in whats if run % 2 == 0 else reversed(whats):
                self.measure(name, self.count, what)
        self.compare("source, noop", *loops)

    def source(self) -> Any:
        """The stream as a DataFrame."""
        reader = self.spark.read.format("headrace").option("port", self.port).option("stream", "in")
        return reader.schema(f"_id string, {FIELDS}").load()

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

    # -- writing ---------------------------------------------------------------------------------

    def writing(self) -> None:
        """The sink, and loops that write."""
        rows = self.rows()
        self.write_rows(rows, "out")
        loops = {"loop, writing": self.plain_client, "loop with hiredis, writing": self.client}
        for run in range(self.runs):
            whats = [(name, partial(self.write_by_loop, client)) for name, client in loops.items()]
            whats.append(("sink", partial(self.write_rows, rows, "out")))
            whats.append(("sink, idempotency=none", partial(self.write_rows, rows, "out", idempotency="none")))
            for name, what in whats if run % 2 == 0 else reversed(whats):
                self.client.delete("out")
                self.measure(name, self.count, what)
        self.compare("sink", *loops)

    def rows(self) -> Any:
        """What is written, from Parquet."""
        path = self.folder / "rows"
        if not path.exists():
            made = self.spark.range(self.count).selectExpr(
                "id AS n", "concat('user-', id % 1000) AS user", "CAST(id % 10007 AS double) / 4 AS price"
            )
            made.write.parquet(str(path))
        return self.spark.read.parquet(str(path))

    def write_by_loop(self, client: redis.Redis) -> None:
        """What a program without Spark does; its rows are in memory."""
        pipe = client.pipeline(transaction=False)
        for n in range(self.count):
            pipe.xadd("out", {"n": n, "user": f"user-{n % 1000}", "price": n % 10007 / 4})
            if n % PIPELINE_SIZE == PIPELINE_SIZE - 1:
                pipe.execute()
        pipe.execute()

    def write_rows(self, rows: Any, key: str, **options: str) -> None:
        """Exactly once unless told otherwise."""
        writer = rows.write.format("headrace").options(port=self.port, stream=key, **options)
        writer.mode("append").save()

    # -- auditing --------------------------------------------------------------------------------

    def audit(self) -> None:
        """Append-only files as events, thrown away."""
        path = self.folder / "log.aof"
        path.write_bytes(b"".join(log_records(self.count)))
        self.scan_log(path)
        for _ in range(self.runs):
            self.measure("audit (commands)", self.count, partial(self.scan_log, path))

    def scan_log(self, path: Path) -> None:
        """All events."""
        events = read_events(self.spark, path, path.stat().st_size // (2 * PROCESSORS) + 1)
        events.write.format("noop").mode("overwrite").save()

    # -- memory ----------------------------------------------------------------------------------

    def memory(self) -> None:
        """What the driver holds while a query reads many entries in batches."""
        with Connection(Endpoint(port=self.port)) as connection:
            portion = 10_000
            for first in range(0, self.count, portion):
                adds = (pack_command((b"XADD", b"in", b"*", b"n", b"%d" % n)) for n in range(first, first + portion))
                connection.send(b"".join(adds))
                connection.receive(portion)
        reader = self.spark.readStream.format("headrace").options(port=self.port, stream="in", fields="n bigint")
        reader = reader.options(startingOffsets="earliest", maxEntriesPerTrigger=MEMORY_BATCH)
        writer = reader.load().writeStream.format("noop").option("checkpointLocation", str(self.folder / "memory"))
        print(
            f"{'rows':>12}{'Java':>10}{'heap used':>12}{'Python, driver':>16}{'Python, others':>16}   (MB)", flush=True
        )
        query = writer.trigger(availableNow=True).start()
        shown = -1
        while not query.awaitTermination(EVERY_S):
            tenth = self.rows_of(query) * 10 // self.count
            if tenth > shown:
                shown = tenth
                self.show_memory(query)
        self.show_memory(query)

    @staticmethod
    def rows_of(query: Any) -> int:
        """Rows read so far."""
        return sum(int(batch["numInputRows"]) for batch in query.recentProgress)

    def show_memory(self, query: Any) -> None:
        """One line: rows so far, and what the processes occupy."""
        rows = self.rows_of(query)
        runtime = self.spark._jvm.java.lang.Runtime.getRuntime()
        self.spark._jvm.java.lang.System.gc()
        used = runtime.totalMemory() - runtime.freeMemory()
        sizes = {who: sum(map(resident_bytes, pids)) for who, pids in self.family.pids().items()}
        numbers = (sizes["java"], used, sizes["loop"], sizes["python"])
        shown = "".join(
            f"{number / 2**20:>{width},.0f}" for number, width in zip(numbers, (10, 12, 16, 16), strict=True)
        )
        print(f"{rows:>12,}{shown}", flush=True)

    # -- measuring -------------------------------------------------------------------------------

    def measure(self, name: str, rows: int, what: Callable[[], None]) -> None:
        """One run."""
        before, started_s = self.family.cpu(), time.perf_counter()
        what()
        elapsed_s, after = time.perf_counter() - started_s, self.family.cpu()
        found = self.results.setdefault(name, Measured())
        found.rates.append(rows / elapsed_s)
        # A process that ended unnoticed takes its time with it.
        found.cpu.append({who: max(0.0, after[who] - before[who]) * 1e6 / rows for who in WHO})

    def compare(self, name: str, *loops: str) -> None:
        """Print the ratios to loops, by the clock (the median of the runs' ratios) and at best."""
        own = self.results[name]
        for loop in loops:
            other = self.results[loop]
            ratio = statistics.median(a / b for a, b in zip(own.rates, other.rates, strict=True))
            best = own.at_best() / other.at_best()
            print(f"{name} is {ratio:.1f} times the {loop}; at best {best:.1f} times")


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
    parser.add_argument("--only", nargs="+", choices=(*PARTS, "memory"), default=PARTS, metavar="PART")
    parser.add_argument(
        "--entries", type=int, help="default: " + ", ".join(f"{ENTRIES[part]:,} for {part}" for part in ENTRIES)
    )
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--server", choices=("headrace", "oracle"), default="headrace")
    arguments = parser.parse_args()
    for part in arguments.only:
        count = arguments.entries or ENTRIES[part]
        with tempfile.TemporaryDirectory() as name:
            server = Server(arguments.server, Path(name) / "server", "--appendonly", "yes")
            server.start()
            bench = Bench(server, Path(name), count, arguments.runs)
            try:
                getattr(bench, part)()
            finally:
                bench.spark.stop()
                server.stop()
        if bench.results:
            print(f"{part + ', rows/s':<28}{'':>12}{'CPU seconds for a million rows':>32}{'at best':>12}")
            print(f"{'':<40}{''.join(f'{who:>8}' for who in WHO)}")
            for row, measured in bench.results.items():
                print(measured.line(row), flush=True)


if __name__ == "__main__":
    main()
