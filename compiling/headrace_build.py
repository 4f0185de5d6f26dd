"""How Headrace is built: with setuptools, in one of three forms. All forms pass the same tests.

    compiled    the `.pyx` files, by Cython, and the modules of compiled_modules.py, by mypyc from the sources that
                other forms run
    codecs      the `.pyx` files
    pure        nothing

HEADRACE_COMPILE names the form; it is an error if that form cannot be built. Without the variable, an installation
(`pip install .`) is compiled and a checkout (`pip install --editable .`) has the form codecs, so that a change of its
sources takes effect; both are pure if there is no C compiler.

This is the build backend that pyproject.toml names (PEP 517); setup.py takes the extension modules from it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from compiled_modules import RARE_FOLDERS, compiled_names
from compilers import COMPILERS, chosen_form, wanted_form, why_pure
from setuptools import Extension, build_meta
from setuptools.build_meta import (
    build_sdist,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "extensions",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

ROOT: Final = Path(__file__).resolve().parent.parent
BUILD: Final = ROOT / "build"

# Options of mypy: the compiled code depends on these sources alone, and not on other installed packages.
OPTIONS: Final = (
    "--config-file=",
    "--no-site-packages",
    "--ignore-missing-imports",
    "--follow-imports=silent",
    "--explicit-package-bases",
)

# The checkout under the package's name, from which mypy gets the names of the modules. Relative to the checkout, as all
# that gets into C files: in each folder the same sources then make the same objects and the same tracebacks.
TYPED: Final = Path("build", "typed")

# The C files of mypyc.
GENERATED: Final = Path("build", "mypyc")

# What is included in the C files of modules: their code does not collect the tracebacks of error replies.
ERROR_REPLIES: Final = Path("compiling", "error_replies.h")

# What is included after that: the names in these files are not visible outside of their library.
HIDDEN_NAMES: Final = Path("compiling", "hidden_names.h")

# The name of the library that contains all modules compiled by mypyc.
LIBRARY: Final = "headrace"

Settings = Mapping[str, Any] | None

# The extension modules of the present build; empty if it needs none.
extensions: Final[list[Any]] = []


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    """The requirements of building a wheel besides setuptools: the compilers, if they will be used."""
    return [*build_meta.get_requires_for_build_wheel(config_settings), *COMPILERS[chosen_form("compiled")]]


def get_requires_for_build_editable(config_settings: Settings = None) -> list[str]:
    """The requirements of building a checkout besides setuptools: the compiler, if it will be used."""
    return [*build_meta.get_requires_for_build_editable(config_settings), *COMPILERS[chosen_form("codecs")]]


def build_wheel(wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None) -> str:
    """Build the wheel into `wheel_directory`. Returns its name."""
    with only_build():
        for folder in ROOT.glob("build/lib*"):
            shutil.rmtree(folder)  # files of an earlier build would get into the wheel
        note_commit(ROOT, ROOT / "server" / "reports" / "commit.txt")
        return build("compiled", build_meta.build_wheel, wheel_directory, config_settings)


def build_editable(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    """Build the editable wheel of this checkout. Returns its name. Raises SystemExit if the compiled form is wanted."""
    if wanted_form() == "compiled":
        raise SystemExit("headrace: a checkout runs its sources: it has the form codecs or pure, not compiled")
    with only_build():
        return build("codecs", build_meta.build_editable, wheel_directory, config_settings)


@contextlib.contextmanager
def only_build() -> Iterator[None]:
    """Wait until no other build of these sources runs, and let none begin: builds share the folder `build`."""
    BUILD.mkdir(exist_ok=True)
    with (BUILD / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("headrace: another build of these sources is running; this one waits", file=sys.stderr)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def build(best: str, hook: Callable[..., str], *arguments: Any) -> str:
    """Run the hook with the extension modules of the wanted form, else of `best`, or with none if `best` fails."""
    form, reason = chosen_form(best), why_pure()
    if form != "pure":
        try:
            extensions[:] = [*codecs(), *(python_modules() if form == "compiled" else [])]
            return hook(*arguments)
        except (Exception, SystemExit) as error:  # any error of a compiler
            if wanted_form():
                raise
            reason = f"compiling failed ({error})"
        finally:
            extensions.clear()
    print(f"headrace: built in the pure form: {reason}", file=sys.stderr)
    return hook(*arguments)


def note_commit(checkout: Path, note: Path) -> None:
    """Write the commit of a checkout into the file that a server reads it from.

    Without a checkout, a file that came with the sources stays.
    """
    if not (checkout / ".git").exists() or not shutil.which("git"):
        return
    done = subprocess.run(["git", "-C", str(checkout), "rev-parse", "HEAD"], capture_output=True, text=True)
    if not done.returncode:
        note.write_text(done.stdout)


def codecs() -> list[Any]:
    """The modules written for C, each with a `_plain` twin for a build without a compiler."""
    from Cython.Build import cythonize

    sources = [
        Extension(".".join(("headrace", *path.with_suffix("").parts)), [str(path)], extra_compile_args=["-g0"])
        for path in sorted(each.relative_to(ROOT) for depth in ("*", "*/*") for each in ROOT.glob(f"{depth}/*.pyx"))
    ]
    made: list[Any] = cythonize(sources, build_dir="build/cython")  # type: ignore[no-untyped-call]
    return made


def python_modules() -> list[Any]:
    """The compiled Python modules, which share one library: calls from one to another stay in C."""
    from mypyc.build import include_dir, mypycify

    package = TYPED / "headrace"
    TYPED.mkdir(parents=True, exist_ok=True)
    package.unlink(missing_ok=True)
    package.symlink_to(ROOT)
    os.environ["MYPYPATH"] = str(TYPED)
    # The order of the C text depends on what is in the cache. From an empty one, equal sources give equal C files.
    with tempfile.TemporaryDirectory() as cache:
        words = [*OPTIONS, f"--cache-dir={cache}", *(str(package / f"{name}.py") for name in compiled_names())]
        made: list[Any] = mypycify(
            words, opt_level="2", debug_level="0", group_name=LIBRARY, multi_file=True, target_dir=str(GENERATED)
        )
    runtime = sorted(str(path) for path in Path(include_dir()).glob("*.h"))
    for extension in made:
        # mypyc names those headers of its runtime that an earlier build has left in the folder.
        generated = [path for path in extension.depends if Path(path).name.startswith("__native")]
        extension.depends = [*generated, *runtime, str(ERROR_REPLIES), str(HIDDEN_NAMES)]
        extension.options_by_source = {source: options_of(Path(source).stem) for source in extension.sources}
    return made


def options_of(stem: str) -> tuple[str, ...]:
    """The options of the C compiler for a file of mypyc, whose name without its suffix is `stem`."""
    hidden = "-fvisibility=hidden"
    if not stem.startswith(f"__native_{LIBRARY}___"):
        return (hidden,)
    included = (hidden, "-include", str(ERROR_REPLIES), "-include", str(HIDDEN_NAMES))
    return (*included, "-O1") if is_rare(stem) else included


def is_rare(stem: str) -> bool:
    """Whether a C file of mypyc, without its suffix, is of a folder that is optimized less."""
    folder, _, _ = stem.removeprefix(f"__native_{LIBRARY}___").rpartition("___")
    return folder.replace("___", "/") in RARE_FOLDERS
