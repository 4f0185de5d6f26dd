"""Loading the dataset: from the append-only file or dump.rdb at the start, and by DEBUG's reloads.

The load at the start has steps. Between them the server answers clients, with LOADING errors and INFO.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Final

from ...commands.execution.context import Context
from ...persistence.aof import AppendOnlyLog
from ...persistence.errors import LoadError, LogError, RdbError, explain
from ...persistence.rdb.file import write_file
from ...store.database import Database
from ...store.errors import GenericError
from ...store.image import keys_now
from ..configuration.config import Config
from .logkeeper import LogKeeper
from .paths import dump_path
from .replay import Replay, loading

logger = logging.getLogger(__name__)

# Time between two progress lines of a long load in the server log.
PROGRESS_INTERVAL_MS: Final = 5000
BLOCK_SIZE: Final = 256 * 1024


class Loading:
    """The loads of one server, and the progress of the present one. Sizes are bytes."""

    def __init__(
        self,
        config: Config,
        context: Context,
        log_keeper: LogKeeper,
        clock: Callable[[], int],
        refresh_clients: Callable[[], None],
    ) -> None:
        self._config = config
        self._context = context
        self._log_keeper = log_keeper
        self._clock = clock
        # Called when a load begins and ends: during it, every command is checked.
        self._refresh_clients = refresh_clients
        self.started_ms = 0
        self.total_size = 0
        self.read_size = 0
        self._logged_ms = 0
        # Keys of the last RDB file loaded.
        self.keys_loaded = 0
        # Keys it left out because they had expired.
        self.keys_expired = 0

    @property
    def eta_s(self) -> int:
        """Estimated seconds until the present load ends."""
        elapsed_ms = self._clock() - self.started_ms
        left_size = self.total_size - self.read_size
        return elapsed_ms * left_size // (self.read_size * 1000) if self.read_size else 1

    def _begin(self, total_size: int) -> None:
        self.started_ms = self._logged_ms = self._clock()
        self.read_size, self.total_size = 0, total_size

    def _note(self, read_size: int, total_size: int) -> None:
        self.read_size, self.total_size = read_size, total_size
        now_ms = self._clock()
        if now_ms - self._logged_ms >= PROGRESS_INTERVAL_MS:
            self._logged_ms = now_ms
            logger.info("Loading: %d of %d bytes, %d seconds to go", read_size, total_size, self.eta_s)

    # -- at the start ----------------------------------------------------------------------------

    def steps(self, log: AppendOnlyLog | None) -> Iterator[None]:
        """Fill the empty store from the log, or from dump.rdb without one. Raises LogError, OSError."""
        self._context.now_ms = self._clock()
        self._begin(0)
        with loading(self._context) as replay:
            self._refresh_clients()
            for _ in self._dump_steps(replay) if log is None else self._log_steps(log, replay):
                replay.pause()
                yield
                replay.resume()
        self._refresh_clients()

    def _log_steps(self, log: AppendOnlyLog, replay: Replay) -> Iterator[None]:
        result = yield from log.load_steps(replay.apply, self._note, replay)
        elapsed_s = (self._clock() - self.started_ms) / 1000
        logger.info(
            "DB loaded from append only file: %d records, %d keys of an RDB base, %.3f seconds",
            result.records_count,
            result.keys_count,
            elapsed_s,
        )
        dump = dump_path(self._config)
        if not result.records_count + result.keys_count and self._log_keeper.files.size(dump) is not None:
            logger.warning(
                "%s was not read: with appendonly yes the dataset is in the log, which is empty. To load this "
                "file, start with appendonly no, then run CONFIG SET appendonly yes and CONFIG REWRITE",
                dump,
            )

    def _note_unread_log(self) -> None:
        """Warn of a log that is not loaded: a user who forgot `appendonly yes` could think it lost, and then really
        lose it.
        """
        log = self._log_keeper.new_log()
        try:
            if log.size_on_disk():
                logger.warning(
                    "%s was not read: with appendonly no the dataset is in dump.rdb. To serve the log, stop, and start "
                    "with appendonly yes; CONFIG SET appendonly yes would replace it by the present dataset",
                    log.manifest_path,
                )
        except (LogError, OSError) as error:
            logger.warning("With appendonly no the dataset is in dump.rdb; the log was not read: %s", explain(error))

    def _dump_steps(self, replay: Replay) -> Iterator[None]:
        self._note_unread_log()
        path = dump_path(self._config)
        size = self._log_keeper.files.size(path)
        if size is None:
            return
        self.total_size = size
        reader = replay.open_rdb(self._blocks(path), drops_expired=True)
        try:
            for key in reader:
                replay.put(key)
                yield
        except RdbError as error:
            advice = error.advice or "restore this file from a backup, or move it away to start empty"
            raise LoadError(f"{error} ({path} at offset {reader.offset}); {advice}") from error
        self.keys_loaded, self.keys_expired = reader.keys_count, reader.expired_count
        elapsed_s = (self._clock() - self.started_ms) / 1000
        logger.info(
            "Done loading RDB, keys loaded: %d, keys expired: %d, keys of other types left out: %d.",
            reader.keys_count,
            reader.expired_count,
            reader.foreign_count,
        )
        logger.info("DB loaded from disk: %.3f seconds", elapsed_s)

    def _blocks(self, path: str) -> Iterator[bytes]:
        read_size = 0
        for block in self._log_keeper.files.read_blocks(path, BLOCK_SIZE):
            yield block
            read_size += len(block)
            self._note(read_size, self.total_size)

    # -- DEBUG -----------------------------------------------------------------------------------

    def reload_log(self, log: AppendOnlyLog) -> None:
        """DEBUG LOADAOF: fill the store from the log. Raises GenericError."""
        failed = GenericError(b"Error trying to load the AOF files, check server logs.")
        self._refill(lambda replay: log.load(replay.apply, target=replay), failed)

    def reload_dataset(self) -> None:
        """DEBUG RELOAD: write the dataset to an RDB file in memory and load it. Raises GenericError."""
        context = self._context
        blocks = list(write_file(keys_now(context.store), {}, now_ms=context.now_ms, compress=False))

        def fill(replay: Replay) -> None:
            for key in replay.open_rdb(iter(blocks)):
                replay.put(key)

        self._refill(fill, GenericError(b"Error trying to load the RDB dump, check server logs."))

    def _refill(self, fill: Callable[[Replay], object], failed: GenericError) -> None:
        """Replace the dataset by what `fill` loads. If that fails, the old dataset stays: half of the new one is not
        served.

        Readers blocked on its keys are run again afterwards.
        """
        databases = self._context.store.databases
        kept = [Database(db.index, db.garbage) for db in databases]
        for db, spare in zip(databases, kept, strict=True):
            db.swap_with(spare)
        try:
            with loading(self._context) as replay:
                fill(replay)
        except (LogError, OSError) as error:
            for db, spare in zip(databases, kept, strict=True):
                db.swap_with(spare)
            logger.error("%s", explain(error))
            raise failed from error
        finally:
            for spare in kept:
                spare.clear()
