"""The container image without a container engine: the Dockerfile's instructions, run one by one in a scratch root.

This machine's own root, under an overlay in memory, replaces the base image: a step sees its programs and its
Python, and leaves the machine as it was. A container is the finished root in namespaces of its own: the entry point is
process 1, under the image's user, with the image's environment and nothing else.

Needs Linux, root, and the right to mount: see `why_not_here`.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from support.servers import is_oracle_required

# One of the steps compiles.
STEP_TIMEOUT_S: Final = 1500
# The time limit of `docker stop`.
STOP_TIMEOUT_S: Final = 10

TOOLS: Final = ("unshare", "nsenter", "mount", "chroot", "useradd")

BASE_PATH: Final = "/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin"

# How this machine reaches the package index: what a build would be given as arguments.
BUILD_VARIABLES: Final = ("PIP_", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE")


def why_not_here() -> str | None:
    """What this machine does not have for building images; None if it can build them."""
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        return f"no {', '.join(missing)} found"
    attempt = "mount -t tmpfs tmpfs /mnt && mkdir /mnt/u /mnt/w /mnt/r && "
    attempt += "mount -t overlay overlay -o lowerdir=/,upperdir=/mnt/u,workdir=/mnt/w /mnt/r"
    done = subprocess.run(["unshare", "--mount", "--pid", "--fork", "sh", "-c", attempt], capture_output=True)
    return None if done.returncode == 0 else "namespaces and overlays cannot be made: root on Linux is needed"


def require_images() -> None:
    """Skips the test where images cannot be built, or fails it where HEADRACE_REQUIRE_ORACLE allows no skips."""
    reason = why_not_here()
    if reason is not None and is_oracle_required():
        pytest.fail(reason)
    elif reason is not None:
        pytest.skip(reason)


def read_instructions(text: str) -> list[tuple[str, str]]:
    """The (instruction, arguments) of a Dockerfile, comments left out and continued lines joined."""
    lines = (line for line in text.splitlines() if not line.lstrip().startswith("#"))
    joined = "\n".join(lines).replace("\\\n", " ")
    split = (line.partition(" ") for line in joined.splitlines())
    return [(name.upper(), rest.strip()) for name, _, rest in split if name]


class Stage:
    """One FROM: its root, and the settings of its containers."""

    def __init__(self, root: Path, path: str) -> None:
        self.root = root
        self.environment = {"PATH": path}
        self.arguments: dict[str, str] = {}
        self.folder = "/"
        self.user = "0:0"
        self.volumes: list[str] = []
        self.entry_point: list[str] = []
        self.health_check: list[str] = []
        self.stop_signal = signal.SIGTERM


class Image:
    """The image of a Dockerfile and its context. `close` unmounts everything."""

    def __init__(self, folder: Path, dockerfile: str, context: Path, **arguments: str) -> None:
        """`arguments` are those of `docker build --build-arg`."""
        self.folder = folder
        self.context = context
        self.mounts = folder / "mounts"
        self.mounts.mkdir(parents=True)
        # The namespace lives as long as this process, which ends with its standard input.
        hold = f"mount -t tmpfs tmpfs {self.mounts} && echo && exec cat"
        self._keeper = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "private", "sh", "-c", hold],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._keeper.stdout is not None
        assert self._keeper.stdout.readline() == b"\n"
        self._containers: list[Container] = []
        self.stages: dict[str, Stage] = {}
        self.final = self._build(dockerfile, arguments)

    def close(self) -> None:
        """End the containers and the namespace, and with it every mount."""
        for container in self._containers:
            container.kill()
        self._keeper.communicate()

    def words(self, *command: str) -> list[str]:
        """The words that run a command in the image's mount namespace."""
        return ["nsenter", f"--mount=/proc/{self._keeper.pid}/ns/mnt", *command]

    def shell(self, script: str, **variables: str) -> str:
        """Run a script as root in the mount namespace; its output. A script that fails fails the test, showing it."""
        done = subprocess.run(
            self.words("sh", "-ec", script),
            env={"PATH": BASE_PATH, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=STEP_TIMEOUT_S,
        )
        assert done.returncode == 0, f"{script}\n{done.stdout}"
        return done.stdout

    def _build(self, dockerfile: str, arguments: Mapping[str, str]) -> Stage:
        stage: Stage | None = None
        for name, rest in read_instructions(dockerfile):
            if name == "FROM":
                words = rest.split()
                alias = words[2] if len(words) == 3 else str(len(self.stages))
                stage = self.stages[alias] = self._start_stage(alias)
                continue
            assert stage is not None
            match name:
                case "WORKDIR":
                    stage.folder = rest
                    self.shell(f"mkdir -p {stage.root}{rest}")
                case "COPY":
                    self._copy(stage, rest)
                case "RUN":
                    self._run(stage, rest)
                case "ARG":
                    key, _, value = rest.partition("=")
                    stage.arguments[key] = arguments.get(key, value)
                case "ENV":
                    for word in shlex.split(rest):
                        key, _, value = word.partition("=")
                        stage.environment[key] = value.replace("$PATH", stage.environment["PATH"])
                case "USER":
                    stage.user = rest
                case "VOLUME":
                    stage.volumes.append(rest)
                case "STOPSIGNAL":
                    stage.stop_signal = signal.Signals[rest]
                case "HEALTHCHECK":
                    stage.health_check = json.loads(rest.partition(" CMD ")[2])
                case "ENTRYPOINT":
                    stage.entry_point = json.loads(rest)
                case "EXPOSE":
                    assert rest.isdigit()  # only for people
                case _:
                    raise NotImplementedError(f"this builder knows no {name}")
        assert stage is not None
        return stage

    def _start_stage(self, alias: str) -> Stage:
        """A root with `python` and `pip`, as the base image has them."""
        layer, root = self.mounts / f"{alias}.layer", self.mounts / f"{alias}.root"
        base = Path(sys.base_prefix)
        programs = f"{root}{base}/bin"
        # Every user may run the base image's interpreter; this machine's may be in a user's home.
        passable = " ".join(f"{root}{parent}" for parent in list(base.parents)[:-1])
        self.shell(
            f"""
            mkdir -p {layer}/upper {layer}/work {root}
            mount -t overlay overlay -o lowerdir=/,upperdir={layer}/upper,workdir={layer}/work {root}
            mount --rbind /dev {root}/dev
            mount -t proc proc {root}/proc
            test -e {root}{base}/bin && test -e {root}{sys.executable}
            chmod a+x {root}{base} {passable}
            test -e {programs}/python || ln -s python3 {programs}/python
            rm -f {programs}/pip
            printf '#!/bin/sh\\nexec {sys.executable} -m pip --python {base}/bin/python "$@"\\n' > {programs}/pip
            chmod 755 {programs}/pip
            """
        )
        return Stage(root, f"{base}/bin:{BASE_PATH}")

    def _copy(self, stage: Stage, rest: str) -> None:
        *options, source, target = rest.split()
        origin = self.context
        for option in options:
            name, _, value = option.partition("=")
            assert name == "--from", f"this builder knows no {name} of COPY"
            origin = self.stages[value].root
        target = target if target.startswith("/") else f"{stage.folder}/{target}"
        source = f"{origin}/{source.removeprefix('/')}"
        self.shell(
            f"if [ -d {source} ]; then mkdir -p {stage.root}{target}; cp -a {source}/. {stage.root}{target}/;"
            f" else cp -a {source} {stage.root}{target}; fi"
        )

    def _run(self, stage: Stage, rest: str) -> None:
        step = f"cd {stage.folder} && {rest}"
        given = {name: value for name, value in os.environ.items() if name.upper().startswith(BUILD_VARIABLES)}
        given["PIP_BREAK_SYSTEM_PACKAGES"] = "1"  # Debian guards its own Python; here it is a layer's
        variables = {**given, **stage.arguments, **stage.environment}
        self.shell(f"chroot {stage.root} /bin/sh -ec {shlex.quote(step)}", **variables)

    def start(
        self, data: Path, *words: str, user: str | None = None, capabilities: str = "", **variables: str
    ) -> Container:
        """A container with a read-only root and `data` as its volume, if it has one: `docker run --read-only -v ..`."""
        container = Container(self, data, *words, user=user or self.final.user, capabilities=capabilities, **variables)
        self._containers.append(container)
        return container


class Container:
    """A running container. Its standard output and error go to `log`."""

    def __init__(
        self, image: Image, data: Path, *words: str, user: str, capabilities: str = "", **variables: str
    ) -> None:
        """`capabilities` changes the bounding set, as setpriv understands it: `-setuid`."""
        self.image = image
        stage = self.stage = image.final
        self.environment = {**stage.environment, **variables}
        self.user = user
        volumes = " && ".join(f"mount --bind {shlex.quote(str(data))} {stage.root}{volume}" for volume in stage.volumes)
        bound = ["setpriv", f"--bounding-set={capabilities}"] if capabilities else []
        script = f"""
            {volumes}
            mount -t proc proc {stage.root}/proc
            mount -o remount,bind,ro {stage.root}
            exec {shlex.join(self._enter([*bound, *stage.entry_point, *words]))}
        """
        namespaces = ["unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child"]
        self.log = image.folder / f"{data.name}.log"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                image.words(*namespaces, "sh", "-ec", script),
                env={"PATH": BASE_PATH},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def _enter(self, command: list[str]) -> list[str]:
        environment = [f"{name}={value}" for name, value in self.environment.items()]
        enter = ["chroot", f"--userspec={self.user}", str(self.stage.root)]
        return [*enter, "/usr/bin/env", "-i", f"--chdir={self.stage.folder}", *environment, *command]

    def execute(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command in addition to the entry point: `docker exec`."""
        words = ["nsenter", "--mount", "--pid", f"--target={self.entry_pid}", *self._enter(list(command))]
        return subprocess.run(
            words,
            env={"PATH": BASE_PATH},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=STEP_TIMEOUT_S,
        )

    @property
    def entry_pid(self) -> int:
        """The process that is 1 in the container, as this machine numbers it; 0 while there is none."""
        pid = self.process.pid
        return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().strip() or 0)

    def is_healthy(self) -> bool:
        """The result of the image's health check."""
        return self.entry_pid != 0 and self.execute(*self.stage.health_check).returncode == 0

    def stop(self) -> int:
        """`docker stop`: the stop signal to process 1; the exit code, -9 if it does not end in time."""
        if self.process.poll() is None:
            os.kill(self.entry_pid, self.stage.stop_signal)
        try:
            return self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            return -signal.SIGKILL

    def kill(self) -> None:
        """End it at once. Taking on another user has freed process 1 of going with the one that started it."""
        if self.process.poll() is None and (entry_pid := self.entry_pid):
            os.kill(entry_pid, signal.SIGKILL)  # the starter ends when it has gone
        else:
            self.process.kill()
        self.process.wait()
