"""The policy lines of the groups of a stream: their settings, and the due times of released entries."""

from __future__ import annotations

from collections.abc import Iterator

from ..group import Group
from ..image import GroupImage, StreamImage
from ..stream import Stream
from .due_words import due_words


def config_words(key: bytes, group: Group | GroupImage) -> list[bytes]:
    """The line with all settings of a group."""
    policy = group.policy
    return [b"XGROUP", b"CONFIG", key, group.name, *([] if policy is None else policy.words())]


def config_lines(key: bytes, stream: Stream | StreamImage) -> Iterator[list[bytes]]:
    """Yield the settings of each group that has some."""
    for group in _groups(stream):
        if group.policy is not None:
            yield config_words(key, group)


def due_lines(key: bytes, stream: Stream | StreamImage) -> Iterator[list[bytes]]:
    """Yield the due times of released entries. Those that no consumer ever had are among them, due or not."""
    for group in _groups(stream):
        rules = group.pending.rules
        if rules is not None:
            yield from due_words(key, group.name, rules.due_times())


def _groups(stream: Stream | StreamImage) -> list[Group] | list[GroupImage]:
    return stream.groups if isinstance(stream, StreamImage) else stream.sorted_groups()
