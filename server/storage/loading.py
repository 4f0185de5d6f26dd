"""Loading the dataset: from the append-only file or dump.rdb at the start, and by DEBUG's reloads.

The load at the start has steps. Between them the server answers clients, with LOADING errors and INFO.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from typing import Final

from ...commands.execution.context import Context
from ...commands.execution.library_set import LibrarySet
from ...persistence.aof import AppendOnlyLog
from ...persistence.errors import LoadError, LogError, RdbError, explain
from ...persistence.placing import StreamPlace
from ...persistence.rdb.file import in_steps, own_aux, write_file
from ...persistence.rdb.values import packing
from ...store.database import Database
from ...store.errors import GenericError
from ...store.image import parts_now
from ..configuration.config import Config
from .logkeeper import LogKeeper
from .paths import backup_folder, dump_path
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
        # The place of the dataset in a replication stream, and the keys that the start left out of dump.rdb: replicas
        # that continue have them still.
        self.place: StreamPlace | None = None
        self.keys_left_out: list[tuple[int, bytes]] = []

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
        if log is None:
            self._note_unread_log()
        begins_log = log is not None and self._config.aof_start_from_rdb and self._has_dump() and log.is_absent()
        with loading(self._context) as replay:
            self._refresh_clients()
            for _ in self._sources(None if begins_log else log, replay):
                replay.pause()
                yield
                replay.resume()
        if log is not None and begins_log:
            log.begin_with_rdb(self._first_base(replay))
            logger.info("The append only file starts with the dataset of %s", dump_path(self._config))
        self._refresh_clients()

    def _sources(self, log: AppendOnlyLog | None, replay: Replay) -> Iterator[None]:
        if log is None:
            yield from self._dump_steps(replay)
        else:
            yield from self._log_steps(log, replay)

    def _first_base(self, replay: Replay) -> Iterator[bytes]:
        """The base of a log that begins with dump.rdb: the file as it is, or without what the load left out of it."""
        if not replay.keys_left_out:
            return self._log_keeper.files.read_blocks(dump_path(self._config), BLOCK_SIZE)
        config, now_ms = self._config, self._context.now_ms
        aux = own_aux(now_ms=now_ms, used_memory=0, is_aof_base=True)
        parts = parts_now(self._context.store, packing(compress=config.rdbcompression), now_ms=now_ms)
        return write_file(
            parts,
            aux,
            now_ms=now_ms,
            compress=config.rdbcompression,
            has_checksum=config.rdbchecksum,
            libraries=self._context.libraries.codes,
        )

    def _has_dump(self) -> bool:
        return self._log_keeper.files.size(dump_path(self._config)) is not None

    def _log_steps(self, log: AppendOnlyLog, replay: Replay) -> Iterator[None]:
        result = yield from log.load_steps(replay.apply, self._note, replay)
        self._take_place(result.place, replay)
        if not log.is_absent():
            elapsed_s = (self._clock() - self.started_ms) / 1000
            logger.info(
                "DB loaded from append only file: %d records, %d keys of an RDB base, %.3f seconds",
                result.records_count,
                result.keys_count,
                elapsed_s,
            )
        if not result.records_count + result.keys_count and self._has_dump():
            logger.warning(
                "%s was not read: with appendonly yes the dataset is in the log, which is empty. Copy this file now: "
                "the next snapshot, also that of a stop, replaces it. To load it, stop, put the copy back, move the "
                "folder %s away, and start with aof-start-from-rdb yes",
                dump_path(self._config),
                os.path.dirname(log.manifest_path),
            )

    def _take_place(self, place: StreamPlace | None, replay: Replay) -> None:
        """Note the place of the dataset, if what was loaded is that dataset."""
        if place is not None and replay.is_exact and place.db_index < len(self._context.store.databases):
            self.place = place

    def _note_unread_log(self) -> None:
        """Warn of a log that is not loaded: a user who forgot `appendonly yes` could think it lost, and then really
        lose it.
        """
        try:
            log = self._log_keeper.new_log()
            path = log.path_on_disk()
            if path is not None and log.has_base_in(backup_folder(self._config)):
                logger.warning(
                    "%s was not read: with appendonly no the dataset is in dump.rdb. If this log was kept for a BACKUP "
                    "only, which the end of the server has interrupted, remove the folder %s, and run BACKUP CLEANUP",
                    path,
                    os.path.dirname(path),
                )
            elif path is not None:
                logger.warning(
                    "%s was not read: with appendonly no the dataset is in dump.rdb. To serve the log, stop, and start "
                    "with appendonly yes; CONFIG SET appendonly yes would replace it by the present dataset",
                    path,
                )
        except (LogError, OSError) as error:
            logger.warning("With appendonly no the dataset is in dump.rdb; the log was not read: %s", explain(error))

    def _dump_steps(self, replay: Replay) -> Iterator[None]:
        path = dump_path(self._config)
        size = self._log_keeper.files.size(path)
        if size is None:
            return
        self.total_size = size
        # A replica keeps expired keys until the primary removes them.
        reader = replay.open_rdb(self._blocks(path), drops_expired=not self._config.replicaof)
        try:
            for _ in in_steps(reader.parts(), replay):
                yield
        except RdbError as error:
            advice = error.advice or "restore this file from a backup, or move it away to start empty"
            raise LoadError(f"{error} ({path} at offset {reader.offset}); {advice}") from error
        self.keys_loaded, self.keys_expired = reader.keys_count, reader.expired_count
        self._take_place(reader.place, replay)
        self.keys_left_out = reader.expired_keys
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

    def reload_dataset(self, *, from_disk: bool, flushes: bool, merges: bool) -> None:
        """DEBUG RELOAD: load dump.rdb, or write the dataset to an RDB file in memory and load it. Raises GenericError.

        Without `flushes` the present keys stay. A key that is also in the file is then an error, or replaced with
        `merges`.
        """
        context = self._context
        path = dump_path(self._config)
        blocks: Iterator[bytes]
        if from_disk:
            blocks = self._log_keeper.files.read_blocks(path, BLOCK_SIZE)
        else:
            parts = parts_now(context.store, packing(compress=False), now_ms=context.now_ms)
            libraries = context.libraries.codes
            blocks = iter(list(write_file(parts, {}, now_ms=context.now_ms, compress=False, libraries=libraries)))

        def fill(replay: Replay) -> None:
            reader = replay.open_rdb(blocks, drops_expired=from_disk)
            for _ in in_steps(reader.parts(), replay):
                continue
            self.keys_loaded, self.keys_expired = reader.keys_count, reader.expired_count

        failed = GenericError(b"Error trying to load the RDB dump, check server logs.")
        self._refill(fill, failed, flushes=flushes, merges=merges)
        logger.info("DB reloaded by DEBUG RELOAD")

    def _refill(
        self, fill: Callable[[Replay], object], failed: GenericError, *, flushes: bool = True, merges: bool = False
    ) -> None:
        """Replace the dataset by what `fill` loads. If that fails, the old dataset stays: half of the new one is not
        served.

        Without `flushes` the old keys stay as well; see `reload_dataset`. Readers blocked on the keys are run again
        afterwards.
        """
        databases = self._context.store.databases
        kept = [Database(db.index, db.garbage) for db in databases]
        for db, spare in zip(databases, kept, strict=True):
            db.swap_with(spare, self._context.now_ms)
        libraries = self._context.libraries
        kept_libraries = libraries.present.copy()
        if flushes:
            libraries.present = LibrarySet()
        try:
            with loading(self._context) as replay:
                replay.replaces_libraries = merges
                fill(replay)
                if not flushes:
                    _keep_old_keys(databases, kept, merges=merges)
        except (LogError, OSError) as error:
            for db, spare in zip(databases, kept, strict=True):
                db.swap_with(spare, self._context.now_ms)
            libraries.present = kept_libraries
            logger.error("%s", explain(error))
            raise failed from error
        finally:
            for spare in kept:
                spare.clear()


def _keep_old_keys(databases: list[Database], kept: list[Database], *, merges: bool) -> None:
    """Move the keys of the old databases to the new ones. A new key wins with `merges`, else it is a RdbError."""
    for db, old in zip(databases, kept, strict=True):
        double = next((key for key in old.keys if key in db.keys), None)
        if double is not None and not merges:
            text = double.decode("utf-8", "backslashreplace")
            raise RdbError(f"RDB has duplicated key '{text}' in DB {db.index}")
    for db, old in zip(databases, kept, strict=True):
        for key in [key for key in old.keys if key not in db.keys]:
            expires_ms = old.expires.get(key)
            value = old.remove(key)
            assert value is not None
            db.put(key, value)
            if expires_ms is not None:
                db.expires[key] = expires_ms
