"""Brokers of a DLedger group in this process: who is the master, what is served, and what is left when a member goes or its disk fails."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rocketpy._core.errors import InvalidArgument, StoreIOError
from rocketpy.broker import grouped, ledger_options
from rocketpy.broker.ledger_options import member_settings
from rocketpy.broker.service import BrokerService
from rocketpy.config import Config, load_config
from rocketpy.dledger.bodies import LeadershipTransferRequest, Message
from rocketpy.dledger.codes import DLedgerRequestCode, DLedgerResponseCode
from rocketpy.dledger.log_node import committed_index
from rocketpy.dledger.settings import GroupSettings, parse_peers
from rocketpy.dledger.term_file import TermFile
from rocketpy.namesrv.service import NameServer
from rocketpy.remoting.client import RemotingClient
from rocketpy.remoting.codes import RequestCode, ResponseCode
from tests.processes import PATIENCE_S, free_port

from .running import Peer, TooLate, broker_config, eventually, run, run_in_time

TOPIC, GROUP = "t", "g"
TOPIC_FIELDS = {
    "topic": TOPIC, "defaultTopic": "TBW102", "readQueueNums": 2, "writeQueueNums": 2, "perm": 6, "topicFilterType": "SINGLE_TAG",
    "topicSysFlag": 0, "order": False,
}  # fmt: skip


class Members:
    """Of broker-a; all as the group's settings have it, but less patient."""

    def __init__(self, home: Path, namesrv: NameServer, count: int, settings: dict[str, str]) -> None:
        self.namesrv = namesrv
        self.peers = ";".join(f"n{number}-127.0.0.1:{free_port()}" for number in range(count))
        self._homes = [home / f"n{number}" for number in range(count)]
        self._settings = {
            "enableDLegerCommitLog": "true", "dLegerGroup": "group", "dLegerPeers": self.peers, "slaveReadEnable": "true",
            "namesrvAddr": f"127.0.0.1:{namesrv.port}", **settings,
        }  # fmt: skip
        self.services: dict[int, BrokerService] = {}
        self._peers: list[Peer] = []

    def start_order(self) -> range:
        return range(len(self._homes))

    async def start(self, number: int) -> BrokerService:
        service = BrokerService(self.config(number, self._homes[number]))
        self.services[number] = service
        await service.start()
        return service

    def config(self, number: int, home: Path, **settings: str) -> Config:
        return broker_config(home, **{**self._settings, "dLegerSelfId": f"n{number}", **settings})

    async def stop(self, number: int) -> None:
        await self.services.pop(number).stop()

    async def close(self) -> None:
        for peer in self._peers:
            await peer.client.stop()
        for number in list(self.services):
            await self.stop(number)

    def peer(self, number: int) -> Peer:
        self._peers.append(Peer(self.services[number].address))
        return self._peers[-1]

    def facts(self, number: int) -> dict[str, str]:
        return self.services[number].runtime_table()

    async def leader(self) -> int:
        """Of the log; the role comes behind it."""

        def leaders() -> list[int]:
            return [number for number in self.services if self.facts(number)["dLedgerRole"] == "LEADER"]

        await eventually(lambda: len(leaders()) == 1, "one that leads")
        return leaders()[0]

    def known(self) -> dict[int, str]:
        """Whom the name server knows by which id."""
        data = self.namesrv.routes.cluster_info()["brokerAddrTable"].get("broker-a", {})
        return {int(broker_id): address for broker_id, address in data.get("brokerAddrs", {}).items()}

    def _expected(self) -> dict[int, str]:
        masters = [number for number in self.services if self.facts(number)["brokerRole"] == "SYNC_MASTER"]
        return {0 if number in masters else number + 1: service.address for number, service in self.services.items() if len(masters) == 1}

    async def master(self) -> int:
        """Once all that run are known by what they are."""
        await eventually(lambda: self._expected() and self._expected().items() <= self.known().items(), "a master and its slaves")
        return next(number for number, service in self.services.items() if service.address == self.known()[0])

    @contextmanager
    def led_by(self, leader: int) -> Iterator[None]:
        """Raises TooLate where it did not lead all the time: what failed may have failed for that."""
        term = self.facts(leader)["dLedgerTerm"]
        try:
            yield
        finally:
            facts = self.facts(leader)
            if (facts["dLedgerRole"], facts["dLedgerTerm"]) != ("LEADER", term):
                raise TooLate

    async def follow(self, count: int) -> None:
        """Until every queue has so many messages, and its topic."""

        def have() -> bool:
            parts = [service.parts for service in self.services.values()]
            return all(each is not None and TOPIC in each.topics and each.store.max_offset(TOPIC, 0) == count for each in parts)

        await eventually(have, f"{count} messages at all members")


