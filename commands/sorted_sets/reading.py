"""Commands that return or store a range of a sorted set: ZRANGE and its older forms, ZCOUNT, ZLEXCOUNT."""

from __future__ import annotations

from enum import Enum
from typing import Final

from ...protocol.replies import Reply
from ...store.companions.sorted_set_value import SortedSetValue
from ...store.errors import GenericError, syntax_error
from ...store.events import DEL, ZRANGESTORE
from ..core.numbers import integer
from ..core.table import Argument, Flag, KeySpec, Trait, command
from ..execution.context import Context
from ..execution.sliced_work import Steps
from ..execution.slices import LONG_COUNT, STEP_COUNT, carried_out, is_awaited
from .long_ranges import long_range
from .ranges import index_ranks, lex_bound, lex_ranks, score_place, score_ranks


class By(Enum):
    """What the ends of a range are."""

    INDEX = "index"
    SCORE = "score"
    LEX = "lex"


# To look a member up in its enumeration takes longer than most checks.
BY_INDEX: Final = By.INDEX
BY_SCORE: Final = By.SCORE
BY_LEX: Final = By.LEX

ALL: Final = -1
# Words of a request for the members between two indexes, without options.
INDEX_WORDS: Final = 4

# As COMMAND DOCS prints it.
LIMIT: Final = Argument(
    "limit",
    "block",
    token="LIMIT",
    optional=True,
    arguments=(
        Argument("offset", "integer"),
        Argument("count", "integer"),
    ),
)


class RangeRequest:
    """A range that is asked for. `by` and `reverse` are None if options of the request say them."""

    def __init__(
        self, argv: list[bytes], at: int, by: By | None, reverse: bool | None, *, takes_scores: bool = True
    ) -> None:
        # The index of the word with the first end.
        self.at: Final = at
        self.by = by or BY_INDEX
        self.reverse = bool(reverse)
        self.with_scores = False
        self.offset, self.count = 0, ALL
        self._parse(argv, by, reverse, takes_scores)

    def _parse(self, argv: list[bytes], by: By | None, reverse: bool | None, takes_scores: bool) -> None:
        index = self.at + 2
        while index < len(argv):
            word = argv[index].upper()
            if word == b"WITHSCORES" and takes_scores:
                self.with_scores = True
            elif word == b"LIMIT" and index + 2 < len(argv):
                self.offset, self.count = integer(argv[index + 1]), integer(argv[index + 2])
                index += 2
            elif reverse is None and not self.reverse and word == b"REV":
                self.reverse = True
            elif by is None and self.by is BY_INDEX and word in (b"BYLEX", b"BYSCORE"):
                self.by = BY_LEX if word == b"BYLEX" else BY_SCORE
            else:
                raise syntax_error()
            index += 1
        if self.count != ALL and self.by is BY_INDEX:
            raise GenericError(b"syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX")
        if self.with_scores and self.by is BY_LEX:
            raise GenericError(b"syntax error, WITHSCORES not supported in combination with BYLEX")

    def find(self, context: Context, argv: list[bytes], key: bytes) -> tuple[SortedSetValue | None, int, int]:
        """The sorted set at `key`, and the ranks from and before which its range is. Raises GenericError,
        WrongType."""
        first, second = argv[self.at], argv[self.at + 1]
        db, now_ms = context.db, context.now_ms
        if self.by is BY_INDEX:
            start, stop = integer(first), integer(second)
            value = db.read_companion(key, SortedSetValue, now_ms)
            ranks = (0, 0) if value is None else index_ranks(len(value), start, stop)
            if self.reverse and value is not None:
                ranks = len(value) - ranks[1], len(value) - ranks[0]
        elif self.by is BY_SCORE:
            low = score_place(second if self.reverse else first, is_high=False)
            high = score_place(first if self.reverse else second, is_high=True)
            value = db.read_companion(key, SortedSetValue, now_ms)
            ranks = (0, 0) if value is None else score_ranks(value, low, high)
        else:
            low_member, high_member = (
                lex_bound(second if self.reverse else first),
                lex_bound(first if self.reverse else second),
            )
            value = db.read_companion(key, SortedSetValue, now_ms)
            ranks = (0, 0) if value is None else lex_ranks(value, low_member, high_member, reverse=self.reverse)
        start, stop = self._limited(*ranks)
        return value, start, stop

    def _limited(self, start: int, stop: int) -> tuple[int, int]:
        """The ranks after LIMIT."""
        if self.by is BY_INDEX:
            return start, stop
        if self.offset < 0:
            return 0, 0
        if self.reverse:
            last = stop - self.offset
            return (start if self.count < 0 else max(start, last - self.count)), max(start, last)
        first = min(start + self.offset, stop)
        return first, (stop if self.count < 0 else min(stop, first + self.count))


