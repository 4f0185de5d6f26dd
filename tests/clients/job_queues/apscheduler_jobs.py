"""APScheduler: `python apscheduler_jobs.py URL` keeps jobs in a server, runs what is due, and finds the rest again."""

from __future__ import annotations

import sys
import threading
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

from apscheduler.events import EVENT_JOB_REMOVED
from apscheduler.jobstores.base import ConflictingIdError
from apscheduler.jobstores.redis import RedisJobStore
from apscheduler.schedulers.background import BackgroundScheduler

DEADLINE_S = 60
packed = threading.Event()
removed = threading.Event()  # a scheduler that stops between the run of a job and its removal would keep the job


def pack() -> None:
    packed.set()


def started(paused: bool) -> BackgroundScheduler:
    scheduler = BackgroundScheduler(jobstores={"default": RedisJobStore(port=urlsplit(sys.argv[1]).port)})
    scheduler.start(paused=paused)
    return scheduler


first = started(paused=False)
first.add_listener(lambda event: removed.set(), EVENT_JOB_REMOVED)
first.add_job("__main__:pack", "date", id="once", misfire_grace_time=DEADLINE_S)
first.add_job("__main__:pack", "interval", hours=1, id="hourly")
first.add_job("__main__:pack", "date", run_date=datetime.now(UTC) + timedelta(days=1), id="tomorrow")
assert packed.wait(DEADLINE_S)
assert removed.wait(DEADLINE_S)
first.shutdown()

second = started(paused=True)
assert [job.id for job in second.get_jobs()] == ["hourly", "tomorrow"]
try:
    second.add_job("__main__:pack", "interval", hours=2, id="hourly")
except ConflictingIdError:
    second.reschedule_job("hourly", trigger="interval", days=2)
assert [job.id for job in second.get_jobs()] == ["tomorrow", "hourly"]
second.pause_job("tomorrow")
assert second.get_job("tomorrow").next_run_time is None
second.remove_job("hourly")
second.remove_all_jobs()
assert second.get_jobs() == []
second.shutdown()
