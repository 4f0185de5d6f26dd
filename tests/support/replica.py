"""A replica without a dataset: it asks a server for its stream, and shows what it receives."""

from __future__ import annotations

import re
import socket

from support.append_only_file import parse_records
from support.replies import Incomplete, frame_end
from support.wire import REPLY_TIMEOUT_S, Wire, encode

RECEIVE_SIZE = 1 << 16


class StreamReader:
    """Sends SYNC, skips the snapshot, and reads the records after it. `received_size` counts bytes of the stream."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=REPLY_TIMEOUT_S)
        self._buffer = b""
        self.socket.sendall(encode(["SYNC"]))
        size = re.fullmatch(rb"\$(\d+)", self._line())
        assert size, "SYNC without `capa eof` is answered by a snapshot of known size"
        while len(self._buffer) < int(size[1]):
            self._fill()
        self.snapshot, self._buffer = self._buffer[: int(size[1])], self._buffer[int(size[1]) :]
        self.received_size = 0

    def __enter__(self) -> StreamReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def _fill(self) -> None:
        data = self.socket.recv(RECEIVE_SIZE)
        if not data:
            raise ConnectionError("the primary has closed the link")
        self._buffer += data

    def _line(self) -> bytes:
        """The next line that is not empty: an empty one is a sign of life."""
        while True:
            while b"\n" not in self._buffer:
                self._fill()
            line, _, self._buffer = self._buffer.partition(b"\n")
            if line.rstrip(b"\r"):
                return line.rstrip(b"\r")

    def record(self) -> list[bytes]:
        """The next record of the stream."""
        while True:
            try:
                end = frame_end(self._buffer, 0)
            except Incomplete:
                end = 0
            if end:
                data, self._buffer = self._buffer[:end], self._buffer[end:]
                self.received_size += end
                return parse_records(data)[0]
            self._fill()

    def records_until(self, mark: list[bytes]) -> list[list[bytes]]:
        """The records before the one that is the mark."""
        records = []
        while (record := self.record()) != mark:
            records.append(record)
        return records


def take_records(reader: StreamReader, control: Wire, mark: bytes) -> list[list[bytes]]:
    """All records that are in the stream now. The mark is published after them."""
    control.call("PUBLISH", "mark", mark)
    return reader.records_until([b"PUBLISH", b"mark", mark])
