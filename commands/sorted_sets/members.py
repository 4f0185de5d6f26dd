"""Commands on members of a sorted set and their scores: ZADD, ZINCRBY, ZREM, and those that read them."""

from __future__ import annotations

from typing import Final

from ...protocol.replies import NULL_ARRAY, Reply
from ...protocol.scalars import double_text
from ...store.companions.scores import CHANGED, NEW, SAME
from ...store.companions.sorted_set_value import LISTPACK, SortedSetValue
from ...store.errors import GenericError, syntax_error, wrong_number_of_arguments
from ...store.events import ZADD, ZINCR, ZREM
from ...store.glob import matching_texts
from ..core.member_scan import parse_cursor, parse_member_scan
from ..core.numbers import parse_float
from ..core.table import Argument, Flag, KeySpec, command
from ..execution.context import Context

# Compiled code calls this in less time than a name that is imported, which it looks up at each call.
_double_text: Final = double_text

NOT_A_FLOAT: Final = b"value is not a valid float"
NOT_A_NUMBER: Final = b"resulting score is not a number (NaN)"
# Words of a ZADD of one member without options.
PAIR_WORDS: Final = 4
OPTIONS: Final = frozenset((b"NX", b"XX", b"GT", b"LT", b"CH", b"INCR"))


class AdditionOptions:
    """The options of ZADD."""

    __slots__ = ("counts_changes", "has_any", "if_greater", "if_less", "if_new", "if_there", "increments")

    def __init__(self, words: list[bytes]) -> None:
        self.has_any: Final = bool(words)
        self.if_new: Final = b"NX" in words
        self.if_there: Final = b"XX" in words
        self.if_greater: Final = b"GT" in words
        self.if_less: Final = b"LT" in words
        self.counts_changes: Final = b"CH" in words
        self.increments: Final = b"INCR" in words

    def check(self, words_count: int) -> None:
        """Check options that exclude each other, or a number of words of pairs. Raises GenericError."""
        if self.if_new and self.if_there:
            raise GenericError(b"XX and NX options at the same time are not compatible")
        if self.if_new + self.if_greater + self.if_less > 1:
            raise GenericError(b"GT, LT, and/or NX options at the same time are not compatible")
        if self.increments and words_count > 2:
            raise GenericError(b"INCR option supports a single increment-element pair")

    def allow(self, old: float | None, score: float) -> bool:
        """Whether a member with an old score, or without one, may get another score."""
        if old is None:
            return not self.if_there
        if self.if_new:
            return False
        return not ((self.if_greater and score <= old) or (self.if_less and score >= old))


NO_OPTIONS: Final = AdditionOptions([])
# Most requests have one option at most.
SINGLE_OPTIONS: Final = {word: AdditionOptions([word]) for word in OPTIONS}


class Addition:
    """A request of ZADD."""

    __slots__ = ("options", "pairs")

    def __init__(self, options: AdditionOptions, pairs: list[tuple[float, bytes]]) -> None:
        self.options: Final = options
        # Scores with their members.
        self.pairs: Final = pairs


def score_of(token: bytes) -> float:
    """The score that a word spells. Raises GenericError."""
    score = parse_float(token)
    if score is None:
        raise GenericError(NOT_A_FLOAT)
    return score


def _parse(argv: list[bytes]) -> Addition:
    """The options and pairs of ZADD. Raises GenericError."""
    first = 2
    found: list[bytes] = []
    while first < len(argv):
        word = argv[first].upper()
        if word not in OPTIONS:
            break
        found.append(word)
        first += 1
    words_count = len(argv) - first
    if not words_count or words_count % 2:
        raise syntax_error()
    options = NO_OPTIONS
    if found:
        options = SINGLE_OPTIONS[found[0]] if len(found) == 1 else AdditionOptions(found)
        options.check(words_count)
    return Addition(options, [(score_of(argv[index]), argv[index + 1]) for index in range(first, len(argv), 2)])


