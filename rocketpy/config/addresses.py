"""Finds this machine's address, and says why others could not reach a given one.
RocketMQ: NetworkUtil.getLocalAddress (5.3.3 common/utils/).
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import ipaddress
import socket
import struct

SIOCGIFFLAGS, SIOCGIFADDR, SIOCETHTOOL = 0x8913, 0x8915, 0x8946  # netdevice(7), linux/sockios.h
IFF_UP, IFF_LOOPBACK, IFF_POINTOPOINT = 0x1, 0x8, 0x10
ETHTOOL_GDRVINFO, DRVINFO_SIZE, DRIVER = 0x3, 196, slice(4, 36)  # struct ethtool_drvinfo
IPV6_ADDR_PREFERENCES, IPV6_PREFER_SRC_PUBLIC = 72, 0x2  # linux/in6.h
_OUTSIDE = {socket.AF_INET: "203.0.113.1", socket.AF_INET6: "2001:db8::1"}  # documentation addresses: only the route is looked up


def local_address() -> str:
    """This machine's address: the IPv4 address that packets to the outside would leave from; without such a route the one of the first
    interface, as in an isolated network; without IPv4 the IPv6 address; 127.0.0.1 without any network. Sends nothing."""
    return _on_the_way_out(socket.AF_INET) or _of_an_interface() or _on_the_way_out(socket.AF_INET6) or "127.0.0.1"


def _on_the_way_out(family: socket.AddressFamily) -> str | None:
    """The source address of packets to the outside; None without one. Of IPv6 addresses a link-local one, which others could not use, does
    not count, and a temporary one, which is given up within a day, is avoided."""
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            if family == socket.AF_INET6:
                with contextlib.suppress(OSError):  # not every sandbox knows it
                    probe.setsockopt(socket.IPPROTO_IPV6, IPV6_ADDR_PREFERENCES, IPV6_PREFER_SRC_PUBLIC)
            probe.connect((_OUTSIDE[family], 9))
            address = str(probe.getsockname()[0])
    except OSError:
        return None
    return None if family == socket.AF_INET6 and _is_link_local(address) else address


def _is_link_local(address: str) -> bool:
    return ipaddress.ip_address(address).is_link_local


def _of_an_interface() -> str | None:
    """The IPv4 address of the first interface that leads to other machines: containers, which are behind bridges, are left out. An address
    that a machine gave itself (169.254.0.0/16) is taken only if there is no other."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            found = [address for _, name in socket.if_nameindex() if (address := _address_of(probe, name)) is not None]
    except OSError:  # such as netlink that a unit forbids
        return None
    return min(found, key=_is_link_local, default=None)


def _address_of(probe: socket.socket, name: str) -> str | None:
    request = struct.pack("40s", name.encode())  # struct ifreq
    try:
        (flags,) = struct.unpack_from("16xH", fcntl.ioctl(probe, SIOCGIFFLAGS, request))
        address = fcntl.ioctl(probe, SIOCGIFADDR, request)[20:24]
    except OSError:  # it has none
        return None
    leads_away = flags & (IFF_UP | IFF_LOOPBACK | IFF_POINTOPOINT) == IFF_UP and not _is_bridge(probe, name)
    return socket.inet_ntoa(address) if leads_away else None


def _is_bridge(probe: socket.socket, name: str) -> bool:
    """Whether the interface is a bridge, according to its driver: /sys may be mounted for another network."""
    information = array.array("B", struct.pack(f"I{DRVINFO_SIZE - 4}x", ETHTOOL_GDRVINFO))
    try:
        fcntl.ioctl(probe, SIOCETHTOOL, struct.pack("16sP16x", name.encode(), information.buffer_info()[0]))
    except OSError:  # it has none
        return False
    return information.tobytes()[DRIVER].rstrip(b"\0") == b"bridge"


def registered_host(host: str) -> str:
    """The host that others are told for a server listening on `host`: the same, or this machine's address if it listens on every
    interface."""
    try:
        listens_everywhere = ipaddress.ip_address(host.strip("[]")).is_unspecified
    except ValueError:
        return host
    return local_address() if listens_everywhere else host


def join_address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host and not host.startswith("[") else f"{host}:{port}"


def reach_warning(host: str) -> str | None:
    """Why others may not reach this host; None if nothing speaks against it. Names are not resolved."""
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
