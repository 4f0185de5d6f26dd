"""Saves in foreachBatch: a second one to the same stream must not be taken for a repeat of the first.

Both write rows of one query and batch, and nothing that stays the same when the batch is repeated tells them apart.
What changes with each run of the batch does: Spark numbers what it executes, the batch and each save in it. So the
first save leaves a note on the executor, and the task of another one that runs there finds it. A query or a driver that
starts again has other numbers, and its repeats are no second saves. A save that failed and is repeated within its batch
has another number as well, and is refused: what it wrote before it failed cannot be told from what another save wrote.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from pyspark import SparkFiles, TaskContext

from .errors import PipelineError

PREFIX = ".headrace-save-"


@dataclass(frozen=True)
class Save:
    """A `df.write` within foreachBatch, known by the numbers of the batch's execution and of its own."""

    folder: Path
    """On the executor, gone with the application."""
    batch: str
    number: str

    @classmethod
    def of_task(cls, context: TaskContext | None) -> Save | None:
        """The save that a task is part of; None outside of foreachBatch."""
        if context is None:
            return None
        batch, number = (context.getLocalProperty(f"spark.sql.execution.{name}") for name in ("root.id", "id"))
        if batch is None or number is None or context.getLocalProperty("streaming.sql.batchId") is None:
            return None
        return cls(Path(SparkFiles.getRootDirectory()), batch, number)

    def note(self, address: str, producer: str, stream: bytes) -> None:
        """This save writes to the stream of a server. Raises PipelineError if another save of the batch has."""
        digest = hashlib.sha256(b"\0".join([address.encode(), producer.encode(), stream])).hexdigest()[:24]
        path = self.folder / f"{PREFIX}{digest}-{self.batch}"
        if self._first_at(path) != self.number:
            name = stream.decode("utf-8", "replace")
            raise PipelineError(
                f"stream {name}: foreachBatch saves to it twice, and rows of the second save would be taken for "
                "repeats of the first: give each save a name of its own with the option producer, or save their union; "
                "a save that failed is repeated with its batch (start the query again), not within it"
            )
        for other in self.folder.glob(f"{PREFIX}{digest}-*"):
            if int(other.name.rpartition("-")[2]) < int(self.batch):
                other.unlink(missing_ok=True)

    def _first_at(self, path: Path) -> str:
        """The number of the save that was the first to leave its note there."""
        own = path.with_name(f".{os.getpid()}{path.name}")
        own.write_text(self.number)
        with contextlib.suppress(FileExistsError):
            os.link(own, path)
        own.unlink()
        return path.read_text()
