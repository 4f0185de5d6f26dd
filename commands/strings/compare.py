"""Commands that compare strings: DIGEST, DELEX, LCS."""

from __future__ import annotations

from typing import Final

import xxhash

from ...protocol.replies import Reply
from ...store.errors import GenericError, syntax_error, wrong_number_of_arguments
from ...store.events import DEL
from ...store.value import Value
from ..core.numbers import integer
from ..core.table import Argument, Flag, KeySpec, command
from ..execution.context import Context
from .values import COMPARISON_ARGUMENTS, COMPARISONS, KEY_ARGUMENT, READ_KEY, comparison_holds

try:
    from .subsequence import common_ranges, common_size, common_text
except ImportError:  # there was no C compiler at installation
    from .subsequence_plain import common_ranges, common_size, common_text

NOT_STRINGS: Final = b"The specified keys must contain string values"


@command(
    "DIGEST",
    arity=2,
    flags=Flag.READONLY | Flag.FAST,
    keys=READ_KEY,
    categories=("string",),
    group="string",
    since="8.4.0",
    summary="Returns the digest of a string, for IFDEQ and IFDNE.",
    complexity="O(N) where N is the length of the string value.",
    arguments=(KEY_ARGUMENT,),
)
def digest(context: Context, argv: list[bytes]) -> Reply:
    """DIGEST key. Returns the XXH3 hash of the string as 16 hexadecimal digits; null if the key is missing.

    Raises WrongType. Source: Redis 8.4.
    """
    value = context.db.read_string(argv[1], context.now_ms)
    return None if value is None else xxhash.xxh3_64_hexdigest(value).encode()


@command(
    "DELEX",
    arity=-2,
    flags=Flag.WRITE | Flag.FAST,
    keys=(KeySpec(1, 1, 1, ("RW", "delete", "variable_flags")),),
    categories=("string",),
    group="string",
    since="8.4.0",
    summary="Deletes a key, if its string meets a condition.",
    complexity="O(1) for IFEQ/IFNE, O(N) for IFDEQ/IFDNE where N is the length of the string value.",
    arguments=(KEY_ARGUMENT, Argument("condition", "oneof", optional=True, arguments=COMPARISON_ARGUMENTS)),
)
def delex(context: Context, argv: list[bytes]) -> Reply:
    """DELEX key [IFEQ value | IFNE value | IFDEQ digest | IFDNE digest]

    Without a condition the key may have any type. Returns 1, or 0 if the key is missing or the condition does not hold.
    Raises GenericError. Source: redis.io/commands/delex, Redis 8.4.
    """
    key, db = argv[1], context.db
    if len(argv) not in (2, 4):
        raise wrong_number_of_arguments(b"delex")
    value = db.get(key, context.now_ms) if len(argv) == 2 else db.read(key, context.now_ms)
    if value is None:
        return 0
    if len(argv) == 4:
        condition = argv[2].upper()
        if not isinstance(value, bytes):
            raise GenericError(b"Key should be of string type if conditions are specified")
        if condition not in COMPARISONS:
            raise GenericError(b"Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE")
        if not comparison_holds(condition, argv[3], value):
            return 0
    db.remove(key, DEL)
    context.log(b"DEL", key)
    return 1


def _parse_lcs(argv: list[bytes]) -> tuple[bool, bool, bool, int]:
    """Parses the options of LCS and returns (LEN, IDX, WITHMATCHLEN, MINMATCHLEN). Raises GenericError."""
    wants_size = wants_places = with_sizes = False
    size_min, index = 0, 3
    while index < len(argv):
        word = argv[index].upper()
        if word == b"LEN":
            wants_size = True
        elif word == b"IDX":
            wants_places = True
        elif word == b"WITHMATCHLEN":
            with_sizes = True
        elif word == b"MINMATCHLEN" and index + 1 < len(argv):
            index += 1
            size_min = integer(argv[index])
        else:
            raise syntax_error()
        index += 1
    if wants_size and wants_places:
        raise GenericError(b"If you want both the length and indexes, please just use IDX.")
    return wants_size, wants_places, with_sizes, size_min


def _operands(context: Context, a_key: bytes, b_key: bytes) -> tuple[bytes, bytes]:
    """Returns the strings of the keys. Both are looked up before the types are checked. Raises GenericError."""
    a, b = context.db.read(a_key, context.now_ms), context.db.read(b_key, context.now_ms)
    return _text(a), _text(b)


def _text(value: Value | None) -> bytes:
    if value is None:
        return b""
    if not isinstance(value, bytes):
        raise GenericError(NOT_STRINGS)
    return value


@command(
    "LCS",
    arity=-3,
    flags=Flag.READONLY,
    keys=(KeySpec(1, 2, 1, ("RO", "access")),),
    categories=("string",),
    group="string",
    since="7.0.0",
    summary="Finds a longest common subsequence of two strings.",
    complexity="O(N*M) where N and M are the lengths of s1 and s2, respectively",
    arguments=(
        Argument("key1", "key", key_spec_index=0),
        Argument("key2", "key", key_spec_index=0),
        Argument("len", "pure-token", token="LEN", optional=True),
        Argument("idx", "pure-token", token="IDX", optional=True),
        Argument("min-match-len", "integer", token="MINMATCHLEN", optional=True),
        Argument("withmatchlen", "pure-token", token="WITHMATCHLEN", optional=True),
    ),
)
def lcs(context: Context, argv: list[bytes]) -> Reply:
    """LCS key1 key2 [LEN] [IDX] [MINMATCHLEN min-match-len] [WITHMATCHLEN]

    Returns the subsequence; with LEN, its length; with IDX, the matching ranges, last one first. A range has its first
    and last index in each string, and with WITHMATCHLEN its length. A missing key counts as an empty string.
    Raises GenericError, also if the table of N*M numbers that Redis would make exceeds proto-max-bulk-len.
    Source: redis.io/commands/lcs, Redis 7.0.
    """
    a, b = _operands(context, argv[1], argv[2])
    wants_size, wants_places, with_sizes, size_min = _parse_lcs(argv)
    if (len(a) + 1) * (len(b) + 1) * 4 > context.server.config.proto_max_bulk_len:
        raise GenericError(b"Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len")
    if wants_size:
        return common_size(a, b)
    if not wants_places:
        return common_text(a, b)
    ranges, size = common_ranges(a, b, size_min, with_sizes)
    return {b"matches": ranges, b"len": size}
