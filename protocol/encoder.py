"""Encodes reply values: one encoder for RESP2, one for RESP3. The table of values is in replies.py."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from math import inf
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

INTEGERS_MAX: Final = 1024
# Small integers, encoded once.
INTEGERS: Final = [b":%d\r\n" % number for number in range(INTEGERS_MAX)]

# Whole doubles up to this are written as integers. Redis does so too, where no rounding can exceed 64 bits.
WHOLE_DOUBLE_MAX: Final = 2**62
TRAILING_ZEROS_MAX: Final = 7
# The largest scale at which other doubles are written without an exponent, as in Redis.
PLAIN_SCALE_MAX: Final = 4

Encoder = Callable[[Any, list[bytes]], None]


def bulk(value: bytes) -> bytes:
    """Encode a bulk string."""
    return b"$%d\r\n%b\r\n" % (len(value), value)


def integer(number: int) -> bytes:
    """Encode an integer reply."""
    return INTEGERS[number] if 0 <= number < INTEGERS_MAX else b":%d\r\n" % number


def double_text(number: float) -> bytes:
    """The shortest text that reads back as the same double, laid out as Redis does; `inf`, `-inf`, `nan`.

    Whole numbers up to half the 64-bit range, and numbers with small exponents, have no exponent; all others are
    `d.ddde+x`. For one double in some two hundred, Redis prints a longer text of the same double; this returns the
    shortest.
    """
    if number != number or number in (inf, -inf):
        return repr(number).encode()
    if number.is_integer() and abs(number) <= WHOLE_DOUBLE_MAX:
        return b"%d" % int(number)
    sign, mantissa, exponent = Decimal(repr(number)).normalize().as_tuple()
    assert isinstance(exponent, int), "inf and nan are answered above"
    digits = "".join(map(str, mantissa))
    scale = len(digits) + exponent - 1
    if exponent >= 0 and scale < len(digits) + TRAILING_ZEROS_MAX:
        text = digits + "0" * exponent
    elif exponent < 0 and (exponent > -TRAILING_ZEROS_MAX or abs(scale) < PLAIN_SCALE_MAX):
        point = len(digits) + exponent
        text = f"{digits[:point]}.{digits[point:]}" if point > 0 else f"0.{'0' * -point}{digits}"
    else:
        text = f"{digits[0]}{'.' * (len(digits) > 1)}{digits[1:]}e{scale:+d}"
    return ("-" * sign + text).encode()


def _tuple(value: tuple[bytes, ...], out: list[bytes]) -> None:
    out += value


def _integer(value: int, out: list[bytes]) -> None:
    out.append(INTEGERS[value] if 0 <= value < INTEGERS_MAX else b":%d\r\n" % value)


def _bulk(value: bytes, out: list[bytes]) -> None:
    out.append(b"$%d\r\n%b\r\n" % (len(value), value))


def _simple(value: bytes, out: list[bytes]) -> None:
    out.append(b"+%b\r\n" % value)


def _error(value: ErrorReply, out: list[bytes]) -> None:
    out.append(b"-%b\r\n" % value.wire_text)


def _constant(wire: bytes) -> Encoder:
    def encode(value: Any, out: list[bytes]) -> None:
        out.append(wire)

    return encode


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
                if type(item) is bytes:  # most elements of most lists
                    out.append(b"$%d\r\n%b\r\n" % (len(item), item))
                else:
                    encode(item, out)

        return write

    def pairs(value: Pairs | dict[Any, Any], out: list[bytes]) -> None:
        items = value.items() if isinstance(value, dict) else value
        out.append(b"%%%d\r\n" % len(value) if is_resp3 else b"*%d\r\n" % (2 * len(value)))
        for key, item in items:
            if type(key) is bytes and type(item) is bytes:  # as in CONFIG GET
                out.append(b"$%d\r\n%b\r\n$%d\r\n%b\r\n" % (len(key), key, len(item), item))
            else:
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
# Encoder by protocol version.
ENCODERS: Final = {2: encode2, 3: encode3}
