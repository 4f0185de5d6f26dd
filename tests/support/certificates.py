"""Certificates for tests: a new authority in memory, and the PEM files that servers and clients read."""

from __future__ import annotations

import ssl
from pathlib import Path

import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)


class Authority:
    """One authority, whose files go into `folder`."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self._authority = trustme.CA()
        self._folder = folder
        self.file = folder / f"{name}.pem"
        self._authority.cert_pem.write_to_path(str(self.file))

    def issue(self, name: str, *, common_name: str | None = None, password: bytes = b"") -> tuple[Path, Path]:
        """A certificate for 127.0.0.1, and its key: the paths of both."""
        issued = self._authority.issue_cert("127.0.0.1", "localhost", common_name=common_name)
        certificate, key = self._folder / f"{name}.crt", self._folder / f"{name}.key"
        certificate.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        key.write_bytes(issued.private_key_pem.bytes())
        if password:
            encryption = BestAvailableEncryption(password)
            opened = load_pem_private_key(key.read_bytes(), None)
            key.write_bytes(opened.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption))
        return certificate, key

    def client_context(self, *files: Path) -> ssl.SSLContext:
        """The context of a client that trusts this authority; with its own certificate if its files are given."""
        context = ssl.create_default_context(cafile=str(self.file))
        if files:
            context.load_cert_chain(*map(str, files))
        return context
