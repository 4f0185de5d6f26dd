"""Headrace and Redis under the same load, side by side: `make bench`, or `python -m benchmarks --help`.

The servers are started the way the compatibility tests start them, so their helper modules are used.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
