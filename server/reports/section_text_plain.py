"""The text of a section of INFO: `section_text` for installations without a C compiler. Both behave alike."""

from __future__ import annotations


def section_text(title: str, fields: list[tuple[str, object]]) -> bytes:
    """The heading of a section, and a line for each field. Texts may have bytes that are no UTF-8, as in paths."""
    lines = "".join([f"{name}:{value}\r\n" for name, value in fields])
    return f"# {title}\r\n{lines}".encode("utf-8", "surrogateescape")
