"""A function that waits for its input in the middle of its work: it runs on a thread of its own, but only while its
caller waits for it.

So it is a part of the caller, and no two threads ever work at one time. It needs no locks, and its steps are as
deterministic as calls.
"""

from __future__ import annotations

import threading
from collections.abc import Callable


class Abandoned(BaseException):
    """Raised by `Lockstep.pause` in a function that is not continued any more."""


class Lockstep:
    """Runs `function` in parts. Call `abandon` if it is not run to its end."""

    def __init__(self, function: Callable[[], None]) -> None:
        self._function = function
        self._worker: threading.Thread | None = None
        # Released when the function, or its caller, may continue.
        self._go = threading.Semaphore(0)
        self._paused = threading.Semaphore(0)
        self._failure: Exception | None = None
        self._is_abandoned = False
        self.has_ended = False

    def run(self) -> bool:
        """Let the function run until it pauses or ends. Returns whether it has ended. Raises what it raises."""
        assert not self.has_ended
        if self._worker is None:
            self._worker = threading.Thread(target=self._work, name="lockstep", daemon=True)
            self._worker.start()
        else:
            self._go.release()
        self._paused.acquire()
        if self._failure is not None:
            raise self._failure
        return self.has_ended

    def pause(self) -> None:
        """Called by the function: let the caller continue until the next `run`."""
        self._paused.release()
        self._go.acquire()
        if self._is_abandoned:
            raise Abandoned

    def abandon(self) -> None:
        """Let the function end where it has paused."""
        if self._worker is None or self.has_ended:
            self.has_ended = True
            return
        self._is_abandoned = True
        self._go.release()
        self._paused.acquire()

    def _work(self) -> None:
        try:
            self._function()
        except Abandoned:
            pass  # the caller knows
        except Exception as failure:
            self._failure = failure
        finally:
            self.has_ended = True
            self._paused.release()
