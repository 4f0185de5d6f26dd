"""The parts that users get: the container's build context, the wheel made from it, and an environment with the
wheel.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
BUILD_TIMEOUT_S = 600
# The modules that Cython compiles, as `headrace/store/glob_match`.
CODECS = {
    f"headrace/{path.relative_to(ROOT).with_suffix('').as_posix()}"
    for depth in ("*", "*/*")
    for path in ROOT.glob(f"{depth}/*.pyx")
}


def copy_context(target: Path) -> Path:
    """Copy what .dockerignore lets through: the files that `COPY . .` brings into the image."""
    lines = (ROOT / ".dockerignore").read_text("utf-8").split()
    assert lines[0] == "*", "everything is left out but what is named"
    kept = [line.removeprefix("!") for line in lines[1:] if line.startswith("!")]
    left_out = [line.removeprefix("**/") for line in lines if line.startswith("**/")]

    def ignore(_: str, names: list[str]) -> list[str]:
        return [name for name in names if any(fnmatch(name, pattern) for pattern in left_out)]

    target.mkdir(parents=True)
    for name in kept:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, target / name, ignore=ignore)
        else:
            shutil.copy2(ROOT / name, target / name)
    return target


def copy_compiled(target: Path) -> None:
    """Copy what builds of this checkout have compiled, so that a build in `target` compiles only what differs."""
    for name in ("cython", "objects"):
        if (ROOT / "build" / name).is_dir():
            shutil.copytree(ROOT / "build" / name, target / "build" / name, ignore=shutil.ignore_patterns("new-*"))


def build_wheel(source: Path, target: Path) -> Path:
    """Build the wheel of Headrace from `source`, without the network: the pure form, which takes no time."""
    words = ["wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(target), str(source)]
    environment = {**os.environ, "HEADRACE_COMPILE": "pure"}
    subprocess.run([sys.executable, "-m", "pip", *words], check=True, timeout=BUILD_TIMEOUT_S, env=environment)
    (wheel,) = target.glob("headrace-*.whl")
    return wheel


class Environment:
    """A virtual environment with a wheel of Headrace, whose other packages are those of this one."""

    def __init__(self, folder: Path, wheel: Path) -> None:
        self.folder = folder
        venv.create(folder, symlinks=True)
        self.python = folder / "bin" / "python"
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        self.site_packages = folder / "lib" / version / "site-packages"
        # Only a path: .pth files in it are not followed, so this checkout's editable install stays out of sight.
        (self.site_packages / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
        words = [sys.executable, "-m", "pip", "--python", str(self.python), "install", "--quiet", "--no-deps"]
        subprocess.run([*words, "--no-index", "--ignore-installed", wheel], check=True, timeout=BUILD_TIMEOUT_S)

    def run(self, *words: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run its Python with these words, in `folder`."""
        environment = {"PATH": f"{self.folder / 'bin'}:/usr/bin:/bin", "HOME": str(folder), **variables}
        return subprocess.run(
            [self.python, *words],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=BUILD_TIMEOUT_S,
        )
