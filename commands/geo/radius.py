"""The older commands of searches in a circle: GEORADIUS, GEORADIUSBYMEMBER and their read-only forms."""

from __future__ import annotations

from typing import Final

from ...protocol.replies import Reply
from ...store.companions.sorted_set_value import SortedSetValue
from ...store.errors import syntax_error
from ...store.events import GEORADIUSSTORE
from ..core.table import Argument, Flag, KeySpec, Trait, command
from ..execution.context import Context
from .area import COORDINATES, ORDER, WITH_OPTIONS
from .arguments import UNIT
from .search import Search

COMPLEXITY: Final = "O(N+log(M)) with N members in the cells that the circle reaches, and M members in all."
HISTORY: Final = (
    ("6.2.0", "Added the `ANY` option for `COUNT`."),
    ("7.0.0", "Added support for uppercase unit names."),
)


def _note(keyword: str) -> str:
    return f"Incomplete because duplicate {keyword} options use last-wins; fall back to georadiusGetKeys"


def _write_keys(start: int) -> tuple[KeySpec, ...]:
    return (
        KeySpec(1, 1, 1, ("RO", "access")),
        KeySpec(0, 0, 0, ("OW", "update"), keyword=b"STORE", start=start, is_last_store=True, note=_note("STORE")),
        KeySpec(
            0, 0, 0, ("OW", "update"), keyword=b"STOREDIST", start=start, is_last_store=True, note=_note("STOREDIST")
        ),
    )


_READ_KEYS: Final = (KeySpec(1, 1, 1, ("RO", "access")),)


def _arguments(place: tuple[Argument, ...], any_since: str | None) -> tuple[Argument, ...]:
    any_option = Argument("any", "pure-token", token="ANY", optional=True, since=any_since)
    return (
        Argument("key", "key", key_spec_index=0),
        *place,
        Argument("radius", "double"),
        UNIT,
        *WITH_OPTIONS,
        Argument(
            "count-block",
            "block",
            optional=True,
            arguments=(Argument("count", "integer", token="COUNT"), any_option),
        ),
        ORDER,
    )


_STORE: Final = Argument(
    "store",
    "oneof",
    optional=True,
    arguments=(
        Argument("storekey", "key", token="STORE", key_spec_index=1, display="key"),
        Argument("storedistkey", "key", token="STOREDIST", key_spec_index=2, display="key"),
    ),
)
_AROUND_PLACE: Final = _arguments(COORDINATES, "6.2.0")
_AROUND_MEMBER: Final = _arguments((Argument("member"),), None)


def _finish(context: Context, argv: list[bytes], search: Search, index: int, *, may_store: bool) -> Reply:
    """Takes the options from an index on, and runs the search. Raises GenericError."""
    while index < len(argv):
        count = search.take_option(argv, index) or (search.take_store(argv, index) if may_store else 0)
        if not count:
            raise syntax_error()
        index += count
    search.check_options(b"STORE option in GEORADIUS")
    search.check_any()
    return search.run(context, argv, GEORADIUSSTORE)


def _around_place(context: Context, argv: list[bytes], *, may_store: bool) -> Reply:
    search = Search(context.db.read_companion(argv[1], SortedSetValue, context.now_ms))
    search.start_at(argv[2], argv[3])
    search.take_radius(argv[4], argv[5])
    return _finish(context, argv, search, 6, may_store=may_store)


def _around_member(context: Context, argv: list[bytes], *, may_store: bool) -> Reply:
    search = Search(context.db.read_companion(argv[1], SortedSetValue, context.now_ms))
    if search.value is not None:
        # As in Redis, radius and unit are not read if the key is missing.
        search.start_at_member(argv[2])
        search.take_radius(argv[3], argv[4])
    return _finish(context, argv, search, 5, may_store=may_store)


