"""What pyproject.toml cannot say: the module that is compiled where there is a C compiler."""

from __future__ import annotations

from Cython.Build import cythonize
from setuptools import Extension, setup

# Optional: without a compiler `protocol/plain_frames.py` does the same.
FRAMES = Extension("headrace.protocol.frames", ["protocol/frames.pyx"], extra_compile_args=["-O2"], optional=True)

setup(ext_modules=cythonize([FRAMES], build_dir="build/cython"))
