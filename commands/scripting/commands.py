"""The commands for Lua scripts: EVAL, EVALSHA, EVAL_RO, EVALSHA_RO and SCRIPT.

The commands that a script calls are one unit, like those of a transaction. The log gets their effects, not the script.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ...protocol.replies import OK, Reply, status_lines
from ...store.errors import GenericError
from ..core.numbers import integer
from ..core.table import DECLARED, Argument, Flag, KeySpec, Trait, command, container
from .cache import DIGEST_SIZE
from .errors import NoScript, NotBusy

if TYPE_CHECKING:
    from ..execution.context import Context
    from ..execution.script_engine import Outcome

SCRIPTING: Final = ("scripting",)
RUNS: Final = (
    Flag.NOSCRIPT | Flag.STALE | Flag.SKIP_MONITOR | Flag.NO_MANDATORY_KEYS | Flag.MOVABLEKEYS | Flag.SCRIPT_RUNNER
)
ANY_ACCESS: Final = KeySpec(3, 0, 1, ("RW", "access", "update"), count_at=2, is_loose=True)
READ_ACCESS: Final = KeySpec(3, 0, 1, ("RO", "ACCESS"), count_at=2, is_loose=True)
NOTE: Final = "We cannot tell how the keys will be used so we assume the worst, "
ALL_SHARDS: Final = "request_policy:all_shards"
ALL_NODES: Final = ("request_policy:all_nodes", "response_policy:all_succeeded")

SCRIPT_ARGUMENT: Final = Argument("script")
SHA_ARGUMENT: Final = Argument("sha1")
INPUT_ARGUMENTS: Final = (
    Argument("numkeys", "integer"),
    Argument("key", "key", optional=True, multiple=True, key_spec_index=0),
    Argument("arg", optional=True, multiple=True),
)

DIFFERS: Final = (
    "Needs the package lupa (`pip install 'headrace[scripts]'`). While a script runs, no client is served. A script "
    "that runs longer than `busy-reply-threshold` is ended if it has written nothing, else it continues."
)
DEBUG_OFF: Final = "There is no debugger: YES and SYNC are refused."

HELP: Final = status_lines(
    b"""\
SCRIPT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:
DEBUG (YES|SYNC|NO)
    Set the debug mode for subsequent scripts executed.
EXISTS <sha1> [<sha1> ...]
    Return information about the existence of the scripts in the script cache.
FLUSH [ASYNC|SYNC]
    Flush the Lua scripts cache. Very dangerous on replicas.
    When called without the optional mode argument, the behavior is determined by the
    lazyfree-lazy-user-flush configuration directive. Valid modes are:
    * ASYNC: Asynchronously flush the scripts cache.
    * SYNC: Synchronously flush the scripts cache.
KILL
    Kill the currently executing Lua script.
LOAD <script>
    Load a script into the scripts cache without executing it.
