"""The log's format: RESP commands one after another, annotation lines starting with `#` between them.

Bytes to records and back; no files here. The offset after each record is what recovery works with.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ..protocol.packing import pack_command

MULTI: Final = pack_command((b"MULTI",))
EXEC: Final = pack_command((b"EXEC",))

ARGUMENTS_COUNT_MAX: Final = 1024 * 1024
"""No record Headrace or Redis writes comes near; a damaged header may announce anything."""
ARGUMENT_SIZE_MAX: Final = 1024**3


def select(db_index: int) -> bytes:
    """The record that makes the following ones apply to a database."""
    return pack_command((b"SELECT", b"%d" % db_index))


class DamagedRecord(Exception):
    """Bytes that are no record, at `offset`."""

    def __init__(self, offset: int) -> None:
        super().__init__(f"bad record at offset {offset}")
        self.offset = offset


class RecordReader:
    """Bytes in, records out. `offset` is where the first byte not yet given out as part of a record stands."""

    __slots__ = ("_buffer", "_position", "offset")

    def __init__(self) -> None:
        self._buffer = b""
        self._position = 0
        self.offset = 0

    def feed(self, block: bytes) -> Iterator[tuple[list[bytes], int]]:
        """Each complete record as (arguments, offset after it). Raises DamagedRecord at bytes that are none."""
        self._buffer = self._buffer[self._position :] + block
        self._position = 0
        while (found := self._next()) is not None:
            arguments, end = found
            self.offset += end - self._position
            self._position = end
            if arguments:
                yield arguments, self.offset

    def _next(self) -> tuple[list[bytes], int] | None:
        """The next record or annotation (no arguments) and where it ends in the buffer; None if it is not complete."""
        buffer, position = self._buffer, self._position
        mark = buffer[position : position + 1]
        if mark == b"#":
            end = buffer.find(b"\n", position) + 1
            return ([], end) if end else None
        if mark != b"*":
            if mark:
                raise DamagedRecord(self.offset)
            return None
        count, position = self._number(position + 1, ARGUMENTS_COUNT_MAX, 1)
        arguments: list[bytes] = []
        for _ in range(count):
            if position < 0 or position >= len(buffer):
                return None
            if buffer[position] != 0x24:  # "$"
                raise DamagedRecord(self.offset)
            size, position = self._number(position + 1, ARGUMENT_SIZE_MAX, 0)
            end = position + size
            if position < 0 or len(buffer) < end + 2:
                return None
            if buffer[end : end + 2] != b"\r\n":
                raise DamagedRecord(self.offset)
            arguments.append(buffer[position:end])
            position = end + 2
        return None if position < 0 else (arguments, position)

    def _number(self, position: int, number_max: int, number_min: int) -> tuple[int, int]:
        """A header's number and the position after its line; position -1 if the line is not complete."""
        end = self._buffer.find(b"\r\n", position, position + 12)
        digits = self._buffer[position : end if end >= 0 else position + 12]
        if end < 0 and len(digits) < 12 and (not digits or digits.rstrip(b"\r").isdigit()):
            return 0, -1
        if end < 0 or not digits.isdigit() or not number_min <= int(digits) <= number_max:
            raise DamagedRecord(self.offset)
        return int(digits), end + 2
