"""XADD DELAY and AT: entries of a stream that consumer groups do not hand out before a time.

They are in the stream at once, for all other commands. A read of a group skips them: see `skipping`.
"""

from __future__ import annotations

from typing import Final

from ...store.ids import StreamID
from ...store.policies.due_words import later_words, read_due_words
from ...store.stream import Stream
from ..execution.context import Context
from .lines import APPLIERS

# Due times that one visit forgets.
FORGOTTEN_MAX: Final = 4096


def delay_added(context: Context, key: bytes, stream: Stream, entry_id: StreamID, due_ms: int) -> None:
    """Let groups not hand out an entry before `due_ms`, Unix time, and log that. The past changes nothing. An entry
    that the same command has trimmed has no due time.
    """
    if due_ms <= context.now_ms or not stream.log.still_has(entry_id):
        return
    stream.delay(entry_id, due_ms)
    for words in later_words(key, [(entry_id, due_ms)]):
        context.log_policy(words)
    context.counted_apart -= 1  # two records, one change
    context.visits.note((context.db.index, key, None), due_ms)


def forget_due(context: Context, key: bytes, stream: Stream) -> None:
    """Forget the due times that are over, and note the next visit. Readers that wait have skipped such an entry,
    and get it by the visit of their group.
    """
    if context.image is not None:
        context.image.preserve(stream)
    due_ms = stream.forget_due(context.now_ms, FORGOTTEN_MAX)
    if due_ms is not None:
        context.visits.note((context.db.index, key, None), due_ms)


def _apply_later(context: Context, words: list[bytes]) -> None:
    """Applies `LATER key due-ms id ...`. Entries that are gone have no due time."""
    stream = context.db.keys.get(words[1])
    if isinstance(stream, Stream):
        for entry_id, due_ms in read_due_words(words[2:]):
            if entry_id in stream.log:
                stream.delay(entry_id, due_ms)
        context.visits.note((context.db.index, words[1], None), 0)


APPLIERS[b"LATER"] = _apply_later
