"""INFO: information and statistics of the server."""

from __future__ import annotations

from ...protocol.replies import Reply, Verbatim
from ..core.table import Argument, Flag, Trait, command
from ..execution.context import Context


@command(
    "INFO",
    arity=-1,
    flags=Flag.LOADING | Flag.STALE,
    categories=("dangerous",),
    group="server",
    since="1.0.0",
    summary="Returns information and statistics about the server.",
    complexity="O(1)",
    arguments=(Argument("section", optional=True, multiple=True),),
    history=(("7.0.0", "Added support for taking multiple section arguments."),),
    tips=("nondeterministic_output", "request_policy:all_shards", "response_policy:special"),
    traits=Trait.KEEPS_CHECKS,
)
def info(context: Context, argv: list[bytes]) -> Reply:
    """INFO [section ...]

    Returns the named sections, or the default ones; `all` and `everything` add the statistics of each command. Names
    are case-insensitive, and unknown ones are ignored.
    Source: redis.io/commands/info.
    """
    return Verbatim(context.server.reports.info([section.lower() for section in argv[1:]]))
