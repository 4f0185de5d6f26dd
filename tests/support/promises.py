"""What docs/durability.md promises: each test names the sentences it proves, which must stand there word for word."""

from __future__ import annotations

from pathlib import Path

DOCUMENT = Path(__file__).parents[2] / "docs" / "durability.md"

PROMISES = {
    "prefix": "What a start finds is the dataset as it was after some write, with every write before it and none "
    "after.",
    "kill": "After `kill -9` nothing that was answered is lost, with any policy.",
    "always": "`always`: after a power loss nothing that was answered is lost.",
    "everysec": "`everysec`: after a power loss at most the writes answered in the last 1.1 seconds are lost, and in "
    "the time that an fsync takes.",
    "no": "`no`: after a power loss what the operating system had not yet written is lost.",
    "hole": "A log that lost a page in front of its last checksum line is refused, or ends before that page.",
    "fault": "While the disk refuses writes or fsyncs, the server refuses writes with MISCONF, answers reads, and goes "
    "on by itself once the disk works again.",
    "fault always": "With `always` the server ends instead, and no reply for the write that was lost leaves.",
}


def assert_promised(*names: str) -> None:
    """These sentences stand in the document."""
    text = " ".join(DOCUMENT.read_text("utf-8").split())
    for name in names:
        assert PROMISES[name] in text, f"{DOCUMENT.name} does not say: {PROMISES[name]}"
