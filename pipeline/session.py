"""A local Spark session that finds its Java and knows the data source: for the jobs, for tests and for notebooks."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from .errors import PipelineError
from .java import find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.sources.partitionOverwriteMode": "dynamic",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.driver.memory": "2g",
}


def local_session(app_name: str = "headrace", *, master: str | None = None, **conf: str) -> SparkSession:
    """A session on this machine, or the one that is already there. `conf` names settings with `__` for dots.

    Raises PipelineError without Java or without the extra.
    """
    try:
        import pyarrow  # noqa: F401
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise PipelineError(f"{error.name} is missing: pip install 'headrace[spark]'") from None
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    if SparkSession.getActiveSession() is None:
        os.environ["JAVA_HOME"] = find_java()
    builder = SparkSession.builder.appName(app_name).master(master or os.environ.get("SPARK_MASTER", "local[*]"))
    for name, value in {**DEFAULTS, **{key.replace("__", "."): value for key, value in conf.items()}}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    from .source import register

    register(spark)
    return spark
