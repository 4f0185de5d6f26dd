"""Fixtures: real servers, one process per test module, emptied before each test."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.server.reports.logs import ROOT
from headrace.server.requests import dispatch
from support.servers import ORACLE_VERSION, Server, is_oracle_required, oracle_folder, oracle_version, redis_cli

StartServer = Callable[..., Server]


def pytest_configure(config: pytest.Config) -> None:
    """Count the results of the run, if HEADRACE_TEST_FIGURES names a folder for them."""
    folder = os.environ.get("HEADRACE_TEST_FIGURES")
    if folder:
        from support.figures import Counting

        config.pluginmanager.register(Counting(Path(folder)))


def pytest_sessionstart() -> None:
    """Refuse to run where servers that are started here would load a dataset. Programs that tests start end by SIGINT,
    also in a background job of a shell, which ignores it.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if Path("dump.rdb").exists():
        pytest.exit("move ./dump.rdb away: servers of the tests would load it, or a test has written it", returncode=1)


def pytest_sessionfinish() -> None:
    """Write the measured coverage: otherwise a process of xdist is ended before a long write is complete."""
    coverage = sys.modules.get("coverage")
    current = coverage.Coverage.current() if coverage is not None else None
    if current is not None:
        current.stop()
        current.save()


@pytest.fixture(scope="session", autouse=True)
def turns_without_end() -> Iterator[None]:
    """In this process a client's turn ends by its requests, not by time, so that a slow machine does not affect
    tests.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dispatch, "TURN_NS", 1 << 62)
        yield


@pytest.fixture(autouse=True)
def loggers_as_they_were() -> Iterator[None]:
    """What a test does to the root's logger and to the package's ends with it: setuptools, for one, sets the root's
    level in the process that builds.
    """
    loggers = (logging.getLogger(), logging.getLogger(ROOT))
    before = [(logger.level, logger.propagate) for logger in loggers]
    yield
    for logger, (level, propagate) in zip(loggers, before, strict=True):
        logger.setLevel(level)
        logger.propagate = propagate


@pytest.fixture(scope="session")
def oracle_tools() -> Path:
    """The folder of redis-server and redis-cli. Skips without one, or fails if HEADRACE_REQUIRE_ORACLE is set."""
    folder = oracle_folder()
    if folder is None:
        message = f"no redis-server {ORACLE_VERSION} found: `make oracle` installs it, HEADRACE_ORACLE names another"
        if is_oracle_required():
            pytest.fail(message)
        pytest.skip(message)
    version = oracle_version(folder)
    if version != ORACLE_VERSION:
        pytest.fail(f"{folder}/redis-server is {version}, the reference is {ORACLE_VERSION}")
    return folder


@pytest.fixture(scope="session")
def cli() -> Path:
    """A redis-cli."""
    program = redis_cli()
    if program is None:
        if is_oracle_required():
            pytest.fail("no redis-cli found: `make oracle` installs it")
        pytest.skip("no redis-cli found: `make oracle` installs it")
    return program


@pytest.fixture(scope="module")
def headrace_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Headrace, without persistence."""
    server = Server("headrace", tmp_path_factory.mktemp("headrace"), "--appendonly", "no")
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def oracle_process(oracle_tools: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Redis, without persistence."""
    server = Server("oracle", tmp_path_factory.mktemp("oracle"), "--appendonly", "no")
    server.start()
    yield server
    server.stop()


@pytest.fixture
def headrace(headrace_process: Server) -> Server:
    """The module's Headrace, emptied."""
    headrace_process.reset()
    return headrace_process


@pytest.fixture
def oracle(oracle_process: Server) -> Server:
    """The module's Redis, emptied."""
    oracle_process.reset()
    return oracle_process


@pytest.fixture(params=["headrace", pytest.param("oracle", marks=pytest.mark.oracle)])
def server(request: pytest.FixtureRequest) -> Server:
    """Each server in turn, emptied: for what both must do."""
    chosen: Server = request.getfixturevalue(request.param)
    return chosen


@pytest.fixture
def start_server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StartServer]:
    """Start a server for one test: `start_server("headrace", "--appendonly", "yes")`. It is stopped after the test."""
    started: list[Server] = []

    def start(name: str, *options: str) -> Server:
        if name == "oracle":
            request.getfixturevalue("oracle_tools")
        own = Server(name, tmp_path / f"{name}-{len(started)}", *options)
        started.append(own)
        return own.start()

    yield start
    for own in started:
        own.kill()
