"""Saves in foreachBatch: refuses a second save to the same stream, which would look like a repeat of the first.

Both saves write rows of the same query and batch, so nothing in the rows' identities distinguishes them. But Spark
gives each run of a batch, and each save in it, its own number. So the first save leaves a file with its number on the
executor, and a task of another save on that executor finds it. A restarted query or driver has new numbers, so its
repeats are not refused. A save that failed and is repeated within its batch has a new number as well, and is refused:
the rows that it wrote before it failed look like those of another save.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from pyspark import SparkFiles, TaskContext

from ..errors import PipelineError

PREFIX = ".headrace-save-"


@dataclass(frozen=True)
class Save:
    """A `df.write` within foreachBatch, identified by the execution numbers of the batch and of the save."""

    # A folder on the executor that is deleted with the application.
    folder: Path
    batch: str
    number: str

    @classmethod
    def of_task(cls, context: TaskContext | None) -> Save | None:
        """Returns the save that a task belongs to; None outside of foreachBatch."""
        if context is None:
            return None
        batch, number = (context.getLocalProperty(f"spark.sql.execution.{name}") for name in ("root.id", "id"))
        if batch is None or number is None or context.getLocalProperty("streaming.sql.batchId") is None:
            return None
        return cls(Path(SparkFiles.getRootDirectory()), batch, number)

    def note(self, address: str, producer: str, stream: bytes) -> None:
        """Notes that this save writes to a stream. Raises PipelineError if another save of the batch does."""
        digest = hashlib.sha256(b"\0".join([address.encode(), producer.encode(), stream])).hexdigest()[:24]
        path = self.folder / f"{PREFIX}{digest}-{self.batch}"
        if self._first_at(path) != self.number:
            name = stream.decode("utf-8", "replace")
            raise PipelineError(
                f"stream {name}: foreachBatch saves to it twice, and rows of the second save would be taken for "
                "repeats of the first: set a different option producer for each save, or save their union; "
                "to repeat a failed save, start the query again, which repeats its batch"
            )
        for other in self.folder.glob(f"{PREFIX}{digest}-*"):
            if int(other.name.rpartition("-")[2]) < int(self.batch):
                other.unlink(missing_ok=True)

    def _first_at(self, path: Path) -> str:
        """Returns the number of the save that made the file first, this one included."""
        own = path.with_name(f".{os.getpid()}{path.name}")
        own.write_text(self.number)
        with contextlib.suppress(FileExistsError):
            os.link(own, path)
        own.unlink()
        return path.read_text()
