"""LOLWUT, which some tools use to read the version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ... import REDIS_VERSION, __version__
from ...protocol.replies import Reply, Verbatim
from ..core.numbers import integer
from ..core.table import Argument, Flag, Trait, command

if TYPE_CHECKING:
    from ..execution.context import Context

VERSIONS_WITH_ART: Final = {5, 6, 8}

HEADRACE: Final = r"""
  ~ ~~ ~ ~~~ ~ ~~ ~ ~~~ ~ ~~ ~ ~~~ ~ ~~ ~ |
 _~_~~_~_~~~_~_~~_~_~~~_~_~~_~_~~~_~_~~_~_ \
                                          \ \    .-'''-.
   a headrace brings the water               \ \ /  \|/  \
   to the wheel, which it never misses        \ |---(+)---|
                                               \~\  /|\  /
                                                ~~`-...-'~~~

"""


@command(
    "LOLWUT",
    arity=-1,
    flags=Flag.READONLY | Flag.FAST,
    categories=("read",),
    group="server",
    since="5.0.0",
    summary="Shows a picture and the version.",
    complexity="O(1)",
    arguments=(Argument("version", "integer", token="VERSION", optional=True),),
    differs="It shows another picture.",
    traits=Trait.ORDINARY,
)
def lolwut(context: Context, argv: list[bytes]) -> Reply:
    """LOLWUT [VERSION version]. Returns a picture with the version; only the version for a Redis without picture.

    Raises GenericError.
    """
    text = f"Redis ver. {REDIS_VERSION}\n"
    if len(argv) > 2 and argv[1].upper() == b"VERSION" and integer(argv[2]) not in VERSIONS_WITH_ART:
        return Verbatim(text.encode())
    return Verbatim(f"{HEADRACE}Headrace {__version__}, 2026. {text}".encode())
