"""A configured host as the numbers that a socket is bound to. Configuration may name a host wherever it may give an address."""

from __future__ import annotations

import socket

from .._core.errors import NetworkError


def numeric_address(key: str, host: str) -> str:
    """The numeric address of a host, an IPv4 one if it has both kinds, as Java chooses. Asks the resolver. Raises NetworkError that names
    the key."""
    host = host.strip("[]")
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:  # UnicodeError: an empty or endless part of a name
        raise NetworkError(f"{key}={host} cannot be resolved: {cause_of(error)}; set it to an address of this machine") from error
    return str(min(found, key=lambda entry: entry[0] != socket.AF_INET)[4][0])


def cause_of(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
