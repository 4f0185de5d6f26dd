"""streaq: `python streaq_tasks.py URL` runs tasks at once, delayed, retried, after each other, and aborts one."""

from __future__ import annotations

import sys

import anyio
from streaq import StreaqRetry, TaskStatus, Worker

DEADLINE_S = 60
worker = Worker(redis_url=sys.argv[1], handle_signals=False, priorities=["low", "high"])


@worker.task
async def add(left: int, right: int = 1) -> int:
    return left + right


@worker.task(max_tries=3)
async def fail_once() -> int:
    if fail_once.context.tries == 1:
        raise StreaqRetry("again", delay=0)
    return fail_once.context.tries


async def main() -> None:
    async with anyio.create_task_group() as group:
        await group.start(worker.run_async)
        at_once = await add.enqueue(2, 3)
        urgent = await add.enqueue(3, 4).start(priority="high")
        delayed = await add.enqueue(4, 5).start(delay=0.2)
        after = await add.enqueue(1).start(after=[at_once.id, delayed.id])
        again = await fail_once.enqueue()
        never = await add.enqueue(9, 9).start(delay=3600)
        assert await never.status() == TaskStatus.SCHEDULED
        assert await never.abort()
        tasks = [at_once, urgent, delayed, after, again]
        results = [(await task.result(DEADLINE_S)).result for task in tasks]
        assert results == [5, 7, 9, 2, 2], results
        assert await worker.queue_size() == 0
        group.cancel_scope.cancel()


anyio.run(main)
