"""Client libraries that only `make test-clients` installs."""

from __future__ import annotations

import importlib
import os
import subprocess
from types import ModuleType

import pytest


def are_clients_required() -> bool:
    """In `make test-clients` an absent client is a failure, not a skip."""
    return os.environ.get("HEADRACE_REQUIRE_CLIENTS", "") not in ("", "0")


def require_client(name: str) -> ModuleType:
    """The module of a client library. All its tests are skipped if it is not installed."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        message = f"no {name} found: `make test-clients` installs it"
        if are_clients_required():
            pytest.fail(message)
        pytest.skip(message, allow_module_level=True)


def require_program(*words: str) -> None:
    """The test is skipped where this command fails: a program, or the client that it imports, is not installed."""
    try:
        is_there = subprocess.run(words, capture_output=True).returncode == 0
    except FileNotFoundError:
        is_there = False
    if not is_there and are_clients_required():
        pytest.fail(f"`{' '.join(words)}` fails: .ci/run installs the packages")
    if not is_there:
        pytest.skip(f"`{' '.join(words)}` fails")
