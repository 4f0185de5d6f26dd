"""The records of streams: this module imports the compiled form if it was built, else the plain one."""

from __future__ import annotations

try:
    from .codec import (
        addition_splitter,
        pack_added,
        pack_adds,
        pack_claim,
        pack_position,
        pack_sent,
        read_added,
        read_claimed,
        record_sent,
        record_splitter,
        words_of,
    )
except ImportError:  # there was no C compiler at installation
    from .codec_plain import (
        addition_splitter,
        pack_added,
        pack_adds,
        pack_claim,
        pack_position,
        pack_sent,
        read_added,
        read_claimed,
        record_sent,
        record_splitter,
        words_of,
    )

__all__ = [
    "addition_splitter",
    "pack_added",
    "pack_adds",
    "pack_claim",
    "pack_position",
    "pack_sent",
    "read_added",
    "read_claimed",
    "record_sent",
    "record_splitter",
    "words_of",
]
