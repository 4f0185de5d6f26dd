"""The commands for libraries of functions: FCALL, FCALL_RO and FUNCTION.

The commands that a function calls are one unit, like those of a transaction. The log gets their effects, not the call.
Changes of libraries are logged as the commands that made them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ...persistence.errors import RdbError
from ...persistence.rdb import payload
from ...protocol.replies import OK, Pairs, Reply, SetReply, SimpleString, status_lines
from ...store.errors import GenericError, shown, shown_last
from ...store.glob import matches
from ..core.numbers import parse_integer
from ..core.table import DECLARED, Argument, Flag, Trait, command, container
from .commands import ALL_NODES, ALL_SHARDS, ANY_ACCESS, INPUT_ARGUMENTS, NOTE, READ_ACCESS, RUNS, SCRIPTING
from .errors import NotBusy

if TYPE_CHECKING:
    from ..execution.context import Context
    from ..execution.library_set import Library

ON_ALL_SHARDS: Final = (ALL_SHARDS, ALL_NODES[1])

DIFFERS: Final = (
    "Needs the package lupa (`pip install 'headrace[scripts]'`). While a function runs, no client is served. A "
    "function that runs longer than `busy-reply-threshold` is ended if it has written nothing, else it continues."
)

HELP: Final = status_lines(
    b"""\
FUNCTION <subcommand> [<arg> [value] [opt] ...]. Subcommands are:
LOAD [REPLACE] <FUNCTION CODE>
    Create a new library with the given library name and code.
DELETE <LIBRARY NAME>
    Delete the given library.
LIST [LIBRARYNAME PATTERN] [WITHCODE]
    Return general information on all the libraries:
    * Library name
    * The engine used to run the Library
    * Functions list
    * Library code (if WITHCODE is given)
    It also possible to get only function that matches a pattern using LIBRARYNAME argument.
STATS
    Return information about the current function running:
    * Function name
    * Command used to run the function
    * Duration in MS that the function is running
    If no function is running, return nil
    In addition, returns a list of available engines.
KILL
    Kill the current running function.
FLUSH [ASYNC|SYNC]
    Delete all the libraries.
    When called without the optional mode argument, the behavior is determined by the
    lazyfree-lazy-user-flush configuration directive. Valid modes are:
    * ASYNC: Asynchronously flush the libraries.
    * SYNC: Synchronously flush the libraries.
DUMP
    Return a serialized payload representing the current libraries, can be restored using FUNCTION RESTORE command
RESTORE <PAYLOAD> [FLUSH|APPEND|REPLACE]
    Restore the libraries represented by the given payload, it is possible to give a restore policy to
    control how to handle existing libraries (default APPEND):
    * FLUSH: delete all existing libraries.
    * APPEND: appends the restored libraries to the existing libraries. On collision, abort.
    * REPLACE: appends the restored libraries to the existing libraries, On collision, replace the old
      libraries with the new libraries (notice that even on this option there is a chance of failure
      in case of functions name collision with another library).
