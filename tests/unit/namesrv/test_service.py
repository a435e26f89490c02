"""A running name server on the native listener: brokers come and go over real connections."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from rocketpy._core.errors import NetworkError
from rocketpy._core.remoting import Command, Request, decode_command
from rocketpy.config import load_config
from rocketpy.namesrv import service
from rocketpy.namesrv.events import Departure, MinBrokerIdNotice, Registration
from rocketpy.namesrv.service import NameServer
from rocketpy.remoting.bodies import DataVersion, RegisterBrokerBody, TopicConfig
from rocketpy.remoting.client import RemotingClient
from rocketpy.remoting.codes import RequestCode, ResponseCode
from rocketpy.remoting.headers import GetRouteInfoRequestHeader, RegisterBrokerRequestHeader, UnRegisterBrokerRequestHeader
from rocketpy.remoting.json_codec import read_json
from rocketpy.state_file import StateFile
from tests.processes import PATIENCE_S


def overrides(home: Path, **settings: str) -> dict[str, str]:
    basics = {
        "listenPort": "0",
        "bindAddress": "127.0.0.1",
        "kvConfigPath": str(home / "kv.json"),
        "configStorePath": str(home / "ns.properties"),
    }
    return {**basics, **settings}


@contextlib.asynccontextmanager
async def started(home: Path, file: Path | None = None, **settings: str) -> AsyncIterator[tuple[NameServer, str]]:
    server = NameServer(load_config("namesrv", file, overrides(home, **settings)))
    await server.start()
    try:
        yield server, f"127.0.0.1:{server.port}"
    finally:
        await server.stop()


async def register(client: RemotingClient, address: str, broker_id: int = 0, listens_at: str = "", **more: Any) -> Command:
    body = RegisterBrokerBody({name: TopicConfig(name, 4, 4) for name in ("t", "u")}, DataVersion(1, 1)).encode()
    header = RegisterBrokerRequestHeader(
        broker_name="a",
        broker_addr=listens_at or f"10.0.0.{broker_id}:10911",
        cluster_name="c",
        ha_server_addr=f"10.0.0.{broker_id}:10912",
        broker_id=broker_id,
        **more,
    )
    return await client.call(address, RequestCode.REGISTER_BROKER, header, body)


async def route(client: RemotingClient, address: str, topic: str = "t") -> dict[str, str] | None:
    """Broker id → address, None without a route."""
    response = await client.invoke(address, RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteInfoRequestHeader(topic=topic))
    if response.code == ResponseCode.TOPIC_NOT_EXIST:
        return None
    addresses: dict[str, str] = read_json(response.body)["brokerDatas"][0]["brokerAddrs"]
    return addresses


async def until_route(client: RemotingClient, address: str, expected: dict[str, str] | None) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while await route(client, address) != expected:
            pass


def test_a_broker_that_registered_is_in_the_route_until_it_unregisters(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(tmp_path) as (_, address), RemotingClient() as client:
            assert await route(client, address) is None
            await register(client, address)
            assert await route(client, address) == {"0": "10.0.0.0:10911"}
            header = UnRegisterBrokerRequestHeader(broker_name="a", broker_addr="10.0.0.0:10911", cluster_name="c", broker_id=0)
            await client.call(address, RequestCode.UNREGISTER_BROKER, header)
            await until_route(client, address, None)

    asyncio.run(scenario())


def test_a_broker_whose_connection_closes_is_gone_at_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(tmp_path) as (_, address), RemotingClient() as client:
            async with RemotingClient() as broker:
                await register(broker, address)
                assert await route(client, address) is not None
            await until_route(client, address, None)

    asyncio.run(scenario())


def test_a_silent_broker_is_gone_and_its_connection_closed(tmp_path: Path) -> None:
    async def scenario() -> None:
        settings = {"scanNotActiveBrokerInterval": "10"}
        async with started(tmp_path, **settings) as (_, address), RemotingClient() as client, RemotingClient() as broker:
            await register(broker, address, heartbeat_timeout_millis=100)
            await until_route(client, address, None)
            async with asyncio.timeout(PATIENCE_S):
                while broker.is_connected(address):
                    await route(client, address)

    asyncio.run(scenario())


def test_a_name_server_that_stood_still_takes_nobody_for_silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its look comes before the heartbeats of those minutes are read."""
    real_ns, passed_ms = time.monotonic_ns, 0
    monkeypatch.setattr(time, "monotonic_ns", lambda: real_ns() + passed_ms * 1_000_000)

    async def scenario() -> None:
        nonlocal passed_ms
        async with started(tmp_path, scanNotActiveBrokerInterval="3600000") as (server, address), RemotingClient() as client:
            await register(client, address, heartbeat_timeout_millis=10_000)
            passed_ms += 600_000
            server.scan_not_active_brokers()
            await asyncio.sleep(0)
            assert server.routes.counts()["brokers_live"] == 1
            async with asyncio.timeout(PATIENCE_S):
                while server.routes.counts()["brokers_live"]:
                    passed_ms += 1000
                    server.scan_not_active_brokers()
                    await asyncio.sleep(0)
            assert passed_ms > 600_000

    asyncio.run(scenario())


