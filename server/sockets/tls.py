"""TLS: the context that handshakes use, and the user that a client's certificate names.

All errors are found while a context is built. So a server starts with a working context, or not at all, and a CONFIG
SET that names broken files does not change the context in force.
"""

from __future__ import annotations

import os
import ssl
import warnings
from collections.abc import Callable
from typing import Any, Final

from ..configuration.config import Config
from ..configuration.configfile import open_named
from ..configuration.directive_kinds import NO_CIPHERSUITES

# A context is made from these. CONFIG SET of any of them makes a new context, and reads the files again.
DIRECTIVES: Final = (
    "tls-cert-file",
    "tls-key-file",
    "tls-key-file-pass",
    "tls-ca-cert-file",
    "tls-ca-cert-dir",
    "tls-dh-params-file",
    "tls-auth-clients",
    "tls-protocols",
    "tls-ciphers",
    "tls-ciphersuites",
    "tls-prefer-server-ciphers",
    "tls-session-caching",
)

# Names of `tls-protocols`, and the option that turns each off.
VERSIONS: Final = {
    "tlsv1": ssl.OP_NO_TLSv1,
    "tlsv1.1": ssl.OP_NO_TLSv1_1,
    "tlsv1.2": ssl.OP_NO_TLSv1_2,
    "tlsv1.3": ssl.OP_NO_TLSv1_3,
}
USUAL_VERSIONS: Final = ("tlsv1.2", "tlsv1.3")
OLD_VERSIONS: Final = {"tlsv1", "tlsv1.1"}

CLIENT_CERTIFICATES: Final = {b"yes": ssl.CERT_REQUIRED, b"optional": ssl.CERT_OPTIONAL, b"no": ssl.CERT_NONE}


class TlsError(Exception):
    """No context can be made from the directives. The text is one line for a person and names the directive or file."""


def build_context(config: Config) -> ssl.SSLContext:
    """The context for the server's side. Raises TlsError."""
    if not config.tls_cert_file:
        raise TlsError("No tls-cert-file configured!")
    if not config.tls_key_file:
        raise TlsError("No tls-key-file configured!")
    if config.tls_auth_clients != b"no" and not (config.tls_ca_cert_file or config.tls_ca_cert_dir):
        raise TlsError(
            "Either tls-ca-cert-file or tls-ca-cert-dir must be specified when tls-auth-clients is enabled (it is "
            "unless set to 'no')!"
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _choose_versions(context, config.tls_protocols.decode("utf-8", "replace"))
    _choose_ciphers(context, config)
    _load_files(context, config)
    context.verify_mode = CLIENT_CERTIFICATES[config.tls_auth_clients]
    if not config.tls_session_caching:
        context.num_tickets = 0
        context.options |= ssl.OP_NO_TICKET
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION | ssl.OP_SINGLE_DH_USE
    return context


def build_client_context(config: Config) -> ssl.SSLContext:
    """The context for the link to a primary (`tls-replication`). As in Redis, the primary's certificate must be from
    one of the authorities, and its name does not matter. Raises TlsError.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    _choose_versions(context, config.tls_protocols.decode("utf-8", "replace"))
    _choose_ciphers(context, config)
    if config.tls_client_cert_file:
        password = config.tls_client_key_file_pass
        _load_certificate(context, config.tls_client_cert_file, config.tls_client_key_file, password)
    elif config.tls_cert_file:
        _load_certificate(context, config.tls_cert_file, config.tls_key_file, config.tls_key_file_pass)
    _load_authorities(context, config)
    return context


def _choose_versions(context: ssl.SSLContext, text: str) -> None:
    wanted = text.lower().split() or list(USUAL_VERSIONS)
    if not set(wanted) <= set(VERSIONS):
        raise TlsError(
            "Invalid tls-protocols specified. Use a combination of 'TLSv1', 'TLSv1.1', 'TLSv1.2' and 'TLSv1.3'."
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # old versions are a choice of the user
        context.minimum_version = ssl.TLSVersion.TLSv1 if OLD_VERSIONS & set(wanted) else ssl.TLSVersion.TLSv1_2
        for name, off in VERSIONS.items():
            context.options = context.options & ~off if name in wanted else context.options | off


def _choose_ciphers(context: ssl.SSLContext, config: Config) -> None:
    def choose(directive: str, apply: Callable[[str], None], text: bytes) -> None:
        try:
            apply(text.decode("ascii"))
        except (ssl.SSLError, UnicodeDecodeError):
            raise TlsError(f"Failed to configure {directive}: {os.fsdecode(text)}") from None

    if config.tls_ciphers:
        choose("tls-ciphers", context.set_ciphers, config.tls_ciphers)
    if config.tls_ciphersuites:
        apply = getattr(context, "set_ciphersuites", None)
        if apply is None:
            raise TlsError(NO_CIPHERSUITES)
        choose("tls-ciphersuites", apply, config.tls_ciphersuites)
    if config.tls_prefer_server_ciphers:
        context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
    else:
        context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE


def _load_files(context: ssl.SSLContext, config: Config) -> None:
    _load_certificate(context, config.tls_cert_file, config.tls_key_file, config.tls_key_file_pass)
    _load_authorities(context, config)
    if config.tls_dh_params_file:
        path = os.fsdecode(config.tls_dh_params_file)
        try:
            open_named(config.tls_dh_params_file).close()
            context.load_dh_params(path)
        except OSError as error:
            raise TlsError(f"Failed to load DH params file: {path}: {_reason(error)}") from None


def _load_certificate(context: ssl.SSLContext, certificate_file: bytes, key_file: bytes, password: bytes) -> None:
    certificate, key = os.fsdecode(certificate_file), os.fsdecode(key_file)
    for what, path in (("certificate", certificate), ("private key", key)):
        try:
            open_named(os.fsencode(path)).close()
        except OSError as error:
            raise TlsError(f"Failed to load {what}: {path}: {error.strerror}") from None
    try:
        # Always a password: without one, OpenSSL would prompt for it at the terminal.
        context.load_cert_chain(certificate, key, lambda: password)
    except (OSError, ValueError) as refusal:
        reason = _reason(refusal)
        raise TlsError(f"Failed to load certificate and private key: {certificate}, {key}: {reason}") from None


def _load_authorities(context: ssl.SSLContext, config: Config) -> None:
    if config.tls_ca_cert_file or config.tls_ca_cert_dir:
        authorities = os.fsdecode(config.tls_ca_cert_file) or None, os.fsdecode(config.tls_ca_cert_dir) or None
        if authorities[1] is not None and not os.path.isdir(authorities[1]):
            raise TlsError(f"Failed to configure CA certificate(s) directory: {authorities[1]}: it is not a directory")
        try:
            if authorities[0] is not None:
                open_named(config.tls_ca_cert_file).close()
            context.load_verify_locations(*authorities)
        except OSError as error:
            shown = ", ".join(filter(None, authorities))
            raise TlsError(f"Failed to configure CA certificate(s) file/directory: {shown}: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    """The text of OpenSSL, without the place in its source."""
    if isinstance(error, ssl.SSLError):
        # The type stubs have no None.
        reason: str | None = getattr(error, "reason", None)
        return reason.lower().replace("_", " ") if reason else "it is not in PEM, or damaged"
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or "the password does not open it"


def common_name(certificate: dict[str, Any] | None) -> bytes | None:
    """The common name in a certificate that was verified; None without one."""
    for names in (certificate or {}).get("subject", ()):
        for kind, value in names:
            if kind == "commonName":
                return str(value).encode()
    return None
