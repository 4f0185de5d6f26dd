"""COMMAND: describes the command table to clients."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, Final, TypeVar

from ...protocol.encoder import ENCODERS
from ...protocol.replies import Reply, SetReply, SimpleString, status_lines
from ...store.errors import GenericError, syntax_error
from ...store.glob import matches
from ..core.categories import acl_categories, names_in
from ..core.keys import access_names, access_of, find_keys, key_range
from ..core.lookup import named_row
from ..core.table import NOT_KEY, TABLE, Argument, Flag, KeySpec, Row, Trait, all_rows, command, container
from ..execution.context import Context

Element = TypeVar("Element")

# Protocol: its encoded null.
NULLS: Final = {2: b"$-1\r\n", 3: b"_\r\n"}
# A reply about more commands is encoded while it is sent: a short name can expand to ten kilobytes.
ROWS_AT_ONCE_MAX: Final = 1_000
ROWS_PER_PIECE: Final = 16

COMMAND_ARGUMENT: Final = Argument("command-name", "string", optional=True, multiple=True)


def flag_names(row: Row) -> list[str]:
    """Returns the names of a command's flags in the order of COMMAND."""
    return [flag.name.lower() for flag in Flag if flag in row.flags and flag.name]


def _simple_set(names: list[str]) -> SetReply:
    return SetReply([SimpleString(name.encode()) for name in names])


def _describe_key_spec(spec: KeySpec) -> dict[bytes, Any]:
    names = access_names(spec)
    search: dict[bytes, Any]
    kind = b"range"
    if spec.is_unknown:
        kind, search, found = b"unknown", {b"type": b"unknown", b"spec": {}}, {}
    elif spec.count_at is not None:
        search, kind = {b"type": b"index", b"spec": {b"index": spec.count_at}}, b"keynum"
        found = {b"keynumidx": 0, b"firstkey": spec.first - spec.count_at, b"keystep": spec.step}
    elif spec.keyword is None:
        search = {b"type": b"index", b"spec": {b"index": spec.first}}
        last = spec.last if spec.last < 0 else spec.last - spec.first
        found = {b"lastkey": last, b"keystep": spec.step, b"limit": 0}
    else:
        search = {b"type": b"keyword", b"spec": {b"keyword": spec.keyword, b"startfrom": spec.start}}
        is_one = spec.is_option or spec.is_last_store
        limit = 0 if is_one or spec.takes_rest else 2
        found = {b"lastkey": 0 if is_one else -1, b"keystep": 1, b"limit": limit}
    fields: dict[bytes, Any] = {}
    if spec.note is not None:
        fields[b"notes"] = spec.note.encode()
    fields[b"flags"] = _simple_set(names)
    fields[b"begin_search"] = search
    fields[b"find_keys"] = {b"type": kind, b"spec": found}
    return fields


def describe(row: Row) -> list[Any]:
    """Returns the ten elements of a command in COMMAND INFO."""
    return [
        row.name_lower,
        row.arity,
        _simple_set(flag_names(row)),
        *key_range(row.keys),
        _simple_set(["@" + category for category in acl_categories(row)]),
        SetReply([tip.encode() for tip in row.tips]),
        SetReply([_describe_key_spec(each) for each in row.keys]),
        # As in Redis: an array if there are subcommands, else an empty set.
        [describe(each) for each in row.subcommands.values()] if row.subcommands else SetReply(),
    ]


def _document_argument(argument: Argument) -> dict[bytes, Any]:
    fields: dict[bytes, Any] = {b"name": argument.name.encode(), b"type": argument.type.encode()}
    if not argument.arguments:
        fields[b"display_text"] = (argument.display or argument.name).encode()
    if argument.key_spec_index is not None:
        fields[b"key_spec_index"] = argument.key_spec_index
    if argument.token is not None:
        fields[b"token"] = argument.token.encode()
    if argument.since is not None:
        fields[b"since"] = argument.since.encode()
    if argument.deprecated_since is not None:
        fields[b"deprecated_since"] = argument.deprecated_since.encode()
    marks = {
        "optional": argument.optional,
        "multiple": argument.multiple,
        "multiple_token": argument.multiple_token,
    }
    if any(marks.values()):
        fields[b"flags"] = _simple_set([name for name, is_set in marks.items() if is_set])
    if argument.arguments:
        fields[b"arguments"] = [_document_argument(each) for each in argument.arguments]
    return fields


def document(row: Row) -> dict[bytes, Any]:
    """Returns the map of a command in COMMAND DOCS."""
    fields: dict[bytes, Any] = {
        b"summary": row.summary.encode(),
        b"since": row.since.encode(),
        b"group": row.group.encode(),
    }
    if row.complexity:
        fields[b"complexity"] = row.complexity.encode()
    if row.history:
        fields[b"history"] = SetReply([[version.encode(), text.encode()] for version, text in row.history])
    if row.deprecated is not None:
        since, replaced_by = row.deprecated
        fields[b"doc_flags"] = _simple_set(["deprecated"])
        fields[b"deprecated_since"] = since.encode()
        fields[b"replaced_by"] = replaced_by.encode()
    if row.arguments:
        fields[b"arguments"] = [_document_argument(each) for each in row.arguments]
    if row.subcommands:
        fields[b"subcommands"] = {each.name_lower: document(each) for each in row.subcommands.values()}
    return fields


