"""XTRIM, and the option parser that XTRIM and XADD share."""

from __future__ import annotations

from typing import Final

from ...persistence.grammar.streams import exact_trim, pack_acked_trim
from ...protocol.packing import pack_command
from ...protocol.replies import Reply
from ...store import events
from ...store.errors import GenericError, syntax_error, wrong_number_of_arguments
from ...store.ids import ID_MAX, SEQ_BITS, StreamID, format_id, id_after, parse_id
from ...store.stream import References, Stream
from ...store.trimming import Trim, default_limit, first_physical_id, trim
from ..core.numbers import integer
from ..core.table import Argument, Flag, KeySpec, command
from ..execution.context import Context
from ..policies.turns import note_deleted

# More than a hundred thousand years.
DUE_MS_MAX: Final = 2**52
KEEP: Final = References.KEEP
DIGIT_MIN: Final = ord("0")
DIGIT_MAX: Final = ord("9")
REFERENCE_WORDS = {mode.value: mode for mode in References}

REFERENCE_ARGUMENT = Argument(
    "condition",
    "oneof",
    optional=True,
    arguments=(
        Argument("keepref", "pure-token", token="KEEPREF"),
        Argument("delref", "pure-token", token="DELREF"),
        Argument("acked", "pure-token", token="ACKED"),
    ),
)

TRIM_STRATEGY_ARGUMENTS = (
    Argument(
        "strategy",
        "oneof",
        arguments=(
            Argument("maxlen", "pure-token", token="MAXLEN"),
            Argument("minid", "pure-token", token="MINID", since="6.2.0"),
        ),
    ),
    Argument(
        "operator",
        "oneof",
        optional=True,
        arguments=(Argument("equal", "pure-token", token="="), Argument("approximately", "pure-token", token="~")),
    ),
    Argument("threshold", "string"),
    Argument("count", "integer", token="LIMIT", optional=True, since="6.2.0"),
)


class StreamOptions:
    """The options of XADD and XTRIM. Indexes are positions in `argv`.

    It is not frozen: the parser sets one option after the other. It is no dataclass, because a compiled dataclass is
    slower. Only the parser changes it.
    """

    __slots__ = (
        "due_index", "due_ms", "entry_id", "id_index", "id_ms", "iid", "limit", "no_create", "producer_id",
        "references", "threshold_index", "trim",
    )  # fmt: skip

    def __init__(self) -> None:
        self.trim: Trim | None = None
        self.threshold_index = 0
        self.limit: int | None = None
        self.no_create = False
        self.references: References | None = None
        self.producer_id: bytes | None = None
        # Before when groups do not hand out the entry (XADD), Unix ms, and the index of the option. None without one.
        self.due_ms: int | None = None
        self.due_index = 0
        # None if there is a producer ID means IDMPAUTO.
        self.iid: bytes | None = None
        # Index of XADD's ID in `argv`; the number of arguments if there is none.
        self.id_index = 0
        # A complete ID; None for `*` and `ms-*`.
        self.entry_id: StreamID | None = None
        # The milliseconds of `ms-*`.
        self.id_ms: int | None = None


def scan_options(argv: list[bytes], *, is_add: bool, context: Context) -> StreamOptions:
    """Parses the options from the third argument on, and XADD's ID. Raises GenericError for the leftmost error."""
    options = StreamOptions()
    argc = len(argv)
    index = 2
    while index < argc:
        token = argv[index]
        if is_add and token == b"*":
            break
        # Nothing that begins with a digit is an option.
        is_option = not token or not DIGIT_MIN <= token[0] <= DIGIT_MAX
        used = _scan_option(argv, index, options, is_add=is_add) if is_option else 0
        if not used and is_add and is_option:
            used = _scan_due(argv, index, options, context.now_ms)
        if not used:
            if not is_add:
                raise syntax_error()
            _scan_id(token, options)
            break
        index += used
    options.id_index = index
    if options.producer_id is not None and index < argc and argv[index] != b"*" and not context.replaying:
        raise GenericError(b"syntax error, IDMP/IDMPAUTO can be used only with auto-generated IDs")
    _check_trim_options(options, is_add=is_add, context=context)
    return options


