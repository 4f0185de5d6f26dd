"""docket: `python docket_tasks.py URL` runs a task at once, and one with a time."""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime, timedelta

from docket import Docket, Worker

results: list[int] = []


async def add(left: int, right: int) -> None:
    results.append(left + right)


async def main() -> None:
    async with Docket(name="tasks", url=sys.argv[1]) as docket:
        docket.register(add)
        await docket.add(add)(1, 2)
        await docket.add(add, when=datetime.now(UTC) + timedelta(seconds=0.5))(3, 4)
        async with Worker(docket) as worker:
            await asyncio.wait_for(worker.run_until_finished(), 60)
    assert results == [3, 7]


asyncio.run(main())
