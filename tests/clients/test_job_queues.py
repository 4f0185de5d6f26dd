"""Job queues on lists, hashes, sets and sorted sets: the programs in job_queues/ end without an error."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.clients import require_client, require_program
from support.servers import Server

PROGRAMS = Path(__file__).parent / "job_queues"
DEADLINE_S = 120

# The module of the library, by program.
LIBRARIES = {
    "apscheduler_jobs": "apscheduler",
    "arq_jobs": "arq",
    "bullmq_jobs": "bullmq",
    "celery_tasks": "celery",
    "channels_layer": "channels_redis",
    "docket_tasks": "docket",
    "dramatiq_actors": "dramatiq",
    "huey_tasks": "huey",
    "prefect_messages": "prefect_redis",
    "redbeat_schedule": "redbeat",
    "rq_jobs": "rq",
    "saq_jobs": "saq",
    "streaq_tasks": "streaq",
    "taskiq_lists": "taskiq_redis",
}
# Modules that the programs share.
SHARED = {"rq_functions"}


def test_every_program_is_run() -> None:
    assert {path.stem for path in PROGRAMS.glob("*.py")} == LIBRARIES.keys() | SHARED


@pytest.mark.parametrize("program", LIBRARIES)
def test_a_job_queue_works(program: str, server: Server) -> None:
    require_client(LIBRARIES[program])
    done = subprocess.run(
        [sys.executable, str(PROGRAMS / f"{program}.py"), f"redis://127.0.0.1:{server.port}/0"],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert done.returncode == 0, done.stderr


def test_symfony_messenger_works(server: Server) -> None:
    program = str(PROGRAMS / "messenger.php")
    require_program("php", "-r", "exit(@include 'Symfony/Component/Messenger/Bridge/Redis/autoload.php' ? 0 : 1);")
    done = subprocess.run(["php", program, str(server.port)], capture_output=True, text=True, timeout=DEADLINE_S)
    assert done.returncode == 0, done.stdout + done.stderr