def find_named(name: bytes) -> Row | None:
    """Returns the row of a name such as `xinfo` or `xinfo|stream` in any case; None if it is unknown."""
    parent, bar, sub = name.upper().partition(b"|")
    row = TABLE.get(parent)
    return row.subcommands.get(sub) if row is not None and bar else row


@cache
def _described(row: Row, protocol: int) -> bytes:
    """Returns a command's element of COMMAND INFO, encoded."""
    out: list[bytes] = []
    ENCODERS[protocol](describe(row), out)
    return b"".join(out)


@cache
def _documented(row: Row, protocol: int) -> bytes:
    """Returns a command's name and map in COMMAND DOCS, encoded."""
    out: list[bytes] = []
    for part in (row.name_lower, document(row)):
        ENCODERS[protocol](part, out)
    return b"".join(out)


def _describe_all(rows: Iterable[Row | None], protocol: int) -> Reply:
    """Returns the reply of COMMAND INFO about some rows; None means an unknown command."""
    elements = list(rows)

    def described(row: Row | None) -> bytes:
        return NULLS[protocol] if row is None else _described(row, protocol)

    return _pieces(b"*%d\r\n" % len(elements), elements, described)


def _document_all(rows: Iterable[Row | None], protocol: int) -> Reply:
    """Returns the reply of COMMAND DOCS about some rows. A repeated name is documented again, as in Redis."""
    elements = [row for row in rows if row is not None]
    head = b"%%%d\r\n" % len(elements) if protocol == 3 else b"*%d\r\n" % (2 * len(elements))
    return _pieces(head, elements, lambda row: _documented(row, protocol))


def _pieces(head: bytes, elements: list[Element], encoded: Callable[[Element], bytes]) -> Reply:
    if len(elements) <= ROWS_AT_ONCE_MAX:
        return (head, *map(encoded, elements))

    def pieces() -> Iterator[bytes]:
        yield head
        for start in range(0, len(elements), ROWS_PER_PIECE):
            yield b"".join(map(encoded, elements[start : start + ROWS_PER_PIECE]))

    return (pieces(),)


_FLAGS: Final = Flag.LOADING | Flag.STALE
container(
    "COMMAND",
    arity=-1,
    flags=_FLAGS,
    handler=lambda context, argv: _describe_all(TABLE.values(), context.client.protocol),
    group="server",
    since="2.8.13",
    summary="Describes all commands.",
    complexity="O(N) in the number of commands.",
    categories=("connection",),
    tips=("nondeterministic_output_order",),
    traits=Trait.ORDINARY,
)


@command(
    "COMMAND|COUNT",
    arity=2,
    flags=_FLAGS,
    categories=("connection",),
    group="server",
    since="2.8.13",
    summary="Counts the commands.",
    complexity="O(1)",
)
def command_count(context: Context, argv: list[bytes]) -> Reply:
    """COMMAND COUNT. Returns the number of top-level commands. Source: Redis 2.8.13."""
    return len(TABLE)


@command(
    "COMMAND|INFO",
    arity=-2,
    flags=_FLAGS,
    categories=("connection",),
    group="server",
    since="2.8.13",
    summary="Describes some commands, or all.",
    complexity="O(N) in the number of commands described.",
    arguments=(COMMAND_ARGUMENT,),
    history=(("7.0.0", "Without a name it describes all commands."),),
    tips=("nondeterministic_output_order",),
)
def command_info(context: Context, argv: list[bytes]) -> Reply:
    """COMMAND INFO [name ...]. Returns ten elements for each command; null for an unknown one. Source: Redis 7.0."""
    rows = TABLE.values() if len(argv) == 2 else map(find_named, argv[2:])
    return _describe_all(rows, context.client.protocol)


@command(
    "COMMAND|DOCS",
    arity=-2,
    flags=_FLAGS,
    categories=("connection",),
    group="server",
    since="7.0.0",
    summary="Documents some commands, or all.",
    complexity="O(N) in the number of commands documented.",
    arguments=(COMMAND_ARGUMENT,),
    tips=("nondeterministic_output_order",),
)
def command_docs(context: Context, argv: list[bytes]) -> Reply:
    """COMMAND DOCS [name ...]. Returns a map by name; unknown names are left out. Source: Redis 7.0."""
    rows = TABLE.values() if len(argv) == 2 else map(find_named, argv[2:])
    return _document_all(rows, context.client.protocol)


