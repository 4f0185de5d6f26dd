"""GEOSEARCH and GEOSEARCHSTORE."""

from __future__ import annotations

from typing import Final

from ...protocol.replies import Reply
from ...store.companions.sorted_set_value import SortedSetValue
from ...store.errors import syntax_error
from ...store.events import GEOSEARCHSTORE
from ..core.table import Argument, Flag, KeySpec, Trait, command
from ..execution.context import Context
from .arguments import UNIT
from .search import Search

COORDINATES: Final = (Argument("longitude", "double"), Argument("latitude", "double"))
ORDER: Final = Argument(
    "order",
    "oneof",
    optional=True,
    arguments=(Argument("asc", "pure-token", token="ASC"), Argument("desc", "pure-token", token="DESC")),
)
WITH_OPTIONS: Final = (
    Argument("withcoord", "pure-token", token="WITHCOORD", optional=True),
    Argument("withdist", "pure-token", token="WITHDIST", optional=True),
    Argument("withhash", "pure-token", token="WITHHASH", optional=True),
)
HISTORY: Final = (("7.0.0", "Added support for uppercase unit names."),)

_AREA: Final = (
    Argument(
        "from",
        "oneof",
        arguments=(
            Argument("member", token="FROMMEMBER"),
            Argument("fromlonlat", "block", token="FROMLONLAT", arguments=COORDINATES),
        ),
    ),
    Argument(
        "by",
        "oneof",
        arguments=(
            Argument("circle", "block", arguments=(Argument("radius", "double", token="BYRADIUS"), UNIT)),
            Argument(
                "box",
                "block",
                arguments=(Argument("width", "double", token="BYBOX"), Argument("height", "double"), UNIT),
            ),
        ),
    ),
    ORDER,
    Argument(
        "count-block",
        "block",
        optional=True,
        arguments=(
            Argument("count", "integer", token="COUNT"),
            Argument("any", "pure-token", token="ANY", optional=True),
        ),
    ),
)


def _search(context: Context, argv: list[bytes], source_index: int) -> Reply:
    """Runs a search. Raises GenericError, WrongType."""
    value = context.db.read_companion(argv[source_index], SortedSetValue, context.now_ms)
    search = Search(value)
    is_stored = source_index > 1
    if is_stored:
        search.destination = argv[1]
    index = source_index + 1
    while index < len(argv):
        count = search.take_option(argv, index) or search.take_area(argv, index)
        if not count and is_stored and argv[index].upper() == b"STOREDIST":
            search.stores_distance, count = True, 1
        if not count:
            raise syntax_error()
        index += count
    search.check_options(b"GEOSEARCHSTORE")
    search.check_area(argv[0])
    search.check_any()
    return search.run(context, argv, GEOSEARCHSTORE)


@command(
    "GEOSEARCH",
    arity=-7,
    flags=Flag.READONLY,
    traits=Trait.IN_SLICES,
    keys=(KeySpec(1, 1, 1, ("RO", "access")),),
    categories=("geo",),
    group="geo",
    since="6.2.0",
    summary="Returns the members whose places are in a circle or a box.",
    complexity="O(N+log(M)) with N members in the cells that the shape reaches, and M members in all.",
    arguments=(Argument("key", "key", key_spec_index=0), *_AREA, *WITH_OPTIONS),
    history=HISTORY,
)
def geosearch(context: Context, argv: list[bytes]) -> Reply:
    """GEOSEARCH key <FROMMEMBER member | FROMLONLAT longitude latitude> <BYRADIUS radius <M | KM | FT | MI> | BYBOX
    width height <M | KM | FT | MI>> [ASC | DESC] [COUNT count [ANY]] [WITHCOORD] [WITHDIST] [WITHHASH]

    COUNT returns the nearest members, with ANY those that are found first. Distances are in the unit of the shape.
    Returns the members, or arrays of members with what was asked. Raises GenericError, WrongType. Source: Redis 6.2.
    """
    return _search(context, argv, 1)


@command(
    "GEOSEARCHSTORE",
    arity=-8,
    flags=Flag.WRITE | Flag.DENYOOM,
    traits=Trait.IN_SLICES,
    keys=(KeySpec(1, 1, 1, ("OW", "update")), KeySpec(2, 2, 1, ("RO", "access"))),
    categories=("geo",),
    group="geo",
    since="6.2.0",
    summary="Stores the members whose places are in a circle or a box.",
    complexity="O(N+log(M)) with N members in the cells that the shape reaches, and M members in all.",
    arguments=(
        Argument("destination", "key", key_spec_index=0),
        Argument("source", "key", key_spec_index=1),
        *_AREA,
        Argument("storedist", "pure-token", token="STOREDIST", optional=True),
    ),
    history=HISTORY,
)
def geosearchstore(context: Context, argv: list[bytes]) -> Reply:
    """GEOSEARCHSTORE destination source <FROMMEMBER member | FROMLONLAT longitude latitude> <BYRADIUS radius
    <M | KM | FT | MI> | BYBOX width height <M | KM | FT | MI>> [ASC | DESC] [COUNT count [ANY]] [STOREDIST]

    Stores a sorted set with the scores of the source, or with the distances. Without members, the key is removed.
    Returns the number of members. Raises GenericError, WrongType. Source: Redis 6.2.
    """
    return _search(context, argv, 2)
