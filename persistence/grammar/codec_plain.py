"""Packs the records of streams and reads them with hiredis: `codec` for installations without a C compiler.

Both modules behave alike and are tested by the same tests; `streams` chooses one.
"""

from __future__ import annotations

from array import array
from typing import Final

import hiredis

from ...protocol.packing import pack_command, splitter
from ...protocol.requests import Request, Split
from ...store.chunk import Body
from ...store.ids import format_id, parse_id
from ...store.stream import ShortStream
from .forms import CLAIM_COUNT_AFTER, CLAIM_TIME_AFTER, XADD_OPTIONS_AT, XCLAIM
from .kept import ADDITION, ADDITIONS, CLAIMS, STREAMS, Added, Claimed

# Bytes of records of strings at which no further one is packed at once.
STRINGS_SIZE: Final = 16 * 1024
# Words of `MAXLEN ~ n`.
CAP_COUNT: Final = 3
# Words of a claim's record without its IDs.
CLAIM_COUNT: Final = 13
# Words of a claim's record without its IDs, if it does not set the group's position.
CLAIM_BARE_COUNT: Final = 11


def addition_splitter() -> Split:
    """Return the function that splits requests off the front of bytes, for one reader. In this form no addition is kept
    as it was sent."""
    return splitter()


def record_splitter() -> Split:
    """Return the function that splits records off the front of a log. In this form records are not gathered in runs."""
    return splitter()


def words_of(request: Request) -> Request:
    """Return the words of a request, also of one that was kept as it was sent."""
    if request[0] is not ADDITION:
        return request
    reader = hiredis.Reader()
    reader.feed(request[2])
    words: Request = reader.gets()
    return words


def pack_added(argv: list[bytes], id_at: int, pairs_at: int, ms: int, seq: int) -> tuple[bytes, bytes, bytes]:
    """Return what an XADD produces: the ID `ms-seq` as a bulk string, the entry in its reply form, and the record.

    The record consists of `argv[:id_at]`, the ID, and the fields and values, `argv[pairs_at:]`.
    """
    id_text = b"%d-%d" % (ms, seq)
    id_bulk = b"$%d\r\n%b\r\n" % (len(id_text), id_text)
    pairs = pack_command(argv[pairs_at:])
    start = pack_command(argv[:id_at])
    count = len(argv) - pairs_at
    entry = b"*2\r\n" + id_bulk + pairs
    # Without the header, which differs between the entry and the record.
    start, rest = start[len(b"*%d\r\n" % id_at) :], pairs[len(b"*%d\r\n" % count) :]
    return id_bulk, entry, b"*%d\r\n" % (id_at + 1 + count) + start + id_bulk + rest


def pack_sent(request: Request, ms: int, seq: int) -> tuple[bytes, bytes]:
    """Return the ID `ms-seq` as a bulk string, and the entry in its reply form, of an addition that was kept as it was
    sent. Raises ValueError for any other request."""
    id_at = _find_id(request)
    return pack_added(words_of(request), id_at, id_at + 1, ms, seq)[:2]


def record_sent(request: Request, id_bulk: bytes, length: int) -> bytes:
    """Return the record of an addition that was kept as it was sent. The ID replaces `*`, and the `length` after
    trimming replaces `MAXLEN ~ n`."""
    id_at = _find_id(request)
    words = words_of(request)
    words[id_at] = id_bulk.split(b"\r\n")[1]
    if request[3]:
        words[3:5] = b"=", b"%d" % length
    return pack_command(words)


def _find_id(request: Request) -> int:
    """Return the index of the ID among the words of an addition."""
    id_at = XADD_OPTIONS_AT + (CAP_COUNT if request[3] else 0)
    words = words_of(request)
    if words[1] != request[1] or words[id_at] != b"*":
        raise ValueError("no XADD as it was sent")
    return id_at


def pack_claim(
    key: bytes, group: bytes, consumer: bytes, ids: bytes, ids_count: int, time_ms: int, count: int, last_id: bytes
) -> bytes:
    """`XCLAIM key group consumer 0 id .. TIME time_ms RETRYCOUNT count FORCE JUSTID LASTID last_id`; `ids` has
    `ids_count` bulk strings."""
    before = pack_command((b"XCLAIM", key, group, consumer, b"0"))
    after = pack_command(
        (b"TIME", b"%d" % time_ms, b"RETRYCOUNT", b"%d" % count, b"FORCE", b"JUSTID", b"LASTID", last_id)
    )
    # The words that every claim has, without the headers of the two parts.
    return b"*%d\r\n%b%b%b" % (CLAIM_COUNT + ids_count, before[4:], ids, after[4:])


def pack_position(key: bytes, group: bytes, last_id: bytes, entries_read: bytes) -> bytes:
    """`XGROUP SETID key group last_id ENTRIESREAD entries_read`."""
    return pack_command((b"XGROUP", b"SETID", key, group, last_id, b"ENTRIESREAD", entries_read))


def pack_strings(pairs: list[tuple[bytes, bytes]], start: int, expires: dict[bytes, int]) -> tuple[bytes, int]:
    """Return `SET key string` for pairs from `start` on, each followed by `PEXPIREAT key ms` if its key has an expiry
    time, and the index of the first pair that is left to the next call."""
    index, size = start, 0
    records: list[bytes] = []
    while index < len(pairs) and size < STRINGS_SIZE:
        key, value = pairs[index]
        record = pack_command((b"SET", key, value))
        if key in expires:
            record += pack_command((b"PEXPIREAT", key, b"%d" % expires[key]))
        records.append(record)
        size += len(record)
        index += 1
    return b"".join(records), index