def test_brokers_are_told_of_a_new_least_id(tmp_path: Path) -> None:
    async def scenario() -> None:
        told: asyncio.Queue[dict[str, str]] = asyncio.Queue()

        async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            head = await reader.readexactly(4)
            told.put_nowait(dict(decode_command(head + await reader.readexactly(int.from_bytes(head, "big"))).fields))

        slave = await asyncio.start_server(listen, "127.0.0.1", 0)
        slave_address = f"127.0.0.1:{slave.sockets[0].getsockname()[1]}"
        async with started(tmp_path, notifyMinBrokerIdChanged="true") as (_, address), RemotingClient() as client:
            async with RemotingClient() as master:
                await register(master, address, enable_acting_master=True)
                await register(client, address, 1, slave_address, enable_acting_master=True)
            fields = await asyncio.wait_for(told.get(), PATIENCE_S)
            assert fields == {
                "minBrokerId": "1",
                "minBrokerAddr": slave_address,
                "offlineBrokerAddr": "10.0.0.0:10911",
                "brokerName": "a",
            }
        slave.close()

    asyncio.run(scenario())


def test_key_values_and_configuration_survive_a_restart(tmp_path: Path) -> None:
    file = tmp_path / "namesrv.conf"
    file.write_text("# ours\nenableTopicList = true\n")

    async def scenario() -> None:
        async with started(tmp_path, file) as (_, address), RemotingClient() as client:
            await client.call(address, RequestCode.PUT_KV_CONFIG, {"namespace": "n", "key": "k", "value": "v"})
            await client.call(address, RequestCode.UPDATE_NAMESRV_CONFIG, None, b"enableTopicList=false\nenableAllTopicList=false")
        assert file.read_text() == "# ours\nenableTopicList=false\nenableAllTopicList=false\n"
        assert file.with_name("namesrv.conf.bak").read_text() == "# ours\nenableTopicList = true\n"
        async with started(tmp_path, file) as (server, address), RemotingClient() as client:
            response = await client.call(address, RequestCode.GET_KV_CONFIG, {"namespace": "n", "key": "k"})
            assert response.fields["value"] == "v"
            assert not server.config.boolean("enableTopicList")

    asyncio.run(scenario())


