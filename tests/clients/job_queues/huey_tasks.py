"""Huey: `python huey_tasks.py URL` runs tasks at once and later, on lists and on sorted sets of priorities."""

from __future__ import annotations

import sys

from huey import PriorityRedisHuey, RedisHuey


def add(left: int, right: int) -> int:
    return left + right


for kind in (RedisHuey, PriorityRedisHuey):
    queue = kind(kind.__name__, url=sys.argv[1])
    task = queue.task()(add)
    consumer = queue.create_consumer(workers=2, periodic=False, initial_delay=0.05)
    consumer.start()
    now, later = task(1, 2), task.schedule((3, 4), delay=1)
    assert now.get(blocking=True, timeout=30) == 3
    assert later.get(blocking=True, timeout=30) == 7
    consumer.stop(graceful=True)
