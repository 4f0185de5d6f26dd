"""The three build forms: which one runs, and that a build makes the requested one.

All other tests do not depend on the form (`make test`, `make test-compiled`, `make test-pure`).
"""

from __future__ import annotations

import ast
import builtins
import fcntl
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from functools import cache
from importlib import import_module
from pathlib import Path

import compiled_modules
import compilers
import headrace_build
import pytest
from compiled_modules import EXCEPTIONS

from headrace import build_form, is_compiled
from headrace.server.main import version_line
from support.packaging import BUILD_TIMEOUT_S, ROOT, Environment, copy_context

COMPILED = compiled_modules.compiled_names()
CODECS = {
    f"headrace/{path.relative_to(ROOT).with_suffix('').as_posix()}"
    for depth in ("*", "*/*")
    for path in ROOT.glob(f"{depth}/*.pyx")
}
needs_compiler = pytest.mark.skipif(
    not os.environ.get("HEADRACE_REQUIRE_COMPILED") and headrace_build.why_pure() is not None,
    reason="nothing to compile with",
)


@pytest.mark.parametrize("name", COMPILED)
def test_modules_run_in_one_form(name: str) -> None:
    """The compiled one if it is required."""
    module = import_module(f"headrace.{name.replace('/', '.')}")
    is_extension = not str(module.__file__).endswith(".py")
    assert is_extension == is_compiled()
    assert is_extension or not os.environ.get("HEADRACE_REQUIRE_COMPILED")


@needs_compiler
@pytest.mark.parametrize("name", sorted(CODECS))
def test_every_codec_was_built_where_there_is_a_compiler(name: str) -> None:
    """A build that fails falls back to the twins. Then their tests would be of the twins alone."""
    assert not str(import_module(name.replace("/", ".")).__file__).endswith(".py")


# -- which modules are compiled ------------------------------------------------------------------

# What a compiled class can extend besides compiled classes.
BASES = {"ABC", "Enum", "Exception", "FlagEnum", "Generic", "IntEnum", "NamedTuple", "Protocol"}


@cache
def source_of(name: str) -> ast.Module:
    """The source of a module, parsed."""
    return ast.parse((ROOT / f"{name}.py").read_text("utf-8"))


def is_package(name: str) -> bool:
    """Whether the module contains a docstring and nothing else."""
    (only,) = source_of(name).body
    return isinstance(only, ast.Expr) and isinstance(only.value, ast.Constant)


def is_twin(name: str) -> bool:
    """Whether the module does what a file does that Cython compiles."""
    return (ROOT / f"{name.removesuffix('_plain')}.pyx").exists()


@cache
def classes_of(name: str) -> list[ast.ClassDef]:
    """The classes of a module."""
    return [node for node in ast.walk(source_of(name)) if isinstance(node, ast.ClassDef)]


def bases_of(node: ast.ClassDef) -> list[str]:
    """The bases of a class, without their parameters."""
    return [ast.unparse(base.value if isinstance(base, ast.Subscript) else base) for base in node.bases]


def has_builtin_base(name: str) -> bool:
    """Whether one of its classes extends a builtin type that mypyc does not let it extend."""
    return any(hasattr(builtins, base) and base not in BASES for node in classes_of(name) for base in bases_of(node))


def has_python_base(name: str) -> bool:
    """Whether one of its classes extends a class of another package, which is not builtin and unknown to mypyc."""
    own = {node.name for each in compiled_modules.all_names() for node in classes_of(each)}
    known = own | BASES | set(dir(builtins))
    return any(base not in known for node in classes_of(name) for base in bases_of(node))


def has_dynamic_attributes(name: str) -> bool:
    """Whether one of its classes has attributes that it does not declare."""
    return any(isinstance(node, ast.FunctionDef) and node.name == "__getattr__" for node in ast.walk(source_of(name)))


def imported_names(name: str) -> set[str]:
    """The modules and names that a module imports relatively, as `store/ids` and `store/ids/format_id`."""
    found = set()
    for node in ast.walk(source_of(name)):
        if isinstance(node, ast.ImportFrom) and node.level:
            package = "/".join([*name.split("/")[: -node.level], *(node.module or "").split(".")]).strip("/")
            found |= {package, *(f"{package}/{alias.name}" for alias in node.names)}
    return found


