"""The proxy's certificate for both its ports, by RocketMQ's keys in rmq-proxy.json.
RocketMQ: ProxyAndTlsProtocolNegotiator.loadSslContext (5.3.3 proxy/grpc/).
"""

from __future__ import annotations

import logging
from typing import Final

from .._core.errors import RocketpyError
from .._core.options import TlsOptions
from .._core.remoting import Server
from ..config import ConfigError, Problem
from .settings import ProxySettings

log = logging.getLogger(__name__)

PERMISSIVE: Final = 1
"""tls_mode of a server whose clients choose."""


def load_tls(server: Server, settings: ProxySettings, who: str) -> None:
    """Loads the server's certificate and key. Blocks on files. `who`: the clients that are not encrypted if no certificate can be made.
    Raises ConfigError."""
    if not settings.tls_test_mode_enable and not settings.tls_cert_path and not settings.tls_key_path:
        return
    files: TlsOptions = {"certificate_path": settings.tls_cert_path, "key_path": settings.tls_key_path}
    try:
        server.load_tls(**({} if settings.tls_test_mode_enable else files))
    except RocketpyError as error:
        if not settings.tls_test_mode_enable:
            raise ConfigError([Problem("tlsCertPath", f"{error}; or set tlsTestModeEnable=true")]) from error
        log.warning("%s come in the clear only: %s", who, error)
