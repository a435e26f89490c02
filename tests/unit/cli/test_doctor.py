"""`rocketpy doctor`: each finding says what is wrong and what mends it; a bad one is exit code 3."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from rocketpy._core.errors import Unsupported
from rocketpy._core.liburing import liburing_path
from rocketpy.cli import doctor
from rocketpy.cli.doctor import CHECKS, Finding, run_doctor
from rocketpy.config.memory import Memory
from tests.nghttp2 import why_no_grpc
from tests.unit.cli.processes import run


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_every_check_has_a_verdict_on_this_machine(check: object, tmp_path: Path) -> None:
    finding = check(tmp_path)  # type: ignore[operator]
    assert finding.grade in ("ok", "note", "bad")
    assert finding.text


def test_a_bad_finding_is_exit_code_three(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(doctor, "CHECKS", (lambda directory: Finding("disk", "bad", "full"),))
    assert run_doctor(tmp_path) == 3
    monkeypatch.setattr(doctor, "CHECKS", (lambda directory: Finding("disk", "note", "slow"),))
    assert run_doctor(tmp_path) == 0


def test_a_directory_below_somebody_elses_is_to_be_made_not_taken_away(foreign_directory: Path) -> None:
    taken, made = doctor.check_disk(foreign_directory), doctor.check_disk(foreign_directory / "store")
    assert taken.grade == made.grade == "bad"
    is_ours = foreign_directory.stat().st_uid == os.getuid()  # where the tests do not run as root
    assert taken.text.endswith(f"or: {'chmod u+rwx' if is_ours else 'sudo chown $USER'} {foreign_directory}")
    assert made.text.endswith(f"sudo install -d -o $USER {foreign_directory / 'store'}")


def test_a_little_disk_is_bad(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(doctor, "DISK_BYTES_WANTED", 1 << 62)
    finding = doctor.check_disk(tmp_path / "not" / "yet" / "there")
    assert finding.grade == "bad"
    assert str(tmp_path) in finding.text


def test_a_disk_is_as_full_as_the_broker_sees_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """5 % of an ext4 belong to root: 87 of 100 GiB used and 8 free are 91.6 % to df, above which sends are refused at 90."""
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(total=100 << 30, used=87 << 30, free=8 << 30))
    finding = doctor.check_disk(tmp_path)
    assert finding.grade == "note" and "92% used" in finding.text


def test_a_disk_that_does_not_say_how_large_it_is_is_told_of(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A ramfs, or a tmpfs without a limit."""
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(total=0, used=0, free=0))
    finding = doctor.check_disk(tmp_path)
    assert finding.grade == "note" and finding.text == f"{tmp_path}: does not say how large it is: the broker never takes it for full"


def test_little_memory_is_noted_with_who_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(doctor, "found_memory", lambda: Memory(256 << 20, "by /sys/fs/cgroup/memory.max"))
    finding = doctor.check_memory(tmp_path)
    assert finding.grade == "note" and finding.text.startswith("256 MiB (by /sys/fs/cgroup/memory.max) to plan with")


@pytest.mark.parametrize(("user", "remedy", "other"), [(0, "ulimit -Hn 65536", "root can"), (1000, "/etc/security/limits.conf", "ulimit")])
def test_who_is_not_root_is_not_told_to_raise_a_limit_that_only_root_can(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, user: int, remedy: str, other: str
) -> None:
    monkeypatch.setattr(doctor.os, "geteuid", lambda: user)
    monkeypatch.setattr(doctor.resource, "getrlimit", lambda which: (1024, 4096))
    finding = doctor.check_open_files(tmp_path)
    assert finding.grade == "note" and finding.text.startswith("at most 4096") and "LimitNOFILE=65536" in finding.text
    assert remedy in finding.text and other not in finding.text


