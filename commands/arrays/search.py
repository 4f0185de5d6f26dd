"""ARGREP: the elements of an array that match."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from ...protocol.encoder import ENCODERS, Encoder
from ...protocol.replies import Reply
from ...store.companions.array_value import ArrayValue
from ...store.errors import GenericError, syntax_error
from ...store.glob import matches
from ..core.long_replies import encoded
from ..core.table import Argument, Flag, Trait, command
from ..execution.context import Context
from ..execution.sliced_work import Steps
from ..execution.slices import STEP_COUNT, carried_out, is_awaited
from .arguments import KEY, READ_KEYS, index_of, index_reply, limit_of
from .patterns import Pattern, check_length

# Predicates of a request, as in Redis.
PREDICATES_MAX: Final = 250


class _Search:
    """The predicates and options of ARGREP."""

    __slots__ = ("_needs_all", "_patterns", "_predicates", "ignores_case", "limit", "with_values")

    def __init__(self) -> None:
        # Names and texts of predicates.
        self._predicates: list[tuple[bytes, bytes]] = []
        self._patterns: dict[bytes, Pattern] = {}
        self._needs_all = False
        self.ignores_case = False
        # 0 for no limit.
        self.limit = 0
        self.with_values = False

    def parse(self, argv: list[bytes]) -> None:
        """Read the words after the range. Raises GenericError."""
        at = 4
        while at < len(argv):
            word = argv[at].upper()
            at += 1
            if word in (b"EXACT", b"MATCH", b"GLOB", b"RE", b"LIMIT"):
                if at == len(argv):
                    raise syntax_error()
                if word == b"LIMIT":
                    self.limit = limit_of(argv[at])
                else:
                    if len(self._predicates) == PREDICATES_MAX:
                        raise GenericError(b"too many predicates, maximum is %d" % PREDICATES_MAX)
                    if word == b"RE":
                        check_length(argv[at])
                    self._predicates.append((word, argv[at]))
                at += 1
            elif word in (b"AND", b"OR"):
                self._needs_all = word == b"AND"
            elif word == b"NOCASE":
                self.ignores_case = True
            elif word == b"WITHVALUES":
                self.with_values = True
            else:
                raise syntax_error()
        if not self._predicates:
            raise syntax_error()
        for name, text in self._predicates:
            if name == b"RE":
                self._patterns[text] = Pattern(text, ignore_case=self.ignores_case)

    def accepted(self, page: list[Any]) -> list[Any]:
        """The pairs of an index and an element that matches."""
        if len(self._predicates) == 1 and not self.ignores_case:
            # Most searches: no call for each element.
            name, text = self._predicates[0]
            if name == b"EXACT":
                return [pair for pair in page if pair[1] == text]
            if name == b"MATCH":
                return [pair for pair in page if text in pair[1]]
            if name == b"GLOB":
                return [pair for pair in page if matches(text, pair[1], False)]
        return [pair for pair in page if self.accepts(pair[1])]

    def replies(self, page: list[Any]) -> list[Reply]:
        """The elements of the reply for the pairs that match."""
        if self.with_values:
            return [[index_reply(index), element] for index, element in self.accepted(page)]
        return [index_reply(index) for index, _ in self.accepted(page)]

    def accepts(self, element: bytes) -> bool:
        """Whether an element matches one predicate, or all of them with AND."""
        for name, text in self._predicates:
            if self._matches(name, text, element) != self._needs_all:
                return not self._needs_all
        return self._needs_all

    def _matches(self, name: bytes, text: bytes, element: bytes) -> bool:
        if name == b"RE":
            return self._patterns[text].is_in(element)
        if name == b"GLOB":
            return matches(text, element, self.ignores_case)
        if self.ignores_case:
            text, element = text.lower(), element.lower()
        return text == element if name == b"EXACT" else text in element


# What `+` means, before the array is known.
_LAST: Final = -1


def _steps(search: _Search, pages: Iterator[list[Any]], encode: Encoder) -> Steps:
    """The work of ARGREP on many elements. Returns the number of those of the reply, and their encoded pieces."""
    count = 0
    pieces: list[bytes] = []
    for page in pages:
        replies = search.replies(page)
        if search.limit:
            replies = replies[: search.limit - count]
        count += len(replies)
        if replies:
            words: list[bytes] = []
            for each in replies:
                encode(each, words)
            pieces.append(b"".join(words))
        if count and count == search.limit:
            break
        yield
    return count, pieces


def _bound(token: bytes) -> int:
    """An index; `-` is the first one, and `+` is `_LAST`. Raises GenericError."""
    return 0 if token == b"-" else _LAST if token == b"+" else index_of(token)


@command(
    "ARGREP",
    arity=-6,
    flags=Flag.READONLY,
    traits=Trait.IN_SLICES,
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
    search = _Search()
    search.parse(argv)
    value = context.db.read_companion(argv[1], ArrayValue, context.now_ms)
    found: list[Reply] = []
    if value is not None:
        start = value.end - 1 if start == _LAST else start
        end = value.end - 1 if end == _LAST else end
        pages = value.pages(min(start, end), max(start, end), start > end)
        count = value.slices.count_between(min(start, end), max(start, end)) if len(value) > STEP_COUNT else 0
        if count > STEP_COUNT:
            result = carried_out(context, argv, count, _steps(search, pages, ENCODERS[context.client.protocol]))
            return result if is_awaited(result) else encoded(*result)
        for page in pages:
            for index, element in search.accepted(page):
                number = index_reply(index)
                found.append([number, element] if search.with_values else number)
                if len(found) == search.limit:
                    return found
    return found
