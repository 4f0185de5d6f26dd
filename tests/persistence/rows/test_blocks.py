"""The frame of a dataset in the form of rows: pieces of any size, and everything that can be wrong with it."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from zlib import crc32

import pytest

from headrace.persistence.errors import RowsError
from headrace.persistence.rows.blocks import BLOCK_SIZE_MAX, MAGIC, BlockReader, framed

CONTENT = [b"one", b"", b"two" * 100, b"x"]
FRAMED = b"".join(framed(CONTENT))
HEADER_SIZE = 8


def read(data: bytes, size: int = 1 << 30) -> bytes:
    """What the blocks contain, if the data arrive in pieces of this size."""
    pieces = (data[start : start + size] for start in range(0, len(data), size))
    return b"".join(taken(BlockReader(pieces), len(b"".join(CONTENT))))


def taken(reader: BlockReader, size: int) -> Iterator[bytes]:
    """So many bytes of the content: nothing is read after them."""
    reader.begin()
    content = reader.content()
    while size > 0:
        block = next(content, b"")
        size -= len(block) or size
        yield block


@pytest.mark.parametrize("size", [1, 2, 7, 8, 9, 10, 100, 10**6])
def test_blocks_arrive_in_pieces_of_any_size(size: int) -> None:
    assert read(FRAMED, size) == b"".join(CONTENT)


def test_an_empty_piece_is_passed_on_at_once_and_is_no_block() -> None:
    assert list(framed([b"", b"x"])) == [MAGIC, b"", FRAMED[:0] + struct.pack("<II", 1, crc32(b"x")) + b"x"]


def test_a_large_piece_becomes_blocks_of_bounded_size() -> None:
    data = bytes(range(256)) * (BLOCK_SIZE_MAX // 256) + b"rest"
    _, *blocks = framed([data])
    assert [len(block) - HEADER_SIZE for block in blocks] == [BLOCK_SIZE_MAX, 4]
    reader = BlockReader(iter([MAGIC, *blocks]))
    assert b"".join(taken(reader, len(data))) == data


def test_every_damaged_byte_is_noticed() -> None:
    for index in range(len(FRAMED)):
        damaged = bytearray(FRAMED)
        damaged[index] ^= 0x10
        if index < len(b"HRROWS"):
            continue  # it is no frame then, and no RDB file either
        with pytest.raises(RowsError):
            read(bytes(damaged))


def test_every_cut_is_noticed() -> None:
    for size in range(len(MAGIC), len(FRAMED)):
        with pytest.raises(RowsError, match="it ends within block"):
            read(FRAMED[:size])


def test_a_missing_and_a_moved_block_are_noticed() -> None:
    magic, *blocks = [block for block in framed(CONTENT) if block]
    for wrong in ([blocks[0], blocks[2]], [blocks[1], blocks[0]], [blocks[0], blocks[0]], blocks[1:]):
        with pytest.raises(RowsError, match="is damaged: its checksum is wrong"):
            read(magic + b"".join(wrong))


@pytest.mark.parametrize("size", [0, BLOCK_SIZE_MAX + 1, 2**32 - 1])
def test_a_size_that_no_block_has_is_not_waited_for(size: int) -> None:
    def pieces() -> Iterator[bytes]:
        yield MAGIC + struct.pack("<II", size, 0)
        raise AssertionError("more was read")

    with pytest.raises(RowsError, match=f"block 1 of it would have {size} bytes"):
        list(taken(BlockReader(pieces()), 1))


def test_another_version_is_named() -> None:
    with pytest.raises(RowsError, match="its rows have version '02', and this server reads version 1"):
        read(FRAMED.replace(b"HRROWS01", b"HRROWS02"))


@pytest.mark.parametrize("size", [1, 3, 6, 100])
@pytest.mark.parametrize("data", [b"REDIS0015 and more", b"H", b"HRROW", b""])
def test_other_data_are_left_as_they_are(data: bytes, size: int) -> None:
    reader = BlockReader(data[start : start + size] for start in range(0, len(data), size))
    reader.begin()
    assert not reader.has_rows
    assert b"".join(reader.content()) == data
