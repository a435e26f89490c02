"""Kinds of topics and of consumption in a DLedger group whose leaders are killed: what was acknowledged is there, at all members, in order.
What is due or popped comes once at least: positions are copied every few seconds."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.processes import wait_until
from tests.unit.broker.test_batch_queues import inner_bodies

from . import stored, wire
from .dledger_group import Group, dledger_group, knows
from .popping import Popper
from .products import Broker, Product
from .test_batch_queues import encoded

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SETTINGS: dict[str, Any] = {
    "enableLmq": True, "enableMultiDispatch": True, "compactionScheduleInternal": 200, "compactionCqMappedFileSize": 46 * 101,
    "compactionMappedFileSize": 40_000, "messageDelayLevel": "1s 2s",
}  # fmt: skip
UPDATE_TOPIC, UPDATE_GROUP, SEND_V2, SEND_BATCH, PULL = 17, 200, 310, 320, 11
RETRY_IMMEDIATELY, NOT_FOUND = 20, 19
ATTRIBUTES = {
    "batches": "+queue.type=BatchCQ", "table": "+cleanup.policy=COMPACTION", "parent": "+message.type=LITE", "timed": "", "delayed": "",
    "popped": "",
}  # fmt: skip
LITE, KEYS = "%LMQ%$parent$a", 13


def make_topics(leader: Broker) -> None:
    for topic, attributes in ATTRIBUTES.items():
        fields = {
            "topic": topic, "defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1", "perm": "6",
            "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false", "attributes": attributes,
        }  # fmt: skip
        assert wire.call(leader.address, UPDATE_TOPIC, fields).code == 0
    group = {"groupName": "readers", "attributes": {"+lite.bind.topic": "parent"}}
    assert wire.call(leader.address, UPDATE_GROUP, {}, json.dumps(group).encode()).code == 0


def properties_of(topic: str, number: int) -> str:
    own = {
        "table": f"KEYS\x01k{number % KEYS}\x02", "parent": "__LITE_TOPIC\x01a\x02", "delayed": f"DELAY\x01{1 + number % 2}\x02",
        "timed": f"TIMER_DELAY_MS\x01{300 + number % 7 * 200}\x02",
    }  # fmt: skip
    return f"UNIQ_KEY\x01{number:032}\x02{own.get(topic, '')}"


class Sender(threading.Thread):
    """To one topic, by whoever the name server calls the master."""

    def __init__(self, brokers: Group, topic: str) -> None:
        super().__init__(daemon=True)
        self._brokers, self._topic, self._over = brokers, topic, threading.Event()
        self.acked: list[str] = []

    def run(self) -> None:
        number = 0
        while not self._over.is_set():
            number += 1
            bodies = [f"{number}.{index}" for index in range(1 + number % 4)] if self._topic == "batches" else [f"{number}"]
            if self._send(number, bodies):
                self.acked += bodies
            else:
                self._over.wait(0.05)

    def _send(self, number: int, bodies: list[str]) -> bool:
        is_batch = self._topic == "batches"
        fields = {
            "a": "producers", "b": self._topic, "c": "TBW102", "d": "1", "e": "0", "f": "0", "g": "0", "h": "0",
            "i": properties_of(self._topic, number), "j": "0", "k": "false", "m": str(is_batch).lower(),
        }  # fmt: skip
        body = encoded(*bodies) if is_batch else bodies[0].encode()
        try:
            master = self._brokers.master()
            return master is not None and wire.call(master.address, SEND_BATCH if is_batch else SEND_V2, fields, body, timeout=6).code == 0
        except (OSError, AssertionError):
            return False

    def more(self, count: int = 50) -> None:
        wanted = len(self.acked) + count
        wait_until(lambda: len(self.acked) >= wanted, 90, f"{count} more of {self._topic}")

    def end(self) -> list[str]:
        self._over.set()
        self.join(30)
        return self.acked


def records(member: Broker, topic: str) -> list[stored.Record]:
    """All of the queue, with the gaps that compactions leave."""
    found: list[stored.Record] = []
    at = -1
    while True:
        fields = {
            "consumerGroup": "TOOLS_CONSUMER", "topic": topic, "queueId": "0", "queueOffset": str(max(at, 0)), "maxMsgNums": "32",
            "sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0", "subscription": "*", "subVersion": "0",
            "expressionType": "TAG",
        }  # fmt: skip
        reply = wire.call(member.address, PULL, fields)
        assert reply.code in (0, RETRY_IMMEDIATELY, NOT_FOUND), reply
        found += stored.parse(reply.body) if reply.code == 0 else []
        before, at = at, int(reply.fields["nextBeginOffset"])
        if at <= before:
            return found


def stored_bodies(member: Broker, topic: str) -> list[str]:
    if topic == "batches":
        return [body.decode() for record in records(member, topic) for body in inner_bodies(record.body)]
    return [record.body.decode() for record in records(member, LITE if topic == "parent" else topic)]


def check(member: Broker, acked: dict[str, list[str]]) -> None:
    for topic in ("batches", "parent", "popped"):
        bodies, wanted = stored_bodies(member, topic), set(acked[topic])
        assert [body for body in bodies if body in wanted] == acked[topic], topic
        assert len(set(bodies)) == len(bodies), f"{topic}: none twice"
    kept: dict[int, int] = {}
    for body in map(int, stored_bodies(member, "table")):
        assert kept.get(body % KEYS, 0) < body, "in order"
        kept[body % KEYS] = body
    assert all(kept[int(body) % KEYS] >= int(body) for body in acked["table"])


def all_send_more(senders: dict[str, Sender]) -> None:
    for sender in senders.values():
        sender.more()


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_nothing_acknowledged_is_missing_in_any_kind_of_topic_when_leaders_are_killed(product: Product, tmp_path: Path, flush: str) -> None:
    with dledger_group(product, [product] * 3, tmp_path, {**SETTINGS, "flushDiskType": flush}) as brokers:
        brokers.start()
        make_topics(brokers.await_roles())
        senders = {topic: Sender(brokers, topic) for topic in ATTRIBUTES}
        for sender in senders.values():
            sender.start()
        for _ in range(2):
            all_send_more(senders)
            killed = brokers.await_master()
            killed.kill()
            brokers.await_master(other_than=killed)
            all_send_more(senders)
            brokers.start(killed)
        acked = {topic: sender.end() for topic, sender in senders.items()}
        leader = brokers.await_roles()
        check(leader, acked)
        for member in brokers.members:
            wait_until(lambda member=member: all(knows(member, topic) for topic in ATTRIBUTES), 60, "the topics")
            wait_until(lambda member=member: records(member, "popped") == records(leader, "popped"), 60, f"{member.address} follows")
            wait_until(lambda member=member: records(member, "batches") == records(leader, "batches"), 60, f"{member.address} follows")
            check(member, acked)
        for topic in ("timed", "delayed"):
            wait_until(lambda topic=topic: set(acked[topic]) <= set(stored_bodies(leader, topic)), 90, f"{topic}: all that was due")
        popper = Popper(leader.address, "poppers", "popped")
        popped: set[str] = set()
        while not set(acked["popped"]) <= popped:
            got = popper.pop_until(1)
            popped |= {each.body for each in got}
            popper.batch_ack(got)
