"""The folder of a log: its manifest, and the names of the files that the manifest lists."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Generator, Iterable
from dataclasses import dataclass, replace
from typing import Final

from .errors import LoadError, explain
from .files import Files
from .loading import Apply, Loader, LoadResult, Progress, TailPolicy, Target
from .manifest import Manifest, Part

logger = logging.getLogger(__name__)

ENDINGS: Final = {b"i": b"incr.aof", b"b": b"base.aof"}
RDB_ENDING: Final = b"base.rdb"


@dataclass(frozen=True, slots=True)
class LogSettings:
    """The location of the log, how much damage is accepted at its end, and the form of its files."""

    # `<dir>/<appenddirname>`.
    folder: str
    # `appendfilename`, which the names of all files begin with.
    file_name: str
    # `aof-load-truncated`.
    load_truncated: bool = True
    # `aof-load-corrupt-tail-max-size`, in bytes.
    corrupt_tail_size_max: int = 0
    # `aof-timestamp-enabled`: whether a `#TS:` line precedes the first record of each second.
    has_timestamps: bool = False
    # `aof-block-checksums`: whether checksum lines cover the bytes of the files.
    has_block_checksums: bool = False
    # `aof-use-rdb-preamble`: whether the base that a rewrite writes is an RDB file.
    has_rdb_base: bool = False
    # `aof-disable-auto-gc`: whether superseded files are kept.
    keeps_history: bool = False

    @property
    def manifest_path(self) -> str:
        """The manifest's path."""
        return os.path.join(self.folder, self.file_name + ".manifest")


