"""Under which address a broker is registered that is told none, in networks of a namespace."""

from __future__ import annotations

import subprocess
import sys

from .namespaces import IP, PROJECT, require_namespaces

NETWORKS = """
import subprocess, sys
from rocketpy.config import local_address

for change in sys.argv[2:]:
    subprocess.run([sys.argv[1], *change.split()], check=True)
    print(local_address())
"""


def _addresses(*changes: str) -> list[str]:
    """What it is after each change of a network that has a way to nowhere."""
    require_namespaces()
    command = ["unshare", "--net", sys.executable, "-c", NETWORKS, IP, *changes]
    return subprocess.run(command, cwd=PROJECT, check=True, capture_output=True, text=True).stdout.split()


def test_a_network_without_a_way_out_has_addresses_too() -> None:
    """RocketMQ registers the one of an interface."""
    assert _addresses(
        "link set lo up",
        "link add one type veth peer name other",
        "-6 address add 2001:db8::5/32 dev one nodad",
        "address add 10.9.8.7/24 dev one",  # the interface is down
        "link set one up",
        "link set one down",
    ) == ["127.0.0.1", "127.0.0.1", "127.0.0.1", "127.0.0.1", "10.9.8.7", "127.0.0.1"]


def test_a_host_of_ipv6_alone_has_an_address_too() -> None:
    assert _addresses(
        "link add one type veth peer name other", "link set other up", "link set one up", "-6 address add 2001:db8::5/32 dev one nodad"
    ) == ["127.0.0.1", "127.0.0.1", "127.0.0.1", "2001:db8::5"]
