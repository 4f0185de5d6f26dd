"""celery-redbeat: `python redbeat_schedule.py URL` keeps a schedule, sends what is due, and holds its lock."""

from __future__ import annotations

import sys
from datetime import timedelta
from types import SimpleNamespace

from celery import Celery
from celery.schedules import schedule
from redbeat import RedBeatScheduler, RedBeatSchedulerEntry
from redbeat.schedulers import acquire_distributed_beat_lock, get_redis

app = Celery("shop", broker=sys.argv[1], set_as_current=True)
app.conf.redbeat_redis_url = sys.argv[1]
app.conf.beat_schedule = {"static": {"task": "count", "schedule": timedelta(hours=1)}}

due = RedBeatSchedulerEntry("due", "pack", schedule(60), args=["tea"], app=app).save()
due.reschedule(app.now() - timedelta(hours=1))
later = RedBeatSchedulerEntry("later", "pack", schedule(3600), app=app).save()
later.reschedule()
scheduler = RedBeatScheduler(app, lazy=False)
acquire_distributed_beat_lock(SimpleNamespace(scheduler=scheduler))
client = get_redis(app)
assert client.exists(scheduler.lock_key)
assert client.smembers(app.redbeat_conf.statics_key) >= {"static"}
assert "due" in scheduler.schedule
assert "later" not in scheduler.schedule
scheduler.tick()
# The tasks that were due are in the queue of the workers, and their entries have moved to the next time.
assert client.llen("celery") >= 1
assert RedBeatSchedulerEntry.from_key(due.key, app=app).last_run_at is not None
assert client.zscore(app.redbeat_conf.schedule_key, due.key) > app.now().timestamp()
assert later.rank is not None
later.delete()
assert later.rank is None
scheduler.close()
assert not client.exists(scheduler.lock_key)
