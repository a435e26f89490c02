"""Static topics at two masters of either product, made and moved by either's tool: what Java's clients and raw requests see of them.

`theirs` is the judge: it shows that what is asserted of ours is what RocketMQ 5.5.0 does.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.processes import wait_until

from . import wire
from .javaenv import CURRENT, JavaClients, Jvm
from .mqadmin import MqAdmin
from .products import Cluster, Product
from .test_admin import ours

pytestmark = pytest.mark.slow

TOPIC, GROUP, QUEUES = "static", "GID-static", 4
MOCK = "__syslo__global__"
PULL, QUERY_OFFSET, UPDATE_OFFSET, SEARCH, MAX, MIN, EARLIEST, TOPIC_CONFIG, SEND = 11, 14, 15, 29, 30, 31, 32, 351, 10
NOT_LEADER = 501


@dataclass
class Stage:
    cluster: Cluster
    admin: Callable[..., str]

    def ask(self, broker: int, code: int, **fields: Any) -> wire.Reply:
        texts = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in fields.items()}
        return wire.call(self.cluster.brokers[broker].address, code, {"topic": TOPIC, "consumerGroup": GROUP, **texts})

    def offset(self, broker: int, code: int, queue_id: int, **fields: Any) -> int | tuple[int, str | None]:
        reply = self.ask(broker, code, queueId=queue_id, **fields)
        return int(reply.fields["offset"]) if reply.code == 0 else (reply.code, reply.remark)

    def pull(self, broker: int, queue_id: int, offset: int) -> tuple[int, ...]:
        reply = self.ask(
            broker, PULL, queueId=queue_id, queueOffset=offset, maxMsgNums=32, sysFlag=4, commitOffset=0, suspendTimeoutMillis=0,
            subscription="*", subVersion=1, expressionType="TAG",
        )  # fmt: skip
        names = ("nextBeginOffset", "minOffset", "maxOffset", "offsetDelta")
        return (reply.code, *(int(reply.fields[name]) for name in names)) if reply.fields.get("offsetDelta") else (reply.code,)

    def mapping(self, broker: int) -> dict[str, Any]:
        reply = self.ask(broker, TOPIC_CONFIG, lo=True)
        return reply.json()["mappingDetail"] if reply.code == 0 else {}

    def leaders(self) -> set[str]:
        return {row[-1]["bname"] for broker in (0, 1) for row in self.mapping(broker).get("hostedQueues", {}).values()}

    def move(self, to: str) -> None:
        printed = self.admin("remappingStaticTopic", "-t", TOPIC, "-b", to)
        assert printed.count("The old mapping data is written to file") == 2, printed
        assert self.leaders() == {to}


def send(java: Any, bodies: list[str]) -> list[tuple[int, int]]:
    """(queue, offset) of each message, all sent once whoever leads is known."""
    placed = []
    for body in bodies:
        sent: list[Any] = []

        def is_sent(body: str = body, sent: list[Any] = sent) -> bool:
            try:
                sent += java.send(TOPIC, body)
            except AssertionError:
                return False
            return True

        wait_until(is_sent, 60, f"{body} is sent")
        placed.append((sent[0]["queueId"], sent[0]["queueOffset"]))
    return placed


@pytest.fixture(params=["theirs", "ours", "ours to theirs", "theirs to ours"])
def stage(
    request: pytest.FixtureRequest, new_cluster: Callable[..., Cluster], product: Product, peer: Product, tmp_path: Path
) -> Iterator[Stage]:
    """The tool is the product's that the first broker is of. mqadmin has a process of its own: its consumeMessage works once in each."""
    kinds = {"theirs": [peer, peer], "ours": [product, product], "ours to theirs": [product, peer], "theirs to ours": [peer, product]}
    brokers = kinds[request.param]
    cluster = new_cluster(namesrv=brokers[0], brokers=brokers)
    if brokers[0] is product:
        yield Stage(cluster, lambda *words: ours(cluster.address, *words))
        return
    jvm = Jvm(CURRENT, tmp_path / "mqadmin", "JSON")
    try:
        yield Stage(cluster, MqAdmin(jvm, cluster.address).run)
    finally:
        jvm.close()


def counts(placed: list[tuple[int, int]], begin: int) -> dict[int, int]:
    """Messages by queue, whose offsets follow each other from `begin` on."""
    found: dict[int, int] = {}
    for queue_id, offset in placed:
        assert offset == begin + found.get(queue_id, 0), placed
        found[queue_id] = found.get(queue_id, 0) + 1
    return found


