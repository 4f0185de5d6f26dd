"""BullMQ for Python: `python bullmq_jobs.py URL` runs jobs at once, delayed, and with a priority."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from bullmq import Queue, Worker

NAMES = ["now", "later", "urgent"]


async def main() -> None:
    options: Any = {"connection": sys.argv[1]}
    queue, done, names = Queue("jobs", options), asyncio.Event(), []

    async def process(job: Any, token: str) -> int:
        names.append(job.name)
        if len(names) == len(NAMES):
            done.set()
        return 7

    worker = Worker("jobs", process, options)
    for name, choice in zip(NAMES, ({}, {"delay": 300}, {"priority": 1}), strict=True):
        await queue.add(name, {"x": 1}, choice)
    await asyncio.wait_for(done.wait(), 60)
    assert sorted(names) == sorted(NAMES)
    await worker.close()
    assert (await queue.getJobCounts("completed"))["completed"] == len(NAMES)
    await queue.close()


asyncio.run(main())
