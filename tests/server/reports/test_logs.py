"""Log lines: their form, their levels, and where they go."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.server.configuration.config import Config
from headrace.server.reports import logs


@pytest.fixture(autouse=True)
def logger() -> Iterator[logging.Logger]:
    """The package's logger, with no handlers but those of the test."""
    package_logger = logging.getLogger(logs.ROOT)
    before = package_logger.handlers[:]
    package_logger.handlers.clear()
    yield package_logger
    for handler in package_logger.handlers:
        handler.close()
    package_logger.handlers[:] = before


def log_to_file(tmp_path: Path, loglevel: bytes = b"notice") -> Path:
    config = Config()
    path = tmp_path / "h.log"
    config.logfile, config.loglevel = os.fsencode(path), loglevel
    logs.set_up(config)
    return path


def test_root_is_the_package() -> None:
    assert logs.ROOT == "headrace"


def test_line_has_the_form_of_redis(tmp_path: Path, logger: logging.Logger) -> None:
    path = log_to_file(tmp_path)
    logger.getChild("server.app").info("Ready\nto %s", "go")
    pattern = rf"{os.getpid()}:M \d\d [A-Z][a-z]{{2}} \d{{4}} \d\d:\d\d:\d\d\.\d{{3}} \* Ready to go\n"
    assert re.fullmatch(pattern, path.read_text())


@pytest.mark.parametrize(
    ("loglevel", "marks"),
    [(b"debug", ".-*##"), (b"verbose", "-*##"), (b"notice", "*##"), (b"warning", "##"), (b"nothing", "")],
)
def test_loglevel_lets_through_its_level_and_above(
    tmp_path: Path, logger: logging.Logger, loglevel: bytes, marks: str
) -> None:
    path = log_to_file(tmp_path, loglevel)
    for level in (logging.DEBUG, logs.VERBOSE, logging.INFO, logging.WARNING, logging.ERROR):
        logger.log(level, "text")
    assert "".join(line.split()[5] for line in path.read_text().splitlines()) == marks


def test_level_can_change_later(tmp_path: Path, logger: logging.Logger) -> None:
    path = log_to_file(tmp_path)
    logs.set_level(b"warning")
    logger.info("lost")
    logs.set_level(b"debug")
    logger.debug("kept")
    assert path.read_text().endswith(". kept\n")
    assert "lost" not in path.read_text()


def test_file_that_was_moved_away_is_opened_anew(tmp_path: Path, logger: logging.Logger) -> None:
    path = log_to_file(tmp_path)
    logger.info("one")
    path.rename(tmp_path / "old.log")
    logger.info("two")
    assert path.read_text().endswith("* two\n")
    assert "two" not in (tmp_path / "old.log").read_text()


def test_standard_output_is_the_default(logger: logging.Logger, capsys: pytest.CaptureFixture[str]) -> None:
    logs.set_up(Config())
    logger.warning("careful")
    assert capsys.readouterr().out.endswith("# careful\n")


def test_traceback_follows_its_line(tmp_path: Path, logger: logging.Logger) -> None:
    path = log_to_file(tmp_path)
    try:
        raise ValueError("boom")
    except ValueError:
        logger.exception("internal error")
    lines = path.read_text().splitlines()
    assert lines[0].endswith("# internal error")
    assert lines[-1] == "ValueError: boom"


def test_banner_has_address_version_persistence_and_file() -> None:
    config = Config()
    assert "persistence: snapshots (save 3600 1 300 100 60 10000) in" in logs.banner(config, [])
    config.save = b""
    assert "ready on 127.0.0.1:6379; persistence: none" in logs.banner(config, ["127.0.0.1:6379"])
    assert logs.banner(config, []).endswith("config file: none")
    config.appendonly, config.file_path = True, b"/etc/h.conf"
    text = logs.banner(config, ["127.0.0.1:1", "unix:/s"])
    assert "append-only file (appendfsync everysec)" in text
    assert "/etc/h.conf" in text
    assert "Redis 8.10.2" in text
