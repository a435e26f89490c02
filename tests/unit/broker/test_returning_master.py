"""A master that was away takes the offsets that consumers committed at its slave meanwhile, before anybody can ask it for them. One that
has lost its store takes nothing away from its slave."""

from __future__ import annotations

import asyncio
import logging
import shutil
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rocketpy.broker import returning_master
from rocketpy.broker.service import BrokerService
from rocketpy.broker.store_reads import READS_MAX
from rocketpy.namesrv.service import NameServer
from rocketpy.remoting.codes import RequestCode, ResponseCode
from rocketpy.remoting.command import CommandError, Response
from rocketpy.remoting.json_codec import read_json

from .running import Peer, broker_config, eventually, run, running, started

MESSAGES = 10
KEY = "UNIQ_KEY\x017F000001414AF6A2B9248A2EB4AD0009\x02"
"""A producer that sends again gives the same; without one the broker makes another each time."""


def body_of(number: int) -> bytes:
    return b"%d" % number


@dataclass
class Away:
    """A slave that is alone: its master, whose store is at home, was stopped after its group had read nothing."""

    home: Path
    namesrv: NameServer
    slave: Peer
    slave_service: BrokerService
    settings: dict[str, str]

    async def commit_at_slave(self, offset: int) -> None:
        fields = {"consumerGroup": "g", "topic": "t", "queueId": 0, "commitOffset": offset}
        assert (await self.slave.ask(RequestCode.UPDATE_CONSUMER_OFFSET, fields)).code == 0

    async def master_loses_its_log(self, messages: int, body: Callable[[int], bytes] = body_of) -> None:
        """It has taken others since, of which its group has read two."""
        shutil.rmtree(self.home / "master/store")
        async with started(self.home / "master", **{**self.settings, "namesrvAddr": ""}) as master:
            for number in range(messages):
                assert (await master.send("t", body(number), KEY)).code == 0
            await master.pull("g", "t")
            fields = {"consumerGroup": "g", "topic": "t", "queueId": 0, "commitOffset": 2}
            assert (await master.ask(RequestCode.UPDATE_CONSUMER_OFFSET, fields)).code == 0

    def master_returns(self, **settings: str) -> AbstractAsyncContextManager[Peer]:
        """Its first answers: all that is asked here was on its way before it served anybody."""
        return started(self.home / "master", **self.settings, **settings)


@asynccontextmanager
async def alone(home: Path, body: Callable[[int], bytes] = body_of, **more: str) -> AsyncIterator[Away]:
    async with running(home / "name-server-only", haListenPort="0", brokerName="another") as at:
        settings = {"namesrvAddr": f"127.0.0.1:{at.namesrv.port}", "haListenPort": "0", **more}
        master = BrokerService(broker_config(home / "master", **settings))
        await master.start()
        peer = Peer(master.address)
        for number in range(MESSAGES):
            assert (await peer.send("t", body(number), KEY)).code == 0
        await peer.pull("g", "t")
        await peer.client.stop()
        slave = BrokerService(broker_config(home / "slave", brokerRole="SLAVE", brokerId="1", slaveReadEnable="true", **settings))
        await slave.start()
        at.peers.append(Peer(slave.address))
        try:
            assert slave.parts is not None
            parts = slave.parts
            await eventually(lambda: parts.store.max_offset("t", 0) == MESSAGES and "t" in parts.topics and "g" in parts.groups)
            await master.stop()
            yield Away(home, at.namesrv, at.peers[-1], slave, settings)
        finally:
            await master.stop()
            await slave.stop()


async def committed(peer: Peer) -> str:
    answer = await peer.ask(RequestCode.QUERY_CONSUMER_OFFSET, {"consumerGroup": "g", "topic": "t", "queueId": 0})
    assert answer.code == 0, answer.remark
    return str(answer.fields["offset"])


def test_a_returning_master_goes_on_from_the_offsets_committed_at_its_slave(tmp_path: Path) -> None:
    async def test() -> None:
        async with alone(tmp_path) as away:
            await away.commit_at_slave(7)
            async with away.master_returns() as master:
                assert await committed(master) == "7"
                await master.ask(RequestCode.UPDATE_CONSUMER_OFFSET, {"consumerGroup": "g", "topic": "t", "queueId": 0, "commitOffset": 9})
            await away.commit_at_slave(8)
            async with away.master_returns() as master:
                assert await committed(master) == "9", "its own are newer"
            saved = read_json((tmp_path / "master/store/config/consumerOffset.json").read_bytes())
            assert list(saved["offsetTable"]["t@g"].values()) == [9]

    run(test)


