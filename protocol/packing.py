"""Commands into bytes, and bytes into requests: which form of it is used, compiled or plain, is chosen here."""

from __future__ import annotations

try:
    from .frames import pack_added, pack_adds, pack_command, splitter
except ImportError:  # no C compiler was at hand when this was installed
    from .plain_frames import pack_added, pack_adds, pack_command, splitter

__all__ = ["pack_added", "pack_adds", "pack_command", "splitter"]
