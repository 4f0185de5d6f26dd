"""The help of the Makefile and of `.ci/extra` is complete."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from compilers import why_pure

ROOT = Path(__file__).parent.parent


def make(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS", "HEADRACE_"))}
    environment = {**clean, **variables}
    return subprocess.run(["make", *words], cwd=ROOT, capture_output=True, text=True, check=False, env=environment)


def test_help_names_every_target_of_the_makefile_and_no_other() -> None:
    text = (ROOT / "Makefile").read_text("utf-8")
    declared = re.search(r"^\.PHONY: ((?:.*\\\n)*.*)$", text, re.MULTILINE)
    assert declared is not None
    targets = set(declared[1].replace("\\\n", " ").split()) - {"run-tests"}  # a part of other targets
    helped = make("help")
    assert helped.returncode == 0, helped.stderr
    assert set(re.findall(r"^  make ([\w-]+)", helped.stdout, re.MULTILINE)) == targets
    used = set(re.findall(r"\$\((?:or \$\()?([A-Z]+)\)?", text)) - {"VENV", "BIN", "TYPED", "INSTALL", "PACKAGES"}
    variables = set(re.findall(r"^  ([A-Z]+)=", helped.stdout, re.MULTILINE))
    assert variables <= used
    assert {"PYTHON", "FORM", "ARGS", "PORT", "SEED", "MINUTES"} <= variables


def test_a_form_has_an_environment_of_its_own_and_another_word_is_refused() -> None:
    for form, folder in (("compiled", ".venv-compiled"), ("codecs", ".venv"), ("pure", ".venv-pure")):
        assert f"\n{folder}/bin/pytest " in make("--always-make", "--dry-run", "run-tests", f"FORM={form}").stdout
    assert "FORM is compiled, codecs or pure, not plain" in make("help", "FORM=plain").stderr


def test_a_server_is_compiled_if_there_is_a_compiler() -> None:
    """Goal: a stranger gets the fast form without asking, one line says that it takes time, and FORM avoids it."""
    words = ("--always-make", "--dry-run", "serve", f"PYTHON={sys.executable}")
    chosen = "compiled" if why_pure() is None else "codecs"
    for shown, form in (
        (make(*words), chosen),
        (make(*words, CC="nothing-like-that"), "codecs"),
        (make(*words, "FORM=codecs"), "codecs"),
        (make(*words, "FORM=compiled", CC="nothing-like-that"), "compiled"),
        (make(*words, FORM="pure"), "pure"),
    ):
        folder = {"compiled": ".venv-compiled", "codecs": ".venv", "pure": ".venv-pure"}[form]
        assert f"\n{folder}/bin/python -m headrace " in shown.stdout, shown.stderr
        assert shown.stdout.count("Compiling Headrace: ") == (form == "compiled")
    assert "\n.venv/bin/pytest " in make("--always-make", "--dry-run", "run-tests").stdout


def test_extra_script_describes_every_run_it_has() -> None:
    script = ROOT / ".ci" / "extra"
    subprocess.run(["bash", "-n", script], check=True)
    shown = subprocess.run([script, "help"], capture_output=True, text=True, check=True).stdout
    assert re.findall(r"^  \.ci/extra ([\w-]+)", shown, re.MULTILINE) == [
        "coverage",
        "mutate",
        "audit",
        "crash-pipeline",
    ]
    assert subprocess.run([script, "unknown"], capture_output=True, check=False).returncode == 2
