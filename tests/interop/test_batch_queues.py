"""Topics with batch queues (queue.type=BatchCQ): a batch is one record there, with as many offsets as messages. The same sends to RocketMQ
and to ours: answers, records, positions, entries. Stores that change hands go on, whichever product wrote them, stopped or killed."""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.processes import wait_until

from . import stored, wire
from .javaenv import JavaClients
from .popping import Popper
from .products import Broker, Cluster, Product
from .test_pop_java import set_mode

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
TOPIC, GROUP = "batches", "GID-batches"
UPDATE_TOPIC, PULL, SEND_V2, SEND_BATCH, SEARCH, MAX_OFFSET, MIN_OFFSET, DELETE_TOPIC = 17, 11, 310, 320, 29, 30, 31, 215
QUERY_CONSUME_QUEUE, GET_TOPIC_CONFIG = 321, 351
MESSAGE_ILLEGAL = 13


def create(cluster: Cluster, topic: str = TOPIC, kind: str = "BatchCQ", queues: int = 1) -> None:
    fields = {
        "topic": topic, "defaultTopic": "TBW102", "readQueueNums": str(queues), "writeQueueNums": str(queues), "perm": "6",
        "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false", "attributes": f"+queue.type={kind}",
    }  # fmt: skip
    assert wire.call(cluster.broker.address, UPDATE_TOPIC, fields).code == 0
    wait_until(lambda: cluster.route(topic), 20, "the topic is announced")


def encoded(*bodies: str) -> bytes:
    """The body of a batch, as clients write it."""
    messages = b""
    for body in bodies:
        properties = f"KEYS\x01{body}\x02UNIQ_KEY\x01{body.upper():0>32}\x02".encode()
        rest = struct.pack(">IIII", 0, 0, 0, len(body)) + body.encode() + struct.pack(">H", len(properties)) + properties
        messages += struct.pack(">I", len(rest) + 4) + rest
    return messages


def send(cluster: Cluster, word: str, count: int, *, properties: str = "", body: bytes | None = None, sys_flag: int = 0) -> wire.Reply:
    """A batch of so many; 0: one message."""
    fields = {
        "a": "producers", "b": TOPIC, "c": "TBW102", "d": "4", "e": "0", "f": str(sys_flag), "g": "1700000000000", "h": "0",
        "i": f"UNIQ_KEY\x01{word.upper():0>32}\x02TAGS\x01T\x02{properties}", "j": "0", "k": "false", "l": "0",
        "m": "true" if count else "false", "n": "broker-a",
    }  # fmt: skip
    body = (encoded(*(f"{word}-{number}" for number in range(count))) if count else word.encode()) if body is None else body
    return wire.call(cluster.broker.address, SEND_BATCH if count else SEND_V2, fields, body)


def ask(cluster: Cluster, code: int, **fields: Any) -> wire.Reply:
    return wire.call(cluster.broker.address, code, {name: str(value) for name, value in fields.items()})


def pull(cluster: Cluster, offset: int = 0, count: int = 32, suspend_ms: int = 0, expression: str = "*") -> wire.Reply:
    return ask(
        cluster, PULL, consumerGroup="readers", topic=TOPIC, queueId=0, queueOffset=offset, maxMsgNums=count,
        sysFlag=4 | (2 if suspend_ms else 0), commitOffset=0, suspendTimeoutMillis=suspend_ms, subscription=expression, subVersion=0,
        expressionType="TAG",
    )  # fmt: skip


def end_of(cluster: Cluster) -> int:
    return int(ask(cluster, MAX_OFFSET, topic=TOPIC, queueId=0).fields["offset"])


def evened(record: stored.Record) -> stored.Record:
    """Ours has the offset in 19 digits."""
    base = record.pairs.get("INNER_BASE", "")
    text = record.properties.replace(f"INNER_BASE\x01{base}", f"INNER_BASE\x01{int(base or 0)}")
    return replace(record, properties=text, size=record.size - len(base) + len(str(int(base or 0)))).evened()


def records(cluster: Cluster) -> list[stored.Record]:
    """All of the queue, by as many pulls as it takes."""
    found: list[stored.Record] = []
    offset, end = 0, end_of(cluster)
    while offset < end:
        reply = pull(cluster, offset)
        assert reply.code == 0, reply
        found += [evened(each) for each in stored.parse(reply.body)]
        offset = int(reply.fields["nextBeginOffset"])
    return found