def with_scores(context: Context, pairs: list[tuple[bytes, float]]) -> Reply:
    """Members with their scores: pairs in RESP3, in one array in RESP2."""
    if context.client.protocol == 3:
        return [list(pair) for pair in pairs]
    words: list[bytes | float] = []
    for pair in pairs:
        words += pair
    return words


def _members(value: SortedSetValue, start: int, stop: int, *, reverse: bool) -> Reply:
    """The reply with the members from rank `start` on, before rank `stop`."""
    array = value.array(start, stop, reverse=reverse)
    return value.members(start, stop, reverse=reverse) if array is None else (array,)


def _by_index(context: Context, argv: list[bytes], *, reverse: bool) -> Reply:
    """The members between two indexes, in less time than `_range`. Raises GenericError, WrongType."""
    start, stop = integer(argv[2]), integer(argv[3])
    value = context.db.read_companion(argv[1], SortedSetValue, context.now_ms)
    if value is None:
        return []
    size = len(value)
    start, stop = index_ranks(size, start, stop)
    if reverse:
        start, stop = size - stop, size - start
    if stop - start >= LONG_COUNT:
        return long_range(context, value.copy(), start, stop, reverse=reverse, has_scores=False)
    return _members(value, start, stop, reverse=reverse)


def _range(context: Context, argv: list[bytes], request: RangeRequest) -> Reply:
    """Returns the range. Raises GenericError, WrongType."""
    value, start, stop = request.find(context, argv, argv[1])
    if value is None:
        return []
    if stop - start >= LONG_COUNT:
        value = value.copy()
        return long_range(context, value, start, stop, reverse=request.reverse, has_scores=request.with_scores)
    if request.with_scores:
        if context.client.protocol == 2:
            return value.words(start, stop, reverse=request.reverse)
        return with_scores(context, value.scored(start, stop, reverse=request.reverse))
    return _members(value, start, stop, reverse=request.reverse)


@command(
    "ZRANGE",
    arity=-4,
    flags=Flag.READONLY,
    keys=(KeySpec(1, 1, 1, ("RO", "access")),),
    categories=("sortedset",),
    group="sorted-set",
    since="1.2.0",
    summary="Returns the members of a range.",
    complexity="O(log(N)+M) with M members returned.",
    arguments=(
        Argument("key", "key", key_spec_index=0),
        Argument("start"),
        Argument("stop"),
        Argument(
            "sortby",
            "oneof",
            optional=True,
            since="6.2.0",
            arguments=(
                Argument("byscore", "pure-token", token="BYSCORE"),
                Argument("bylex", "pure-token", token="BYLEX"),
            ),
        ),
        Argument("rev", "pure-token", token="REV", optional=True, since="6.2.0"),
        Argument(
            "limit",
            "block",
            token="LIMIT",
            optional=True,
            since="6.2.0",
            arguments=(
                Argument("offset", "integer"),
                Argument("count", "integer"),
            ),
        ),
        Argument("withscores", "pure-token", token="WITHSCORES", optional=True),
    ),
    history=(("6.2.0", "Added the `REV`, `BYSCORE`, `BYLEX` and `LIMIT` options."),),
)
def zrange(context: Context, argv: list[bytes]) -> Reply:
    """ZRANGE key start stop [BYSCORE | BYLEX] [REV] [LIMIT offset count] [WITHSCORES]

    Returns members, with WITHSCORES also their scores. Raises GenericError, WrongType. Source: Redis 6.2.
    """
    if len(argv) == INDEX_WORDS:
        return _by_index(context, argv, reverse=False)
    return _range(context, argv, RangeRequest(argv, 2, None, None))


@command(
    "ZREVRANGE",
    arity=-4,
    flags=Flag.READONLY,
    keys=(KeySpec(1, 1, 1, ("RO", "access")),),
    categories=("sortedset",),
    group="sorted-set",
    since="1.2.0",
    summary="Returns the members between two indexes, from the end.",
    complexity="O(log(N)+M) with M members returned.",
    arguments=(
        Argument("key", "key", key_spec_index=0),
        Argument("start", "integer"),
        Argument("stop", "integer"),
        Argument("withscores", "pure-token", token="WITHSCORES", optional=True),
    ),
    deprecated=("6.2.0", "`ZRANGE` with the `REV` argument"),
)
def zrevrange(context: Context, argv: list[bytes]) -> Reply:
    """ZREVRANGE key start stop [WITHSCORES]

    Returns members, with WITHSCORES also their scores. Raises GenericError, WrongType. Source: Redis 2.8.
    """
    if len(argv) == INDEX_WORDS:
        return _by_index(context, argv, reverse=True)
    return _range(context, argv, RangeRequest(argv, 2, BY_INDEX, True))


