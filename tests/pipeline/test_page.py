"""Pages: the fast way and hiredis give the same entries."""

from __future__ import annotations

import random

import pytest

from headrace.pipeline.page import Page, parse_page
from headrace.protocol.packing import pack_command

Entry = tuple[bytes, list[bytes]]


def reply_of(entries: list[Entry]) -> bytes:
    """As XRANGE answers."""
    parts = [b"*%d\r\n" % len(entries)]
    for entry_id, pairs in entries:
        parts.append(b"*2\r\n$%d\r\n%b\r\n" % (len(entry_id), entry_id) + pack_command(tuple(pairs)))
    return b"".join(parts)


ALIKE: list[Entry] = [(b"%d-0" % n, [b"n", b"%d" % n, b"user", b"u" * (n % 3)]) for n in range(1, 30)]
HOSTILE = [b"\r\n", b"$1\r\nz\r\n", b"*2\r\n$3\r\n1-1\r\n", b"", b"\r", b"\n\r\n", b"$0\r\n\r\n"]


def entries_of(page: Page) -> list[Entry]:
    return list(zip(page.ids, page.pairs(), strict=True))


def test_entries_that_are_alike_become_columns() -> None:
    page = parse_page(reply_of(ALIKE))
    assert page.names == [b"n", b"user"]
    assert page.columns is not None
    assert page.columns[0] == [b"%d" % n for n in range(1, 30)]
    assert entries_of(page) == ALIKE


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
def test_any_page_gives_its_entries(entries: list[Entry]) -> None:
    assert entries_of(parse_page(reply_of(entries))) == entries


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
