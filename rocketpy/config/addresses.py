"""Which address this machine has, and what is wrong with an address that others shall reach.
RocketMQ: NetworkUtil.getLocalAddress (5.3.3 common/utils/).
"""

from __future__ import annotations

import ipaddress
import socket


def local_address() -> str:
    """The IPv4 address packets to the outside would leave from, 127.0.0.1 without a network. Sends nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("203.0.113.1", 9))  # a documentation address: only the route is looked up
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"


def registered_host(host: str) -> str:
    """What others are told of a server that listens on this host: itself, or this machine's address where it listens on every interface."""
    try:
        listens_everywhere = ipaddress.ip_address(host.strip("[]")).is_unspecified
    except ValueError:
        return host
    return local_address() if listens_everywhere else host


def reach_warning(host: str) -> str | None:
    """Why others may not reach this host, None when nothing is known against it. Names are not resolved."""
    if host.lower() == "localhost":
        return "a loopback name: only clients on this machine reach it"
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return None
    if address.is_unspecified:
        return "not an address: no client can connect to it"
    if address.is_loopback:
        return "a loopback address: only clients on this machine reach it"
    if address.is_link_local:
        return "a link-local address: only clients on this network segment reach it"
    if address.is_private:
        return "a private address: clients outside this network do not reach it"
    return None
