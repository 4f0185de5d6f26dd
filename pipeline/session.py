"""A local Spark session with the data source registered: for the jobs, for tests and for notebooks."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from .errors import PipelineError
from .java import find_java, quiet_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.driver.memory": "2g",
}


# Java's log: no lines about its own start.
LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")
JAVA_OPTIONS = "spark.driver.extraJavaOptions"


def local_session(
    app_name: str = "headrace", *, master: str | None = None, quiet: bool = False, **conf: str
) -> SparkSession:
    """Returns a new session on this machine, with the data source registered.

    With `quiet`, Java prints nothing at all: an error reaches the caller as an exception. Without it, Java also prints
    errors with their trace.

    If Spark already runs in this process, the session shares it, and the user's own session keeps its settings.
    Settings that Spark accepts only before it starts are ignored then. `conf` names settings with `__` for dots.

    Raises PipelineError if Java or the extra `headrace[spark]` is missing.
    """
    try:
        import pyarrow  # noqa: F401
        from pyspark import SparkContext
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise PipelineError(f"{error.name} is missing: pip install 'headrace[spark]'") from None
    settings = {**DEFAULTS, **{key.replace("__", "."): value for key, value in conf.items()}}
    if SparkContext._active_spark_context is not None:
        spark = SparkSession.builder.getOrCreate().newSession()
        for name, value in settings.items():
            if spark.conf.isModifiable(name):
                spark.conf.set(name, value)
    else:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        java = find_java()
        os.environ["JAVA_HOME"] = quiet_java(java) if quiet else java
        quietly = f"-Dlog4j2.configurationFile={LOG_SETTINGS.as_uri()}"
        settings[JAVA_OPTIONS] = " ".join(filter(None, [quietly, settings.get(JAVA_OPTIONS)]))
        builder = SparkSession.builder.appName(app_name).master(master or os.environ.get("SPARK_MASTER", "local[*]"))
        for name, value in settings.items():
            builder = builder.config(name, value)
        spark = builder.getOrCreate()
        if quiet:
            spark.sparkContext.setLogLevel("OFF")
    from .source import register

    register(spark)
    return spark