def _add(context: Context, argv: list[bytes], addition: Addition) -> Reply:
    """Adds members. Returns what ZADD replies. Raises GenericError, WrongType."""
    key, db = argv[1], context.db
    options, pairs = addition.options, addition.pairs
    value = db.find_companion(key, SortedSetValue, context.now_ms)
    increments = options.increments
    if value is None:
        if options.if_there:
            return None if increments else 0
        value = SortedSetValue(context.limits)
        # As Redis does, only the first member is looked at: others may come after those of a listpack.
        value.expect(len(pairs), len(pairs[0][1]))
        db.add(key, value)
    else:
        value.expect_more(len(pairs))
    added = updated = 0
    result: float | None = None
    for score, member in pairs:
        if not options.has_any:
            change = value.put(member, score)
            added += change == NEW
            updated += change == CHANGED
            continue
        old = value.score(member)
        if increments and old is not None and not options.if_new:
            score += old
            if score != score:
                raise GenericError(NOT_A_NUMBER)
        if not options.allow(old, score):
            continue
        result = score
        if old is None:
            value.put(member, score)
            added += 1
        elif score != old:
            value.put(member, score)
            updated += 1
    if added or updated:
        db.settle(key, value, ZINCR if increments else ZADD)
        context.log_words(argv, added + updated)
    if increments:
        return result
    return added + updated if options.counts_changes else added


def _value_for(context: Context, key: bytes, member: bytes) -> SortedSetValue:
    """The sorted set that gets one member; it is made if there is none. Raises WrongType."""
    value = context.db.find_companion(key, SortedSetValue, context.now_ms)
    if value is None:
        value = SortedSetValue(context.limits)
        value.expect(1, len(member))
        context.db.add(key, value)
    else:
        value.expect_more(1)
    return value


def _add_one(context: Context, argv: list[bytes], score: float, member: bytes) -> int:
    """Adds one member without options, in less time than `_add`. Returns what ZADD replies. Raises WrongType."""
    value = _value_for(context, argv[1], member)
    change = value.put(member, score)
    if change != SAME:
        context.db.settle(argv[1], value, ZADD)
        context.log_words(argv)
    return 1 if change == NEW else 0


def _increase(context: Context, argv: list[bytes], increment: float, member: bytes) -> float:
    """Adds to the score of one member, in less time than `_add`. Returns the new score. Raises GenericError,
    WrongType."""
    value = _value_for(context, argv[1], member)
    old = value.score(member)
    score = increment if old is None else old + increment
    if score != score:
        raise GenericError(NOT_A_NUMBER)
    if value.put(member, score) != SAME:
        context.db.settle(argv[1], value, ZINCR)
        context.log_words(argv)
    return score


@command(
    "ZADD",
    arity=-4,
    flags=Flag.WRITE | Flag.DENYOOM | Flag.FAST,
    keys=(KeySpec(1, 1, 1, ("RW", "update")),),
    categories=("sortedset",),
    group="sorted-set",
    since="1.2.0",
    summary="Adds members to a sorted set, or changes their scores.",
    complexity="O(log(N)) for each member.",
    arguments=(
        Argument("key", "key", key_spec_index=0),
        Argument(
            "condition",
            "oneof",
            optional=True,
            since="3.0.2",
            arguments=(
                Argument("nx", "pure-token", token="NX"),
                Argument("xx", "pure-token", token="XX"),
            ),
        ),
        Argument(
            "comparison",
            "oneof",
            optional=True,
            since="6.2.0",
            arguments=(
                Argument("gt", "pure-token", token="GT"),
                Argument("lt", "pure-token", token="LT"),
            ),
        ),
        Argument("change", "pure-token", token="CH", optional=True, since="3.0.2"),
        Argument("increment", "pure-token", token="INCR", optional=True, since="3.0.2"),
        Argument(
            "data",
            "block",
            multiple=True,
            arguments=(
                Argument("score", "double"),
                Argument("member"),
            ),
        ),
    ),
    history=(
        ("2.4.0", "Accepts multiple elements."),
        ("3.0.2", "Added the `XX`, `NX`, `CH` and `INCR` options."),
        ("6.2.0", "Added the `GT` and `LT` options."),
    ),
)
def zadd(context: Context, argv: list[bytes]) -> Reply:
    """ZADD key [NX | XX] [GT | LT] [CH] [INCR] score member [score member ...]

    Returns the number of new members, with CH of changed ones too. With INCR returns the new score, null if the options
    do not allow it. Raises GenericError, WrongType. Source: Redis 6.2.
    """
    if len(argv) == PAIR_WORDS:
        score = parse_float(argv[2])
        if score is not None:
            return _add_one(context, argv, score, argv[3])
    return _add(context, argv, _parse(argv))


