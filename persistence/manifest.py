"""The manifest: which files make up the append-only log, in which order.

    file appendonly.aof.1.incr.aof seq 1 type i

Types are b (base: a snapshot), i (incr: records after it) and h (history: superseded). Redis reads the same file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

LINE_SIZE_MAX: Final = 1024


class BadManifest(Exception):
    """A manifest that cannot be believed; the text says why, in Redis' words."""


@dataclass(frozen=True, slots=True)
class LogPart:
    """One file of the log."""

    name: str
    sequence: int
    kind: str

    def line(self) -> str:
        """Its line in the manifest."""
        return f"file {self.name} seq {self.sequence} type {self.kind}\n"


def parse_manifest(text: str) -> list[LogPart]:
    """The parts in order: base first, then incr by sequence. Raises BadManifest."""
    if not text:
        raise BadManifest("Found an empty AOF manifest")
    parts: list[LogPart] = []
    for line in text.splitlines(keepends=True):
        if line.startswith("#"):
            continue
        if len(line) > LINE_SIZE_MAX or not line.endswith("\n"):
            raise BadManifest("The AOF manifest file contains too long line")
        parts.append(_parse_line(line.split()))
    _check_order(parts)
    return parts


def _parse_line(words: list[str]) -> LogPart:
    values = {key.lower(): value for key, value in zip(words[::2], words[1::2], strict=False)}
    sequence = values.get("seq", "0")
    if len(words) < 6 or len(words) % 2 or not {"file", "seq", "type"} <= values.keys():
        raise BadManifest("Invalid AOF manifest file format")
    if not sequence.isdigit() or int(sequence) == 0:
        raise BadManifest("Invalid AOF manifest file format")
    if "/" in values["file"]:
        raise BadManifest("File can't be a path, just a filename")
    if values["type"] not in ("b", "h", "i"):
        raise BadManifest("Unknown AOF file type")
    return LogPart(values["file"], int(sequence), values["type"])


def _check_order(parts: list[LogPart]) -> None:
    if sum(part.kind == "b" for part in parts) > 1:
        raise BadManifest("Found duplicate base file information")
    sequences = [part.sequence for part in parts if part.kind == "i"]
    if any(later <= earlier for earlier, later in zip(sequences, sequences[1:], strict=False)):
        raise BadManifest("Found a non-monotonic sequence number")
