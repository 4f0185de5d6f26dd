"""Maps with fixed fields are encoded alike in both forms, and as the encoder encodes a dict."""

from __future__ import annotations

import os
import random
from types import ModuleType

import pytest

from headrace.protocol import map_forms_plain, maps
from headrace.protocol.encoder import ENCODERS

try:
    from headrace.protocol import map_forms
except ImportError:
    map_forms = None  # type: ignore[assignment]

FORMS = [map_forms_plain, *([map_forms] if map_forms is not None else [])]
NAMES = (b"name", b"", b"a-long-name", b"last")
INTEGERS = [0, -1, 9, 10, -10, 2**31, 2**63 - 1, -(2**63), 2**63, 2**64 + 5, -(2**65)]


def test_the_compiled_form_is_used_where_it_was_built() -> None:
    is_compiled = os.environ.get("HEADRACE_REQUIRE_COMPILED") or map_forms is not None
    assert maps.MapForm is (map_forms if is_compiled else map_forms_plain).MapForm


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("form", FORMS)
def test_maps_are_encoded_as_dicts_are(form: ModuleType, protocol: int) -> None:
    seed = random.randrange(2**32)
    rnd = random.Random(seed)
    subject = form.MapForm(protocol, NAMES)
    for rows_count in (0, 1, 2, 100):
        rows = [tuple(_value(rnd) for _ in NAMES) for _ in range(rows_count)]
        expected: list[bytes] = []
        for row in rows:
            ENCODERS[protocol](dict(zip(NAMES, row, strict=True)), expected)
        assert subject.encode(rows) == b"".join(expected), f"seed {seed}"
        assert subject.encode_array(rows) == b"*%d\r\n%b" % (rows_count, b"".join(expected)), f"seed {seed}"


def _value(rnd: random.Random) -> object:
    kinds = [
        rnd.randbytes(rnd.choice([0, 1, 9, 10, 1000])),
        rnd.choice(INTEGERS),
        None,
        (b":1\r\n",),
        (b"*0", b"\r\n"),
        (),
    ]
    return rnd.choice(kinds)


@pytest.mark.parametrize("form", FORMS)
def test_the_header_counts_the_fields_that_follow(form: ModuleType) -> None:
    assert form.MapForm(2, (b"a",), 2).encode([(1,)]) == b"*6\r\n$1\r\na\r\n:1\r\n"
    assert form.MapForm(3, (b"a",), 2).encode([(1,)]) == b"%3\r\n$1\r\na\r\n:1\r\n"


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("row", "error"),
    [
        ((1,), ValueError),
        ((1, 2, 3), ValueError),
        (("a", 1), TypeError),
        ((1.5, 1), TypeError),
        ((1, 10**22), OverflowError),
    ],
)
def test_a_row_that_is_no_map_is_an_error(form: ModuleType, row: tuple[object, ...], error: type[Exception]) -> None:
    with pytest.raises(error):
        form.MapForm(2, (b"a", b"b")).encode([row])
