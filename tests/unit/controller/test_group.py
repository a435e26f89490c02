"""Three controllers in one process: one leads, the others know who, and nothing that was answered is lost when it goes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from rocketpy._core.errors import DiskFull, RocketpyError
from rocketpy._core.remoting import Command
from rocketpy.config import load_config
from rocketpy.controller import leadership, service
from rocketpy.controller.event_scheduler import EventScheduler
from rocketpy.controller.leadership import Leadership
from rocketpy.controller.service import Controller
from rocketpy.dledger import GroupSettings
from rocketpy.remoting.client import RemotingClient
from rocketpy.remoting.codes import RequestCode, ResponseCode
from rocketpy.remoting.headers import (
    GetMetaDataResponseHeader,
    GetReplicaInfoRequestHeader,
    RegisterBrokerToControllerRequestHeader,
)
from tests.processes import PATIENCE_S, free_port

from .test_service import beat, elect, join, overrides


class Group:
    """Three members; `up` are those that run."""

    def __init__(self, home: Path, **settings: str) -> None:
        self._home = home
        self._settings = settings
        self.addresses = {f"n{number}": f"127.0.0.1:{free_port()}" for number in range(3)}
        self.up: dict[str, Controller] = {}

    async def start(self, *members: str) -> None:
        peers = ";".join(f"{member}-{address}" for member, address in self.addresses.items())
        for member in members:
            own = {"controllerDLegerPeers": peers, "controllerDLegerSelfId": member}
            settings = overrides(self._home / member, **own, **self._settings)
            self.up[member] = Controller(load_config("controller", None, settings))
            await self.up[member].start()

    async def stop(self, *members: str) -> None:
        for member in members:
            await self.up.pop(member).stop()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[RemotingClient]:
        """All three, and a client."""
        async with RemotingClient() as client:
            try:
                await self.start(*self.addresses)
                yield client
            finally:
                await self.stop(*self.up)

    async def leader(self, client: RemotingClient) -> str:
        """The member that all that run say leads."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                said = [await metadata(client, self.addresses[member]) for member in self.up]
                leaders = {each.controller_leader_id for each in said}
                if len(leaders) == 1 and (leader := leaders.pop()) in self.up:
                    assert [each.is_leader for each in said].count(True) == 1
                    assert {each.controller_leader_address for each in said} == {self.addresses[leader]}
                    return leader
                await asyncio.sleep(0.02)

    async def ask(self, client: RemotingClient, question: Callable[[str], Awaitable[Any]]) -> Any:
        """The leader's answer, asked until nobody stops to lead meanwhile: a busy machine may stand still."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                address = self.addresses[await self.leader(client)]
                with contextlib.suppress(RocketpyError):
                    answer = await question(address)
                    if getattr(answer, "code", 0) not in (ResponseCode.CONTROLLER_NOT_LEADER, ResponseCode.SYSTEM_ERROR):
                        return answer


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 - several controllers in one loop, and no event for what a test looks at
            await asyncio.sleep(0.01)


async def metadata(client: RemotingClient, address: str) -> GetMetaDataResponseHeader:
    reply = await client.call(address, RequestCode.CONTROLLER_GET_METADATA_INFO)
    return GetMetaDataResponseHeader.decode(reply.fields)


async def replica_info(client: RemotingClient, address: str) -> Command:
    return await client.invoke(address, RequestCode.CONTROLLER_GET_REPLICA_INFO, GetReplicaInfoRequestHeader(broker_name="a"))


async def register(client: RemotingClient, address: str) -> Command:
    header = RegisterBrokerToControllerRequestHeader(cluster_name="c", broker_name="a", broker_id=1, broker_address="127.0.0.1:1")
    return await client.invoke(address, RequestCode.CONTROLLER_REGISTER_BROKER, header)


def shown(info: Command) -> tuple[dict[str, str], bytes]:
    assert info.code == ResponseCode.SUCCESS, info.remark
    return dict(info.fields), bytes(info.body)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Members that notice in a second that nobody leads."""
    monkeypatch.setattr(service, "GroupSettings", partial(GroupSettings, heartbeat_interval_ms=200, heartbeats_missed_max=5))


def test_a_leader_that_goes_is_followed_by_one_that_knows_the_tables_and_all_of_them_remember(tmp_path: Path) -> None:
    async def scenario() -> None:
        group = Group(tmp_path)
        async with group.running() as client:
            first = await group.leader(client)
            await group.ask(client, lambda address: join(client, address, 1, "127.0.0.1:1"))
            await group.ask(client, lambda address: elect(client, address, 1))
            known = shown(await group.ask(client, lambda address: replica_info(client, address)))
            assert known[0]["masterEpoch"] == "1"
            for address in group.addresses.values():
                await beat(client, address, 1)
            first = await group.leader(client)
            await group.stop(first)
            assert await group.leader(client) != first
            assert shown(await group.ask(client, lambda address: replica_info(client, address))) == known
            await group.ask(client, lambda address: join(client, address, 2, "127.0.0.1:2"))
            await group.start(first)
            returned = group.up[first].tables
            await until(lambda: (found := returned.get("a")) is not None and 2 in found.replicas.by_id)
        async with group.running() as client:
            assert shown(await group.ask(client, lambda address: replica_info(client, address))) == known

    asyncio.run(scenario())


