"""A disk in memory that records what would survive: `Files` with an operating system's cache above stable storage.

    disk = SimulatedDisk()
    ... the code under test works on it, and `disk.on_boundary` is called before, inside and after each system call ...
    disk.after_kill()            the process dies: the cache survives
    disk.after_power_loss(rnd)   the machine dies: only what was synced is sure to survive

What was not synced may survive in part. Of a file's changes since its last fsync a prefix survives, the last one
perhaps torn: a file grows at its end, and its size is not written before its data. Of the changes to names (create,
rename, unlink, mkdir) since the last fsync of their folder any subset survives, each one whole or not at all.

`replace` and the others take the same steps as `persistence.files.DiskFiles`, each of which may fail and be followed by
a crash.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from errno import ENOENT
from typing import Final

from headrace.persistence.checksum import CHECKSUM_PREFIX

# What a device writes at once: `after_power_loss(holes=True)` loses so much in one piece.
PAGE_SIZE: Final = 512


class PowerLoss(BaseException):
    """Raised by a system call that never returns. Only the test may catch it."""


@dataclass(frozen=True)
class Call:
    """One system call: mkdir, rmdir, create, append, truncate, fsync, rename, unlink or sync_folder."""

    kind: str
    path: str
    # 0 for the disk's first.
    number: int


@dataclass(frozen=True)
class Fault:
    """What a call does instead of succeeding: fail, or with `errno` 0 take only `size` bytes of an append."""

    errno: int = 0
    size: int = 0


class Inode:
    """A file's bytes: those on stable storage, and the changes since."""

    def __init__(self, content: bytes = b"") -> None:
        self.durable = content
        self.content = bytearray(content)
        # What was appended, or the size it was cut to.
        self.changes: list[bytes | int] = []

    def append(self, data: bytes) -> None:
        """Append in the cache."""
        self.content += data
        self.changes.append(data)

    def truncate(self, size: int) -> None:
        """Cut in the cache."""
        del self.content[size:]
        self.changes.append(size)

    def sync(self, changes_count: int) -> None:
        """Move the first `changes_count` changes to stable storage."""
        self.durable = changed(self.durable, self.changes[:changes_count])
        del self.changes[:changes_count]

    def survivor(self, rnd: random.Random | None, *, holes: bool = False) -> Inode:
        """The file after a power loss; without `rnd` only what was synced."""
        if rnd is None or not self.changes:
            return Inode(self.durable)
        kept = self.changes[: rnd.randrange(len(self.changes) + 1)]
        if kept and isinstance(kept[-1], bytes) and rnd.random() < 0.8:
            kept[-1] = kept[-1][: rnd.randrange(len(kept[-1]) + 1)]
        content = changed(self.durable, kept)
        if holes:
            content = with_hole(content, len(self.durable), rnd)
        return Inode(content)


def changed(content: bytes, changes: list[bytes | int]) -> bytes:
    """The content after these changes."""
    result = bytearray(content)
    for change in changes:
        if isinstance(change, int):
            del result[change:]
        else:
            result += change
    return bytes(result)


def with_hole(content: bytes, start: int, rnd: random.Random) -> bytes:
    """One page at or after `start`, before the last checksum line, was never written and reads as zeros."""
    end = content.rfind(b"\n" + CHECKSUM_PREFIX)
    if end <= start:
        return content
    first = rnd.randrange(start, end) // PAGE_SIZE * PAGE_SIZE
    low, high = max(first, start), min(first + PAGE_SIZE, end)
    return content[:low] + bytes(high - low) + content[high:]


# Inode by path; a folder is a path without one.
Names = dict[str, Inode | None]

# The new state of some names at once; False removes a name.
NameChange = dict[str, Inode | bool | None]


