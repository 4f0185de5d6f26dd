"""XREDRIVE: gives dead letters back to the groups that they come from. It is not in Redis."""

from __future__ import annotations

from itertools import islice
from typing import Final

from ...protocol.replies import Reply
from ...store import events
from ...store.entry_form import fields_of
from ...store.errors import GenericError, ReplyError, WrongType, not_an_integer, syntax_error
from ...store.ids import ID_MAX, StreamID, format_id, id_after, parse_id
from ...store.stream import Stream
from ..core.numbers import parse_integer
from ..core.table import Argument, Flag, KeySpec, command
from ..execution.context import Context
from ..policies.dead_letters import append_entry
from ..policies.handing import begin_handing, end_handing
from ..policies.release import delay_released, log_released
from ..policies.turns import note_deleted
from .entries import COUNT_ARGUMENT, KEY_ARGUMENT

# Entries that one call moves without COUNT, and at most.
COUNT_DEFAULT: Final = 100
COUNT_MAX: Final = 10_000
# Entries that one call looks at, some ten milliseconds of work.
SEEN_MAX: Final = 16_384
# Entries that are looked at together.
PART_COUNT: Final = 128

# The fields that a dead letter has after those of its entry.
ORIGIN_NAMES: Final = frozenset((b"_stream", b"_id", b"_group", b"_consumer", b"_deliveries", b"_reason", b"_time_ms"))


class RedriveRequest:
    """XREDRIVE's options."""

    __slots__ = ("count", "group_name", "target_key")

    def __init__(self, count: int, group_name: bytes | None, target_key: bytes | None) -> None:
        self.count: Final = count
        # Only dead letters of groups of this name; None for all.
        self.group_name: Final = group_name
        # The stream that takes all of them; None for the one that each comes from.
        self.target_key: Final = target_key


class CannotMove(Exception):
    """Why a dead letter stays where it is."""

    def __init__(self, reason: bytes) -> None:
        super().__init__(reason)
        self.reason: Final = reason


def _parse(argv: list[bytes]) -> RedriveRequest:
    words: dict[bytes, bytes] = {}
    for index in range(2, len(argv), 2):
        name = argv[index].upper()
        if name not in (b"COUNT", b"GROUP", b"TO") or name in words or index + 1 == len(argv):
            raise syntax_error()
        words[name] = argv[index + 1]
    count = parse_integer(words.get(b"COUNT", b"%d" % COUNT_DEFAULT))
    if count is None or not 1 <= count <= COUNT_MAX:
        raise not_an_integer()
    target_key = words.get(b"TO")
    if target_key == argv[1]:
        raise GenericError(b"TO must name another stream")
    return RedriveRequest(count, words.get(b"GROUP"), target_key)


@command(
    "XREDRIVE",
    arity=-2,
    flags=Flag.WRITE | Flag.DENYOOM | Flag.MOVABLEKEYS,
    keys=(
        KeySpec(1, 1, 1, ("RW", "access", "delete")),
        KeySpec(0, 0, 0, ("RW", "insert"), keyword=b"TO", start=2, is_option=True),
    ),
    categories=("stream",),
    group="stream",
    since="headrace 0.1",
    summary="Gives dead letters back to the groups that they come from, or to another stream.",
    complexity="O(N) in the number of dead letters that are looked at, at most 16,384.",
    arguments=(
        KEY_ARGUMENT,
        COUNT_ARGUMENT,
        Argument("group", "string", token="GROUP", optional=True),
        Argument("target", "key", key_spec_index=1, token="TO", optional=True),
    ),
    differs="Not in Redis. The log gets XNACK or XADD, and XDEL.",
)
def xredrive(context: Context, argv: list[bytes]) -> Reply:
    """XREDRIVE dlq [COUNT n] [GROUP group] [TO key]

    Moves up to `n` dead letters, 100 without COUNT, oldest first. If the entry is still in its stream, its group gets
    it again, under the same ID and with delivery count 0. If it was deleted, or with TO, its fields become a new entry.
    The user must be allowed to write the stream that gets it.

    Returns the number of dead letters moved, and an array of ID and reason for each that was met and stays. Raises
    WrongType, GenericError.
    """
    request = _parse(argv)
    key = argv[1]
    stream = context.db.get_stream(key, context.now_ms)
    if stream is None:
        return [0, []]
    moved: list[StreamID] = []
    kept: list[Reply] = []
    start, seen = 0, 0
    while seen < SEEN_MAX and len(moved) < request.count:
        part = list(islice(stream.log.entries(start, ID_MAX), PART_COUNT))
        for entry_id, entry in part:
            if len(moved) == request.count:
                break
            try:
                if _move(context, key, fields_of(entry), request):
                    moved.append(entry_id)
            except CannotMove as error:
                kept.append([format_id(entry_id), error.reason])
        seen += len(part)
        if len(part) < PART_COUNT or part[-1][0] == ID_MAX:
            break
        start = id_after(part[-1][0])
    for entry_id in moved:
        stream.delete(entry_id)
    if moved:
        context.db.touch(key, events.XDEL)
        context.log_words([b"XDEL", key, *map(format_id, moved)], len(moved))
        if stream.heeds_deletions:
            note_deleted(context, key, stream, moved)
    return [len(moved), kept]


