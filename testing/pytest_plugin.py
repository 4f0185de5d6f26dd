"""The pytest plugin: `pip install headrace` gives any test suite a server to test with.

    def test_an_order_is_queued(headrace_server): ...    # headrace_server.url, .host, .port; empty
    def test_an_order_is_read(headrace_client): ...      # a redis.Redis, connected to it

One process serves a session or, under pytest-xdist, one each of its workers; the first test that wants it starts it.
This module is imported at the start of every pytest on a machine that has Headrace: it imports nothing in advance.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import redis

    from .server_process import ServerProcess


# Whether the server did not start.
FAILED = pytest.StashKey[bool]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """`headrace_args` in the configuration, and --headrace-args, which come later and so win."""
    about = "words of the command line of the server behind headrace_server, e.g. '--maxmemory 1mb'"
    parser.addini("headrace_args", about, type="args", default=[])
    parser.getgroup("headrace").addoption(
        "--headrace-args", action="append", default=[], metavar="ARGS", help=f"more {about}"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """A test after the one whose server did not start: the reason was printed there."""
    if FAILED in item.config.stash and "headrace_shared_server" in getattr(item, "fixturenames", ()):
        pytest.fail("Headrace did not start: the first error of a test that needs it says why", pytrace=False)


@pytest.fixture(scope="session")
def headrace_shared_server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    """The session's Headrace with its present data: for fixtures that last longer than a test. See headrace_server."""
    import shlex

    from .server_process import ServerError, ServerProcess

    config = request.config
    more = [word for words in config.getoption("--headrace-args") for word in shlex.split(words)]
    server = ServerProcess(tmp_path_factory.mktemp("headrace"), [*config.getini("headrace_args"), *more])
    reason = ""
    try:
        server.start()
    except ServerError as error:
        config.stash[FAILED] = True
        reason = str(error)
    if reason:  # outside of the handler, since pytest would print the handled error as well
        pytest.fail(reason, pytrace=False)
    yield server
    server.stop()


@pytest.fixture
def headrace_server(headrace_shared_server: ServerProcess) -> ServerProcess:
    """The session's Headrace, emptied: with `url`, `host`, `port` and `password`."""
    from .server_process import ServerError

    reason = ""
    try:
        headrace_shared_server.flush()
    except ServerError as error:
        reason = str(error)
    if reason:
        pytest.fail(reason, pytrace=False)
    return headrace_shared_server


@pytest.fixture
def headrace_client(headrace_server: ServerProcess) -> Iterator[redis.Redis]:
    """A redis-py client of the emptied server; it returns bytes, as redis-py does by default."""
    is_missing = False
    try:
        import redis
    except ModuleNotFoundError:
        is_missing = True
    if is_missing:
        pytest.fail("headrace_client needs redis-py: pip install redis", pytrace=False)
    with redis.Redis.from_url(headrace_server.url) as client:
        yield client
