"""A loop and a worker thread that move only when the test says so: every run of a seed takes the same steps."""

from __future__ import annotations

import asyncio
import threading
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from typing import Any, NoReturn

from support.simulated_disk import PowerLoss


class Handle:
    """The loop's handle of a scheduled call."""

    def __init__(self, due_ms: float, call: Callable[[], object]) -> None:
        self.due_ms = due_ms
        self._call = call
        self.is_cancelled = False

    def run(self) -> None:
        """Call, unless it was cancelled after it had become due."""
        if not self.is_cancelled:
            self._call()

    def cancel(self) -> None:
        """Do not call."""
        self.is_cancelled = True


class SteppingLoop:
    """The few methods of an event loop that the server uses, on the test's clock."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._ready: deque[Callable[[], object]] = deque()
        self._timers: list[Handle] = []
        # By signal number.
        self.signal_handlers: dict[int, Callable[[], object]] = {}
        # What asyncio would have logged.
        self.errors: list[dict[str, Any]] = []

    def call_soon(self, call: Callable[..., object], *arguments: object, context: object = None) -> None:
        """Call in the next turn."""
        self._ready.append(lambda: call(*arguments))

    call_soon_threadsafe = call_soon

    def call_later(self, delay_s: float, call: Callable[..., object], *arguments: object) -> Handle:
        """Call after this delay on the test's clock."""
        handle = Handle(self._clock() + delay_s * 1000, lambda: call(*arguments))
        self._timers.append(handle)
        return handle

    def is_closed(self) -> bool:
        """Returns False."""
        return False

    # -- for coroutines --------------------------------------------------------------------------

    def create_future(self) -> asyncio.Future[Any]:
        """A future whose callbacks run here."""
        return asyncio.Future(loop=self)  # type: ignore[arg-type]

    def create_task(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """A task whose steps run here."""
        return asyncio.Task(coroutine, loop=self)  # type: ignore[arg-type]

    async def create_connection(self, factory: Callable[[], object], host: str, port: int) -> NoReturn:
        """Raises ConnectionRefusedError: no other server runs."""
        raise ConnectionRefusedError

    def get_debug(self) -> bool:
        """Returns False."""
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Record the error for the test."""
        self.errors.append(context)

    def add_signal_handler(self, number: int, call: Callable[..., object], *arguments: object) -> None:
        """Signals come when the test calls these."""
        self.signal_handlers[number] = lambda: call(*arguments)

    # -- what the test does ----------------------------------------------------------------------

    def run(self) -> None:
        """Run everything that is ready or due."""
        self._take_due()
        while self._ready:
            self._ready.popleft()()

    def turn(self) -> bool:
        """Run what is due, or was ready before, as one turn of asyncio does; whether there is more."""
        self._take_due()
        for _ in range(len(self._ready)):
            self._ready.popleft()()
        return bool(self._ready)

    def next_due_ms(self) -> float | None:
        """When the next timer is due; None without one."""
        return min((each.due_ms for each in self._timers if not each.is_cancelled), default=None)

    def _take_due(self) -> None:
        now_ms = self._clock()
        if not any(each.due_ms <= now_ms for each in self._timers):
            return
        due = [each for each in self._timers if each.due_ms <= now_ms and not each.is_cancelled]
        self._timers = [each for each in self._timers if each.due_ms > now_ms and not each.is_cancelled]
        self._ready.extend(each.run for each in sorted(due, key=lambda each: each.due_ms))

    @contextmanager
    def running(self) -> Iterator[None]:
        """`asyncio.get_running_loop()` returns this loop."""
        before = events._get_running_loop()
        events._set_running_loop(self)  # type: ignore[arg-type]
        try:
            yield
        finally:
            events._set_running_loop(before)


class DrivenFuture(Future[Any]):
    """A caller that waits for it lets the worker run until it is done."""

    def __init__(self, worker: SteppingExecutor) -> None:
        super().__init__()
        self._worker = worker

    def _drive(self) -> None:
        while not self.done() and self._worker.step():
            continue

    def result(self, timeout: float | None = None) -> Any:
        """See `Future`."""
        self._drive()
        return super().result(0)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """See `Future`."""
        self._drive()
        return super().exception(0)


class SteppingExecutor(Executor):
    """One worker thread. `step` lets it run to its next `pause`, and the test waits meanwhile."""

    def __init__(self) -> None:
        self._tasks: deque[tuple[DrivenFuture, Callable[[], object]]] = deque()
        self._go = threading.Semaphore(0)
        self._paused = threading.Semaphore(0)
        self._thread: threading.Thread | None = None
        self._is_busy = False
        self._is_ended = False
        # What ended the thread: the end of the world, which is raised again in the test.
        self._crash: BaseException | None = None

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to do."""
        return not self._is_busy and not self._tasks

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> DrivenFuture:
        """Queue a task."""
        future = DrivenFuture(self)
        self._tasks.append((future, lambda: fn(*args, **kwargs)))
        return future

    def step(self) -> bool:
        """One step of the first task; False if there is none."""
        if self.is_idle:
            return False
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, daemon=True)
            self._thread.start()
        self._is_busy = True
        self._go.release()
        self._paused.acquire()
        if self._crash is not None:
            raise self._crash
        return True

    def pause(self) -> None:
        """Called at each boundary: if this is the worker, the test continues until the next step."""
        if threading.current_thread() is self._thread:
            self._paused.release()
            self._go.acquire()
            if self._is_ended:
                raise PowerLoss

    def _work(self) -> None:
        self._go.acquire()
        while not self._is_ended:
            future, task = self._tasks.popleft()
            try:
                answer = task()
            except Exception as error:
                future.set_exception(error)
            except BaseException as crash:
                self._crash = crash
                self._paused.release()
                return
            else:
                future.set_result(answer)
            self._is_busy = False
            self._paused.release()
            self._go.acquire()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Run everything queued first, unless it is cancelled."""
        if not cancel_futures:
            while self.step():
                continue
        self._is_ended = True
        self._crash = None
        if self._thread is not None:
            self._go.release()
            self._thread.join()
            self._thread = None
