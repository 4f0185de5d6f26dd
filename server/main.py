"""The `headrace` command: read the configuration, check what can be checked, then serve.

    headrace [/path/to/file.conf | -] [--directive value ...] ...

Nothing is created or opened before the whole configuration has been read and found valid.
"""

from __future__ import annotations

import logging
import os
import platform
import re
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from .. import REDIS_VERSION, __version__, build_form
from ..persistence.errors import remedy
from .configuration.config import Config
from .configuration.config_lines import ConfigError, ConfigLineError
from .configuration.configfile import Loader
from .reports.logs import set_level, set_up
from .reports.source import commit
from .sockets.listener import ListenError
from .supervision import detect

logger = logging.getLogger(__name__)

EXIT_OK: Final = 0
EXIT_FAILURE: Final = 1

OTHER_FOLDER: Final = "create that folder, or choose another (dir)"
OTHER_LOG_FILE: Final = "create its folder, or choose another file (logfile)"

# It is installed with the package.
EXAMPLE: Final = Path(__file__).parent.parent / "redis.conf.example"

USAGE: Final = """\
Usage: headrace [/path/to/headrace.conf] [options] [-]
       headrace - (read the configuration from standard input)
       headrace -v or --version
       headrace -h or --help

Every directive of the configuration file is also an environment variable, which wins over the file, and an option,
which wins over both:
       headrace (all defaults: port 6379, dump.rdb in this folder, no log)
       headrace /etc/headrace.conf
       headrace --port 7000 --appendonly yes --dir /var/lib/headrace
       headrace /etc/headrace.conf --loglevel verbose
       HEADRACE_PORT=7000 HEADRACE_APPENDONLY=yes headrace
       echo 'maxclients 128' | headrace -
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the server with these words of the command line. Returns the exit code: 0 after an ordered stop, else 1."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] in (["-v"], ["--version"]):
        print(version_line())
        return EXIT_OK
    if words[:1] in (["-h"], ["--help"]):
        print(USAGE + directives_by_group(), end="")
        return EXIT_OK
    try:
        config = read_configuration([os.fsencode(word) for word in words], os.environb)
        enter_directory(config)
        open_log(config)
    except ConfigLineError as error:
        return fail(f"\n*** FATAL CONFIG FILE ERROR (Headrace {__version__}) ***\n{error}")
    except ConfigError as error:
        return fail(str(error))
    if config.daemonize and detect(config.supervised, os.environ) == b"no":
        become_daemon()
    return run(config)


def version_line() -> str:
    """The output of --version."""
    versions = f"v={__version__} sha={commit()} redis={REDIS_VERSION} python={platform.python_version()}"
    return f"Headrace server {versions} form={build_form()}"


def directives_by_group() -> str:
    """The last part of the output of --help, made of the example of a configuration file."""
    lines = ["\nDirectives by group. This file explains each:", f"  {EXAMPLE}"]
    for group in re.split(r"^### (.*) ###$", EXAMPLE.read_text("utf-8"), flags=re.MULTILINE)[1:]:
        if "\n" not in group:
            lines.append(f"\n  {group}")
            continue
        names = dict.fromkeys(f"--{line.split(' ')[0]}" for line in group.splitlines() if line and line[0] != "#")
        lines += textwrap.wrap(
            " ".join(names), 100, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False
        )
    return "\n".join(lines) + "\n"


def fail(text: str) -> int:
    """Print on standard error why there is no server. Returns the exit code."""
    print(text, file=sys.stderr)
    return EXIT_FAILURE


def read_configuration(words: list[bytes], environment: Mapping[bytes, bytes]) -> Config:
    """Returns the configuration from a file, standard input, the environment and options; later ones win.

    `words` are those of the command line after the command's name. Raises ConfigError.
    """
    config = Config()
    loader = Loader(config)
    words = list(words)
    if words and not words[0].startswith(b"-"):
        path = os.path.abspath(words.pop(0))
        loader.load_file(path)
        config.file_path = path
    if b"-" in (words[:1] + words[-1:]):
        # `-` for standard input may be in the place of the file, or at the very end.
        words.remove(b"-")
        loader.load(sys.stdin.buffer.read(), "standard input")
    loader.load_environment(environment)
    loader.load_options(words)
    loader.finish()
    if not ((config.port or config.tls_port) and config.bind) and not config.unixsocket:
        raise ConfigError("Configured to not listen anywhere, exiting.")
    return config


def enter_directory(config: Config) -> None:
    """Make `dir` the working directory, and `config.dir` its absolute path. Raises ConfigError, and creates nothing.

    With `appendonly yes` the folder must also be writable: an error now is better than one after the first command.
    """
    shown = os.fsdecode(config.dir)
    try:
        os.chdir(config.dir)
    except OSError as error:
        raise ConfigError(f"Can't chdir to '{shown}': {error.strerror}; {remedy(error, OTHER_FOLDER)}") from error
    if config.appendonly and not os.access(".", os.W_OK | os.X_OK):
        raise ConfigError(
            f"Can't write to the data directory '{shown}': Permission denied; give the user that runs the server the "
            "right to write there, or choose another folder (dir)"
        )
    config.dir = os.getcwdb()


def open_log(config: Config) -> None:
    """Start logging to `logfile`, and follow later changes of `loglevel`. Raises ConfigError."""
    try:
        set_up(config)
    except OSError as error:
        shown = os.fsdecode(config.logfile)
        raise ConfigError(
            f"Can't open the log file '{shown}': {error.strerror}; {remedy(error, OTHER_LOG_FILE)}"
        ) from error
    config.on_change("loglevel", set_level)
    log_ignored(config)


def log_ignored(config: Config) -> None:
    """Log which directives do nothing: one line for harmless ones, one for those that `compat-config` ignores."""
    if config.ignored:
        names = b", ".join(config.ignored).decode()
        logger.info("Ignored, since Headrace has no such parts and no data depends on them: %s", names)
    if config.overruled:
        reasons = "; ".join(f"{name.decode()} ({reason})" for name, reason in config.overruled.items())
        logger.warning("Ignored, although they matter (compat-config yes): %s", reasons)


def become_daemon() -> None:
    """Continue in a child with its own session, without a terminal. The parent exits at once."""
    if os.fork():
        os._exit(EXIT_OK)
    os.setsid()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    os.close(nowhere)


def run(config: Config) -> int:
    """Serve until the server stops. Returns the exit code. A port in use is one line, in the server log and to the
    user.
    """
    # Imported here because --help and a wrong configuration need no event loop and no command table.
    from .lifecycle import serve

    try:
        return serve(config)
    except (ConfigError, ListenError) as error:
        logger.error("%s", error)
        return fail(str(error)) if config.logfile else EXIT_FAILURE
    except KeyboardInterrupt:
        return EXIT_FAILURE


if __name__ == "__main__":
    sys.exit(main())