def test_no_offset_goes_past_what_the_master_holds_and_none_comes_of_a_topic_it_does_not_have(tmp_path: Path) -> None:
    """Offsets above its end are given to messages that nobody has read yet."""

    async def test() -> None:
        async with alone(tmp_path) as away:
            await away.commit_at_slave(MESSAGES + 5)
            away.slave_service.parts.native.put_offset("g", "gone", 0, 3)  # type: ignore[union-attr]
            async with away.master_returns() as master:
                assert await committed(master) == str(MESSAGES)
                known = await master.value(RequestCode.GET_ALL_CONSUMER_OFFSET)
                assert known["offsetTable"].keys() == {"t@g"}

    run(test)


@pytest.mark.parametrize("messages", [MESSAGES - 2, MESSAGES + 2])
def test_nothing_is_taken_from_a_slave_whose_log_has_parted_from_its_masters(
    tmp_path: Path, messages: int, caplog: pytest.LogCaptureFixture
) -> None:
    """A master that has lost its end and taken other messages since: who has read the slave's has not read these."""

    async def test() -> None:
        async with alone(tmp_path) as away:
            await away.commit_at_slave(7)
            await away.master_loses_its_log(messages)
            async with away.master_returns(enableSlaveActingMaster="true", enableRemoteEscape="true") as master:
                assert await committed(master) == "2"
        assert sum("is another one than ours" in message for message in caplog.messages) == 1

    run(test)