HELP
    Print this help.""".split(b"\n")
)


@command(
    "EVAL",
    arity=-3,
    flags=RUNS,
    keys=(replace(ANY_ACCESS, note=NOTE + "RW and UPDATE"),),
    categories=SCRIPTING,
    group="scripting",
    since="2.6.0",
    summary="Runs a Lua script.",
    complexity="Depends on the script.",
    arguments=(SCRIPT_ARGUMENT, *INPUT_ARGUMENTS),
    differs=DIFFERS,
    traits=Trait.MAY_REPLICATE,
)
def evaluate(context: Context, argv: list[bytes]) -> Reply:
    """EVAL script numkeys [key ...] [arg ...]

    Runs a Lua script with KEYS and ARGV, and returns its result, converted as in Redis. Raises CompileError if it is
    not valid Lua, GenericError if numkeys is wrong or lupa is missing. Source: redis.io/commands/eval, Redis 2.6.0.
    """
    return _run_text(context, argv, b"EVAL", read_only=False)


@command(
    "EVAL_RO",
    arity=-3,
    flags=RUNS | Flag.READONLY,
    keys=(replace(READ_ACCESS, note=NOTE + "RO and ACCESS"),),
    categories=SCRIPTING,
    group="scripting",
    since="7.0.0",
    summary="Runs a Lua script that may not write.",
    complexity="Depends on the script.",
    arguments=(SCRIPT_ARGUMENT, *INPUT_ARGUMENTS),
)
def evaluate_read_only(context: Context, argv: list[bytes]) -> Reply:
    """EVAL_RO script numkeys [key ...] [arg ...]. Runs a script; a write in it is an error. Source: Redis 7.0.0."""
    return _run_text(context, argv, b"EVAL_RO", read_only=True)


@command(
    "EVALSHA",
    arity=-3,
    flags=RUNS,
    keys=(ANY_ACCESS,),
    categories=SCRIPTING,
    group="scripting",
    since="2.6.0",
    summary="Runs a Lua script known by its SHA-1.",
    complexity="Depends on the script.",
    arguments=(SHA_ARGUMENT, *INPUT_ARGUMENTS),
    traits=Trait.MAY_REPLICATE,
)
def evaluate_known(context: Context, argv: list[bytes]) -> Reply:
    """EVALSHA sha1 numkeys [key ...] [arg ...]. Runs a cached script. Raises NoScript if it is not cached."""
    return _run_known(context, argv, b"EVALSHA", read_only=False)


@command(
    "EVALSHA_RO",
    arity=-3,
    flags=RUNS | Flag.READONLY,
    keys=(READ_ACCESS,),
    categories=SCRIPTING,
    group="scripting",
    since="7.0.0",
    summary="Runs a Lua script, known by its SHA-1, that may not write.",
    complexity="Depends on the script.",
    arguments=(SHA_ARGUMENT, *INPUT_ARGUMENTS),
)
def evaluate_known_read_only(context: Context, argv: list[bytes]) -> Reply:
    """EVALSHA_RO sha1 numkeys [key ...] [arg ...]. Runs a cached script; a write is an error. Source: Redis 7.0.0."""
    return _run_known(context, argv, b"EVALSHA_RO", read_only=True)


def _run_text(context: Context, argv: list[bytes], name: bytes, *, read_only: bool) -> Reply:
    if context.monitors.clients:
        context.monitors.show_now(context.client, DECLARED[name], argv)
    keys_end = _keys_end(argv)
    outcome = context.scripts.run_text(argv[1], argv[3:keys_end], argv[keys_end:], read_only=read_only)
    if outcome.errors:
        _count_errors(context, outcome, name)
    return outcome.reply


def _run_known(context: Context, argv: list[bytes], name: bytes, *, read_only: bool) -> Reply:
    if context.monitors.clients:
        context.monitors.show_now(context.client, DECLARED[name], argv)
    if len(argv[1]) != DIGEST_SIZE:
        raise NoScript
    keys_end = _keys_end(argv)
    outcome = context.scripts.run_known(argv[1], argv[3:keys_end], argv[keys_end:], read_only=read_only)
    if outcome is None:
        raise NoScript
    if outcome.errors:
        _count_errors(context, outcome, name)
    return outcome.reply


def _keys_end(argv: list[bytes]) -> int:
    """Parses numkeys and returns the index of the first argument after the keys. Raises GenericError."""
    count = integer(argv[2])
    if count > len(argv) - 3:
        raise GenericError(b"Number of keys can't be greater than number of args")
    if count < 0:
        raise GenericError(b"Number of keys can't be negative")
    return 3 + count


def _count_errors(context: Context, outcome: Outcome, name: bytes) -> None:
    """Counts the errors in the reply of a script that were not counted when they were raised, and the failed call."""
    for error, is_counted in outcome.errors:
        if not is_counted:
            context.server.stats.count_error(error.code)
    DECLARED[name].failed_calls += 1


container(
    "SCRIPT", group="scripting", since="2.6.0", summary="Commands that manage Lua scripts.", traits=Trait.ORDINARY
)


@command(
    "SCRIPT|LOAD",
    arity=3,
    flags=Flag.NOSCRIPT | Flag.STALE,
    categories=SCRIPTING,
    group="scripting",
    since="2.6.0",
    summary="Adds a script to the cache for EVALSHA.",
    complexity="O(N) in the length of the script.",
    arguments=(SCRIPT_ARGUMENT,),
    tips=ALL_NODES,
)
def script_load(context: Context, argv: list[bytes]) -> Reply:
    """SCRIPT LOAD script. Returns its SHA-1. Raises CompileError."""
    return context.scripts.load(argv[2], is_loaded=True)


@command(
    "SCRIPT|EXISTS",
    arity=-3,
    flags=Flag.NOSCRIPT,
    categories=SCRIPTING,
    group="scripting",
    since="2.6.0",
    summary="Returns whether scripts are cached.",
    complexity="O(N) in the number of digests.",
    arguments=(Argument("sha1", multiple=True),),
    tips=(ALL_SHARDS, "response_policy:agg_logical_and"),
)
def script_exists(context: Context, argv: list[bytes]) -> Reply:
    """SCRIPT EXISTS sha1 [sha1 ...]. Returns 1 or 0 for each."""
    return [int(context.scripts.has(sha)) for sha in argv[2:]]


@command(
    "SCRIPT|FLUSH",
    arity=-2,
    flags=Flag.NOSCRIPT,
    categories=SCRIPTING,
    group="scripting",
    since="2.6.0",
    summary="Removes all scripts from the cache.",
    complexity="O(N) in the number of scripts.",
    arguments=(
        Argument(
            "flush-type",
            "oneof",
            optional=True,
            since="6.2.0",
            arguments=(Argument("async", "pure-token", token="ASYNC"), Argument("sync", "pure-token", token="SYNC")),
        ),
    ),
    history=(("6.2.0", "ASYNC and SYNC are accepted."),),
    tips=ALL_NODES,
)
def script_flush(context: Context, argv: list[bytes]) -> Reply:
    """SCRIPT FLUSH [ASYNC | SYNC]. Returns OK; both words have the same effect. Raises GenericError."""
    if len(argv) > 3 or (len(argv) == 3 and argv[2].upper() not in (b"ASYNC", b"SYNC")):
        raise GenericError(b"SCRIPT FLUSH only support SYNC|ASYNC option")
    context.scripts.flush()
    return OK


@command(
    "SCRIPT|KILL",
    arity=2,
    flags=Flag.NOSCRIPT | Flag.ALLOW_BUSY,
    categories=SCRIPTING,
    group="scripting",
    since="2.6.0",
    summary="Has no script to end; raises an error.",
    complexity="O(1)",
    tips=(ALL_SHARDS, "response_policy:one_succeeded"),
    differs="It never finds a running script. A time limit ends scripts, see EVAL.",
)
def script_kill(context: Context, argv: list[bytes]) -> Reply:
    """SCRIPT KILL. Raises NotBusy, because no script is running when the server executes a command."""
    raise NotBusy


@command(
    "SCRIPT|DEBUG",
    arity=3,
    flags=Flag.NOSCRIPT,
    categories=SCRIPTING,
    group="scripting",
    since="3.2.0",
    summary="Refuses to start the debugger.",
    complexity="O(1)",
    arguments=(
        Argument(
            "mode",
            "oneof",
            arguments=tuple(Argument(word.lower(), "pure-token", token=word) for word in ("YES", "SYNC", "NO")),
        ),
    ),
    differs=DEBUG_OFF,
)
def script_debug(context: Context, argv: list[bytes]) -> Reply:
    """SCRIPT DEBUG <YES | SYNC | NO>. Returns OK for NO. Raises GenericError for any other word."""
    mode = argv[2].upper()
    if mode == b"NO":
        return OK
    if mode in (b"YES", b"SYNC"):
        raise GenericError(b"SCRIPT DEBUG is not supported: there is no Lua debugger")
    raise GenericError(b"Use SCRIPT DEBUG YES/SYNC/NO")


@command(
    "SCRIPT|HELP",
    arity=2,
    flags=Flag.LOADING | Flag.STALE,
    categories=SCRIPTING,
    group="scripting",
    since="5.0.0",
    summary="Lists the subcommands of SCRIPT.",
    complexity="O(1)",
)
def script_help(context: Context, argv: list[bytes]) -> Reply:
    """SCRIPT HELP. Returns lines of text."""
    return HELP
