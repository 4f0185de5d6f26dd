"""Builds make the form that is asked for, or the best one that the machine can make.

They do not depend on the form that runs these tests, so only `make test` runs them.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import compilers
import headrace_build
import pytest

from support.packaging import BUILD_TIMEOUT_S, CODECS, ROOT, Environment, copy_compiled, copy_context

needs_compiler = pytest.mark.skipif(headrace_build.why_pure() is not None, reason="nothing to compile with")

# -- whether to compile --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wish", "compiler", "reason", "wheel", "checkout"),
    [
        ("pure", sys.executable, "HEADRACE_COMPILE=pure", "pure", "pure"),
        ("codecs", "nothing-like-that", None, "codecs", "codecs"),
        ("compiled", "nothing-like-that", None, "compiled", "compiled"),
        ("", "nothing-like-that -Wall", "no C compiler found", "pure", "pure"),
        ("", f"{sys.executable} -Wall", None, "compiled", "codecs"),
    ],
)
def test_the_form_is_asked_for_or_follows_from_the_compiler(
    wish: str,
    compiler: str,
    reason: str | None,
    wheel: str,
    checkout: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    (tmp_path / "Python.h").touch()
    monkeypatch.setattr("sysconfig.get_path", lambda _: str(tmp_path))
    monkeypatch.setenv("HEADRACE_COMPILE", wish)
    monkeypatch.setenv("CC", compiler)
    monkeypatch.setattr("setuptools.build_meta.get_requires_for_build_wheel", lambda _: [])
    monkeypatch.setattr("setuptools.build_meta.get_requires_for_build_editable", lambda _: [])
    needed = {
        "compiled": [compilers.CYTHON, compilers.MYPYC],
        "codecs": [compilers.CYTHON],
        "pure": [],
    }
    assert headrace_build.why_pure() == reason
    assert headrace_build.get_requires_for_build_wheel() == needed[wheel]
    assert headrace_build.get_requires_for_build_editable() == needed[checkout]


@pytest.mark.parametrize("wish", ["1", "0", "plain", "Compiled"])
def test_another_word_than_a_form_is_refused(wish: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_COMPILE", wish)
    with pytest.raises(SystemExit, match=f"one of compiled, codecs, pure, not '{wish}'"):
        headrace_build.get_requires_for_build_wheel()


def test_a_checkout_is_not_compiled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HEADRACE_COMPILE", "compiled")
    with pytest.raises(SystemExit, match="a checkout runs its sources"):
        headrace_build.build_editable(str(tmp_path))
    assert not list(tmp_path.iterdir())


def test_without_headers_of_python_nothing_is_compiled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sysconfig.get_path", lambda _: str(tmp_path))
    monkeypatch.setenv("HEADRACE_COMPILE", "")
    monkeypatch.setenv("CC", sys.executable)
    assert headrace_build.why_pure() == "the headers of Python are not installed"


# -- what is built -------------------------------------------------------------------------------

BUILD = """
import sys, headrace_build
headrace_build.compiled_names = lambda: ["store/ids"]  # one stands for all, and takes seconds
print(getattr(headrace_build, sys.argv[1])(sys.argv[2]))
"""


class Builder:
    """Builds from a copy of the sources."""

    def __init__(self, folder: Path) -> None:
        self.source = copy_context(folder / "source")
        copy_compiled(self.source)
        self.target = folder / "built"

    def build(self, what: str = "build_wheel", **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a hook of the build backend as pip does, in the folder of the sources."""
        environment = {**os.environ, "PYTHONPATH": str(self.source / "compiling"), "HEADRACE_COMPILE": "", **variables}
        return subprocess.run(
            [sys.executable, "-c", BUILD, what, str(self.target)],
            cwd=self.source,
            env=environment,
            capture_output=True,
            text=True,
            timeout=BUILD_TIMEOUT_S,
        )

    @property
    def built(self) -> Path:
        """The only file that was built."""
        (path,) = self.target.iterdir()
        return path


@pytest.fixture
def builder(tmp_path: Path) -> Builder:
    """A copy of the sources to build from."""
    return Builder(tmp_path)


def files_of(wheel: Path) -> set[str]:
    """Names of the files in the wheel, without its metadata."""
    return {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}


def extensions_of(names: set[str]) -> set[str]:
    """Those of them that are extension modules, as `headrace/store/ids`."""
    return {name.partition(".")[0] for name in names if name.endswith((".so", ".pyd"))}


