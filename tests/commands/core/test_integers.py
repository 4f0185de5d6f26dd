"""Integers in arguments, in both forms: one spelling each, as in Redis."""

from __future__ import annotations

import random
from typing import Any

import pytest

from headrace.commands.core import integers_plain
from headrace.commands.core.int64 import INT64_MAX, INT64_MIN

try:
    from headrace.commands.core import integers
except ImportError:  # there was no C compiler at installation
    integers = integers_plain  # type: ignore[assignment]

FORMS = [integers, integers_plain]
EDGES = [0, 1, 9, 10, 10**17, 10**18 - 1, 10**18, INT64_MAX - 1, INT64_MAX]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("number", [*EDGES, *(-edge for edge in EDGES), INT64_MIN])
def test_a_printed_integer_is_read(form: Any, number: int) -> None:
    assert form.parse_integer(b"%d" % number) == number


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "token",
    [
        b"", b"-", b"+1", b"-0", b"00", b"007", b"-07", b" 1", b"1 ", b"1_0", b"1.0", b"1e3", b"0x1", b"a", b"\0",
        b"9223372036854775808", b"-9223372036854775809", b"9999999999999999999", b"10000000000000000000", b"1" * 40,
        b"1\0", b"\xd9\xa1",
    ],
)  # fmt: skip
def test_any_other_spelling_is_none(form: Any, token: bytes) -> None:
    assert form.parse_integer(token) is None


@pytest.mark.parametrize("seed", range(3))
def test_both_forms_agree(seed: int) -> None:
    source = random.Random(seed)
    for _ in range(3000):
        token = bytes(source.choices(b"-+0123456789 _.", k=source.randrange(23)))
        assert integers.parse_integer(token) == integers_plain.parse_integer(token), token
        number = source.randrange(INT64_MIN * 2, INT64_MAX * 2) >> source.randrange(64)
        token = b"%d" % number
        assert integers.parse_integer(token) == integers_plain.parse_integer(token), token


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("tokens", "numbers"),
    [
        ([], []),
        ([b"0", b"7"], [0, 7]),
        ([b"007", b"9" * 18], [7, 10**18 - 1]),
        ([b"1", b"9" * 19], None),
        ([b"1", b""], None),
        ([b"-1"], None),
        ([b"1 "], None),
    ],
)
def test_plain_numbers_are_read_together(form: Any, tokens: list[bytes], numbers: list[int] | None) -> None:
    assert form.plain_numbers([b"name", b"key", *tokens], 2, 1) == numbers
    with_values = [b"name", b"key", *(part for token in tokens for part in (token, b"value"))]
    assert form.plain_numbers(with_values, 2, 2) == numbers


def test_what_is_no_bytes_is_our_bug() -> None:
    with pytest.raises(TypeError):
        integers.parse_integer("1")  # type: ignore[arg-type]
