"""Everything that the workflow files name exists, and the metadata of the wheel is complete."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parent.parent
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def load(path: Path) -> dict[Any, Any]:
    workflow: dict[Any, Any] = yaml.safe_load(path.read_text("utf-8"))
    return workflow


def steps() -> Iterator[tuple[str, dict[str, Any]]]:
    for path in WORKFLOWS:
        for name, job in load(path)["jobs"].items():
            for step in job["steps"]:
                yield f"{path.name}, {name}", step


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflow_has_triggers_permissions_and_jobs(path: Path) -> None:
    workflow = load(path)
    assert workflow[True], "YAML reads the word `on` as true"
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        assert job["runs-on"]
        assert all(("uses" in step) != ("run" in step) for step in job["steps"])


def test_workflows_run_scripts_and_targets_that_exist() -> None:
    lines = [(place, line) for place, step in steps() for line in step.get("run", "").splitlines()]
    assert ("tests.yml, run", ".ci/run") in lines
    for place, line in lines:
        command, *words = line.split()
        if command == "make":
            assert subprocess.run(["make", "--dry-run", *words], cwd=ROOT, check=False).returncode == 0, (place, line)
        elif "/" in command:
            assert os.access(ROOT / command, os.X_OK), (place, line)
        else:
            assert command == "python", (place, line)


def test_actions_are_named_with_a_version() -> None:
    for place, step in steps():
        assert re.fullmatch(r"[\w-]+/[\w-]+@v\d+(\.\d+)*", step.get("uses", "a/b@v1")), (place, step)


def test_files_that_workflows_name_exist() -> None:
    for path in WORKFLOWS:
        for name in re.findall(r"hashFiles\('([^']+)'\)", path.read_text("utf-8")):
            assert (ROOT / name).is_file(), name
    for place, step in steps():
        if "file" in step.get("with", {}):
            assert (ROOT / step["with"]["file"]).is_file(), place


def test_release_builds_compiled_wheels_on_linux_and_macos() -> None:
    wheels = load(ROOT / ".github" / "workflows" / "release.yml")["jobs"]["wheels"]
    platforms = {each["platform"] for each in wheels["strategy"]["matrix"]["include"]}
    assert platforms == {"linux-x86_64", "linux-arm64", "macos-arm64"}
    assert any(step.get("uses", "").startswith("pypa/cibuildwheel@") for step in wheels["steps"])
    settings = PROJECT["tool"]["cibuildwheel"]
    assert settings["environment"] == {"HEADRACE_COMPILE": "compiled"}
    assert "build_form() == 'compiled'" in settings["test-command"]


def test_image_is_pushed_on_a_tag_only() -> None:
    workflow = load(ROOT / ".github" / "workflows" / "release.yml")
    assert workflow[True]["push"] == {"tags": ["v*"]}
    (build,) = [step for step in workflow["jobs"]["image"]["steps"] if "build-push-action" in step.get("uses", "")]
    assert build["with"]["push"] == "${{ github.ref_type == 'tag' }}"


def test_project_metadata_is_complete() -> None:
    project = PROJECT["project"]
    assert project["license"] == "MIT"
    assert all((ROOT / name).is_file() for name in project["license-files"])
    assert project["keywords"]
    assert not [line for line in project["classifiers"] if line.startswith("License")], "the SPDX text says it"
    lowest = project["requires-python"].removeprefix(">=")
    assert f"Programming Language :: Python :: {lowest}" in project["classifiers"]
    built = {f"{word[2]}.{word[3:].removesuffix('-*')}" for word in PROJECT["tool"]["cibuildwheel"]["build"].split()}
    named = {line.rsplit(" ", 1)[1] for line in project["classifiers"] if re.search(r":: 3\.\d+$", line)}
    assert built == named
