"""Parses requests and packs commands with hiredis: `frames` for installations without a C compiler.

Both modules behave alike and are tested by the same tests; `packing` chooses one.
"""

from __future__ import annotations

import re
from itertools import chain
from operator import itemgetter
from typing import Final

import hiredis

from .requests import CROSS_PROTOCOL, SLICE_SIZE, Request, Split

_CARRIAGE_RETURN: Final = 0x0D
# Everything before the last line that looks like a request header. A `*` without a digit is a value.
_LAST_REQUEST: Final = re.compile(rb".*\r\n(?=\*[0-9])", re.DOTALL)

# A count for which hiredis would allocate a long list. The careful parser reads such a request.
_LARGE_COUNT: Final = re.compile(rb"\*[0-9]{5}")
# The header and type tag of a verbatim string. After the value `a=5` there can be no colon at that place.
_VERBATIM: Final = re.compile(rb"=[0-9]+\r\n...:", re.DOTALL)
_SET: Final = re.compile(rb"~[0-9]+\r\n")
_ATTRIBUTE: Final = re.compile(rb"\|[0-9]+\r\n")
# Headers of pushes, which hiredis also returns as lists. A `>` without a number is a value.
_PUSH: Final = re.compile(rb">[0-9]+\r\n")

_SENTINEL: Final = b":7\r\n"
# A value fed after the data. hiredis returns it as the last value, unless it is in the middle of another value.
_SENTINEL_VALUE: Final = 7
# The result of hiredis when it needs more bytes. Its default, False, is also the value of `#f`.
_NOT_ENOUGH: Final = object()
_first_word = itemgetter(0)


def pack_command(words: list[bytes] | tuple[bytes, ...]) -> bytes:
    """`(b"XLEN", b"s")` -> `*2\\r\\n$4\\r\\nXLEN\\r\\n$1\\r\\ns\\r\\n`."""
    packed: bytes = hiredis.pack_command(tuple(words))  # type: ignore[arg-type]  # annotated as a tuple of one
    return packed


def read_words(data: bytearray, position: int, count: int, size_max: int, words: list[bytes]) -> int:
    """Append the bulk strings of `data` from a position on, as far as they are complete and in no doubt; at most
    `count`, of at most `size_max` bytes each. Returns the position after them.

    All may be left to the careful parser. Here they are: hiredis reads no part of a request.
    """
    return position


def splitter() -> Split:
    """Return the function that splits complete requests off the front of bytes, for one reader."""
    return _Splitter().split


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
