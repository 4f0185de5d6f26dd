"""SORT and SORT_RO: the elements of a list, a set or a sorted set, sorted."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final

from ...protocol.replies import Reply
from ...store.companions.list_value import ListValue
from ...store.companions.set_value import SetValue
from ...store.companions.sorted_set_value import SortedSetValue
from ...store.errors import WrongType
from ...store.events import DEL, SORTSTORE
from ..core.long_replies import bulks_of
from ..core.table import DECLARED, Argument, Flag, KeySpec, Trait, command
from ..execution.context import Context
from ..execution.sliced_work import Steps
from ..execution.slices import STEP_COUNT, carried_out, result_of
from .options import SortOptions, parse_options
from .order import (
    Elements,
    sort_by_numbers,
    sort_by_own_texts,
    sort_by_texts,
    sort_few_by_numbers,
    sort_few_by_own_texts,
)
from .patterns import Pattern

_READ_NOTE: Final = (
    "For the optional BY/GET keyword. It is marked 'unknown' because the key names derive from the content of the key "
    "we sort"
)
_STORE_NOTE: Final = (
    "For the optional STORE keyword. It is marked 'unknown' because the keyword can appear anywhere in the argument "
    "array"
)
_READ_KEYS: Final = (
    KeySpec(1, 1, 1, ("RO", "access")),
    KeySpec(0, 0, 0, ("RO", "access"), is_unknown=True, note=_READ_NOTE),
)
_READ_ARGUMENTS: Final = (
    Argument("key", "key", key_spec_index=0),
    Argument("by-pattern", "pattern", token="BY", optional=True, key_spec_index=1, display="pattern"),
    Argument(
        "limit",
        "block",
        token="LIMIT",
        optional=True,
        arguments=(Argument("offset", "integer"), Argument("count", "integer")),
    ),
    Argument(
        "get-pattern",
        "pattern",
        token="GET",
        optional=True,
        multiple=True,
        multiple_token=True,
        key_spec_index=1,
        display="pattern",
    ),
    Argument(
        "order",
        "oneof",
        optional=True,
        arguments=(Argument("asc", "pure-token", token="ASC"), Argument("desc", "pure-token", token="DESC")),
    ),
    Argument("sorting", "pure-token", token="ALPHA", optional=True),
)

Sortable = ListValue | SetValue | SortedSetValue


def _read(context: Context, key: bytes) -> Sortable | None:
    """The value to sort; None if there is none. Raises WrongType."""
    value = context.db.read(key, context.now_ms)
    if value is None:
        return None
    if not isinstance(value, ListValue | SetValue | SortedSetValue):
        raise WrongType
    value.used_ms = context.now_ms
    return value


def _bounds(options: SortOptions, length: int) -> tuple[int, int]:
    """The index of the first element of the result, and the index after the last one."""
    start = min(max(options.offset, 0), length)
    return start, length if options.count < 0 else min(start + options.count, length)


def _elements(value: Sortable) -> Elements:
    """The elements in the order of the value, in steps."""
    found: list[bytes] = []
    if isinstance(value, SetValue):
        for members in value.parts(STEP_COUNT):
            found += members
            yield
        return found
    for start in range(0, len(value), STEP_COUNT):
        found += _native_part(value, start, min(start + STEP_COUNT, len(value)), reverse=False)
        yield
    return found


def _native_part(value: Sortable | None, start: int, stop: int, *, reverse: bool) -> list[bytes]:
    """The elements between two indexes in the order of the value, or in the reverse order unless it is a set."""
    if value is None:
        return []
    if isinstance(value, SetValue):
        return value.members()[start:stop]
    if reverse:
        start, stop = len(value) - stop, len(value) - start
    if isinstance(value, SortedSetValue):
        return value.members(start, stop, reverse=reverse)
    found = value.elements.between(start, stop - start)
    return found[::-1] if reverse else found


def _sorted_part(context: Context, options: SortOptions, value: Sortable, start: int, stop: int) -> Elements:
    """The elements between two indexes of the sorted order, in steps. Raises GenericError."""
    elements = yield from _elements(value)
    reverse, is_stored = options.is_descending, options.destination is not None
    weights: list[bytes | None] | None = None
    if options.weight is not None:
        weights = yield from _named_in_steps(context, [options.weight], elements)
    if not options.is_alphabetic:
        ordered = yield from sort_by_numbers(elements, weights, reverse=reverse)
    elif weights is None:
        ordered = yield from sort_by_own_texts(elements, reverse=reverse, is_stored=is_stored)
    else:
        ordered = yield from sort_by_texts(
            elements, weights, reverse=reverse, is_stored=is_stored, start=start, stop=stop
        )
    return ordered if stop - start == len(ordered) else ordered[start:stop]


def _few_sorted(context: Context, options: SortOptions, elements: list[bytes], start: int, stop: int) -> list[bytes]:
    """Those between two indexes of the sorted order of few elements. Raises GenericError."""
    reverse, is_stored = options.is_descending, options.destination is not None
    weights = None if options.weight is None else _named(context, [options.weight], elements)
    if not options.is_alphabetic:
        ordered = sort_few_by_numbers(elements, weights, reverse=reverse)
    elif weights is None:
        ordered = sort_few_by_own_texts(elements, reverse=reverse, is_stored=is_stored)
    else:
        ordered = result_of(
            sort_by_texts(elements, weights, reverse=reverse, is_stored=is_stored, start=start, stop=stop)
        )
    return ordered[start:stop]


def _named(context: Context, patterns: list[Pattern], elements: list[bytes]) -> list[bytes | None]:
    """What patterns name for each element."""
    return [pattern.find(context, element) for element in elements for pattern in patterns]


def _named_in_steps(
    context: Context, patterns: list[Pattern], elements: list[bytes]
) -> Generator[None, None, list[bytes | None]]:
    """What patterns name for each element."""
    found: list[bytes | None] = []
    for start in range(0, len(elements), STEP_COUNT):
        found += _named(context, patterns, elements[start : start + STEP_COUNT])
        yield
    return found


def _carried_out(context: Context, argv: list[bytes], options: SortOptions) -> Any:
    """What SORT returns, or a list to store; Blocked while it is made. Raises WrongType, GenericError."""
    value = _read(context, argv[1])
    if options.is_unsorted and isinstance(value, SetValue) and (options.destination or context.client.is_script):
        # A set has no order that replicas have as well.
        options.is_unsorted, options.is_alphabetic, options.weight = False, True, None
    if isinstance(value, SortedSetValue):
        # As in Redis, which keeps it so.
        value.become_skiplist()
    length = 0 if value is None else len(value)
    start, stop = _bounds(options, length)
    count = stop - start if options.is_unsorted else length
    if value is not None and count > STEP_COUNT:
        return carried_out(context, argv, count, _steps(context, options, value, start, stop))
    if options.is_unsorted:
        elements = _native_part(value, start, stop, reverse=options.is_descending)
    else:
        elements = _few_sorted(context, options, _native_part(value, 0, length, reverse=False), start, stop)
    found: list[bytes | None] | list[bytes] = elements
    if options.results:
        found = _named(context, options.results, elements)
    if options.destination is None:
        return found
    stored = ListValue(context.limits)
    stored.elements.append([each or b"" for each in found])
    return stored


def _steps(context: Context, options: SortOptions, value: Sortable, start: int, stop: int) -> Steps:
    """The work of SORT on many elements. Returns the result; a list if it is to be stored. Raises GenericError."""
    if options.is_unsorted:
        elements = _native_part(value, start, stop, reverse=options.is_descending)
    else:
        elements = yield from _sorted_part(context, options, value, start, stop)
    found: list[bytes | None] | list[bytes] = elements
    if options.results:
        found = yield from _named_in_steps(context, options.results, elements)
    if options.destination is None:
        return found
    stored = ListValue(context.limits)
    # The elements are freed in the steps.
    found.reverse()
    while found:
        stored.elements.append([each or b"" for each in found[: -STEP_COUNT - 1 : -1]])
        del found[-STEP_COUNT:]
        yield
    return stored


def _reply(options: SortOptions, found: Any) -> Reply:
    """The reply with a result; one of many elements is encoded while it is sent."""
    if type(found) is list and not options.results:
        return bulks_of(found)
    reply: Reply = found
    return reply


def _store(context: Context, argv: list[bytes], key: bytes, found: ListValue) -> int:
    """Stores the result; an empty one removes the key. Returns the number of elements."""
    if not len(found):
        if context.db.delete(key, DEL):
            context.log_words(argv)
        return 0
    found.settle_encoding()
    context.db.overwrite(key, found, SORTSTORE, context.now_ms)
    context.log_words(argv, len(found))
    return len(found)


@command(
    "SORT",
    arity=-2,
    flags=Flag.WRITE | Flag.DENYOOM | Flag.MOVABLEKEYS,
    traits=Trait.IN_SLICES,
    keys=(*_READ_KEYS, KeySpec(0, 0, 0, ("OW", "update"), keyword=b"STORE", is_unknown=True, note=_STORE_NOTE)),
    categories=("set", "sortedset", "list", "dangerous"),
    since="1.0.0",
    summary="Returns or stores the sorted elements of a list, a set or a sorted set.",
    complexity="O(N*log(N)) in the number of elements; O(N) with a BY pattern without `*`.",
    arguments=(*_READ_ARGUMENTS, Argument("destination", "key", token="STORE", optional=True, key_spec_index=2)),
)
def sort(context: Context, argv: list[bytes]) -> Reply:
    """SORT key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC | DESC] [ALPHA]
    [STORE destination]

    Sorts by numbers, or by texts with ALPHA: those of the elements, or with BY those of the keys, or the fields of
    hashes as `key_*->field`, whose names have the element in the place of `*`. A pattern without `*` leaves the order
    as it is. With GET, the result has what the patterns name in place of each element, which is `#`.

    Returns the result, or its length if it is stored. Raises WrongType, GenericError. Source: Redis 1.0.
    """
    options = parse_options(DECLARED[b"SORT"], argv, context.client.user, may_store=True)
    found = _carried_out(context, argv, options)
    if type(found) is ListValue:
        assert options.destination is not None
        return _store(context, argv, options.destination, found)
    return _reply(options, found)


@command(
    "SORT_RO",
    arity=-2,
    flags=Flag.READONLY | Flag.MOVABLEKEYS,
    keys=_READ_KEYS,
    traits=Trait.IN_SLICES,
    categories=("set", "sortedset", "list", "dangerous"),
    since="7.0.0",
    summary="Returns the sorted elements of a list, a set or a sorted set.",
    complexity="O(N*log(N)) in the number of elements; O(N) with a BY pattern without `*`.",
    arguments=_READ_ARGUMENTS,
)
def sort_ro(context: Context, argv: list[bytes]) -> Reply:
    """SORT_RO key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC | DESC] [ALPHA]

    Like SORT without STORE, for replicas and read-only scripts. Raises WrongType, GenericError. Source: Redis 7.0.
    """
    options = parse_options(DECLARED[b"SORT_RO"], argv, context.client.user, may_store=False)
    return _reply(options, _carried_out(context, argv, options))
