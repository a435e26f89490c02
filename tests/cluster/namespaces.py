"""Two hosts on one machine: network namespaces, joined by a replication link whose delay, loss and presence the test controls.

    tests ── control ── [master] ══ replication ══ [slave] ── control ── tests

The control links are veth pairs into the namespace of the tests: name server and clients reach a host over its own. The replication link is
shaped by netem where the kernel has it; elsewhere its two veth pairs end in raw sockets of a process that delays and loses frames
(wire.py): real TCP at both ends, real segments lost. Needs root.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import os
import random
import shutil
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import PATIENCE_S, claim

PROJECT = Path(__file__).resolve().parents[2]
SIOCETHTOOL = 0x8946
SYSTEM_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"  # a user's path need not have the administrator's tools
IP = shutil.which("ip", path=SYSTEM_PATH) or "ip"
TC = shutil.which("tc", path=SYSTEM_PATH)
NETS = range(64, 128)  # a network has the addresses 10.NET.*
OFFLOADS = (0x17, 0x1F, 0x24)  # checksums, TSO, GSO: what a raw socket would see unfinished


def ip(*arguments: str) -> str:
    """What the command says."""
    done = subprocess.run([IP, *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise OSError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def claim_net() -> tuple[int, socket.socket]:
    """A number of NETS that nobody else has while the socket is open. What a test that was killed has left of it is removed: the addresses
    would lead the next one's packets to hosts that are no more."""
    for net in random.SystemRandom().sample(NETS, len(NETS)):
        claimed = claim(f"network {net} of a test")
        if claimed is None:
            continue
        for host in "ms":
            for left in (("netns", "del", f"rp{net}{host}"), ("link", "del", f"rp{net}{host}c"), ("link", "del", f"rp{net}{host}i")):
                with contextlib.suppress(OSError):  # mostly there is none
                    ip(*left)
        if f" 10.{net}." not in ip("-4", "-o", "addr", "show"):
            return net, claimed
        claimed.close()
    raise OSError(f"each of 10.{NETS[0]}.* to 10.{NETS[-1]}.* is in use: `ip addr` and `ip netns list` show by what")


def require_namespaces() -> None:
    """Skips the test where namespaces cannot be made."""
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    name = f"rp{os.getpid()}probe"
    try:
        ip("netns", "add", name)
        ip("netns", "del", name)
    except (OSError, FileNotFoundError) as error:
        pytest.skip(f"network namespaces cannot be made here: {error}")


class Host:
    """One namespace: `address` as the tests reach it, `outside` theirs as it sees them, `inner` its end of the replication link."""

    def __init__(self, name: str, net: int, host: int) -> None:
        self.namespace = name
        self.address, self.outside = f"10.{net}.{host}.2", f"10.{net}.{host}.1"
        self.inner = f"10.{net}.0.{host}"
        self.inside = (IP, "netns", "exec", name)
        ip("netns", "add", name)
        ip("-n", name, "link", "set", "lo", "up")
        ip("link", "add", f"{name}c", "type", "veth", "peer", "name", "control", "netns", name)
        ip("addr", "add", f"{self.outside}/24", "dev", f"{name}c")
        ip("-n", name, "addr", "add", f"{self.address}/24", "dev", "control")
        ip("link", "set", f"{name}c", "up")
        ip("-n", name, "link", "set", "control", "up")

    def close(self) -> None:
        ip("netns", "del", self.namespace)  # its interfaces go with it


class Network:
    """`with Network() as network:` then `network.master`, `network.slave`, shape, cut and heal."""

    def __init__(self) -> None:
        self.seed = random.SystemRandom().randrange(1 << 32)
        self._cable: subprocess.Popen[bytes] | None = None
        self._closing: list[Host] = []

    def __enter__(self) -> Network:
        self.net, self._claimed = claim_net()
        try:
            self.master = self._host("m", 1)
            self.slave = self._host("s", 2)
            self._has_netem = self._join_directly()
            if not self._has_netem:
                self._join_by_cable()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _host(self, suffix: str, host: int) -> Host:
        made = Host(f"rp{self.net}{suffix}", self.net, host)
        self._closing.append(made)
        return made

    def __exit__(self, *exc: object) -> None:
        self._end_cable()
        for host in self._closing:
            host.close()
        self._claimed.close()

    def lose_process(self) -> None:
        """What the system does when the test's process is killed: sockets and pipes are closed, and the network stays."""
        self._end_cable()
        self._claimed.close()

    @property
    def kind(self) -> str:
        return "netem" if self._has_netem else f"wire.py, seed {self.seed}"

    def shape(self, delay_s: float, loss: float = 0.0) -> None:
        """One-way delay of the replication link, and the share of frames it loses, both ways."""
        if self._cable is None:
            for host in (self.master, self.slave):
                how = ("delay", f"{delay_s * 1000:g}ms", "loss", f"{loss * 100:g}%")
                assert TC is not None  # it has said that there is netem
                subprocess.run([TC, "-n", host.namespace, "qdisc", "replace", "dev", "inner", "root", "netem", *how], check=True)
            return
        assert self._cable.stdin is not None and self._cable.stdout is not None
        self._cable.stdin.write(f"{delay_s} {loss}\n".encode())
        self._cable.stdin.flush()
        assert self._cable.stdout.readline() == b"ok\n"

    def cut(self) -> None:
        """Partition: no frame passes, and nobody is told anything."""
        self.shape(0.0, 1.0)

    def heal(self) -> None:
        self.shape(0.0, 0.0)

    def _join_directly(self) -> bool:
        """Both hosts by one veth pair under netem; False, and no trace, where the kernel has none."""
        ip("-n", self.master.namespace, "link", "add", "inner", "type", "veth", "peer", "name", "inner", "netns", self.slave.namespace)
        probe = [TC or "false", "-n", self.master.namespace, "qdisc", "replace", "dev", "inner", "root", "netem", "delay", "0ms"]
        if subprocess.run(probe, capture_output=True, check=False).returncode != 0:
            ip("-n", self.master.namespace, "link", "del", "inner")
            return False
        self._give_addresses()
        return True

    def _join_by_cable(self) -> None:
        ends = []
        for host in (self.master, self.slave):
            ends.append(f"{host.namespace}i")
            ip("link", "add", ends[-1], "type", "veth", "peer", "name", "inner", "netns", host.namespace)
            subprocess.run([*host.inside, sys.executable, "-m", "tests.cluster.namespaces", "inner"], cwd=PROJECT, check=True)
            ip("link", "set", ends[-1], "up")
        self._give_addresses()
        command = [sys.executable, "-m", "tests.cluster.wire", *ends, str(self.seed)]
        self._cable = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=PROJECT)
        self.heal()

    def _end_cable(self) -> None:
        if self._cable is not None:
            assert self._cable.stdin is not None
            self._cable.stdin.close()
            self._cable.wait(PATIENCE_S)

    def _give_addresses(self) -> None:
        for host in (self.master, self.slave):
            ip("-n", host.namespace, "addr", "add", f"{host.inner}/24", "dev", "inner")
            ip("-n", host.namespace, "link", "set", "inner", "up")


def without_offloads(interface: str) -> None:
    """Whole checksums and segments of at most the link's size."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        for offload in OFFLOADS:
            value = array.array("I", [offload, 0])
            fcntl.ioctl(control, SIOCETHTOOL, struct.pack("16sP16x", interface.encode(), value.buffer_info()[0]))


if __name__ == "__main__":
    without_offloads(sys.argv[1])
