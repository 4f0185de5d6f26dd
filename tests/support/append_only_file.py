"""The records that a server appended to its append-only file since the last call."""

from __future__ import annotations

from pathlib import Path

from support.replies import frame_end, parse

INCREMENT = Path("appendonlydir") / "appendonly.aof.1.incr.aof"


class AppendOnlyFile:
    """Reads the first increment of a fresh server with `appendfsync always`, where a reply means "it is written"."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / INCREMENT
        self.offset = 0

    def take_records(self) -> list[list[bytes]]:
        """The records appended since the last call, as argument vectors, SELECT left out."""
        with self.path.open("rb") as file:
            file.seek(self.offset)
            data = file.read()
        self.offset += len(data)
        return [record for record in parse_records(data) if record[0].upper() != b"SELECT"]


def parse_records(data: bytes) -> list[list[bytes]]:
    """The RESP commands of a file; `#` lines (timestamps) are skipped."""
    records = []
    position = 0
    while position < len(data):
        if data[position : position + 1] == b"#":
            position = data.index(b"\n", position) + 1
            continue
        end = frame_end(data, position)
        records.append([argument.value for argument in parse(data[position:end]).value])
        position = end
    return records


def without_transaction(records: list[list[bytes]]) -> list[list[bytes]]:
    """The records inside a MULTI/EXEC. Raises AssertionError for several records without one."""
    if len(records) > 1:
        assert records[0] == [b"MULTI"], f"several records without MULTI: {records}"
        assert records[-1] == [b"EXEC"], f"several records without EXEC: {records}"
        return records[1:-1]
    return records


def one_claim_each(records: list[list[bytes]]) -> list[list[bytes]]:
    """XCLAIM records with many IDs as one record per ID, which replays to the same state."""
    expanded = []
    for record in records:
        if record[0].upper() != b"XCLAIM":
            expanded.append(record)
            continue
        options = next(index for index in range(5, len(record)) if not record[index][:1].isdigit())
        expanded += [[*record[:5], entry_id, *record[options:]] for entry_id in record[5:options]]
    return expanded
