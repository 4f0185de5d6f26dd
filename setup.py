"""What pyproject.toml cannot say: the modules that are compiled where there is a C compiler."""

from __future__ import annotations

from Cython.Build import cythonize
from setuptools import Extension, setup

# Optional: without a compiler `protocol/plain_frames.py` and `store/plain_id_codec.py` do the same.
MODULES = [
    Extension(f"headrace.{folder}.{name}", [f"{folder}/{name}.pyx"], extra_compile_args=["-O2"], optional=True)
    for folder, name in (("protocol", "frames"), ("store", "id_codec"))
]

setup(ext_modules=cythonize(MODULES, build_dir="build/cython"))
