"""`python -m fuzz TARGET`: see `fuzzer`."""

from contextlib import nullcontext

try:
    from atheris import instrument_imports  # type: ignore[import-not-found,unused-ignore]
except ImportError:
    watched = nullcontext()
else:
    # What is watched must be said before it is imported.
    watched = instrument_imports(include=["headrace"])

with watched:
    from fuzz.fuzzer import main

main()
