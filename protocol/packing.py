"""Packs commands and parses requests: this module imports the compiled form if it was built, else the plain one."""

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
except ImportError:  # there was no C compiler at installation
    from .frames_plain import (
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