@command(
    "ZRANGEBYSCORE",
    arity=-4,
    flags=Flag.READONLY,
    keys=(KeySpec(1, 1, 1, ("RO", "access")),),
    categories=("sortedset",),
    group="sorted-set",
    since="1.0.5",
    summary="Returns the members in a range of scores.",
    complexity="O(log(N)+M) with M members returned.",
    arguments=(
        Argument("key", "key", key_spec_index=0),
        Argument("min", "double"),
        Argument("max", "double"),
        Argument("withscores", "pure-token", token="WITHSCORES", optional=True, since="2.0.0"),
        LIMIT,
    ),
    history=(("2.0.0", "Added the `WITHSCORES` modifier."),),
    deprecated=("6.2.0", "`ZRANGE` with the `BYSCORE` argument"),
)
def zrangebyscore(context: Context, argv: list[bytes]) -> Reply:
    """ZRANGEBYSCORE key min max [WITHSCORES] [LIMIT offset count]

    Returns members, with WITHSCORES also their scores. Raises GenericError, WrongType. Source: Redis 2.8.
    """
    return _range(context, argv, RangeRequest(argv, 2, BY_SCORE, False))


@command(
    "ZREVRANGEBYSCORE",
    arity=-4,
    flags=Flag.READONLY,
    keys=(KeySpec(1, 1, 1, ("RO", "access")),),
    categories=("sortedset",),
    group="sorted-set",
    since="2.2.0",
    summary="Returns the members in a range of scores, from the end.",
    complexity="O(log(N)+M) with M members returned.",
    arguments=(
        Argument("key", "key", key_spec_index=0),
        Argument("max", "double"),
        Argument("min", "double"),
        Argument("withscores", "pure-token", token="WITHSCORES", optional=True),
        LIMIT,
    ),
    history=(("2.1.6", "`min` and `max` can be exclusive."),),
    deprecated=("6.2.0", "`ZRANGE` with the `REV` and `BYSCORE` arguments"),
)
def zrevrangebyscore(context: Context, argv: list[bytes]) -> Reply:
    """ZREVRANGEBYSCORE key max min [WITHSCORES] [LIMIT offset count]

    Returns members, with WITHSCORES also their scores. Raises GenericError, WrongType. Source: Redis 2.8.
    """
    return _range(context, argv, RangeRequest(argv, 2, BY_SCORE, True))


@command(
    "ZRANGEBYLEX",
    arity=-4,
    flags=Flag.READONLY,
    keys=(KeySpec(1, 1, 1, ("RO", "access")),),
    categories=("sortedset",),
    group="sorted-set",
    since="2.8.9",
    summary="Returns the members in a range of members.",
    complexity="O(log(N)+M) with M members returned.",
    arguments=(
        Argument("key", "key", key_spec_index=0),
        Argument("min"),
        Argument("max"),
        LIMIT,
    ),
    deprecated=("6.2.0", "`ZRANGE` with the `BYLEX` argument"),
)
def zrangebylex(context: Context, argv: list[bytes]) -> Reply:
    """ZRANGEBYLEX key min max [LIMIT offset count]

    Returns members. Raises GenericError, WrongType. Source: Redis 2.8.
    """
    return _range(context, argv, RangeRequest(argv, 2, BY_LEX, False))


@command(
    "ZREVRANGEBYLEX",
    arity=-4,
    flags=Flag.READONLY,
    keys=(KeySpec(1, 1, 1, ("RO", "access")),),
    categories=("sortedset",),
    group="sorted-set",
    since="2.8.9",
    summary="Returns the members in a range of members, from the end.",
    complexity="O(log(N)+M) with M members returned.",
    arguments=(
        Argument("key", "key", key_spec_index=0),
        Argument("max"),
        Argument("min"),
        LIMIT,
    ),
    deprecated=("6.2.0", "`ZRANGE` with the `REV` and `BYLEX` arguments"),
)
def zrevrangebylex(context: Context, argv: list[bytes]) -> Reply:
    """ZREVRANGEBYLEX key max min [LIMIT offset count]

    Returns members. Raises GenericError, WrongType. Source: Redis 2.8.
    """
    return _range(context, argv, RangeRequest(argv, 2, BY_LEX, True))


