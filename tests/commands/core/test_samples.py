"""Samples are of the first members and of all parts, or there are none."""

from __future__ import annotations

import pytest

from headrace.commands.core.samples import samples


@pytest.mark.parametrize("size", [1, 63, 64, 65, 500, 100_000])
@pytest.mark.parametrize("wanted", [1, 2, 15, 1_000, 1_001, 1 << 62])
def test_samples_are_of_the_first_members_and_of_all_parts(size: int, wanted: int) -> None:
    found = samples(size, wanted)
    if size < 64 * wanted or wanted > 1_000:
        assert found == []
        return
    first, spread = found
    assert first == list(range(2 * wanted))
    assert 2 * wanted <= len(spread) <= 3 * wanted
    assert spread[0] == 0
    gaps = [after - before for before, after in zip(spread, [*spread[1:], size], strict=True)]
    assert max(gaps) == gaps[0] == size // (2 * wanted)
