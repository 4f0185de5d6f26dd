"""Full synchronization: replicas get a snapshot of the dataset, and then the stream from the moment of the snapshot.

The snapshot is made in slices between requests, as those of BGSAVE are. Without disk (`repl-diskless-sync`) its blocks
go straight to the replicas, at the pace of the slowest, between two copies of a mark that no data contain. Otherwise
they go to a file, which is then sent with its size.

All replicas that wait when a snapshot begins share it.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Protocol

from ...commands.clients.replica import ReplicaState
from ...persistence.background import BackgroundFile
from ...persistence.files import Files
from ...persistence.placing import StreamPlace
from ...store.image import Pack, Part, StoreImage
from ..configuration.config import Config
from ..storage.image_job import Job, JobRunner
from ..storage.paths import dump_path
from .link import UNSENT_SIZE_MAX, Link

logger = logging.getLogger(__name__)

# Characters of the mark around a snapshot of unknown size.
MARK_SIZE: Final = 40
# Bytes of a file that are read at once.
PIECE_SIZE: Final = 64 * 1024
# Unsent bytes for a replica that takes rows, up to which blocks are made: as many as it reads in some milliseconds.
ROWS_UNSENT_SIZE_MAX: Final = 1 << 20


class SnapshotMaker(Protocol):
    """What makes snapshots: `server.storage.snapshots.Snapshots`."""

    runner: JobRunner

    @property
    def may_begin(self) -> bool:
        """Whether no job runs, and none has to wait for something."""
        ...

    def take_image(self) -> StoreImage:
        """An image of the dataset with all effects so far."""
        ...

    def packing(self) -> Pack:
        """What packs small values for the blocks that follow."""
        ...

    def rdb_blocks(self, parts: Iterable[Part], *, place: StreamPlace, has_libraries: bool = True) -> Iterator[bytes]:
        """The blocks of an RDB file. `place`: its place in the replication stream."""
        ...

    def rows_blocks(self, parts: Iterable[Part], *, place: StreamPlace, has_libraries: bool = True) -> Iterator[bytes]:
        """The blocks of a dataset in the form of rows, with its place in the replication stream."""
        ...


class DirectTransfer:
    """A snapshot on its way to replicas, without a file. It takes the place of a `BackgroundFile` in a job.

    It waits for a replica that has more than `unsent_size_max` bytes to read.
    """

    def __init__(self, blocks: Iterator[bytes], links: list[Link], mark: bytes, unsent_size_max: int) -> None:
        self._blocks = blocks
        self._links = links
        self._mark = mark
        self._unsent_size_max = unsent_size_max
        self.size = 0
        self._send(b"$EOF:" + mark + b"\r\n")

    def _send(self, data: bytes) -> None:
        for link in self.open_links:
            link.write(data)

    @property
    def open_links(self) -> list[Link]:
        """The replicas that still listen."""
        return [link for link in self._links if not link.is_closed]

    def step(self, is_over: Callable[[], bool]) -> bool:
        """Send blocks while all replicas take them, until `is_over` returns true. Returns whether all is sent. Raises
        OSError if no replica is left.
        """
        links = self.open_links
        if not links:
            raise OSError("all replicas have left")
        if any(link.peer.unsent_size() >= self._unsent_size_max for link in links):
            return False
        made: list[bytes] = []
        is_complete = True
        for block in self._blocks:
            made.append(block)
            if is_over():
                is_complete = False
                break
        if is_complete:
            made.append(self._mark)
        data = b"".join(made)
        self.size += len(data)
        self._send(data)
        return is_complete

    def wait(self) -> None:
        """Nothing to wait for: only the loop sends."""

    def abandon(self) -> None:
        """Close the replicas, which have a part of a snapshot."""
        for link in self.open_links:
            link.close()


class FullSync:
    """Makes snapshots for the links that wait. `begin_stream` puts all effects so far into the stream, and returns the
    place that the dataset has in it now. `follow` lets a link follow from there.
    """

    def __init__(
        self,
        config: Config,
        maker: SnapshotMaker,
        files: Callable[[], Files],
        begin_stream: Callable[[], StreamPlace],
        follow: Callable[[Link], None],
    ) -> None:
        self._config = config
        self._maker = maker
        self._files = files
        self._begin_stream = begin_stream
        self._follow = follow
        # Made once for a process, as in Redis.
        self._mark = os.urandom(MARK_SIZE // 2).hex().encode()
        # The links that are being sent the running snapshot.
        self._served: list[Link] = []

    def begin(self, waiting: list[Link], now_ms: int) -> None:
        """Begin a snapshot for these links if no other job runs and it is due."""
        if not waiting or not self._maker.may_begin:
            return
        if waiting[0].replica.takes_rows:
            # A snapshot in this form costs little: there is no delay in which more replicas may come to share it.
            begin = self._begin_direct if self._config.repl_diskless_sync else self._begin_file
            begin(self._alike(waiting))
            return
        is_direct = self._config.repl_diskless_sync and all(link.replica.accepts_eof for link in waiting)
        if not is_direct:
            self._begin_file(self._alike(waiting))
        elif self._is_due(waiting, now_ms):
            self._begin_direct(self._alike(waiting))

    def _is_due(self, waiting: list[Link], now_ms: int) -> bool:
        """Whether to wait no longer for more replicas to share a snapshot without disk."""
        config = self._config
        count_max = config.repl_diskless_sync_max_replicas
        is_full = bool(count_max) and len(waiting) >= count_max
        return is_full or bool(now_ms - waiting[0].asked_ms >= config.repl_diskless_sync_delay * 1000)

    @staticmethod
    def _alike(waiting: list[Link]) -> list[Link]:
        """Those of the links that want the same snapshot as the first."""
        first = waiting[0].replica
        return [
            link
            for link in waiting
            if (link.replica.wants_no_keys, link.replica.wants_no_libraries, link.replica.takes_rows)
            == (first.wants_no_keys, first.wants_no_libraries, first.takes_rows)
        ]

    def _take(self, links: list[Link]) -> tuple[StoreImage, Iterator[bytes]]:
        """Take the image, tell the replicas at which offset, and return it with the blocks of its file."""
        place = self._begin_stream()
        image = self._maker.take_image()
        for link in links:
            link.replica.state = ReplicaState.SENDING
            link.position = place.offset
            if not link.replica.is_plain:
                link.write(b"+FULLRESYNC %b %d\r\n" % (place.replid.encode(), place.offset))
        self._served = links
        replica = links[0].replica
        parts: Iterable[Part] = () if replica.wants_no_keys else image.parts(self._maker.packing())
        make = self._maker.rows_blocks if replica.takes_rows else self._maker.rdb_blocks
        return image, make(parts, place=place, has_libraries=not replica.wants_no_libraries)

    def _begin_direct(self, links: list[Link]) -> None:
        logger.info("Starting BGSAVE for SYNC with target: replicas sockets")
        has_rows = links[0].replica.takes_rows
        image, blocks = self._take(links)
        transfer = DirectTransfer(blocks, links, self._mark, ROWS_UNSENT_SIZE_MAX if has_rows else UNSENT_SIZE_MAX)

        def finish(size: int) -> None:
            logger.info("Background RDB transfer terminated with success")
            for link in transfer.open_links:
                self._end_snapshot(link, is_direct=True)
            self._served = []

        def fail(reason: str) -> None:
            logger.warning("Background transfer of a snapshot to replicas failed: %s", reason)
            transfer.abandon()
            self._served = []

        self._maker.runner.begin(Job(image, transfer, finish, fail, is_for_replicas=True, is_brisk=has_rows))

    def _begin_file(self, links: list[Link]) -> None:
        logger.info("Starting BGSAVE for SYNC with target: disk")
        image, blocks = self._take(links)
        files, path = self._files(), self._path()
        file = BackgroundFile(files, path, blocks, self._maker.runner.thread())

        def finish(size: int) -> None:
            logger.info("Background saving for replicas terminated with success")
            self._served = []
            for link in links:
                if not link.is_closed:
                    self._send_file(link, files, path, size)
            # Open files keep their content.
            with contextlib.suppress(OSError):
                files.remove(path)

        def fail(reason: str) -> None:
            logger.warning("Failed saving the DB for replicas: %s", reason)
            for link in links:
                if not link.is_closed:
                    link.write(b"-ERR BGSAVE failed, replication can't continue\r\n")
                    link.peer.close()
            self._served = []

        is_brisk = links[0].replica.takes_rows
        self._maker.runner.begin(Job(image, file, finish, fail, is_for_replicas=True, is_brisk=is_brisk))

    def _path(self) -> str:
        """A file named by the port: it replaces what a crash has left, and servers may share a folder."""
        return os.path.join(os.path.dirname(dump_path(self._config)), f"replicas-{self._config.port}.rdb")

    def _send_file(self, link: Link, files: Files, path: str, size: int) -> None:
        link.write(b"$%d\r\n" % size)
        blocks = files.read_blocks(path, PIECE_SIZE)
        link.send_snapshot(blocks, lambda: self._end_snapshot(link, is_direct=False))

    def _end_snapshot(self, link: Link, *, is_direct: bool) -> None:
        """A replica was sent all of its snapshot."""
        link.has_snapshot = True
        if link.replica.wants_only_snapshot:
            link.peer.close()
        elif is_direct and not link.replica.is_plain:
            # It looks for the mark at the end of what it has read: nothing may follow until it has confirmed.
            link.replica.state = ReplicaState.ONLINE
        else:
            self._follow(link)

    def end(self, link: Link) -> None:
        """A replica has left. A snapshot for which no replica waits is abandoned."""
        if link in self._served:
            self._served = [each for each in self._served if each is not link]
            job = self._maker.runner.job
            if not self._served and job is not None and job.is_for_replicas:
                self._maker.runner.abort()
