"""CONFIG: reads and changes the configuration of the running server."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ...protocol.replies import OK, Reply, status_lines
from ...store.errors import syntax_error
from ..core.secrets import SECRET_DIRECTIVES
from ..core.table import Argument, Flag, Trait, command, container
from ..execution.context import Context

ADMIN: Final = Flag.ADMIN | Flag.NOSCRIPT | Flag.LOADING | Flag.STALE
ALL_NODES: Final = ("request_policy:all_nodes", "response_policy:all_succeeded")

HELP: Final = status_lines(
    (
        b"CONFIG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        b"GET <pattern>",
        b"    Return parameters matching the glob-like <pattern> and their values.",
        b"SET <directive> <value>",
        b"    Set the configuration <directive> to <value>.",
        b"RESETSTAT",
        b"    Reset statistics reported by the INFO command.",
        b"REWRITE",
        b"    Rewrite the configuration file.",
        b"HELP",
        b"    Print this help.",
    )
)

container("CONFIG", group="server", since="2.0.0", summary="A container for server configuration commands.")


@command(
    "CONFIG|GET",
    arity=-3,
    flags=ADMIN,
    group="server",
    since="2.0.0",
    summary="Returns the effective values of configuration parameters.",
    complexity="O(N) when N is the number of configuration parameters provided",
    arguments=(Argument("parameter", multiple=True),),
    history=(("7.0.0", "Added the ability to pass multiple pattern parameters in one call"),),
    traits=Trait.ORDINARY,
)
def config_get(context: Context, argv: list[bytes]) -> Reply:
    """CONFIG GET pattern [pattern ...]

    Returns a map from matching directives to their values as text: sizes in bytes, booleans as yes and no.
    Source: redis.io/commands/config-get.
    """
    return dict(context.server.config.get_matching(argv[2:]))


def _secrets_of_set(argv: list[bytes]) -> Iterable[int]:
    """The values of secret directives. If names and values are not in pairs, everything after a secret name."""
    names = [index for index in range(2, len(argv)) if argv[index].lower() in SECRET_DIRECTIVES]
    if len(argv) % 2 and names:
        return range(names[0] + 1, len(argv))
    return [index + 1 for index in names if index % 2 == 0]


@command(
    "CONFIG|SET",
    arity=-4,
    flags=ADMIN,
    group="server",
    since="2.0.0",
    summary="Sets configuration parameters in-flight.",
    complexity="O(N) when N is the number of configuration parameters provided",
    arguments=(Argument("data", "block", multiple=True, arguments=(Argument("parameter"), Argument("value"))),),
    history=(("7.0.0", "Added the ability to set multiple parameters in one call."),),
    tips=ALL_NODES,
    secrets=_secrets_of_set,
)
def config_set(context: Context, argv: list[bytes]) -> Reply:
    """CONFIG SET directive value [directive value ...]

    Applies all changes or none: each value is checked first, and reverted if a later one cannot be applied. Returns OK.
    Raises GenericError with the reason. Source: redis.io/commands/config-set.
    """
    words = argv[2:]
    if len(words) % 2:
        raise syntax_error()
    pairs = [(words[index], words[index + 1]) for index in range(0, len(words), 2)]
    context.server.config.set_many(pairs, is_local=context.client.is_local)
    return OK


@command(
    "CONFIG|RESETSTAT",
    arity=2,
    flags=ADMIN,
    group="server",
    since="2.0.0",
    summary="Resets the server's statistics.",
    complexity="O(1)",
    tips=ALL_NODES,
)
def config_resetstat(context: Context, argv: list[bytes]) -> Reply:
    """CONFIG RESETSTAT

    Resets the counters of INFO, also those of single commands. The dataset and the slow log stay. Returns OK.
    Source: redis.io/commands/config-resetstat.
    """
    context.server.reports.reset()
    return OK


@command(
    "CONFIG|REWRITE",
    arity=2,
    flags=ADMIN,
    group="server",
    since="2.8.0",
    summary="Persists the effective configuration to file.",
    complexity="O(1)",
    tips=ALL_NODES,
)
def config_rewrite(context: Context, argv: list[bytes]) -> Reply:
    """CONFIG REWRITE

    Writes the present values to the configuration file, and keeps its comments and order. Returns OK.
    Raises GenericError if there is no file, or it cannot be written. Source: redis.io/commands/config-rewrite.
    """
    context.server.config.rewrite()
    return OK


@command(
    "CONFIG|HELP",
    arity=2,
    flags=Flag.LOADING | Flag.STALE,
    group="server",
    since="5.0.0",
    summary="Returns helpful text about the different subcommands.",
    complexity="O(1)",
    traits=Trait.ORDINARY,
)
def config_help(context: Context, argv: list[bytes]) -> Reply:
    """CONFIG HELP. Returns lines of text."""
    return HELP
