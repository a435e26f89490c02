"""A running controller on the native listener: brokers come, are elected, are told, go, and are remembered."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from rocketpy._core.errors import StoreLocked
from rocketpy._core.remoting import Command, Server
from rocketpy.config import ConfigError, load_config
from rocketpy.controller.service import Controller
from rocketpy.remoting.client import RemotingClient
from rocketpy.remoting.codes import RequestCode, ResponseCode
from rocketpy.remoting.command import Response
from rocketpy.remoting.headers import (
    AlterSyncStateSetRequestHeader,
    ApplyBrokerIdRequestHeader,
    BrokerHeartbeatRequestHeader,
    ElectMasterRequestHeader,
    GetReplicaInfoRequestHeader,
)
from rocketpy.remoting.service import RemotingService
from tests.processes import PATIENCE_S, free_port


def overrides(home: Path, **settings: str) -> dict[str, str]:
    return {
        "controllerDLegerGroup": "group1",
        "controllerDLegerPeers": f"n0-127.0.0.1:{free_port()}",
        "controllerDLegerSelfId": "n0",
        "controllerStorePath": str(home / "log"),
        "configStorePath": str(home / "controller.properties"),
        "bindAddress": "127.0.0.1",
        "mappedFileSize": "65536",
        **settings,
    }


@contextlib.asynccontextmanager
async def started(home: Path, **settings: str) -> AsyncIterator[Controller]:
    controller = Controller(load_config("controller", None, overrides(home, **settings)))
    try:
        await controller.start()
        yield controller
    finally:
        await controller.stop()


class StandInBroker:
    """Listens for notices of its role; refuses the first `refusals` of them."""

    def __init__(self, refusals: int = 0) -> None:
        self.notices: list[tuple[dict[str, str], dict[str, Any]]] = []
        self._refusals = refusals

    @contextlib.asynccontextmanager
    async def started(self) -> AsyncIterator[str]:
        server = Server(bind_address="127.0.0.1", port=0, reactors=1)
        service = RemotingService(server, {RequestCode.NOTIFY_BROKER_ROLE_CHANGED: self._notified})
        service.start()
        server.start()
        try:
            yield f"127.0.0.1:{server.port}"
        finally:
            await service.stop()
            server.close()

    def _notified(self, request: Any) -> Response:
        if self._refusals:
            self._refusals -= 1
            return Response(ResponseCode.SYSTEM_ERROR, "not now")
        self.notices.append((dict(request.fields), json.loads(request.body)))
        return Response()


async def join(client: RemotingClient, address: str, broker_id: int, listens_at: str) -> None:
    header = ApplyBrokerIdRequestHeader(
        cluster_name="c", broker_name="a", applied_broker_id=broker_id, register_check_code=f"{listens_at};{broker_id}"
    )
    await client.call(address, RequestCode.CONTROLLER_APPLY_BROKER_ID, header)
    await beat(client, address, broker_id)


async def beat(client: RemotingClient, address: str, broker_id: int | None, **more: Any) -> Command:
    header = BrokerHeartbeatRequestHeader(cluster_name="c", broker_name="a", broker_addr="h", broker_id=broker_id, **more)
    return await client.invoke(address, RequestCode.BROKER_HEARTBEAT, header)


async def elect(client: RemotingClient, address: str, broker_id: int, designate: bool = False) -> Command:
    header = ElectMasterRequestHeader(cluster_name="c", broker_name="a", broker_id=broker_id, designate_elect=designate)
    return await client.invoke(address, RequestCode.CONTROLLER_ELECT_MASTER, header)


async def alter(client: RemotingClient, address: str, ids: list[int], epoch: int, set_epoch: int) -> Command:
    header = AlterSyncStateSetRequestHeader(broker_name="a", master_broker_id=1, master_epoch=epoch)
    body = json.dumps({"syncStateSet": ids, "syncStateSetEpoch": set_epoch}).encode()
    return await client.invoke(address, RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET, header, body)


async def replica_info(client: RemotingClient, address: str) -> tuple[dict[str, str], dict[str, Any]]:
    reply = await client.call(address, RequestCode.CONTROLLER_GET_REPLICA_INFO, GetReplicaInfoRequestHeader(broker_name="a"))
    return dict(reply.fields), json.loads(reply.body)


async def until_master(client: RemotingClient, address: str, broker_id: int) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while (await replica_info(client, address))[0].get("masterBrokerId") != str(broker_id):
            pass


def test_a_master_whose_connection_closes_is_followed_and_everybody_is_told_until_they_answer(tmp_path: Path) -> None:
    async def scenario() -> None:
        one, two = StandInBroker(), StandInBroker(refusals=1)
        async with one.started() as first, two.started() as second, started(tmp_path) as controller:
            address = controller.address
            async with RemotingClient() as of_two, RemotingClient() as operator:
                async with RemotingClient() as of_one:
                    await join(of_one, address, 1, first)
                    await join(of_two, address, 2, second)
                    assert (await elect(of_one, address, 1)).code == ResponseCode.SUCCESS
                    assert (await alter(of_one, address, [1, 2], 1, 1)).code == ResponseCode.SUCCESS
                    assert (await alter(of_one, address, [1], 1, 1)).code == ResponseCode.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH
                    answered = await beat(of_one, address, 1)
                    assert (answered.remark, dict(answered.fields)) == (
                        "Heart beat success",
                        {"masterBrokerId": "1", "masterEpoch": "1", "syncStateSetEpoch": "2"},
                    )
                    async with asyncio.timeout(PATIENCE_S):
                        while not one.notices:
                            await replica_info(operator, address)
                await until_master(operator, address, 2)
                async with asyncio.timeout(PATIENCE_S):
                    while len(two.notices) < 1 or two.notices[-1][0]["masterEpoch"] != "2":
                        await replica_info(operator, address)
                assert two.notices[-1] == (
                    {"masterAddress": second, "masterEpoch": "2", "syncStateSetEpoch": "3", "masterBrokerId": "2"},
                    {"syncStateSet": [2], "syncStateSetEpoch": 3},
                )
                assert [each[0]["masterEpoch"] for each in one.notices] == ["1"]

    asyncio.run(scenario())


def test_who_waits_for_a_place_is_told_when_one_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While others did not answer, a place that was free again was seen when the next of them timed out."""
    monkeypatch.setattr("rocketpy.controller.service.TELLING_MAX", 1)

    async def scenario() -> None:
        one, two = StandInBroker(), StandInBroker()
        async with one.started() as first, two.started() as second, started(tmp_path) as controller, RemotingClient() as client:
            await join(client, controller.address, 1, first)
            await join(client, controller.address, 2, second)
            assert (await elect(client, controller.address, 1)).code == ResponseCode.SUCCESS
            async with asyncio.timeout(PATIENCE_S):
                while not (one.notices and two.notices):
                    await replica_info(client, controller.address)

    asyncio.run(scenario())


