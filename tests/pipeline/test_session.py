"""The session of the jobs, next to the user's unchanged session."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.spark

OVERWRITE = "spark.sql.sources.partitionOverwriteMode"
TIME_ZONE = "spark.sql.session.timeZone"
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


def test_session_of_a_job_does_not_change_the_users_session(spark: Any) -> None:
    from headrace.pipeline.session import local_session

    user = spark.newSession()
    assert user.conf.get(OVERWRITE).lower() == "static"
    user.conf.set(TIME_ZONE, "Asia/Tokyo")
    user.conf.set(PUSHDOWN, "false")
    user.range(1).createOrReplaceTempView("mine")
    before = dict(row for row in user.sql("SET").collect())
    spark_before = dict(row for row in spark.sql("SET").collect())
    job = local_session("job", spark__sql__shuffle__partitions="7", spark__driver__memory="9g")
    assert (job.conf.get(TIME_ZONE), job.conf.get(PUSHDOWN)) == ("UTC", "true")
    assert job.conf.get("spark.sql.shuffle.partitions") == "7"
    assert job.conf.get(OVERWRITE).lower() == "static"
    assert job.sparkContext is user.sparkContext
    assert dict(row for row in user.sql("SET").collect()) == before
    assert dict(row for row in spark.sql("SET").collect()) == spark_before
    assert not job.catalog.tableExists("mine")
