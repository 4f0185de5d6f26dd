"""The pytest plugin, as users have it: from a wheel in a fresh environment, in test suites of their own."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from support.packaging import ROOT, Environment, build_wheel, copy_context

RunSuite = Callable[..., "list[str]"]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment in which Headrace was installed from its wheel."""
    folder = tmp_path_factory.mktemp("plugin")
    wheel = build_wheel(copy_context(folder / "source"), folder / "wheels")
    return Environment(folder / "environment", wheel)


@pytest.fixture
def run_suite(environment: Environment, tmp_path: Path) -> RunSuite:
    """Runs pytest on a suite of one file; the lines it prints."""

    def run(suite: str, *words: str, configuration: str = "", **variables: str) -> list[str]:
        (tmp_path / "test_suite.py").write_text(dedent(suite))
        (tmp_path / "pytest.ini").write_text("[pytest]\n" + dedent(configuration))
        done = environment.run("-m", "pytest", "-p", "no:cacheprovider", *words, folder=tmp_path, **variables)
        return done.stdout.splitlines()

    return run


TWO_TESTS = """
    def test_one(headrace_client):
        assert headrace_client.xadd("s", {"f": "v"}, id="1-1") == b"1-1"

    def test_other(headrace_client):
        assert headrace_client.dbsize() == 0
        assert headrace_client.xadd("s", {"f": "v"}, id="1-1") == b"1-1"
"""


def test_each_test_finds_an_empty_server(run_suite: RunSuite) -> None:
    assert run_suite(TWO_TESTS, "-q")[-1].startswith("2 passed")


def test_the_wheel_is_what_runs(run_suite: RunSuite, environment: Environment) -> None:
    """Not this checkout: neither the plugin nor its server."""
    suite = f"""
        import headrace

        def test_it(headrace_server, headrace_client):
            assert headrace.__file__.startswith({str(environment.folder)!r})
            assert headrace_client.info("server")["executable"].startswith({str(environment.folder)!r})
    """
    assert run_suite(suite, "-q")[-1].startswith("1 passed")


def test_the_server_is_known_by_url_host_and_port(run_suite: RunSuite) -> None:
    suite = """
        import redis

        def test_it(headrace_server):
            assert headrace_server.url == f"redis://127.0.0.1:{headrace_server.port}/0"
            assert headrace_server.address == (headrace_server.host, headrace_server.port)
            assert redis.Redis(host=headrace_server.host, port=headrace_server.port).ping()
    """
    assert run_suite(suite, "-q")[-1].startswith("1 passed")


def test_the_example_of_a_configuration_is_installed(environment: Environment, tmp_path: Path) -> None:
    """`headrace --help` names its path, and lists the directives that it explains."""
    shown = environment.run("-m", "headrace", "--help", folder=tmp_path).stdout
    path = re.search(r"^Directives by group.*:\n +(\S*redis\.conf\.example)$", shown, re.MULTILINE)
    assert path is not None, shown
    assert Path(path[1]).is_relative_to(environment.folder)
    assert Path(path[1]).read_bytes() == (ROOT / "redis.conf.example").read_bytes()


def test_one_server_serves_the_session(run_suite: RunSuite) -> None:
    suite = """
        import pytest

        @pytest.fixture(scope="session")
        def process_id(headrace_shared_server):
            return headrace_shared_server._process.pid

        @pytest.mark.parametrize("run", range(3))
        def test_it(headrace_client, process_id, run):
            assert headrace_client.info("server")["process_id"] == process_id
    """
    assert run_suite(suite, "-q")[-1].startswith("3 passed")


def test_each_worker_of_xdist_has_a_server_of_its_own(run_suite: RunSuite, tmp_path: Path) -> None:
    suite = """
        import pathlib

        def test_it(headrace_client, worker_id):
            process_id = headrace_client.info("server")["process_id"]
            pathlib.Path(worker_id).write_text(str(process_id))
    """
    assert run_suite(suite, "-q", "--tx", "2*popen", "--dist", "each")[-1].startswith("2 passed")
    assert len({(tmp_path / worker).read_text() for worker in ("gw0", "gw1")}) == 2


def test_words_of_the_command_line_come_from_the_configuration_and_the_option(run_suite: RunSuite) -> None:
    suite = """
        def test_it(headrace_client):
            config = headrace_client.config_get("databases", "hz", "save", "maxclients")
            assert config == {"databases": "3", "hz": "20", "save": "60 1000", "maxclients": "50"}
    """
    configuration = 'headrace_args = --databases 3 --hz 15 --save "60 1000"'
    options = ("--headrace-args", "--hz 20", "--headrace-args=--maxclients 50")
    assert run_suite(suite, "-q", *options, configuration=configuration)[-1].startswith("1 passed")


