"""fakeredis' TCP server as a program. Of the options of redis-server it honours `--port` and `--bind`."""

from __future__ import annotations

import sys

from fakeredis import TcpFakeServer


def main() -> None:
    """Serve until killed."""
    options = dict(zip(sys.argv[1::2], sys.argv[2::2], strict=False))
    TcpFakeServer((options["--bind"], int(options["--port"])), server_version=(8, 0)).serve_forever()


if __name__ == "__main__":
    main()
