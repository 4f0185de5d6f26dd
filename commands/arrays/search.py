"""ARGREP: the elements of an array that match."""

from __future__ import annotations

from typing import Final

from ...protocol.replies import Reply
from ...store.companions.array_value import ArraySearch, ArrayValue
from ...store.companions.search_terms import EXACT, GLOB, MATCH, RE, Predicate
from ...store.errors import GenericError, syntax_error
from ..core.int64 import INT64_MAX
from ..core.table import Argument, Flag, command
from ..execution.context import Context
from .arguments import KEY, READ_KEYS, index_of, index_reply, limit_of
from .patterns import check_length, program_of

# Predicates of a request, as in Redis.
PREDICATES_MAX: Final = 250


# Predicates of a request, by the word before each.
_KINDS: Final = {b"EXACT": EXACT, b"MATCH": MATCH, b"GLOB": GLOB, b"RE": RE}


class _Options:
    """The predicates and options of ARGREP."""

    __slots__ = ("_ignores_case", "_needs_all", "_predicates", "limit", "with_elements")

    def __init__(self, argv: list[bytes]) -> None:
        """Read the words after the range. Raises GenericError."""
        self._predicates: list[tuple[int, bytes]] = []
        self._needs_all = False
        self._ignores_case = False
        # 0 for no limit.
        self.limit = 0
        self.with_elements = False
        at = 4
        while at < len(argv):
            word = argv[at].upper()
            at += 1
            kind = _KINDS.get(word)
            if kind is not None or word == b"LIMIT":
                if at == len(argv):
                    raise syntax_error()
                if kind is None:
                    self.limit = limit_of(argv[at])
                else:
                    if len(self._predicates) == PREDICATES_MAX:
                        raise GenericError(b"too many predicates, maximum is %d" % PREDICATES_MAX)
                    if kind == RE:
                        check_length(argv[at])
                    self._predicates.append((kind, argv[at]))
                at += 1
            elif word in (b"AND", b"OR"):
                self._needs_all = word == b"AND"
            elif word == b"NOCASE":
                self._ignores_case = True
            elif word == b"WITHVALUES":
                self.with_elements = True
            else:
                raise syntax_error()
        if not self._predicates:
            raise syntax_error()

    def search(self) -> ArraySearch:
        """The search for elements that match. Raises GenericError."""
        predicates: list[Predicate] = []
        for kind, text in self._predicates:
            program = program_of(text, ignore_case=self._ignores_case) if kind == RE else []
            predicates.append((kind, text, program))
        return ArraySearch(predicates, self._needs_all, self._ignores_case)


# What `+` means, before the array is known.
_LAST: Final = -1


def _bound(token: bytes) -> int:
    """An index; `-` is the first one, and `+` is `_LAST`. Raises GenericError."""
    return 0 if token == b"-" else _LAST if token == b"+" else index_of(token)


@command(
    "ARGREP",
    arity=-6,
    flags=Flag.READONLY,
    keys=READ_KEYS,
    categories=("array",),
    group="array",
    since="8.8.0",
    summary="Finds the elements in a range of an array that match.",
    complexity="O(N*M) in the number of elements in the range, and the cost of a comparison.",
    arguments=(
        KEY,
        Argument("start"),
        Argument("end"),
        Argument(
            "predicate",
            "oneof",
            multiple=True,
            arguments=(
                Argument(
                    "exact", "block", arguments=(Argument("exact", "pure-token", token="EXACT"), Argument("string"))
                ),
                Argument(
                    "match", "block", arguments=(Argument("match", "pure-token", token="MATCH"), Argument("string"))
                ),
                Argument(
                    "glob", "block", arguments=(Argument("glob", "pure-token", token="GLOB"), Argument("pattern"))
                ),
                Argument("re", "block", arguments=(Argument("re", "pure-token", token="RE"), Argument("pattern"))),
            ),
        ),
        Argument(
            "options",
            "oneof",
            optional=True,
            multiple=True,
            arguments=(
                Argument("and", "pure-token", token="AND"),
                Argument("or", "pure-token", token="OR"),
                Argument("limit", "integer", token="LIMIT"),
                Argument("withvalues", "pure-token", token="WITHVALUES"),
                Argument("nocase", "pure-token", token="NOCASE"),
            ),
        ),
    ),
    differs="RE matches bytes. A condition on the place, as `^` or `\\b`, that is repeated or has an empty alternative "
    "is not needed; in Redis, it sometimes is. A pattern of more than 20,000 steps is refused.",
)
def argrep(context: Context, argv: list[bytes]) -> Reply:
    """ARGREP key start end <EXACT string | MATCH string | GLOB pattern | RE pattern>
    [<EXACT string | MATCH string | GLOB pattern | RE pattern> ...]
    [<AND | OR | LIMIT limit | WITHVALUES | NOCASE> ...]

    Returns the indexes of elements that match a predicate, or all with AND; from the end if it is before the start.
    WITHVALUES adds the elements. Raises WrongType, GenericError. Source: Redis 8.8.
    """
    start, end = _bound(argv[2]), _bound(argv[3])
    options = _Options(argv)
    search = options.search()
    value = context.db.read_companion(argv[1], ArrayValue, context.now_ms)
    if value is None:
        return []
    start = value.end - 1 if start == _LAST else start
    end = value.end - 1 if end == _LAST else end
    first, last = min(start, end), max(start, end)
    if last <= INT64_MAX:
        count = options.limit or len(value)
        found_count, replies = value.slices.encoded_matches(
            search, first, last, count, start > end, options.with_elements
        )
        return (b"*%d\r\n" % found_count, replies)
    found: list[Reply] = []
    for index, element in value.items(first, last, start > end):
        if search.accepts(element):
            number = index_reply(index)
            found.append([number, element] if options.with_elements else number)
            if len(found) == options.limit:
                break
    return found