def _move(context: Context, key: bytes, words: list[bytes], request: RedriveRequest) -> bool:
    """Moves a dead letter of the stream at `key`. Returns False if it is of a group that was not asked for. Raises
    CannotMove.
    """
    fields, origin = _parted(words)
    stream_key, group_name, id_text = origin.get(b"_stream"), origin.get(b"_group"), origin.get(b"_id")
    if stream_key is None or group_name is None or id_text is None:
        raise CannotMove(b"it has no fields _stream, _id and _group")
    if request.group_name is not None and group_name != request.group_name:
        return False
    if request.target_key is not None:
        _add(context, request.target_key, fields)
    elif stream_key == key:
        raise CannotMove(b"it comes from this stream")
    elif not _give_back(context, stream_key, group_name, id_text):
        _add(context, stream_key, fields)
    return True


def _parted(words: list[bytes]) -> tuple[list[bytes], dict[bytes, bytes]]:
    """Fields and values of the entry, and those that tell where a dead letter comes from, by name."""
    origin: dict[bytes, bytes] = {}
    end = len(words)
    while end and words[end - 2] in ORIGIN_NAMES and words[end - 2] not in origin:
        origin[words[end - 2]] = words[end - 1]
        end -= 2
    return words[:end], origin


def _require_right(context: Context, key: bytes) -> None:
    if not context.client.user.may_write(key):
        raise CannotMove(b"no permission to write its stream")


def _give_back(context: Context, key: bytes, group_name: bytes, id_text: bytes) -> bool:
    """Releases an entry to its group. Returns False if the entry was deleted. Raises CannotMove."""
    _require_right(context, key)
    stream = context.db.get(key, context.now_ms)
    if stream is not None and not isinstance(stream, Stream):
        raise CannotMove(WrongType().wire_text)
    group = None if stream is None else stream.groups.get(group_name)
    if stream is None or group is None:
        raise CannotMove(b"its group does not exist")
    try:
        entry_id = parse_id(id_text)
    except ReplyError:
        raise CannotMove(b"its field _id is no entry ID") from None
    if entry_id not in stream.log:
        return False
    if entry_id in group.pending:
        raise CannotMove(b"its group has it pending already")
    context.preserve_keys([key])
    group.release(entry_id, count=0)
    group.pending.released_total += 1
    begin_handing(context, key, group)
    log_released(context, key, group, [entry_id], 0)
    delay_released(context, key, group, {entry_id: context.now_ms})
    end_handing(context, key, group)
    context.db.signal_ready(key)
    if context.is_counting:
        context.db.recount(stream)
    return True


def _add(context: Context, key: bytes, fields: list[bytes]) -> None:
    """Adds an entry with these fields and values. Raises CannotMove."""
    _require_right(context, key)
    if not fields:
        raise CannotMove(b"it has no fields of its own")
    try:
        append_entry(context, key, [b"XADD", key, b"*", *fields])
    except ReplyError as error:
        raise CannotMove(error.wire_text) from None