@asynccontextmanager
async def members(
    home: Path, monkeypatch: pytest.MonkeyPatch, count: int, *, heartbeat_ms: int = 300, **settings: str
) -> AsyncIterator[Members]:
    """heartbeat_ms: three of them missed end a lead. Short where one has to be missed, long where a slow machine must not end it."""

    def less_patient(config: Any) -> GroupSettings:
        given = ledger_options.member_settings(config)
        return replace(given, heartbeat_interval_ms=heartbeat_ms, vote_interval_min_ms=50, vote_interval_max_ms=300)

    monkeypatch.setattr(grouped, "member_settings", less_patient)
    monkeypatch.setattr(grouped, "START_WAIT_S", 0.05)
    monkeypatch.setattr("rocketpy.broker.housekeeping.SLAVE_SYNCHRONIZE_S", 0.1)
    given = {"listenPort": "0", "bindAddress": "127.0.0.1", "kvConfigPath": str(home / "kv.json")}
    namesrv = NameServer(load_config("namesrv", None, given))
    await namesrv.start()
    group = Members(home, namesrv, count, settings)
    try:
        yield group
    finally:
        await group.close()
        await namesrv.stop()


def test_the_leader_is_the_master_and_when_it_goes_another_one_has_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(home: Path, factor: int) -> None:
        async with members(home, monkeypatch, 3, heartbeat_ms=300 * factor) as group:
            for number in group.start_order():
                await group.start(number)
            first = await group.master()
            peer, bodies = group.peer(first), [b"one", b"two"]
            with group.led_by(first):
                made = await peer.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, TOPIC_FIELDS)
                assert made.code == 0, f"a follower has it: {made.remark}"
                for body in bodies:
                    assert (await peer.send(TOPIC, body)).code == 0, "a majority has it"
                slave = next(number for number in group.services if number != first)
                refused = await group.peer(slave).send(TOPIC)
                assert refused.code == ResponseCode.SYSTEM_BUSY, "as of a slave of RocketMQ"
                await group.follow(2)
                assert group.facts(slave)["dLedgerLeader"] == f"n{first}" and group.facts(first)["dLedgerRole"] == "LEADER"
                status = await peer.value(RequestCode.GET_BROKER_HA_STATUS)
                assert status["master"] and len(status["haConnectionInfo"]) == 2

            await group.stop(first)
            second = await group.master()
            assert second != first
            bodies.append(b"three")
            with group.led_by(second):
                assert (await group.peer(second).send(TOPIC, bodies[-1])).code == 0
                await group.start(first)
                assert await group.master() == second
                await group.follow(3)
                answer = await group.peer(first).pull(GROUP, TOPIC)
                assert all(body in answer.body for body in bodies)

    run_in_time(test, tmp_path)