def pack_streams(streams: list[tuple[bytes, ShortStream]], expires: dict[bytes, int]) -> bytes:
    """Return the records of short streams without groups: the entries, `XSETID key last_id ENTRIESADDED entries_added
    MAXDELETEDID max_deleted_id`, and `PEXPIREAT key ms` if the key has an expiry time. Raises ValueError for a block
    that is damaged, and for groups."""
    records: list[bytes] = []
    for key, short in streams:
        body, last_id, max_deleted_id, entries_added = Body.of_block(short[0]), short[2], short[3], short[4]
        if not body.count:
            raise ValueError("a block without entries")
        if short[9]:
            raise ValueError("a short stream with groups")
        records.append(pack_adds(key, body.slice(0, body.count), body.ends(0, body.count)))
        added, deleted = (b"ENTRIESADDED", b"%d" % entries_added), (b"MAXDELETEDID", format_id(max_deleted_id))
        records.append(pack_command((b"XSETID", key, format_id(last_id), *added, *deleted)))
        if key in expires:
            records.append(pack_command((b"PEXPIREAT", key, b"%d" % expires[key])))
    return b"".join(records)


def pack_adds(key: bytes, data: bytes, ends: array[int]) -> bytes:
    """Return the records `XADD key id field value ...` of entries that are stored end to end.

    `data` has the entries in their reply form, and `ends` the end offset of each: `*2 <id> *4 <f> <v> <f> <v>` becomes
    `*7 XADD <key> <id> <f> <v> <f> <v>`.
    """
    start = pack_command((b"XADD", key))[len(b"*2\r\n") :]
    pieces: list[bytes] = []
    at = 0
    for end in ends:
        id_at = at + len(b"*2\r\n")
        count_at = data.index(b"\r\n*", id_at) + len(b"\r\n*")
        pairs_at = data.index(b"\r\n", count_at) + len(b"\r\n")
        count = int(data[count_at:pairs_at])
        pieces += (b"*%d\r\n" % (count + 3), start, data[id_at : count_at - 1], data[pairs_at:end])
        at = end
    return b"".join(pieces)


def read_added(run: Request) -> Added:
    """Return the entries of a run of records (`ADDITIONS`): their reply forms end to end, the halves of their IDs, and
    the end offset of each. Raises ValueError for any other request."""
    if run[:1] != [ADDITIONS]:
        raise ValueError("no run of records")
    columns = array("Q"), array("Q"), array("Q")
    entries: list[bytes] = []
    size = 0
    reader = hiredis.Reader()
    reader.feed(run[2])
    for _ in range(int(run[3])):
        words = reader.gets()
        if not words or words[1] != run[1]:
            raise ValueError("no run of records")
        entries.append(b"*2\r\n" + pack_command((words[2],))[4:] + pack_command(words[3:]))
        size += len(entries[-1])
        for column, number in zip(columns, (*map(int, words[2].split(b"-")), size), strict=True):
            column.append(number)
    return b"".join(entries), *columns


def read_claimed(run: Request) -> Claimed:
    """Return the contents of a run of claims (`CLAIMS`). Raises ValueError for any other request."""
    if run[:1] != [CLAIMS]:
        raise ValueError("no run of records")
    owners: set[tuple[bytes, ...]] = set()
    ids: list[bytes] = []
    records: list[tuple[int, int, int]] = []
    reader = hiredis.Reader()
    reader.feed(run[2])
    for _ in range(int(run[3])):
        words = reader.gets()
        if not words or words[1] != run[1] or len(words) <= CLAIM_BARE_COUNT:
            raise ValueError("no run of records")
        ids_count = len(words) - CLAIM_BARE_COUNT
        ids_end = XCLAIM.ids_at + ids_count
        owners.add((words[XCLAIM.group_at], words[XCLAIM.consumer_at]))
        ids += words[XCLAIM.ids_at : ids_end]
        # The number follows the name of the option.
        time_at, count_at = ids_end + CLAIM_TIME_AFTER + 1, ids_end + CLAIM_COUNT_AFTER + 1
        records.append((ids_count, int(words[time_at]), int(words[count_at])))
    if len(owners) != 1:
        raise ValueError("no run of records")
    ((group, consumer),) = owners
    return group, consumer, ids, records


def read_streams(run: Request, duration_s: int, entries_max: int) -> list[tuple[bytes, ShortStream]]:
    """Return the keys and the streams of a run of whole streams (`STREAMS`). They get these settings of idempotence.
    Raises ValueError for any other request."""
    if run[:1] != [STREAMS]:
        raise ValueError("no run of records")
    streams: list[tuple[bytes, ShortStream]] = []
    added: list[bytes] = []
    reader = hiredis.Reader()
    reader.feed(run[2])
    for _ in range(int(run[3])):
        words = reader.gets()
        if not words:
            raise ValueError("no run of records")
        if words[0].upper() == b"XADD":
            added.append(pack_command(words))
            continue
        key, counters = words[1], (parse_id(words[2]), parse_id(words[6]), int(words[4]))
        if not added:
            raise ValueError("no run of records")
        body = Body.of_columns(*read_added([ADDITIONS, key, b"".join(added), b"%d" % len(added)]))
        streams.append((key, (body.block(), None, *counters, duration_s, entries_max, 0, 0, [])))
        added = []
    if added or not streams:
        raise ValueError("no run of records")
    return streams
