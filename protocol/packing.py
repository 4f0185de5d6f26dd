"""Commands into bytes, and bytes into requests: which form of it is used, compiled or plain, is chosen here."""

from __future__ import annotations

try:
    from .frames import (
        pack_added,
        pack_adds,
        pack_claim,
        pack_command,
        pack_position,
        pack_sent,
        read_added,
        read_claimed,
        record_sent,
        record_splitter,
        splitter,
        words_of,
    )  # fmt: skip
except ImportError:  # no C compiler was at hand when this was installed
    from .plain_frames import (
        pack_added,
        pack_adds,
        pack_claim,
        pack_command,
        pack_position,
        pack_sent,
        read_added,
        read_claimed,
        record_sent,
        record_splitter,
        splitter,
        words_of,
    )  # fmt: skip

__all__ = [
    "pack_added",
    "pack_adds",
    "pack_claim",
    "pack_command",
    "pack_position",
    "pack_sent",
    "read_added",
    "read_claimed",
    "record_sent",
    "record_splitter",
    "splitter",
    "words_of",
]
