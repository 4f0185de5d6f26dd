"""One Spark session for all tests of the run, and streams to read."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

DISCOVERY = Path(__file__).parent.parent.parent / "pipeline" / "discovery"
# Flags for the driver's Java: it starts sooner and runs slower, which suits tests.
FAST_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def missing_part() -> str | None:
    """Returns what Spark lacks on this machine, or None."""
    from headrace.pipeline.errors import PipelineError
    from headrace.pipeline.java import find_java

    for name in ("pyspark", "pyarrow"):
        if find_spec(name) is None:
            return f"{name} is not installed: `make test-pipeline` installs it"
    try:
        find_java()
    except PipelineError as error:
        return str(error)
    return None


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A Spark session on two threads. Skips without Spark, or fails if HEADRACE_REQUIRE_SPARK is set."""
    missing = missing_part()
    if missing is not None:
        if os.environ.get("HEADRACE_REQUIRE_SPARK", "") not in ("", "0"):
            pytest.fail(missing)
        pytest.skip(missing)
    from headrace.pipeline.session import local_session

    os.environ["PYSPARK_PYTHON"] = sys.executable
    # Spark finds the package there by name, as in site-packages after an installation from a wheel.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(DISCOVERY), os.environ.get("PYTHONPATH")]))
    session = local_session(
        "headrace tests",
        master="local[2,2]",  # a task that fails is tried again
        spark__sql__shuffle__partitions="2",
        spark__sql__warehouse__dir=str(tmp_path_factory.mktemp("warehouse")),
        spark__driver__extraJavaOptions=FAST_START,
        spark__driver__memory="1g",
    )
    yield session
    session.stop()
