"""TLS on the way to the server: what is trusted, what is shown, and finding out why it did not work."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Callable
from typing import Final

from .errors import OptionError, PipelineError
from .options import Endpoint

Connect = Callable[[], socket.socket]
"""Opens a plain connection with a timeout. Raises OSError."""

RECORD_STARTS: Final = (b"\x15\x03", b"\x16\x03")
"""How a TLS server answers a client's first message: with an alert or with a handshake."""
REFUSAL_WAIT_S: Final = 1.0
"""How long a server may take to refuse a client's certificate, which with TLS 1.3 it looks at last."""


def client_context(endpoint: Endpoint) -> ssl.SSLContext:
    """What is trusted, and the certificate to show. Raises OptionError."""
    try:
        context = ssl.create_default_context(cafile=endpoint.tls_ca_file)
    except ssl.SSLError as error:
        raise OptionError(
            f"option tlsCaFile: {endpoint.tls_ca_file} holds no certificates in PEM: {error.reason}"
        ) from None
    except OSError as error:
        raise OptionError(f"option tlsCaFile: cannot read {endpoint.tls_ca_file}: {error.strerror}") from None
    if endpoint.tls_cert_file is not None:
        _load_own(context, endpoint.tls_cert_file, endpoint.tls_key_file)
    return context


def _load_own(context: ssl.SSLContext, certificate: str, key: str | None) -> None:
    def no_password() -> str:
        raise OptionError("option tlsKeyFile: the key is encrypted: give one that is not, in a file only you may read")

    for name, path in (("tlsCertFile", certificate), ("tlsKeyFile", key)):
        try:
            if path is not None:
                open(path, "rb").close()
        except OSError as error:
            raise OptionError(f"option {name}: cannot read {path}: {error.strerror}") from None
    try:
        context.load_cert_chain(certificate, key, no_password)
    except ssl.SSLError as error:
        raise OptionError(
            f"options tlsCertFile and tlsKeyFile must be a certificate and its key, both in PEM: {error.reason}"
        ) from None


def explained(endpoint: Endpoint, error: ssl.SSLError) -> PipelineError:
    """The line for the user."""
    reason, where = error.reason or str(error), endpoint.address
    if isinstance(error, ssl.SSLCertVerificationError):
        return PipelineError(
            f"{where} shows a certificate that is not trusted (option tlsCaFile): {error.verify_message}"
        )
    if "ALERT" not in reason:
        return PipelineError(f"{where} does not speak TLS (option tls): {reason}")
    if endpoint.tls_cert_file is not None:
        return PipelineError(f"{where} refuses the certificate of the option tlsCertFile: {reason}")
    if "CERTIFICATE" in reason or "HANDSHAKE_FAILURE" in reason:
        return PipelineError(f"{where} wants a certificate: set tlsCertFile and tlsKeyFile ({reason})")
    return PipelineError(f"{where} refuses TLS as it was offered: {reason}")


def is_explicable(error: Exception) -> bool:
    """Whether trying again is vain: the other side said what is wrong, or showed that it does not speak TLS. A
    connection that just ended says nothing.
    """
    return isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError)


def look_closer(endpoint: Endpoint, connect: Connect) -> str:
    """A new connection ended without a word: is TLS the reason? Raises PipelineError if so; a hint if it may be."""
    if not endpoint.tls:
        if _speaks_tls(connect):
            raise PipelineError(f"{endpoint.address} speaks TLS: set tls=true")
        return ""
    _look_for_refusal(endpoint, connect)
    if _speaks_plainly(connect):
        raise PipelineError(f"{endpoint.address} does not speak TLS (option tls)")
    if not _speaks_tls(connect):
        return ""
    if endpoint.tls_cert_file is not None:
        return "; it may refuse the certificate of the option tlsCertFile"
    return "; it may want a certificate: set tlsCertFile and tlsKeyFile"


def _speaks_tls(connect: Connect) -> bool:
    """Whether a client's first message is answered as TLS does."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    outgoing = ssl.MemoryBIO()
    handshake = context.wrap_bio(ssl.MemoryBIO(), outgoing)
    with contextlib.suppress(ssl.SSLWantReadError):
        handshake.do_handshake()
    with contextlib.suppress(OSError), connect() as plain:
        plain.sendall(outgoing.read())
        return plain.recv(2) in RECORD_STARTS
    return False


def _look_for_refusal(endpoint: Endpoint, connect: Connect) -> None:
    """Whether the certificate is refused. Nothing is sent that could cross the refusal and undo it."""
    try:
        with connect() as plain, client_context(endpoint).wrap_socket(plain, server_hostname=endpoint.host) as secured:
            secured.settimeout(REFUSAL_WAIT_S)
            secured.recv(1)
    except OSError as error:
        if isinstance(error, ssl.SSLError) and is_explicable(error):
            raise explained(endpoint, error) from None


def _speaks_plainly(connect: Connect) -> bool:
    """Whether there is an answer without TLS, be it a refusal."""
    with contextlib.suppress(OSError), connect() as plain:
        plain.sendall(b"PING\r\n")
        return plain.recv(1) in (b"+", b"-")
    return False
