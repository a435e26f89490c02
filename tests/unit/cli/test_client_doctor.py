"""`rocketpy doctor --from client`: where clients on this host would be led, and whether they would arrive."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from rocketpy._core.errors import NetworkError, RocketpyError, TimedOut
from rocketpy._core.remoting import Command, decode_command, encode_command
from rocketpy.cli import client_doctor
from rocketpy.cli.client_doctor import ClientDoctor
from rocketpy.cli.doctor import Finding
from rocketpy.remoting.client import ConnectFailed
from rocketpy.remoting.codes import RequestCode, ResponseCode
from rocketpy.remoting.look_up import LookUps
from tests.processes import PATIENCE_S
from tests.unit.broker.running import run, running
from tests.unit.cli.processes import run_here

SHORT_S = 0.05


def answer(code: int = 0, body: bytes = b"", remark: str | None = None) -> Command:
    frame = encode_command(code, None, body, opaque=1, flag=1, remark=remark)
    return decode_command(memoryview(frame))


def clusters(brokers: Mapping[str, Mapping[int, str]]) -> Command:
    table = {
        name: {"brokerName": name, "cluster": "c", "brokerAddrs": {str(number): address for number, address in addresses.items()}}
        for name, addresses in brokers.items()
    }
    return answer(body=json.dumps({"brokerAddrTable": table, "clusterAddrTable": {"c": list(brokers)}}).encode())


class Network:
    """Who answers what, by address."""

    def __init__(self, **servers: Command | RocketpyError) -> None:
        self.servers: dict[str, Command | RocketpyError] = dict(servers)
        self.under_way = self.most = 0

    async def invoke(self, address: str, code: int, *, timeout_s: float) -> Command:
        assert code in (RequestCode.GET_BROKER_CLUSTER_INFO, RequestCode.GET_BROKER_CONFIG)
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await asyncio.sleep(0)
        self.under_way -= 1
        found = self.servers.get(address, ConnectFailed(f"connect to {address} failed: Connection refused"))
        if isinstance(found, RocketpyError):
            raise found
        return found


def findings(network: Network, *proxies: str, names: tuple[str, ...] = ("10.0.0.1:9876",)) -> list[Finding]:
    async def ask() -> list[Finding]:
        return await ClientDoctor(network, LookUps(), PATIENCE_S).findings(names, proxies)

    return asyncio.run(ask())


def of_broker(address: str, found: Command | RocketpyError | None) -> Finding:
    """What is said of broker-a, which is registered under the address."""
    network = Network()
    network.servers["10.0.0.1:9876"] = clusters({"broker-a": {0: address}})
    if found is not None:
        network.servers[address] = found
    name_server, broker = findings(network)
    assert name_server == Finding("name server 10.0.0.1:9876", "ok", "answers, and knows 1 broker")
    assert broker.name == "broker broker-a 0"
    return broker


OURS = answer(body=b"brokerClusterName=c\nbrokerName=broker-a\n")


@pytest.mark.parametrize(
    ("address", "found", "grade", "parts"),
    [
        ("10.0.0.5:10911", OURS, "ok", ["10.0.0.5:10911 answers"]),
        ("10.0.0.5:10911", answer(ResponseCode.NO_PERMISSION), "ok", ["10.0.0.5:10911 answers; which broker it is"]),
        ("10.0.0.5:10911", answer(1, remark="org.apache.rocketmq.acl.common.AclException: No"), "ok", ["; which broker it is"]),
        ("127.0.0.1:10911", OURS, "note", ["a loopback address", "brokerIP1"]),
        ("172.17.0.2:10911", OURS, "note", ["Docker's default bridge", "brokerIP1"]),
        ("127.0.0.1:10911", answer(body=b"brokerName=broker-b\n"), "bad", ["it is broker broker-b that answers", "brokerIP1"]),
        ("8.8.8.8:10911", answer(ResponseCode.SYSTEM_ERROR), "bad", ["answers as no broker does: CODE: 1", "--useTLS", "brokerIP1"]),
        ("10.0.0.5:10911", answer(body=b"brokerName="), "bad", ["as no broker does: its configuration has no brokerName"]),
        ("10.0.0.5:10911", answer(body=b"brokerName=broker-a\nbrokerId=0"), "ok", ["10.0.0.5:10911 answers"]),
        ("10.0.0.5:10911", answer(body=b"brokerName=broker-a\nbrokerId=1"), "bad", ["it is broker broker-a 1 that answers", "brokerIP1"]),
        ("10.0.0.5:10911", answer(body=b"brokerName=broker-a\nbrokerId=1\nenableControllerMode=true"), "ok", ["answers"]),
        ("10.0.0.5:10911", answer(body=b"brokerName=broker-a\nbrokerId=1\nenableSlaveActingMaster=true"), "ok", ["answers"]),
        ("10.0.0.5:10911", answer(body=b"brokerName=broker-b\nenableControllerMode=true"), "bad", ["it is broker broker-b that answers"]),
        ("[::ffff:172.17.0.2]:10911", OURS, "note", ["Docker's default bridge"]),
        ("[::ffff:127.0.0.1]:10911", OURS, "note", ["a loopback address"]),
        ("[::ffff:10.0.0.5]:10911", None, "bad", ["a private address"]),
        ("8.8.8.8:10911", None, "bad", ["Connection refused", "firewall", "brokerIP1"]),
        ("10.0.0.5:10911", None, "bad", ["Connection refused", "a private address", "brokerIP1"]),
        ("172.17.0.2:10911", None, "bad", ["Connection refused", "Docker's default bridge"]),
        ("169.254.1.1:10911", None, "bad", ["Connection refused", "a link-local address"]),
        ("0.0.0.0:10911", None, "bad", ["Connection refused", "not an address"]),
        ("a..b:10911", None, "bad", ["'a..b' cannot be looked up here: it cannot be a host's name", "brokerIP1"]),
        ("10911", None, "bad", ["'10911' is not HOST:PORT", "brokerIP1"]),
        ("8.8.8.8:10911", NetworkError("connection was lost"), "bad", ["answers as no broker does: connection was lost", "--useTLS"]),
        ("10.0.0.5:10911", TimedOut("no answer"), "bad", ["answers as no broker does: no answer", "a private address"]),
    ],
)
def test_each_address_has_a_verdict_and_a_remedy(address: str, found: Command | RocketpyError | None, grade: str, parts: list[str]) -> None:
    finding = of_broker(address, found)
    assert finding.grade == grade
    for part in (address, *parts):
        assert part in finding.text


def test_a_name_is_judged_by_what_it_stands_for_here(monkeypatch: pytest.MonkeyPatch) -> None:
    def look_up(host: str, *_: Any, **__: Any) -> list[Any]:
        if host == "unknown.example":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.1.1", 0))]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    finding = of_broker("broker.example:10911", OURS)
    assert finding.grade == "note" and "a loopback address" in finding.text
    finding = of_broker("unknown.example:10911", OURS)
    assert finding.grade == "bad" and "'unknown.example' cannot be looked up here: Name or service not known" in finding.text


def test_a_name_server_that_is_away_or_empty_or_knows_less_is_told() -> None:
    network = Network()
    both, one = {0: "10.0.0.5:10911", 1: "10.0.0.6:10911"}, {0: "10.0.0.5:10911"}
    network.servers |= {"10.0.0.1:9876": clusters({"broker-a": both}), "10.0.0.2:9876": clusters({"broker-a": one})}
    network.servers |= {"10.0.0.3:9876": clusters({}), "10.0.0.4:9876": answer(ResponseCode.SYSTEM_ERROR), "10.0.0.5:10911": OURS}
    network.servers |= {"10.0.0.6:10911": OURS}
    told = findings(network, names=tuple(f"10.0.0.{number}:9876" for number in (1, 2, 3, 4, 9)))
    grades = {finding.name: finding.grade for finding in told}
    texts = {finding.name: finding.text for finding in told}
    assert grades == {
        "name server 10.0.0.1:9876": "ok", "name server 10.0.0.2:9876": "note", "name server 10.0.0.3:9876": "bad",
        "name server 10.0.0.4:9876": "bad", "name server 10.0.0.9:9876": "bad", "broker broker-a 0": "ok", "broker broker-a 1": "ok",
    }  # fmt: skip
    assert "does not know broker-a 1" in texts["name server 10.0.0.2:9876"]
    assert "no broker is registered" in texts["name server 10.0.0.3:9876"]
    assert "answers as no name server does: CODE: 1" in texts["name server 10.0.0.4:9876"]
    assert "Connection refused; does it run" in texts["name server 10.0.0.9:9876"]


def test_of_many_brokers_that_a_name_server_does_not_know_a_few_are_told() -> None:
    network = Network()
    network.servers |= {"10.0.0.1:9876": clusters({f"b{number}": {0: f"10.1.0.{number}:1"} for number in range(1, 7)})}
    network.servers |= {"10.0.0.2:9876": clusters({"b1": {0: "10.1.0.1:1"}})}
    (told,) = (each.text for each in findings(network, names=("10.0.0.1:9876", "10.0.0.2:9876")) if each.name.endswith("2:9876"))
    assert "does not know b2 0, b3 0, b4 0 and 2 more, which" in told


@pytest.mark.parametrize("body", [b"", b"[]", b'{"brokerAddrTable":{"a":1}}', b'{"clusterAddrTable":{"c":1}}', b"\xff"])
def test_who_answers_as_no_name_server_is_told(body: bytes) -> None:
    network = Network()
    network.servers["10.0.0.1:9876"] = answer(body=body)
    (finding,) = findings(network)
    assert finding.grade == "bad" and ("answers as no name server does" in finding.text)


def test_many_brokers_are_asked_at_once_and_not_all_of_them() -> None:
    network = Network()
    network.servers["10.0.0.1:9876"] = clusters({f"broker-{number}": {0: f"10.1.0.{number}:1"} for number in range(200)})
    assert len(findings(network)) == 201
    assert network.most == 32


def test_of_more_brokers_than_a_bound_the_first_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_doctor, "BROKERS_MAX", 2)
    network = Network()
    network.servers["10.0.0.1:9876"] = clusters({f"broker-{number}": {0: f"10.1.0.{number}:1"} for number in range(3)})
    told = findings(network)
    assert [each.name for each in told[1:]] == ["brokers", "broker broker-0 0", "broker broker-1 0"]
    assert (told[1].grade, told[1].text) == ("note", "3 are registered, the first 2 by name are asked")


# ---- proxies ----


@asynccontextmanager
async def server(serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]) -> Any:
    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        finally:
            writer.close()

    listening = await asyncio.start_server(served, "127.0.0.1", 0)
    async with listening:
        yield f"127.0.0.1:{listening.sockets[0].getsockname()[1]}"


@pytest.mark.parametrize(
    ("said", "grade", "part"),
    [
        (bytes((0, 0, 0, 4, 0, 0, 0, 0, 0)), "ok", "speaks HTTP/2"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "bad", "not in gRPC's HTTP/2; is this its port? Clients may have to speak TLS"),
        (b"", "bad", "it ends the connection; is this its port? Clients may have to speak TLS"),
        (None, "bad", "no answer within 0.05 s"),
    ],
)
def test_a_proxy_has_to_speak_http2(said: bytes | None, grade: str, part: str) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert (await reader.readexactly(33)).startswith(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        if said is None:
            await reader.read()
        else:
            writer.write(said)

    async def test() -> None:
        async with server(serve) as address:
            finding = await ClientDoctor(Network(), LookUps(), SHORT_S if said is None else PATIENCE_S).proxy(address)
            assert (finding.name, finding.grade) == (f"proxy {address}", grade) and part in finding.text

    run(test)


class Named(LookUps):
    """A name that stands for several addresses."""

    async def addresses(self, host: str) -> list[str]:
        assert host == "proxy.example"
        return ["127.0.0.1", "127.0.0.2"]


def test_each_address_of_a_proxys_name_is_tried() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(bytes((0, 0, 0, 4, 0, 0, 0, 0, 0)))
        await reader.read()

    async def test() -> None:
        async with server(serve) as address:
            name = f"proxy.example:{address.partition(':')[2]}"
            finding = await ClientDoctor(Network(), Named(), PATIENCE_S).proxy(name)
            assert finding.grade == "note"
            assert finding.text.startswith("speaks HTTP/2, but not at 127.0.0.2: Connection refused")
        finding = await ClientDoctor(Network(), Named(), PATIENCE_S).proxy("proxy.example:1")
        assert finding.grade == "bad" and finding.text.count("Connection refused") == 2

    run(test)


def test_a_proxy_by_tls_is_told_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of several behind an address chooses its certificate, or where to, by that."""
    told: list[object] = []

    async def open_connection(*_: object, server_hostname: object, **__: object) -> None:
        told.append(server_hostname)
        raise ConnectionRefusedError

    monkeypatch.setattr(asyncio, "open_connection", open_connection)
    for tls in (None, ssl.create_default_context()):
        asyncio.run(ClientDoctor(Network(), Named(), PATIENCE_S, tls).proxy("proxy.example:1"))
    assert told == [None, None, "proxy.example", "proxy.example"]


