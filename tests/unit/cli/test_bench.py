"""`rocketpy bench` as a user types it: against the floor server for sends, against a real broker for the rest."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from bench.servers import Durability, RocketpyServer
from rocketpy._core.load import Floor
from rocketpy.cli.admin import run_admin
from rocketpy.cli.app import command_line

TOPIC = "bench"
QUEUES = 4
ROCKETPY = command_line("bench")


@pytest.fixture
def floor(tmp_path: Path) -> Iterator[str]:
    with Floor(str(tmp_path / "floor.dat"), file_size=32 << 20) as server:
        yield f"127.0.0.1:{server.port}"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RocketpyServer]:
    with RocketpyServer(tmp_path_factory.mktemp("broker"), Durability(), "JSON").running_once(TOPIC, QUEUES) as server:
        yield server


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(ROCKETPY, ["bench", *arguments])
    return result.exit_code, result.output


def run_json(*arguments: str) -> dict[str, Any]:
    code, output = run(*arguments, "--json")
    assert code == 0, output
    report: dict[str, Any] = json.loads(output)
    return report


def test_send_prints_rates_and_percentiles(floor: str) -> None:
    code, output = run("send", "-a", floor, "--count", "500", "-c", "4", "-i", "2")
    assert code == 0, output
    for text in ("4 connections x 2 in flight", "sent", "500", "a second", "p99.9 ms", "ns of CPU a message"):
        assert text in output


def test_json_has_the_field_names_of_openmessaging_benchmark(floor: str) -> None:
    report = run_json("send", "-a", floor, "--count", "300", "-c", "2", "-e", "ROCKETMQ", "-s", "100")
    assert report["messageSize"] == 100 and report["topics"] == 1 and report["producersPerTopic"] == 2 and report["consumersPerTopic"] == 0
    latencies = [report[f"aggregatedPublishLatency{name}"] for name in ("50pct", "75pct", "95pct", "99pct", "999pct", "9999pct", "Max")]
    assert latencies == sorted(latencies) and latencies[0] > 0
    assert {"publishRate", "consumeRate", "backlog", "aggregatedPublishLatencyQuantiles", "aggregatedEndToEndLatencyAvg"} <= report.keys()
    assert report["rocketpy"]["result"]["totals"]["acknowledged"] == 300


def test_open_loop_reports_how_late_messages_left(floor: str) -> None:
    report = run_json("send", "-a", floor, "--count", "200", "-c", "2", "--rate", "2000")
    assert report["rocketpy"]["result"]["latency"]["publish_delay"]["count"] == 200
    assert report["rocketpy"]["result"]["totals"]["elapsed_ns"] > 0.09e9


def test_nobody_listening_is_one_line_and_exit_code_1() -> None:
    code, output = run("send", "-a", "127.0.0.1:1", "--count", "1")
    assert code == 1 and output.startswith("rocketpy bench: connect to 127.0.0.1:1 failed: Connection refused; is it running there? -n ")
    assert len(output.splitlines()) == 1


@pytest.mark.parametrize("option", ["-n", "-a"])
@pytest.mark.parametrize("address", ["nonsense", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:²", "127.0.0.1:99999"])
def test_an_address_that_cannot_be_is_wrong_usage(option: str, address: str) -> None:
    code, output = run("send", option, address, "--count", "1")
    assert code == 2 and output.startswith(f"rocketpy bench: {option} {address!r} is not HOST:PORT, such as 127.0.0.1:"), output
    assert len(output.splitlines()) == 1


def test_one_bad_name_server_among_others_is_not_passed_over() -> None:
    code, output = run("send", "-n", "127.0.0.1:1;nonsense", "--count", "1")
    assert code == 2 and "-n 'nonsense' is not HOST:PORT" in output
    code, output = run("send", "-n", " ; ", "--count", "1")
    assert code == 2 and "-n names no name server" in output


def test_messages_of_another_size_are_told_as_such(broker: RocketpyServer) -> None:
    """Who sends with --size and pulls without is not to look for a broker that damages messages."""
    assert run("send", "-n", broker.namesrv, "-t", "sized", "--count", "20", "-s", "100", "-c", "1")[0] == 0
    code, output = run("pull", "-n", broker.namesrv, "-t", "sized", "-c", "1")
    assert code == 1 and "the body has 100 bytes, of 1024 were to be read (--size)" in output.replace("\n", " ")
    assert run("pull", "-n", broker.namesrv, "-t", "sized", "-c", "1", "-s", "100")[0] == 0


def test_a_run_of_which_nothing_was_acknowledged_says_why(broker: RocketpyServer) -> None:
    code, output = run("send", "-a", broker.namesrv, "-d", "3600", "-c", "1")
    assert code == 1 and "no message was sent or received" in output and "REQUEST_CODE_NOT_SUPPORTED" in output
    assert f"rocketpy bench: {broker.namesrv} refused every send: 3 REQUEST_CODE_NOT_SUPPORTED: " in output


@pytest.mark.parametrize(
    "wrong",
    [
        *(("-c", "0"), ("--count", "-1"), ("-q", "0"), ("--timeout", "-1"), ("--batch", "0"), ("-d", "-1")),
        *((option, "inf") for option in ("-d", "-w", "--timeout", "--reconnect")),
        *(("-d", "1e300"), ("-s", "39")),
    ],
)
def test_a_number_that_makes_no_sense_is_wrong_usage(wrong: tuple[str, str]) -> None:
    code, output = run("send", "-a", "127.0.0.1:1", *wrong)
    assert code == 2 and "Invalid value for" in output


def test_the_next_name_server_is_asked_when_one_is_silent(broker: RocketpyServer) -> None:
    assert run("send", "-n", f"127.0.0.1:1;{broker.namesrv}", "--count", "5", "-c", "1", "-t", TOPIC)[0] == 0


def test_an_unknown_encoding_is_wrong_usage(floor: str) -> None:
    code, output = run("send", "-a", floor, "--count", "1", "-e", "XML")
    assert code == 2 and "JSON" in output


def test_what_was_acknowledged_is_found_again_by_a_later_pull(broker: RocketpyServer, tmp_path: Path) -> None:
    ledger = str(tmp_path / "ledger")
    code, output = run("send", "-a", broker.address, "-t", "ledgered", "-q", "4", "--count", "1000", "-c", "4", "--ledger", ledger)
    assert code == 0, output
    report = run_json("pull", "-a", broker.address, "-t", "ledgered", "-q", "4", "--ledger", ledger, "--ordered")
    result = report["rocketpy"]["result"]
    assert result["totals"]["received"] == 1000 and result["unverified"] == result["missing"] == 0


@pytest.mark.parametrize("encoding", ["JSON", "ROCKETMQ"])
def test_both_checks_every_message_and_measures_end_to_end(broker: RocketpyServer, encoding: str) -> None:
    report = run_json("both", "-a", broker.address, "-t", TOPIC, "-q", str(QUEUES), "--count", "2000", "-c", "4", "-e", encoding)
    totals = report["rocketpy"]["result"]["totals"]
    assert totals["acknowledged"] == totals["received"] == 2000 and totals["failures"] == 0
    assert report["aggregatedEndToEndLatency50pct"] > 0 and report["consumersPerTopic"] == 4


def test_a_topic_that_does_not_exist_is_made_unless_told_not_to(broker: RocketpyServer) -> None:
    code, output = run("send", "-n", broker.namesrv, "-t", "absent", "--count", "1", "--no-create")
    assert code == 1 and "absent" in output and "--no-create" in output
    report = run_json("send", "-n", broker.namesrv, "-t", "absent", "--count", "10", "-c", "1", "-q", "3")
    assert report["partitions"] == 3


def test_a_static_topic_is_refused_in_words(broker: RocketpyServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert run_admin(["updateStaticTopic", "-n", broker.namesrv, "-c", "DefaultCluster", "-t", "spread", "-qn", "4"]) == 0
    for command in ("send", "pull", "both"):
        for where in (("-n", broker.namesrv), ("-a", broker.address)):
            code, output = run(command, *where, "-t", "spread", "--count", "1", "-q", "4")
            assert code == 2 and output.startswith("rocketpy bench: topic spread is a static topic, "), output


@pytest.mark.parametrize("command", [("send", "--no-create"), ("both", "--no-create"), ("pull",)])
def test_a_broker_asked_by_address_makes_no_topic_when_told_not_to(broker: RocketpyServer, command: tuple[str, ...]) -> None:
    for _ in range(2):  # the broker would make it of the first send
        code, output = run(*command, "-a", broker.address, "-t", "absent-there", "--count", "1")
        assert code == 1 and f"topic absent-there is not known at {broker.address}" in output
