"""What stands for the transport of a socket that is closed."""

from __future__ import annotations

import asyncio
from typing import Final


class _Gone(asyncio.Transport):
    """Whatever is still handed to it is for nobody."""

    def write(self, data: bytes | bytearray | memoryview) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0

    def abort(self) -> None: ...

    def close(self) -> None: ...


GONE: Final = _Gone()
