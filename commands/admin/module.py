"""MODULE: Headrace has no modules, so none can be listed or loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...protocol.replies import Reply, status_lines
from ...store.errors import GenericError
from ..core.table import Argument, Flag, Trait, command, container

if TYPE_CHECKING:
    from ..execution.context import Context

CHANGING: Final = Flag.ADMIN | Flag.NOSCRIPT | Flag.NO_ASYNC_LOADING
NO_MODULES: Final = "There are no modules: it is refused, as by a Redis that does not allow modules."

NOT_ALLOWED: Final = (
    b'MODULE command not allowed. If the enable-module-command option is set to "local", you can run it from a local '
    b"connection, otherwise you need to set this option in the configuration file, and then restart the server."
)

HELP: Final = status_lines(
    (
        b"MODULE <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        b"LIST",
        b"    Return a list of loaded modules.",
        b"LOAD <path> [<arg> ...]",
        b"    Load a module library from <path>, passing to it any optional arguments.",
        b"LOADEX <path> [[CONFIG NAME VALUE] [CONFIG NAME VALUE]] [ARGS ...]",
        b"    Load a module library from <path>, while passing it module configurations and optional arguments.",
        b"UNLOAD <name>",
        b"    Unload a module.",
        b"HELP",
        b"    Print this help.",
    )
)

container("MODULE", group="server", since="4.0.0", summary="Commands about modules.", traits=Trait.ORDINARY)


@command(
    "MODULE|LIST",
    arity=2,
    flags=Flag.ADMIN | Flag.NOSCRIPT,
    group="server",
    since="4.0.0",
    summary="Lists the loaded modules: always none.",
    complexity="O(N) where N is the number of loaded modules.",
    tips=("nondeterministic_output_order",),
)
def module_list(context: Context, argv: list[bytes]) -> Reply:
    """MODULE LIST. Returns an empty array."""
    return []


@command(
    "MODULE|LOAD",
    arity=-3,
    flags=CHANGING,
    group="server",
    since="4.0.0",
    summary="Refuses to load a module.",
    complexity="O(1)",
    arguments=(Argument("path"), Argument("arg", optional=True, multiple=True)),
    differs=NO_MODULES,
)
def module_load(context: Context, argv: list[bytes]) -> Reply:
    """MODULE LOAD path [arg ...]. Raises GenericError."""
    raise GenericError(NOT_ALLOWED)


@command(
    "MODULE|LOADEX",
    arity=-3,
    flags=CHANGING,
    group="server",
    since="7.0.0",
    summary="Refuses to load a module.",
    complexity="O(1)",
    arguments=(
        Argument("path"),
        Argument(
            "configs",
            "block",
            token="CONFIG",
            optional=True,
            multiple=True,
            multiple_token=True,
            arguments=(Argument("name"), Argument("value")),
        ),
        Argument("args", token="ARGS", optional=True, multiple=True),
    ),
    differs=NO_MODULES,
)
def module_loadex(context: Context, argv: list[bytes]) -> Reply:
    """MODULE LOADEX path [CONFIG name value [CONFIG name value ...]] [ARGS arg [arg ...]]. Raises GenericError."""
    raise GenericError(NOT_ALLOWED)


@command(
    "MODULE|UNLOAD",
    arity=3,
    flags=CHANGING,
    group="server",
    since="4.0.0",
    summary="Refuses to unload a module.",
    complexity="O(1)",
    arguments=(Argument("name"),),
    differs=NO_MODULES,
)
def module_unload(context: Context, argv: list[bytes]) -> Reply:
    """MODULE UNLOAD name. Raises GenericError."""
    raise GenericError(NOT_ALLOWED)


@command(
    "MODULE|HELP",
    arity=2,
    flags=Flag.LOADING | Flag.STALE,
    group="server",
    since="5.0.0",
    summary="Lists the subcommands of MODULE.",
    complexity="O(1)",
)
def module_help(context: Context, argv: list[bytes]) -> Reply:
    """MODULE HELP. Returns lines of text."""
    return HELP
