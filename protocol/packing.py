"""Arrays of bulk strings, packed in C: requests, log records, and the field-value part of stored entries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, cast

import hiredis

pack_command: Final = cast(Callable[[tuple[bytes, ...]], bytes], hiredis.pack_command)
"""`(b"XLEN", b"s")` -> `*2\\r\\n$4\\r\\nXLEN\\r\\n$1\\r\\ns\\r\\n`. hiredis annotates tuples of one only."""

HEADERS_COUNT: Final = 1024
"""Header lines kept ready, for sizes below this: joining them costs less than printing a number."""
ARRAY_HEADERS: Final = [b"*%d\r\n" % count for count in range(HEADERS_COUNT)]
BULK_HEADERS: Final = [b"$%d\r\n" % size for size in range(HEADERS_COUNT)]
