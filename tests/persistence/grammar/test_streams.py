"""The words of each record of a stream, in the order in which Redis 8.10.2 writes them."""

from __future__ import annotations

import pytest

from headrace.persistence.grammar import streams
from headrace.protocol.packing import pack_command

RECORDS = [
    (streams.pack_acknowledged(b"s", b"g", b"1-1"), "XACK s g 1-1"),
    (streams.pack_acked_trim(b"s", b"2-0"), "XTRIM s MINID = 2-0 ACKED"),
    (
        streams.pack_base_claim(b"s", b"g", b"c", [b"1-1", b"2-1"], 7, 3),
        "XCLAIM s g c 0 1-1 2-1 TIME 7 RETRYCOUNT 3 JUSTID FORCE",
    ),
    (
        streams.pack_claim(b"s", b"g", b"c", b"$3\r\n1-1\r\n$3\r\n2-1\r\n", 2, 7, 3, b"0-0"),
        "XCLAIM s g c 0 1-1 2-1 TIME 7 RETRYCOUNT 3 FORCE JUSTID LASTID 0-0",
    ),
    (streams.pack_consumer(b"s", b"g", b"c"), "XGROUP CREATECONSUMER s g c"),
    (streams.pack_counters(b"s", b"9-0", 12, b"8-0"), "XSETID s 9-0 ENTRIESADDED 12 MAXDELETEDID 8-0"),
    (streams.pack_deleted(b"s", [b"1-1", b"2-1"]), "XDEL s 1-1 2-1"),
    (streams.pack_empty_stream(b"s"), "XADD s MAXLEN 0 0-1 x y"),
    (streams.pack_group(b"s", b"g", b"9-0", -1), "XGROUP CREATE s g 9-0 ENTRIESREAD -1"),
    (streams.pack_length(b"s", 4), "XTRIM s MAXLEN = 4"),
    (streams.pack_pair(b"s", b"p", b"i", b"1-1"), "XIDMPRECORD s p i 1-1"),
    (streams.pack_position(b"s", b"g", b"9-0", b"4"), "XGROUP SETID s g 9-0 ENTRIESREAD 4"),
    (streams.pack_released(b"s", b"g", [b"1-1", b"2-1"], 3), "XNACK s g FAIL IDS 2 1-1 2-1 RETRYCOUNT 3 FORCE"),
    (streams.pack_settings(b"s", 60, 7), "XCFGSET s IDMP-DURATION 60 IDMP-MAXSIZE 7"),
]


@pytest.mark.parametrize(("record", "line"), RECORDS, ids=[line for _, line in RECORDS])
def test_record_has_its_words_in_the_order_of_redis(record: bytes, line: str) -> None:
    assert record == pack_command(line.encode().split())


def test_placeholder_is_an_entry_with_an_empty_field_and_value() -> None:
    assert streams.pack_placeholder(b"s", b"1-1") == pack_command((b"XADD", b"s", b"1-1", b"", b""))


@pytest.mark.parametrize(
    ("line", "threshold_at", "exact"),
    [
        ("XTRIM s MAXLEN ~ 100", 4, "XTRIM s MAXLEN = 7"),
        ("xadd s NOMKSTREAM maxlen ~ 100 LIMIT 5 1-1 f v", 5, "xadd s NOMKSTREAM maxlen = 7 LIMIT 5 1-1 f v"),
    ],
)
def test_exact_trim_leaves_all_words_but_operator_and_threshold(line: str, threshold_at: int, exact: str) -> None:
    assert streams.exact_trim(line.encode().split(), threshold_at, b"7") == exact.encode().split()


def test_xadd_without_options_keeps_its_pair_of_idempotence() -> None:
    words = b"xadd s NOMKSTREAM IDMPAUTO p ACKED MAXLEN = 5 1-1 f v".split()
    assert streams.without_options(words, 9, b"p", b"i") == b"xadd s IDMP p i 1-1 f v".split()
    assert streams.without_options(words, 9, None, b"") == b"xadd s 1-1 f v".split()
