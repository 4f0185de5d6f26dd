"""A query in its own process, for tests that kill it: `spark_query.py MODE PORT FOLDER BATCH_SIZE`."""

from __future__ import annotations

import sys
from typing import Any

from headrace.pipeline.__main__ import main
from headrace.pipeline.session import local_session

FAST_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def archive(port: str, folder: str, batch_size: str) -> int:
    """Copies a stream to Parquet."""
    return main(["archive", "--stream", "in", "--path", f"{folder}/out", "--port", port, "--max-entries", batch_size])


def stream(spark: Any, port: str, folder: str, options: dict[str, str]) -> int:
    """Copies a stream to another one."""
    reader = spark.readStream.format("headrace").options(stream="in", port=port, fields="n int", **options)
    writer = (
        reader.load().select("n").writeStream.format("headrace").option("checkpointLocation", f"{folder}/checkpoint")
    )
    writer.options(stream="out", port=port).trigger(availableNow=True).start().awaitTermination()
    return 0


def run(mode: str, port: str, folder: str, batch_size: str) -> int:
    """Runs the query and returns the exit code. A failing task is tried four times: workers may be killed as well."""
    spark = local_session(
        "kills",
        master="local[2,4]",
        spark__driver__memory="1g",
        spark__driver__extraJavaOptions=FAST_START,
        spark__sql__shuffle__partitions="2",
    )
    if mode == "archive":
        return archive(port, folder, batch_size)
    options = {"maxEntriesPerTrigger": batch_size, "pageSize": "200"}
    if mode == "queue":
        options |= {"mode": "queue", "group": "g", "minIdle": "5s"}
    else:
        options |= {"startingOffsets": "earliest"}
    return stream(spark, port, folder, options)


if __name__ == "__main__":
    sys.exit(run(*sys.argv[1:]))
