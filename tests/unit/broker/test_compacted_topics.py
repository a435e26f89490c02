"""Topics with cleanup.policy=COMPACTION through a whole broker: kept over a restart, copied to a slave whose log begins late, plain without
enableCompaction."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from rocketpy.admin.reading import FoundMessage, file_messages
from rocketpy.broker.service import BrokerService
from rocketpy.remoting.codes import RequestCode, ResponseCode
from tests.processes import PATIENCE_S

from .running import Peer, Running, broker_config, eventually, run, running

SETTINGS = {
    "compactionScheduleInternal": "50",
    "compactionCqMappedFileSize": str(46 * 11),
    "compactionMappedFileSize": "4000",
    "mappedFileSizeCommitLog": "8192",
    "haListenPort": "0",
}
"""Ten messages a file."""
MESSAGES, KEYS = 60, 3


async def make_topic(at: Running) -> None:
    header = {
        "topic": "t", "defaultTopic": "TBW102", "readQueueNums": 1, "writeQueueNums": 1, "perm": 6, "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": 0, "order": False, "attributes": "+cleanup.policy=COMPACTION",
    }  # fmt: skip
    answer = await at.peer().ask(RequestCode.UPDATE_AND_CREATE_TOPIC, header)
    assert answer.code == 0, answer.remark


async def fill(peer: Peer) -> None:
    """The first message has a key of its own."""
    for number in range(MESSAGES):
        key = f"k{number % KEYS}" if number > 0 else "once"
        assert (await peer.send("t", b"%d" % number, f"KEYS\x01{key}\x02")).code == 0


async def kept(peer: Peer) -> list[int]:
    """The queue offsets that a consumer gets, which are what the bodies say."""
    offsets: list[int] = []
    at = 0
    while (answer := await peer.pull("TOOLS_CONSUMER", "t", offset=at)).code in (ResponseCode.SUCCESS, ResponseCode.PULL_RETRY_IMMEDIATELY):
        body = answer.body if answer.code == ResponseCode.SUCCESS else b""
        while body:
            size = int.from_bytes(body[:4])
            offsets.append(int.from_bytes(body[20:28]))
            body = body[size:]
        if int(answer.fields["nextBeginOffset"]) <= at:
            break
        at = int(answer.fields["nextBeginOffset"])
    return offsets


async def kept_in_the_end(peer: Peer) -> list[int]:
    deadline = asyncio.get_running_loop().time() + PATIENCE_S
    while asyncio.get_running_loop().time() < deadline:
        offsets = await kept(peer)
        if len(offsets) <= 1 + KEYS + 10 and offsets[-KEYS:] == list(range(MESSAGES - KEYS, MESSAGES)):
            return offsets
        await asyncio.sleep(0.005)
    raise AssertionError(f"still there: {offsets}")


def test_what_is_kept_is_there_after_a_restart(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, **SETTINGS) as at:
            await make_topic(at)
            peer = at.peer()
            refused = await peer.send("t", b"no key")
            assert (refused.code, refused.remark) == (ResponseCode.MESSAGE_ILLEGAL, "Required message key is missing")
            await fill(peer)
            offsets = await kept_in_the_end(peer)
            assert at.broker.parts is not None
            stats = at.broker.parts.store.compaction_stats()
            assert stats["queues"] == 1 and stats["failures"] == 0
        first = min((tmp_path / "store/compaction/compactionLog/t/0").iterdir())
        found = list(file_messages(first))  # mqadmin dumpCompactionLog
        assert found and all(isinstance(each, FoundMessage) for each in found)
        async with running(tmp_path, **SETTINGS) as at:
            assert await kept(at.peer()) == offsets

    run(test)


def test_a_slave_whose_log_begins_late_has_what_its_master_kept(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path / "master", **SETTINGS) as at:
            await make_topic(at)
            peer = at.peer()
            await fill(peer)
            offsets = await kept_in_the_end(peer)
            settings = {**SETTINGS, "brokerRole": "SLAVE", "brokerId": "1", "slaveReadEnable": "true"}
            slave = BrokerService(broker_config(tmp_path / "slave", namesrvAddr=f"127.0.0.1:{at.namesrv.port}", **settings))
            await slave.start()
            reader = Peer(slave.address)
            try:
                parts = slave.parts
                assert parts is not None
                await eventually(lambda: parts.store.max_offset("t", 0) == MESSAGES and "t" in parts.topics, "the slave follows")
                assert offsets[0] == 0 < parts.store.min_offset("t", 0), "its log begins later than what is kept"
                await eventually(lambda: not parts.store.compacted_gaps() and parts.store.compaction_stats()["behind"] == 0)
                assert {*offsets[:1], *offsets[-KEYS:]} <= set(await kept(reader)), "the last of each key; others may be gone here"
                assert parts.store.first_offset("t", 0) == 0
            finally:
                await reader.client.stop()
                await slave.stop()

    run(test)


@pytest.mark.parametrize("enable", ["true", "false"])
def test_without_compaction_such_a_topic_is_a_plain_one_whose_messages_need_keys(tmp_path: Path, enable: str) -> None:
    async def test() -> None:
        async with running(tmp_path, **{**SETTINGS, "enableCompaction": enable, "compactionScheduleInternal": "3600000"}) as at:
            await make_topic(at)
            peer = at.peer()
            assert (await peer.send("t", b"no key")).code == ResponseCode.MESSAGE_ILLEGAL
            await fill(peer)
            assert await kept(peer) == list(range(MESSAGES))
            if enable == "true":
                await eventually((tmp_path / "store/compaction").exists, "the copy")
            else:
                assert not (tmp_path / "store/compaction").exists()

    run(test)
