"""`rocketpy proxy`, and the proxy in a broker's process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rocketpy import _core
from rocketpy.cli import proxy, proxy_beside
from tests.nghttp2 import need_nghttp2
from tests.unit.cli.processes import run, serve

ANY_PORT = {"grpcServerPort": 0, "remotingListenPort": 0, "localServeAddr": "127.0.0.1"}


def test_it_starts_says_what_has_no_effect_and_stops(tmp_path: Path) -> None:
    need_nghttp2()
    conf = tmp_path / "rmq-proxy.json"
    conf.write_text(json.dumps({**ANY_PORT, "grpcBossLoopNum": 1}))
    with serve(tmp_path, "proxy", "-pc", str(conf), "-n", "127.0.0.1:1", "--memory", "112m") as process:
        process.next_line(r"proxy boot success. gRPC port [1-9]\d+, port for 4.x clients [1-9]\d+, name server is 127.0.0.1:1")
        process.next_line("Memory to plan with: 112 MiB")
        process.next_line("Without effect here: grpcBossLoopNum")
        assert process.stop() == 0


def test_beside_its_broker_it_asks_the_brokers_name_servers(tmp_path: Path) -> None:
    need_nghttp2()
    with serve(tmp_path, "up", "--proxy", "--dir", str(tmp_path / "data"), "--namesrv-port", "0", "--broker-port", "0") as process:
        process.next_line(r"Clients that speak gRPC connect to port [1-9]\d+")
        assert process.stop() == 0
    conf = tmp_path / "rmq-proxy.json"
    conf.write_text(json.dumps(ANY_PORT))
    keys = ("bindAddress=127.0.0.1", "brokerIP1=127.0.0.1", "listenPort=0", "haListenPort=0", f"storePathRootDir={tmp_path / 'store'}")
    options = [part for key in keys for part in ("-o", key)]
    with serve(tmp_path, "broker", "-n", "127.0.0.1:1", "--enable-proxy", "-pc", str(conf), *options) as process:
        process.next_line(r"Clients that speak gRPC connect to port [1-9]\d+")
        assert process.stop() == 0


def test_local_mode_is_a_broker_with_a_proxy(tmp_path: Path) -> None:
    need_nghttp2()
    conf, broker = tmp_path / "rmq-proxy.json", tmp_path / "broker.conf"
    conf.write_text(json.dumps({**ANY_PORT, "proxyMode": "LOCAL", "namesrvAddr": "127.0.0.1:1", "memory": "112m"}))
    keys = ("bindAddress=127.0.0.1", "brokerIP1=127.0.0.1", "listenPort=0", "haListenPort=0", f"storePathRootDir={tmp_path / 'store'}")
    broker.write_text("\n".join(keys))
    with serve(tmp_path, "proxy", "-pc", str(conf), "-bc", str(broker)) as process:
        process.next_line(r"The broker\[.*boot success")
        process.next_line("Memory to plan with: 112 MiB")
        process.next_line(r"Clients that speak gRPC connect to port [1-9]\d+")
        assert process.stop() == 0
    done = run("proxy", "-pm", "local", "-p", "8081")
    assert done.returncode == 2 and "grpcServerPort stands in the file" in done.stderr


def test_wrong_settings_are_named_at_once(tmp_path: Path) -> None:
    conf = tmp_path / "rmq-proxy.json"
    conf.write_text('{"grpcServerPort": "x", "enableAclRpcHookForClusterMode": true}')
    done = run("proxy", "-pc", str(conf), "-n", "127.0.0.1:1")
    assert (
        done.returncode == 2
        and "grpcServerPort: 'x' is not valid" in done.stderr
        and "enableAclRpcHookForClusterMode: needs innerClientAuthenticationCredentials" in done.stderr
    )
    done = run("proxy")
    assert done.returncode == 2 and "namesrvAddr: is needed" in done.stderr


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(proxy_beside.importlib.util, "find_spec", lambda name: None)
    assert proxy.run_proxy(["-n", "127.0.0.1:1"], "rocketpy proxy") == 1
    assert "pip install 'rocketpy-mq[proxy]'" in capsys.readouterr().err


def test_without_nghttp2_it_does_not_start_and_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    conf = tmp_path / "rmq-proxy.json"
    conf.write_text(json.dumps(ANY_PORT))
    # Found before the real one, and has none of its calls.
    (tmp_path / "libnghttp2.so.14").symlink_to(Path(_core.__file__).parent / "librocketpy.so")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    done = run("proxy", "-pc", str(conf), "-n", "127.0.0.1:1")
    assert done.returncode == 1 and "libnghttp2.so.14 is too old" in done.stderr
    assert "sudo apt-get install -y libnghttp2-14" in done.stderr