def test_its_queues_move_from_one_broker_to_the_other_and_back(stage: Stage, clients: Callable[..., JavaClients]) -> None:
    printed = stage.admin("updateStaticTopic", "-t", TOPIC, "-b", "broker-a", "-qn", str(QUEUES))
    assert "The old mapping data is written to file" in printed and "The new mapping data is written to file" in printed
    java = clients(stage.cluster)
    consumer = java.push(GROUP, TOPIC, orderly=True)
    producer = java.producer()
    wait_until(lambda: stage.cluster.route(TOPIC), 30, "the route")
    old = counts(send(producer, [f"old {number}" for number in range(20)]), 0)
    assert len(old) == QUEUES and len(consumer.received(20, 60)) == 20
    stage.move("broker-b")
    assert stage.offset(0, MAX, 1) == (NOT_LEADER, "static-1 does not exit in request process of current broker broker-a")
    assert stage.ask(0, SEND, **sending(0)).code == NOT_LEADER
    wait_until(lambda: stage.offset(1, MIN, 1) == 0, 30, "broker-b knows broker-a: RocketMQ's asks for the first time after ten seconds")
    assert stage.offset(1, MAX, 1) == 10_000
    new = counts(send(producer, [f"new {number}" for number in range(20)]), 10_000)
    assert len(new) == QUEUES and len(consumer.received(40, 60)) == 40
    end = 10_000 + new[1]
    assert [stage.pull(1, 1, offset) for offset in (0, old[1], 10_000)] == [
        (0, old[1], 0, 10_000, 0),
        (20, 10_000, 10_000, 10_000, 10_000),
        (0, end, 10_000, end, 10_000),
    ]
    wait_until(lambda: stage.offset(1, QUERY_OFFSET, 1) == end, 30, "the consumer's offset")
    assert stage.offset(1, QUERY_OFFSET, 1, lo=False) == new[1], "kept where the messages are"
    stage.move("broker-a")
    back = counts(send(producer, [f"back {number}" for number in range(12)]), 20_000)
    received = consumer.received(52, 60)
    for queue_id in range(QUEUES):
        offsets = [each["queueOffset"] for each in received if each["queueId"] == queue_id]
        pieces = (range(old[queue_id]), range(10_000, 10_000 + new[queue_id]), range(20_000, 20_000 + back.get(queue_id, 0)))
        assert offsets == [offset for piece in pieces for offset in piece], queue_id
    everything = java.push("GID-late", TOPIC).received(52, 90)
    assert sorted(each["body"] for each in everything) == sorted(each["body"] for each in received)
    status = stage.admin("topicStatus", "-t", TOPIC)
    assert MOCK in status and str(20_000 + back.get(1, 0)) in status, status
    for words in (("printMsg", "-l", TOPIC), ("consumeMessage", "-c", "1000000")):  # without -l mqadmin's ends with an exception
        printed = stage.admin(*words, "-t", TOPIC)
        places = re.findall(r"MessageExt \[brokerName=(\w+), queueId=(\d+), storeSize=\d+, queueOffset=(\d+)", printed)
        assert sorted(places) == sorted((MOCK, str(each["queueId"]), str(each["queueOffset"])) for each in received), words


def test_nothing_is_lost_while_its_queues_move_under_load(stage: Stage, clients: Callable[..., JavaClients]) -> None:
    stage.admin("updateStaticTopic", "-t", TOPIC, "-b", "broker-a", "-qn", str(QUEUES))
    java = clients(stage.cluster)
    consumer = java.push(GROUP, TOPIC)
    producer = java.producer()
    wait_until(lambda: stage.cluster.route(TOPIC), 30, "the route")
    placed: list[tuple[str, tuple[int, int]]] = []
    is_over = threading.Event()

    def load() -> None:
        while not is_over.is_set():
            body = f"number {len(placed)}"
            placed.append((body, send(producer, [body])[0]))

    with ThreadPoolExecutor(1) as pool:
        loading = pool.submit(load)
        try:
            for to in ("broker-b", "broker-a", ""):
                enough = len(placed) + 200
                wait_until(lambda enough=enough: loading.done() or len(placed) >= enough, 60, "messages before the next move")
                if to:
                    stage.move(to)
        finally:
            is_over.set()
        loading.result()
    bodies = {body.encode() for body, _ in placed}
    wait_until(lambda: bodies <= {each["body"] for each in consumer.received()}, 90, "all of them are consumed")
    told = {body.encode(): place for body, place in placed if place[1] >= 0}
    assert len(set(told.values())) == len(told) > 400
    received = {(each["body"], (each["queueId"], each["queueOffset"])) for each in consumer.received()}
    assert set(told.items()) <= received


def sending(queue_id: int) -> dict[str, Any]:
    return {
        "producerGroup": "raw", "defaultTopic": "TBW102", "defaultTopicQueueNums": 4, "queueId": queue_id, "sysFlag": 0,
        "bornTimestamp": 1, "flag": 0, "properties": "", "reconsumeTimes": 0, "unitMode": False, "batch": False,
    }  # fmt: skip