def _steps(request: RangeRequest, value: SortedSetValue, result: SortedSetValue, start: int, stop: int) -> Steps:
    """The work of ZRANGESTORE on many members. Returns the sorted set that is stored."""
    for done in range(0, stop - start, STEP_COUNT):
        if request.reverse:
            pairs = value.scored(max(start, stop - done - STEP_COUNT), stop - done, reverse=True)
        else:
            pairs = value.scored(start + done, min(start + done + STEP_COUNT, stop))
        result.add_different([member for member, _ in pairs], [score for _, score in pairs])
        yield
    return result


@command(
    "ZRANGESTORE",
    arity=-5,
    flags=Flag.WRITE | Flag.DENYOOM,
    traits=Trait.IN_SLICES,
    keys=(
        KeySpec(1, 1, 1, ("OW", "update")),
        KeySpec(2, 2, 1, ("RO", "access")),
    ),
    categories=("sortedset",),
    group="sorted-set",
    since="6.2.0",
    summary="Stores the members of a range as a sorted set.",
    complexity="O(log(N)+M) with M members stored.",
    arguments=(
        Argument("dst", "key", key_spec_index=0),
        Argument("src", "key", key_spec_index=1),
        Argument("min"),
        Argument("max"),
        Argument(
            "sortby",
            "oneof",
            optional=True,
            arguments=(
                Argument("byscore", "pure-token", token="BYSCORE"),
                Argument("bylex", "pure-token", token="BYLEX"),
            ),
        ),
        Argument("rev", "pure-token", token="REV", optional=True),
        LIMIT,
    ),
)
def zrangestore(context: Context, argv: list[bytes]) -> Reply:
    """ZRANGESTORE dst src min max [BYSCORE | BYLEX] [REV] [LIMIT offset count]

    Returns the number of members. Raises GenericError, WrongType. Source: Redis 6.2.
    """
    request = RangeRequest(argv, 3, None, None, takes_scores=False)
    value, start, stop = request.find(context, argv, argv[2])
    key, db = argv[1], context.db
    if value is None or start >= stop:
        if db.delete(key, DEL):
            context.log_words(argv)
        return 0
    result = SortedSetValue(context.limits)
    # As in Redis, which counts the members of other ranges while it stores them.
    if request.by is BY_INDEX:
        result.expect_more(stop - start)
    if stop - start > STEP_COUNT:
        found = carried_out(context, argv, stop - start, _steps(request, value, result, start, stop))
        if is_awaited(found):
            return found
        result = found
    else:
        pairs = value.scored(start, stop, reverse=request.reverse)
        result.add_different([member for member, _ in pairs], [score for _, score in pairs])
    db.overwrite(key, result, ZRANGESTORE, context.now_ms)
    context.log_words(argv)
    return stop - start


@command(
    "ZCOUNT",
    arity=4,
    flags=Flag.READONLY | Flag.FAST,
    keys=(KeySpec(1, 1, 1, ("RO", "access")),),
    categories=("sortedset",),
    group="sorted-set",
    since="2.0.0",
    summary="Counts the members in a range of scores.",
    complexity="O(log(N))",
    arguments=(
        Argument("key", "key", key_spec_index=0),
        Argument("min", "double"),
        Argument("max", "double"),
    ),
)
def zcount(context: Context, argv: list[bytes]) -> Reply:
    """ZCOUNT key min max. Returns the number of members. Raises GenericError, WrongType. Source: Redis 2.0."""
    low, high = score_place(argv[2], is_high=False), score_place(argv[3], is_high=True)
    value = context.db.read_companion(argv[1], SortedSetValue, context.now_ms)
    if value is None:
        return 0
    start, stop = score_ranks(value, low, high)
    return stop - start


@command(
    "ZLEXCOUNT",
    arity=4,
    flags=Flag.READONLY | Flag.FAST,
    keys=(KeySpec(1, 1, 1, ("RO", "access")),),
    categories=("sortedset",),
    group="sorted-set",
    since="2.8.9",
    summary="Counts the members in a range of members.",
    complexity="O(log(N))",
    arguments=(
        Argument("key", "key", key_spec_index=0),
        Argument("min"),
        Argument("max"),
    ),
    differs="If the members of a skiplist have several scores, it may count others than Redis, where that depends on "
    "chance; so it is with the other commands on ranges of members. If those of a listpack have, LIMIT of these "
    "commands skips only members in the range.",
)
def zlexcount(context: Context, argv: list[bytes]) -> Reply:
    """ZLEXCOUNT key min max. Returns the number of members. Raises GenericError, WrongType. Source: Redis 2.8."""
    low, high = lex_bound(argv[2]), lex_bound(argv[3])
    value = context.db.read_companion(argv[1], SortedSetValue, context.now_ms)
    if value is None:
        return 0
    start, stop = lex_ranks(value, low, high)
    return stop - start
