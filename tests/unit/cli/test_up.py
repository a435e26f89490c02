"""`rocketpy up`: both servers in one process, and the check that every message comes back as it was sent."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from rocketpy.config import local_address
from tests.processes import ROCKETPY
from tests.unit.broker.running import has_ipv6_loopback
from tests.unit.cli.processes import run, run_here, serve


def test_the_check_sends_messages_and_gets_all_of_them_back() -> None:
    done = run("up", "--namesrv-port", "0", "--broker-port", "0", "--check", "3000", "--message-size", "200", "--json")
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert figures["passed"] is True
    assert figures["sent"] == figures["received"] == 3000
    assert not any(figures["failures"].values())
    assert figures["started_s"] > 0


def test_a_check_that_fails_says_what_the_broker_answered() -> None:
    done = run("up", "--namesrv-port", "0", "--broker-port", "0", "--check", "5", "--message-size", "5000000")
    assert done.returncode == 1
    assert "5 requests: 13 MESSAGE_ILLEGAL: the message is illegal" in done.stdout
    assert "bodies and order of what came back: as sent" in done.stdout


def test_up_runs_until_it_is_told_to_stop_and_keeps_its_directory(tmp_path: Path) -> None:
    with serve(tmp_path, "up", "--namesrv-port", "0", "--broker-port", "0", "--dir", str(tmp_path), "--memory", "112m") as servers:
        servers.next_line("The Name Server boot success")
        servers.next_line("Memory to plan with: 112 MiB")
        servers.next_line(r"The broker\[broker-a")
        servers.next_line("Ctrl-C stops")
        assert servers.stop() == 0
    assert (tmp_path / "store" / "commitlog").is_dir()
    assert (tmp_path / "logs" / "rocketpy.log").exists()


def test_a_server_on_every_interface_registers_this_machine(tmp_path: Path) -> None:
    own = re.escape(local_address())
    with serve(tmp_path, "up", "--namesrv-port", "0", "--broker-port", "0", "--dir", str(tmp_path), "--host", "0.0.0.0") as servers:
        servers.next_line("The Name Server boot success.* address 0.0.0.0:")
        servers.next_line(rf"The broker\[broker-a, {own}:\d+\] boot success.* name server is {own}:")
        servers.next_line("Ctrl-C stops")


@pytest.mark.skipif(not has_ipv6_loopback(), reason="this machine has no IPv6")
def test_an_address_of_ipv6_is_told_as_one(tmp_path: Path) -> None:
    with serve(tmp_path, "up", "--namesrv-port", "0", "--broker-port", "0", "--dir", str(tmp_path), "--host", "::1") as servers:
        servers.next_line(r"The broker\[broker-a, \[::1\]:\d+\] boot success.* name server is \[::1\]:\d+$")
        servers.next_line("Ctrl-C stops")


def test_a_host_may_be_a_name(tmp_path: Path) -> None:
    with serve(tmp_path, "up", "--namesrv-port", "0", "--broker-port", "0", "--dir", str(tmp_path), "--host", "localhost") as servers:
        servers.next_line(r"The broker\[broker-a, localhost:\d+\] boot success")
        servers.next_line("Ctrl-C stops")


def test_a_bad_option_exits_with_two() -> None:
    assert run_here("up", "--flush", "SOMETIMES").returncode == 2


@pytest.mark.parametrize("option", [("--flush", "SYNC_FLUSH"), ("--flush", "ASYNC_FLUSH"), ("--broker-port", "0")])
def test_an_option_of_one_broker_is_not_taken_with_a_cluster(option: tuple[str, str]) -> None:
    done = run_here("up", "--cluster", "2m-noslave", "--namesrv-port", "0", "--check", "1", *option)
    assert done.returncode == 2 and option[0] in done.stderr and "not with --cluster" in done.stderr


def test_a_reader_who_has_seen_enough_ends_the_check_in_one_line() -> None:
    """`make quickstart | head`."""
    command = [*ROCKETPY, "up", "--namesrv-port", "0", "--broker-port", "0", "--check", "300000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None and child.stderr is not None
        while "Registered" not in child.stdout.readline():  # all that is said before the bars
            pass
        child.stdout.close()
        told = child.stderr.read()
        assert child.wait() == 1
    assert told.splitlines() == ["rocketpy up: [Errno 32] Broken pipe"]


def test_json_without_a_check_says_where_it_listens(tmp_path: Path) -> None:
    with serve(tmp_path, "up", "--namesrv-port", "0", "--broker-port", "0", "--dir", str(tmp_path), "--json") as servers:
        servers.next_line("Ctrl-C stops")
