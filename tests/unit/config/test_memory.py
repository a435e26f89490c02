"""The memory that servers plan with: who says how much there is, who gets which share, and what is said where it is not enough."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rocketpy.broker.native_options import broker_options
from rocketpy.cli.up import UpOptions, configs_of
from rocketpy.config import ConfigError, load_config, memory_of
from rocketpy.config.loader import Role
from rocketpy.config.memory import BASE, Memory, beside_broker, found_memory
from rocketpy.proxy.settings import ProxySettings, load_settings
from rocketpy.remoting.listener_options import server_options

MIB = 1 << 20
NO_LIMIT_V1 = str((1 << 63) - 4096)
MACHINE = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


class Machine:
    """/proc/self and cgroup file systems, as a process in a group finds them."""

    def __init__(self, directory: Path) -> None:
        self.process = directory / "proc"
        self.process.mkdir()
        self.mount = directory / "cgroup"
        self._mounts = "22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n"
        self._groups = ""

    def mounts(self, kind: str, options: str = "rw", *, root: str = "/", place: str = "") -> None:
        place = str(self.mount / (place or kind)).replace(" ", "\\040")
        self._mounts += f"30 22 0:26 {root} {place} rw,nosuid shared:9 master:4 - {kind} none {options}\n"

    def is_in(self, line: str) -> None:
        self._groups += f"{line}\n"

    def limit(self, path: str, text: str) -> Path:
        file = self.mount / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")
        return file

    def found(self) -> Memory:
        (self.process / "mountinfo").write_text(self._mounts)
        (self.process / "cgroup").write_text(self._groups, newline="")
        return found_memory(self.process)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    (directory := tmp_path / "a b").mkdir()
    return Machine(directory)


def test_without_a_limit_it_is_the_machines(machine: Machine, tmp_path: Path) -> None:
    assert found_memory(tmp_path / "nothing") == machine.found() == Memory(MACHINE, "of this machine")
    machine.mounts("cgroup2")
    machine.is_in("0::/a")
    machine.limit("cgroup2/a/memory.max", "max")
    machine.limit("cgroup2/a/memory.high", "1")
    assert machine.found() == Memory(MACHINE, "of this machine")


@pytest.mark.parametrize("least", ["a/b", "a", "."])
def test_of_the_groups_limit_and_those_above_it_the_least_counts(machine: Machine, least: str) -> None:
    machine.mounts("cgroup2")
    machine.is_in("0::/a/b")
    for group in ("a/b", "a", "."):
        file = machine.limit(f"cgroup2/{group}/memory.max", str((64 if group == least else 96) * MIB))
        if group == least:
            wanted = Memory(64 * MIB, f"by {file}")
    machine.limit("cgroup2/a/b/c/memory.max", "1")
    machine.limit("cgroup2/other/memory.max", "1")
    assert machine.found() == wanted


def test_a_limit_of_version_1_counts_where_memory_is_its_matter(machine: Machine) -> None:
    machine.mounts("cgroup", "rw,cpu,cpuacct")
    machine.limit("cgroup/a/memory.limit_in_bytes", str(64 * MIB))
    machine.is_in("5:cpu,cpuacct:/a")
    machine.is_in("0::/")
    assert machine.found().size == MACHINE
    machine.mounts("cgroup", "rw,memory")
    machine.is_in("4:memory:/a")
    assert machine.found().size == 64 * MIB
    machine.limit("cgroup/a/memory.limit_in_bytes", NO_LIMIT_V1)
    assert machine.found() == Memory(MACHINE, "of this machine")
    machine.limit("cgroup/memory.limit_in_bytes", str(32 * MIB))
    assert machine.found().size == 32 * MIB


@pytest.mark.parametrize(("root", "group"), [("/docker/x", "/docker/x"), ("/", "/../../docker/x"), ("/docker/x", "/other")])
def test_a_container_that_sees_its_own_group_alone_has_its_limit(machine: Machine, root: str, group: str) -> None:
    machine.mounts("cgroup2", root=root)
    machine.is_in(f"0::{group}")
    file = machine.limit("cgroup2/memory.max", str(64 * MIB))
    assert machine.found() == Memory(64 * MIB, f"by {file}")


def test_of_several_mounts_those_count_that_contain_the_group(machine: Machine) -> None:
    """Another container's group, mounted for a look at it, is no limit of this process."""
    machine.mounts("cgroup2")
    machine.is_in("0::/a")
    machine.limit("cgroup2/a/memory.max", str(64 * MIB))
    machine.mounts("cgroup2", root="/other", place="looked at")
    machine.limit("looked at/memory.max", str(32 * MIB))
    assert machine.found().size == 64 * MIB


