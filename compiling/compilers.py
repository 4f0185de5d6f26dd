"""Which form Headrace is built in: the form that HEADRACE_COMPILE names, or what the C compiler of this machine allows.

`python compiling/compilers.py form` prints the form of `make serve`, and `compilers` what building a wheel requires.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import sysconfig
from pathlib import Path
from typing import Final

CYTHON: Final = "cython>=3.1"

# mypyc is part of mypy. The version is fixed, as another one may refuse what this one compiles.
MYPYC: Final = "mypy==2.4.1"

# The compilers of each form.
COMPILERS: Final = {"compiled": (CYTHON, MYPYC), "codecs": (CYTHON,), "pure": ()}

# What builds any form.
SETUPTOOLS: Final = "setuptools>=77"


def wanted_form() -> str:
    """The form that HEADRACE_COMPILE names, empty if it is not set. Raises SystemExit for any other word."""
    form = os.environ.get("HEADRACE_COMPILE", "")
    if form and form not in COMPILERS:
        raise SystemExit(f"headrace: HEADRACE_COMPILE is one of {', '.join(COMPILERS)}, not {form!r}")
    return form


def chosen_form(best: str) -> str:
    """The wanted form, else `best` if there is a compiler."""
    return wanted_form() or ("pure" if why_pure() else best)


def why_pure() -> str | None:
    """The reason to compile nothing; None if there is none."""
    form = wanted_form()
    if form:
        return "HEADRACE_COMPILE=pure" if form == "pure" else None
    if sys.implementation.name != "cpython":
        return "this is not CPython"
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "")
    if not compiler or shutil.which(compiler[0]) is None:
        return "no C compiler found"
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        return "the headers of Python are not installed"
    return None


if __name__ == "__main__":
    if sys.argv[1] == "compilers":
        print(SETUPTOOLS, *COMPILERS[wanted_form() or "compiled"])
    else:
        # Without a compiler a checkout is served as it is.
        print("codecs" if why_pure() else "compiled")