def test_who_is_alone_keeps_its_messages_and_stands_by_its_term(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        async with members(tmp_path, monkeypatch, 1, flushDiskType="SYNC_FLUSH") as group:
            await group.start(0)
            await group.master()
            assert (await group.peer(0).send(TOPIC, b"kept")).code == 0
            assert int(group.facts(0)["earliestMessageTimeStamp"]) > 0
            term = int(group.facts(0)["dLedgerTerm"])
            await group.stop(0)
            await group.start(0)
            await group.master()
            assert int(group.facts(0)["dLedgerTerm"]) > term
            assert b"kept" in (await group.peer(0).pull(GROUP, TOPIC)).body
            assert (await group.peer(0).send(TOPIC, b"more")).code == 0

            await group.stop(0)
            checkpoint = tmp_path / "n0" / "store" / "dledger-n0" / "checkpoint"
            checkpoint.write_text("endIndex=900\ncommittedIndex=900\n")
            await group.start(0)
            assert "entries that were committed are not in the log of n0 any more" in caplog.text
            await group.stop(0)
            for text in ("", "committedIndex=-5", "committedIndex=99999999999999999999", "committedIndex=\x00\xff", "="):
                checkpoint.write_text(text)
                assert (
                    committed_index(
                        member_settings(
                            broker_config(tmp_path / "n0", dLegerSelfId="n0", dLegerGroup="group", dLegerPeers="n0-127.0.0.1:1")
                        )
                    )
                    == -1
                )
            service = BrokerService(broker_config(tmp_path / "n0", dLegerSelfId="n0"))
            with pytest.raises(StoreIOError, match="the log of a DLedger group"):
                await service.start()
            log_before = tmp_path / "n0" / "store" / "commitlog"
            log_before.mkdir()
            (log_before / f"{0:020d}").write_bytes(b"messages")
            with pytest.raises(StoreIOError, match="holds messages of before enableDLegerCommitLog"):
                await group.start(0)

    run(test)


@pytest.mark.parametrize("count", [1, 2])
def test_a_log_that_is_gone_is_filled_by_others_or_not_begun_anew(count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody has the messages of one that is alone: new ones took the offsets of those that had been read."""
    entry = struct.pack(">qiq", 0, 100, 0)
    queue = tmp_path / "n0" / "store" / "consumequeue" / TOPIC / "0" / f"{0:020d}"
    queue.parent.mkdir(parents=True)
    queue.write_bytes(entry)

    async def test() -> None:
        async with members(tmp_path, monkeypatch, count) as group:
            refusal = rf"storePathRootDir={tmp_path}/n0/store: dledger-n0/data holds no messages .*\(storePathDLedgerCommitLog\)"
            with pytest.raises(StoreIOError, match=refusal) if count == 1 else nullcontext():
                await group.start(0)
            assert (queue.exists() and queue.read_bytes() == entry) == (count == 1)

    run(test)


def test_a_term_that_cannot_be_written_takes_the_member_out_until_it_can(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        monkeypatch.setattr("rocketpy.dledger.log_node.HEAL_MS", 50)

        def fails(self: TermFile, term: int, vote: str | None) -> None:
            raise StoreIOError("no term can be written")

        async with members(tmp_path, monkeypatch, 1) as group:
            with monkeypatch.context() as broken:
                broken.setattr(TermFile, "write", fails)
                await group.start(0)
                await eventually(lambda: "no term can be written" in group.facts(0)["dLedgerFault"], "the fault")
                assert (await group.peer(0).send(TOPIC)).code != 0
                assert group.known() == {}
            await group.master()
            assert group.facts(0)["dLedgerFault"] == ""
            assert (await group.peer(0).send(TOPIC)).code == 0

    run(test)


@pytest.mark.slow
def test_delayed_messages_go_on_at_the_next_leader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(home: Path, factor: int) -> None:
        async with members(home, monkeypatch, 3, heartbeat_ms=300 * factor, messageDelayLevel="1s 5s") as group:
            for number in group.start_order():
                await group.start(number)
            first = await group.master()
            peer = group.peer(first)
            with group.led_by(first):
                assert (await peer.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, TOPIC_FIELDS)).code == 0
                assert (await peer.send(TOPIC, b"delivered here", properties="DELAY\x011\x02")).code == 0
                await group.follow(1)
                assert (await peer.send(TOPIC, b"delivered there", properties="DELAY\x012\x02")).code == 0
                positions = group.services[first].parts.delay_offsets.offsets()  # type: ignore[union-attr]
                await eventually(
                    lambda: all(
                        each.parts is not None and each.parts.delay_offsets.offsets() == positions for each in group.services.values()
                    ),
                    "the copied positions",
                )
            await group.stop(first)
            second = await group.master()
            await group.follow(2)
            answer = await group.peer(second).pull(GROUP, TOPIC)
            assert answer.body.count(b"delivered here") == answer.body.count(b"delivered there") == 1

    run_in_time(test, tmp_path)


def test_two_processes_of_one_id_do_not_vote_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a configuration makes them that was copied to another machine, here to another address of this one."""

    async def test() -> None:
        async with members(tmp_path, monkeypatch, 3) as group:
            for number in group.start_order():
                await group.start(number)
            await group.master()
            copied = BrokerService(group.config(0, tmp_path / "copied", bindAddress="127.0.0.2", brokerIP1="127.0.0.2"))
            with pytest.raises(InvalidArgument, match="two of one dLegerSelfId would vote twice"):
                await copied.start()
            peers = group.peers.replace(group.peers.partition(";")[0], f"n0-127.0.0.1:{free_port()}")
            moved = BrokerService(group.config(0, tmp_path / "moved", dLegerPeers=peers))
            await moved.start()
            try:
                await eventually(lambda: "vote twice" in moved.runtime_table()["dLedgerFault"], "the other n0, of which n1 and n2 tell")
                assert moved.runtime_table()["brokerRole"] == "SLAVE"
            finally:
                await moved.stop()
            await group.leader()

    run(test)


async def hand_over(those: Members, leader: int, to: int, **members: Any) -> int:
    """As DLedger's leadershipTransfer asks the leader for it; the answer's code."""
    addresses = parse_peers(those.peers)
    own, term = f"n{leader}", int(those.facts(leader)["dLedgerTerm"])
    request = LeadershipTransferRequest(group="group", remote_id=own, term=term, transfer_id=own, transferee_id=f"n{to}")
    for name, value in members.items():
        setattr(request, name, value)
    async with RemotingClient() as client:
        address = addresses[own]
        answer = await client.invoke(address, DLedgerRequestCode.LEADERSHIP_TRANSFER, None, request.encode(), timeout_s=PATIENCE_S)
    return Message.decode(answer.body).code


def test_a_leader_hands_its_lead_over_and_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with members(tmp_path, monkeypatch, 3, heartbeat_ms=10_000) as group:
            for number in group.start_order():
                await group.start(number)
            first = await group.master()
            second = (first + 1) % 3
            peer, acknowledged = group.peer(first), []
            assert (await peer.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, TOPIC_FIELDS)).code == 0

            async def send_on() -> None:
                for number in range(10_000):
                    body = f"{number}".encode()
                    if (await peer.send(TOPIC, body)).code != 0:
                        return
                    acknowledged.append(body)

            await peer.send(TOPIC, b"first")
            sending = asyncio.create_task(send_on())
            await eventually(lambda: len(acknowledged) > 20, "sends")
            for wait_s in ("CATCH_UP_S", "ELECTION_S", "PAUSE_S"):
                monkeypatch.setattr(f"rocketpy.dledger.lead_transfer.{wait_s}", PATIENCE_S / 3)
            while (leader := await group.leader()) != second:  # once; but that a slow machine may not vote in time
                await hand_over(group, leader, second)
            await sending
            await eventually(lambda: group.facts(second)["brokerRole"] == "SYNC_MASTER", "the role that comes behind the lead")
            assert await group.master() == second
            assert (await group.peer(second).send(TOPIC, b"after")).code == 0
            ends = {number: service.parts.store for number, service in group.services.items() if service.parts is not None}
            wanted = len(acknowledged) + 2  # one more where the last one was refused when it was stored already
            await eventually(lambda: all(store.max_offset(TOPIC, 0) >= wanted for store in ends.values()), "all of them at all members")

            for code, asked in (
                (DLedgerResponseCode.NOT_LEADER, {"remote_id": f"n{first}", "transfer_id": f"n{first}"}),
                (DLedgerResponseCode.UNKNOWN_MEMBER, {"transferee_id": "n7"}),
                (DLedgerResponseCode.INCONSISTENT_TERM, {"term": 99}),
                (DLedgerResponseCode.UNKNOWN_GROUP, {"group": "other"}),
                (DLedgerResponseCode.UNEXPECTED_ARGUMENT, {"transfer_id": "n7"}),
            ):
                leader = first if code == DLedgerResponseCode.NOT_LEADER else second
                assert await hand_over(group, leader, 3 - first - second, **asked) == code
            assert await group.master() == second and (await group.peer(second).send(TOPIC, b"still")).code == 0

    run(test)


def test_the_lead_goes_to_a_member_that_shall_have_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        monkeypatch.setattr("rocketpy.dledger.lead_transfer.OFFER_MS", 20)
        monkeypatch.setattr("rocketpy.dledger.lead_transfer.RETRY_MS", 20)
        async with members(tmp_path, monkeypatch, 3, heartbeat_ms=10_000, preferredLeaderId="n7;n2") as group:
            await group.start(0)
            await group.start(1)
            first = await group.master()
            assert (await group.peer(first).send(TOPIC)).code == 0
            await group.start(2)
            await eventually(lambda: group.facts(2)["brokerRole"] == "SYNC_MASTER", "n2 leads")
            assert await group.master() == 2
            await group.follow(1)

    run(test)
