"""BITOP: bitwise operations on strings."""

from __future__ import annotations

from typing import Final

from ...protocol.replies import Reply
from ...store.editing import edited
from ...store.errors import GenericError, syntax_error
from ...store.events import DEL, SET
from ..core.table import Argument, KeySpec, command
from ..execution.context import Context
from ..strings.values import WRITE

try:
    from .bit_codec import combined
except ImportError:  # there was no C compiler at installation
    from .bit_codec_plain import combined


# The operations on any number of source keys, and on the first and all others. NOT has one.
OF_ALL: Final = (b"AND", b"OR", b"XOR", b"ONE")
OF_FIRST_AND_OTHERS: Final = (b"DIFF", b"DIFF1", b"ANDOR")
NOT: Final = b"NOT"


@command(
    "BITOP",
    arity=-4,
    flags=WRITE,
    keys=(KeySpec(2, 2, 1, ("OW", "update")), KeySpec(3, -1, 1, ("RO", "access"))),
    categories=("bitmap",),
    group="bitmap",
    since="2.6.0",
    summary="Combines the bits of strings and stores the result.",
    complexity="O(N) in the total length of the strings.",
    arguments=(
        Argument(
            "operation",
            "oneof",
            arguments=(
                Argument("and", "pure-token", token="AND"),
                Argument("or", "pure-token", token="OR"),
                Argument("xor", "pure-token", token="XOR"),
                Argument("not", "pure-token", token="NOT"),
                Argument("diff", "pure-token", token="DIFF"),
                Argument("diff1", "pure-token", token="DIFF1"),
                Argument("andor", "pure-token", token="ANDOR"),
                Argument("one", "pure-token", token="ONE"),
            ),
        ),
        Argument("destkey", "key", key_spec_index=0),
        Argument("key", "key", multiple=True, key_spec_index=1),
    ),
)
def bitop(context: Context, argv: list[bytes]) -> Reply:
    """BITOP <AND | OR | XOR | NOT | DIFF | DIFF1 | ANDOR | ONE> destkey key [key ...]

    DIFF has the bits that only the first key has, DIFF1 those that any other key has and the first has not, ANDOR those
    that the first and any other have, ONE those that exactly one key has. Zeros follow the shorter strings; a missing
    key is an empty string. The result replaces a value of any type; an empty result deletes the key.

    Returns the length of the result in bytes. Raises WrongType, GenericError.
    Source: redis.io/commands/bitop, Redis 8.2.
    """
    name, target, sources = argv[1].upper(), argv[2], argv[3:]
    if name != NOT and name not in OF_ALL and name not in OF_FIRST_AND_OTHERS:
        raise syntax_error()
    if name == NOT and len(sources) != 1:
        raise GenericError(b"BITOP NOT must be called with a single source key.")
    if name in OF_FIRST_AND_OTHERS and len(sources) < 2:
        raise GenericError(b"BITOP %b must be called with at least two source keys." % name)
    db, now_ms = context.db, context.now_ms
    texts = [db.read_string(key, now_ms) or b"" for key in sources]
    result = combined(name, texts)
    if result:
        db.overwrite(target, edited(result), SET, now_ms)
        context.log_words(argv)
    elif db.delete(target, DEL):
        context.log_words(argv)
    return len(result)
