"""Doubles as Redis prints them: both forms print the same texts, which read back as the same doubles."""

from __future__ import annotations

import math
import struct
from random import Random
from types import ModuleType

import pytest

from headrace.protocol import double_texts_plain

try:
    from headrace.protocol import double_texts
except ImportError:
    double_texts = None  # type: ignore[assignment]

FORMS = [double_texts_plain, *([double_texts] if double_texts is not None else [])]
SEED = 20

EDGES = [
    0.0, -0.0, 1.0, -1.0, 0.1, 1 / 3, 1e7, 1e8, 1e21, 1e22, 1e23, 5e-324, 2.2250738585072014e-308,
    1.7976931348623157e308, 123456789012345680.0, 2.0**53, 2.0**62, 2.0**62 + 1024, 2.0**63, 1e-6, 1.5e-7, 1e-4, 0.001,
    math.inf, -math.inf,
]  # fmt: skip


def doubles() -> list[float]:
    """Those at the limits, and random ones of all sizes."""
    random = Random(SEED)
    found = list(EDGES)
    for _ in range(5000):
        (bits,) = struct.unpack("<d", random.randbytes(8))
        found += [bits, random.random() * 10 ** random.randint(-10, 20), random.randint(-(10**6), 10**6) / 2]
        found.append(round(random.uniform(-1000, 1000), random.randint(0, 6)))
    return found


@pytest.mark.parametrize("form", FORMS)
def test_texts_read_back_as_the_same_doubles(form: ModuleType) -> None:
    for number in doubles():
        for text in (form.double_text(number), form.shortest_text(number)):
            assert repr(float(text)) == repr(number) or math.isnan(number)


def test_both_forms_print_the_same() -> None:
    for number in doubles():
        assert len({form.double_text(number) for form in FORMS}) == 1, number
        assert len({form.shortest_text(number) for form in FORMS}) == 1, number


@pytest.mark.parametrize("form", FORMS)
def test_what_is_no_number_has_a_name(form: ModuleType) -> None:
    assert [form.double_text(number) for number in (math.nan, -math.nan, math.inf, -math.inf)] == [
        b"nan", b"nan", b"inf", b"-inf",
    ]  # fmt: skip