class SimulatedDisk:
    """`Files` in memory. See the module."""

    def __init__(self, names: Names | None = None) -> None:
        self.names: Names = dict(names or {})
        self._durable_names: Names = dict(self.names)
        self._name_changes: list[NameChange] = []
        self.calls_count = 0
        # Called at every moment at which a crash would leave a different disk.
        self.on_boundary: Callable[[Call], None] = lambda call: None
        # Called when an fsync that had something to do has ended, with the result of `on_sync_begins`.
        self.on_synced: Callable[[Call, object], None] = lambda call, token: None
        self.on_sync_begins: Callable[[Call], object] = lambda call: None
        # Called before each system call.
        self.fault: Callable[[Call], Fault | None] = lambda call: None
        self._split = random.Random(0)

    # -- crashes ---------------------------------------------------------------------------------

    def after_kill(self) -> SimulatedDisk:
        """What a new process finds: everything handed to the operating system."""
        return SimulatedDisk({path: inode and Inode(bytes(inode.content)) for path, inode in self.names.items()})

    def after_power_loss(self, rnd: random.Random | None, *, holes: bool = False) -> SimulatedDisk:
        """What the next start of the machine finds; without `rnd` only what was synced."""
        names = dict(self._durable_names)
        for change in self._name_changes:
            if rnd is not None and rnd.random() < 0.5:
                rename(names, change)
        folders = [path for path, inode in names.items() if inode is None]
        survivors: Names = {}
        for path, inode in names.items():
            parent = os.path.dirname(path)
            if inode is None:
                survivors[path] = None
            elif parent in folders:
                survivors[path] = inode.survivor(rnd, holes=holes)
        return SimulatedDisk(survivors)

    def fingerprint(self) -> int:
        """Equal for disks with equal content."""
        return hash(frozenset((path, inode and bytes(inode.content)) for path, inode in self.names.items()))

    def contents(self, folder: str) -> dict[str, bytes]:
        """The files in a folder and below, by path."""
        inside = folder + os.sep
        return {path: bytes(inode.content) for path, inode in self.names.items() if inode and path.startswith(inside)}

    # -- what happens between two processes -------------------------------------------------------

    def lose(self, path: str) -> None:
        """Remove a file, durably."""
        del self.names[path], self._durable_names[path]

    def put(self, path: str, content: bytes) -> None:
        """Create a file with this content, durably."""
        self.names[path] = self._durable_names[path] = Inode(content)

    # -- system calls ----------------------------------------------------------------------------

    def _begin(self, kind: str, path: str) -> tuple[Call, Fault | None]:
        """Begin a call: the moment before it is a boundary. Raises OSError if the call is to fail without any
        effect.
        """
        call = Call(kind, path, self.calls_count)
        self.calls_count += 1
        self.on_boundary(call)
        fault = self.fault(call)
        if fault is not None and fault.errno:
            raise OSError(fault.errno, os.strerror(fault.errno), path)
        return call, fault

    def _rename(self, kind: str, path: str, change: NameChange) -> None:
        call, _ = self._begin(kind, path)
        rename(self.names, change)
        self._name_changes.append(change)
        self.on_boundary(call)

    def sync_folder(self, folder: str) -> None:
        """fsync of a folder."""
        call, _ = self._begin("sync_folder", folder)
        later: list[NameChange] = []
        for change in self._name_changes:
            if all(os.path.dirname(path) == folder for path in change):
                rename(self._durable_names, change)
            else:
                later.append(change)
        self._name_changes = later
        self.on_boundary(call)

    def append(self, path: str, inode: Inode, data: bytes) -> int:
        """write(2): a crash may happen within it."""
        call, fault = self._begin("append", path)
        if fault is not None:
            data = data[: fault.size]
        split = self._split.randrange(len(data) + 1)
        for part in (data[:split], data[split:]):
            if part:
                inode.append(part)
                self.on_boundary(call)
        return len(data)

    def fsync(self, path: str, inode: Inode) -> None:
        """fdatasync(2): covers what was written before it began."""
        token = self.on_sync_begins(Call("fsync", path, self.calls_count))
        changes_count = len(inode.changes)
        call, _ = self._begin("fsync", path)
        inode.sync(changes_count)
        if changes_count:
            self.on_synced(call, token)
        self.on_boundary(call)

    def truncate(self, path: str, inode: Inode, size: int) -> None:
        """ftruncate(2)."""
        call, _ = self._begin("truncate", path)
        inode.truncate(size)
        self.on_boundary(call)

    # -- Files -----------------------------------------------------------------------------------

    def make_folder(self, path: str) -> None:
        """mkdir, and an fsync of the parent."""
        if path in self.names:
            return
        self._rename("mkdir", path, {path: None})
        try:
            self.sync_folder(os.path.dirname(path))
        except OSError:
            self._rename("rmdir", path, {path: False})
            raise

    def open_log(self, path: str) -> SimulatedFile:
        """Created, and synced with its name, if it is not there."""
        is_new = path not in self.names
        if is_new:
            self.create(path)
        file = SimulatedFile(self, path)
        if is_new:
            try:
                file.fsync()
                self.sync_folder(os.path.dirname(path))
            except OSError:
                self.remove(path)
                raise
        return file

    def inode(self, path: str) -> Inode:
        """The file of that name."""
        inode = self.names.get(path)
        if inode is None:
            raise OSError(ENOENT, os.strerror(ENOENT), path)
        return inode

    def read(self, path: str) -> bytes | None:
        """The whole content."""
        return bytes(self.inode(path).content) if path in self.names else None

    def read_durable(self, path: str) -> bytes | None:
        """The part of the content that is sure to survive a power loss."""
        inode = self._durable_names.get(path)
        return None if inode is None else inode.durable

    def read_blocks(self, path: str, block_size: int) -> Iterator[bytes]:
        """The content in blocks."""
        data = bytes(self.inode(path).content)
        for start in range(0, len(data), block_size):
            yield data[start : start + block_size]

    def size(self, path: str) -> int | None:
        """Present size."""
        return len(self.inode(path).content) if path in self.names else None

    def names_in(self, folder: str) -> list[str]:
        """What is in a folder."""
        return [os.path.basename(path) for path in self.names if os.path.dirname(path) == folder]

    def replace(self, path: str, blocks: Iterable[bytes]) -> int:
        """Written to a temporary file, synced, renamed over it, and the folder synced."""
        folder, name = os.path.split(path)
        temporary = os.path.join(folder, f"temp-{name}")
        inode = Inode()
        size = 0
        try:
            self._rename("create", temporary, {temporary: inode})
            for block in blocks:
                rest = block
                while rest:
                    rest = rest[self.append(temporary, inode, rest) :]
                size += len(block)
            self.fsync(temporary, inode)
            self._rename("rename", path, {temporary: False, path: inode})
        except Exception:
            self.remove(temporary)
            raise
        self.sync_folder(folder)
        return size

    def create(self, path: str) -> None:
        """open(2) of a file that is not there."""
        self._rename("create", path, {path: Inode()})

    def move(self, path: str, new_path: str) -> None:
        """rename(2)."""
        self._rename("rename", new_path, {path: False, new_path: self.inode(path)})

    def rename(self, path: str, new_path: str) -> None:
        """rename(2), and an fsync of the folder."""
        self.move(path, new_path)
        self.sync_folder(os.path.dirname(new_path))

    def link(self, path: str, new_path: str) -> None:
        """link(2), and an fsync of the folder."""
        self._rename("link", new_path, {new_path: self.inode(path)})
        self.sync_folder(os.path.dirname(new_path))

    def remove(self, path: str) -> None:
        """Remove a file; that is durable once the folder is synced."""
        if path in self.names:
            self._rename("unlink", path, {path: False})


def rename(names: Names, change: NameChange) -> None:
    """Apply one change."""
    for path, inode in change.items():
        if isinstance(inode, bool):
            names.pop(path, None)
        else:
            names[path] = inode


class SimulatedFile:
    """A `LogFile` of a `SimulatedDisk`."""

    def __init__(self, disk: SimulatedDisk, path: str) -> None:
        self._disk, self._path = disk, path
        self._inode = disk.inode(path)
        self.is_closed = False

    def append(self, data: bytes | memoryview) -> int:
        """See `LogFile`."""
        assert not self.is_closed
        return self._disk.append(self._path, self._inode, bytes(data))

    def fsync(self) -> None:
        """See `LogFile`."""
        assert not self.is_closed
        self._disk.fsync(self._path, self._inode)

    def truncate(self, size: int) -> None:
        """See `LogFile`."""
        self._disk.truncate(self._path, self._inode, size)

    def size(self) -> int:
        """See `LogFile`."""
        return len(self._inode.content)

    def close(self) -> None:
        """See `LogFile`."""
        self.is_closed = True
