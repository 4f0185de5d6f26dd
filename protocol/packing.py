"""Commands into bytes, and the header lines of RESP kept ready. What of it is compiled is chosen here."""

from __future__ import annotations

from typing import Final

try:
    from .frames import pack_added, pack_adds, pack_command, splitter
except ImportError:  # no C compiler was at hand when this was installed
    from .plain_frames import pack_added, pack_adds, pack_command, splitter

__all__ = ["BULK_HEADERS", "HEADERS_COUNT", "pack_added", "pack_adds", "pack_command", "splitter"]

HEADERS_COUNT: Final = 1024
"""Header lines kept ready, for sizes below this: joining them costs less than printing a number."""
BULK_HEADERS: Final = [b"$%d\r\n" % size for size in range(HEADERS_COUNT)]
