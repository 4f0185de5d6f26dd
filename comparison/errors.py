"""The one error of a comparison: it cannot be made."""

from __future__ import annotations


class CannotCompare(Exception):
    """The comparison ends with exit code 2; the text is its only line on standard error, and has no password."""