def test_a_large_message_that_was_sent_again_does_not_make_two_logs_one(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """More of it than its end is compared: that is the same in both."""

    def body(kind: bytes) -> Callable[[int], bytes]:
        return lambda number: kind * 6000 if number < MESSAGES - 1 else b"sent again" * 600

    async def test() -> None:
        async with alone(tmp_path, body(b"o")) as away:
            await away.commit_at_slave(7)
            await away.master_loses_its_log(MESSAGES, body(b"n"))
            async with away.master_returns() as master:
                assert await committed(master) == "2"
        assert sum("is another one than ours" in message for message in caplog.messages) == 1

    run(test)


def test_nothing_is_taken_from_a_slave_whose_log_begins_behind_its_masters_end(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    more = {"mappedFileSizeCommitLog": str(1 << 20), "maxMessageSize": "300000"}

    async def test() -> None:
        async with alone(tmp_path, lambda number: b"%d" % number * 250_000, **more) as away:
            slave = away.slave_service.parts
            assert slave is not None and slave.store.stats()["commit_log_min_offset"] == 2 << 20, "a new slave begins with the last file"
            await away.commit_at_slave(7)
            await away.master_loses_its_log(4)
            async with away.master_returns() as master:
                assert await committed(master) == "2"
        assert sum("is another one than ours" in message for message in caplog.messages) == 1

    run(test)


@pytest.mark.parametrize(
    ("answer", "offset"),
    [
        (None, "0"),
        (CommandError(ResponseCode.SYSTEM_BUSY, "later"), "0"),
        (CommandError(ResponseCode.SYSTEM_ERROR, "No delay offset in this broker"), "7"),
        (b"", "7"),
        (b'{"offsetTable":{}}', "7"),
        (b"[]", "7"),
        (b'{"logTail":{}}', "0"),
        (b"{", "0"),
    ],
)
def test_from_a_slave_that_fails_to_tell_its_tail_nothing_is_taken_and_from_one_that_knows_of_none_as_far_as_the_log_goes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, answer: bytes | CommandError | None, offset: str
) -> None:
    """None: it says nothing in time. RocketMQ's know of no tail."""
    monkeypatch.setattr(returning_master, "TAIL_TIMEOUT_S", 0.5)

    async def test() -> None:
        async with alone(tmp_path) as away:
            await away.commit_at_slave(7)
            never = asyncio.Event()

            async def told(request: Any) -> Response:
                if answer is None:
                    await never.wait()
                if isinstance(answer, CommandError):
                    raise answer
                return Response(body=answer or b"")

            for service in away.slave_service._services:
                service._handlers[RequestCode.GET_ALL_DELAY_OFFSET] = told
            async with away.master_returns() as master:
                assert await committed(master) == offset
            never.set()
        assert any("is ours is not known" in message for message in caplog.messages) == (offset == "0")
        assert not any("empty its store" in message for message in caplog.messages)

    run(test)


def test_a_slave_whose_reads_are_busy_is_waited_for(tmp_path: Path) -> None:
    """Its tail comes once other reads of its store are done, later than a silent slave would be given up."""
    are_over = threading.Event()

    async def test() -> None:
        async with alone(tmp_path) as away:
            await away.commit_at_slave(7)
            reads = away.slave_service.parts.reads  # type: ignore[union-attr]
            busy = [asyncio.ensure_future(reads.run(lambda log: are_over.wait(30))) for _ in range(READS_MAX)]
            asyncio.get_running_loop().call_later(1.5 * returning_master.TIMEOUT_S, are_over.set)
            async with away.master_returns() as master:
                assert await committed(master) == "7"
            await asyncio.gather(*busy)

    run(test)


@pytest.mark.parametrize("answers", [False, True])
def test_a_slave_that_cannot_tell_its_offsets_does_not_keep_the_master_from_starting(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, answers: bool
) -> None:
    monkeypatch.setattr(returning_master, "TIMEOUT_S", 0.2)

    async def test() -> None:
        async with alone(tmp_path) as away:

            async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                if answers:
                    writer.write(b"\0\0\0\1x")
                await reader.read()
                writer.close()

            stranger = await asyncio.start_server(serve, "127.0.0.1", 0)
            address = f"127.0.0.1:{stranger.sockets[0].getsockname()[1]}"
            registration = away.slave_service.parts.registration  # type: ignore[union-attr]
            object.__setattr__(registration.identity, "address", address)
            await registration.register_all()
            async with away.master_returns() as master:
                assert await committed(master) == "0"
            stranger.close()
            assert any(address in message and "did not tell which offsets" in message for message in caplog.messages)

    run(test)


def test_the_slave_of_a_master_that_lost_its_store_still_serves_what_only_it_has(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """An empty master has no topics; copied, that would hide the messages that are left."""

    async def test() -> None:
        async with alone(tmp_path) as away:
            shutil.rmtree(tmp_path / "master/store")
            async with away.master_returns() as master:
                synchronize, parts = away.slave_service._synchronize, away.slave_service.parts
                assert synchronize is not None and parts is not None
                await parts.registration.register_all()
                await eventually(lambda: synchronize.master_address == master.address, "the slave knows the new master")
                await eventually(lambda: "before it sent anything" in parts.ha.counters()["haSlaveLastError"], "the slave is refused")
                await synchronize.run_once()
                assert "t" in parts.topics and "g" in parts.groups
                assert b"%d" % (MESSAGES - 1) in (await away.slave.pull("g", "t", offset=MESSAGES - 1)).body
                assert sum("until its commit log has proved to be ours" in message for message in caplog.messages) == 1

    with caplog.at_level(logging.INFO):
        run(test)


def test_a_master_tells_a_slave_where_its_log_is_had(tmp_path: Path) -> None:
    """With enableSlaveActingMaster a slave of RocketMQ registers only then."""

    async def test() -> None:
        async with running(tmp_path, haListenPort="0") as at:
            assert at.broker.parts is not None
            assert (await at.peer().send("t")).code == 0
            told = await at.peer().ask(RequestCode.EXCHANGE_BROKER_HA_INFO)
            expected = {"masterHaAddress": at.broker.parts.registration.identity.ha_address, "masterAddress": at.broker.address}
            assert told.code == 0 and told.fields == {**expected, "masterFlushOffset": "0"}, "where the log ended at the start"

    run(test)


def test_a_slave_follows_a_master_that_no_name_server_knows_yet(tmp_path: Path) -> None:
    """With enableSlaveActingMaster a master of RocketMQ that comes back registers after its slaves have connected."""

    async def test() -> None:
        async with running(tmp_path / "master", haListenPort="0") as at:
            assert at.broker.parts is not None
            slave = BrokerService(broker_config(tmp_path / "slave", brokerRole="SLAVE", brokerId="1"))
            await slave.start()
            at.peers.append(peer := Peer(slave.address))
            try:
                assert slave.parts is not None
                assert (await peer.ask(RequestCode.EXCHANGE_BROKER_HA_INFO)).fields == {}, "a slave is not a master"
                ha_address = f"127.0.0.1:{at.broker.parts.ha.port}"
                told = {"masterHaAddress": ha_address, "masterAddress": at.broker.address, "masterFlushOffset": 0}
                assert (await peer.ask(RequestCode.EXCHANGE_BROKER_HA_INFO, told)).code == 0
                await eventually(lambda: slave.parts.ha.connection() is not None, "the transfer")  # type: ignore[union-attr]
                assert slave._synchronize is not None and slave._synchronize.master_address == at.broker.address
            finally:
                await slave.stop()

    run(test)
