"""What the server asks of the operating system besides `Files`, on a `SimulatedDisk`: the working directory, locks of
folders, and the two files that are not data, the configuration file and the ACL file.

    system = SimulatedSystem(disk)
    with system.installed(): ...     the code that reads and writes these files works on the disk

The code under test is the real one. It calls `os` and `open` through its module, where it finds these.
"""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Callable, Iterator
from errno import ENOENT, ENOTDIR
from itertools import count
from types import SimpleNamespace
from typing import Any, Final
from unittest import mock

from headrace.persistence.errors import LogError
from headrace.persistence.lock import FolderLock
from headrace.server.configuration import config as config_module
from headrace.server.configuration import config_rewrite, configfile
from headrace.server.storage import log_switch, logkeeper
from support.simulated_disk import Inode, SimulatedDisk

FILE_MODE: Final = 0o644
FIRST_DESCRIPTOR: Final = 1_000_000


class SimulatedLock(FolderLock):
    """The lock of a folder of a `SimulatedSystem`."""

    def __init__(self, system: SimulatedSystem, path: str) -> None:
        super().__init__(path)
        self._system = system

    @property
    def is_held(self) -> bool:
        """See `FolderLock`."""
        return self._system.locks.get(self.path) is self

    def is_of(self, path: str) -> bool:
        """See `FolderLock`."""
        return self.path == path

    def acquire(self) -> None:
        """See `FolderLock`."""
        if self._system.locks.setdefault(self.path, self) is not self:
            raise LogError(f"Another server uses the data folder {self.path}")

    def release(self) -> None:
        """See `FolderLock`."""
        if self.is_held:
            del self._system.locks[self.path]


class WrittenFile(io.RawIOBase):
    """A file that was opened for writing; what is written reaches the disk at a flush."""

    def __init__(self, system: SimulatedSystem, descriptor: int) -> None:
        self._system, self._descriptor = system, descriptor
        self._unwritten = bytearray()

    def fileno(self) -> int:
        """The descriptor."""
        return self._descriptor

    def write(self, data: Any) -> int:
        """Into the buffer."""
        self._unwritten += data
        return len(data)

    def flush(self) -> None:
        """Call write(2) until all is written. Raises OSError."""
        path, inode = self._system.opened[self._descriptor]
        while self._unwritten:
            assert inode is not None
            del self._unwritten[: self._system.disk.append(path, inode, bytes(self._unwritten))]

    def close(self) -> None:
        """Flush, and let go of it."""
        if self._descriptor in self._system.opened:
            try:
                self.flush()
            finally:
                self._system.close(self._descriptor)


class SimulatedSystem:
    """One machine with this disk. Paths are bytes or text, as in `os`."""

    def __init__(self, disk: SimulatedDisk, folder: str = "/") -> None:
        self.disk = disk
        self.folder = folder
        # By folder: the one lock that is held.
        self.locks: dict[str, FolderLock] = {}
        # By descriptor: path, and the file; None for a folder.
        self.opened: dict[int, tuple[str, Inode | None]] = {}
        self._numbers = count(FIRST_DESCRIPTOR)

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Have the server's modules find this system."""
        system = Facade(
            os,
            chdir=self.chdir,
            getcwd=lambda: self.folder,
            getcwdb=lambda: os.fsencode(self.folder),
            open=self.open,
            close=self.close,
            fdopen=lambda descriptor, mode: WrittenFile(self, descriptor),
            stat=self.stat,
            chmod=lambda path, mode: None,
            replace=self.replace,
            unlink=self.unlink,
            path=Facade(os.path, abspath=self.absolute),
        )
        with (
            mock.patch.object(configfile, "os", system),
            mock.patch.object(config_rewrite, "os", system),
            mock.patch.object(configfile, "open", self.open_file, create=True),
            mock.patch.object(config_module, "open", self.open_file, create=True),
            mock.patch.dict(config_rewrite.replace_file.__kwdefaults__, sync=self.fsync),
            mock.patch.object(log_switch, "os", system),
            mock.patch.object(log_switch, "FolderLock", self.lock),
            mock.patch.object(logkeeper, "FolderLock", self.lock),
        ):
            yield

    def lock(self, path: str) -> FolderLock:
        """A lock that is not held yet."""
        return SimulatedLock(self, path)

    # -- os --------------------------------------------------------------------------------------

    def _path(self, path: str | bytes) -> str:
        return os.path.normpath(os.path.join(self.folder, os.fsdecode(path)))

    def absolute(self, path: bytes) -> bytes:
        """See os.path.abspath."""
        return os.fsencode(self._path(path))

    def _found(self, path: str | bytes) -> str:
        found = self._path(path)
        if found not in self.disk.names:
            raise FileNotFoundError(ENOENT, os.strerror(ENOENT), found)
        return found

    def chdir(self, path: str | bytes) -> None:
        """See os.chdir."""
        found = self._found(path)
        if self.disk.names[found] is not None:
            raise NotADirectoryError(ENOTDIR, os.strerror(ENOTDIR), found)
        self.folder = found

    def open(self, path: str | bytes, flags: int, mode: int = FILE_MODE) -> int:
        """See os.open; creates only with O_EXCL."""
        if flags & os.O_EXCL:
            self.disk.create(self._path(path))
        found = self._found(path)
        descriptor = next(self._numbers)
        self.opened[descriptor] = found, self.disk.names[found]
        return descriptor

    def close(self, descriptor: int) -> None:
        """See os.close."""
        del self.opened[descriptor]

    def fsync(self, descriptor: int) -> None:
        """See os.fsync."""
        path, inode = self.opened[descriptor]
        if inode is None:
            self.disk.sync_folder(path)
        else:
            self.disk.fsync(path, inode)

    def stat(self, path: str | bytes) -> SimpleNamespace:
        """See os.stat; the mode is always the same."""
        self._found(path)
        return SimpleNamespace(st_mode=FILE_MODE)

    def replace(self, path: str | bytes, new_path: str | bytes) -> None:
        """See os.replace; as `rename`, without the fsync of the folder."""
        old = self._found(path)
        self.disk.move(old, self._path(new_path))

    def unlink(self, path: str | bytes) -> None:
        """See os.unlink."""
        self.disk.remove(self._found(path))

    # -- files -----------------------------------------------------------------------------------

    def open_file(self, path: str | bytes, mode: str = "rb", *, opener: Callable[..., int] | None = None) -> Any:
        """See open: for reading, or for writing from the start."""
        if mode == "rb":
            content = self.disk.read(self._found(path))
            assert content is not None
            return io.BytesIO(content)
        assert mode == "wb"
        name = self._path(path)
        if name in self.disk.names:
            self.disk.truncate(name, self.disk.inode(name), 0)
        else:
            self.disk.create(name)
        return WrittenFile(self, self.open(name, os.O_WRONLY))


class Facade:
    """A module with some of its functions replaced."""

    def __init__(self, module: Any, **functions: Any) -> None:
        self._module = module
        self.__dict__.update(functions)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)
