"""SAQ: `python saq_jobs.py URL` runs jobs at once, with a time, and again after a failure, and aborts one."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

from saq import Queue, Status, Worker

DEADLINE_S = 60


async def add(context: dict[str, Any], *, left: int, right: int) -> int:
    return left + right


async def fail_once(context: dict[str, Any]) -> int:
    if context["job"].attempts == 1:
        raise ValueError("again")
    return int(context["job"].attempts)


async def main() -> None:
    queue = Queue.from_url(sys.argv[1])
    await queue.connect()
    worker = Worker(queue, functions=[add, fail_once], timers={"schedule": 1}, cancellation_hard_deadline_s=0.1)
    never = await queue.enqueue("add", left=9, right=9, scheduled=int(time.time()) + 3600)
    assert never is not None
    assert await queue.count("incomplete") == 1
    await never.abort("not needed")
    assert (await queue.job(never.key)).status == Status.ABORTING
    running = asyncio.create_task(worker.start())
    # A job with the key of one that waits is not queued twice.
    later = await queue.enqueue("add", left=3, right=4, key="later", scheduled=int(time.time()) + 1)
    assert later is not None
    assert await queue.enqueue("add", left=3, right=4, key="later") is None
    await later.refresh(DEADLINE_S)
    assert later.result == 7
    assert await queue.apply("add", left=2, right=3, timeout=DEADLINE_S) == 5
    assert await queue.apply("fail_once", retries=2, timeout=DEADLINE_S) == 2
    await worker.stop()
    await asyncio.gather(running, return_exceptions=True)
    await queue.disconnect()


asyncio.run(main())
