"""What share of each package's lines, and of its branches, the tests reach; ends with 1 where one is below 95 %.

`python tests/coverage_shares.py coverage.json store protocol` reads what `coverage json` wrote.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

SHARE_MIN = 0.95


def main() -> int:
    """Print a line a package."""
    report, *packages = sys.argv[1:]
    files = json.loads(Path(report).read_text())["files"]
    is_enough = True
    for package in packages:
        summaries = [each["summary"] for name, each in files.items() if name.startswith(f"{package}/")]
        shares = []
        for reached, all_there in (("covered_lines", "num_statements"), ("covered_branches", "num_branches")):
            total = sum(summary[all_there] for summary in summaries)
            shares.append((sum(summary[reached] for summary in summaries) / total if total else 0.0, total))
        print(
            f"{package}: "
            + ", ".join(
                f"{share:.1%} of {total} {what}"
                for (share, total), what in zip(shares, ("lines", "branches"), strict=True)
            )
        )
        is_enough = is_enough and all(share >= SHARE_MIN for share, _ in shares)
    return 0 if is_enough else 1


if __name__ == "__main__":
    sys.exit(main())
