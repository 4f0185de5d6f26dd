"""Commands on the members of a sorted set of places: GEOADD, GEODIST, GEOHASH, GEOPOS."""

from __future__ import annotations

from typing import Final

from ...protocol.replies import NULL_ARRAY, Reply
from ...store.companions.sorted_set_value import SortedSetValue
from ...store.errors import syntax_error
from ..core.table import Argument, Flag, KeySpec, command
from ..execution.context import Context
from ..sorted_sets.members import zadd
from .arguments import UNIT, place, unit

try:
    from .nearby import distance_of, place_of, score_of, shown_distance, text_of
except ImportError:  # there was no C compiler at installation
    from .nearby_plain import distance_of, place_of, score_of, shown_distance, text_of

# Compiled code calls these in less time than names that are imported, which it looks up at each call.
_distance_of: Final = distance_of
_place_of: Final = place_of
_score_of: Final = score_of
_shown_distance: Final = shown_distance
_text_of: Final = text_of

ADD_OPTIONS: Final = frozenset((b"NX", b"XX", b"CH"))


@command(
    "GEOADD",
    arity=-5,
    flags=Flag.WRITE | Flag.DENYOOM,
    keys=(KeySpec(1, 1, 1, ("RW", "update")),),
    categories=("geo",),
    group="geo",
    since="3.2.0",
    summary="Adds members with their places to a sorted set, which is made if there is none.",
    complexity="O(log(N)) for each member.",
    arguments=(
        Argument("key", "key", key_spec_index=0),
        Argument(
            "condition",
            "oneof",
            optional=True,
            since="6.2.0",
            arguments=(Argument("nx", "pure-token", token="NX"), Argument("xx", "pure-token", token="XX")),
        ),
        Argument("change", "pure-token", token="CH", optional=True, since="6.2.0"),
        Argument(
            "data",
            "block",
            multiple=True,
            arguments=(Argument("longitude", "double"), Argument("latitude", "double"), Argument("member")),
        ),
    ),
    history=(("6.2.0", "Added the `CH`, `NX` and `XX` options."),),
)
def geoadd(context: Context, argv: list[bytes]) -> Reply:
    """GEOADD key [NX | XX] [CH] longitude latitude member [longitude latitude member ...]

    Adds each member with the geohash of its place as its score; coordinates are degrees. Logged as a ZADD. Returns the
    number of new members, with CH of changed ones too. Raises GenericError, WrongType. Source: Redis 6.2.
    """
    first = 2
    while first < len(argv) and argv[first].upper() in ADD_OPTIONS:
        first += 1
    options = [word.upper() for word in argv[2:first]]
    if (len(argv) - first) % 3 or (b"NX" in options and b"XX" in options):
        raise syntax_error()
    words = [b"zadd", *argv[1:first]]
    for index in range(first, len(argv), 3):
        longitude, latitude = place(argv[index], argv[index + 1])
        words.append(b"%d" % _score_of(longitude, latitude))
        words.append(argv[index + 2])
    return zadd(context, words)


@command(
    "GEODIST",
    arity=-4,
    flags=Flag.READONLY,
    keys=(KeySpec(1, 1, 1, ("RO", "access")),),
    categories=("geo",),
    group="geo",
    since="3.2.0",
    summary="Returns the distance between the places of two members.",
    complexity="O(1)",
    arguments=(
        Argument("key", "key", key_spec_index=0),
        Argument("member1"),
        Argument("member2"),
        Argument("unit", "oneof", optional=True, arguments=UNIT.arguments),
    ),
)
def geodist(context: Context, argv: list[bytes]) -> Reply:
    """GEODIST key member1 member2 [M | KM | FT | MI]

    Returns the distance, in meters by default, null if a member is missing. Raises GenericError, WrongType.
    Source: Redis 3.2.
    """
    meters = unit(argv[4]) if len(argv) == 5 else 1.0
    if len(argv) > 5:
        raise syntax_error()
    value = context.db.read_companion(argv[1], SortedSetValue, context.now_ms)
    if value is None:
        return None
    one, other = value.score(argv[2]), value.score(argv[3])
    if one is None or other is None:
        return None
    return _shown_distance(_distance_of(one, other) / meters)


@command(
    "GEOHASH",
    arity=-2,
    flags=Flag.READONLY,
    keys=(KeySpec(1, 1, 1, ("RO", "access")),),
    categories=("geo",),
    group="geo",
    since="3.2.0",
    summary="Returns the places of members as geohash texts.",
    complexity="O(1) for each member.",
    arguments=(Argument("key", "key", key_spec_index=0), Argument("member", optional=True, multiple=True)),
)
def geohash(context: Context, argv: list[bytes]) -> Reply:
    """GEOHASH key [member ...]. Returns a text of eleven characters for each member, null for a missing one.
    Raises WrongType. Source: Redis 3.2.
    """
    value = context.db.read_companion(argv[1], SortedSetValue, context.now_ms)
    if value is None:
        return [None] * (len(argv) - 2)
    return [None if score is None else _text_of(score) for score in value.scores(argv[2:])]


@command(
    "GEOPOS",
    arity=-2,
    flags=Flag.READONLY,
    keys=(KeySpec(1, 1, 1, ("RO", "access")),),
    categories=("geo",),
    group="geo",
    since="3.2.0",
    summary="Returns the longitudes and latitudes of members.",
    complexity="O(1) for each member.",
    arguments=(Argument("key", "key", key_spec_index=0), Argument("member", optional=True, multiple=True)),
)
def geopos(context: Context, argv: list[bytes]) -> Reply:
    """GEOPOS key [member ...]. Returns the longitude and the latitude of each member, null for a missing one.
    Raises WrongType. Source: Redis 3.2.
    """
    value = context.db.read_companion(argv[1], SortedSetValue, context.now_ms)
    if value is None:
        return [NULL_ARRAY] * (len(argv) - 2)
    return [NULL_ARRAY if score is None else list(_place_of(score)) for score in value.scores(argv[2:])]