def test_a_master_that_falls_silent_is_found_by_the_scan(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(tmp_path, scanNotActiveBrokerInterval="10") as controller, RemotingClient() as client, RemotingClient() as other:
            address = controller.address
            await join(client, address, 1, "127.0.0.1:1")
            await join(other, address, 2, "127.0.0.1:2")
            await elect(client, address, 1)
            await alter(client, address, [1, 2], 1, 1)
            await beat(client, address, 1, heartbeat_timeout_mills=1)
            await until_master(other, address, 2)

    asyncio.run(scenario())


def test_a_controller_that_stood_still_deposes_nobody_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its look comes before the heartbeats of that time are read."""
    real_ns, passed_ms = time.monotonic_ns, 0
    monkeypatch.setattr(time, "monotonic_ns", lambda: real_ns() + passed_ms * 1_000_000)

    async def scenario() -> None:
        nonlocal passed_ms
        settings = {"scanNotActiveBrokerInterval": "10", "scanInactiveMasterInterval": "10"}
        async with started(tmp_path, **settings) as controller, RemotingClient() as client, RemotingClient() as other:
            address = controller.address
            await join(client, address, 1, "127.0.0.1:1")
            await join(other, address, 2, "127.0.0.1:2")
            await elect(client, address, 1)
            await alter(client, address, [1, 2], 1, 1)
            passed_ms += 60_000
            assert (await beat(other, address, 2)).fields["masterBrokerId"] == "1"
            async with asyncio.timeout(PATIENCE_S):
                while controller.lives.life("c", "a", 1) is not None:
                    passed_ms += 1000
                    await beat(other, address, 2)
            assert passed_ms > 60_000
            await until_master(other, address, 2)

    asyncio.run(scenario())


def test_what_was_answered_is_known_after_a_restart_and_brokers_have_their_time_to_be_heard(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(tmp_path) as controller, RemotingClient() as client:
            await join(client, controller.address, 1, "h:1")
            await elect(client, controller.address, 1)
            before = await replica_info(client, controller.address)
            with pytest.raises(StoreLocked):
                await Controller(load_config("controller", None, overrides(tmp_path))).start()
        async with started(tmp_path, scanInactiveMasterInterval="10") as controller, RemotingClient() as client:
            assert await replica_info(client, controller.address) == before
            await beat(client, controller.address, 1)
            assert await replica_info(client, controller.address) == before

    asyncio.run(scenario())


def test_hostile_requests_are_answered_and_change_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(tmp_path) as controller, RemotingClient() as client:
            address = controller.address
            assert (await beat(client, address, None)).code == ResponseCode.CONTROLLER_INVALID_REQUEST
            for name, cluster in (("a" * 1025, "c"), ("a", "c" * 1025)):
                long = BrokerHeartbeatRequestHeader(cluster_name=cluster, broker_name=name, broker_addr="h", broker_id=1)
                heard = await client.invoke(address, RequestCode.BROKER_HEARTBEAT, long)
                assert heard.code == ResponseCode.CONTROLLER_INVALID_REQUEST
            assert controller.lives.active_counts() == {}
            for code in (*range(1001, 1007), *range(1009, 1014), RequestCode.BROKER_HEARTBEAT, 904, 50001):
                for fields in ({}, {"brokerName": "a" * 5000, "brokerId": "x", "clusterName": ""}, {"brokerName": "a", "brokerId": "-1"}):
                    for body in (b"", b"\xff", b"[", b'{"syncStateSet":{}}', b"[1]"):
                        if code != RequestCode.UPDATE_CONTROLLER_CONFIG or body == b"\xff":
                            await client.invoke(address, code, fields, body)
            assert len(controller.tables) == 0
            metadata = await client.call(address, RequestCode.CONTROLLER_GET_METADATA_INFO)
            assert metadata.fields["peers"] == f"n0:{address};"

    asyncio.run(scenario())


def test_configuration_is_shown_changed_and_kept(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(tmp_path) as controller, RemotingClient() as client:
            address = controller.address
            await client.call(address, RequestCode.UPDATE_CONTROLLER_CONFIG, body=b"enableElectUncleanMaster=true")
            shown = (await client.call(address, RequestCode.GET_CONTROLLER_CONFIG)).body.decode()
            assert "enableElectUncleanMaster=true" in shown.splitlines()
            assert "enableElectUncleanMaster=true" in (tmp_path / "controller.properties").read_text().replace(" ", "")
            black = await client.invoke(address, RequestCode.UPDATE_CONTROLLER_CONFIG, body=b"configStorePath=/x")
            assert black.code == ResponseCode.NO_PERMISSION
            wrong = await client.invoke(address, RequestCode.UPDATE_CONTROLLER_CONFIG, body=b"enableElectUncleanMaster=perhaps")
            assert wrong.code == ResponseCode.INVALID_PARAMETER

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"controllerType": "jRaft"}, "jRaft is not supported"),
        ({"controllerDLegerPeers": ""}, "is needed by a controller"),
        ({"controllerDLegerSelfId": ""}, "is needed by a controller"),
        ({"controllerDLegerSelfId": "n7"}, "n7 is not one of controllerDLegerPeers"),
        ({"controllerDLegerPeers": "n0-127.0.0.1:9878;n0-127.0.0.1:9879"}, "names the member n0 twice"),
        ({"controllerDLegerPeers": "n0-127.0.0.1:9878;n1-127.0.0.1:9878"}, "names the address 127.0.0.1:9878 twice"),
        ({"controllerDLegerPeers": "n0-127.0.0.1:99999"}, "expected a port"),
    ],
)
def test_what_cannot_be_a_controller_is_refused_at_the_start(tmp_path: Path, settings: dict[str, str], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        load_config("controller", None, overrides(tmp_path, **settings))
    with pytest.raises(ConfigError, match=complaint):
        load_config("namesrv", None, overrides(tmp_path, enableControllerInNamesrv="true", **settings))


def test_the_page_and_the_handlers_agree(tmp_path: Path) -> None:
    async def scenario() -> set[int]:
        async with started(tmp_path) as controller:
            assert controller.requests is not None
            return set(controller.requests.handlers)

    page = (Path(__file__).resolve().parents[3] / "docs" / "compatibility.md").read_text(encoding="utf-8")
    section = page.split("## Controller")[1].split("\n## ")[0]
    listed = {int(code): name for code, name in re.findall(r"^\| (\d+) \| (\w+) \|", section, re.MULTILINE)}
    assert listed == {int(code): RequestCode(code).name for code in asyncio.run(scenario())}