def entries(cluster: Cluster, count: int) -> list[tuple[int, ...]]:
    """Tags code, first offset, messages, and what RocketMQ keeps for later."""
    data = (cluster.broker.store / "batchconsumequeue" / TOPIC / "0" / f"{0:020}").read_bytes()
    assert len(data) == 300_000 * 46
    return [struct.unpack(">8x4xq8xqhii", data[46 * number : 46 * number + 46]) for number in range(count)]


SIZES = (3, 1, 40, 7)


def what_is_said(cluster: Cluster) -> dict[str, Any]:
    """Everything a client can see, but for times and places."""
    empty = [ask(cluster, code, topic=TOPIC, queueId=queue).fields["offset"] for code in (MIN_OFFSET, MAX_OFFSET) for queue in (0, 99)]
    sends = [send(cluster, f"w{number}", size) for number, size in enumerate(SIZES)]
    said: dict[str, Any] = {
        "empty": empty,
        "sends": [
            (each.code, each.fields["queueOffset"], each.fields["batchUniqId"], each.fields["transactionId"], len(each.fields["msgId"]))
            for each in sends
        ],
    }
    wait_until(lambda: end_of(cluster) == sum(SIZES), 20, "the queue has its messages")
    said["records"] = records(cluster)
    for offset in (0, 2, 3, 20, 43, 44, 50, 51, 52):
        for count in (1, 4, 32, 60):
            reply = pull(cluster, offset, count)
            bounds = {name: reply.fields.get(name) for name in ("nextBeginOffset", "minOffset", "maxOffset")}
            said["pull", offset, count] = reply.code, bounds, [evened(each) for each in stored.parse(reply.body)]
    said["tags"] = [pull(cluster, expression=each).code for each in ("T", "other")]
    said["bounds"] = [ask(cluster, code, topic=TOPIC, queueId=0).fields["offset"] for code in (MIN_OFFSET, MAX_OFFSET)]
    said["times"] = [
        ask(cluster, SEARCH, topic=TOPIC, queueId=0, timestamp=at, boundaryType=boundary).fields["offset"]
        for at in (0, 1 << 42)
        for boundary in ("LOWER", "UPPER")
    ]
    listed = ask(cluster, QUERY_CONSUME_QUEUE, topic=TOPIC, queueId=0, index=0, count=10).json()
    said["entries"] = listed["minQueueIndex"], listed["maxQueueIndex"], len(listed["queueData"])
    return said


def test_both_say_the_same_and_write_the_same(new_cluster: Callable[..., Cluster], product: Product, peer: Product) -> None:
    ours, theirs = (new_cluster(brokers=[each]) for each in (product, peer))
    for cluster in (ours, theirs):
        create(cluster)
    said, wanted = what_is_said(ours), what_is_said(theirs)
    for what, value in wanted.items():
        assert said[what] == value, what
    for cluster in (ours, theirs):
        cluster.broker.stop()
    assert entries(ours, 5) == entries(theirs, 5)


def test_messages_one_by_one_are_read_as_they_came(new_cluster: Callable[..., Cluster], product: Product) -> None:
    """RocketMQ takes them and enters them nowhere."""
    cluster = new_cluster(brokers=[product])
    create(cluster)
    assert [send(cluster, f"m{number}", 0).fields["queueOffset"] for number in range(3)] == ["0", "1", "2"]
    assert send(cluster, "late", 0, properties="DELAY\x011\x02").code == 0
    wait_until(lambda: end_of(cluster) == 4, 30, "the delayed one is due")
    found = records(cluster)
    assert [(each.body, each.queue_offset, each.sys_flag & 0xC0) for each in found] == [
        (b"m0", 0, 0x80), (b"m1", 1, 0x80), (b"m2", 2, 0x80), (b"late", 3, 0x80),
    ]  # fmt: skip
    assert [each.body for each in Popper(cluster.broker.address, "poppers", TOPIC).pop()] == ["m0", "m1", "m2", "late"]


