"""Encodes reply values: one encoder for RESP2, one for RESP3. The table of values is in replies.py.

This module imports the compiled twin of the encoders if it was built, else the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

try:
    from .reply_writer import bulks, encode2, encode3
except ImportError:  # there was no C compiler at installation
    from .reply_writer_plain import bulks, encode2, encode3  # type: ignore[assignment]

__all__ = ["ENCODERS", "Encoder", "bulks", "encode2", "encode3"]

# Appends the pieces of a reply to a list: bytes, and iterators over bytes that are made while they are sent.
Encoder = Callable[[Any, list[bytes]], None]

# Encoder by protocol version.
ENCODERS: Final[dict[int, Encoder]] = {2: encode2, 3: encode3}
