"""Writes reply values, for installations without a C compiler: `reply_writer` does the same in C.

There is one encoder for RESP2, one for RESP3. The table of values is in replies.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from .replies import (
    BigNumber,
    DoubleText,
    ErrorReply,
    FormattedText,
    NullArray,
    PairList,
    Pairs,
    Push,
    Pushed,
    SetReply,
    SimpleString,
    Verbatim,
)
from .scalars import bulk, double_text, integer

Encoder = Callable[[Any, list[bytes]], None]


def _tuple(value: tuple[bytes, ...], out: list[bytes]) -> None:
    out += value


def _integer(value: int, out: list[bytes]) -> None:
    out.append(integer(value))


def _bulk(value: bytes, out: list[bytes]) -> None:
    out.append(bulk(value))


def _simple(value: bytes, out: list[bytes]) -> None:
    out.append(b"+%b\r\n" % value)


def _error(value: ErrorReply, out: list[bytes]) -> None:
    out.append(b"-%b\r\n" % value.wire_text)


def _constant(wire: bytes) -> Encoder:
    def encode(value: Any, out: list[bytes]) -> None:
        out.append(wire)

    return encode


def bulks(words: list[bytes]) -> bytes:
    """Return these words as bulk strings, one after the other: elements of an array whose header is made apart."""
    return b"".join([bulk(word) for word in words])


def _make_encoder(protocol: int) -> Encoder:
    """Return the encoder of one protocol, which looks a value's encoder up by its type."""
    is_resp3 = protocol == 3
    table: dict[type, Encoder] = {}

    def encode(value: Any, out: list[bytes]) -> None:
        write = table.get(type(value))
        if write is None:
            if not hasattr(value, "wire_text"):
                raise TypeError(f"no reply value: {value!r}")
            write = table[type(value)] = _error
        write(value, out)

    def sequence(mark: bytes) -> Encoder:
        def write(value: list[Any], out: list[bytes]) -> None:
            out.append(b"%b%d\r\n" % (mark, len(value)))
            for item in value:
                encode(item, out)

        return write

    def pairs(value: Pairs | dict[Any, Any], out: list[bytes]) -> None:
        items = value.items() if isinstance(value, dict) else value
        out.append(b"%%%d\r\n" % len(value) if is_resp3 else b"*%d\r\n" % (2 * len(value)))
        for key, item in items:
            encode(key, out)
            encode(item, out)

    def pair_list(value: PairList, out: list[bytes]) -> None:
        out.append(b"%b%d\r\n" % (b"%" if is_resp3 else b"*", len(value)))
        for key, item in value:
            if not is_resp3:
                out.append(b"*2\r\n")
            encode(key, out)
            encode(item, out)

    def verbatim(value: Verbatim, out: list[bytes]) -> None:
        out.append(b"=%d\r\ntxt:%b\r\n" % (len(value) + 4, value) if is_resp3 else bulk(value))

    def formatted(value: FormattedText, out: list[bytes]) -> None:
        out.append(b"=%d\r\n%b\r\n" % (len(value), value) if is_resp3 else bulk(value[4:]))

    def double(value: float | DoubleText, out: list[bytes]) -> None:
        text = value if isinstance(value, DoubleText) else double_text(value)
        out.append(b",%b\r\n" % text if is_resp3 else bulk(text))

    def big_number(value: BigNumber, out: list[bytes]) -> None:
        out.append(b"(%b\r\n" % value if is_resp3 else bulk(value))

    def boolean(value: bool, out: list[bytes]) -> None:
        out.append((b"#t\r\n" if value else b"#f\r\n") if is_resp3 else integer(value))

    table.update(
        {
            tuple: _tuple,
            Pushed: _tuple,
            int: _integer,
            bytes: _bulk,
            SimpleString: _simple,
            type(None): _constant(b"_\r\n" if is_resp3 else b"$-1\r\n"),
            NullArray: _constant(b"_\r\n" if is_resp3 else b"*-1\r\n"),
            list: sequence(b"*"),
            SetReply: sequence(b"~" if is_resp3 else b"*"),
            Push: sequence(b">" if is_resp3 else b"*"),
            dict: pairs,
            Pairs: pairs,
            PairList: pair_list,
            Verbatim: verbatim,
            FormattedText: formatted,
            float: double,
            DoubleText: double,
            BigNumber: big_number,
            bool: boolean,
        }
    )
    return encode


encode2: Final = _make_encoder(2)
encode3: Final = _make_encoder(3)