def test_what_no_client_could_take_apart_is_refused(new_cluster: Callable[..., Cluster], product: Product) -> None:
    cluster = new_cluster(brokers=[product])
    create(cluster)
    whole = encoded("a", "b")
    long_properties = struct.pack(">IIIII", 0, 0, 0, 0, 1) + b"x" + struct.pack(">H", 40_000) + b"k" * 40_000
    assert send(cluster, "cut", 2, body=whole[:-3]).code == 1
    assert send(cluster, "properties", 1, body=long_properties).code == MESSAGE_ILLEGAL
    assert send(cluster, "compressed", 2, body=whole, sys_flag=1).code == MESSAGE_ILLEGAL
    assert send(cluster, "many", 2, body=(struct.pack(">IIIII", 22, 0, 0, 0, 0) + b"\0\0") * 32_768).code == MESSAGE_ILLEGAL
    assert [send(cluster, "flag", count, sys_flag=flag).code for count in (0, 2) for flag in (0x80, 0xC0)] == [MESSAGE_ILLEGAL] * 4
    assert end_of(cluster) == 0
    assert send(cluster, "forged", 2, properties="INNER_NUM\x0199\x02INNER_BASE\x01700\x02").code == 0
    assert end_of(cluster) == 2


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_store_changes_hands(
    new_cluster: Callable[..., Cluster], clients: Callable[..., JavaClients], product: Product, peer: Product, end: str
) -> None:
    cluster = new_cluster(namesrv=product, brokers=[product])
    create(cluster)
    for turn, owner in enumerate((peer, product, peer, product), 1):
        for number, size in enumerate(SIZES):
            assert send(cluster, f"t{turn}{number}", size).code == 0
        wait_until(lambda turn=turn: end_of(cluster) == turn * sum(SIZES), 20, "the queue of this turn")
        before = records(cluster)
        cluster.broker.kill() if end == "kill" else cluster.broker.stop()
        cluster.broker.product = owner
        cluster.broker.start(cluster.namesrv)
        wait_until(lambda before=before: records(cluster) == before, 20, "all that was there")
    assert not (cluster.broker.store / "consumequeue" / TOPIC).exists()
    consumer = clients(cluster).push(GROUP, TOPIC)
    received = consumer.received(4 * sum(SIZES))
    assert sorted(each["queueOffset"] for each in received) == list(range(4 * sum(SIZES)))


def test_java_sends_batches_and_consumes_their_messages(new_cluster: Callable[..., Cluster], clients: Callable[..., JavaClients]) -> None:
    cluster = new_cluster()
    create(cluster, queues=2)
    java = clients(cluster)
    consumer = java.push(GROUP, TOPIC)
    producer = java.producer()
    for round_number in range(5):
        (result,) = producer.send(TOPIC, *({"body": f"{round_number}-{number}", "tags": "A"} for number in range(20)), how="batch")
        assert result["status"] == "SEND_OK" and "," not in result["msgId"]
    received = consumer.received(100)
    assert sorted(each["body"] for each in received) == sorted(f"{a}-{b}".encode() for a in range(5) for b in range(20))
    by_queue = [sorted(each["queueOffset"] for each in received if each["queueId"] == queue) for queue in range(2)]
    assert all(offsets == list(range(len(offsets))) for offsets in by_queue)
    wait_until(lambda: sum(max(0, cluster.committed(GROUP, TOPIC, queue)) for queue in range(2)) == 100, 30, "the offsets of the group")


def test_who_waits_is_woken(new_cluster: Callable[..., Cluster]) -> None:
    cluster = new_cluster()
    create(cluster)
    answers: list[wire.Reply] = []
    assert send(cluster, "first", 3).code == 0
    wait_until(lambda: end_of(cluster) == 3, 20, "the first batch")
    waiting = threading.Thread(target=lambda: answers.append(pull(cluster, 3, suspend_ms=20_000)))
    waiting.start()
    wait_until(lambda: pull(cluster, 0).code == 0, 10, "the broker answers others")
    assert send(cluster, "second", 4).code == 0
    waiting.join(30)
    assert [(each.code, each.fields["nextBeginOffset"]) for each in answers] == [(0, "7")]


