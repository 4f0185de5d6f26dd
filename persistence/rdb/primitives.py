"""The parts of the RDB format that work byte by byte, CRC-64 and LZF: in C if they were compiled."""

from __future__ import annotations

try:
    from .crc64 import crc64, has_right_end, payload_end
    from .lzf import compress, decompress

    IS_COMPILED = True
except ImportError:  # there was no C compiler at installation
    from .crc64_plain import crc64, has_right_end, payload_end
    from .lzf_plain import compress, decompress

    IS_COMPILED = False

__all__ = ["IS_COMPILED", "compress", "crc64", "decompress", "has_right_end", "payload_end"]
