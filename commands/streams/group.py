"""XGROUP: consumer groups and their consumers."""

from __future__ import annotations

from ...protocol.replies import OK, Reply, status_lines
from ...store import events
from ...store.errors import BusyGroup, GenericError, NoGroup, shown
from ...store.group import ENTRIES_READ_UNKNOWN, Group
from ...store.ids import StreamID, parse_edge, parse_id
from ...store.stream import Stream
from ..core.numbers import integer
from ..core.table import Argument, Flag, KeySpec, Trait, command, container
from ..execution.context import Context
from ..policies.absences import note_use
from ..policies.defaults import give_defaults
from ..policies.handing import end_handing, note_dropped
from ..policies.release import release_owned
from .entries import KEY_ARGUMENT

KEY_REQUIRED = (
    b"The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option to "
    b"create an empty stream automatically."
)
GROUP_ARGUMENT = Argument("group")
ID_ARGUMENT = Argument(
    "id-selector",
    "oneof",
    arguments=(Argument("id", "string"), Argument("new-id", "pure-token", token="$")),
)
ENTRIES_READ_ARGUMENT = Argument("entriesread", "integer", token="ENTRIESREAD", optional=True, display="entries-read")

CREATE_WORDS_MAX = 8
# Numbers of arguments that Redis accepts. It counts words, so one option may be repeated in place of another.
SETID_WORDS = (5, 7)
# XGROUP DELCONSUMER without RELEASE.
DELCONSUMER_WORDS = 5

container("XGROUP", group="stream", since="5.0.0", summary="Commands on consumer groups.", traits=Trait.ORDINARY)


def _keys(*access: str) -> tuple[KeySpec, ...]:
    return (KeySpec(2, 2, 1, access),)


def _parse_options(argv: list[bytes], *, is_create: bool) -> tuple[bool, int]:
    """Parses [MKSTREAM] [ENTRIESREAD n] from the sixth argument on. Raises GenericError."""
    make_stream, entries_read = False, ENTRIES_READ_UNKNOWN
    index = 5
    while index < len(argv):
        word = argv[index].upper()
        if word == b"MKSTREAM" and is_create:
            make_stream = True
            index += 1
        elif word == b"ENTRIESREAD" and index + 1 < len(argv):
            entries_read = integer(argv[index + 1])
            if entries_read < ENTRIES_READ_UNKNOWN:
                raise GenericError(b"value for ENTRIESREAD must be positive or -1")
            index += 2
        else:
            raise bad_shape(argv)
    return make_stream, entries_read


def bad_shape(argv: list[bytes]) -> GenericError:
    """Returns the error for a known subcommand with unsuitable arguments."""
    return GenericError(
        b"unknown subcommand or wrong number of arguments for '%b'. Try %b HELP." % (shown(argv[1]), argv[0].upper())
    )


def require_stream(context: Context, key: bytes) -> Stream:
    stream = context.db.get_stream(key, context.now_ms)
    if stream is None:
        raise GenericError(KEY_REQUIRED)
    return stream


def require_group(stream: Stream, key: bytes, name: bytes) -> Group:
    group = stream.find_group(name)
    if group is None:
        raise NoGroup.for_group(key, name)
    return group


