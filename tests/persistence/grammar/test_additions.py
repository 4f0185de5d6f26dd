"""Requests that are kept as they were sent: which ones, and that nothing is lost of them. Alike in both forms."""

from __future__ import annotations

import random
from collections.abc import Callable
from types import ModuleType

import pytest

from headrace.persistence.grammar import codec_plain
from headrace.persistence.grammar.kept import ADDITION
from headrace.persistence.grammar.streams import addition_splitter
from headrace.protocol.packing import pack_command, splitter
from headrace.protocol.reader import RequestReader
from headrace.protocol.requests import Split
from headrace.store.ids import U64_MAX

try:
    from headrace.persistence.grammar import codec
except ImportError:
    codec = None  # type: ignore[assignment]

FORMS = [codec_plain, *([codec] if codec is not None else [])]
BULK_SIZE_MAX = 1000

KEPT = (
    (b"XADD", b"s", b"*", b"f", b"v"),
    (b"xadd", b"", b"*", b"", b"\r\n$1\r\n*\r\n", b"g", b"w" * 300),
    (b"XADD", b"MAXLEN", b"MAXLEN", b"~", b"0", b"*", b"f", b"v"),
    (b"XADD", b"s" * 100, b"maxlen", b"~", b"123456789012345678", b"*", b"*", b"*"),
)
NOT_KEPT = (
    (b"XADD", b"s", b"*", b"f"),
    (b"XADD", b"s", b"*"),
    (b"XADD", b"s", b"1-1", b"f", b"v"),
    (b"Xadd", b"s", b"*", b"f", b"v"),
    (b"XADD", b"s", b"MAXLEN", b"=", b"5", b"*", b"f", b"v"),
    (b"XADD", b"s", b"MAXLEN", b"~", b"05", b"*", b"f", b"v"),
    (b"XADD", b"s", b"MAXLEN", b"~", b"5x", b"*", b"f", b"v"),
    (b"XADD", b"s", b"MAXLEN", b"~", b"", b"*", b"f", b"v"),
    (b"XADD", b"s", b"MAXLEN", b"~", b"1234567890123456789", b"*", b"f", b"v"),
    (b"XADD", b"s", b"MAXLEN", b"~", b"5", b"*", b"f"),
    (b"XADD", b"s", b"NOMKSTREAM", b"*", b"f", b"v", b"g"),
    (b"SET", b"k", b"*", b"f", b"v"),
)


def kept(words: tuple[bytes, ...]) -> list[bytes]:
    """What a reader that keeps additions makes of a request."""
    is_capped = words[2] in (b"MAXLEN", b"maxlen")
    return [ADDITION, words[1], pack_command(words), words[4] if is_capped else b""]


@pytest.mark.skipif(codec is None, reason="the compiled twin is not here")
def test_plain_additions_are_kept_as_they_were_sent_and_nothing_else_is() -> None:
    split = codec.addition_splitter()
    for words in KEPT:
        assert split(pack_command(words), BULK_SIZE_MAX)[0] == [kept(words)]
    for words in NOT_KEPT:
        assert split(pack_command(words), BULK_SIZE_MAX)[0] == [list(words)]


@pytest.mark.parametrize("make_splitter", [addition_splitter, splitter])
def test_the_words_are_the_same_however_the_bytes_arrive(make_splitter: Callable[[], Split]) -> None:
    seed = random.randrange(2**32)
    rnd = random.Random(seed)
    for _ in range(200):
        sent = [rnd.choice(KEPT + NOT_KEPT) for _ in range(rnd.randrange(1, 6))]
        data = b"".join(map(pack_command, sent))
        reader = RequestReader(split=make_splitter())
        received = []
        while data:
            size = rnd.randrange(1, len(data) + 1)
            received += reader.feed(data[:size])
            data = data[size:]
        for form in FORMS:
            assert [form.words_of(request) for request in received] == [list(words) for words in sent], f"seed {seed}"


@pytest.mark.skipif(codec is None, reason="the compiled twin is not here")
def test_an_addition_too_large_or_of_another_form_is_left_to_the_careful_parser() -> None:
    split = codec.addition_splitter()
    whole = pack_command(KEPT[0])
    assert split(whole + pack_command(KEPT[1]), 299) == ([kept(KEPT[0])], len(whole))
    for size in range(len(whole)):
        assert split(whole + whole[:size], BULK_SIZE_MAX) == ([kept(KEPT[0])], len(whole))
    for wrong in (b"$01\r\nv\r\n", b"$1\r\nv\n\r", b"+v\r\n", b"$-1\r\n"):
        assert split(whole.removesuffix(b"$1\r\nv\r\n") + wrong, BULK_SIZE_MAX) == ([], 0)


def test_no_client_can_send_the_mark() -> None:
    assert ADDITION != b"XADD"
    assert b"XADD" not in {ADDITION: 1}
    request = [b"XADD", b"s", b"*2\r\n", b""]
    assert RequestReader(split=addition_splitter()).feed(pack_command(request)) == [request]
    assert all(form.words_of(request) is request for form in FORMS)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("halves", [(0, 1), (1_700_000_000_000, 7), (U64_MAX, U64_MAX)])
def test_entry_and_record_are_those_of_the_words(form: ModuleType, halves: tuple[int, int]) -> None:
    for words in KEPT:
        request = kept(words)
        id_at = 5 if request[3] else 2
        id_bulk, entry, record = codec_plain.pack_added(list(words), id_at, id_at + 1, *halves)
        assert form.pack_sent(request, *halves) == (id_bulk, entry)
        for length in (0, 9, 10, 2**63):
            exact = record.replace(pack_command((b"~", words[4]))[4:], pack_command((b"=", b"%d" % length))[4:])
            assert form.record_sent(request, id_bulk, length) == (exact if request[3] else record)


@pytest.mark.parametrize("form", FORMS)
def test_anything_else_is_no_addition(form: ModuleType) -> None:
    sent = pack_command(NOT_KEPT[2])
    with pytest.raises(ValueError, match="no XADD as it was sent"):
        form.pack_sent([ADDITION, b"s", sent, b""], 1, 1)
    with pytest.raises(ValueError, match="no XADD as it was sent"):
        form.record_sent([ADDITION, b"s", sent, b""], b"$3\r\n1-1\r\n", 1)
