"""The keys of a request and how the command accesses them, according to the command's row."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from .numbers import leading_integer, parse_integer
from .table import NOT_KEY, KeySpec, Row

# Words that may precede STREAMS in XREAD and XREADGROUP, and the number of words after each: `COUNT streams` has no
# key.
READ_OPTIONS: Final = {b"BLOCK": 1, b"COUNT": 1, b"MAXCOUNT": 1, b"MAXSIZE": 1, b"CLAIM": 1, b"GROUP": 2, b"NOACK": 0}

# Options of SORT, and the number of words after each: `BY store` has no key.
SORT_OPTIONS: Final = {b"LIMIT": 2, b"GET": 1, b"BY": 1}

# Options of MIGRATE with words after them, and how many; the index of the first option, and of the key.
MIGRATE_OPTIONS: Final = {b"AUTH": 1, b"AUTH2": 2}
FIRST_MIGRATE_OPTION: Final = 6
MIGRATE_KEY: Final = 3

# Options of GEORADIUS before a key, and the index of the first word that may be one.
STORE_OPTIONS: Final = (b"STORE", b"STOREDIST")
FIRST_STORE_INDEX: Final = 5

# Key-spec flags that COMMAND prints in capitals; the others it prints in small letters.
ACCESS_KINDS: Final = ("RO", "RW", "OW", "RM")

# The access depends on the request: SET with GET reads as well, SET and DELEX read if they have a condition, and
# BITFIELD may only read.
VARIABLE: Final = "variable_flags"

# Operations of BITFIELD that write nothing, and the number of words after each.
_READING_FIELDS: Final = {b"GET": 2, b"OVERFLOW": 1}

# Options of SET and DELEX that compare the present value.
CONDITIONS: Final = {b"IFEQ", b"IFNE", b"IFDEQ", b"IFDNE"}


def find_keys(row: Row, argv: list[bytes]) -> list[tuple[bytes, KeySpec]]:
    """The keys of a request with a valid arity, each with the spec that found it, in order.

    Empty if the arguments name none. If the command has keys, its arguments are then wrong.
    """
    if row.has_one_key:
        return [(argv[1], row.keys[0])]
    found: list[tuple[bytes, KeySpec]] = []
    for spec in row.keys:
        if NOT_KEY in spec.access:
            continue
        if spec.is_loose and spec.count_at is not None and parse_integer(argv[spec.count_at]) is None:
            return _find_keys_loosely(row, argv)
        positions = key_positions(spec, argv)
        if not positions and spec.count_at is not None:
            return []  # the number of keys is wrong
        found += [(argv[position], spec) for position in positions]
    return found


def _find_keys_loosely(row: Row, argv: list[bytes]) -> list[tuple[bytes, KeySpec]]:
    """The keys if the number of them is spelled as `01`: Redis finds those first, and reports no access to any key."""
    found: list[tuple[bytes, KeySpec]] = []
    for spec in sorted(row.keys, key=_is_fixed):
        positions = key_positions(spec, argv)
        if not positions:
            return []
        without_access = replace(spec, access=())
        found += [(argv[position], without_access) for position in positions]
    return found


def _is_fixed(spec: KeySpec) -> bool:
    return spec.count_at is None


def key_positions(spec: KeySpec, argv: list[bytes]) -> range:
    """Where the keys of one spec are in a request; empty if the arguments name none."""
    if spec.is_unknown:
        return range(0) if spec.keyword is None else _position_after_last(spec.keyword, argv)
    if spec.takes_rest or spec.unless is not None:
        return _positions_of_migrate(spec, argv)
    if spec.keyword is not None and spec.is_last_store:
        return _position_after_last_store(spec.keyword, argv)
    if spec.keyword is not None and spec.is_option:
        return _position_of_value(spec.keyword, spec.start, argv)
    if spec.keyword is not None:
        return _positions_after(spec.keyword, argv)
    if spec.count_at is not None:
        token = argv[spec.count_at]
        count = _atoi(token) if spec.is_loose else parse_integer(token) or 0
        last = spec.first + (count - 1) * spec.step  # words after the last key may be missing
        return range(spec.first, last + 1, spec.step) if count > 0 and last < len(argv) else range(0)
    last = spec.last if spec.last >= 0 else len(argv) + spec.last
    return range(spec.first, min(last, len(argv) - 1) + 1, spec.step)


def _atoi(token: bytes) -> int:
    """The result of C's atoi for a word: 32 bits of `leading_integer`."""
    return (leading_integer(token) + (1 << 31)) % (1 << 32) - (1 << 31)