def test_a_configuration_file_may_come_first(run_suite: RunSuite, tmp_path: Path) -> None:
    (tmp_path / "test.conf").write_text("port 1\ndatabases 3\nhz 30\n")
    suite = """
        def test_it(headrace_client):
            assert headrace_client.config_get("databases", "hz") == {"databases": "3", "hz": "40"}
    """
    configuration = "headrace_args = test.conf --hz 40"
    assert run_suite(suite, "-q", configuration=configuration)[-1].startswith("1 passed")


def test_a_password_is_known_to_the_fixtures(run_suite: RunSuite) -> None:
    configuration = 'headrace_args = --requirepass "two words/:@"'
    assert run_suite(TWO_TESTS, "-q", configuration=configuration)[-1].startswith("2 passed")


def test_variables_for_another_headrace_are_not_for_this_one(run_suite: RunSuite) -> None:
    variables = {"HEADRACE_PORT": "1", "HEADRACE_REQUIREPASS": "secret", "HEADRACE_NONSENSE": "1"}
    assert run_suite(TWO_TESTS, "-q", **variables)[-1].startswith("2 passed")


def test_a_server_that_cannot_start_says_why_in_one_error(run_suite: RunSuite) -> None:
    lines = run_suite(TWO_TESTS, "-q", "--headrace-args=--nonsense 1")
    assert "Headrace did not start:" in lines
    assert any("nonsense" in line for line in lines)
    assert not any("Traceback" in line or "server_process.py" in line for line in lines)


def test_a_server_that_cannot_start_fails_all_tests_and_says_why_once(run_suite: RunSuite) -> None:
    lines = run_suite(TWO_TESTS, "-q", "--headrace-args=--nonsense 1")
    assert lines[-1].startswith("2 errors")
    assert len([line for line in lines if line == "Headrace did not start:"]) == 1
    assert len([line for line in lines if line.startswith("Headrace did not start: the first error")]) == 1


def test_a_server_that_is_gone_fails_the_next_test(run_suite: RunSuite) -> None:
    suite = """
        import redis

        def test_one(headrace_client):
            headrace_client.shutdown(nosave=True)

        def test_other(headrace_server):
            raise AssertionError("not reached")
    """
    lines = run_suite(suite, "-q")
    assert lines[-1].startswith("1 passed, 1 error")
    assert any(line.startswith("Headrace is gone") for line in lines)


def test_a_client_without_redis_py_is_an_error_that_says_so(run_suite: RunSuite) -> None:
    suite = """
        import sys

        sys.modules["redis"] = None

        def test_server(headrace_server):
            assert headrace_server.port

        def test_client(headrace_client):
            raise AssertionError("not reached")
    """
    lines = run_suite(suite, "-q")
    assert lines[-1].startswith("1 passed, 1 error")
    assert "headrace_client needs redis-py: pip install redis" in lines


def test_the_examples_of_the_documentation_work(run_suite: RunSuite) -> None:
    """docs/ci.md: a test, an asyncio fixture, a server without pytest, and words for the server."""
    page = (ROOT / "docs" / "ci.md").read_text("utf-8")
    examples = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (configuration,) = re.findall(r"```ini\n\[pytest\]\n(.*?)```", page, re.DOTALL)
    (option,) = re.findall(r"```sh\npytest (.*?)\n```", page, re.DOTALL)
    use = """
        async def test_asyncio(orders_client):
            assert await orders_client.config_get("maxclients", "save") == {"maxclients": "50", "save": "60 1000"}
            assert await orders_client.config_get("loglevel") == {"loglevel": "debug"}
    """
    suite = "\n".join([*examples, dedent(use)])
    words = ("-q", *shlex.split(option))
    assert run_suite(suite, *words, configuration=configuration + "asyncio_mode = auto\n")[-1].startswith("2 passed")


def test_no_files_or_processes_remain(run_suite: RunSuite, tmp_path: Path) -> None:
    suite = """
        import pathlib

        def test_it(headrace_client):
            pid = headrace_client.info("server")["process_id"]
            pathlib.Path("pid").write_text(str(pid))
    """
    assert run_suite(suite, "-q")[-1].startswith("1 passed")
    assert not Path("/proc", (tmp_path / "pid").read_text()).exists()


def test_a_suite_without_it_starts_nothing_and_imports_nothing(run_suite: RunSuite) -> None:
    suite = """
        import sys

        def test_it():
            loaded = {name for name in sys.modules if name.split(".")[0] in ("headrace", "hiredis", "uvloop", "redis")}
            assert loaded == {"headrace", "headrace.testing", "headrace.testing.pytest_plugin"}
    """
    assert run_suite(suite, "-q", "-p", "no:asyncio")[-1].startswith("1 passed")


def test_it_can_be_left_out(run_suite: RunSuite) -> None:
    lines = run_suite("def test_it(headrace_server): ...", "-q", "-p", "no:headrace")
    assert any("fixture 'headrace_server' not found" in line for line in lines)
