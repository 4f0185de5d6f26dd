"""`python -m fuzz TARGET`: see `fuzzer`."""

from contextlib import nullcontext

try:
    from atheris import instrument_imports  # type: ignore[import-not-found,unused-ignore]
except ImportError:
    watched = nullcontext()
else:
    # atheris must be started before the modules that it instruments are imported.
    watched = instrument_imports(include=["headrace"])

with watched:
    from fuzz.fuzzer import main

main()
