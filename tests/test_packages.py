"""The wheel contains every package of the product: pyproject.toml names them one by one."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
PRODUCT = ("commands", "comparison", "persistence", "pipeline", "protocol", "replication", "server", "store", "testing")
# A package of its own name, which `package-dir` maps to this folder.
OWN_NAME = ROOT / "pipeline" / "discovery"


def test_every_package_of_the_product_is_in_the_wheel() -> None:
    found = {
        ".".join(("headrace", *path.parent.relative_to(ROOT).parts))
        for folder in PRODUCT
        for path in (ROOT / folder).rglob("__init__.py")
        if OWN_NAME not in path.parents
    }
    configuration = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert found | {"headrace", "pyspark_headrace"} == set(configuration["tool"]["setuptools"]["packages"])
