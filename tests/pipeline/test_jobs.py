"""The jobs, started by their command line within the tests' Spark session."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.ports import free_port
from support.servers import Server
from support.spark_streams import connect, fill
from support.wire import encode

pytest.importorskip("pyspark", reason="pyspark is not installed: `make test-pipeline` installs it")

from headrace import __version__
from headrace.pipeline.__main__ import main
from headrace.pipeline.jobs.replay import taken
from headrace.pipeline.reading.group import Group


def run(capsys: pytest.CaptureFixture[str], *words: object) -> dict[str, Any]:
    """Runs a job that succeeds, and returns its summary."""
    code = main([str(word) for word in words])
    output = capsys.readouterr()
    assert code == 0, output.err
    summary: dict[str, Any] = json.loads(output.out.splitlines()[-1])
    return summary


def entries(server: Server, key: str) -> list[Any]:
    with connect(server) as connection:
        found: list[Any] = connection.call("XRANGE", key, "-", "+")
    return found


@pytest.mark.spark
def test_restarted_archive_continues_and_keeps_each_entry_once(
    spark: Any, headrace: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(headrace, "s", 500)
    words = ["archive", "--stream", "s", "--path", tmp_path / "a", "--port", headrace.port, "--max-entries", 200]
    assert run(capsys, *words)["entries"] == 500
    # A crash after a batch was written and before its commit:
    commits = tmp_path / "a" / "_headrace_checkpoint" / "commits"
    last = max(commits.glob("[0-9]*"), key=lambda path: int(path.name))
    last.unlink()
    (commits / f".{last.name}.crc").unlink()
    fill(headrace, "s", 100, first=501)
    run(capsys, *words)
    rows = spark.read.parquet(str(tmp_path / "a")).collect()
    assert sorted(int(row._fields["n"]) for row in rows) == list(range(1, 601))
    assert {str(row.archive_day) for row in rows} == {"1970-01-01"}


@pytest.mark.spark
def test_archive_of_a_trimmed_stream_continues_with_allow_data_loss(
    spark: Any, headrace: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(headrace, "s", 50)
    words = ["archive", "--stream", "s", "--path", str(tmp_path / "a"), "--port", str(headrace.port)]
    run(capsys, *words)
    fill(headrace, "s", 50, first=51)
    with connect(headrace) as connection:
        connection.call("XTRIM", "s", "MAXLEN", "10")
    assert main(words) == 1
    message = capsys.readouterr().err
    assert "40 entries after" in message
    assert message.endswith("(--allow-data-loss archives the entries that are left)\n")
    assert run(capsys, *words, "--allow-data-loss")["entries"] == 10


@pytest.mark.spark
def test_archive_of_one_stream_refuses_the_folder_of_another(
    spark: Any, headrace: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(headrace, "a", 5)
    fill(headrace, "b", 5)
    where = ["--path", tmp_path / "archive", "--port", headrace.port]
    run(capsys, "archive", "--stream", "a", *where)
    with connect(headrace) as connection:
        connection.call("DEL", "a")
    assert main([str(word) for word in ("archive", "--stream", "b", *where)]) == 1
    assert capsys.readouterr().err == (
        "archive: the checkpoint of this query has the position of stream a, which is not selected: "
        "add it to --stream, or choose another --path\n"
    )
    fill(headrace, "a", 3, first=6)
    assert run(capsys, "archive", "--stream", "a,b", *where, "--allow-data-loss")["entries"] == 8


@pytest.mark.spark
def test_kept_ids_of_two_streams_in_one_are_refused_in_options_of_the_job(
    spark: Any, headrace: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(headrace, "a", 3)
    with connect(headrace) as connection:
        connection.call("XADD", "b", "2-0", "other", "x")
    where = ["--path", tmp_path / "archive", "--port", headrace.port]
    run(capsys, "archive", "--stream", "a,b", "--exact", *where)
    assert main([str(word) for word in ("replay", "--stream", "both", "--ids", "keep", *where)]) == 1
    error = capsys.readouterr().err
    assert error.endswith(
        "is not in it: --ids keep needs a stream without later entries, and rows of one stream "
        "(--where \"_stream = '...'\"); --ids new accepts all rows\n"
    )
    one = ("--ids", "keep", "--where", "_stream = 'b'", *where)
    assert run(capsys, "replay", "--stream", "copy", *one)["rows"] == 1


@pytest.mark.spark
def test_exact_archive_is_replayed_unchanged_and_once(
    spark: Any, headrace: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(headrace, "s", 50)
    with connect(headrace) as connection:
        connection.call("XADD", "s", "99-5", "same", b"\xff\r\n", "same", "2", "", "")
    where = ["--path", tmp_path / "a", "--port", headrace.port]
    run(capsys, "archive", "--stream", "s", "--exact", *where)
    for _ in range(2):
        assert run(capsys, "replay", "--stream", "copy", "--ids", "keep", *where)["rows"] == 51
        run(capsys, "replay", "--stream", "new", "--rate", 10_000, *where)
    assert entries(headrace, "copy") == entries(headrace, "s")
    assert sorted(pairs for _, pairs in entries(headrace, "new")) == sorted(
        pairs for _, pairs in entries(headrace, "s")
    )


@pytest.mark.spark
def test_archive_with_columns_is_replayed_with_all_its_values(
    spark: Any, headrace: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--path", tmp_path / "a", "--port", headrace.port]
    sent = [{"dt": "today", "batch": "7"}, {"dt": "x", "batch": "many"}, {"dt": "1", "Day": "2026-01-31"}]
    adds = [
        ("XADD", "s", f"{n}-0", *(word for pair in fields.items() for word in pair)) for n, fields in enumerate(sent, 1)
    ]
    # The second run has a column that the first one lacks.
    for part, columns in ((adds[:2], "dt string, batch int"), (adds[2:], "dt string, batch int, Day date")):
        with connect(headrace) as connection:
            connection.call_all(part)
        run(capsys, "archive", "--stream", "s", "--fields", columns, *where)
    run(capsys, "replay", "--stream", "copy", "--ids", "keep", *where)
    found = [dict(zip(pairs[::2], pairs[1::2], strict=True)) for _, pairs in entries(headrace, "copy")]
    assert found == [{name.encode(): text.encode() for name, text in fields.items()} for fields in sent]


@pytest.mark.spark
def test_progress_of_a_replay_is_shown_on_a_terminal(
    spark: Any, headrace: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = "\n".join(json.dumps({"_stream": f"s{n % 2}", "n": n}) for n in range(300))
    (tmp_path / "rows.json").write_text(rows)
    monkeypatch.setattr("headrace.pipeline.jobs.replay.LOOK_INTERVAL_S", 0.1)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert (
        main(["replay", "--path", str(tmp_path), "--format", "json", "--port", str(headrace.port), "--rate", "200"])
        == 0
    )
    shown = [int(count) for count in re.findall(r"\rreplay: (\d+) entries", capsys.readouterr().err)]
    assert len(shown) > 5
    assert shown == sorted(shown)
    assert any(0 < count < 300 for count in shown)
    assert shown[-1] == 300


def test_rows_sent_to_streams_are_counted_including_recognised_ones(headrace: Server) -> None:
    fill(headrace, "s", 5)
    with connect(headrace) as connection:
        for _ in range(3):
            connection.call("XADD", "t", "IDMP", "p", "1", "*", "a", "b")
        connection.call("SET", "x", "no stream")
        assert taken(connection, ["s", "t", "x", "none"]) == 8


@pytest.mark.spark
def test_json_lines_are_replayed_once(
    spark: Any, headrace: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a", "b"):
        rows = [{"file": name, "n": n, "more": {"x": [n]}, "dt": "x", "batch": "y", "price": 7.25} for n in (1, 1, 2)]
        lines = [json.dumps(row).replace("7.25", "1.10") for row in rows]
        (tmp_path / f"{name}.json").write_text("\n".join(lines))
    words = ["--path", tmp_path, "--format", "json", "--stream", "out", "--port", headrace.port, "--where", "n < 2"]
    for _ in range(2):
        assert run(capsys, "replay", *words)["rows"] == 4
    found = [dict(zip(pairs[::2], pairs[1::2], strict=True)) for _, pairs in entries(headrace, "out")]
    assert [row[b"more"] for row in found] == [b'{"x":[1]}'] * 4
    assert sorted(row[b"file"] for row in found) == [b"a", b"a", b"b", b"b"]
    assert {(row[b"dt"], row[b"batch"], row[b"price"]) for row in found} == {(b"x", b"y", b"1.10")}
    (tmp_path / "a.json").write_text("\n".join(json.dumps({"file": "c", "n": 1}) for _ in range(3)))
    run(capsys, "replay", *words)
    assert len(entries(headrace, "out")) == 7


def poison(server: Server) -> None:
    """Six pending entries: 2-0 and 3-0 were delivered seven times, and 5-0 was released as FATAL."""
    fill(server, "s", 6)
    with connect(server) as connection:
        connection.call("XGROUP", "CREATE", "s", "g", "0")
        connection.call("XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", ">")
        connection.call("XCLAIM", "s", "g", "c", 0, "2-0", "3-0", "IDLE", 3_600_000, "RETRYCOUNT", 7, "JUSTID")
        connection.call("XNACK", "s", "g", "FATAL", "IDS", 1, "5-0")


def die(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt


def test_dead_letters_are_moved_once_and_other_entries_stay(
    server: Server, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    poison(server)
    words = ["deadletter", "--stream", "s", "--group", "g", "--port", server.port, "--target", "dead"]
    assert run(capsys, *words, "--dry-run")["entries"] == 3
    with monkeypatch.context() as killed:
        killed.setattr(Group, "acknowledge", die)
        assert main([str(word) for word in words]) == 130
    assert len(entries(server, "dead")) == 3
    assert run(capsys, *words)["entries"] == 3
    assert [pairs[1] for _, pairs in entries(server, "dead")] == [b"2", b"3", b"5"]
    with connect(server) as connection:
        rows = connection.call("XPENDING", "s", "g", "-", "+", 10)
        assert [row[0] for row in rows] == [b"1-0", b"4-0", b"6-0"]
        assert len(connection.call("XINFO", "CONSUMERS", "s", "g")) == 1


def test_dead_letters_of_the_server_are_given_back_to_their_group(
    headrace: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(headrace, "s", 3)
    with connect(headrace) as connection:
        connection.call("XGROUP", "CREATE", "s", "g", "0")
        connection.call("XGROUP", "CONFIG", "s", "g", "MAX-DELIVERIES", 1, "DEADLETTER", "dead", "REDELIVER", 60_000)
        connection.call("XREADGROUP", "GROUP", "g", "ann", "STREAMS", "s", ">")
        connection.call("XNACK", "s", "g", "FAIL", "IDS", 3, "1-0", "2-0", "3-0")
        connection.call("XADD", "dead", "*", "made", "by hand")
        words = ["deadletter", "--stream", "s", "--group", "g", "--port", headrace.port, "--target", "dead"]
        summary = run(capsys, *words, "--redrive")
        assert (summary["redriven"], sum(summary["kept"].values())) == (3, 1)
        ((_, again),) = connection.call("XREADGROUP", "GROUP", "g", "bob", "STREAMS", "s", ">")
        assert [entry_id for entry_id, _ in again] == [b"1-0", b"2-0", b"3-0"]
    assert len(entries(headrace, "dead")) == 1


@pytest.mark.oracle
def test_dead_letters_are_not_given_back_by_a_server_that_cannot(
    oracle: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["deadletter", "--stream", "s", "--group", "g", "--port", str(oracle.port), "--target", "dead", "--redrive"]
    assert main(words) == 1
    assert capsys.readouterr().err == "deadletter: --redrive: this server has no XREDRIVE; Headrace has it\n"


def test_dead_letters_are_written_to_parquet(
    headrace: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pq = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed: `make test-pipeline` installs it")
    poison(headrace)
    words = ["deadletter", "--stream", "s", "--group", "g", "--port", headrace.port, "--path", tmp_path / "dead"]
    assert run(capsys, *words)["entries"] == 3
    rows = pq.read_table(tmp_path / "dead").to_pylist()
    assert [(row["_id"], row["_reason"]) for row in rows] == [
        ("2-0", "deliveries"),
        ("3-0", "deliveries"),
        ("5-0", "fatal"),
    ]
    assert rows[0]["_pairs"][0] == {"field": b"n", "value": b"2"}


@pytest.mark.spark
def test_dead_letters_are_replayed_to_where_they_came_from(
    spark: Any, headrace: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    poison(headrace)
    where = ["--port", headrace.port, "--path", tmp_path / "dead"]
    run(capsys, "deadletter", "--stream", "s", "--group", "g", *where)
    for _ in range(2):
        assert run(capsys, "replay", *where)["rows"] == 3
    assert [pairs[:2] for _, pairs in entries(headrace, "s")][6:] == [[b"n", b"2"], [b"n", b"3"], [b"n", b"5"]]


@pytest.mark.spark
def test_audit_reports_deliveries_and_claims_of_each_group(
    spark: Any, start_server: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The acknowledgements come in the second of the deliveries or later, and are known to a second only."""
    server = start_server(
        "headrace", "--appendonly", "yes", "--appendfsync", "always", "--aof-timestamp-enabled", "yes"
    )
    fill(server, "s", 10)
    with connect(server) as connection:
        connection.call("XGROUP", "CREATE", "s", "g", "0")
        connection.call("XREADGROUP", "GROUP", "g", "ann", "STREAMS", "s", ">")
        connection.call("XCLAIM", "s", "g", "bob", 0, "2-0", "3-0")
        connection.call("XACK", "s", "g", *[f"{n}-0" for n in range(1, 8)])
        connection.call("XGROUP", "CREATE", "timed", "g", "0", "MKSTREAM")
        for _ in range(20):
            entry_id = connection.call("XADD", "timed", "*", "f", "v")
            connection.call("XREADGROUP", "GROUP", "g", "ann", "STREAMS", "timed", ">")
            connection.call("XACK", "timed", "g", entry_id)
        # In microseconds, and never acknowledged.
        connection.call("XGROUP", "CREATE", "micro", "g", "0", "MKSTREAM")
        connection.call("XADD", "micro", "1700000000000000-0", "f", "v")
        connection.call("XREADGROUP", "GROUP", "g", "ann", "STREAMS", "micro", ">")
    words = ["--path", server.folder, "--report", tmp_path / "r.html", "--events", tmp_path / "e", "--split-size", 200]
    words += ["--json", tmp_path / "r.json"]
    summary = run(capsys, "audit", *words)
    assert summary["kinds"] == {"ack": 27, "add": 31, "deliver": 33, "group-create": 3, "group-setid": 22}
    groups = {row["stream"]: row for row in summary["groups"]}
    timed, group = groups["timed"], groups["s"]
    assert (groups["micro"]["wait_ms"], groups["micro"]["ack_s"]) == (None, None)
    assert (group["entries"], group["deliveries"], group["redelivered_percent"]) == (10, 12, 20.0)
    assert group["not_acknowledged"] == 3
    assert group["wait_ms"] is None, "the IDs are no times"
    assert all(0 <= time < 10_000 for time in timed["wait_ms"].values())
    assert all(0 <= time < 10 for time in timed["ack_s"].values())
    page = (tmp_path / "r.html").read_text()
    assert "<td>ann</td><td>bob</td><td class=number>2</td>" in page
    assert ">wait, ms (p90)</th>" in page
    assert str(server.folder) in page
    assert f"by Headrace {__version__}" in page
    assert "prefers-color-scheme: dark" in page
    assert "<rect" in page
    written = json.loads((tmp_path / "r.json").read_text())
    assert {**summary, "worst": written["worst"]} == {**written, "job": "audit", "seconds": summary["seconds"]}
    assert [(row["id"], row["deliveries"], row["consumers"]) for row in written["worst"][:2]] == [
        ("2-0", 2, ["ann", "bob"]),
        ("3-0", 2, ["ann", "bob"]),
    ]
    assert len(written["worst"]) == 20
    assert spark.read.parquet(str(tmp_path / "e")).count() == 116