@command(
    "GEORADIUS",
    arity=-6,
    flags=Flag.WRITE | Flag.DENYOOM | Flag.MOVABLEKEYS,
    traits=Trait.IN_SLICES,
    keys=_write_keys(6),
    categories=("geo",),
    group="geo",
    since="3.2.0",
    summary="Returns or stores the members whose places are near a place.",
    complexity=COMPLEXITY,
    arguments=(*_AROUND_PLACE, _STORE),
    history=HISTORY,
    deprecated=("6.2.0", "`GEOSEARCH` and `GEOSEARCHSTORE` with the `BYRADIUS` argument"),
)
def georadius(context: Context, argv: list[bytes]) -> Reply:
    """GEORADIUS key longitude latitude radius <M | KM | FT | MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]]
    [ASC | DESC] [STORE key | STOREDIST key]

    Returns the members as GEOSEARCH does, or the number of stored ones. Raises GenericError, WrongType.
    Source: Redis 3.2.
    """
    return _around_place(context, argv, may_store=True)


@command(
    "GEORADIUS_RO",
    arity=-6,
    flags=Flag.READONLY,
    traits=Trait.IN_SLICES,
    keys=_READ_KEYS,
    categories=("geo",),
    group="geo",
    since="3.2.10",
    summary="Returns the members whose places are near a place.",
    complexity=COMPLEXITY,
    arguments=_AROUND_PLACE,
    history=HISTORY,
    deprecated=("6.2.0", "`GEOSEARCH` with the `BYRADIUS` argument"),
)
def georadius_ro(context: Context, argv: list[bytes]) -> Reply:
    """GEORADIUS_RO key longitude latitude radius <M | KM | FT | MI> [WITHCOORD] [WITHDIST] [WITHHASH]
    [COUNT count [ANY]] [ASC | DESC]

    Returns the members as GEOSEARCH does. Raises GenericError, WrongType. Source: Redis 3.2.10.
    """
    return _around_place(context, argv, may_store=False)


@command(
    "GEORADIUSBYMEMBER",
    arity=-5,
    flags=Flag.WRITE | Flag.DENYOOM | Flag.MOVABLEKEYS,
    traits=Trait.IN_SLICES,
    keys=_write_keys(5),
    categories=("geo",),
    group="geo",
    since="3.2.0",
    summary="Returns or stores the members whose places are near that of a member.",
    complexity=COMPLEXITY,
    arguments=(*_AROUND_MEMBER, _STORE),
    history=HISTORY,
    deprecated=("6.2.0", "`GEOSEARCH` and `GEOSEARCHSTORE` with the `BYRADIUS` and `FROMMEMBER` arguments"),
)
def georadiusbymember(context: Context, argv: list[bytes]) -> Reply:
    """GEORADIUSBYMEMBER key member radius <M | KM | FT | MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]]
    [ASC | DESC] [STORE key | STOREDIST key]

    Returns the members as GEOSEARCH does, or the number of stored ones. Raises GenericError, WrongType.
    Source: Redis 3.2.
    """
    return _around_member(context, argv, may_store=True)


@command(
    "GEORADIUSBYMEMBER_RO",
    arity=-5,
    flags=Flag.READONLY,
    traits=Trait.IN_SLICES,
    keys=_READ_KEYS,
    categories=("geo",),
    group="geo",
    since="3.2.10",
    summary="Returns the members whose places are near that of a member.",
    complexity=COMPLEXITY,
    arguments=_AROUND_MEMBER,
    history=HISTORY,
    deprecated=("6.2.0", "`GEOSEARCH` with the `BYRADIUS` and `FROMMEMBER` arguments"),
)
def georadiusbymember_ro(context: Context, argv: list[bytes]) -> Reply:
    """GEORADIUSBYMEMBER_RO key member radius <M | KM | FT | MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]]
    [ASC | DESC]

    Returns the members as GEOSEARCH does. Raises GenericError, WrongType. Source: Redis 3.2.10.
    """
    return _around_member(context, argv, may_store=False)