def test_a_group_may_have_any_name(machine: Machine) -> None:
    machine.mounts("cgroup2")
    machine.is_in("0::/a\x0b\x1c\r\x85b")
    machine.is_in("no group")
    machine.limit("cgroup2/a\x0b\x1c\r\x85b/memory.max", str(64 * MIB))
    assert machine.found().size == 64 * MIB


@pytest.mark.parametrize(
    ("text", "size"), [("134217728", 128 * MIB), ("512m", 512 * MIB), ("512M", 512 * MIB), ("131072k", 128 * MIB), ("2g", 2048 * MIB)]
)
def test_an_amount_is_written_as_java_has_it(text: str, size: int) -> None:
    config = load_config("broker", None, {"memory": text})
    assert config.integer("memory") == load_settings(None, {"namesrvAddr": "a:1"}, {"memory": text})[0].memory == size
    assert f"memory={size}" in config.print_lines()


@pytest.mark.parametrize("text", ["", "512mb", "1.5g", "-1", "512 m", "m", "90m", "64"])
def test_what_is_no_amount_is_refused_with_what_is(text: str) -> None:
    told = "expected bytes, or a number with k, m, g or t such as 512m, 96m or more"
    for role in ("broker", "namesrv", "controller"):
        needed = {"controllerDLegerPeers": "n0-a:1", "controllerDLegerSelfId": "n0"} if role == "controller" else {}
        with pytest.raises(ConfigError) as refused:
            load_config(role, None, {"memory": text, **needed})
        assert str(refused.value) == f"memory: {text!r} is not valid: {told}"
    with pytest.raises(ConfigError, match=r"memory: .* is not valid: bytes, or a number with k, m, g or t"):
        load_settings(None, {"namesrvAddr": "a:1"}, {"memory": text})


@pytest.mark.parametrize(
    ("memory", "namesrv", "broker", "keys"),
    [("96m", 16, 8, 2), ("256m", 96, 48, 12), ("512m", 224, 112, 28), ("2g", 992, 496, 100), ("8000000000", 1024, 1024, 100)],
)
def test_defaults_are_no_more_than_a_share(memory: str, namesrv: int, broker: int, keys: int) -> None:
    for role, buffers in (("namesrv", namesrv), ("controller", namesrv), ("broker", broker)):
        needed = {"controllerDLegerPeers": "n0-a:1", "controllerDLegerSelfId": "n0"} if role == "controller" else {}
        config = load_config(role, None, {"memory": memory, **needed})
        assert server_options(config, 0, reactors=1, thread_name="t")["memory_bytes_max"] == buffers * MIB
    assert config.integer("maxOffsetMapSize") == keys * MIB


def test_what_counts_as_in_memory_is_of_this_amount() -> None:
    assert broker_options(load_config("broker", None, {"memory": "512m"}), "a:1")["memory_bytes"] == 512 * MIB


def _bounds(memory: int, tmp_path: Path) -> tuple[list[int], list[int]]:
    """Of `up --proxy`: of the servers' connections, and of all else."""
    namesrv, broker = configs_of(UpOptions(memory=str(memory)), tmp_path)
    proxy = ProxySettings(memory=beside_broker(broker.integer("memory")))
    ports = [namesrv.integer("bufferBytesMax"), broker.integer("bufferBytesMax"), proxy.port_bytes_max, proxy.port_bytes_max]
    return ports, [broker.integer("maxOffsetMapSize"), *[proxy.kept_bytes_max] * 4]