class LogFolder:
    """The folder of one log. `manifest` is that on disk, after `read` or `put`. All methods may raise OSError."""

    def __init__(self, settings: LogSettings, files: Files) -> None:
        self._settings = settings
        self.files = files
        self.manifest = Manifest()

    def configure(self, settings: LogSettings) -> None:
        """Accept as much damage in a later load as these settings say."""
        self._settings = replace(
            self._settings,
            load_truncated=settings.load_truncated,
            corrupt_tail_size_max=settings.corrupt_tail_size_max,
        )

    # -- names -----------------------------------------------------------------------------------

    def path(self, part: Part) -> str:
        """Return the path of a part."""
        return os.path.join(self._settings.folder, os.fsdecode(part.name))

    @property
    def manifest_path(self) -> str:
        """Path of the manifest."""
        return self._settings.manifest_path

    @property
    def temporary_path(self) -> str:
        """Path of the file that keeps records while their base is being written."""
        return os.path.join(self._settings.folder, f"temp-{self._settings.file_name}.incr")

    @property
    def old_path(self) -> str:
        """Path of a log of one file, in the data folder, as Redis had before version 7."""
        return os.path.join(os.path.dirname(self._settings.folder), self._settings.file_name)

    def next_part(self, kind: bytes, manifest: Manifest, *, is_rdb: bool = False) -> Part:
        """Return a new base (`b"b"`) or increment (`b"i"`) with the number after those of `manifest`."""
        sequence = manifest.next_sequence(kind)
        ending = RDB_ENDING if is_rdb else ENDINGS[kind]
        return Part(b"%b.%d.%b" % (os.fsencode(self._settings.file_name), sequence, ending), sequence, kind)

    def size(self, part: Part) -> int:
        """Bytes of a part, 0 if the file does not exist."""
        return self.files.size(self.path(part)) or 0

    # -- manifest --------------------------------------------------------------------------------

    def read(self) -> Manifest:
        """Read the manifest from disk; without a file it is empty. Raises LoadError."""
        path = self._settings.manifest_path
        data = self.files.read(path)
        if data is None:
            self._refuse_lost_manifest()
        try:
            self.manifest = Manifest() if data is None else Manifest.decode(data)
        except LoadError as error:
            raise LoadError(
                f"{path}: {error}; repair this list of the log's files, or take it from a backup"
            ) from error
        return self.manifest

    def _refuse_lost_manifest(self) -> None:
        """Raise LoadError if the folder has files of a log but no manifest. Such files are neither read nor
        overwritten."""
        lost = self._files_of_a_log()
        if lost:
            raise LoadError(
                f"{self._settings.folder} has {', '.join(lost)}, but the list of the log's files is missing: restore "
                f"{os.path.basename(self._settings.manifest_path)} from a backup, or move these files away to begin "
                "without them"
            )

    def _files_of_a_log(self) -> list[str]:
        """Names of files that may have records. Empty files are left by a crash in the first start."""
        pattern = re.compile(re.escape(self._settings.file_name) + r"\.\d+\.(base\.(aof|rdb)|incr\.aof)")
        names = sorted(filter(pattern.fullmatch, self.files.names_in(self._settings.folder)))
        return [name for name in names if self.files.size(os.path.join(self._settings.folder, name))]

    def _report_unlisted(self, manifest: Manifest) -> None:
        """Warn of files after those of the manifest: they are left by a crash in a start, or the manifest has lost a
        line."""
        listed = {os.fsdecode(part.name) for part in manifest.parts}
        for name in self._files_of_a_log():
            number = int(name.removeprefix(self._settings.file_name).split(".")[1])
            if name not in listed and number >= manifest.next_sequence(b"b" if ".base." in name else b"i"):
                logger.warning(
                    "%s is not in the list of the log's files, so it is not loaded, and a later rewrite replaces it. "
                    "If the list has lost a line, stop the server and restore the list from a backup.",
                    os.path.join(self._settings.folder, name),
                )

    def put(self, manifest: Manifest) -> None:
        """Write a manifest, and use it from now on."""
        self.files.replace(self._settings.manifest_path, (manifest.encode(),))
        self.manifest = manifest

    def make(self) -> None:
        """Create the folder if it does not exist."""
        self.files.make_folder(self._settings.folder)

    def begin_manifest(self) -> None:
        """Write an empty manifest before the first file of a log, so that a crash leaves no file without a manifest."""
        if self.files.size(self._settings.manifest_path) is None:
            self.put(Manifest())

    def remove_empty_manifest(self) -> None:
        """Remove the manifest if the first file was not created. If a base was put in its place, the manifest stays."""
        if not self.manifest.parts and not self._files_of_a_log():
            self.files.remove(self._settings.manifest_path)

    # -- loading ---------------------------------------------------------------------------------

    def load_steps(
        self, apply: Apply, on_progress: Progress, target: Target | None
    ) -> Generator[None, None, LoadResult]:
        """Replay the files in steps; see `AppendOnlyLog.load`. Raises LoadError."""
        self._adopt_old_file()
        self._require_access()
        settings = self._settings
        policy = TailPolicy(settings.load_truncated, settings.corrupt_tail_size_max)
        loader = Loader(self.files, settings.folder, policy, apply, on_progress, target)
        manifest = self.read()
        self._report_unlisted(manifest)
        yield from loader.steps(manifest)
        return loader.result

    def _adopt_old_file(self) -> None:
        """Turn a log of one file into the base of a log of parts.

        The manifest is written first: after a crash, this server and Redis continue the migration.
        """
        old_path = self.old_path
        if self.files.size(old_path) is None:
            return
        base = Part(os.fsencode(self._settings.file_name), 1, b"b")
        manifest = self.read()
        is_begun = manifest.readable == [base] and self.files.size(self.path(base)) is None
        if manifest.readable and not is_begun:
            return
        for _ in self.files.read_blocks(old_path, 1):
            break  # what cannot be read stays where it is
        if not is_begun:
            self.make()
            self.put(Manifest((base,)))
        self.files.rename(old_path, self.path(base))
        logger.info("Successfully migrated an old-style AOF: %s is now %s", old_path, self.path(base))

    def is_absent(self) -> bool:
        """Whether there is no log yet, neither of parts nor of one file. Raises LoadError if its manifest is lost."""
        return not self.read().parts and self.files.size(self.old_path) is None

    def begin_with_rdb(self, blocks: Iterable[bytes]) -> None:
        """Make an RDB file the base of a new log."""
        self.make()
        self.put(Manifest((self.write_base(blocks, is_rdb=True),)))

    def write_base(self, blocks: Iterable[bytes], *, is_rdb: bool) -> Part:
        """Write the base of a new log, which the manifest is still to name. Returns it."""
        base = self.next_part(b"b", self.manifest, is_rdb=is_rdb)
        self.begin_manifest()
        self.files.replace(self.path(base), blocks)
        return base

    def _require_access(self) -> None:
        """Check before a long load whether the log can be appended to."""
        self.make()
        for part in self.read().increments[-1:]:
            if self.files.size(self.path(part)) is not None:
                self.files.open_log(self.path(part)).close()

    # -- superseded files ------------------------------------------------------------------------

    def supersede(self, base: Part, current: list[Part]) -> None:
        """Make `base` and the increments `current` the log. All other files are superseded from now on."""
        old = tuple(replace(part, kind=b"h") for part in self.manifest.parts if part not in current)
        self.put(Manifest((base, *old, *current)))

    def remove_history(self) -> None:
        """Delete superseded files, and remove them from the manifest. After a failure the next start tries again."""
        history = [part for part in self.manifest.parts if part.kind == b"h"]
        if not history:
            return
        try:
            for part in history:
                self.files.remove(self.path(part))
            self.put(Manifest(tuple(part for part in self.manifest.parts if part.kind != b"h")))
        except OSError as error:
            logger.warning("Cannot remove superseded AOF files: %s", explain(error))
