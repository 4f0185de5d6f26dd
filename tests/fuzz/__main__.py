"""`python -m fuzz TARGET`: see `fuzzer`."""

from fuzz.fuzzer import main

main()