@command(
    "XGROUP|CREATE",
    arity=-5,
    flags=Flag.WRITE | Flag.DENYOOM,
    keys=_keys("RW", "insert"),
    categories=("stream",),
    group="stream",
    since="5.0.0",
    summary="Creates a consumer group.",
    complexity="O(1)",
    arguments=(
        KEY_ARGUMENT,
        GROUP_ARGUMENT,
        ID_ARGUMENT,
        Argument("mkstream", "pure-token", token="MKSTREAM", optional=True),
        ENTRIES_READ_ARGUMENT,
    ),
    history=(("7.0.0", "Added the `ENTRIESREAD` argument."),),
)
def xgroup_create(context: Context, argv: list[bytes]) -> Reply:
    """XGROUP CREATE key group <id | $> [MKSTREAM] [ENTRIESREAD n]

    The group reads entries after the ID; `$` is the last ID of the stream. Returns OK.
    Raises WrongType, BusyGroup, GenericError. Source: redis.io/commands/xgroup-create, Redis 7.0.
    """
    make_stream, entries_read = _parse_options(argv, is_create=True)
    key, name, token = argv[2], argv[3], argv[4]
    stream = context.db.get_stream(key, context.now_ms)
    if stream is None and not make_stream:
        raise GenericError(KEY_REQUIRED)
    if len(argv) > CREATE_WORDS_MAX:
        raise bad_shape(argv)
    is_new = stream is None
    if stream is None:
        stream = Stream(context.limits)
        stream.used_ms = context.now_ms
    last_id = stream.last_id if token == b"$" else parse_id(token)
    if name in stream.groups:
        raise BusyGroup
    group = Group(name, last_id, _capped(entries_read, stream))
    stream.add_group(group)
    if is_new:
        context.db.put(key, stream)
    context.db.announce(events.XGROUP_CREATE, key)
    context.log_words(argv)
    give_defaults(context, key, group)
    return OK


def _capped(entries_read: int, stream: Stream) -> int:
    """Limits `entries_read` to the number of entries ever added to the stream."""
    return min(entries_read, stream.entries_added)


@command(
    "XGROUP|SETID",
    arity=-5,
    flags=Flag.WRITE,
    keys=_keys("RW", "update"),
    categories=("stream",),
    group="stream",
    since="5.0.0",
    summary="Sets a group's last-delivered ID.",
    complexity="O(1)",
    arguments=(KEY_ARGUMENT, GROUP_ARGUMENT, ID_ARGUMENT, ENTRIES_READ_ARGUMENT),
    history=(("7.0.0", "Added the `ENTRIESREAD` argument."),),
)
def xgroup_setid(context: Context, argv: list[bytes]) -> Reply:
    """XGROUP SETID key group <id | $> [ENTRIESREAD n]

    Sets the last-delivered ID, forwards or backwards; pending entries stay pending. An ID may be `-` or `+`. Without
    ENTRIESREAD the number of entries read becomes unknown. Returns OK.
    Raises WrongType, NoGroup, GenericError. Source: redis.io/commands/xgroup-setid, Redis 7.0.
    """
    _, entries_read = _parse_options(argv, is_create=False)
    key, token = argv[2], argv[4]
    stream = require_stream(context, key)
    group = require_group(stream, key, argv[3])
    if len(argv) not in SETID_WORDS:
        raise bad_shape(argv)
    last_id: StreamID = stream.last_id if token == b"$" else parse_edge(token)
    group.last_id = last_id
    group.entries_read = _capped(entries_read, stream)
    context.db.announce(events.XGROUP_SETID, key)
    context.log_words(argv)
    return OK


@command(
    "XGROUP|DESTROY",
    arity=4,
    flags=Flag.WRITE,
    keys=_keys("RW", "delete"),
    categories=("stream",),
    group="stream",
    since="5.0.0",
    summary="Deletes a consumer group with its pending entries.",
    complexity="O(N) in the number of pending entries.",
    arguments=(KEY_ARGUMENT, GROUP_ARGUMENT),
)
def xgroup_destroy(context: Context, argv: list[bytes]) -> Reply:
    """XGROUP DESTROY key group. Returns 1, or 0 if there is no such group.

    Clients blocked in a read of the group receive NOGROUP. Raises WrongType, GenericError. Source: Redis 5.0.
    """
    stream = require_stream(context, argv[2])
    if not stream.drop_group(argv[3]):
        return 0
    context.db.signal_ready(argv[2])
    context.db.announce(events.XGROUP_DESTROY, argv[2])
    context.log_words(argv)
    return 1


