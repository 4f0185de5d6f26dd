"""Drivers and workers are killed at random moments: no entry is lost or duplicated.

HEADRACE_TEST_PIPELINE_KILLS says how often each is killed in each mode (`KILLS=20 .ci/extra crash-pipeline`);
without it, each is killed once in one mode.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from support.servers import Server
from support.spark_kills import Query
from support.spark_streams import connect

KILLS = int(os.environ.get("HEADRACE_TEST_PIPELINE_KILLS", "1"))
# A long run may take longer than other tests.
pytestmark = [pytest.mark.spark, pytest.mark.timeout(900 + 120 * KILLS)]
MODES = ["stream", "queue", "archive"] if "HEADRACE_TEST_PIPELINE_KILLS" in os.environ else ["stream"]
BATCH_SIZE = 1000
BATCHES_PER_KILL = 3


@pytest.mark.parametrize("mode", MODES)
def test_killed_queries_lose_and_repeat_nothing(mode: str, spark: Any, headrace: Server, tmp_path: Path) -> None:
    count = BATCH_SIZE * (BATCHES_PER_KILL * 2 * KILLS + 2)
    with connect(headrace) as connection:
        for first in range(0, count, 10_000):
            connection.call_all([("XADD", "in", "*", "n", n) for n in range(first, min(first + 10_000, count))])
        connection.call("XGROUP", "CREATE", "in", "g", "0")
    seed = random.randrange(2**32)
    query = Query(mode, headrace.port, tmp_path, BATCH_SIZE, seed)
    query.run({"driver": KILLS, "worker": KILLS})
    seen = Counter(archived(spark, tmp_path) if mode == "archive" else written(headrace))
    lost = count - len(seen)
    repeated = sum(seen.values()) - len(seen)
    result = f"{mode}: kills {query.kills}, starts {query.starts}, lost {lost}, repeated {repeated}, seed {seed}"
    print(f"\n{result}")
    assert query.kills == {"driver": KILLS, "worker": KILLS}, result
    assert lost == 0, result
    # Queue mode delivers at least once: a worker that dies while reading has released its entries.
    assert repeated == 0 or mode == "queue", result


def archived(spark: Any, folder: Path) -> list[int]:
    return [int(row[0]) for row in spark.read.parquet(str(folder / "out")).selectExpr("_fields['n']").collect()]


def written(server: Server) -> list[int]:
    with connect(server) as connection:
        return [int(pairs[1]) for _, pairs in connection.call("XRANGE", "out", "-", "+")]
