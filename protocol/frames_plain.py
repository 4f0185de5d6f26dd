"""Parses requests and packs commands with hiredis: `frames` for installations without a C compiler.

Both modules behave alike and are tested by the same tests; `packing` chooses one.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable
from itertools import chain, product
from operator import itemgetter
from typing import Final, TypeAlias

import hiredis

Request = list[bytes]
# Entries, the two halves of their IDs, and the end offset of each entry.
Added: TypeAlias = "tuple[bytes, array[int], array[int], array[int]]"
# Group, consumer, all IDs, and for each record its number of IDs, the delivery time in Unix ms, and the delivery count.
Claimed: TypeAlias = "tuple[bytes, bytes, list[bytes], list[tuple[int, int, int]]]"
# `(data, bulk_size_max)` -> the complete requests at the beginning of `data`, and their size in bytes.
Split = Callable[[bytes, int], tuple[list[Request], int]]


class _Mark(bytes):
    """Bytes that are equal only to the same object, so that no client can send them."""

    __slots__ = ()
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other


# The first item of a request that is kept as it was sent: `[ADDITION, key, sent, cap]` is `XADD key [MAXLEN ~ cap] *
# field value ...`. `sent` has all its bytes, and `cap` is empty without MAXLEN. The stored entry and its record are
# made by copying these bytes (benchmark rows XADD).
ADDITION: Final = _Mark(b"XADD")

# The first item of a run of records that are kept as they are in the log: `[ADDITIONS, key, sent, count]` is `count`
# times `XADD key id field value ...`, with ascending IDs. `sent` has all their bytes (benchmark row reload).
ADDITIONS: Final = _Mark(b"XADD")

# The first item of a run of claims that are kept as they are in the log: `[CLAIMS, key, sent, count]` is `count` times
# `XCLAIM key group consumer 0 id ... TIME ms RETRYCOUNT count JUSTID FORCE`, as a rewrite records the pending entries
# of one consumer.
CLAIMS: Final = _Mark(b"XCLAIM")

# First words of HTTP requests, in lower case, that a browser may have been tricked into sending.
CROSS_PROTOCOL: Final = frozenset(
    bytes(letters) for word in (b"POST", b"HOST:") for letters in product(*({letter, letter | 0x20} for letter in word))
)
# Bytes passed to hiredis at once: it moves all bytes that are left each time it has read a kilobyte.
SLICE_SIZE: Final = 16 * 1024

# Words of a claim's record without its IDs.
CLAIM_COUNT: Final = 13
# Words of a claim's record without its IDs, if it does not set the group's position.
CLAIM_BARE_COUNT: Final = 11

_CARRIAGE_RETURN: Final = 0x0D
# Everything before the last line that looks like a request header. A `*` without a digit is the ID of an XADD.
_LAST_REQUEST: Final = re.compile(rb".*\r\n(?=\*[0-9])", re.DOTALL)

# A count for which hiredis would allocate a long list. The careful parser reads such a request.
_LARGE_COUNT: Final = re.compile(rb"\*[0-9]{5}")
# The header and type tag of a verbatim string. After the value `a=5` there can be no colon at that place.
_VERBATIM: Final = re.compile(rb"=[0-9]+\r\n...:", re.DOTALL)
_SET: Final = re.compile(rb"~[0-9]+\r\n")
_ATTRIBUTE: Final = re.compile(rb"\|[0-9]+\r\n")
# Headers of pushes, which hiredis also returns as lists. The ID `>` of XREADGROUP is not followed by a number.
_PUSH: Final = re.compile(rb">[0-9]+\r\n")

_SENTINEL: Final = b":7\r\n"
# A value fed after the data. hiredis returns it as the last value, unless it is in the middle of another value.
_SENTINEL_VALUE: Final = 7
# The result of hiredis when it needs more bytes. Its default, False, is also the value of `#f`.
_NOT_ENOUGH: Final = object()
_first_word = itemgetter(0)


def words_of(request: Request) -> Request:
    """Return the words of a request, also of one that was kept as it was sent."""
    if request[0] is not ADDITION:
        return request
    reader = hiredis.Reader()
    reader.feed(request[2])
    words: Request = reader.gets()
    return words


def pack_command(words: list[bytes] | tuple[bytes, ...]) -> bytes:
    """`(b"XLEN", b"s")` -> `*2\\r\\n$4\\r\\nXLEN\\r\\n$1\\r\\ns\\r\\n`."""
    packed: bytes = hiredis.pack_command(tuple(words))  # type: ignore[arg-type]  # annotated as a tuple of one
    return packed


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
    id_at = 5 if request[3] else 2
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


def splitter(keeps_additions: bool = False) -> Split:
    """Return the function that splits complete requests off the front of bytes, for one reader. In this form no
    addition is kept as it was sent."""
    return _Splitter().split


def record_splitter() -> Split:
    """Return the function that splits records off the front of a log. In this form records are not gathered in runs."""
    return _Splitter().split


def is_run(record: Request) -> bool:
    """Whether this is a run of records that are kept as they are in the log: `ADDITIONS` or `CLAIMS`."""
    return record[0] is ADDITIONS or record[0] is CLAIMS


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
        owners.add(tuple(words[2:4]))
        ids += words[5:-6]
        records.append((len(words) - CLAIM_BARE_COUNT, int(words[-5]), int(words[-3])))
    if len(owners) != 1:
        raise ValueError("no run of records")
    ((group, consumer),) = owners
    return group, consumer, ids, records


class _Splitter:
    def __init__(self) -> None:
        self._reader = hiredis.Reader(notEnoughData=_NOT_ENOUGH)

    def split(self, data: bytes, bulk_size_max: int) -> tuple[list[Request], int]:
        """Return the complete requests at the beginning of `data`, and their size; no request if any is in doubt."""
        if len(data) <= bulk_size_max:
            if data[-2:] == b"\r\n":
                requests = self._read_all(data)
                if requests is not None:
                    return requests, len(data)
            # The socket may cut a long pipeline at any byte.
            head = _LAST_REQUEST.match(data)
            requests = None if head is None else self._read_all(head[0])
            if head is not None and requests is not None:
                return requests, head.end()
        return [], 0

    def _read_all(self, data: bytes) -> list[Request] | None:
        r"""Parse `data`, which begins with `*` and ends with CR LF, with hiredis. Returns None if the careful parser
        must decide.

        Why the result is right: The sentinel was the last value, or nothing was left after the first value. So `data`
        is a sequence of complete values, all of them non-empty lists (taking the first word or joining raises for all
        else). Sets, attributes, pushes and verbatim strings were excluded by their headers and maps are no lists, so
        these are arrays. Their elements are bytes, for the same reason: bulk strings, simple strings or big numbers.
        Count the CR LF: one for each array header; one for each simple string or big number; for a bulk string one
        after its length and, as no value contains one, at most one that ends in the two bytes after the value. The
        count is therefore at most arrays + 2 * elements, and reaches it only if all elements are bulk strings. hiredis
        accepts numbers in the same form as the careful parser, and ignores the two bytes too, a count of four digits is
        below every ceiling, and no value is longer than `data`.

        Values may contain CR LF after all if packing the requests gives `data` back: that proves the result too, but
        takes longer. Benchmark rows: all.
        """
        if _LARGE_COUNT.search(data) is not None or _may_hold_other_types(data):
            return None
        reader = self._reader
        requests: list[Request] = []
        try:
            rest = data
            while len(rest) > SLICE_SIZE:
                reader.feed(rest[:SLICE_SIZE])
                requests += iter(reader.gets, _NOT_ENOUGH)
                rest = rest[SLICE_SIZE:]
            reader.feed(rest)
            value = reader.gets()
            if not requests and type(value) is list and not reader.has_data():
                # One request that took every byte: the end is known without a sentinel.
                text = b"".join(value)
                is_plain = _CARRIAGE_RETURN not in text and value[0] not in CROSS_PROTOCOL
                if is_plain and data.count(b"\r\n") == 1 + 2 * len(value):
                    return [value]
            reader.feed(_SENTINEL)
            while type(value) is list:
                requests.append(value)
                value = reader.gets()
            if value is _NOT_ENOUGH:
                value = reader.gets()
            if (
                value == _SENTINEL_VALUE
                and not reader.has_data()
                and CROSS_PROTOCOL.isdisjoint(map(_first_word, requests))
            ):
                arguments = list(chain.from_iterable(requests))
                text = b"".join(arguments)
                if _CARRIAGE_RETURN not in text or text.find(b"\r\n") < 0:
                    if data.count(b"\r\n") == len(requests) + 2 * len(arguments):
                        return requests
                elif b"".join(map(pack_command, map(tuple, requests))) == data:
                    return requests
        except (hiredis.HiredisError, TypeError, LookupError):
            # Not a sequence of lists of bytes, or not RESP: the careful parser decides.
            pass
        self._reader = hiredis.Reader(notEnoughData=_NOT_ENOUGH)
        return None


def _may_hold_other_types(data: bytes) -> bool:
    """Whether something in `data` could be the header of a set, attribute, push or verbatim string.

    Each mark is searched for alone: that is a memchr, many times faster than a pattern with alternatives.
    """
    return (
        (0x3E in data and _PUSH.search(data) is not None)
        or (0x3D in data and _VERBATIM.search(data) is not None)
        or (0x7E in data and _SET.search(data) is not None)
        or (0x7C in data and _ATTRIBUTE.search(data) is not None)
    )