def _positions_after(keyword: bytes, argv: list[bytes]) -> range:
    """The first half of the words after the keyword; none if it is missing or the halves are not equal."""
    index = 1
    while index < len(argv):
        word = argv[index].upper()
        index += 1
        if word == keyword:
            count, odd = divmod(len(argv) - index, 2)
            return range(0) if odd else range(index, index + count)
        if word not in READ_OPTIONS:
            break
        index += READ_OPTIONS[word]
    return range(0)


def _position_of_value(name: bytes, start: int, argv: list[bytes]) -> range:
    """Where the value of an option is, among pairs of names and values; none if it is missing or empty."""
    for index in range(start, len(argv) - 1, 2):
        if argv[index].upper() == name and argv[index + 1]:
            return range(index + 1, index + 2)
    return range(0)


def _position_after_last_store(keyword: bytes, argv: list[bytes]) -> range:
    """Where the word after the last STORE or STOREDIST of GEORADIUS is; none if that is not the keyword."""
    found, option = range(0), b""
    index = FIRST_STORE_INDEX
    while index + 1 < len(argv):
        word = argv[index].upper()
        if word in STORE_OPTIONS:
            found, option = range(index + 1, index + 2), word
            index += 1
        index += 1
    return found if option == keyword else range(0)


def _positions_of_migrate(spec: KeySpec, argv: list[bytes]) -> range:
    """Where the keys of MIGRATE are: the fourth word, or all words after the option, which needs an empty one there."""
    index = FIRST_MIGRATE_OPTION
    while index < len(argv):
        word = argv[index].upper()
        index += 1
        if word in (spec.keyword, spec.unless):
            return range(index, len(argv)) if spec.takes_rest and not argv[MIGRATE_KEY] else range(0)
        index += MIGRATE_OPTIONS.get(word, 0)
    return range(0) if spec.takes_rest else range(spec.first, spec.last + 1)


def _position_after_last(keyword: bytes, argv: list[bytes]) -> range:
    """Where the word after the last keyword of SORT is; none if the keyword is missing, or is the last word."""
    found = range(0)
    index = 2
    while index < len(argv):
        word = argv[index].upper()
        if word == keyword and index + 1 < len(argv):
            found = range(index + 1, index + 2)
            index += 1
        index += 1 + SORT_OPTIONS.get(word, 0)
    return found


def access_names(spec: KeySpec) -> list[str]:
    """The key-spec flags as COMMAND INFO prints them."""
    names = [name if name in ACCESS_KINDS else name.lower() for name in spec.access]
    if spec.keyword is not None and not spec.is_unknown and "incomplete" not in names:
        names.append("incomplete")
    return names


def access_of(spec: KeySpec, argv: list[bytes]) -> list[str]:
    """The access of this request to the keys of a spec."""
    names = [name for name in access_names(spec) if name != "incomplete"]
    if VARIABLE not in names:
        return names
    if "delete" in names:
        return ["RM" if CONDITIONS.isdisjoint(map(bytes.upper, argv[2:])) else "RW", "delete"]
    if spec.has_bit_fields:
        return ["RO", "access"] if _only_reads_fields(argv) else ["RW", "access", "update"]
    options = {word.upper() for word in argv[3:]}
    if b"GET" in options:
        return ["RW", "access", "update"]
    return ["RW" if options & CONDITIONS else "OW", "update"]


def _only_reads_fields(argv: list[bytes]) -> bool:
    """Whether a BITFIELD has no operation but GET. OVERFLOW alone writes nothing."""
    index = 2
    while index < len(argv):
        arguments_count = _READING_FIELDS.get(argv[index].upper())
        if arguments_count is None or index + arguments_count >= len(argv):
            return False
        index += arguments_count + 1
    return True


def key_range(specs: tuple[KeySpec, ...]) -> tuple[int, int, int]:
    """First key, last key and step for old clients: one range over all specs; 0 0 0 if none is fixed."""
    fixed = [spec for spec in specs if spec.keyword is None and spec.count_at is None and not spec.is_unknown]
    if not fixed:
        return 0, 0, 0
    first, last = min(spec.first for spec in fixed), fixed[-1].last
    return first, last, fixed[0].step