@command(
    "ZINCRBY",
    arity=4,
    flags=Flag.WRITE | Flag.DENYOOM | Flag.FAST,
    keys=(KeySpec(1, 1, 1, ("RW", "access", "update")),),
    categories=("sortedset",),
    group="sorted-set",
    since="1.2.0",
    summary="Adds a number to the score of a member.",
    complexity="O(log(N))",
    arguments=(
        Argument("key", "key", key_spec_index=0),
        Argument("increment", "integer"),
        Argument("member"),
    ),
)
def zincrby(context: Context, argv: list[bytes]) -> Reply:
    """ZINCRBY key increment member. Returns the new score. Raises GenericError, WrongType. Source: Redis 1.2."""
    return _increase(context, argv, score_of(argv[2]), argv[3])


@command(
    "ZREM",
    arity=-3,
    flags=Flag.WRITE | Flag.FAST,
    keys=(KeySpec(1, 1, 1, ("RW", "delete")),),
    categories=("sortedset",),
    group="sorted-set",
    since="1.2.0",
    summary="Removes members of a sorted set; the last one takes the key with it.",
    complexity="O(M*log(N)) with M members to remove.",
    arguments=(
        Argument("key", "key", key_spec_index=0),
        Argument("member", multiple=True),
    ),
    history=(("2.4.0", "Accepts multiple elements."),),
)
def zrem(context: Context, argv: list[bytes]) -> Reply:
    """ZREM key member [member ...]. Returns how many were there. Raises WrongType. Source: Redis 2.4."""
    key, db = argv[1], context.db
    value = db.find_companion(key, SortedSetValue, context.now_ms)
    if value is None:
        return 0
    removed = 0
    for index in range(2, len(argv)):
        removed += value.discard(argv[index])
    if removed:
        db.settle(key, value, ZREM)
        context.log_words(argv, removed)
    return removed


@command(
    "ZCARD",
    arity=2,
    flags=Flag.READONLY | Flag.FAST,
    keys=(KeySpec(1, 1, 1, ("RO",)),),
    categories=("sortedset",),
    group="sorted-set",
    since="1.2.0",
    summary="Counts the members of a sorted set.",
    complexity="O(1)",
    arguments=(Argument("key", "key", key_spec_index=0),),
)
def zcard(context: Context, argv: list[bytes]) -> Reply:
    """ZCARD key. Returns the number of members, 0 if the key is missing. Raises WrongType. Source: Redis 1.2."""
    value = context.db.read_companion(argv[1], SortedSetValue, context.now_ms)
    return 0 if value is None else len(value)


@command(
    "ZSCORE",
    arity=3,
    flags=Flag.READONLY | Flag.FAST,
    keys=(KeySpec(1, 1, 1, ("RO", "access")),),
    categories=("sortedset",),
    group="sorted-set",
    since="1.2.0",
    summary="Returns the score of a member.",
    complexity="O(1)",
    arguments=(
        Argument("key", "key", key_spec_index=0),
        Argument("member"),
    ),
)
def zscore(context: Context, argv: list[bytes]) -> Reply:
    """ZSCORE key member. Returns the score; null if there is no such member. Raises WrongType. Source: Redis 1.2."""
    value = context.db.read_companion(argv[1], SortedSetValue, context.now_ms)
    return None if value is None else value.score(argv[2])


@command(
    "ZMSCORE",
    arity=-3,
    flags=Flag.READONLY | Flag.FAST,
    keys=(KeySpec(1, 1, 1, ("RO", "access")),),
    categories=("sortedset",),
    group="sorted-set",
    since="6.2.0",
    summary="Returns the scores of members.",
    complexity="O(N) in the number of members.",
    arguments=(
        Argument("key", "key", key_spec_index=0),
        Argument("member", multiple=True),
    ),
)
def zmscore(context: Context, argv: list[bytes]) -> Reply:
    """ZMSCORE key member [member ...]. Returns scores, null for none. Raises WrongType. Source: Redis 6.2."""
    value = context.db.read_companion(argv[1], SortedSetValue, context.now_ms)
    if value is None:
        return [None] * (len(argv) - 2)
    return value.scores(argv[2:])


