"""Without the extra `spark`, whoever starts a job is told what to install."""

from __future__ import annotations

import subprocess
import sys

WITHOUT_SPARK = """
import runpy, sys
sys.modules["pyspark"] = None
runpy.run_module("headrace.pipeline", run_name="__main__")
"""


def test_missing_spark_is_one_clear_line() -> None:
    started = subprocess.run([sys.executable, "-c", WITHOUT_SPARK], capture_output=True, text=True, timeout=60)
    assert (started.returncode, started.stdout) == (1, "")
    assert started.stderr == "headrace.pipeline needs pyspark: pip install 'headrace[spark]'\n"
