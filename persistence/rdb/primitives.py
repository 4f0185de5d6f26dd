"""What of the RDB format is done byte by byte, CRC-64 and LZF: in C where they were compiled."""

from __future__ import annotations

try:
    from .crc64 import crc64
    from .lzf import compress, decompress

    IS_COMPILED = True
except ImportError:  # no C compiler was at hand when this was installed
    from .plain_crc64 import crc64
    from .plain_lzf import compress, decompress

    IS_COMPILED = False

__all__ = ["IS_COMPILED", "compress", "crc64", "decompress"]
