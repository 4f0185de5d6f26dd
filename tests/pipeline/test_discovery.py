"""Spark finds the data source by name in the environment of the Python that it starts, as docs/pipeline.md says."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from support.packaging import Environment, build_wheel, copy_context

# Reads by name, without registering. The option `stream` is missing, which only the data source itself can report.
READ = """
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()
try:
    spark.read.format("headrace").load().collect()
except Exception as error:
    print("FOUND" if "set one of the options stream and streamPattern" in str(error) else error)
"""


@pytest.mark.spark
def test_source_is_found_by_name_in_the_environment_that_pyspark_python_names(spark: Any, tmp_path: Path) -> None:
    """The `python3` on the PATH is another one, as in an environment that was not activated."""
    wheel = build_wheel(copy_context(tmp_path / "source"), tmp_path / "wheels")
    environment = Environment(tmp_path / "environment", wheel)
    variables = {"PATH": "/usr/bin:/bin", "JAVA_HOME": os.environ["JAVA_HOME"], "SPARK_LOCAL_IP": "127.0.0.1"}
    done = environment.run("-c", READ, folder=tmp_path, PYSPARK_PYTHON=str(environment.python), **variables)
    assert done.stdout.splitlines()[-1] == "FOUND", done.stdout
