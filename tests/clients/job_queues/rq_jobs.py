"""RQ: `python rq_jobs.py URL` runs jobs that follow each other, fail, and wait for a time."""

from __future__ import annotations

import sys
from datetime import timedelta

import redis
import rq_functions
from rq import Queue, Retry, SimpleWorker

with redis.from_url(sys.argv[1]) as connection:
    queue = Queue(connection=connection)
    first = queue.enqueue(rq_functions.add, 1, 2)
    second = queue.enqueue(rq_functions.add, 3, 4, depends_on=first)
    failing = queue.enqueue(rq_functions.fail, retry=Retry(max=1))
    later = queue.enqueue_in(timedelta(seconds=0), rq_functions.add, 5, 6)
    SimpleWorker([queue], connection=connection).work(burst=True, with_scheduler=True, logging_level="ERROR")
    assert [job.return_value() for job in (first, second, later)] == [3, 7, 11]
    assert failing.id in queue.failed_job_registry.get_job_ids()
    assert len(queue.finished_job_registry) == 3
