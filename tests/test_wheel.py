"""The wheel, installed into an empty environment and used from an empty directory: nothing that runs is read from this tree."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.processes import ROOT, Process, free_port

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the commands."""
    home = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(home), str(ROOT)], check=True)
    (wheel,) = home.glob("rocketpy_mq-*.whl")
    subprocess.run([sys.executable, "-m", "venv", str(home / "venv")], check=True)
    subprocess.run([home / "venv/bin/python", "-m", "pip", "install", "--quiet", str(wheel)], check=True)
    return home / "venv" / "bin"


@pytest.mark.skipif(
    platform.machine() == "aarch64" or shutil.which("aarch64-linux-gnu-gcc") is None,
    reason="no cross compiler: apt-get install gcc-aarch64-linux-gnu",
)
def test_one_for_aarch64_is_made_by_a_cross_compiler(tmp_path: Path) -> None:
    made = subprocess.run([sys.executable, ROOT / ".ci" / "wheel.py", "aarch64", tmp_path], stderr=subprocess.PIPE, text=True, check=False)
    if "Python.h cannot be compiled" in made.stderr:
        pytest.skip(made.stderr)
    assert made.returncode == 0, made.stderr
    (wheel,) = tmp_path.iterdir()
    assert re.search(r"-manylinux_2_\d+_aarch64\.whl$", wheel.name)
    with zipfile.ZipFile(wheel) as archive:
        shared = [name for name in archive.namelist() if name.endswith(".so")]
        machines = {int.from_bytes(archive.read(name)[18:20], "little") for name in shared}
    modules = {f"rocketpy/_core/{path.stem}" for path in (ROOT / "rocketpy" / "_core").glob("*.pyx")}
    assert {name.partition(".")[0] for name in shared} == modules | {"rocketpy/_core/librocketpy"}
    assert {name.partition(".")[2] for name in shared} == {"so", f"cpython-{sys.version_info[0]}{sys.version_info[1]}-aarch64-linux-gnu.so"}
    assert machines == {183}


def run(command: Path, *arguments: str, directory: Path) -> str:
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | {"HOME": str(directory)}
    done = subprocess.run([command, *arguments], cwd=directory, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("cluster", ["", "2m-2s-sync"])
def test_messages_go_through_it(installed: Path, tmp_path: Path, cluster: str) -> None:
    more = ("--cluster", cluster) if cluster else ("--broker-port", "0")
    printed = run(installed / "rocketpy", "up", "--check", "10000", "--namesrv-port", "0", *more, directory=tmp_path)
    assert "every message came back as it was sent" in printed


def test_it_looks_at_the_machine_and_explains_its_keys(installed: Path, tmp_path: Path) -> None:
    assert "native core" in run(installed / "rocketpy", "doctor", "--dir", str(tmp_path), directory=tmp_path)
    assert "listenPort=9876" in run(installed / "mqnamesrv", "-p", directory=tmp_path)


def test_a_broker_registers_by_the_names_of_rocketmqs_commands(installed: Path, tmp_path: Path) -> None:
    port, environment = free_port(), {"HOME": str(tmp_path), "PYTHONPATH": ""}
    on_loopback = ("-o", "bindAddress=127.0.0.1", "-o")
    command = [str(installed / "mqnamesrv"), *on_loopback, f"listenPort={port}"]
    with Process("mqnamesrv", command, tmp_path / "namesrv.log", environment, tmp_path) as namesrv:
        namesrv.next_line("The Name Server boot success")
        command = [str(installed / "mqbroker"), "-n", f"127.0.0.1:{port}", *on_loopback, "listenPort=0", "-o", "haListenPort=0"]
        with Process("mqbroker", command, tmp_path / "broker.log", environment, tmp_path) as broker:
            broker.next_line(rf"boot success\. serializeType=JSON and name server is 127\.0\.0\.1:{port}")
            assert broker.stop() == 0
        assert namesrv.stop() == 0
