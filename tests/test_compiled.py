"""The three build forms: which one runs, which modules are compiled, and what may be written in these.

All other tests do not depend on the form (`make test`, `make test-compiled`, `make test-pure`).
"""

from __future__ import annotations

import ast
import builtins
import ctypes
import os
from functools import cache
from importlib import import_module

import compiled_modules
import compilers
import headrace_build
import pytest
from compiled_modules import EXCEPTIONS

from headrace import build_form, is_compiled
from headrace.server.main import version_line
from support.packaging import CODECS, ROOT

COMPILED = compiled_modules.compiled_names()
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


@pytest.mark.skipif(not is_compiled(), reason="there is no library of compiled modules")
def test_the_library_of_compiled_modules_shows_only_its_beginning() -> None:
    name = f"{headrace_build.LIBRARY}__mypyc"
    library = ctypes.PyDLL(str(import_module(name).__file__))
    assert hasattr(library, f"PyInit_{name}")
    assert not any(hasattr(library, hidden) for hidden in ("CPyStatics", "CPyGlobalsInit", "CPy_Init"))


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