def _scan_option(argv: list[bytes], index: int, options: StreamOptions, *, is_add: bool) -> int:
    """Parses one option and returns its number of arguments; 0 if `argv[index]` is not an option."""
    word = argv[index].upper()
    more = len(argv) - 1 - index
    if (word == b"MAXLEN" or word == b"MINID") and more:
        return _scan_threshold(argv, index, options, is_length=word == b"MAXLEN")
    if word == b"LIMIT" and more:
        options.limit = integer(argv[index + 1])
        if options.limit < 0:
            raise GenericError(b"The LIMIT argument must be >= 0.")
        return 2
    if word in REFERENCE_WORDS and options.references is None:
        options.references = REFERENCE_WORDS[word]
        return 1
    if is_add and word == b"NOMKSTREAM":
        options.no_create = True
        return 1
    if is_add and ((word == b"IDMPAUTO" and more >= 1) or (word == b"IDMP" and more >= 2)):
        return _scan_producer(argv, index, options, word)
    return 0


def _scan_threshold(argv: list[bytes], index: int, options: StreamOptions, *, is_length: bool) -> int:
    """Parses MAXLEN or MINID with operator and threshold, and returns their number of arguments."""
    if options.trim is not None:
        raise GenericError(b"syntax error, MAXLEN and MINID options at the same time are not compatible")
    used = 2
    request = Trim()
    if len(argv) - 1 - index >= 2:
        operator = argv[index + 1]
        request.approximate = operator == b"~"
        if request.approximate or operator == b"=":
            used = 3
    options.threshold_index = index + used - 1
    threshold = argv[options.threshold_index]
    if is_length:
        request.length_max = integer(threshold)
        if request.length_max < 0:
            raise GenericError(b"The MAXLEN argument must be >= 0.")
    else:
        request.id_min = parse_id(threshold)
    options.trim = request
    return used


def _scan_producer(argv: list[bytes], index: int, options: StreamOptions, word: bytes) -> int:
    """Parses IDMP pid iid, or IDMPAUTO pid, and returns the number of arguments."""
    if options.producer_id is not None:
        raise GenericError(b"syntax error, IDMP/IDMPAUTO specified multiple times")
    options.producer_id = argv[index + 1]
    if not options.producer_id:
        raise GenericError(b"syntax error, %b requires a non-empty producer ID" % word)
    if word == b"IDMPAUTO":
        return 2
    options.iid = argv[index + 2]
    if not options.iid:
        raise GenericError(b"syntax error, IDMP requires a non-empty idempotent ID")
    return 3


def _scan_due(argv: list[bytes], index: int, options: StreamOptions, now_ms: int) -> int:
    """Parses DELAY ms or AT unix-ms, and returns the number of arguments; 0 if `argv[index]` is neither."""
    word = argv[index].upper()
    if word not in (b"DELAY", b"AT") or index + 1 == len(argv):
        return 0
    if options.due_ms is not None:
        raise GenericError(b"syntax error, DELAY and AT can be given only once, and not both")
    number = integer(argv[index + 1])
    if not 0 <= number <= DUE_MS_MAX:
        raise GenericError(b"The %b argument must be >= 0 and at most %d." % (word, DUE_MS_MAX))
    options.due_index, options.due_ms = index, number if word == b"AT" else now_ms + number
    return 2


def _scan_id(token: bytes, options: StreamOptions) -> None:
    ms, dash, seq = token.partition(b"-")
    if dash and seq == b"*":
        options.id_ms = parse_id(ms) >> SEQ_BITS
    else:
        options.entry_id = parse_id(token)