@needs_compiler
def test_a_compiled_wheel_holds_the_sources_and_runs_the_extensions(builder: Builder, tmp_path: Path) -> None:
    assert builder.build(HEADRACE_COMPILE="compiled").returncode == 0
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    assert f"-{tag}-{tag}-" in builder.built.name
    names = files_of(builder.built)
    assert "headrace/store/ids.py" in names
    assert extensions_of(names) == CODECS | {"headrace/store/ids", "headrace__mypyc"}
    program = "from headrace.store import ids; print(ids.__file__, ids.format_id(ids.parse_id(b'1-2')))"
    said = Environment(tmp_path / "venv", builder.built).run("-c", program, folder=tmp_path)
    assert ".so b'1-2'" in said.stdout


@needs_compiler
def test_a_second_build_compiles_what_has_changed(builder: Builder) -> None:
    """Method: a function gets another constant, which changes one C file of mypyc and no declaration."""

    def build() -> set[str]:
        shutil.rmtree(builder.target, ignore_errors=True)
        assert builder.build(HEADRACE_COMPILE="compiled").returncode == 0
        return {path.name for path in (builder.source / "build" / "objects").iterdir()}

    first = build()
    assert build() == first
    source = builder.source / "store" / "ids.py"
    text = source.read_text("utf-8")
    changed = text.replace("return entry_id + 1", "return entry_id + 2", 1)
    assert changed != text
    source.write_text(changed, "utf-8")
    second = build()
    assert first < second
    assert len(second - first) == 1


@needs_compiler
def test_a_wheel_of_codecs_has_only_their_extensions(builder: Builder) -> None:
    assert builder.build(HEADRACE_COMPILE="codecs").returncode == 0
    assert extensions_of(files_of(builder.built)) == CODECS


@pytest.mark.parametrize(("wish", "reason"), [("pure", "HEADRACE_COMPILE=pure"), ("", "compiling failed")])
def test_a_wheel_is_pure_where_compiling_is_refused_or_fails(wish: str, reason: str, builder: Builder) -> None:
    done = builder.build(HEADRACE_COMPILE=wish, CC=str(refusing_compiler(builder.source)))
    assert done.returncode == 0, done.stderr
    assert sum(f"headrace: built in the pure form: {reason}" in line for line in done.stderr.splitlines()) == 1
    assert builder.built.name.endswith("-py3-none-any.whl")
    names = files_of(builder.built)
    assert extensions_of(names) == set()
    assert {"headrace/store/ids.py", "headrace/server/main.py"} <= names
    assert not {"headrace/setup.py", "headrace_build.py"} & names


def test_an_insisted_on_compilation_that_fails_is_an_error(builder: Builder) -> None:
    done = builder.build(HEADRACE_COMPILE="compiled", CC=str(refusing_compiler(builder.source)))
    assert done.returncode != 0
    assert not list(builder.target.glob("*.whl"))


def refusing_compiler(folder: Path) -> Path:
    """A C compiler that compiles nothing."""
    path = folder / "refusing-cc"
    path.write_text("#!/bin/sh\nexit 1\n")
    path.chmod(0o755)
    return path


def test_a_source_distribution_builds_the_same_wheel(builder: Builder, tmp_path: Path) -> None:
    shutil.copy2(ROOT / "MANIFEST.in", builder.source)
    assert builder.build("build_sdist").returncode == 0
    unpacked = tmp_path / "unpacked"
    with tarfile.open(builder.built) as archive:
        archive.extractall(unpacked, filter="data")
    from_sources = Builder(tmp_path / "other")
    assert from_sources.build(HEADRACE_COMPILE="pure").returncode == 0
    (from_sources.source,) = unpacked.iterdir()
    from_sources.target = tmp_path / "again"
    assert from_sources.build(HEADRACE_COMPILE="pure").returncode == 0
    assert files_of(from_sources.built) == files_of(next((tmp_path / "other" / "built").iterdir()))


def test_the_compiler_is_that_of_the_development_tools() -> None:
    """Goal: the build accepts what lint accepts."""
    assert f'"{compilers.MYPYC}"' in (ROOT / "pyproject.toml").read_text("utf-8")


def test_a_second_build_of_the_same_sources_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two builds in one folder made a wheel without Python modules."""
    monkeypatch.setattr(headrace_build, "BUILD", tmp_path / "build")
    with (
        headrace_build.only_build(),
        (tmp_path / "build" / "lock").open("w") as other,
        pytest.raises(BlockingIOError),
    ):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with (tmp_path / "build" / "lock").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
