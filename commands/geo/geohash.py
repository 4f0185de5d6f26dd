"""Geohashes: the bits of a longitude and a latitude in turn. A sorted set keeps 52 of them as a score.

The places of one cell of a grid have the same first bits, and so are one range of scores. Source: geohash.c of Redis.
"""

from __future__ import annotations

import math
from typing import Final

LONGITUDE_MAX: Final = 180.0
# Limit of the Mercator projection of EPSG:900913.
LATITUDE_MAX: Final = 85.05112878
# Bits of each coordinate in a score.
STEP_MAX: Final = 26
SCORE_BITS: Final = 2 * STEP_MAX
# The limit of latitudes in texts that other programs read.
LATITUDE_TEXT_MAX: Final = 90.0

ALPHABET: Final = b"0123456789bcdefghjkmnpqrstuvwxyz"
TEXT_BITS: Final = 5

_MASK_64: Final = (1 << 64) - 1
_MASK_32: Final = (1 << 32) - 1
_TOP: Final = 1 << 63


class Cell:
    """One cell of the grid that has 2^step columns and rows, counted from the west and from the south.

    It is no named tuple, as one takes ten times as long to make in compiled code; a search makes twenty.
    """

    __slots__ = ("column", "row", "step")

    def __init__(self, column: int, row: int, step: int) -> None:
        self.column: Final = column
        self.row: Final = row
        self.step: Final = step

    def is_same(self, other: Cell) -> bool:
        """Whether they are the same cell of one grid."""
        return self.column == other.column and self.row == other.row and self.step == other.step

    def moved(self, columns: int, rows: int) -> Cell:
        """The cell so many columns to the east and rows to the north. After the last one follows the first one.

        A place at the limit is after the last column or row, and stays there unless it is moved, as in Redis.
        """
        mask = (1 << self.step) - 1
        column = (self.column + columns) & mask if columns else self.column
        return Cell(column, (self.row + rows) & mask if rows else self.row, self.step)

    @property
    def bits(self) -> int:
        """The first bits of the scores in the cell."""
        return _spread(self.row) | _spread(self.column) << 1

    def scores(self) -> tuple[int, int]:
        """The first score of the cell, and the score after its last one."""
        shift, bits = SCORE_BITS - 2 * self.step, self.bits
        return bits << shift, (bits + 1) << shift


class Area:
    """The limits of a cell, in degrees."""

    __slots__ = ("east", "north", "south", "west")

    def __init__(self, west: float, south: float, east: float, north: float) -> None:
        self.west: Final = west
        self.south: Final = south
        self.east: Final = east
        self.north: Final = north


def _spread(number: int) -> int:
    """The 32 bits of a number, with a zero bit before each."""
    number &= _MASK_32
    number = (number | number << 16) & 0x0000FFFF0000FFFF
    number = (number | number << 8) & 0x00FF00FF00FF00FF
    number = (number | number << 4) & 0x0F0F0F0F0F0F0F0F
    number = (number | number << 2) & 0x3333333333333333
    return (number | number << 1) & 0x5555555555555555


def _gather(number: int) -> int:
    """Every second one of 64 bits, from the last one on: the inverse of `_spread`."""
    number &= 0x5555555555555555
    number = (number | number >> 1) & 0x3333333333333333
    number = (number | number >> 2) & 0x0F0F0F0F0F0F0F0F
    number = (number | number >> 4) & 0x00FF00FF00FF00FF
    number = (number | number >> 8) & 0x0000FFFF0000FFFF
    return (number | number >> 16) & 0x00000000FFFFFFFF


def cell_of(longitude: float, latitude: float, step: int, latitude_max: float = LATITUDE_MAX) -> Cell:
    """The cell that has a place."""
    scale = float(1 << step)
    row = (latitude + latitude_max) / (latitude_max + latitude_max) * scale
    column = (longitude + LONGITUDE_MAX) / (LONGITUDE_MAX + LONGITUDE_MAX) * scale
    return Cell(int(column), int(row), step)


def area_of(cell: Cell) -> Area:
    """The limits of a cell."""
    count = float(1 << cell.step)
    height, width = LATITUDE_MAX + LATITUDE_MAX, LONGITUDE_MAX + LONGITUDE_MAX
    return Area(
        -LONGITUDE_MAX + cell.column / count * width,
        -LATITUDE_MAX + cell.row / count * height,
        -LONGITUDE_MAX + ((cell.column + 1) & _MASK_32) / count * width,
        -LATITUDE_MAX + ((cell.row + 1) & _MASK_32) / count * height,
    )


def score_of(longitude: float, latitude: float) -> int:
    """The score of a place."""
    return cell_of(longitude, latitude, STEP_MAX).bits


def place_of(score: float) -> tuple[float, float]:
    """The longitude and the latitude in the middle of the cell of a score, within the limits of both."""
    bits = _as_bits(score)
    area = area_of(Cell(_gather(bits >> 1), _gather(bits), STEP_MAX))
    longitude = max(-LONGITUDE_MAX, min((area.west + area.east) / 2, LONGITUDE_MAX))
    return longitude, max(-LATITUDE_MAX, min((area.south + area.north) / 2, LATITUDE_MAX))


def _as_bits(score: float) -> int:
    """The 64 bits of any score, as the processor converts it for Redis."""
    if -_TOP <= score < 2 * _TOP:
        return math.trunc(score) & _MASK_64
    return _TOP if score < 0 else 0


def text_of(score: float) -> bytes:
    """The eleven characters that other programs use for a place."""
    longitude, latitude = place_of(score)
    bits = cell_of(longitude, latitude, STEP_MAX, LATITUDE_TEXT_MAX).bits
    shifts = range(SCORE_BITS - TEXT_BITS, 0, -TEXT_BITS)
    return bytes([ALPHABET[bits >> shift & 31] for shift in shifts]) + b"0"
