"""TLS for connections: trusted certificates, the client's certificate, and a diagnosis of failures."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Callable
from typing import Final

from ..errors import OptionError, PipelineError
from ..options.kinds import Endpoint

# Opens a connection without TLS, with a timeout. Raises OSError.
Connect = Callable[[], socket.socket]

# The first bytes of a TLS server's answer to a client: those of an alert, and of a handshake.
RECORD_STARTS: Final = (b"\x15\x03", b"\x16\x03")
# How long to wait for a refusal of the client's certificate, which in TLS 1.3 follows the handshake.
REFUSAL_WAIT_S: Final = 1.0


def client_context(endpoint: Endpoint) -> ssl.SSLContext:
    """Makes the TLS context: trusted certificates, and the client's certificate if there is one. Raises OptionError."""
    try:
        context = ssl.create_default_context(cafile=endpoint.tls_ca_file)
    except ssl.SSLError as error:
        raise OptionError(
            f"option tlsCaFile: {endpoint.tls_ca_file} has no certificates in PEM: {error.reason}"
        ) from None
    except OSError as error:
        raise OptionError(f"option tlsCaFile: cannot read {endpoint.tls_ca_file}: {error.strerror}") from None
    if endpoint.tls_cert_file is not None:
        _load_own(context, endpoint.tls_cert_file, endpoint.tls_key_file)
    return context


def _load_own(context: ssl.SSLContext, certificate: str, key: str | None) -> None:
    def no_password() -> str:
        raise OptionError(
            "option tlsKeyFile: the key is encrypted: use a key that is not, in a file that only you can read"
        )

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


def tls_error(endpoint: Endpoint, error: ssl.SSLError) -> PipelineError:
    """Returns the error for a failed TLS handshake, with the option to check."""
    reason, where = error.reason or str(error), endpoint.address
    if isinstance(error, ssl.SSLCertVerificationError):
        return PipelineError(
            f"{where} has a certificate that is not trusted (option tlsCaFile): {error.verify_message}"
        )
    if "ALERT" not in reason:
        return PipelineError(f"{where} does not speak TLS (option tls): {reason}")
    if endpoint.tls_cert_file is not None:
        return PipelineError(f"{where} refuses the certificate of the option tlsCertFile: {reason}")
    if "CERTIFICATE" in reason or "HANDSHAKE_FAILURE" in reason:
        return PipelineError(f"{where} wants a certificate: set tlsCertFile and tlsKeyFile ({reason})")
    return PipelineError(f"{where} refuses the TLS handshake: {reason}")


def is_permanent(error: Exception) -> bool:
    """Whether trying again is useless: the server named the fault, or does not speak TLS.

    A connection that ended without an alert may have other reasons.
    """
    return isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError)


def diagnose(endpoint: Endpoint, connect: Connect) -> str:
    """Finds out whether TLS is why a new connection ended without an error.

    Raises PipelineError if it is; returns a hint for the error message if it may be, or an empty text.
    """
    if not endpoint.tls:
        if _speaks_tls(connect):
            raise PipelineError(f"{endpoint.address} speaks TLS: set tls=true")
        return ""
    _check_certificate_refusal(endpoint, connect)
    if _speaks_plainly(connect):
        raise PipelineError(f"{endpoint.address} does not speak TLS (option tls)")
    if not _speaks_tls(connect):
        return ""
    if endpoint.tls_cert_file is not None:
        return "; it may refuse the certificate of the option tlsCertFile"
    return "; it may want a certificate: set tlsCertFile and tlsKeyFile"


def _speaks_tls(connect: Connect) -> bool:
    """Whether the server answers a TLS client's first message with TLS."""
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


def _check_certificate_refusal(endpoint: Endpoint, connect: Connect) -> None:
    """Raises PipelineError if the server refuses the client's certificate.

    It sends no request: data on its way to the server could make the connection end before the refusal is read.
    """
    try:
        with connect() as plain, client_context(endpoint).wrap_socket(plain, server_hostname=endpoint.host) as secured:
            secured.settimeout(REFUSAL_WAIT_S)
            secured.recv(1)
    except OSError as error:
        if isinstance(error, ssl.SSLError) and is_permanent(error):
            raise tls_error(endpoint, error) from None


def _speaks_plainly(connect: Connect) -> bool:
    """Whether the server answers without TLS, even with an error."""
    with contextlib.suppress(OSError), connect() as plain:
        plain.sendall(b"PING\r\n")
        return plain.recv(1) in (b"+", b"-")
    return False
