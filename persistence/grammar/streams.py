"""The records of streams: the one place that knows how an effect on a stream is written to the log.

A handler whose request is already absolute, as XDEL, logs the request. Every other record of a stream is packed here:
by handlers while the server runs, and by `snapshot`, which writes the base of a rewritten log. IDs are given as text.

When the log is loaded, `record_splitter` gathers runs of records, which `read_added`, `read_claimed` and `read_streams`
take apart; the handlers run all others. `forms` says where each word is, for readers that do not run records.

The functions that are hot are in `codec`, or in `codec_plain` if that was not compiled.
"""

from __future__ import annotations

from ...protocol.packing import pack_command

try:
    from .codec import (
        addition_splitter,
        pack_added,
        pack_adds,
        pack_claim,
        pack_position,
        pack_sent,
        pack_streams,
        pack_strings,
        read_added,
        read_claimed,
        read_streams,
        record_sent,
        record_splitter,
        words_of,
    )
except ImportError:  # there was no C compiler at installation
    from .codec_plain import (
        addition_splitter,
        pack_added,
        pack_adds,
        pack_claim,
        pack_position,
        pack_sent,
        pack_streams,
        pack_strings,
        read_added,
        read_claimed,
        read_streams,
        record_sent,
        record_splitter,
        words_of,
    )

__all__ = [
    "addition_splitter",
    "exact_trim",
    "pack_acked_trim",
    "pack_acknowledged",
    "pack_added",
    "pack_adds",
    "pack_base_claim",
    "pack_claim",
    "pack_consumer",
    "pack_counters",
    "pack_deleted",
    "pack_empty_stream",
    "pack_group",
    "pack_length",
    "pack_pair",
    "pack_placeholder",
    "pack_position",
    "pack_released",
    "pack_sent",
    "pack_settings",
    "pack_streams",
    "pack_strings",
    "read_added",
    "read_claimed",
    "read_streams",
    "record_sent",
    "record_splitter",
    "without_options",
    "words_of",
]

# -- pending entries ----------------------------------------------------------------------------------
#
# A claim has two forms, each with the words in the order of Redis:
#
#     pack_claim         XCLAIM key group consumer 0 id ... TIME ms RETRYCOUNT count FORCE JUSTID LASTID id
#     pack_base_claim    XCLAIM key group consumer 0 id ... TIME ms RETRYCOUNT count JUSTID FORCE
#
# The first logs a delivery, which also moves the group's last-delivered ID; in a base, XGROUP CREATE has set that ID.
# Redis writes a record for each ID, and loads a record with many.


def pack_base_claim(key: bytes, group: bytes, consumer: bytes, ids: list[bytes], time_ms: int, count: int) -> bytes:
    """`XCLAIM key group consumer 0 id ... TIME time_ms RETRYCOUNT count JUSTID FORCE`: pending entries in a base."""
    return pack_command(
        (
            b"XCLAIM", key, group, consumer, b"0", *ids, b"TIME", b"%d" % time_ms, b"RETRYCOUNT", b"%d" % count,
            b"JUSTID", b"FORCE",
        )
    )  # fmt: skip


def pack_released(key: bytes, group: bytes, ids: list[bytes], count: int) -> bytes:
    """`XNACK key group FAIL IDS numids id ... RETRYCOUNT count FORCE`: pending entries without an owner."""
    return pack_command(
        (
            b"XNACK", key, group, b"FAIL", b"IDS", b"%d" % len(ids), *ids, b"RETRYCOUNT", b"%d" % count, b"FORCE",
        )
    )  # fmt: skip


def pack_acknowledged(key: bytes, group: bytes, entry_id: bytes) -> bytes:
    """`XACK key group id`: a pending entry that was dropped."""
    return pack_command((b"XACK", key, group, entry_id))


# -- groups -------------------------------------------------------------------------------------------
#
# `pack_position` packs `XGROUP SETID key group id ENTRIESREAD entries_read`.


