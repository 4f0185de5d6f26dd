"""Commands that compare strings: DIGEST, DELEX, LCS."""

from __future__ import annotations

from typing import Final

import xxhash

from ...protocol.replies import Reply
from ...store.errors import GenericError, syntax_error, wrong_number_of_arguments
from ...store.events import DEL
from ..core.numbers import integer
from ..core.table import Argument, Flag, KeySpec, command
from ..execution.context import Context
from .subsequence import common_matches, common_size
from .values import COMPARISON_ARGUMENTS, COMPARISONS, KEY_ARGUMENT, READ_KEY, comparison_holds

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
    chosen: set[bytes] = set()
    size_min = 0
    words = iter(argv[3:])
    for given in words:
        word = given.upper()
        if word == b"MINMATCHLEN":
            token = next(words, None)
            if token is None:
                raise syntax_error()
            size_min = integer(token)
        elif word not in (b"LEN", b"IDX", b"WITHMATCHLEN"):
            raise syntax_error()
        chosen.add(word)
    if {b"LEN", b"IDX"} <= chosen:
        raise GenericError(b"If you want both the length and indexes, please just use IDX.")
    return b"LEN" in chosen, b"IDX" in chosen, b"WITHMATCHLEN" in chosen, size_min


def _operands(context: Context, keys: list[bytes]) -> list[bytes]:
    """Returns the strings of the keys. All keys are looked up before the types are checked. Raises GenericError."""
    values = [context.db.read(key, context.now_ms) for key in keys]
    texts: list[bytes] = []
    for value in values:
        if value is not None and not isinstance(value, bytes):
            raise GenericError(NOT_STRINGS)
        texts.append(value or b"")
    return texts


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
    a, b = _operands(context, argv[1:3])
    wants_size, wants_places, with_sizes, size_min = _parse_lcs(argv)
    if (len(a) + 1) * (len(b) + 1) * 4 > context.server.config.proto_max_bulk_len:
        raise GenericError(b"Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len")
    if wants_size:
        return common_size(a, b)
    matches = common_matches(a, b)
    if not wants_places:
        return b"".join(a[match.a_start :][: match.size] for match in reversed(matches))
    listed: list[Reply] = []
    for match in matches:
        if match.size >= size_min:
            places: list[Reply] = [[start, start + match.size - 1] for start in (match.a_start, match.b_start)]
            listed.append([*places, match.size] if with_sizes else places)
    return {b"matches": listed, b"len": sum(match.size for match in matches)}
