"""Packs commands and parses requests: this module imports the compiled twin if it was built, else the other."""

from __future__ import annotations

try:
    from .frames import pack_command, read_words, splitter
except ImportError:  # there was no C compiler at installation
    from .frames_plain import pack_command, read_words, splitter

__all__ = ["pack_command", "read_words", "splitter"]