HELP
    Print this help.""".split(b"\n")
)


@command(
    "FCALL",
    arity=-3,
    flags=RUNS,
    keys=(replace(ANY_ACCESS, note=NOTE + "RW and UPDATE"),),
    categories=SCRIPTING,
    group="scripting",
    since="7.0.0",
    summary="Runs a function of a library.",
    complexity="Depends on the function.",
    arguments=(Argument("function"), *INPUT_ARGUMENTS),
    differs=DIFFERS,
    traits=Trait.MAY_REPLICATE,
)
def fcall(context: Context, argv: list[bytes]) -> Reply:
    """FCALL function numkeys [key ...] [arg ...]

    Runs a function with a table of keys and one of arguments, and returns its result, converted as that of a script.
    The name may be in any case. Raises GenericError if there is no such function or numkeys is wrong, LuaMissing.
    Source: redis.io/commands/fcall, Redis 7.0.0.
    """
    return _run(context, argv, b"FCALL", read_only=False)


@command(
    "FCALL_RO",
    arity=-3,
    flags=RUNS | Flag.READONLY,
    keys=(replace(READ_ACCESS, note=NOTE + "RO and ACCESS"),),
    categories=SCRIPTING,
    group="scripting",
    since="7.0.0",
    summary="Runs a function that does not write.",
    complexity="Depends on the function.",
    arguments=(Argument("function"), *INPUT_ARGUMENTS),
)
def fcall_read_only(context: Context, argv: list[bytes]) -> Reply:
    """FCALL_RO function numkeys [key ...] [arg ...]. Runs a function with the flag `no-writes`. Source: Redis 7.0.0."""
    return _run(context, argv, b"FCALL_RO", read_only=True)


def _run(context: Context, argv: list[bytes], name: bytes, *, read_only: bool) -> Reply:
    """Runs a function, and counts the errors in its reply that were not counted when they were raised."""
    row = DECLARED[name]
    if context.monitors.clients:
        context.monitors.show_now(context.client, row, argv)
    function = context.libraries.find(argv[1])
    if function is None:
        raise GenericError(b"Function not found")
    keys_end = _keys_end(argv)
    outcome = context.libraries.run(function, argv[3:keys_end], argv[keys_end:], read_only=read_only)
    if outcome.errors:
        for error, is_counted in outcome.errors:
            if not is_counted:
                context.server.stats.count_error(error.code)
        row.failed_calls += 1
    return outcome.reply


def _keys_end(argv: list[bytes]) -> int:
    """Parses numkeys and returns the index of the first argument after the keys. Raises GenericError."""
    count = parse_integer(argv[2])
    if count is None:
        raise GenericError(b"Bad number of keys provided")
    if count > len(argv) - 3:
        raise GenericError(b"Number of keys can't be greater than number of args")
    if count < 0:
        raise GenericError(b"Number of keys can't be negative")
    return 3 + count


container("FUNCTION", group="scripting", since="7.0.0", summary="Commands that manage libraries of functions.")


@command(
    "FUNCTION|LOAD",
    arity=-3,
    flags=Flag.WRITE | Flag.DENYOOM | Flag.NOSCRIPT,
    categories=SCRIPTING,
    group="scripting",
    since="7.0.0",
    summary="Adds a library.",
    complexity="O(N) in the length of the library.",
    arguments=(
        Argument("replace", "pure-token", token="REPLACE", optional=True),
        Argument("function-code"),
    ),
    tips=ON_ALL_SHARDS,
    differs="A library with two functions whose names differ only in case is refused; Redis stops when it is removed.",
)
def function_load(context: Context, argv: list[bytes]) -> Reply:
    """FUNCTION LOAD [REPLACE] function-code

    Runs the code, which registers functions, and returns the name of the library. Raises GenericError,
    LibraryCompileError, LuaMissing. Source: redis.io/commands/function-load, Redis 7.0.0.
    """
    for word in argv[2:-1]:
        if word.upper() != b"REPLACE":
            raise GenericError(b"Unknown option given: %b" % shown_last(word))
    name = context.libraries.load(argv[-1], replace=len(argv) > 3)
    context.log(*argv)
    return name


@command(
    "FUNCTION|DELETE",
    arity=3,
    flags=Flag.WRITE | Flag.NOSCRIPT,
    categories=SCRIPTING,
    group="scripting",
    since="7.0.0",
    summary="Removes a library.",
    complexity="O(N) in the number of its functions.",
    arguments=(Argument("library-name"),),
    tips=ON_ALL_SHARDS,
)
def function_delete(context: Context, argv: list[bytes]) -> Reply:
    """FUNCTION DELETE library-name. Returns OK. Raises GenericError if it is missing. Source: Redis 7.0.0."""
    if not context.libraries.present.remove(argv[2]):
        raise GenericError(b"Library not found")
    context.log(*argv)
    return OK


@command(
    "FUNCTION|FLUSH",
    arity=-2,
    flags=Flag.WRITE | Flag.NOSCRIPT,
    categories=SCRIPTING,
    group="scripting",
    since="7.0.0",
    summary="Removes all libraries.",
    complexity="O(N) in the number of functions.",
    arguments=(
        Argument(
            "flush-type",
            "oneof",
            optional=True,
            arguments=(Argument("async", "pure-token", token="ASYNC"), Argument("sync", "pure-token", token="SYNC")),
        ),
    ),
    tips=ON_ALL_SHARDS,
)
def function_flush(context: Context, argv: list[bytes]) -> Reply:
    """FUNCTION FLUSH [ASYNC | SYNC]. Returns OK. Raises GenericError for any other word. Source: Redis 7.0.0."""
    if len(argv) > 3:
        raise _wrong_count(argv[1])
    if len(argv) == 3 and argv[2].upper() not in (b"ASYNC", b"SYNC"):
        raise GenericError(b"FUNCTION FLUSH only supports SYNC|ASYNC option")
    context.libraries.flush()
    context.log(*argv)
    return OK


def _wrong_count(subcommand: bytes) -> GenericError:
    return GenericError(
        b"unknown subcommand or wrong number of arguments for '%b'. Try FUNCTION HELP." % subcommand[:128]
    )


@command(
    "FUNCTION|LIST",
    arity=-2,
    flags=Flag.NOSCRIPT,
    categories=SCRIPTING,
    group="scripting",
    since="7.0.0",
    summary="Lists libraries and their functions.",
    complexity="O(N) in the number of functions.",
    arguments=(
        Argument("library-name-pattern", token="LIBRARYNAME", optional=True),
        Argument("withcode", "pure-token", token="WITHCODE", optional=True),
    ),
    tips=("nondeterministic_output_order",),
    differs="Libraries and functions are in the order in which they were loaded; in Redis the order is random.",
    traits=Trait.ORDINARY,
)
def function_list(context: Context, argv: list[bytes]) -> Reply:
    """FUNCTION LIST [LIBRARYNAME library-name-pattern] [WITHCODE]

    Returns a map for each library. The case of names does not matter to the pattern. Raises GenericError.
    Source: redis.io/commands/function-list, Redis 7.0.0.
    """
    pattern: bytes | None = None
    with_code = False
    index = 2
    while index < len(argv):
        word = argv[index].upper()
        if word == b"WITHCODE" and not with_code:
            with_code = True
        elif word == b"LIBRARYNAME" and pattern is None:
            index += 1
            if index == len(argv):
                raise GenericError(b"library name argument was not given")
            pattern = argv[index]
        else:
            raise GenericError(b"Unknown argument %b" % shown(argv[index]))
        index += 1
    return [
        _described(library, with_code=with_code)
        for library in context.libraries.present.libraries.values()
        if pattern is None or matches(pattern, library.name, True)
    ]


def _described(library: Library, *, with_code: bool) -> Reply:
    functions = [
        Pairs(
            [
                (b"name", function.name),
                (b"description", function.description),
                (b"flags", SetReply(map(SimpleString, function.flags))),
            ]
        )
        for function in library.functions.values()
    ]
    fields: list[tuple[bytes, Reply]] = [
        (b"library_name", library.name),
        (b"engine", b"LUA"),
        (b"functions", functions),
    ]
    if with_code:
        fields.append((b"library_code", library.code))
    return Pairs(fields)


@command(
    "FUNCTION|DUMP",
    arity=2,
    flags=Flag.NOSCRIPT,
    categories=SCRIPTING,
    group="scripting",
    since="7.0.0",
    summary="Returns all libraries as bytes for FUNCTION RESTORE.",
    complexity="O(N) in the size of the libraries.",
    traits=Trait.ORDINARY,
)
def function_dump(context: Context, argv: list[bytes]) -> Reply:
    """FUNCTION DUMP. Returns the payload. Source: redis.io/commands/function-dump, Redis 7.0.0."""
    return payload.dump_libraries(context.libraries.codes, compress=context.server.config.rdbcompression)


@command(
    "FUNCTION|RESTORE",
    arity=-3,
    flags=Flag.WRITE | Flag.DENYOOM | Flag.NOSCRIPT,
    categories=SCRIPTING,
    group="scripting",
    since="7.0.0",
    summary="Adds the libraries of a payload of FUNCTION DUMP.",
    complexity="O(N) in the size of the libraries.",
    arguments=(
        Argument("serialized-value"),
        Argument(
            "policy",
            "oneof",
            optional=True,
            arguments=(
                Argument("flush", "pure-token", token="FLUSH"),
                Argument("append", "pure-token", token="APPEND"),
                Argument("replace", "pure-token", token="REPLACE"),
            ),
        ),
    ),
    tips=ON_ALL_SHARDS,
)
def function_restore(context: Context, argv: list[bytes]) -> Reply:
    """FUNCTION RESTORE serialized-value [FLUSH | APPEND | REPLACE]

    Adds libraries, to the present ones (APPEND), in their place (FLUSH) or in the place of those with equal names
    (REPLACE). Returns OK. Raises GenericError; then nothing has changed.
    Source: redis.io/commands/function-restore, Redis 7.0.0.
    """
    if len(argv) > 4:
        raise _wrong_count(argv[1])
    policy = argv[3].upper() if len(argv) == 4 else b"APPEND"
    if policy not in (b"FLUSH", b"APPEND", b"REPLACE"):
        raise GenericError(b"Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.")
    if not payload.is_intact(argv[2]):
        raise GenericError(b"DUMP payload version or checksum are wrong")
    codes = payload.libraries_of(argv[2])
    try:
        if policy == b"FLUSH":
            context.libraries.present = context.libraries.prepared(codes, is_from_file=context.replaying)
        else:
            context.libraries.restore(codes, replace=policy == b"REPLACE")
    except RdbError as error:
        raise GenericError(str(error).encode()) from None
    context.log(*argv)
    return OK


@command(
    "FUNCTION|STATS",
    arity=2,
    flags=Flag.NOSCRIPT | Flag.ALLOW_BUSY,
    categories=SCRIPTING,
    group="scripting",
    since="7.0.0",
    summary="Returns how many libraries and functions there are.",
    complexity="O(1)",
    tips=("nondeterministic_output", ALL_SHARDS, "response_policy:special"),
    differs="It never finds a running function, see FCALL.",
    traits=Trait.ORDINARY,
)
def function_stats(context: Context, argv: list[bytes]) -> Reply:
    """FUNCTION STATS. Returns a map. Source: redis.io/commands/function-stats, Redis 7.0.0."""
    counts = Pairs(
        [
            (b"libraries_count", len(context.libraries.present.libraries)),
            (b"functions_count", len(context.libraries.present.functions)),
        ]
    )
    return Pairs([(b"running_script", None), (b"engines", Pairs([(b"LUA", counts)]))])


@command(
    "FUNCTION|KILL",
    arity=2,
    flags=Flag.NOSCRIPT | Flag.ALLOW_BUSY,
    categories=SCRIPTING,
    group="scripting",
    since="7.0.0",
    summary="Returns that no function is running.",
    complexity="O(1)",
    tips=(ALL_SHARDS, "response_policy:one_succeeded"),
    differs="It never finds a running function. A time limit ends functions, see FCALL.",
    traits=Trait.ORDINARY,
)
def function_kill(context: Context, argv: list[bytes]) -> Reply:
    """FUNCTION KILL. Raises NotBusy, because no function is running when the server executes a command."""
    raise NotBusy


@command(
    "FUNCTION|HELP",
    arity=2,
    flags=Flag.LOADING | Flag.STALE,
    categories=SCRIPTING,
    group="scripting",
    since="7.0.0",
    summary="Lists the subcommands of FUNCTION.",
    complexity="O(1)",
    traits=Trait.ORDINARY,
)
def function_help(context: Context, argv: list[bytes]) -> Reply:
    """FUNCTION HELP. Returns lines of text."""
    return HELP
