"""Records of streams are packed alike in both forms, and as their words would be."""

from __future__ import annotations

import os
import random
from array import array
from itertools import accumulate
from types import ModuleType

import pytest

from headrace.persistence.grammar import codec_plain, streams
from headrace.protocol.packing import pack_command

try:
    from headrace.persistence.grammar import codec
except ImportError:
    codec = None  # type: ignore[assignment]

FORMS = [codec_plain, *([codec] if codec is not None else [])]


def test_the_compiled_form_is_used_where_it_was_built() -> None:
    if os.environ.get("HEADRACE_REQUIRE_COMPILED") or codec is not None:
        assert streams.pack_added is codec.pack_added
        assert streams.record_splitter is codec.record_splitter
    else:
        assert streams.pack_added is codec_plain.pack_added


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("pairs_count", [2, 4, 8, 10, 100, 1000])
def test_an_added_entry_is_its_reply_and_its_record(form: ModuleType, pairs_count: int) -> None:
    pairs = [b"%d" % 7**index for index in range(pairs_count)]
    for before in ([b"*"], [b"IDMP", b"p", b"i", b"*"]):
        argv = [b"xadd", b"key", *before, *pairs]
        id_bulk, entry, record = form.pack_added(argv, 1 + len(before), 2 + len(before), 5, 1)
        assert id_bulk == b"$3\r\n5-1\r\n"
        assert record == pack_command([*argv[: 1 + len(before)], b"5-1", *pairs])
        assert entry == b"*2\r\n$3\r\n5-1\r\n" + pack_command(pairs)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("number", [0, 9, 10, 1_700_000_000_000, 2**63 - 1])
def test_what_is_logged_of_a_group_is_what_its_words_would_be(form: ModuleType, number: int) -> None:
    for key, ids in ((b"", [b"1-1"]), (b"k" * 1000, [b"1-1", b"18446744073709551615-18446744073709551615"] * 60)):
        digits = b"%d" % number
        bulk_ids = b"".join(b"$%d\r\n%b\r\n" % (len(each), each) for each in ids)
        claim = [b"XCLAIM", key, b"g\r\n", b"", b"0", *ids, b"TIME", digits, b"RETRYCOUNT", digits, b"FORCE", b"JUSTID"]
        record = form.pack_claim(key, b"g\r\n", b"", bulk_ids, len(ids), number, number, b"7-0")
        assert record == pack_command([*claim, b"LASTID", b"7-0"])
        position = [b"XGROUP", b"SETID", key, b"g", b"7-0", b"ENTRIESREAD", digits]
        assert form.pack_position(key, b"g", b"7-0", digits) == pack_command(position)


@pytest.mark.parametrize("form", FORMS)
def test_entries_of_a_chunk_become_the_records_that_add_them(form: ModuleType) -> None:
    rnd = random.Random(7)
    commands, entries = [], []
    for number in range(60):
        pairs = [rnd.choice([b"", b"\r\n*2", b"v" * rnd.randrange(2000)]) for _ in range(2 * rnd.choice([1, 3, 4, 50]))]
        argv = [b"XADD", b"a \r\nkey", b"%d-%d" % (10 ** (number // 4), number), *pairs]
        entries.append(form.pack_added(argv, 2, 3, 10 ** (number // 4), number)[1])
        commands.append(pack_command(argv))
    for low, high in [(0, 60), (0, 1), (59, 60), (7, 31)]:
        ends = array("Q", accumulate(map(len, entries[low:high])))
        assert form.pack_adds(b"a \r\nkey", b"".join(entries[low:high]), ends) == b"".join(commands[low:high])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("data", [b"*2\r\n$", b"*2\r\n$3\r\n1-1\r\n", b"*2\r\n$3\r\n1-1\r\n*x\r\n"])
def test_what_is_no_entry_makes_no_record(form: ModuleType, data: bytes) -> None:
    with pytest.raises(ValueError, match=r"no entry|not found|invalid literal"):
        form.pack_adds(b"s", data, array("Q", [len(data)]))


@pytest.mark.skipif(codec is None, reason="not compiled")
def test_no_entry_is_read_beyond_the_data() -> None:
    for ends in ([17, 99], []):
        with pytest.raises(ValueError, match="no such entries"):
            codec.pack_adds(b"s", b"*2\r\n$3\r\n1-1\r\n*0\r\n", array("Q", ends))
    assert codec.pack_adds(b"s", b"*2\r\n$3\r\n1-1\r\n*0\r\n", array("Q", [17]))
    with pytest.raises(ValueError, match="no entry"):
        codec.pack_adds(b"s", b"*2\r\n$99\r\n1-1\r\n*2\r\n", array("Q", [18]))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("ms", [0, 9, 10, 1_700_000_000_000, 2**63, 2**64 - 1])
@pytest.mark.parametrize("seq", [0, 99, 100, 2**64 - 1])
def test_an_added_entry_has_its_id_in_all_three_places(form: ModuleType, ms: int, seq: int) -> None:
    text = b"%d-%d" % (ms, seq)
    id_bulk, entry, record = form.pack_added([b"XADD", b"s", b"*", b"f", b"v"], 2, 3, ms, seq)
    assert id_bulk == b"$%d\r\n%b\r\n" % (len(text), text)
    assert entry == b"*2\r\n" + id_bulk + pack_command([b"f", b"v"])
    assert record == pack_command([b"XADD", b"s", text, b"f", b"v"])


@pytest.mark.skipif(codec is None, reason="not compiled")
@pytest.mark.parametrize("words", [["text"], [b"a", 5], [None], [bytearray(b"a")]])
def test_only_bytes_are_packed(words: list[object]) -> None:
    with pytest.raises(TypeError):
        codec.pack_added([b"XADD", b"s", b"*", *words], 2, 3, 5, 1)
    for pair in ((b"key", *words[-1:]), (*words[-1:], b"value")):
        with pytest.raises(TypeError):
            codec.pack_strings([pair], 0, {})


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("size", [0, 9, 100, 5000, 40_000])
def test_strings_are_records_with_their_expiry_times_in_pieces(form: ModuleType, size: int) -> None:
    pairs = [(b"%d" % number, b"v" * size) for number in range(40)]
    expires = {key: -(7**number) for number, (key, _) in enumerate(pairs[:20])}
    expected = []
    for key, value in pairs:
        expected.append(pack_command([b"SET", key, value]))
        if key in expires:
            expected.append(pack_command([b"PEXPIREAT", key, b"%d" % expires[key]]))
    index, pieces = 0, []
    while index < len(pairs):
        piece, index = form.pack_strings(pairs, index, expires)
        pieces.append(piece)
    assert b"".join(pieces) == b"".join(expected)
    assert all(len(piece) < 16 * 1024 + size + 200 for piece in pieces)
    assert [form.pack_strings(pairs, 3, each) for each in ({}, expires)] == [
        codec_plain.pack_strings(pairs, 3, each) for each in ({}, expires)
    ]
    assert form.pack_strings([], 0, {}) == (b"", 0)
