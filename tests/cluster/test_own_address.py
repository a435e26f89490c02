"""Under which address a broker is registered that is told none, in networks of a namespace."""

from __future__ import annotations

import subprocess
import sys

from .namespaces import IP, PROJECT, require_namespaces

NETWORKS = """
import pathlib, subprocess, sys
from rocketpy.config import local_address

for change in sys.argv[2:]:
    if change.startswith("/proc/"):
        pathlib.Path(change.partition("=")[0]).write_text(change.partition("=")[2])
    else:
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


def test_an_address_of_ipv6_that_is_of_one_link_or_of_one_day_is_none() -> None:
    """RocketMQ takes the first that its interfaces have."""
    settings = "/proc/sys/net/ipv6/conf"
    found = _addresses(
        f"{settings}/default/accept_dad=0",
        "link add one type veth peer name other",
        f"{settings}/one/use_tempaddr=2",
        "link set other up",
        "link set one up",
        "-6 route add default dev one",
        "-6 address add 2001:db8:1::5:6:7:8/64 dev one mngtmpaddr nodad",
    )
    assert found == ["127.0.0.1"] * 6 + ["2001:db8:1:0:5:6:7:8"]


def test_a_bridge_is_known_by_the_network_that_it_is_in() -> None:
    """/sys of the test is of the network outside."""
    assert _addresses(
        "link add bridge1 type bridge",
        "address add 10.1.1.1/24 dev bridge1",
        "link set bridge1 up",
        "link add one type veth peer name other",
        "link set one up",
        "address add 169.254.3.4/16 dev one",
        "link set other up",
        "address add 10.9.8.7/24 dev other",
    ) == ["127.0.0.1"] * 5 + ["169.254.3.4"] * 2 + ["10.9.8.7"]