@command(
    "COMMAND|LIST",
    arity=-2,
    flags=_FLAGS,
    categories=("connection",),
    group="server",
    since="7.0.0",
    summary="Lists command names.",
    complexity="O(N) in the number of commands.",
    arguments=(
        Argument(
            "filterby",
            "oneof",
            token="FILTERBY",
            optional=True,
            arguments=(
                Argument("module-name", "string", token="MODULE"),
                Argument("category", "string", token="ACLCAT"),
                Argument("pattern", "pattern", token="PATTERN"),
            ),
        ),
    ),
    tips=("nondeterministic_output_order",),
)
def command_list(context: Context, argv: list[bytes]) -> Reply:
    """COMMAND LIST [FILTERBY <MODULE name | ACLCAT category | PATTERN pattern>]

    Returns command names, subcommands as `client|id`. Raises GenericError.
    Source: redis.io/commands/command-list, Redis 7.0.
    """
    if len(argv) == 2:
        return [row.name_lower for row in all_rows()]
    if len(argv) != 5 or argv[2].upper() != b"FILTERBY":
        raise syntax_error()
    kind, value = argv[3].upper(), argv[4]
    if kind == b"MODULE":
        return []
    if kind == b"ACLCAT":
        return names_in(value.decode("latin-1").lower())
    if kind == b"PATTERN":
        return [row.name_lower for row in all_rows() if matches(value, row.name_lower, ignore_case=True)]
    raise syntax_error()


def _keys_of(argv: list[bytes]) -> list[tuple[bytes, KeySpec]]:
    """Returns the keys, with their specs, of the request after COMMAND GETKEYS. Raises GenericError."""
    request = argv[2:]
    row = named_row(request)
    if row is None:
        raise GenericError(b"Invalid command specified")
    if all(NOT_KEY in spec.access for spec in row.keys):
        raise GenericError(b"The command has no key arguments")
    if len(request) != row.arity if row.arity > 0 else len(request) < -row.arity:
        raise GenericError(b"Invalid number of arguments specified for command")
    keys = find_keys(row, request)
    if not keys and not row.flags & Flag.NO_MANDATORY_KEYS:
        raise GenericError(b"Invalid arguments specified for command")
    return keys


REQUEST_ARGUMENTS: Final = (
    Argument("command", "string"),
    Argument("arg", "string", optional=True, multiple=True),
)


@command(
    "COMMAND|GETKEYS",
    arity=-3,
    flags=_FLAGS,
    categories=("connection",),
    group="server",
    since="2.8.13",
    summary="Lists the keys of a request.",
    complexity="O(N) in the number of arguments.",
    arguments=REQUEST_ARGUMENTS,
    enclosed_at=2,
)
def command_getkeys(context: Context, argv: list[bytes]) -> Reply:
    """COMMAND GETKEYS command [arg ...]. Returns the keys. Raises GenericError. Source: Redis 2.8.13."""
    return [key for key, _ in _keys_of(argv)]


@command(
    "COMMAND|GETKEYSANDFLAGS",
    arity=-3,
    flags=_FLAGS,
    categories=("connection",),
    group="server",
    since="7.0.0",
    summary="Lists the keys of a request and how it uses them.",
    complexity="O(N) in the number of arguments.",
    arguments=REQUEST_ARGUMENTS,
    enclosed_at=2,
)
def command_getkeysandflags(context: Context, argv: list[bytes]) -> Reply:
    """COMMAND GETKEYSANDFLAGS command [arg ...]. Returns pairs of key and flags. Raises GenericError.

    Source: Redis 7.0.
    """
    keys = _keys_of(argv)
    request = argv[2:]
    found: list[list[Any]] = []
    last: KeySpec | None = None
    flags = SetReply()
    for key, spec in keys:
        if spec is not last:
            last, flags = spec, _simple_set(access_of(spec, request))
        found.append([key, flags])
    return found


HELP: Final = status_lines(
    (
        b"COMMAND <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        b"(no subcommand)",
        b"    Return details about all Redis commands.",
        b"COUNT",
        b"    Return the total number of commands in this Redis server.",
        b"LIST",
        b"    Return a list of all commands in this Redis server.",
        b"INFO [<command-name> ...]",
        b"    Return details about multiple Redis commands.",
        b"    If no command names are given, documentation details for all",
        b"    commands are returned.",
        b"DOCS [<command-name> ...]",
        b"    Return documentation details about multiple Redis commands.",
        b"    If no command names are given, documentation details for all",
        b"    commands are returned.",
        b"GETKEYS <full-command>",
        b"    Return the keys from a full Redis command.",
        b"GETKEYSANDFLAGS <full-command>",
        b"    Return the keys and the access flags from a full Redis command.",
        b"HELP",
        b"    Print this help.",
    )
)


@command(
    "COMMAND|HELP",
    arity=2,
    flags=_FLAGS,
    categories=("connection",),
    group="server",
    since="5.0.0",
    summary="Lists the subcommands of COMMAND.",
    complexity="O(1)",
)
def command_help(context: Context, argv: list[bytes]) -> Reply:
    """COMMAND HELP. Returns lines of text. Source: Redis 5.0."""
    return HELP
