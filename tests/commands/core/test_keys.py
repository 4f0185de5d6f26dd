"""The keys among the words of a request."""

from __future__ import annotations

import pytest

from headrace.commands import registry
from headrace.commands.core.keys import access_of, find_keys, key_range
from headrace.commands.core.lookup import find_row
from headrace.commands.core.table import KeySpec, Row

assert registry.FAMILIES


def row_with(*specs: KeySpec) -> Row:
    """A row that has only keys."""
    return Row("TEST", -1, None, keys=specs)


@pytest.mark.parametrize(
    ("request_text", "keys"),
    [
        ("XADD s * f v", ["s"]),
        ("XLEN s", ["s"]),
        ("WATCH a b c", ["a", "b", "c"]),
        ("XGROUP CREATE s g 0", ["s"]),
        ("XINFO STREAM s", ["s"]),
        ("XREAD STREAMS a b 0 0", ["a", "b"]),
        ("xread count 1 block 0 maxcount 5 maxsize 9 streams a 0", ["a"]),
        ("XREAD COUNT STREAMS STREAMS a 0", ["a"]),
        ("XREADGROUP GROUP STREAMS STREAMS STREAMS a b 0 0", ["a", "b"]),
        ("XREADGROUP GROUP g c CLAIM 5 NOACK STREAMS a >", ["a"]),
        ("XREAD STREAMS a b 0", []),
        ("XREAD COUNT 1 a b", []),
        ("XREAD COUNT 2 BLOCK 0", []),
        ("XREADGROUP GROUP g c x STREAMS a >", []),
    ],
)
def test_keys_are_found(request_text: str, keys: list[str]) -> None:
    argv = request_text.encode().split()
    assert [key.decode() for key, _ in find_keys(find_row(argv), argv)] == keys


def test_last_key_may_count_from_the_end() -> None:
    argv = [b"TEST", b"a", b"1", b"b", b"2"]
    assert [key for key, _ in find_keys(row_with(KeySpec(1, -1, 2)), argv)] == [b"a", b"b"]
    assert [key for key, _ in find_keys(row_with(KeySpec(1, -2, 1)), argv)] == [b"a", b"1", b"b"]


def test_old_clients_see_one_range_over_all_specs() -> None:
    assert key_range((KeySpec(1, 1, 1), KeySpec(2, 2, 1))) == (1, 2, 1)
    assert key_range((KeySpec(1, -1, 2),)) == (1, -1, 2)
    assert key_range((KeySpec(0, 0, 0, keyword=b"STREAMS", start=1),)) == (0, 0, 0)
    assert key_range(()) == (0, 0, 0)


@pytest.mark.parametrize(
    ("words", "only_reads"),
    [
        ("", True),
        ("GET u8 0 get u8 8", True),
        ("OVERFLOW SAT GET u8 0", True),
        ("GET u8 0 SET u8 0 1", False),
        ("INCRBY u8 0 1", False),
        ("GET u8", False),
        ("OVERFLOW", False),
        ("OTHER", False),
    ],
)
def test_bitfield_only_reads_if_it_has_only_get(words: str, only_reads: bool) -> None:
    spec = KeySpec(1, 1, 1, ("RW", "access", "update", "variable_flags"), has_bit_fields=True)
    access = ["RO", "access"] if only_reads else ["RW", "access", "update"]
    assert access_of(spec, [b"BITFIELD", b"k", *words.encode().split()]) == access


def test_set_reads_only_with_get() -> None:
    spec = KeySpec(1, 1, 1, ("RW", "ACCESS", "UPDATE", "VARIABLE_FLAGS"))
    assert access_of(spec, [b"SET", b"GET", b"get2"]) == ["OW", "update"]
    assert access_of(spec, [b"SET", b"k", b"v", b"get"]) == ["RW", "access", "update"]
