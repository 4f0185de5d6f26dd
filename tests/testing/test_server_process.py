"""The server that the pytest plugin starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.testing import server_process
from headrace.testing.server_process import ServerProcess
from support.ports import free_port


def test_a_port_that_another_server_took_first_is_not_taken_for_ones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ServerProcess(tmp_path / "first") as first:
        ports = iter([first.port, free_port()])
        monkeypatch.setattr(server_process, "find_free_port", lambda: next(ports))
        with ServerProcess(tmp_path / "second") as second:
            assert second.port != first.port
            second.flush()