def test_a_proxy_that_is_not_there_is_told() -> None:
    finding = findings(Network(), "127.0.0.1:1", "a..b:8081", names=())
    assert [each.grade for each in finding] == ["bad", "bad"]
    assert "refused" in finding[0].text and "cannot be looked up" in finding[1].text


# ---- the command ----


def test_the_command_asks_a_running_cluster(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as at:
            names = f"127.0.0.1:{at.namesrv.port}"
            done = await asyncio.to_thread(run_here, "doctor", "--from", "client", "-n", f"{names}; ", "--json", "--timeout", "50")
            assert (done.returncode, done.stderr) == (0, "")
            name_server, broker = json.loads(done.stdout)
            assert name_server == {"name": f"name server {names}", "grade": "ok", "text": "answers, and knows 1 broker"}
            assert broker["name"] == "broker broker-a 0" and broker["grade"] == "note" and "a loopback address" in broker["text"]
            done = await asyncio.to_thread(
                run_here, "doctor", "--from", "client", "-n", names, "--proxy", at.broker.address, "--timeout", "50"
            )
            assert done.returncode == 3 and f"bad   proxy {at.broker.address}" in done.stdout

    run(test)


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--from", "client"], "name servers are needed: -n HOST, or NAMESRV_ADDR"),
        (["--from", "client", "-n", "a:b"], "'a:b' is not HOST:PORT"),
        (["--from", "somewhere"], "neither client nor server"),
        (["-n", "127.0.0.1:1"], "needs --from client"),
        (["--proxy", "127.0.0.1:1"], "needs --from client"),
        (["--useTLS"], "needs --from client"),
        (["--timeout", "3"], "needs --from client"),
        (["--from", "client", "-n", "127.0.0.1:1", "--dir", "/"], "not with --from client"),
    ],
)
def test_a_command_line_that_cannot_be_is_refused(arguments: list[str], part: str) -> None:
    done = run_here("doctor", *arguments)
    assert done.returncode == 2 and part in " ".join(done.stderr.split())


def test_a_port_that_is_left_out_is_the_usual_one() -> None:
    done = run_here("doctor", "--from", "client", "-n", "127.0.0.1:1;a..b", "--proxy", "a..b", "--json")
    assert done.returncode == 3
    told = [finding["name"] for finding in json.loads(done.stdout)]
    assert told == ["name server 127.0.0.1:1", "name server a..b:9876", "proxy a..b:8081"]
