"""arq: `python arq_jobs.py URL` runs a job at once, and one that is deferred."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from arq import create_pool
from arq.connections import RedisSettings
from arq.worker import Worker


async def add(context: dict[str, Any], left: int, right: int) -> int:
    return left + right


async def main() -> None:
    settings = RedisSettings.from_dsn(sys.argv[1])
    pool = await create_pool(settings)
    now = await pool.enqueue_job("add", 1, 2)
    later = await pool.enqueue_job("add", 5, 6, _defer_by=0.3)
    worker = Worker([add], redis_settings=settings, burst=True, poll_delay=0.1, handle_signals=False)
    await worker.main()
    assert now is not None
    assert later is not None
    assert await now.result(timeout=10) == 3
    assert await later.result(timeout=10) == 11
    await worker.close()
    await pool.aclose()


asyncio.run(main())
