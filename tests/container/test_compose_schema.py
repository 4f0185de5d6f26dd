"""The compose files satisfy the schema of the Compose specification. `make test-clients` runs this.

The schema is that of check-jsonschema, which has a copy of the official one.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.clients import require_client
from support.packaging import ROOT

FILES = ("compose.yaml", "compose.sentinel.yaml")

require_client("check_jsonschema")


def check(path: Path) -> subprocess.CompletedProcess[str]:
    """What the schema says of a file."""
    words = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(path)]
    return subprocess.run(words, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("name", FILES)
def test_a_compose_file_satisfies_the_schema(name: str) -> None:
    done = check(ROOT / name)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("good", "bad"),
    [("ip_range:", "ip-range:"), ("timeout: 3s", "time_out: 3s"), ("depends_on: [node-1,", "depends_on: [7,")],
)
def test_an_error_in_a_compose_file_is_found(good: str, bad: str, tmp_path: Path) -> None:
    text = (ROOT / "compose.sentinel.yaml").read_text("utf-8")
    assert good in text
    (tmp_path / "compose.yaml").write_text(text.replace(good, bad))
    assert check(tmp_path / "compose.yaml").returncode == 1
