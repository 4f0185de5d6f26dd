"""Readers find the words of a record where its writer has put them."""

from __future__ import annotations

import pytest

from headrace.persistence.grammar import forms, streams
from headrace.persistence.grammar.forms import Form
from headrace.protocol.reader import RequestReader


def words_of(record: bytes) -> list[bytes]:
    (words,) = RequestReader().feed(record)
    return words


BASE_CLAIM = streams.pack_base_claim(b"s", b"g", b"c", [b"1-1", b"2-1"], 7, 3)
CLAIM = streams.pack_claim(b"s", b"g", b"c", b"$3\r\n1-1\r\n$3\r\n2-1\r\n", 2, 7, 3, b"0-0")
RELEASE = streams.pack_released(b"s", b"g", [b"1-1", b"2-1"], 3)


@pytest.mark.parametrize(
    ("form", "record"),
    [
        (forms.XADD, streams.pack_placeholder(b"s", b"1-1")),
        (forms.XCLAIM, BASE_CLAIM),
        (forms.XCLAIM, CLAIM),
        (forms.XACK, streams.pack_acknowledged(b"s", b"g", b"1-1")),
        (forms.XDEL, streams.pack_deleted(b"s", [b"1-1"])),
        (forms.XNACK, RELEASE),
        (forms.XTRIM, streams.pack_length(b"s", 4)),
        (forms.XGROUP, streams.pack_group(b"s", b"g", b"1-1", 0)),
        (forms.XGROUP, streams.pack_consumer(b"s", b"g", b"c")),
    ],
)
def test_key_group_consumer_and_first_id_are_at_their_places(form: Form, record: bytes) -> None:
    words = words_of(record)
    assert len(words) >= form.words_min
    expected = {form.key_at: b"s", form.group_at: b"g", form.consumer_at: b"c", form.ids_at: b"1-1"}
    expected.pop(0, None)
    assert {place: words[place] for place in expected} == expected


@pytest.mark.parametrize("record", [BASE_CLAIM, CLAIM])
def test_time_and_count_of_a_claim_follow_its_ids(record: bytes) -> None:
    words = words_of(record)
    ids_end = forms.XCLAIM.ids_at + 2
    time_at, count_at = ids_end + forms.CLAIM_TIME_AFTER, ids_end + forms.CLAIM_COUNT_AFTER
    assert words[time_at : time_at + 2] == [b"TIME", b"7"]
    assert words[count_at : count_at + 2] == [b"RETRYCOUNT", b"3"]


def test_a_release_has_its_mode_its_ids_and_its_count() -> None:
    words = words_of(RELEASE)
    assert words[forms.XNACK_MODE_AT] == b"FAIL"
    assert forms.numbered_ids(words) == [b"1-1", b"2-1"]
    assert forms.released_count(words) == 3
    assert forms.released_count(b"XNACK s RETRYCOUNT FAIL IDS 1 1-1".split()) is None


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("XTRIM s MAXLEN 5", (b"MAXLEN", b"5")),
        ("XTRIM s minid ~ 5-1 LIMIT 9", (b"MINID", b"5-1")),
        ("XTRIM s MINID = 2-0 ACKED", (b"MINID", b"2-0")),
    ],
)
def test_a_trim_has_its_strategy_and_its_threshold(line: str, found: tuple[bytes, bytes]) -> None:
    assert forms.trim_threshold(line.encode().split()) == found


@pytest.mark.parametrize(
    ("record", "found"),
    [
        (streams.pack_group(b"s", b"g", b"9-0", 4), ("create", b"9-0", None)),
        (streams.pack_position(b"s", b"g", b"9-0", b"4"), ("setid", b"9-0", None)),
        (streams.pack_consumer(b"s", b"g", b"c"), ("createconsumer", None, b"c")),
    ],
)
def test_an_xgroup_has_an_id_or_a_consumer(record: bytes, found: tuple[str, bytes | None, bytes | None]) -> None:
    assert forms.group_action(words_of(record)) == found


def test_an_xgroup_destroy_has_neither() -> None:
    assert forms.group_action([b"XGROUP", b"DESTROY", b"s", b"g"]) == ("destroy", None, None)
