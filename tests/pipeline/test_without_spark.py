"""Without the extra `spark`, a job fails with a line that says what to install."""

from __future__ import annotations

import subprocess
import sys

import pytest

WITHOUT_SPARK = """
import runpy, sys
sys.modules["pyspark"] = None
runpy.run_module("headrace.pipeline", run_name="__main__")
"""


def test_missing_spark_is_a_one_line_error() -> None:
    started = subprocess.run([sys.executable, "-c", WITHOUT_SPARK], capture_output=True, text=True, timeout=60)
    assert (started.returncode, started.stdout) == (1, "")
    assert started.stderr == "headrace.pipeline needs pyspark: pip install 'headrace[spark]'\n"


@pytest.mark.parametrize("missing", ["pyspark", "pyarrow", "numpy"])
def test_spark_finds_an_empty_package_if_a_dependency_is_missing(missing: str) -> None:
    program = f"import sys; sys.modules[{missing!r}] = None; import pyspark_headrace; print(pyspark_headrace.__all__)"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert found.stdout == "[]\n"
