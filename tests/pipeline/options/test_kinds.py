"""Options: names in any case, checks, error messages, and secrets."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.pipeline.errors import OptionError, PipelineError, message_of
from headrace.pipeline.options.__main__ import GROUPS, table
from headrace.pipeline.options.kinds import (
    BatchOptions,
    Endpoint,
    QueueOptions,
    StreamOptions,
    WriteOptions,
    last_before,
    parse,
)
from headrace.pipeline.options.values import seconds
from headrace.store.ids import id_after, make_id

DOCUMENT = Path(__file__).parent.parent.parent.parent / "docs" / "pipeline.md"


def test_option_names_ignore_case_and_values_are_typed() -> None:
    options = parse(StreamOptions, {"STREAM": "a,b\\,c", "maxentriespertrigger": "7", "failOnDataLoss": "FALSE"})
    assert options.stream == ("a", "b,c")
    assert options.max_entries_per_trigger == 7
    assert options.fail_on_data_loss is False


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"streem": "x"}, "did you mean stream?"),
        ({"stream": ""}, "option stream must be keys separated by commas"),
        ({"port": "70000"}, "option port must be a whole number from 1 to 65535"),
        ({"tls": "perhaps"}, "option tls must be true or false"),
        ({"parseMode": "maybe"}, "option parseMode must be one of PERMISSIVE, DROPMALFORMED, FAILFAST"),
        ({"startingOffsets": "sometimes"}, "option startingOffsets must be earliest or JSON"),
        ({"startingTimestamp": "noon"}, "option startingTimestamp must be a time such as"),
        ({"username": "ann"}, "option username needs a password: set passwordFile or passwordEnv"),
        ({"passwordFile": "f", "passwordEnv": "E"}, "options passwordFile and passwordEnv are both given: keep one"),
        ({"retryFor": "-1s"}, "option retryFor must be a finite time that is not negative"),
        ({"retryFor": "inf"}, "option retryFor must be a finite time that is not negative"),
        ({"retryFor": "nan"}, "option retryFor must be a finite time that is not negative"),
        ({"readTimeout": "0"}, "option readTimeout must be a time above zero"),
        ({"minPartitions": "\u00b2"}, "option minPartitions must be a whole number from 1 to 10000"),
        (
            {"startingTimestamp": "5", "startingOffsets": '{"s": "1-0"}'},
            "option startingOffsets has no effect together with startingTimestamp: leave it out",
        ),
    ],
)
def test_bad_option_is_a_one_line_error(given: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError) as caught:
        parse(BatchOptions, given)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "given", "name"),
    [
        (WriteOptions, {"ackStream": "s"}, "ackStream"),
        (WriteOptions, {"trimExact": "true"}, "trimExact"),
        (WriteOptions, {"trimLimit": "5"}, "trimLimit"),
        (BatchOptions, {"endingTimestamp": "5", "endingOffsets": '{"s": "1-0"}'}, "endingOffsets"),
        (StreamOptions, {"startingTimestamp": "5", "startingOffsets": '{"s": "1-0"}'}, "startingOffsets"),
        (StreamOptions, {"maxTriggerDelay": "5s"}, "maxTriggerDelay"),
    ],
)
def test_option_without_effect_is_refused(kind: type, given: dict[str, str], name: str) -> None:
    with pytest.raises(OptionError, match=f"option {name} has no effect"):
        parse(kind, given)


def test_password_file_that_is_not_text_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "password"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(OptionError, match="is not UTF-8"):
        parse(Endpoint, {"passwordFile": str(path)}).resolve_password()


@pytest.mark.parametrize("ms", [0, 1, 70, 2**64 - 1])
def test_reading_after_the_last_id_before_a_time_begins_at_that_time(ms: int) -> None:
    assert id_after(last_before(ms)) == make_id(ms, 0)


def test_password_is_never_in_a_representation_or_an_error() -> None:
    options = parse(Endpoint, {"password": "sesame"})
    assert options.resolve_password() == "sesame"
    assert "sesame" not in repr(options)
    with pytest.raises(OptionError) as caught:
        parse(Endpoint, {"passwrd": "sesame"})
    assert "sesame" not in str(caught.value)


def test_password_comes_from_a_file_or_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secret").write_text("sesame\n")
    assert Endpoint(password_file=str(tmp_path / "secret")).resolve_password() == "sesame"
    monkeypatch.setenv("STREAM_PASSWORD", "open")
    assert Endpoint(password_env="STREAM_PASSWORD").resolve_password() == "open"
    with pytest.raises(OptionError, match="option passwordFile: cannot read"):
        Endpoint(password_file=str(tmp_path / "none")).resolve_password()
    with pytest.raises(OptionError, match="the environment variable NOTHING"):
        Endpoint(password_env="NOTHING").resolve_password()


def test_times_have_units() -> None:
    assert [seconds(text) for text in ("5", "0.5", "200ms", "15m", "2h")] == [5, 0.5, 0.2, 900, 7200]
    assert parse(QueueOptions, {"minIdle": "off"}).min_idle is None


def test_positions_are_ids_by_key() -> None:
    options = parse(StreamOptions, {"startingOffsets": '{"orders": "5-1"}'})
    assert options.starting_offsets == {"orders": make_id(5, 1)}
    assert parse(BatchOptions, {"endingTimestamp": "1970-01-01T00:00:01"}).ending_timestamp == 1000


def test_options_that_spark_adds_are_ignored() -> None:
    assert parse(WriteOptions, {"checkpointlocation": "/x", "queryname": "q", "stream": "s"}).stream == "s"


@pytest.mark.parametrize("name", list(GROUPS))
def test_option_tables_of_the_documentation_are_made_from_the_declarations(name: str) -> None:
    text = DOCUMENT.read_text("utf-8")
    begin, end = f"<!-- options {name} -->\n", "<!-- end -->"
    assert text.split(begin, 1)[1].split(end, 1)[0].strip().splitlines() == table(name)


def test_message_for_the_user_is_found_in_a_traceback_of_spark() -> None:
    wrapped = RuntimeError(
        "[PYTHON]\nTraceback\n  File x\nheadrace.pipeline.errors.OptionError: option stream\n SQLSTATE"
    )
    assert message_of(wrapped) == "option stream"
    assert message_of(PipelineError("plain")) == "plain"
    assert message_of(ValueError("first\nsecond")) == "first"
