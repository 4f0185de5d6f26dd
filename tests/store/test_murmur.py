"""The hash function of HyperLogLogs."""

from __future__ import annotations

import pytest

from headrace.store.murmur import murmur64


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (b"", 0xD8DFEA6585BC9732),
        (b"a", 0x53D2470A9B43B1A7),
        (b"1234567", 0x85563DB163632857),
        (b"12345678", 0x95EBB86389132953),
        (b"123456789", 0x217532CB09F2A44D),
        (b"x" * 1000, 0xEB7BEB1A0289EBFA),
        (bytes(range(256)), 0x595202C04F157049),
    ],
)
def test_hashes_are_those_of_redis(text: bytes, found: int) -> None:
    assert murmur64(text) == found
