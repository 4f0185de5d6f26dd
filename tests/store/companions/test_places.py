"""Places are ordered as Redis orders members, and give back their members and scores, in both forms."""

from __future__ import annotations

import math
import struct
from random import Random
from typing import Any

import pytest

from headrace.store.companions import places_plain

try:
    from headrace.store.companions import places
except ImportError:  # there was no C compiler at installation
    places = places_plain  # type: ignore[assignment]

FORMS = [places, places_plain]
SEED = 24
SCORES = [0.0, -0.0, 1.0, -1.0, 1.5, 5e-324, -5e-324, 1.7976931348623157e308, math.inf, -math.inf, 2.0**53, -(2.0**53)]


def scores(count: int) -> list[float]:
    draw = Random(SEED)
    drawn = [struct.unpack("<d", draw.randbytes(8))[0] for _ in range(count)]
    return SCORES + [score for score in drawn if not math.isnan(score)]


@pytest.mark.parametrize("form", FORMS)
def test_places_are_ordered_by_score_and_then_by_member(form: Any) -> None:
    pairs = [(score + 0.0, member) for score in scores(500) for member in (b"", b"a", b"a\0", b"b")]
    found = sorted(form.place_of(score, member) for score, member in pairs)
    assert [(score, member) for member, score in form.scored_of(found)] == sorted(pairs)
    assert [form.score_of(place) for place in found] == [score for score, _ in sorted(pairs)]


@pytest.mark.parametrize("form", FORMS)
def test_both_forms_make_the_same_places(form: Any) -> None:
    for score in scores(500):
        assert form.place_of(score, b"member") == places_plain.place_of(score, b"member")
        assert form.score_bytes(score) + b"member" == form.place_of(score, b"member")
        assert form.place_of(score, b"\xff" * 20) < form.bytes_after(score)
        assert score == math.inf or form.bytes_after(score) <= form.score_bytes(math.nextafter(score, math.inf))
    assert form.score_bytes(-0.0) == form.score_bytes(0.0)


@pytest.mark.parametrize("form", FORMS)
def test_what_is_too_short_for_a_place_is_refused(form: Any) -> None:
    for call in (lambda: form.score_of(b"short"), lambda: form.scored_of([b"1234567"])):
        with pytest.raises(ValueError, match=r"short|1234567|b"):
            call()