@pytest.mark.parametrize("which", ["ours behind RocketMQ", "RocketMQ behind ours", "ours behind ours"])
def test_a_slave_has_the_same_queue(
    new_cluster: Callable[..., Cluster], product: Product, peer: Product, tmp_path: Path, which: str
) -> None:
    first = peer if which.endswith("RocketMQ") else product
    second = peer if which.startswith("RocketMQ") else product
    cluster = new_cluster(namesrv=product, brokers=[first])
    create(cluster)
    broker = Broker(second, tmp_path / "slave", cluster.address, {"slaveReadEnable": True}, "broker-a", 1)
    cluster.brokers.append(broker)
    broker.start(cluster.namesrv)
    slave = Cluster(cluster.namesrv, [broker])
    wait_until(lambda: ask(slave, GET_TOPIC_CONFIG, topic=TOPIC).code == 0, 60, "the slave knows the topic")
    for number, size in enumerate(SIZES):
        assert send(cluster, f"m{number}", size).code == 0
    wait_until(lambda: end_of(slave) == sum(SIZES), 60, "the slave's queue")
    assert records(slave) == records(cluster)


def test_a_topic_is_deleted_and_made_again_with_plain_queues(new_cluster: Callable[..., Cluster], product: Product) -> None:
    cluster = new_cluster(brokers=[product])
    create(cluster)
    assert send(cluster, "old", 5).code == 0
    assert ask(cluster, DELETE_TOPIC, topic=TOPIC).code == 0
    wait_until(lambda: not (cluster.broker.store / "batchconsumequeue" / TOPIC).exists(), 20, "the files are gone")
    create(cluster, kind="SimpleCQ")
    assert [send(cluster, f"new{count}", count).fields["queueOffset"] for count in (0, 3)] == ["0", "1"]
    assert end_of(cluster) == 4 and len(stored.parse(pull(cluster).body)) == 4
    for _ in range(2):
        cluster.broker.kill()
        cluster.broker.start(cluster.namesrv)
        assert end_of(cluster) == 4 and len(stored.parse(pull(cluster).body)) == 4


def test_a_message_of_a_batch_that_is_rejected_comes_again_alone(
    new_cluster: Callable[..., Cluster], clients: Callable[..., JavaClients]
) -> None:
    """The broker has no copy of one of many: told so, the client sends it itself."""
    cluster = new_cluster()
    create(cluster)
    cluster.create_group(GROUP)
    java = clients(cluster)
    consumer = java.push(GROUP, TOPIC, rejectTimes=1, nextDelayLevel=1)
    java.producer().send(TOPIC, *(f"m{number}" for number in range(3)), how="batch")
    attempts = consumer.attempts(6)
    assert sorted(each["body"] for each in attempts) == [b"m0", b"m0", b"m1", b"m1", b"m2", b"m2"]
    assert len(consumer.received(3)) == 3


def test_a_batch_is_popped_message_by_message_where_rocketmq_gives_it_whole(
    new_cluster: Callable[..., Cluster], product: Product, peer: Product
) -> None:
    given = []
    for each in (product, peer):
        cluster = new_cluster(brokers=[each])
        create(cluster)
        assert send(cluster, "m", 3).code == 0
        given.append(
            [
                (each.body, each.record.queue_offset, each.record.sys_flag)
                for each in Popper(cluster.broker.address, GROUP, TOPIC).pop_until(1)
            ]
        )
    ours, theirs = given
    assert ours == [(f"m-{number}", number, 0) for number in range(3)]
    assert theirs == [(encoded("m-0", "m-1", "m-2").decode(), 0, 0xC0)]


def test_java_pops_the_messages_of_batches(new_cluster: Callable[..., Cluster], clients: Callable[..., JavaClients]) -> None:
    cluster = new_cluster()
    create(cluster)
    java = clients(cluster)
    producer = java.producer()
    producer.send(TOPIC, *({"body": f"{number}", "keys": f"K{number}"} for number in range(40)), how="batch")
    set_mode(cluster, TOPIC, GROUP)
    consumer = java.push(GROUP, TOPIC, popInvisibleTime=60_000, rejectTimes=0)
    received = consumer.received(40)
    assert sorted(int(each["body"]) for each in received) == list(range(40))
    assert all(each["keys"] == f"K{each['body'].decode()}" for each in received)
