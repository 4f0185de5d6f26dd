"""IDs to and from text, alike in both forms."""

from __future__ import annotations

from types import ModuleType

import pytest

from headrace.store import id_codec_plain
from headrace.store.ids import U64_MAX, make_id

try:
    from headrace.store import id_codec
except ImportError:
    id_codec = None  # type: ignore[assignment]

FORMS = [id_codec_plain, *([id_codec] if id_codec is not None else [])]
HALVES = [
    0,
    1,
    9,
    10,
    99,
    2**18 - 1,
    2**18,
    2**31,
    2**32,
    1_700_000_000_000,
    2**48 - 1,
    2**48,
    2**60,
    10**18,
    10**19 - 1,
    2**63,
    U64_MAX - 1,
    U64_MAX,
]


@pytest.mark.parametrize("form", FORMS)
def test_what_is_written_is_read(form: ModuleType) -> None:
    for ms in HALVES:
        for seq in HALVES:
            text = form.format_id(make_id(ms, seq))
            assert text == b"%d-%d" % (ms, seq)
            has_short_numbers = max(ms, seq) < 10**19
            assert form.read_id(text) == (make_id(ms, seq) if has_short_numbers else None)
            assert form.read_ids([b"s", text, text], 1) == ([make_id(ms, seq)] * 2 if has_short_numbers else None)
        assert form.read_id(b"%d" % ms, seq) == (make_id(ms, seq) if ms < 10**19 else None)
    assert form.read_id(b"5") == make_id(5, 0)
    assert form.read_ids([b"5", b"6-1"], 0) == [make_id(5, 0), make_id(6, 1)]


@pytest.mark.parametrize("form", FORMS)
def test_bulk_strings_of_ids_are_consecutive(form: ModuleType) -> None:
    ids = [make_id(ms, seq) for ms in HALVES for seq in HALVES]
    texts = [form.format_id(entry_id) for entry_id in ids]
    assert form.bulk_ids(ids) == b"".join(b"$%d\r\n%b\r\n" % (len(text), text) for text in texts)
    assert form.bulk_ids([]) == b""


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("token", [b"", b"-", b"5-", b"-5", b"5-5-5", b"+5", b" 5", b"5-+", b"5\0", b"a", b"1" * 20])
def test_what_is_not_plain_is_left_to_others(form: ModuleType, token: bytes) -> None:
    assert form.read_id(token) is None
    assert form.read_ids([b"1-1", token], 0) is None


@pytest.mark.skipif(id_codec is None, reason="not compiled")
def test_what_is_no_id_is_refused_in_c() -> None:
    for number in (-1, make_id(U64_MAX + 1, 0), make_id(0, U64_MAX + 1)):
        with pytest.raises(OverflowError):
            id_codec.format_id(number)
