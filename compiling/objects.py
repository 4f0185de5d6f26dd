"""Compiles the C files of all extension modules: on all processors, and each only once.

An object file is kept in `build/objects` under a name made of all that it depends on: the C file, the headers that were
generated with it, and the compiler with its options. A build after a small change compiles what differs.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from setuptools.command.build_ext import build_ext

OBJECTS: Final = Path("build", "objects")

# Objects that no build has used for this time are deleted.
KEPT_S: Final = 14 * 24 * 3600


class BuildExtensions(build_ext):
    """The command `build_ext`."""

    def build_extensions(self) -> None:
        """Compile all C files, then link all extension modules."""
        OBJECTS.mkdir(parents=True, exist_ok=True)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            self._compile_all(pool)
            list(pool.map(self._link, self.extensions))
        delete_unused(time.time() - KEPT_S)

    def _compile_all(self, pool: ThreadPoolExecutor) -> None:
        """Replace the sources of all extension modules by their objects. The largest files are compiled first."""
        made: dict[tuple[int, str], str] = {}
        work = [(extension, source) for extension in self.extensions for source in extension.sources]
        work.sort(key=lambda pair: os.path.getsize(pair[1]), reverse=True)
        for (extension, source), path in zip(work, pool.map(lambda pair: self._object(*pair), work), strict=True):
            made[id(extension), source] = path
        for extension in self.extensions:
            extension.extra_objects = [made[id(extension), source] for source in extension.sources]
            extension.sources = []

    def _object(self, extension: Any, source: str) -> str:
        """Path of the object file of a C file, which is compiled if it was not before."""
        options = [*extension.extra_compile_args, *getattr(extension, "options_by_source", {}).get(source, ())]
        command: list[str] = [*getattr(self.compiler, "compiler_so", ()), *options]
        digest = sha256("\0".join((sys.version, compiler_version(command[0] if command else ""), *command)).encode())
        for path in (source, *extension.depends):
            digest.update(digest_of(path))
        kept = OBJECTS / f"{digest.hexdigest()}.o"
        if not kept.exists():
            # Another build of this checkout may compile the same file.
            with TemporaryDirectory(dir=OBJECTS, prefix="new-") as folder:
                (path,) = self.compiler.compile(
                    [source], output_dir=folder, include_dirs=extension.include_dirs, extra_postargs=options
                )
                os.replace(path, kept)
        os.utime(kept)
        return str(kept)

    def _link(self, extension: Any) -> None:
        path = self.get_ext_fullpath(extension.name)
        self.compiler.link_shared_object(
            extension.extra_objects,
            path,
            libraries=self.get_libraries(extension),
            library_dirs=extension.library_dirs,
            runtime_library_dirs=extension.runtime_library_dirs,
            export_symbols=self.get_export_symbols(extension),  # type: ignore[no-untyped-call]
            build_temp=self.build_temp,
        )


def delete_unused(since_s: float) -> None:
    """Delete the objects that were last used before `since_s` (Unix seconds)."""
    for kept in OBJECTS.glob("*.o"):
        if kept.stat().st_mtime < since_s:
            kept.unlink(missing_ok=True)


@cache
def digest_of(path: str) -> bytes:
    """The digest of a file."""
    return sha256(Path(path).read_bytes()).digest()


@cache
def compiler_version(compiler: str) -> str:
    """What the compiler says of itself, empty if it cannot be asked."""
    try:
        return subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False).stdout
    except OSError:
        return ""
