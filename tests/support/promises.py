"""The promises of docs/durability.md: each test names the sentences that it proves, and the document must have them."""

from __future__ import annotations

from pathlib import Path

DOCUMENT = Path(__file__).parents[2] / "docs" / "durability.md"

PROMISES = {
    "prefix": "A start finds the dataset as it was after some write, with every write before it and none after it.",
    "kill": "`kill -9` loses no answered write, with any policy.",
    "always": "`always`: a power loss loses no answered write.",
    "everysec": "`everysec`: a power loss loses at most the writes that were answered in the last 1.1 seconds and "
    "during the last fsync.",
    "no": "`no`: a power loss loses the writes that the operating system had not yet written.",
    "hole": "A log that lost a page before its last checksum line is refused, or ends before that page.",
    "fault": "While the disk refuses writes or fsyncs, the server refuses writes with MISCONF and answers reads. It "
    "accepts writes again when the disk works again.",
    "fault always": "With `always`, a server whose write fails ends without a reply to that write.",
}


def assert_promised(*names: str) -> None:
    """Check that the document has these sentences, word for word."""
    text = " ".join(DOCUMENT.read_text("utf-8").split())
    for name in names:
        assert PROMISES[name] in text, f"{DOCUMENT.name} does not say: {PROMISES[name]}"
