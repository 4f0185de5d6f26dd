"""The compiled modules, which pyproject.toml cannot list. See compiling/headrace_build.py."""

from headrace_build import extensions
from objects import BuildExtensions
from setuptools import setup

# The name keeps this file, which is in the package's folder, out of the package.
setup(ext_modules=list(extensions), cmdclass={"build_ext": BuildExtensions}, script_name="setup.py")
