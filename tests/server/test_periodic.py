"""The timer of the periodic work, and work that continues between two turns."""

from __future__ import annotations

import asyncio

import pytest

from headrace.server.configuration.config import Config
from headrace.server.periodic import PeriodicWork


async def test_work_continues_once_however_often_that_was_asked_for() -> None:
    seen: list[int] = []
    periodic = PeriodicWork(Config(), lambda: 7, lambda now_ms, is_new_second: None)
    periodic.start()
    done = asyncio.Event()
    for _ in range(3):
        periodic.continue_soon("work", 0, lambda now_ms: (seen.append(now_ms), done.set()))
    await done.wait()
    await asyncio.sleep(0)
    assert seen == [7]
    done.clear()
    periodic.continue_soon("work", 0, lambda now_ms: (seen.append(now_ms), done.set()))
    await done.wait()
    assert seen == [7, 7]
    periodic.stop()


async def test_no_work_continues_after_the_timer_was_stopped_or_while_it_is_paused() -> None:
    seen: list[int] = []
    periodic = PeriodicWork(Config(), lambda: 7, lambda now_ms, is_new_second: None)
    periodic.continue_soon("work", 0, seen.append)
    periodic.start()
    periodic.continue_soon("work", 0, seen.append)
    periodic.stop()
    periodic.continue_soon("work", 0, seen.append)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    periodic.start()
    periodic.is_paused = True
    periodic.continue_soon("work", 0, seen.append)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    periodic.stop()
    assert seen == []


async def test_work_that_fails_is_logged_and_may_continue(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[int] = []
    done = asyncio.Event()
    periodic = PeriodicWork(Config(), lambda: 7, lambda now_ms, is_new_second: None)

    def fail(now_ms: int) -> None:
        done.set()
        raise RuntimeError

    periodic.start()
    periodic.continue_soon("work", 0, fail)
    await done.wait()
    periodic.continue_soon("work", 0, seen.append)
    while not seen:
        await asyncio.sleep(0)
    periodic.stop()
    assert seen == [7]
    assert "internal error in the periodic work" in caplog.text