@command(
    "XGROUP|CREATECONSUMER",
    arity=5,
    flags=Flag.WRITE | Flag.DENYOOM,
    keys=_keys("RW", "insert"),
    categories=("stream",),
    group="stream",
    since="6.2.0",
    summary="Creates a consumer in a group.",
    complexity="O(1)",
    arguments=(KEY_ARGUMENT, GROUP_ARGUMENT, Argument("consumer")),
)
def xgroup_createconsumer(context: Context, argv: list[bytes]) -> Reply:
    """XGROUP CREATECONSUMER key group consumer. Returns 1, or 0 if it exists. Raises WrongType, NoGroup, GenericError.

    Source: Redis 6.2.
    """
    group = require_group(require_stream(context, argv[2]), argv[2], argv[3])
    if argv[4] in group.consumers:
        return 0
    note_use(context, argv[2], group, group.add_consumer(argv[4], context.now_ms))
    end_handing(context, argv[2], group)
    context.db.announce(events.XGROUP_CREATECONSUMER, argv[2])
    context.log_words(argv)
    return 1


@command(
    "XGROUP|DELCONSUMER",
    arity=5,
    flags=Flag.WRITE,
    keys=_keys("RW", "delete"),
    categories=("stream",),
    group="stream",
    since="5.0.0",
    summary="Deletes a consumer and its pending entries.",
    complexity="O(N) in the number of its pending entries.",
    arguments=(
        KEY_ARGUMENT,
        GROUP_ARGUMENT,
        Argument("consumer"),
        Argument("release", "pure-token", token="RELEASE", optional=True, since="headrace 0.1"),
    ),
    own_word=b"RELEASE",
    differs="`RELEASE` is not in Redis. The log gets XNACK and XGROUP DELCONSUMER.",
)
def xgroup_delconsumer(context: Context, argv: list[bytes]) -> Reply:
    """XGROUP DELCONSUMER key group consumer [RELEASE]. Returns the number of pending entries it owned.

    RELEASE gives them to the group before, as XNACK would, with their delivery counts. It is not in Redis, and is
    logged as XNACK and XGROUP DELCONSUMER. Raises WrongType, NoGroup, GenericError. Source: Redis 5.0.
    """
    key = argv[2]
    group = require_group(require_stream(context, key), key, argv[3])
    policy = None if context.replaying else group.policy
    releases = len(argv) > DELCONSUMER_WORDS or (policy is not None and policy.releases_on_deletion)
    released = release_owned(context, key, group, argv[4]) if releases else 0
    dropped = group.remove_consumer(argv[4])
    if dropped is None:
        return 0
    if group.pending.rules is not None:
        note_dropped(context, key, group)
    context.db.announce(events.XGROUP_DELCONSUMER, key)
    context.log_words(argv[:DELCONSUMER_WORDS])
    return released or dropped


HELP = status_lines(
    (
        b"XGROUP <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        b"CREATE <key> <groupname> <id|$> [option]",
        b"    Create a new consumer group. Options are:",
        b"    * MKSTREAM",
        b"      Create the empty stream if it does not exist.",
        b"    * ENTRIESREAD entries_read",
        b"      Set the group's entries_read counter (internal use).",
        b"CREATECONSUMER <key> <groupname> <consumer>",
        b"    Create a new consumer in the specified group.",
        b"DELCONSUMER <key> <groupname> <consumer>",
        b"    Remove the specified consumer.",
        b"DESTROY <key> <groupname>",
        b"    Remove the specified group.",
        b"SETID <key> <groupname> <id|$> [ENTRIESREAD entries_read]",
        b"    Set the current group ID and entries_read counter.",
        b"HELP",
        b"    Print this help.",
    )
)


@command(
    "XGROUP|HELP",
    arity=2,
    flags=Flag.LOADING | Flag.STALE,
    categories=("stream",),
    group="stream",
    since="5.0.0",
    summary="Lists the subcommands of XGROUP.",
    complexity="O(1)",
)
def xgroup_help(context: Context, argv: list[bytes]) -> Reply:
    """XGROUP HELP. Source: Redis 5.0."""
    return HELP
