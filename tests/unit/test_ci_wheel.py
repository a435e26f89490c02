"""What .ci/wheel.py lets through, and how a wheel gets another platform's tag."""

from __future__ import annotations

import base64
import csv
import hashlib
import importlib.util
import platform
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

from tests.processes import ROOT

ARCH = platform.machine()
OTHER = {"x86_64": "aarch64", "aarch64": "x86_64"}[ARCH]


@pytest.fixture(scope="module")
def wheel() -> ModuleType:
    spec = importlib.util.spec_from_file_location("ci_wheel", ROOT / ".ci" / "wheel.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_an_object_says_which_c_library_it_needs(wheel: ModuleType) -> None:
    needed = wheel.glibc_of(ROOT / "rocketpy/_core/librocketpy.so", ARCH)
    assert 17 <= needed <= int(platform.libc_ver()[1].split(".")[1])


def test_an_object_for_another_machine_is_refused(wheel: ModuleType) -> None:
    with pytest.raises(SystemExit, match=f"is not for {OTHER}"):
        wheel.glibc_of(ROOT / "rocketpy/_core/librocketpy.so", OTHER)


def test_a_library_that_not_every_host_has_is_refused(wheel: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    said = {"--file-header": wheel.MACHINES[ARCH], "--dynamic": " (NEEDED) Shared library: [libssl.so.3]"}
    monkeypatch.setattr(wheel, "readelf", lambda _, option: said[option])
    with pytest.raises(SystemExit, match=r"needs what not every host has: libssl\.so\.3"):
        wheel.glibc_of(Path("x.so"), ARCH)


def test_a_tag_is_changed_wherever_it_stands(wheel: ModuleType, tmp_path: Path) -> None:
    about, record = "a-1.dist-info/WHEEL", "a-1.dist-info/RECORD"
    (tmp_path / "made").mkdir()
    source = tmp_path / f"a-1-cp311-cp311-linux_{ARCH}.whl"
    with zipfile.ZipFile(source, "w") as archive:
        archive.writestr("a.py", "pass\n")
        archive.writestr(about, f"Wheel-Version: 1.0\nTag: cp311-cp311-linux_{ARCH}\n")
        archive.writestr(record, f"a.py,sha256=0,5\n{about},sha256=0,1\n{record},,\n")
    made = wheel.renamed(source, f"linux_{ARCH}", f"manylinux_2_34_{ARCH}", tmp_path / "made")
    assert made.name == f"a-1-cp311-cp311-manylinux_2_34_{ARCH}.whl"
    with zipfile.ZipFile(made) as archive:
        said, rows = archive.read(about), list(csv.reader(archive.read(record).decode().splitlines()))
    assert said == f"Wheel-Version: 1.0\nTag: cp311-cp311-manylinux_2_34_{ARCH}\n".encode()
    digest = base64.urlsafe_b64encode(hashlib.sha256(said).digest()).rstrip(b"=").decode()
    assert rows == [["a.py", "sha256=0", "5"], [about, f"sha256={digest}", str(len(said))], [record, "", ""]]
