"""`rocketpy namesrv` and `rocketpy broker`: options, boot lines, bad configuration, signals."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from rocketpy._core.remoting import Command, encode_command
from rocketpy.config import found_memory
from rocketpy.remoting.codes import RequestCode, ResponseCode
from tests.fault.requests_wire import Wire
from tests.processes import ROCKETPY, ROOT, Process, wait_until
from tests.unit.cli.processes import WAIT_S, run, run_here, serve


def namesrv_arguments(tmp_path: Path, *more: str) -> list[str]:
    keys = {"listenPort": 0, "bindAddress": "127.0.0.1", "kvConfigPath": tmp_path / "kv.json", "configStorePath": tmp_path / "n.properties"}
    return ["namesrv", *(part for key, value in keys.items() for part in ("-o", f"{key}={value}")), *more]


def broker_arguments(tmp_path: Path, *more: str) -> list[str]:
    keys = {
        "listenPort": 0,
        "haListenPort": 0,
        "bindAddress": "127.0.0.1",
        "brokerIP1": "127.0.0.1",
        "brokerIP2": "127.0.0.1",
        "brokerName": "broker-a",
        "storePathRootDir": tmp_path / "store",
        "mappedFileSizeCommitLog": 1 << 20,
    }
    return ["broker", *(part for key, value in keys.items() for part in ("-o", f"{key}={value}")), *more]


def ask(port: int, code: RequestCode, fields: dict[str, str], body: bytes = b"") -> Command:
    with Wire(port) as wire:
        wire.write(encode_command(code, fields, body, opaque=1))
        answer = wire.read()
    assert answer is not None, "the broker closed the connection"
    return answer


def test_the_name_server_says_that_it_runs_and_stops_cleanly(tmp_path: Path) -> None:
    with serve(tmp_path, *namesrv_arguments(tmp_path)) as server:
        server.next_line(r"^The Name Server boot success\. serializeType=JSON, address 127\.0\.0\.1:\d+$")
        server.next_line(rf"^Memory to plan with: {re.escape(str(found_memory()))}$")
        assert server.stop() == 0


def test_the_broker_registers_says_so_and_states_its_durability(tmp_path: Path) -> None:
    with serve(tmp_path, *namesrv_arguments(tmp_path)) as namesrv:
        address = namesrv.next_line(r"boot success.* (\S+)$")[1]
        with serve(tmp_path, *broker_arguments(tmp_path, "-n", address, "--memory", "112m")) as broker:
            booted = r"^The broker\[broker-a, 127\.0\.0\.1:\d+\] boot success\. serializeType=JSON and name server is "
            broker.next_line(booted + re.escape(address) + "$")
            broker.next_line("Durability.*flushDiskType=ASYNC_FLUSH")
            broker.next_line(r"^Memory to plan with: 112 MiB \(as configured, ")
            broker.next_line("Warning.*loopback")
            assert broker.stop() == 0
    assert not (tmp_path / "store" / "abort").exists()


@pytest.mark.parametrize("server", ["namesrv", "broker", "controller", "proxy", "up"])
def test_memory_that_is_none_is_refused(server: str) -> None:
    refused = run_here(server, "--memory", "half")
    assert refused.returncode == 2
    assert "memory: 'half' is not valid: " in refused.stderr
    assert "bytes, or a number with k, m, g or t such as 512m, 96m or more" in refused.stderr


def test_a_broker_whose_store_does_not_reach_the_disk_ends_with_one(tmp_path: Path) -> None:
    with serve(tmp_path, *broker_arguments(tmp_path)) as broker:
        broker.next_line("boot success")
        (tmp_path / "store").rename(tmp_path / "elsewhere")
        assert broker.stop() == 1
        broker.next_line("BrokerService did not stop cleanly: .*No such file or directory.*checkpoint")
        assert "Traceback" not in broker.output()


def test_a_broker_whose_tables_cannot_be_saved_at_its_stop_ends_with_one(tmp_path: Path) -> None:
    """Each that changed is named with the cause, and the store is closed cleanly all the same."""
    config = tmp_path / "store" / "config"
    with serve(tmp_path, *broker_arguments(tmp_path, "-o", "flushConsumerOffsetInterval=3600000")) as broker:
        port = int(broker.next_line(r"^The broker\[broker-a, 127\.0\.0\.1:(\d+)\] boot success")[1])
        config.rename(tmp_path / "elsewhere")
        config.touch()  # root writes to directories of any permission
        topic = {
            "topic": "t", "defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1", "perm": "6",
            "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false",
        }  # fmt: skip
        assert ask(port, RequestCode.UPDATE_AND_CREATE_TOPIC, topic).code == ResponseCode.SYSTEM_ERROR
        assert ask(port, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, b'{"groupName":"g"}').code == ResponseCode.SYSTEM_ERROR
        offset = {"consumerGroup": "g", "topic": "t", "queueId": "0", "commitOffset": "7"}
        assert ask(port, RequestCode.UPDATE_CONSUMER_OFFSET, offset).code == ResponseCode.SUCCESS
        assert broker.stop() == 1
        line = broker.next_line("BrokerService did not stop cleanly: (.*)")[1]
        for name in ("topics.json", "subscriptionGroup.json", "consumerOffset.json"):
            assert f"writing the state failed: File exists [{config / name}]" in line
        assert "Traceback" not in broker.output()
    assert not (tmp_path / "store" / "abort").exists()


def test_a_server_whose_standard_output_is_full_serves(tmp_path: Path) -> None:
    log = tmp_path / "errors"
    with log.open("wb") as errors, Path("/dev/full").open("wb") as full:
        command = [*ROCKETPY, *namesrv_arguments(tmp_path)]
        server = subprocess.Popen(command, cwd=ROOT, env={**os.environ, "NAMESRV_ADDR": ""}, stdout=full, stderr=errors)
        try:
            said = "standard output cannot be written: No space left on device"
            wait_until(lambda: said in log.read_text() or server.poll() is not None, WAIT_S)
            assert server.poll() is None, log.read_text()
            server.send_signal(signal.SIGTERM)
            assert server.wait(WAIT_S) == 0
        finally:
            server.kill()
            server.wait()
    assert "Traceback" not in log.read_text() and "Exception ignored" not in log.read_text()


def test_sigint_stops_like_sigterm(tmp_path: Path) -> None:
    with serve(tmp_path, *namesrv_arguments(tmp_path)) as server:
        server.next_line("boot success")
        assert server.stop(number=signal.SIGINT) == 0


def test_a_signal_sent_twice_in_one_breath_is_one_request_to_stop(tmp_path: Path) -> None:
    with serve(tmp_path, *broker_arguments(tmp_path)) as broker:
        broker.next_line("boot success")
        broker.send_signal(signal.SIGTERM)
        broker.send_signal(signal.SIGINT)
        assert broker.stop() == 0
    assert not (tmp_path / "store" / "abort").exists()


def test_a_signal_to_a_server_that_has_stopped_is_not_its_exit_code(tmp_path: Path) -> None:
    with serve(tmp_path, *namesrv_arguments(tmp_path)) as server:
        server.next_line("boot success")
        server.send_signal(signal.SIGTERM)
        wait_until(lambda: "msg=stopped" in server.output(), WAIT_S, every=0.0001)
        assert server.stop() == 0


def blocked(task: Path) -> set[int]:
    """The signals that a thread has blocked."""
    found = re.search(r"SigBlk:\s+([0-9a-f]+)", (task / "status").read_text())
    assert found is not None
    return {number for number in signal.valid_signals() if int(found[1], 16) >> (number - 1) & 1}


def takers_of_signals(pid: int) -> set[str]:
    """The names of the threads that one which stops the process, or has it read its files, may go to."""
    names = set()
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended
            if any(number not in blocked(task) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)):
                names.add((task / "comm").read_text().strip() if task.name != str(pid) else "the first one")
    return names


def thread_names(pid: int) -> set[str]:
    names = set()
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended
            names.add((task / "comm").read_text().strip())
    return names


def test_no_thread_but_the_first_takes_signals(tmp_path: Path) -> None:
    """One that is there still when all has stopped, as whoever asks for metrics and says nothing keeps one, would end the process by it."""
    metrics = {"metricsExporterType": "PROM", "metricsPromExporterHost": "127.0.0.1", "metricsPromExporterPort": 0}
    arguments = broker_arguments(tmp_path, *(part for key, value in metrics.items() for part in ("-o", f"{key}={value}")))
    with serve(tmp_path, *arguments) as broker:
        address = "127.0.0.1", int(broker.next_line(r"metrics are served on http://127\.0\.0\.1:(\d+)/")[1])
        broker.next_line("boot success")
        with socket.create_connection(address), socket.create_connection(address, WAIT_S) as second:
            second.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
            assert second.recv(100), "the first one has its thread, too"
            wait_until(lambda: takers_of_signals(broker.pid) == {"the first one"}, what="threads without signals")
            assert broker.stop() == 0


def test_threads_that_push_metrics_take_no_signals(tmp_path: Path) -> None:
    """Those of the library, which live as long as the process."""
    metrics = {"metricsExporterType": "OTLP_GRPC", "metricsGrpcExporterTarget": "http://127.0.0.1:1"}
    arguments = broker_arguments(tmp_path, *(part for key, value in metrics.items() for part in ("-o", f"{key}={value}")))
    with serve(tmp_path, *arguments) as broker:
        broker.next_line("boot success")
        wait_until(lambda: any(name.startswith("grpc") for name in thread_names(broker.pid)), what="threads of the library")
        wait_until(lambda: takers_of_signals(broker.pid) == {"the first one"}, what="threads without signals")
        assert broker.stop() == 0


def test_ctrl_c_before_the_server_listens_to_it_leaves_no_traceback() -> None:
    interrupt = "import signal, sys; sys.argv = ['rocketpy', 'broker']; import argparse; argparse.ArgumentParser.parse_args = "
    interrupt = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler);" + interrupt  # a background job ignores it
    run_it = "lambda *_: signal.raise_signal(signal.SIGINT); from rocketpy.cli.entry import main; sys.exit(main())"
    done = subprocess.run([sys.executable, "-c", interrupt + run_it], cwd=ROOT, capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert done.returncode == 130 and done.stderr == ""


def test_sighup_reads_the_file_again(tmp_path: Path) -> None:
    conf = tmp_path / "namesrv.conf"
    conf.write_text("logLevel = INFO\n")
    with serve(tmp_path, *namesrv_arguments(tmp_path, "-c", str(conf))) as server:
        server.next_line("boot success")
        conf.write_text("logLevel = DEBUG\n")
        server.send_signal(signal.SIGHUP)
        server.next_line("configuration changed.*logLevel = DEBUG")
        conf.write_text("logLevel = LOUD\n")
        server.send_signal(signal.SIGHUP)
        server.next_line(r"nothing was changed: .*:\d+: logLevel: .LOUD")
        assert server.stop() == 0


def test_sighup_in_the_middle_of_the_start_is_served_after_it(tmp_path: Path) -> None:
    """systemd calls a reload right after the start a clean end of the process, and does not start it again."""
    conf = tmp_path / "namesrv.conf"
    conf.write_text("logLevel = INFO\n")
    with serve(tmp_path, *namesrv_arguments(tmp_path, "-c", str(conf))) as server:
        server.wait_until(lambda: signal.SIGHUP in blocked(Path(f"/proc/{server.pid}")), WAIT_S, "the start of the command")
        server.send_signal(signal.SIGHUP)
        server.next_line("boot success")
        assert server.stop() == 0


def test_who_is_started_with_sigterm_blocked_ends_by_it_all_the_same(tmp_path: Path) -> None:
    """A child inherits what its parent blocks; Java unblocks it too."""
    block = "import os, signal, sys; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM]); os.execvp(sys.argv[1], sys.argv[1:])"
    arguments, log = namesrv_arguments(tmp_path), tmp_path / "blocked.log"
    with Process.rocketpy(*arguments, log=log, inside=[sys.executable, "-c", block]) as server:
        server.next_line("boot success")
        assert server.stop() == 0


def test_sighup_without_a_file_changes_nothing_nor_does_sigquit(tmp_path: Path) -> None:
    """`kill -3` shows the threads of a JVM: who is used to it ended a broker, at once and without a word."""
    with serve(tmp_path, *namesrv_arguments(tmp_path)) as server:
        server.next_line("boot success")
        server.send_signal(signal.SIGQUIT)
        server.next_line("SIGQUIT: no JVM is here")
        server.send_signal(signal.SIGHUP)
        server.next_line("this namesrv was started without a file")
        assert server.stop() == 0


def test_a_bad_value_stops_the_start_with_file_line_key_and_what_was_expected(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("# a broker\nbrokerName = broker-a\nlistenPort = 1o911\nflushDiskType = SOMETIMES\n")
    done = run("broker", "-c", str(conf))
    assert done.returncode == 2
    assert done.stdout == ""
    port, flush = done.stderr.splitlines()
    assert f"{conf}:3: listenPort" in port
    assert "whole number" in port
    assert f"{conf}:4: flushDiskType" in flush
    assert "ASYNC_FLUSH, SYNC_FLUSH" in flush


def test_an_unknown_key_is_reported_once_with_the_nearest_known_one(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("flushDiskTyp = SYNC_FLUSH\n")
    with serve(tmp_path, *broker_arguments(tmp_path, "-c", str(conf))) as broker:
        broker.next_line("boot success")
        assert broker.stop() == 0
    reports = [line for line in broker.output().splitlines() if "flushDiskTyp " in line]
    assert len(reports) == 1
    assert "flushDiskType" in reports[0]


def test_a_taken_port_ends_the_start_and_names_the_port(tmp_path: Path) -> None:
    with serve(tmp_path, *namesrv_arguments(tmp_path)) as server:
        port = server.next_line(r"boot success.*:(\d+)$")[1]
        done = run(*namesrv_arguments(tmp_path), "-o", f"listenPort={port}")
        assert done.returncode == 1
        assert port in done.stderr
        server.stop()


def test_a_store_in_use_ends_the_start_and_names_the_holder(tmp_path: Path) -> None:
    with serve(tmp_path, *broker_arguments(tmp_path)) as broker:
        broker.next_line("boot success")
        done = run(*broker_arguments(tmp_path))
        assert done.returncode == 1
        assert str(tmp_path / "store") in done.stderr
        broker.stop()


def test_p_prints_every_item_and_m_the_important_ones() -> None:
    everything = run("broker", "-p").stdout.splitlines()
    important = run("broker", "-m").stdout.splitlines()
    assert "listenPort=10911" in everything
    assert set(important) < set(everything)
    assert any(line.startswith("brokerName=") for line in important)
    assert "listenPort=9876" in run("namesrv", "-p").stdout.splitlines()


def test_p_tells_what_the_file_does_not_do_before_anything_is_started(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("sendMessageThreadPoolNums=9\nflushDiskTyp=SYNC_FLUSH\n")
    done = run("broker", "-c", str(conf), "-p")
    assert done.returncode == 0 and "sendMessageThreadPoolNums=9" in done.stdout.splitlines()
    idle, unknown = done.stderr.splitlines()
    assert idle.startswith(f"{conf}:1: sendMessageThreadPoolNums has no effect") and "did you mean flushDiskType" in unknown


def test_a_broker_that_nobody_can_find_says_so(tmp_path: Path) -> None:
    with serve(tmp_path, *broker_arguments(tmp_path)) as broker:
        broker.next_line(r"level=WARNING .*no name server is named \(-n, namesrvAddr or NAMESRV_ADDR\)")
        broker.next_line("boot success")
        assert broker.stop() == 0


def test_wrong_usage_exits_with_two() -> None:
    assert run("broker", "--no-such-option").returncode == 2
    assert run("namesrv", "-o", "listenPort").returncode == 2


@pytest.mark.parametrize("role", ["namesrv", "broker"])
def test_a_server_starts_without_the_command_line_library(role: str) -> None:
    """typer, rich and pydantic take longer to import than a server to start."""
    program = f"import sys, json, rocketpy.cli.entry, rocketpy.cli.servers, rocketpy.{role}.service; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, timeout=WAIT_S, check=True)
    loaded = {name.partition(".")[0] for name in json.loads(done.stdout)}
    assert not loaded & {"typer", "click", "rich", "pydantic", "lz4", "cffi", "Cython", "setuptools", "pytest"}


@pytest.mark.parametrize("role", ["namesrv", "broker"])
def test_a_log_directory_that_cannot_be_is_named_with_its_key(role: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run(role, "-o", f"logPath={tmp_path}/file/logs")
    assert done.returncode == 2
    assert done.stderr == f"rocketpy {role}: logPath: {tmp_path}/file/logs cannot be made: Not a directory\n"


def test_logs_go_to_rotating_files(tmp_path: Path) -> None:
    """What there is to say about the configuration too, which is read before they are open."""
    logs, conf = tmp_path / "logs", tmp_path / "broker.conf"
    conf.write_text("sendMessageThreadPoolNums = 128\nxyzzy = 1\n")
    settings = ("-c", str(conf), "-o", f"logPath={logs}", "-o", "logFormat=json", "-o", "logLevel=DEBUG")
    with serve(tmp_path, *broker_arguments(tmp_path), *settings) as broker:
        broker.next_line("boot success")
        assert broker.stop() == 0
    records = [json.loads(line) for line in (logs / "broker.log").read_text().splitlines()]
    assert {"time", "level", "logger", "msg"} <= set(records[0])
    assert any(record["msg"] == "stopped" for record in records)
    remarks = [record["msg"].removeprefix(f"{conf}:").split(":")[:2] for record in records if record["msg"].startswith(f"{conf}:")]
    assert remarks == [["1", " sendMessageThreadPoolNums has no effect"], ["2", " unknown key xyzzy is kept and has no effect"]]
