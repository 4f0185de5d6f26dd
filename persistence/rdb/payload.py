"""The payload of DUMP and RESTORE: `type, value, version (2 bytes), CRC-64 of all before it`, little-endian."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from sys import maxsize
from typing import Final

from ...store.companions.companion import Companion
from ...store.image import stream_image
from ...store.limits import Limits
from ...store.stream import Stream
from ...store.value import Value
from ..errors import RdbError
from .keys import STRING
from .lengths import encode_string, read_string, string_parts
from .nodes import encode_short_value, read_short_value
from .primitives import IS_COMPILED, has_right_end, payload_end
from .source import Source
from .stream import WITH_RELEASED
from .values import VERSION, Content, encode_packed, encode_value, packed_value, read_value, type_of

TYPE_SIZE: Final = 1
VERSION_SIZE: Final = 2
CHECKSUM_SIZE: Final = 8
FOOTER_SIZE: Final = VERSION_SIZE + CHECKSUM_SIZE
_VERSION: Final = VERSION.to_bytes(VERSION_SIZE, "little")
# The type of a library of functions, which is an opcode in files.
LIBRARY: Final = 245
# The one of the first candidates of Redis 7.0.
EARLY_LIBRARY: Final = 246
_STREAM_TYPE: Final = bytes((WITH_RELEASED,))
_STRING_TYPE: Final = bytes((STRING,))

# Larger streams, in bytes of nodes, are not compressed in the pure form, where it would take more than 0.1 s.
COMPRESSED_STREAM_SIZE_MAX: Final = maxsize if IS_COMPILED else 256 * 1024


def dump(value: Value, *, now_ms: int, compress: bool = True) -> list[bytes]:
    """The payload of a value, as Redis would make it, in pieces."""
    pieces = _dumped(value, now_ms=now_ms, compress=compress)
    pieces.append(payload_end(pieces, VERSION))
    return pieces


def dumped_size(value: Value, *, now_ms: int) -> int:
    """Bytes of the value in its payload, without the type before it and what comes after it."""
    return sum(map(len, _dumped(value, now_ms=now_ms, compress=True))) - TYPE_SIZE


def unchecked_dump(value: Value, *, now_ms: int) -> bytes:
    """Like `dump`, with a checksum of zero, which stands for none, and not compressed: for records of the log."""
    return b"".join([*_pieces(value, now_ms=now_ms, compress=False), _VERSION, bytes(CHECKSUM_SIZE)])


def dump_libraries(codes: Iterable[bytes], *, compress: bool) -> bytes:
    """The payload of libraries of functions (FUNCTION DUMP), from their texts."""
    pieces = [library_record(code, compress=compress) for code in codes]
    return b"".join([*pieces, payload_end(pieces, VERSION)])


def library_record(code: bytes, *, compress: bool) -> bytes:
    """A library as files and payloads have it."""
    return bytes((LIBRARY,)) + encode_string(code, compress=compress)


def libraries_of(payload: bytes) -> Iterator[bytes]:
    """Yield the texts of the libraries of an intact payload. Raises RdbError, with the texts of FUNCTION RESTORE."""
    # With its end, as in Redis: a size that is too large takes bytes of it.
    source = Source((payload,))
    while source.offset < len(payload) - FOOTER_SIZE:
        kind = source.byte()
        if kind == EARLY_LIBRARY:
            raise RdbError("Pre-GA function format not supported")
        if kind != LIBRARY:
            raise RdbError("given type is not a function")
        try:
            code = read_string(source)
        except RdbError:
            raise RdbError("Failed loading library payload") from None
        yield code


def _dumped(value: Value, *, now_ms: int, compress: bool) -> list[bytes]:
    """The type and the value. A string and a short value take a shorter way than by `_pieces`."""
    if isinstance(value, bytes):
        head, text = string_parts(value, compress=compress)
        return [_STRING_TYPE + head, text] if text else [_STRING_TYPE + head]
    if isinstance(value, Stream):
        short = value.short()
        if short is not None:
            return [_STREAM_TYPE + encode_short_value(short, compress)]
    elif isinstance(value, Companion):
        packed = packed_value(value, compress=compress)
        if packed is not None:
            return [packed[0][:TYPE_SIZE] + encode_packed(packed, compress=compress)]
    return list(_pieces(value, now_ms=now_ms, compress=compress))


def _pieces(value: Value, *, now_ms: int, compress: bool) -> Iterator[bytes]:
    """Yield the type and the value."""
    if isinstance(value, (bytes, Companion)):
        content: Content = value
    else:
        value.settle_nodes()
        content = stream_image(value)
        compress = compress and sum(node.size for node in content.nodes.nodes) <= COMPRESSED_STREAM_SIZE_MAX
    yield bytes((type_of(content),))
    yield from encode_value(content, now_ms=now_ms, compress=compress)


def is_intact(payload: bytes) -> bool:
    """Whether the version is known and the checksum right; zero says that there is none."""
    return has_right_end(payload, VERSION)


def restore(payload: bytes, limits: Limits, *, now_ms: int) -> Value:
    """Return the value of an intact payload. Bytes after the value are ignored, as in Redis. Raises RdbError."""
    content = payload[:-FOOTER_SIZE]
    if content[:1] == _STREAM_TYPE:
        short = read_short_value(content, len(_STREAM_TYPE))
        if short is not None:
            return Stream.of_short(short, limits)
    source = Source.of(content)
    return read_value(source, source.byte(), limits, now_ms=now_ms)
