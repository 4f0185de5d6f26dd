"""The policies of groups as commands have set them: the same lines after each way to a file and back."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

from headrace.commands.policies.lines import APPLIERS, apply_line
from headrace.persistence.placing import PLACE_PREFIX
from headrace.persistence.policy_lines import LINE_SIZE_MAX
from headrace.store.errors import ReplyError
from headrace.store.ids import format_id
from headrace.store.policies.due_words import read_due_words
from headrace.store.policies.lines import lines_of
from support.logging_server import LoggingServer

# Names that look like parts of a log.
NAMES = ["s", '"a \\"b\\" \\r\\n*1\\r\\n\\x00\\xff"', '"\\n#HR DUE x"']
ENTRIES_COUNT = 300
IDS = " ".join(f"{number}-1" for number in range(1, ENTRIES_COUNT + 1))


def fill(server: LoggingServer) -> None:
    """Groups with settings and released entries, of which 300 have due times: a line of several parts."""
    for index, (key, group) in enumerate(product(NAMES, NAMES)):
        lines = [f"SELECT {index % 2 * 5}", f"XGROUP CREATE {key} {group} 0 MKSTREAM"]
        lines += [f"XADD {key} {number}-1 f v" for number in range(1, ENTRIES_COUNT + 1)]
        lines += [
            f"XGROUP CONFIG {key} {group} REDELIVER 1000,2000 MAX-DELIVERIES 5 DEADLETTER dead BACKOFF 7000",
            f"XREADGROUP GROUP {group} c COUNT {ENTRIES_COUNT} STREAMS {key} >",
            f"XNACK {key} {group} FAIL IDS {ENTRIES_COUNT} {IDS} DELAY 1000000",
            "MULTI", f"XNACK {key} {group} FAIL IDS 2 1-1 3-1 DELAY 2000000", f"XADD {key} * f v", "EXEC",
            *[f"XADD {key} AT {4 * 10**12 + number // 100} * f v" for number in range(200)],
            f"XGROUP CREATE {key} other 0", f"XGROUP CONFIG {key} other REDELIVER 5",
            f"XGROUP CONFIG {key} other REDELIVER no",
        ]  # fmt: skip
        server.call(*lines)


Lines = dict[tuple[int, bytes], list[list[bytes]]]


def lines_in(server: LoggingServer) -> Lines:
    """The lines of each stream, with due times in the order of IDs, each with its own."""
    return {
        (db.index, key): list(map(in_order, lines))
        for db in server.server.store.databases
        for key, stream in db.streams.items()
        if (lines := list(lines_of(key, stream)))
    }


def in_order(words: list[bytes]) -> list[bytes]:
    names_count = {b"DUE": 3, b"LATER": 2}.get(words[0])
    if names_count is None:
        return words
    pairs = sorted(read_due_words(words[names_count:]))
    return [
        *words[:names_count],
        *(word for entry_id, due_ms in pairs for word in (b"%d" % due_ms, format_id(entry_id))),
    ]


def assert_full(found: Lines) -> None:
    assert len(found) == len(NAMES) * 2
    for words in (words for lines in found.values() for words in lines):
        assert words[0] in APPLIERS
    assert {words[0] for lines in found.values() for words in lines} == APPLIERS.keys() - {b"XCFGSET"}
    assert sum(words[0] == b"DUE" for lines in found.values() for words in lines) >= len(NAMES) ** 2


@pytest.fixture(params=[True, False], ids=["rdb-base", "text-base"])
def server(tmp_path: Path, request: pytest.FixtureRequest) -> LoggingServer:
    server = LoggingServer(tmp_path, has_rdb_base=request.param)
    server.config.enable_debug_command = b"yes"
    fill(server)
    return server


def after_start(folder: Path, *, appendonly: bool = True) -> Lines:
    again = LoggingServer(folder, started_ms=50_000, appendonly=appendonly)
    again.stop()
    return lines_in(again)


def test_a_start_has_the_lines(server: LoggingServer, tmp_path: Path) -> None:
    expected = lines_in(server)
    assert_full(expected)
    server.stop()
    assert after_start(tmp_path) == expected
    data = b"".join(path.read_bytes() for path in tmp_path.glob("appendonlydir/*.incr.aof"))
    assert all(len(line) < LINE_SIZE_MAX for line in data.split(b"\n") if line.startswith(b"#HR"))
    assert PLACE_PREFIX not in data


def test_a_rewrite_has_the_lines_of_its_moment(server: LoggingServer, tmp_path: Path) -> None:
    before = lines_in(server)
    server.call("BGREWRITEAOF")
    server.run_slice()
    for key in NAMES[:2]:
        server.call("SELECT 0", f"XGROUP CONFIG {key} s REDELIVER 77", f"XNACK {key} s FAIL IDS 1 5-1 DELAY 3000000")
    expected = lines_in(server)
    assert expected != before
    server.run_slices()
    server.stop()
    assert after_start(tmp_path) == expected


def test_a_snapshot_and_reloads_have_the_lines(server: LoggingServer, tmp_path: Path) -> None:
    expected = lines_in(server)
    for line in ("DEBUG RELOAD", "DEBUG LOADAOF", "SAVE"):
        assert server.call(line) == b"+OK\r\n"
        assert lines_in(server) == expected, line
    server.stop()
    assert after_start(tmp_path, appendonly=False) == expected


def test_a_background_snapshot_has_the_lines_of_its_moment(tmp_path: Path) -> None:
    server = LoggingServer(tmp_path, appendonly=False)
    fill(server)
    expected = lines_in(server)
    server.call("SELECT 0", "BGSAVE", "XGROUP CONFIG s s REDELIVER 77", "XNACK s s FAIL IDS 1 5-1 DELAY 3000000")
    assert lines_in(server) != expected
    server.run_slices()
    server.stop()
    assert after_start(tmp_path, appendonly=False) == expected


DAMAGED: list[Callable[[list[bytes]], list[bytes]]] = [
    lambda words: words[:-1],
    lambda words: words[:2],
    lambda words: [*words, b"x"],
    lambda words: [*words, b"9" * 40],
    lambda words: [*words, b"-"],
    lambda words: [*words, b""],
    lambda words: words[:1],
]


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_line_is_an_error_or_has_no_effect_but_never_a_defect(
    tmp_path: Path, damage: Callable[[list[bytes]], list[bytes]]
) -> None:
    server = LoggingServer(tmp_path)
    fill(server)
    context = server.server.context
    kinds = {words[0]: words for lines in lines_in(server).values() for words in lines}
    kinds[b"XCFGSET"] = [b"XCFGSET", b"s", b"MAXLEN", b"7"]
    for words in kinds.values():
        context.db = server.server.store.databases[0]
        try:
            apply_line(context, damage(words))
        except ReplyError:
            continue
    server.stop()
