"""Which address this machine has, and what is wrong with an address that others shall reach.
RocketMQ: NetworkUtil.getLocalAddress (5.3.3 common/utils/).
"""

from __future__ import annotations

import fcntl
import ipaddress
import socket
import struct
from pathlib import Path

SIOCGIFFLAGS, SIOCGIFADDR = 0x8913, 0x8915  # netdevice(7)
IFF_UP, IFF_LOOPBACK, IFF_POINTOPOINT = 0x1, 0x8, 0x10
_OUTSIDE = {socket.AF_INET: "203.0.113.1", socket.AF_INET6: "2001:db8::1"}  # documentation addresses: only the route is looked up


def local_address() -> str:
    """The IPv4 address packets to the outside would leave from; without a way there the first interface's, as in a network of its own; the
    IPv6 address where there is none of IPv4; 127.0.0.1 without a network. Sends nothing."""
    return _on_the_way_out(socket.AF_INET) or _of_an_interface() or _on_the_way_out(socket.AF_INET6) or "127.0.0.1"


def _on_the_way_out(family: socket.AddressFamily) -> str | None:
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((_OUTSIDE[family], 9))
            return str(probe.getsockname()[0])
    except OSError:
        return None


def _of_an_interface() -> str | None:
    """The IPv4 address of the first interface that leads to other machines: those of containers are behind bridges."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            request = struct.pack("40s", name.encode())  # struct ifreq
            try:
                (flags,) = struct.unpack_from("16xH", fcntl.ioctl(probe, SIOCGIFFLAGS, request))
                address = fcntl.ioctl(probe, SIOCGIFADDR, request)[20:24]
            except OSError:  # it has none
                continue
            if flags & (IFF_UP | IFF_LOOPBACK | IFF_POINTOPOINT) == IFF_UP and not Path("/sys/class/net", name, "bridge").exists():
                return socket.inet_ntoa(address)
    return None


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
