"""Servers, Sentinels and clients that use TLS alone, with what docs/high-availability.md shows."""

from __future__ import annotations

import re
from pathlib import Path

from support.certificates import Authority
from support.packaging import ROOT

PAGE = (ROOT / "docs" / "high-availability.md").read_text("utf-8")
FOLDER = "/etc/headrace"


class Secured:
    """An authority, one certificate for all servers and Sentinels, and one for clients."""

    def __init__(self, folder: Path) -> None:
        authority = Authority(folder)
        certificate, key = authority.issue("server")
        own_certificate, own_key = authority.issue("worker")
        self._files = {
            "ca.crt": authority.file,
            "server.crt": certificate,
            "server.key": key,
            "worker.crt": own_certificate,
            "worker.key": own_key,
        }
        self.context = authority.client_context(own_certificate, own_key)
        # The options of redis-py.
        self.options = {
            "ssl": True,
            "ssl_ca_certs": str(authority.file),
            "ssl_certfile": str(own_certificate),
            "ssl_keyfile": str(own_key),
        }

    def lines(self) -> list[str]:
        """The lines for the files of servers and Sentinels, without those of ports."""
        lines = self._shown(r"^### TLS\n.*?^```text\n(.*?)^```").splitlines()
        assert lines[:2] == ["port 0", "tls-port 6379"]
        return lines[2:]

    def url(self, login: str) -> str:
        """The URL of the worker, with another user and password."""
        return self._shown(r"^(rediss://user:password@\?\S+)$").replace("user:password", login)

    def _shown(self, pattern: str) -> str:
        """The text of the page, with the files of this authority."""
        (text,) = re.findall(pattern, PAGE, re.DOTALL | re.MULTILINE)
        for name, path in self._files.items():
            text = text.replace(f"{FOLDER}/{name}", str(path))
        assert FOLDER not in text
        return str(text)
