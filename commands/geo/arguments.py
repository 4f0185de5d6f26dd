"""Arguments of geo commands: places, units and sizes; and how distances are shown."""

from __future__ import annotations

from typing import Final

from ...store.errors import GenericError
from ..core.numbers import parse_float
from ..core.table import Argument
from .geohash import LATITUDE_MAX, LONGITUDE_MAX

NOT_A_FLOAT: Final = b"value is not a valid float"

# Meters of each unit.
UNITS: Final = {b"M": 1.0, b"KM": 1000.0, b"FT": 0.3048, b"MI": 1609.34}

_UNIT_TOKENS: Final = tuple(Argument(name, "pure-token", token=name.upper()) for name in ("m", "km", "ft", "mi"))
UNIT: Final = Argument("unit", "oneof", arguments=_UNIT_TOKENS)


def number(token: bytes, text: bytes = NOT_A_FLOAT) -> float:
    """A number. Raises GenericError with this text."""
    found = parse_float(token)
    if found is None:
        raise GenericError(text)
    return found


def place(longitude: bytes, latitude: bytes) -> tuple[float, float]:
    """A longitude and a latitude in degrees. Raises GenericError."""
    x, y = number(longitude), number(latitude)
    if not (-LONGITUDE_MAX <= x <= LONGITUDE_MAX and -LATITUDE_MAX <= y <= LATITUDE_MAX):
        raise GenericError(b"invalid longitude,latitude pair %b,%b" % (b"%f" % x, b"%f" % y))
    return x, y


def unit(token: bytes) -> float:
    """The meters of a unit. Raises GenericError."""
    meters = UNITS.get(token.upper())
    if meters is None:
        raise GenericError(b"unsupported unit provided. please use M, KM, FT, MI")
    return meters