def is_called_by_lua(name: str) -> bool:
    """Whether a function of the module is what Lua calls however long a script runs."""
    functions = {node.name for node in ast.walk(source_of(name)) if isinstance(node, ast.FunctionDef)}
    calls = [node for node in ast.walk(source_of("commands/scripting/engine")) if isinstance(node, ast.Call)]
    made = [call for call in calls if ast.unparse(call.func) == "Interpreter"]
    return any(isinstance(each, ast.Attribute) and each.attr in functions for call in made for each in call.args)


def is_imported_by_no_compiled_module(name: str) -> bool:
    """Whether only programs, tests and other modules that are not compiled import the module."""
    return not any(name in imported_names(each) for each in COMPILED)


def has_rows_of_directives(name: str) -> bool:
    """Whether the module declares the directives, or what they are made of."""
    return name.startswith("server/configuration/directive")


def calls_the_system(name: str) -> bool:
    """Whether the module imports `os`."""
    modules = [alias.name for node in source_of(name).body if isinstance(node, ast.Import) for alias in node.names]
    return "os" in modules


# How each reason is checked.
PROOFS = {
    compiled_modules.PACKAGE: is_package,
    compiled_modules.TWIN: is_twin,
    compiled_modules.BUILTIN_BASE: has_builtin_base,
    compiled_modules.PYTHON_BASE: has_python_base,
    compiled_modules.DYNAMIC_ATTRIBUTES: has_dynamic_attributes,
    compiled_modules.RUNS_SIGNAL_HANDLERS: is_called_by_lua,
    compiled_modules.RUNS_ONCE: is_imported_by_no_compiled_module,
    compiled_modules.DIRECTIVE_ROWS: has_rows_of_directives,
    compiled_modules.SYSTEM_CALLS: calls_the_system,
}


@pytest.mark.parametrize("name", compiled_modules.all_names())
def test_a_module_is_compiled_or_has_a_reason_that_is_true(name: str) -> None:
    reason = compiled_modules.why_interpreted(name)
    assert (reason is None) == (name in COMPILED)
    assert reason is None or PROOFS[reason](name)


@pytest.mark.parametrize("name", COMPILED)
def test_a_reason_holds_for_the_modules_that_have_it(name: str) -> None:
    """Goal: no module is compiled that has a reason not to be, of those reasons that the compiler does not report."""
    assert not is_twin(name)
    assert not has_builtin_base(name)
    assert not has_python_base(name)


def test_all_exceptions_exist() -> None:
    assert set(EXCEPTIONS) <= set(compiled_modules.all_names())


def test_all_folders_are_those_of_the_package() -> None:
    """`pipeline` and `testing` run in the processes of users, and `comparison` waits for the servers it compares."""
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert packages - {"benchmarks"} == {*compiled_modules.FOLDERS, "comparison", "pipeline", "testing"}
    assert all((ROOT / folder).is_dir() for folder in compiled_modules.RARE_FOLDERS)


# -- what may be written in a compiled module ----------------------------------------------------

TAKES_ALL = (
    "Pairs", "accumulate", "all", "any", "bytes", "dict", "frozenset", "max", "min", "next", "sorted", "sum", "tuple",
)  # fmt: skip


@pytest.mark.parametrize("name", COMPILED)
def test_generator_expressions_are_given_to_what_takes_all_of_them(name: str) -> None:
    """mypyc makes lists of them. Lazy code, such as a range that is made while it is sent, must be a function."""
    for node in ast.walk(source_of(name)):
        for part in ast.iter_child_nodes(node):
            if isinstance(part, ast.GeneratorExp) and not isinstance(node, ast.Starred):
                assert isinstance(node, ast.Call), ast.unparse(node)
                is_join = isinstance(node.func, ast.Attribute) and node.func.attr == "join"
                assert is_join or ast.unparse(node.func) in TAKES_ALL, ast.unparse(node)


@pytest.mark.parametrize("name", COMPILED)
def test_a_name_of_an_exception_has_one_type_in_a_function(name: str) -> None:
    """mypyc makes one variable of it, whose type is that of the first `except`."""
    for function in ast.walk(source_of(name)):
        types: dict[str, str] = {}
        for node in ast.walk(function) if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) else ():
            if isinstance(node, ast.ExceptHandler) and node.name and node.type is not None:
                caught = ast.unparse(node.type)
                assert types.setdefault(node.name, caught) == caught, ast.unparse(function)


def test_version_names_the_form() -> None:
    without_python_modules = "codecs" if is_compiled("protocol.frames") else "pure"
    assert version_line().endswith(f" form={'compiled' if is_compiled() else without_python_modules}")
    assert build_form() in compilers.COMPILERS


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
    assert len(first) > len(CODECS)
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