def _check_trim_options(options: StreamOptions, *, is_add: bool, context: Context) -> None:
    """Checks how the options combine, and sets the limit that `~` implies. Raises GenericError."""
    request = options.trim
    if request is None:
        if options.limit:
            raise GenericError(b"syntax error, LIMIT cannot be used without specifying a trimming strategy")
        if not is_add:
            raise GenericError(b"syntax error, XTRIM must be called with a trimming strategy")
    if context.replaying:
        # A log may have LIMIT next to `=`: the threshold already includes its effect, so it is not applied again.
        if request is not None:
            request.references = options.references or KEEP
        return
    if options.limit is not None and not (request and request.approximate):
        raise GenericError(b"syntax error, LIMIT cannot be used without the special ~ option")
    if request is None:
        return
    request.references = options.references or KEEP
    if request.approximate:
        implied = default_limit(context.limits.node_entries_max)
        request.limit = implied if options.limit is None else options.limit


def exact_record(argv: list[bytes], options: StreamOptions, stream: Stream, trimmed_to: StreamID) -> list[bytes]:
    """Returns the command with `=` for `~`, so that a replay does not depend on the size of nodes.

    With KEEPREF the threshold becomes the resulting length, or the first ID that a node contains. With DELREF, which
    removes parts of nodes, MINID becomes the ID after the last removed one.
    """
    request = options.trim
    if request is None or not request.approximate:
        return list(argv)
    if request.length_max is not None:
        threshold = b"%d" % len(stream)
    elif request.references is KEEP:
        threshold = format_id(first_physical_id(stream))
    else:
        threshold = format_id(id_after(trimmed_to) if trimmed_to else 0)
    return exact_trim(argv, options.threshold_index, threshold)


def log_acked_trim(context: Context, key: bytes, trimmed_to: StreamID) -> None:
    """Logs a trim with ACKED by the last ID that it reached.

    ACKED skips entries, so a length or a node boundary does not repeat the trim.
    """
    context.log_record(pack_acked_trim(key, format_id(min(id_after(trimmed_to), ID_MAX))))


@command(
    "XTRIM",
    arity=-4,
    flags=Flag.WRITE,
    keys=(KeySpec(1, 1, 1, ("RW", "delete")),),
    categories=("stream",),
    group="stream",
    since="5.0.0",
    summary="Removes entries from the beginning of a stream.",
    complexity="O(N) in the number of removed entries; whole nodes are removed at once.",
    arguments=(
        Argument("key", "key", key_spec_index=0),
        Argument("trim", "block", arguments=(*TRIM_STRATEGY_ARGUMENTS, REFERENCE_ARGUMENT)),
    ),
    history=(
        ("6.2.0", "Added the `MINID` strategy and the `LIMIT` option."),
        ("8.2.0", "Added the `KEEPREF`, `DELREF` and `ACKED` options."),
    ),
    tips=("nondeterministic_output",),
)
def xtrim(context: Context, argv: list[bytes]) -> Reply:
    """XTRIM key <MAXLEN | MINID> [= | ~] threshold [LIMIT count] [KEEPREF | DELREF | ACKED]

    Removes the oldest entries beyond a length, or below an ID. `~` removes whole nodes only, at most LIMIT entries.

    Returns the number of entries removed. Raises WrongType, GenericError.
    Source: redis.io/commands/xtrim, Redis 8.2.
    """
    options = scan_options(argv, is_add=False, context=context)
    key = argv[1]
    stream = context.db.get_stream(key, context.now_ms)
    if stream is None or options.trim is None:
        return 0
    removed, trimmed_to = trim(stream, options.trim)
    if removed:
        context.db.touch(key, events.XTRIM)
        context.counted_apart += removed - 1
        if options.trim.references is References.ACKED:
            log_acked_trim(context, key, trimmed_to)
        else:
            context.log_record(pack_command(exact_record(argv, options, stream, trimmed_to)))
        if stream.heeds_deletions:
            note_deleted(context, key, stream)
    return removed


def require_pairs(argv: list[bytes], first: int) -> None:
    """Checks that `argv` has at least one pair of field and value, and only whole pairs. Raises GenericError."""
    count = len(argv) - first
    if count < 2 or count & 1:
        raise wrong_number_of_arguments(b"xadd")
