"""The tour in docs/pipeline.md, run unchanged, and its table of meta columns."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from support.servers import Server
from support.spark_streams import connect

DOCUMENT = Path(__file__).parent.parent.parent / "docs" / "pipeline.md"


def tour() -> str:
    """Returns the code of the tour as one program."""
    section = DOCUMENT.read_text("utf-8").split("\n## A tour\n", 1)[1].split("\n## ", 1)[0]
    return "\n".join(re.findall(r"```python\n(.*?)```", section, re.DOTALL))


@pytest.mark.spark
def test_tour_runs_unchanged(spark: Any, headrace: Server) -> None:
    program = tour().replace("6379", str(headrace.port))
    assert program.count("assert") == 4
    exec(compile(program, str(DOCUMENT), "exec"), {})


@pytest.mark.spark
def test_sink_that_settles_starts_as_shown(spark: Any, headrace: Server, tmp_path: Path) -> None:
    """The fragment becomes a query with the port and a checkpoint, and settles an entry."""
    (fragment,) = re.findall(r"^(outcomes\.writeStream.*?)  #", DOCUMENT.read_text("utf-8"), re.MULTILINE)
    with connect(headrace) as connection:
        connection.call("XGROUP", "CREATE", "s", "packers", "0", "MKSTREAM")
        entry_id = connection.call("XADD", "s", "*", "f", "v").decode()
        connection.call("XREADGROUP", "GROUP", "packers", "ann", "STREAMS", "s", ">")
        rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
        outcomes = rows.selectExpr("'s' AS _stream", f"'{entry_id}' AS _id", "'ack' AS _outcome")
        writer = eval(fragment, {"outcomes": outcomes}).option("port", headrace.port)
        query = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
        query.awaitTermination()
        assert connection.call("XPENDING", "s", "packers")[0] == 0


def test_documentation_lists_exactly_the_meta_columns() -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed: `make test-pipeline` installs it")
    from headrace.pipeline.columns.decode import META

    text = DOCUMENT.read_text("utf-8")
    for name, column in META.items():
        assert f"| `{name}` | {' or '.join(column.types)} | {column.meaning} |" in text
