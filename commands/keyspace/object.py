"""OBJECT: the encoding of a value, and when it was used."""

from __future__ import annotations

from typing import Final

from ...protocol.replies import Reply, status_lines
from ...store.errors import GenericError
from ...store.key_uses import UseKind
from ..core.table import Flag, KeySpec, Trait, command, container
from ..execution.context import Context
from ..strings.encoding import encoding_of
from .idle import key_idle_s
from .keys import KEY_ARGUMENT

container(
    "OBJECT",
    group="generic",
    since="2.2.3",
    summary="Commands that inspect the value of a key.",
    traits=Trait.ORDINARY | Trait.KEEPS_USE_TIMES,
)

_OBJECT_KEY: Final = (KeySpec(2, 2, 1, ("RO",)),)
NO_LFU: Final = (
    b"An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching between "
    b"policies at runtime LRU and LFU data will take some time to adjust."
)
ONLY_LFU: Final = (
    b"An LFU maxmemory policy is selected, idle time not tracked. Please note that when switching between policies at "
    b"runtime LRU and LFU data will take some time to adjust."
)


@command(
    "OBJECT|ENCODING",
    arity=3,
    flags=Flag.READONLY,
    keys=_OBJECT_KEY,
    categories=("keyspace",),
    since="2.2.3",
    summary="Returns the encoding that Redis would use for a value.",
    complexity="O(1)",
    arguments=(KEY_ARGUMENT,),
    tips=("nondeterministic_output",),
)
def object_encoding(context: Context, argv: list[bytes]) -> Reply:
    """OBJECT ENCODING key. Returns its name, as `stream`, `int` or `listpack`; null if the key is missing.

    Source: Redis 2.2.3.
    """
    value = context.db.inspect(argv[2], context.now_ms)
    if value is None:
        return None
    return encoding_of(argv[2], value)


@command(
    "OBJECT|REFCOUNT",
    arity=3,
    flags=Flag.READONLY,
    keys=_OBJECT_KEY,
    categories=("keyspace",),
    since="2.2.3",
    summary="Counts the references to a value.",
    complexity="O(1)",
    arguments=(KEY_ARGUMENT,),
    tips=("nondeterministic_output",),
    differs="Always 1. In a transaction Redis counts the queued request that set the value as another reference.",
)
def object_refcount(context: Context, argv: list[bytes]) -> Reply:
    """OBJECT REFCOUNT key. Returns 1, as values are not shared; null if the key is missing. Source: Redis 2.2.3."""
    return None if context.db.inspect(argv[2], context.now_ms) is None else 1


@command(
    "OBJECT|IDLETIME",
    arity=3,
    flags=Flag.READONLY,
    keys=_OBJECT_KEY,
    categories=("keyspace",),
    since="2.2.3",
    summary="Returns the time since a value was last used.",
    complexity="O(1)",
    arguments=(KEY_ARGUMENT,),
    tips=("nondeterministic_output",),
    differs="Strings have an access time only under an LRU or LRM policy; otherwise their idle time is always 0.",
)
def object_idletime(context: Context, argv: list[bytes]) -> Reply:
    """OBJECT IDLETIME key. Returns seconds since the last use, or under an LRM policy since the last change; null if
    the key is missing. Raises GenericError under an LFU policy. Source: Redis 2.2.3.
    """
    value = context.db.inspect(argv[2], context.now_ms)
    if value is None:
        return None
    if context.use_rules is not None and context.use_rules.kind is UseKind.LFU:
        raise GenericError(ONLY_LFU)
    return key_idle_s(context, argv[2], value)


@command(
    "OBJECT|FREQ",
    arity=3,
    flags=Flag.READONLY,
    keys=_OBJECT_KEY,
    categories=("keyspace",),
    since="4.0.0",
    summary="Returns how often a value is used, under an LFU policy.",
    complexity="O(1)",
    arguments=(KEY_ARGUMENT,),
    tips=("nondeterministic_output",),
)
def object_freq(context: Context, argv: list[bytes]) -> Reply:
    """OBJECT FREQ key. Returns the counter of uses, 0 to 255; null if the key is missing. Raises GenericError unless
    there is an LFU policy. Source: Redis 4.0.
    """
    if context.db.inspect(argv[2], context.now_ms) is None:
        return None
    uses = context.db.uses
    if uses is None or uses.rules.kind is not UseKind.LFU:
        raise GenericError(NO_LFU)
    return uses.frequency(argv[2], context.now_ms)


HELP: Final = status_lines(
    (
        b"OBJECT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        b"ENCODING <key>",
        b"    Return the kind of internal representation used in order to store the value",
        b"    associated with a <key>.",
        b"FREQ <key>",
        b"    Return the access frequency index of the <key>. The returned integer is",
        b"    proportional to the logarithm of the recent access frequency of the key.",
        b"IDLETIME <key>",
        b"    Return the idle time of the <key>, that is the approximated number of",
        b"    seconds elapsed since the last access to the key.",
        b"REFCOUNT <key>",
        b"    Return the number of references of the value associated with the specified",
        b"    <key>.",
        b"HELP",
        b"    Print this help.",
    )
)


@command(
    "OBJECT|HELP",
    arity=2,
    flags=Flag.LOADING | Flag.STALE,
    categories=("keyspace",),
    since="6.2.0",
    summary="Lists the subcommands of OBJECT.",
    complexity="O(1)",
)
def object_help(context: Context, argv: list[bytes]) -> Reply:
    """OBJECT HELP. Returns lines of text. Source: Redis 6.2."""
    return HELP
