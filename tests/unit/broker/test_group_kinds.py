"""Each kind of topic in a DLedger group: the lead goes on under load, and all members have what was acknowledged, once and in order."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from rocketpy._core.remoting import Command
from rocketpy.broker.service import BrokerService
from rocketpy.remoting.codes import RequestCode
from tests.processes import PATIENCE_S

from .replicas import Replica
from .running import Peer, eventually, run
from .test_batch_queues import batch_of, inner_bodies, send_batch
from .test_group_broker import Members, hand_over, members
from .test_lite import ON, PARENT, Lite
from .test_lite import bodies as bodies_of
from .test_lite import send as send_lite
from .test_role_features import SMALL, all_bodies, make_topics

LITE_TOPICS, KEYS = 3, 7


class Load:
    """Sends of three kinds to whoever is the master; what was acknowledged."""

    def __init__(self) -> None:
        self.peer: Peer | None = None
        self.is_over = False
        self.batches: list[bytes] = []
        self.rows: dict[int, bytes] = {}
        self.lite: dict[str, list[bytes]] = defaultdict(list)
        self.kinds: tuple[Callable[[Peer, int], Awaitable[Command]], ...] = (self._batch, self._row, self._lite)

    async def _batch(self, peer: Peer, number: int) -> Command:
        bodies = [b"%d.%d" % (number, index) for index in range(1 + number % 4)]
        answer = await send_batch(peer, batch_of(*bodies))
        self.batches += bodies if answer.code == 0 else []
        return answer

    async def _row(self, peer: Peer, number: int) -> Command:
        answer = await peer.send("table", b"%d" % number, f"KEYS\x01k{number % KEYS}\x02")
        if answer.code == 0:
            self.rows[number % KEYS] = b"%d" % number
        return answer

    async def _lite(self, peer: Peer, number: int) -> Command:
        topic = f"l{number % LITE_TOPICS}"
        answer = await send_lite(peer, topic, b"%d" % number)
        self.lite[topic] += [b"%d" % number] if answer.code == 0 else []
        return answer

    async def send(self, kind: Callable[[Peer, int], Awaitable[Command]]) -> None:
        number = 0
        while not self.is_over:
            assert self.peer is not None
            number += 1
            if (await kind(self.peer, number)).code != 0:
                await asyncio.sleep(0.01)  # nobody leads just now

    def more(self) -> Callable[[], bool]:
        """Whether each kind has got some since now."""
        counts = len(self.batches) + 50, len(self.lite["l0"]) + 10
        return lambda: len(self.batches) >= counts[0] and len(self.lite["l0"]) >= counts[1]


async def lead_on(group: Members, load: Load, leader: int) -> int:
    """The next member leads when this returns, and has taken sends."""
    following = (leader + 1) % 3
    has_more = load.more()
    while not has_more():
        if (now := await group.leader()) != following:  # once; but on a slow machine a member may not vote in time, or lose the lead again
            await hand_over(group, now, following)
        load.peer = group.peer(following)
        await asyncio.sleep(0.01)
    return following


def acknowledged(stored: list[bytes], wanted: list[bytes]) -> list[bytes]:
    """Those of what is stored that were acknowledged: one that was refused may be there as well."""
    assert len(set(stored)) == len(stored), "none twice"
    return [body for body in stored if body in set(wanted)]


async def check(replica: Replica, load: Load) -> None:
    stored = [body for record in await all_bodies(replica, "batches") for body in inner_bodies(record)]
    assert acknowledged(stored, load.batches) == load.batches
    assert replica.service.parts is not None and replica.service.parts.store.max_offset("batches", 0) == len(stored)
    for topic, sent in load.lite.items():
        assert acknowledged(await all_bodies(replica, f"%LMQ%${PARENT}${topic}"), sent) == sent
    last: dict[int, int] = {}
    for body in await all_bodies(replica, "table"):
        assert last.get(int(body) % KEYS, 0) < int(body), "in order"
        last[int(body) % KEYS] = int(body)
    assert all(last[key] >= int(body) for key, body in load.rows.items())


async def whole(member: BrokerService, leader: BrokerService) -> None:
    """Until it has the topics, which are copied apart from the log, its queues are as long as the leader's, and what is kept is copied."""
    assert member.parts is not None and leader.parts is not None
    topics, store = member.parts.topics, member.parts.store
    ends = {topic: leader.parts.store.max_offset(topic, 0) for topic in ("batches", "table", PARENT)}
    await eventually(lambda: all(topic in topics for topic in ends), "the topics")
    await eventually(lambda: {topic: store.max_offset(topic, 0) for topic in ends} == ends, "all of the log")
    await eventually(lambda: store.compaction_stats()["behind"] == 0, "what is kept")


def test_each_kind_of_topic_is_whole_at_all_members(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        for wait_s in ("CATCH_UP_S", "ELECTION_S", "PAUSE_S"):
            monkeypatch.setattr(f"rocketpy.dledger.lead_transfer.{wait_s}", PATIENCE_S / 3)
        async with members(tmp_path, monkeypatch, 3, heartbeat_ms=10_000, **ON, **SMALL) as group:
            for number in group.start_order():
                await group.start(number)
            leader, load = await group.master(), Load()
            load.peer = group.peer(leader)
            await make_topics(load.peer)
            sending = [asyncio.create_task(load.send(kind)) for kind in load.kinds]
            await eventually(load.more(), "more sends")
            for _ in range(2):
                leader = await lead_on(group, load, leader)
            load.is_over = True
            await asyncio.gather(*sending)
            for number, service in group.services.items():
                assert service.parts is not None
                await whole(service, group.services[leader])
                assert service.parts.store.compaction_stats()["dropped"] > 0
                await check(Replica(service, group.peer(number)), load)
            lite = Lite(group.peer(leader), "c")
            assert (await lite.control("COMPLETE_ADD", "l0")).code == 0
            popped = bodies_of(await lite.pop())
            assert popped[0] == load.lite["l0"][0]

    run(test)


def test_a_topic_that_is_deleted_is_made_again_as_another_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log has the old messages still, and the next start goes through them."""

    async def test() -> None:
        async with members(tmp_path, monkeypatch, 1, **ON, **SMALL) as group:
            await group.start(0)
            await group.master()
            peer = group.peer(0)
            await make_topics(peer)
            for number in range(3):
                assert (await send_batch(peer, batch_of(b"a", b"b"))).code == 0
                assert (await peer.send("table", b"%d" % number, "KEYS\x01k\x02")).code == 0
            for topic in ("batches", "table"):
                assert (await peer.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": topic})).code == 0
            await group.stop(0)
            await group.start(0)
            await group.master()
            peer = group.peer(0)
            assert (await peer.send("batches", b"plain")).fields["queueOffset"] == "0"
            assert (await peer.send("table", b"plain")).fields["queueOffset"] == "0"
            replica = Replica(group.services[0], peer)
            assert await all_bodies(replica, "batches") == await all_bodies(replica, "table") == [b"plain"]

    run(test)
