"""The data source in a fresh environment of another Python: the wheel, numpy and pyarrow as pip installs them there."""

from __future__ import annotations

import os
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

from pipeline.conftest import FAST_START, missing_part
from support.packaging import build_wheel, copy_context
from support.servers import Server

INSTALL_TIMEOUT_S = 300
VERSIONS = ("3.12", "3.13")
# PySpark is the same for every Python: 700 MB that need not be installed again.
SHARED = ("pyspark", "py4j")

SCRIPT = """
import sys

from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = spark.config("spark.driver.extraJavaOptions", sys.argv[2]).getOrCreate()


def read():
    table = spark.read.format("headrace").options(port=sys.argv[1], stream="s", fields="n int").load()
    return sorted(row.n for row in table.collect())


found_by_name = read()

from headrace.pipeline.source import register

register(spark)
print("rows", found_by_name, read(), "%d.%d" % sys.version_info[:2])
"""


def find_python(version: str) -> str | None:
    """An interpreter of this version: one of pyenv, whose commands on the PATH may refuse to run, or the one there."""
    own = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python3"))
    return str(own[-1]) if own else shutil.which(f"python{version}")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    return build_wheel(copy_context(folder / "context"), folder / "built")


@pytest.mark.spark
@pytest.mark.parametrize("version", VERSIONS)
def test_a_fresh_environment_finds_the_source_by_name_and_registers_it(
    version: str, wheel: Path, headrace: Server, tmp_path: Path
) -> None:
    interpreter, missing = find_python(version), missing_part()
    if missing is not None or interpreter is None:
        pytest.skip(missing or f"no python{version} found")
    environment = tmp_path / "venv"
    subprocess.run([interpreter, "-m", "venv", environment], check=True, timeout=INSTALL_TIMEOUT_S)
    python = environment / "bin" / "python"
    install = [python, "-m", "pip", "install", "--quiet", wheel, "numpy>=2.0", "pyarrow>=18"]
    subprocess.run(install, check=True, timeout=INSTALL_TIMEOUT_S)
    packages = environment / "lib" / f"python{version}" / "site-packages"
    for name in SHARED:
        found = find_spec(name)
        assert found is not None
        assert found.origin is not None
        (packages / name).symlink_to(Path(found.origin).parent)
    with headrace.connect() as wire:
        wire.call("FLUSHALL")
        for number in (1, 2, 3):
            wire.call("XADD", "s", "*", "n", number)
    # The environment is active: Spark starts the Python that is first on the PATH.
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "PYTHON"))}
    variables |= {"PATH": f"{python.parent}:{os.environ['PATH']}", "VIRTUAL_ENV": str(environment)}
    done = subprocess.run(
        [python, "-c", SCRIPT, str(headrace.port), FAST_START],
        env=variables,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=INSTALL_TIMEOUT_S,
    )
    assert f"rows [1, 2, 3] [1, 2, 3] {version}" in done.stdout, done.stderr[-2000:]
