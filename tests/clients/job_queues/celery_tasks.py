"""Celery: `python celery_tasks.py URL` sends tasks to a worker of its own, and checks their results."""

from __future__ import annotations

import os
import subprocess
import sys

from celery import Celery, group

URL = os.environ.get("BROKER_URL") or sys.argv[1]
app = Celery("celery_tasks", broker=URL, backend=URL)
DEADLINE_S = 60


@app.task(name="add")
def add(left: int, right: int) -> int:
    return left + right


@app.task(name="fail_twice", bind=True)
def fail_twice(self) -> int:
    if self.request.retries < 2:
        raise self.retry(countdown=0)
    return self.request.retries


def main() -> None:
    worker = subprocess.Popen(
        [sys.executable, "-m", "celery", "-A", "celery_tasks", "worker", "--pool", "threads", "--loglevel", "ERROR"],
        env={**os.environ, "BROKER_URL": URL},
        cwd=os.path.dirname(__file__),
    )
    try:
        assert add.delay(2, 3).get(timeout=DEADLINE_S) == 5
        assert group(add.s(number, number) for number in range(10))().get(timeout=DEADLINE_S) == [*range(0, 20, 2)]
        assert fail_twice.delay().get(timeout=DEADLINE_S) == 2
        assert add.apply_async((1, 1), countdown=0.5).get(timeout=DEADLINE_S) == 2
    finally:
        worker.terminate()
        worker.wait()


if __name__ == "__main__":
    main()
