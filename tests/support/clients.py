"""Client libraries that only `make test-clients` installs."""

from __future__ import annotations

import importlib
import os
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
