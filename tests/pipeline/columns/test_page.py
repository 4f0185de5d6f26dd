"""Pages: parsing as a grid and hiredis give the same entries."""

from __future__ import annotations

import random

import hiredis
import pytest

from support.spark_streams import Entry, reply_of

pytest.importorskip("pyarrow", reason="pyarrow is not installed: `make test-pipeline` installs it")

from headrace.pipeline.columns.page import Page, UniformPage, join_pages, parse_page, parse_uniform

ALIKE: list[Entry] = [(b"%d-0" % n, [b"n", b"%d" % n, b"user", b"u" * (n % 3)]) for n in range(1, 30)]
HOSTILE = [b"\r\n", b"$1\r\nz\r\n", b"*2\r\n$3\r\n1-1\r\n", b"", b"\r", b"\n\r\n", b"$0\r\n\r\n", b"a\nb", b"\n", b"*2"]


def entries_of(page: Page) -> list[Entry]:
    assert len(page) == len(page.ids)
    return list(zip(page.ids.to_pylist(), page.pairs(), strict=True))


def test_entries_with_the_same_fields_become_columns() -> None:
    page = parse_page(reply_of(ALIKE))
    assert isinstance(page, UniformPage)
    assert page.names == [b"n", b"user"]
    assert page.values(b"n").to_pylist() == [b"%d" % n for n in range(1, 30)]
    assert page.values(b"other") is None
    assert page.last_id == b"29-0"
    assert entries_of(page) == ALIKE


def test_line_feeds_in_values_are_parsed_as_a_grid() -> None:
    entries: list[Entry] = [(b"%d-0" % n, [b"text", b"a\nb\n" * n]) for n in range(5)]
    page = parse_page(reply_of(entries))
    assert isinstance(page, UniformPage)
    assert entries_of(page) == entries


@pytest.mark.parametrize(
    "entries",
    [
        [],
        ALIKE[:1],
        [*ALIKE, (b"99-0", [b"other", b"1", b"user", b""])],
        [(b"98-0", [b"n", b"1"]), *ALIKE],
        [(b"1-0", [b"same", b"1", b"same", b"2"])],
        [(b"1-0", [b"n", b"a\r\n$1\r\nb"]), (b"2-0", [b"n", b"c"])],
        [(b"%d-0" % n, [b"a", value]) for n, value in enumerate(HOSTILE)],
        [(b"1-0", [b"a\r\nb", b"c"]), (b"2-0", [b"a\r\nb", b"d"])],
    ],
)
def test_pages_of_any_kind_give_the_same_entries(entries: list[Entry]) -> None:
    assert entries_of(parse_page(reply_of(entries))) == entries


def test_reply_with_wrong_sizes_is_never_parsed_as_a_grid() -> None:
    """With any byte of a reply changed, the entries are those that hiredis finds, or none."""
    whole = reply_of(ALIKE[:3])
    for place in range(len(whole)):
        for octet in b"0159$*\r\nn":
            data = whole[:place] + bytes([octet]) + whole[place + 1 :]
            page = parse_uniform(data)
            if page is not None:
                reader = hiredis.Reader()
                reader.feed(data)
                assert [list(entry) for entry in reader.gets()] == [list(entry) for entry in entries_of(page)]


def test_random_pages_with_values_that_imitate_the_protocol() -> None:
    seed = random.randrange(2**32)
    rnd = random.Random(seed)
    for _ in range(300):
        names = rnd.sample([b"a", b"bb", b"\r\n"], rnd.randrange(1, 3))
        entries = []
        for n in range(rnd.randrange(1, 8)):
            own = names if rnd.random() < 0.9 else names[:1]
            entries.append(
                (b"%d-0" % n, [item for name in own for item in (name, rnd.choice([*HOSTILE, b"x", b"yy"]))])
            )
        assert entries_of(parse_page(reply_of(entries))) == entries, f"seed {seed}"


@pytest.mark.parametrize("entries", [ALIKE, [*ALIKE, (b"99-0", [b"other", b"1"])]])
def test_entries_are_selected_by_id(entries: list[Entry]) -> None:
    wanted = {entries[2][0], entries[-1][0]}
    assert entries_of(parse_page(reply_of(entries)).select(wanted)) == [entries[2], entries[-1]]


def test_pages_are_joined() -> None:
    pages = [parse_page(reply_of(ALIKE[:3])), parse_page(b"*0\r\n"), parse_page(reply_of(ALIKE[3:5]))]
    assert entries_of(join_pages(pages)) == ALIKE[:5]
    assert join_pages(pages[:2]) is pages[0]
    assert len(join_pages(pages[1:2])) == 0