@pytest.mark.spark
def test_entry_id_in_the_future_hides_no_hour_of_the_audit(
    spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file was written in the hour of its last true entry, 2023-11-14 22:00 UTC."""
    log = tmp_path / "appendonly.aof"
    ids = ("1699999200000-0", "1700000000000-0", "1700086399000-0", "4102444800000-0")
    log.write_bytes(b"".join(encode(("XADD", "s", entry_id, "f", "v")) for entry_id in ids))
    os.utime(log, (1_700_000_000, 1_700_000_000))
    page = tmp_path / "r.html"
    summary = run(capsys, "audit", "--path", log, "--report", page)
    assert (summary["first"], summary["last"]) == ("2023-11-14 22:00:00 UTC", "2023-11-15 22:13:19 UTC")
    assert summary["future_events"] == 1
    assert ">11-14 22:00</text>" in page.read_text()
    assert "<dt>Later events</dt><dd>1, left out: more than a day after the newest file</dd>" in page.read_text()
    log.write_bytes(encode(("XADD", "s", ids[0], "f", "v")))
    os.utime(log, (1_700_000_000, 1_700_000_000))
    assert run(capsys, "audit", "--path", log, "--report", page)["future_events"] == 0
    assert "Later events" not in page.read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["deadletter", "--stream", "s", "--group", "g"], "deadletter: --target or --path is needed"),
        (
            ["deadletter", "--stream", "s", "--group", "g", "--target", "t", "--min-idle", "x"],
            "--min-idle must be a time",
        ),
        (
            ["deadletter", "--stream", "s", "--group", "g", "--target", "t", "--port", "x"],
            "option port must be a whole",
        ),
    ],
)
def test_mistakes_are_one_line_errors(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 1
    error = capsys.readouterr().err
    assert message in error
    assert len(error.splitlines()) == 1


@pytest.mark.spark
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["archive", "--path", "/nowhere", "--exact", "--fields", "n int"], "only one of --exact and --fields"),
        (
            ["archive", "--path", "/nowhere", "--stream", "s", "--fields", "Archive_Day date"],
            "--fields: Archive_Day is",
        ),
        (["audit", "--path", "/nowhere"], "audit: /nowhere holds no manifests"),
        (["replay", "--path", "/nowhere", "--rate", "0"], "replay: --rate must be positive"),
        (["replay", "--path", "/nowhere/at/all"], "Path does not exist"),
    ],
)
def test_mistakes_in_spark_are_one_line_errors(
    spark: Any, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 1
    error = capsys.readouterr().err
    assert message in error
    assert len(error.splitlines()) == 1


# Runs jobs in a fresh process, as their users do, one after another so that Spark starts once.
RUN_JOBS = """
import json, sys
from headrace.pipeline.__main__ import main
for words in json.loads(sys.argv[1]):
    print("code", main(words), flush=True)
    print("--", file=sys.stderr, flush=True)
"""


@pytest.mark.spark
def test_a_job_prints_one_line_and_java_prints_none(spark: Any, headrace: Server, tmp_path: Path) -> None:
    """Neither lines about the start of Spark, nor a trace of Java before the error of a streaming query."""
    there = ["--path", str(tmp_path / "a"), "--port", str(headrace.port), "--stream"]
    jobs = {
        ("archive", *there, "none"): f"there is no stream none on 127.0.0.1:{headrace.port}: it is read if it is made",
        ("archive", *there, "s", "--fields", "n bigintt"): (
            "archive: option fields: column n has the unknown type bigintt: did you mean bigint?"
        ),
        ("archive", "--path", str(tmp_path / "b"), "--port", str(free_port()), "--stream", "s", "--retry-for", "1s"): (
            "did not answer for 1 s (options host, port, retryFor): Connection refused"
        ),
    }
    words = [sys.executable, "-c", RUN_JOBS, json.dumps(list(jobs))]
    environment = {**os.environ, "SPARK_MASTER": "local[1]"}
    done = subprocess.run(words, capture_output=True, text=True, timeout=600, env=environment, check=True)
    codes = [line for line in done.stdout.splitlines() if line.startswith("code")]
    assert codes == ["code 0", "code 1", "code 1"], done.stderr
    printed = done.stderr.split("--\n")[:-1]
    assert [len(lines.splitlines()) for lines in printed] == [1, 1, 1], done.stderr
    assert all(line in lines for line, lines in zip(jobs.values(), printed, strict=True)), done.stderr


def test_every_job_has_help(capsys: pytest.CaptureFixture[str]) -> None:
    for job in ("archive", "replay", "deadletter", "audit"):
        with pytest.raises(SystemExit) as ended:
            main([job, "--help"])
        assert ended.value.code == 0
        assert "--path" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--max-deliveries", "-5"], "--max-deliveries must not be negative"),
        (["--target", "s"], "--target must be another stream"),
        (["--redrive", "--target", "dead"], "--redrive needs --target, and neither --path nor --dry-run"),
        (["--min-idle", "inf"], "--min-idle must be a finite time that is not negative"),
        (["--host", "a..b"], "option host: a..b is not a valid host name"),
    ],
)
def test_deadletter_refuses_senseless_arguments(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["deadletter", "--stream", "s", "--group", "g", "--dry-run", *words]) == 1
    assert capsys.readouterr().err == f"deadletter: {message}\n"


@pytest.mark.parametrize("option", ["--report", "--json"])
def test_audit_looks_at_its_files_before_it_starts_spark(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from headrace.pipeline.jobs import audit

    monkeypatch.setattr(audit, "local_session", lambda *words, **options: pytest.fail("Spark was started"))
    log = tmp_path / "log.aof"
    log.write_bytes(b"")
    target = tmp_path / "no" / "folder" / "file"
    assert main(["audit", "--path", str(log), option, str(target)]) == 1
    assert capsys.readouterr().err == f"audit: {option}: cannot write {target}: No such file or directory\n"


def test_key_that_is_not_utf8_is_a_one_line_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["deadletter", "--stream", "\udcff", "--group", "g", "--dry-run"])
    assert "is not UTF-8" in capsys.readouterr().err