@pytest.mark.parametrize("mib", [96, 256, 512, 2048, 4096])
def test_all_that_one_process_may_take_fits(mib: int, tmp_path: Path) -> None:
    ports, others = _bounds(mib * MIB, tmp_path)
    assert BASE + sum(ports) + sum(others) <= mib * MIB
    alone = ProxySettings(memory=mib * MIB)
    assert BASE + 2 * alone.port_bytes_max + 4 * alone.kept_bytes_max <= mib * MIB


def test_on_a_machine_of_8_gb_every_bound_is_what_it_would_be_alone(tmp_path: Path) -> None:
    assert _bounds(8 * 10**9, tmp_path) == ([1 << 30] * 4, [100 * MIB, *[256 * MIB] * 4])


def test_what_an_operator_sets_is_kept_or_refused(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_text("memory=512m\nbufferBytesMax=300000000\n")
    assert load_config("broker", file).integer("bufferBytesMax") == 300000000
    file.write_text("memory=512m\n\nbufferBytesMax=600000000\n")
    with pytest.raises(ConfigError) as refused:
        load_config("broker", file)
    told = str(refused.value)
    assert told.startswith(f"{file}:3: bufferBytesMax: does not fit into the memory of 512 MiB (as configured, out of ")
    sizes = "64 MiB the server itself, 572 MiB bufferBytesMax, 28 MiB maxOffsetMapSize, 71 MiB for the VIP channel"
    assert told.endswith(f"): {sizes}; lower it, or give more")
    file.write_text("memory=512m\nbufferBytesMax=400000000\n")
    with pytest.raises(ConfigError, match="47 MiB for the VIP channel"):  # 474 MiB without it
        load_config("broker", file)
    file.write_text("memory=256m\nmaxOffsetMapSize=200000000\n")
    with pytest.raises(ConfigError, match="2: maxOffsetMapSize: does not fit"):
        load_config("broker", file)


def test_a_default_that_stands_in_a_file_gives_way_and_that_is_said(tmp_path: Path) -> None:
    """RocketMQ writes every key into a file that an operator changed through it."""
    file = tmp_path / "broker.conf"
    file.write_text("memory=512m\nmaxOffsetMapSize=104857600\n")
    config = load_config("broker", file)
    assert config.integer("maxOffsetMapSize") == 28 * MIB
    (remark,) = config.remarks()
    assert remark.startswith("maxOffsetMapSize = 104857600 is replaced by 29360128: memory is 512 MiB (as configured")


@pytest.mark.parametrize(("role", "buffers"), [("broker", 5.25), ("namesrv", 10.5)])
def test_a_container_with_very_little_is_served(monkeypatch: pytest.MonkeyPatch, role: Role, buffers: float) -> None:
    """It is not the operator's word: who has little may have little to do."""
    monkeypatch.setattr("rocketpy.config.keys_network.found_memory", lambda: Memory(40 * MIB, "by a test"))
    assert load_config(role).integer("bufferBytesMax") == buffers * MIB
    assert load_config(role, None, {"bufferBytesMax": "2000000"}).integer("bufferBytesMax") == 2000000
    with pytest.raises(ConfigError, match="bufferBytesMax: does not fit into the memory of 40 MiB"):
        load_config(role, None, {"bufferBytesMax": "20000000"})


def test_more_than_there_is_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rocketpy.config.memory.found_memory", lambda: Memory(256 * MIB, "by /sys/fs/cgroup/memory.max"))
    assert str(memory_of(256 * MIB)) == "256 MiB (by /sys/fs/cgroup/memory.max)"
    assert str(memory_of(128 * MIB)) == "128 MiB (as configured, out of 256 MiB by /sys/fs/cgroup/memory.max)"
    assert str(memory_of(3 << 30)) == "3.0 GiB (as configured, but there is only 256 MiB by /sys/fs/cgroup/memory.max)"


def test_less_memory_at_the_next_start_makes_less_of_what_is_a_share() -> None:
    config = load_config("broker", None, {})
    assert config.update({"memory": "96m"}).waiting == ("memory",)
    with pytest.raises(ConfigError, match="bufferBytesMax: does not fit into the memory of 96 MiB"):
        config.update({"bufferBytesMax": "100000000"})