def _rank(context: Context, argv: list[bytes], *, reverse: bool) -> Reply:
    """The rank of a member, with its score if that is asked for. Raises GenericError, WrongType."""
    with_score = len(argv) == 4
    if len(argv) > 4:
        raise wrong_number_of_arguments(b"zrevrank" if reverse else b"zrank")
    if with_score and argv[3].upper() != b"WITHSCORE":
        raise syntax_error()
    value = context.db.read_companion(argv[1], SortedSetValue, context.now_ms)
    rank = None if value is None else value.rank(argv[2])
    if value is None or rank is None:
        return NULL_ARRAY if with_score else None
    if reverse:
        rank = len(value) - 1 - rank
    return [rank, value.score(argv[2])] if with_score else rank


@command(
    "ZRANK",
    arity=-3,
    flags=Flag.READONLY | Flag.FAST,
    keys=(KeySpec(1, 1, 1, ("RO", "access")),),
    categories=("sortedset",),
    group="sorted-set",
    since="2.0.0",
    summary="Returns the number of members before a member.",
    complexity="O(log(N))",
    arguments=(
        Argument("key", "key", key_spec_index=0),
        Argument("member"),
        Argument("withscore", "pure-token", token="WITHSCORE", optional=True),
    ),
    history=(("7.2.0", "Added the optional `WITHSCORE` argument."),),
)
def zrank(context: Context, argv: list[bytes]) -> Reply:
    """ZRANK key member [WITHSCORE]

    Returns the rank from 0 on, with WITHSCORE also the score; null if there is no such member. Raises GenericError,
    WrongType. Source: Redis 7.2.
    """
    return _rank(context, argv, reverse=False)


@command(
    "ZREVRANK",
    arity=-3,
    flags=Flag.READONLY | Flag.FAST,
    keys=(KeySpec(1, 1, 1, ("RO", "access")),),
    categories=("sortedset",),
    group="sorted-set",
    since="2.0.0",
    summary="Returns the number of members after a member.",
    complexity="O(log(N))",
    arguments=(
        Argument("key", "key", key_spec_index=0),
        Argument("member"),
        Argument("withscore", "pure-token", token="WITHSCORE", optional=True),
    ),
    history=(("7.2.0", "Added the optional `WITHSCORE` argument."),),
)
def zrevrank(context: Context, argv: list[bytes]) -> Reply:
    """ZREVRANK key member [WITHSCORE]

    Returns the rank from 0 on, with WITHSCORE also the score; null if there is no such member. Raises GenericError,
    WrongType. Source: Redis 7.2.
    """
    return _rank(context, argv, reverse=True)


@command(
    "ZSCAN",
    arity=-3,
    flags=Flag.READONLY,
    keys=(KeySpec(1, 1, 1, ("RO", "access")),),
    categories=("sortedset",),
    group="sorted-set",
    since="2.8.0",
    summary="Iterates over the members of a sorted set, some with each call.",
    complexity="O(COUNT) a call.",
    arguments=(
        Argument("key", "key", key_spec_index=0),
        Argument("cursor", "integer"),
        Argument("pattern", "pattern", token="MATCH", optional=True),
        Argument("count", "integer", token="COUNT", optional=True),
    ),
    tips=("nondeterministic_output",),
)
def zscan(context: Context, argv: list[bytes]) -> Reply:
    """ZSCAN key cursor [MATCH pattern] [COUNT count]

    Returns the next cursor (0 at the end) and members, each followed by its score. A member that is there during the
    whole iteration is returned. Raises GenericError, WrongType. Source: Redis 2.8.
    """
    cursor = parse_cursor(argv[2])
    value = context.db.read_companion(argv[1], SortedSetValue, context.now_ms)
    if value is None:
        return [b"0", []]
    options = parse_member_scan(argv)
    if options.has_novalues:
        raise GenericError(b"NOVALUES option can only be used in HSCAN")
    # A skiplist has numbers, which Redis prints with all digits here; a listpack has the texts of scores.
    is_listpack = value.encoding == LISTPACK
    if is_listpack and options.pattern is None and context.client.protocol == 2:
        # The texts are those that scores have in other replies.
        return [b"0", value.words(0, len(value))]
    found, cursor = value.scan(cursor, options.count_hint)
    if options.pattern is not None:
        found = matching_texts(options.pattern, found)
    words: list[bytes] = []
    scores = value.scores(found)
    for index in range(len(found)):
        score = scores[index]
        assert score is not None
        words.append(found[index])
        words.append(_double_text(score) if is_listpack else b"%.17g" % score)
    return [b"%d" % cursor, words]