def test_of_two_file_systems_in_one_place_the_later_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As systemd mounts a share on demand."""
    mounts = f"/dev/vda / ext4 rw 0 0\nsystemd-1 {tmp_path} autofs rw 0 0\nserver:/store {tmp_path} nfs4 rw 0 0\nproc /proc proc rw 0 0"
    monkeypatch.setattr(doctor, "_read", lambda path: mounts)
    assert doctor.check_file_system(tmp_path / "store").text.startswith("nfs4")


def test_a_directory_that_cannot_be_written_is_bad(foreign_directory: Path) -> None:
    assert doctor.check_disk(foreign_directory).grade == "bad"


def test_the_sync_is_timed_and_a_library_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    library = liburing_path()
    if library is not None:  # io_uring may be forbidden here all the same: then it says that
        text = doctor.check_sync(tmp_path).text
        assert f"by io_uring ({library}): the flusher uses" in text or "no io_uring: the kernel refuses" in text
    monkeypatch.setattr("rocketpy._core.liburing.liburing_path", lambda: str(tmp_path / "liburingwrap.so"))
    finding = doctor.check_sync(tmp_path)
    assert finding.grade == "ok"
    assert f"{tmp_path}/liburingwrap.so: cannot open shared object file" in finding.text
    assert "pip install" in finding.text


def test_liburing_is_the_one_that_pyuring_bundles() -> None:
    pyuring = pytest.importorskip("pyuring")
    assert liburing_path() == str(Path(pyuring.__file__).parent / "lib" / "liburingwrap.so")


def test_a_library_that_only_the_proxy_needs_is_a_note(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if why_no_grpc() is None:
        assert doctor.check_grpc(tmp_path).grade == "ok"

    def refuse(methods: list[str]) -> None:
        raise Unsupported("gRPC needs nghttp2; install it")

    monkeypatch.setattr("rocketpy._core.grpc.Grpc", refuse)
    assert doctor.check_grpc(tmp_path) == doctor.Finding("gRPC", "note", "no proxy here: gRPC needs nghttp2; install it")


def test_the_command_prints_its_findings() -> None:
    done = run("doctor")
    assert done.returncode in (0, 3)
    for name in ("native core", "kernel", "sync", "disk"):
        assert name in done.stdout


def test_an_encoding_that_lacks_a_character_costs_no_finding() -> None:
    done = run("doctor", environment={"PYTHONIOENCODING": "ascii"})
    assert done.returncode in (0, 3) and "\\xb5s by " in done.stdout, done.stderr


def test_a_long_path_is_whole_in_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    path = "/".join(["", *["directory"] * 12])
    doctor.print_findings([Finding("sync", "ok", f"by {path}")])
    assert path in capsys.readouterr().out


def test_a_directory_that_is_not_there_is_told_with_the_one_that_was_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = tmp_path / "sotre" / "below"
    finding = doctor.check_directory(missing)
    assert finding.grade == "note" and f"{missing} is not there" in finding.text and f"looked at {tmp_path} instead" in finding.text
    assert doctor.check_directory(tmp_path).grade == "ok"
    monkeypatch.setenv("HOME", str(tmp_path))
    assert doctor.check_directory(tmp_path / "store").grade == "ok", "nobody has named it: it is there after the first start"


def test_a_file_in_the_place_of_the_directory_is_bad(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for directory in (tmp_path / "file", tmp_path / "file" / "store"):
        finding = doctor.check_directory(directory)
        assert finding.grade == "bad" and f"{tmp_path}/file is not a directory" in finding.text
        assert doctor.check_sync(directory).grade == "ok", "of the directory it is in"


def test_a_relative_directory_is_shown_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(doctor, "CHECKS", (doctor.check_directory,))
    assert run_doctor(Path("store")) == 0
    assert str(tmp_path / "store") in capsys.readouterr().out


@pytest.mark.parametrize("is_terminal", [True, False])
def test_what_others_said_neither_ends_a_line_nor_steers_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, is_terminal: bool
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal)
    name, text = "broker [/red]\x1b[2J\nok", f"\x9b31m\u202e{'x' * 9000}; set it right"
    doctor.print_findings([Finding(name, "note", text)])
    told = capsys.readouterr().out
    assert "[/red]\\x1b[2J\\nok" in told and "\\x9b31m\\u202ex" in told and "set it right" in "".join(told.split("\n")).replace("  ", "")
    assert told.replace("\n", "").isprintable() and told.count("x") < 5000


def test_into_a_file_go_lines_of_their_own_length(capsys: pytest.CaptureFixture[str]) -> None:
    findings = [Finding("disk", "ok", "µ" * 300), Finding("open files", "bad", "few [of] them")]
    assert doctor.print_findings(findings) == 3
    assert capsys.readouterr().out == f"ok    disk        {'µ' * 300}\nbad   open files  few [of] them\n"
