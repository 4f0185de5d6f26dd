"""The container image under a real engine: podman builds the Dockerfile and runs the image.

No registry is asked: a small Debian made of packages has the names of the base images. Needs root, podman, runc and
mmdebstrap.
"""

from __future__ import annotations

import resource
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

BUILD_TIMEOUT_S: Final = 600
RUN_TIMEOUT_S: Final = 60
TOOLS: Final = ("podman", "runc", "mmdebstrap")
BASES: Final = ("python:3.12-bookworm", "python:3.12-slim-bookworm")
# What the base images have, as far as the Dockerfile needs it.
PACKAGES: Final = "python3,python3-pip,python3-venv"
CERTIFICATES: Final = Path("/etc/ssl/certs/ca-certificates.crt")

# The pure form: compiling takes minutes, and the tests of test_image.py run the compiled one.
BASE: Final = f"""
FROM scratch
ADD base.tar /
RUN ln -s python3 /usr/bin/python
ENV PIP_BREAK_SYSTEM_PACKAGES=1 PIP_CERT={CERTIFICATES} HEADRACE_COMPILE=pure
"""


def missing_tools() -> list[str]:
    """The programs that this machine lacks."""
    return [tool for tool in TOOLS if shutil.which(tool) is None]


class Engine:
    """podman with a storage of its own, in `folder`. `close` removes its containers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # podman refuses a path of more than 50 characters here, and a folder of pytest may have one.
        self._state = tempfile.TemporaryDirectory(prefix="engine-", dir="/tmp", ignore_cleanup_errors=True)
        state = self._state.name
        self._options = [f"--root={folder}/storage", f"--runroot={state}/run", f"--tmpdir={state}/tmp"]
        self._options += ["--runtime=runc", "--cgroup-manager=cgroupfs", "--events-backend=none"]
        descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        self._limits = [f"--ulimit=nofile={descriptors}:{descriptors}", "--ulimit=nproc=1000:1000"]

    def call(self, *words: str | Path, timeout_s: float = RUN_TIMEOUT_S) -> subprocess.CompletedProcess[str]:
        """Run podman."""
        return subprocess.run(
            ["podman", *self._options, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )

    def build(self, options: Sequence[str], dockerfile: str, context: Path) -> None:
        """`docker build` with these options, from the packages that this machine can install."""
        (self.folder / "Dockerfile").write_text(dockerfile)
        words = ["--isolation=chroot", "--network=host", "--format=docker", "--pull-never", "--layers"]
        if CERTIFICATES.exists():
            words.append(f"--volume={CERTIFICATES.parent}:{CERTIFICATES.parent}:ro")
        words += [*options, f"--file={self.folder}/Dockerfile", str(context)]
        done = self.call("build", *words, timeout_s=BUILD_TIMEOUT_S)
        assert done.returncode == 0, done.stdout + done.stderr

    def build_bases(self) -> None:
        """Make the base images."""
        base = self.folder / "base"
        base.mkdir(parents=True)
        # Without a sync after each file, as in the images of Debian: it takes a third of the time.
        options = ["--quiet", "--variant=minbase", "--dpkgopt=force-unsafe-io", f"--include={PACKAGES}"]
        words = ["mmdebstrap", *options, "bookworm", base / "base.tar"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S)
        assert done.returncode == 0, done.stderr
        self.build([f"--tag={name}" for name in BASES], BASE, base)
        shutil.rmtree(base)

    def run(self, *words: str | Path, network: str = "host") -> subprocess.CompletedProcess[str]:
        """`docker run`, on the network of this machine or on another one."""
        return self.call("run", f"--network={network}", *self._limits, *words)

    def close(self) -> None:
        """Remove all containers, and the storage."""
        self.call("rm", "--all", "--force", "--time=0")
        self.call("rmi", "--all", "--force")
        self._state.cleanup()