def test_a_disk_that_hangs_holds_up_no_routes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Key values and the configuration are written while they wait; whoever changes them waits in line."""
    writes, disk_is_back = [], threading.Event()
    write_bytes = StateFile.write_bytes

    def write_when_back(file: StateFile, data: bytes) -> None:
        writes.append(file.path.name)
        assert disk_is_back.wait(PATIENCE_S)
        write_bytes(file, data)

    async def scenario() -> None:
        async with started(tmp_path, orderMessageEnable="true") as (server, address), RemotingClient() as client:
            await register(client, address)
            monkeypatch.setattr(StateFile, "write_bytes", write_when_back)
            order = {"namespace": "ORDER_TOPIC_CONFIG", "key": "t"}
            changes = [
                asyncio.create_task(client.call(address, RequestCode.PUT_KV_CONFIG, {**order, "value": "a:4"}, timeout_s=PATIENCE_S)),
                asyncio.create_task(client.call(address, RequestCode.PUT_KV_CONFIG, {**order, "value": "a:8"}, timeout_s=PATIENCE_S)),
                asyncio.create_task(
                    client.call(address, RequestCode.UPDATE_NAMESRV_CONFIG, None, b"enableTopicList=false", timeout_s=PATIENCE_S)
                ),
            ]
            try:
                async with asyncio.timeout(PATIENCE_S):
                    while len(writes) < 2:
                        await route(client, address)
                assert len(set(writes)) == 2, "one change of the key values at a time"
                assert server.kv_config.get("ORDER_TOPIC_CONFIG", "t") is None
            finally:
                disk_is_back.set()
            await asyncio.gather(*changes)
            response = await client.call(address, RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "t"})
            assert read_json(response.body)["orderTopicConf"] == "a:8"

    asyncio.run(scenario())


def test_switches_take_effect_while_running(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(tmp_path) as (_, address), RemotingClient() as client:
            await register(client, address, 1, enable_acting_master=True)
            assert await route(client, address) == {"1": "10.0.0.1:10911"}
            await client.call(address, RequestCode.UPDATE_NAMESRV_CONFIG, None, b"supportActingMaster=true")
            assert await route(client, address) == {"0": "10.0.0.1:10911"}

    asyncio.run(scenario())


def test_order_configurations_reach_routes_at_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(tmp_path, orderMessageEnable="true") as (_, address), RemotingClient() as client:
            await register(client, address)
            await route(client, address)
            await client.call(address, RequestCode.PUT_KV_CONFIG, {"namespace": "ORDER_TOPIC_CONFIG", "key": "t", "value": "a:4"})
            response = await client.call(address, RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "t"})
            assert read_json(response.body)["orderTopicConf"] == "a:4"

    asyncio.run(scenario())


def test_the_figures_show_tables_and_listener(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(tmp_path) as (server, address), RemotingClient() as client:
            await register(client, address)
            figures = server.stats()
            assert (figures["topics"], figures["brokers_live"], figures["connections_open"]) == (2, 1, 1)

    asyncio.run(scenario())


def test_a_taken_port_is_named_and_stopping_may_be_repeated(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(tmp_path) as (server, _):
            second = NameServer(load_config("namesrv", None, overrides(tmp_path, listenPort=str(server.port))))
            with pytest.raises(NetworkError, match=str(server.port)):
                await second.start()
            await second.stop()
            await server.stop()
            assert server.port == 0

    asyncio.run(scenario())


def test_the_queue_of_departures_is_bounded(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(tmp_path, unRegisterBrokerQueueCapacity="1") as (_, address), RemotingClient() as client:
            header = UnRegisterBrokerRequestHeader(broker_name="a", broker_addr="x:1", cluster_name="c", broker_id=0)
            answers = await asyncio.gather(*(client.invoke(address, RequestCode.UNREGISTER_BROKER, header) for _ in range(64)))
            assert {answer.code for answer in answers} <= {ResponseCode.SUCCESS, ResponseCode.SYSTEM_ERROR}
            assert any(answer.code == ResponseCode.SUCCESS for answer in answers)

    asyncio.run(scenario())


def test_brokers_that_go_together_go_a_few_a_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a network that breaks stops the name server for seconds: 500 brokers with 5,000 topics each are 2,500,000 changes."""
    monkeypatch.setattr(service, "DEPARTED_TOPICS_MAX", 4)
    body = RegisterBrokerBody({name: TopicConfig(name, 4, 4) for name in ("t", "u", "v")}, DataVersion(1, 1))

    async def scenario() -> None:
        async with started(tmp_path) as (server, _):
            for number in range(6):
                name = f"b{number}"
                server.routes.register_broker(Registration("c", f"{name}:1", name, 0, f"{name}:2", body, connection_id=number))
            left = []
            for number in range(6):
                assert server._unregister(Departure("c", f"b{number}:1", f"b{number}", 0))
            while not left or left[-1]:
                await asyncio.sleep(0)
                left.append(server.routes.counts()["broker_names"])
            assert left == [4, 2, 0]

    asyncio.run(scenario())


def registered(server: NameServer, names: int) -> list[Departure]:
    """Of brokers with two slaves each."""
    body = RegisterBrokerBody({name: TopicConfig(name, 4, 4) for name in ("t", "u", "v")}, DataVersion(1, 1))
    departures = []
    for number, broker_id in itertools.product(range(names), range(3)):
        name, address, connection = f"b{number}", f"b{number}:{broker_id}", 3 * number + broker_id
        server.routes.register_broker(
            Registration("c", address, name, broker_id, f"{name}:9", body, connection_id=connection, enable_acting_master=True)
        )
        departures.append(Departure("c", address, name, broker_id))
    return departures


@pytest.mark.parametrize("by_name", [True, False])
def test_brokers_of_one_name_that_go_together_go_in_one_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_name: bool) -> None:
    """Or the last of them is told, in vain, of each of the others."""
    monkeypatch.setattr(service, "DEPARTED_TOPICS_MAX", 7)

    async def scenario() -> None:
        async with started(tmp_path, notifyMinBrokerIdChanged="true") as (server, _):
            departures = registered(server, 4)
            for each in departures if by_name else sorted(departures, key=lambda each: each.broker_id):
                assert server._unregister(each)
            notices: list[MinBrokerIdNotice] = []
            monkeypatch.setattr(server, "_notify", notices.extend)
            turns = 0
            while server.routes.counts()["broker_names"]:
                turns += 1
                await asyncio.sleep(0)
            assert (turns, notices) == (2, [])

    asyncio.run(scenario())


def test_no_broker_stays_whose_connection_closed_while_many_leave(tmp_path: Path) -> None:
    """The queue was full, and they stayed until their silence of two minutes was noticed; so did silent ones until the next look."""

    async def scenario() -> None:
        async with started(tmp_path, unRegisterBrokerQueueCapacity="2") as (server, _):
            departures = registered(server, 3)
            assert [server._unregister(each) for each in departures[:3]] == [True, True, False]
            for connection_id in range(2, 9):
                for _ in range(2):
                    server._connection_closed(Mock(spec=Request, connection_id=connection_id))
            assert len(server._departures) == 9, "each once"
            for _ in range(3):
                await asyncio.sleep(0)
            assert server.routes.counts()["brokers_live"] == 0

    asyncio.run(scenario())
