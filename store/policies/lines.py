"""The policy lines of a stream: what is written after it in a file, so that a reader has its policies again.

A policy line is a list of words, a command that only Headrace understands:

    XGROUP CONFIG key group option value ...    all settings of a group
    XCFGSET key option value ...                all settings of the stream itself
    DUE key group due-ms id [id ...]            released entries that may not be had before; 2**63 - 1: until something
                                                else makes them due
    LATER key due-ms id [id ...]                entries that groups do not hand out before; with several due times as
                                                DUE has them

`persistence.policy_lines` has the forms in which files and replicas get them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from ..image import StreamImage
from ..stream import Stream
from .due_words import later_words
from .group_lines import config_lines, due_lines

# Yields the lines of one kind, of a key with this stream or with the copy of one.
Source: TypeAlias = Callable[[bytes, Stream | StreamImage], Iterator[list[bytes]]]


def _settings_of_stream(key: bytes, stream: Stream | StreamImage) -> Iterator[list[bytes]]:
    if stream.policy is not None:
        yield [b"XCFGSET", key, *stream.policy.words()]


def _later_of_stream(key: bytes, stream: Stream | StreamImage) -> Iterator[list[bytes]]:
    if stream.later is not None:
        yield from later_words(key, stream.later.walk())


# One for each kind of line, in the order in which a reader must apply them. Not final, so that tests can add kinds to
# the compiled form.
SOURCES: tuple[Source, ...] = (_settings_of_stream, config_lines, due_lines, _later_of_stream)


def lines_of(key: bytes, stream: Stream | StreamImage) -> Iterator[list[bytes]]:
    """Yield the policy lines of a stream as it is, or as its copy is; none if it has no policies."""
    for source in SOURCES:
        yield from source(key, stream)
