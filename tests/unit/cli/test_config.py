"""`rocketpy config`: a file is judged before a server is started with it."""

from __future__ import annotations

import json
from pathlib import Path

from tests.unit.cli.processes import run_here


def test_a_file_that_would_start_says_what_has_no_effect(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_text("brokerName=a\nbrokerIp1=10.0.0.1\n")
    done = run_here("config", "check", str(file))
    assert done.returncode == 0 and done.stderr == ""
    assert f"{file}:2: unknown key brokerIp1 is kept and has no effect" in done.stdout and "brokerIP1" in done.stdout


def test_every_bad_line_is_named_at_once(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_text("listenPort=ten\nflushDiskType=NEVER\n")
    done = run_here("config", "check", str(file))
    assert done.returncode == 2
    assert f"{file}:1: listenPort" in done.stderr and f"{file}:2: flushDiskType" in done.stderr
    assert run_here("config", "check", str(tmp_path / "none.conf")).returncode == 2


def test_what_differs_from_the_defaults_and_from_another_file(tmp_path: Path) -> None:
    first, second = tmp_path / "first.conf", tmp_path / "second.conf"
    first.write_text('listenPort=9000\ninitAuthenticationUser={"username":"a","password":"s3cret"}\n')
    second.write_text("listenPort=9001\n")
    done = run_here("config", "diff", str(first), "--json")
    assert json.loads(done.stdout)["listenPort"] == {"value": "9000", "other": "10911"} and "s3cret" not in done.stdout
    done = run_here("config", "diff", str(first), str(second), "--json")
    assert json.loads(done.stdout)["listenPort"] == {"value": "9000", "other": "9001"}
    assert "listenPort" in run_here("config", "diff", str(first), str(second)).stdout


def test_what_does_not_fit_into_this_machine_may_fit_into_that_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_text(f"\nbufferBytesMax={1 << 50}\n")
    done = run_here("config", "check", str(file))
    assert done.returncode == 0 and f"{file}:2: bufferBytesMax: does not fit into the memory of " in done.stdout
    assert "a start on this machine would be refused" in done.stdout
    file.write_text(f"memory=1g\nbufferBytesMax={1 << 50}\n")
    done = run_here("config", "check", str(file))
    assert done.returncode == 2 and f"{file}:2: bufferBytesMax: does not fit into the memory of 1.0 GiB" in done.stderr
    assert run_here("config", "diff", str(file)).returncode == 0


def test_a_name_server_has_keys_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "namesrv.conf"
    file.write_text("listenPort=9000\nscanNotActiveBrokerInterval=1000\n")
    assert "unknown" not in run_here("config", "check", str(file), "--role", "namesrv").stdout
    assert run_here("config", "check", str(file), "--role", "server").returncode == 2


def judged(file: Path, role: str) -> tuple[int, str, str]:
    """Exit code, standard output, standard error."""
    done = run_here("config", "check", str(file), "--role", role)
    return done.returncode, done.stdout, done.stderr


def test_what_a_start_refuses_behind_the_table_of_keys_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    for key, value, cause in (
        ("initAuthenticationUser", '{"username":"a", "password" "s3cret"}', "is no JSON object such as"),
        ("innerClientAuthenticationCredentials", '{"accessKey":"s3cret"}', "secretKey is missing"),
    ):
        file.write_text(f"{key}={value}\n")
        code, out, told = judged(file, "broker")
        assert (code, out) == (2, "") and f"{key}: {cause}" in told and "s3cret" not in told
    file.write_text('initAuthenticationUser={"username":"a"}\ninnerClientAuthenticationCredentials={}\n')
    told = judged(file, "broker")[2]
    assert "initAuthenticationUser: " in told and "innerClientAuthenticationCredentials: " in told


def test_a_proxys_file_is_judged_as_the_proxy_reads_it(tmp_path: Path) -> None:
    file = tmp_path / "rmq-proxy.json"
    file.write_text('{"rocketMQClusterName": "c", "grpcBossLoopNum": 1, "logLevel": "INFO"}')
    assert judged(file, "proxy") == (0, f"{file}: without effect here: grpcBossLoopNum\n{file}: a proxy starts with it\n", "")
    code, out, told = judged(file, "broker")
    assert (code, out) == (2, "") and "--role proxy" in told
    file.write_text('{"logFileSize": 67108864, "logFileCount": 5}')
    assert judged(file, "proxy")[0] == 0
    for text in ('{"grpcServerPort": "many"}', '{"logLevel": "LOUD"}', '{"logPath": ["a"]}', '{"logFileCount": true}', "listenPort=8081"):
        file.write_text(text)
        assert judged(file, "proxy")[0] == 2