def test_a_follower_refuses_what_only_the_leader_may_answer_and_hears_heartbeats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "GroupSettings", partial(GroupSettings, heartbeats_missed_max=100))  # who follows does not come to lead

    async def scenario() -> None:
        group = Group(tmp_path)
        async with group.running() as client:
            await group.leader(client)
            for address in (controller.address for controller in group.up.values() if not controller.is_leader):
                for refused in (await elect(client, address, 1), await replica_info(client, address), await register(client, address)):
                    assert (refused.code, refused.remark) == (ResponseCode.CONTROLLER_NOT_LEADER, "The controller is not in leader state")
                heard = await beat(client, address, 1)
                assert (heard.code, dict(heard.fields)) == (ResponseCode.SUCCESS, {})

    asyncio.run(scenario())


def test_who_was_alone_is_joined_by_two_who_learn_what_it_knows(tmp_path: Path) -> None:
    async def scenario() -> None:
        group = Group(tmp_path)
        whole, group.addresses = group.addresses, {"n0": group.addresses["n0"]}
        async with group.running() as client:
            await join(client, whole["n0"], 1, "127.0.0.1:1")
            await elect(client, whole["n0"], 1)
            known = shown(await replica_info(client, whole["n0"]))
        group.addresses = whole
        try:
            async with RemotingClient() as client:
                await group.start("n0", "n1")
                assert await group.leader(client) == "n0", "the other one knows less"
                await group.start("n2")
                await until(lambda: all(controller.tables.get("a") is not None for controller in group.up.values()))
                assert shown(await group.ask(client, lambda address: replica_info(client, address))) == known
        finally:
            await group.stop(*group.up)

    asyncio.run(scenario())


def test_members_of_a_group_speak_tls_where_nothing_else_is_let_in(tmp_path: Path) -> None:
    async def scenario() -> None:
        group = Group(tmp_path, **{"tls.server.mode": "enforcing", "tls.config.file": "/dev/null"})
        async with group.running() as in_the_clear:
            await until(lambda: any(controller.is_leader for controller in group.up.values()))
            with pytest.raises(RocketpyError):
                await metadata(in_the_clear, group.addresses["n0"])

    asyncio.run(scenario())


def test_a_minority_leads_nobody(tmp_path: Path) -> None:
    async def scenario() -> None:
        group = Group(tmp_path)
        async with group.running() as client:
            leader = await group.leader(client)
            await group.stop(*(group.addresses.keys() - {leader}))
            left = group.up[leader]
            await until(lambda: not left.is_leader)
            assert not (await metadata(client, left.address)).is_leader
            assert (await elect(client, left.address, 1)).code == ResponseCode.CONTROLLER_NOT_LEADER

    asyncio.run(scenario())


class StandIn:
    """Leads when told; its log takes nothing while `is_full`."""

    group, leader_id, leader_address = "g", "n0", "h:1"
    peers: Mapping[str, str] = {"n0": "h:1"}

    def __init__(self) -> None:
        self.is_leader = True
        self.term = 1
        self.is_full = True
        self.tries = 0

    async def append(self, body: bytes) -> None:
        self.tries += 1
        if self.is_full:
            raise DiskFull("as asked")

    async def confirm(self) -> None:
        pass


def test_a_leader_begins_once_its_log_takes_an_entry_and_ends_with_its_term(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leadership, "AGAIN_AFTER_S", 0.0)
    happened: list[str] = []

    async def scenario() -> None:
        log = StandIn()
        tried = Leadership(log, EventScheduler(log), lambda: 7, lambda: happened.append("begun"), lambda: happened.append("ended"))
        tried.role_changed()
        await until(lambda: log.tries >= 3)
        assert (tried.since_ms, happened) == (None, [])
        log.is_full = False
        assert await tried.wait_begun(PATIENCE_S)
        assert (tried.since_ms, happened) == (7, ["begun"])
        log.is_leader = False
        tried.role_changed()
        assert (tried.since_ms, happened) == (None, ["begun", "ended"])
        tried.role_changed()
        assert not await tried.wait_begun(0.01)
        assert happened == ["begun", "ended"], "it has ended already"

    asyncio.run(scenario())