def pack_group(key: bytes, group: bytes, last_id: bytes, entries_read: int) -> bytes:
    """`XGROUP CREATE key group last_id ENTRIESREAD entries_read`."""
    return pack_command((b"XGROUP", b"CREATE", key, group, last_id, b"ENTRIESREAD", b"%d" % entries_read))


def pack_consumer(key: bytes, group: bytes, consumer: bytes) -> bytes:
    """`XGROUP CREATECONSUMER key group consumer`: a consumer that no claim creates."""
    return pack_command((b"XGROUP", b"CREATECONSUMER", key, group, consumer))


# -- entries ------------------------------------------------------------------------------------------
#
# `pack_added`, `record_sent` and `pack_adds` pack `XADD key ... id field value ...`, and `pack_streams` packs all
# records of short streams.


def pack_placeholder(key: bytes, entry_id: bytes) -> bytes:
    """`XADD key id "" ""`: an empty entry in place of a deleted one, which later records name."""
    return pack_command((b"XADD", key, entry_id, b"", b""))


def pack_empty_stream(key: bytes) -> bytes:
    """`XADD key MAXLEN 0 0-1 x y`: creates an empty stream, as the entry is trimmed at once."""
    return pack_command((b"XADD", key, b"MAXLEN", b"0", b"0-1", b"x", b"y"))


def pack_deleted(key: bytes, ids: list[bytes]) -> bytes:
    """`XDEL key id ...`."""
    return pack_command((b"XDEL", key, *ids))


def pack_length(key: bytes, length: int) -> bytes:
    """`XTRIM key MAXLEN = length`."""
    return pack_command((b"XTRIM", key, b"MAXLEN", b"=", b"%d" % length))


def pack_acked_trim(key: bytes, id_min: bytes) -> bytes:
    """`XTRIM key MINID = id_min ACKED`."""
    return pack_command((b"XTRIM", key, b"MINID", b"=", id_min, b"ACKED"))


def exact_trim(words: list[bytes], threshold_at: int, threshold: bytes) -> list[bytes]:
    """Returns the words of an XADD or XTRIM with `= threshold` in place of `~` and the word at `threshold_at`."""
    record = list(words)  # by copy and change, as it is the quickest way: XADD with MAXLEN or MINID comes here
    record[threshold_at - 1], record[threshold_at] = b"=", threshold
    return record


def without_options(words: list[bytes], id_at: int, producer_id: bytes | None, iid: bytes) -> list[bytes]:
    """Returns the words of an XADD without options except `IDMP producer_id iid`. `words[id_at]` is its ID."""
    pair = () if producer_id is None else (b"IDMP", producer_id, iid)
    return [*words[:2], *pair, *words[id_at:]]


# -- counters and settings ----------------------------------------------------------------------------


def pack_counters(key: bytes, last_id: bytes, entries_added: int, max_deleted_id: bytes) -> bytes:
    """`XSETID key last_id ENTRIESADDED entries_added MAXDELETEDID max_deleted_id`."""
    return pack_command(
        (b"XSETID", key, last_id, b"ENTRIESADDED", b"%d" % entries_added, b"MAXDELETEDID", max_deleted_id)
    )


def pack_settings(key: bytes, duration_s: int, entries_max: int) -> bytes:
    """`XCFGSET key IDMP-DURATION duration_s IDMP-MAXSIZE entries_max`."""
    return pack_command((b"XCFGSET", key, b"IDMP-DURATION", b"%d" % duration_s, b"IDMP-MAXSIZE", b"%d" % entries_max))


def pack_pair(key: bytes, producer_id: bytes, iid: bytes, entry_id: bytes) -> bytes:
    """`XIDMPRECORD key producer_id iid entry_id`: an idempotent ID and the entry that was added with it."""
    return pack_command((b"XIDMPRECORD", key, producer_id, iid, entry_id))
