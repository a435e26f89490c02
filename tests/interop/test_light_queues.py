"""Light message queues (enableLmq, enableMultiDispatch): one message, in the queues of many. The same sends to RocketMQ and to ours: the
answers, the records in each queue, the positions. Stores that change hands go on, whichever product wrote them, stopped or killed."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.processes import wait_until

from . import stored, wire
from .javaenv import UTF_8, java, library
from .products import Broker, Cluster, Product

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
TOPIC, ALPHA, BETA, WIDE = "parent", "%LMQ%alpha", "%LMQ%beta", "%LMQ%größe|+#"
PULL, SEND_V2, SEARCH, MAX_OFFSET, MIN_OFFSET, QUERY_OFFSET, UPDATE_OFFSET = 11, 310, 29, 30, 31, 14, 15
GET_TOPIC_CONFIG, TOPIC_STATS, DELETE_TOPIC, END_TRANSACTION = 351, 202, 215, 37
JAVA = Path(__file__).parent / "java"
SETTINGS = {"enableLmq": True, "enableMultiDispatch": True}


def send(cluster: Cluster, lists: str | None, body: str, more: str = "", topic: str = TOPIC) -> wire.Reply:
    properties = f"KEYS\x01{body}\x02TAGS\x01T\x02UNIQ_KEY\x01{body.upper():0>32}\x02{more}"
    properties += "" if lists is None else f"INNER_MULTI_DISPATCH\x01{lists}\x02"
    fields = {
        "a": "producers", "b": topic, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1700000000000", "h": "0", "i": properties,
        "j": "0", "k": "false", "l": "0", "m": "false", "n": "broker-a",
    }  # fmt: skip
    return wire.call(cluster.broker.address, SEND_V2, fields, body.encode())


def ask(cluster: Cluster, code: int, **fields: Any) -> wire.Reply:
    return wire.call(cluster.broker.address, code, {name: str(value) for name, value in fields.items()})


def pull(cluster: Cluster, queue: str, offset: int = 0, group: str = "%LMQ%reader", suspend_ms: int = 0) -> wire.Reply:
    return ask(
        cluster, PULL, consumerGroup=group, topic=queue, queueId=0, queueOffset=offset, maxMsgNums=32, sysFlag=4 | (2 if suspend_ms else 0),
        commitOffset=0, suspendTimeoutMillis=suspend_ms, subscription="*", subVersion=0, expressionType="TAG",
    )  # fmt: skip


def end_of(cluster: Cluster, queue: str) -> int:
    return int(ask(cluster, MAX_OFFSET, topic=queue, queueId=0).fields["offset"])


def records(cluster: Cluster, queue: str) -> list[stored.Record]:
    reply = pull(cluster, queue)
    return [each.evened() for each in stored.parse(reply.body)] if reply.code == 0 else []


LISTS = (ALPHA, f"{ALPHA},{BETA}", f"{BETA},", None, "", " ", f"{WIDE},{ALPHA}")


def fill(cluster: Cluster, word: str) -> list[int]:
    return [send(cluster, lists, f"{word}{number}").code for number, lists in enumerate(LISTS)]


def what_is_said(cluster: Cluster) -> dict[str, Any]:
    """Everything a client can see, but for times and places."""
    said: dict[str, Any] = {"sends": fill(cluster, "m"), "direct": send(cluster, None, "direct", topic="%LMQ%direct").code}
    wait_until(lambda: (end_of(cluster, ALPHA), end_of(cluster, BETA)) == (3, 2), 20, "the queues have their messages")
    for queue in (ALPHA, BETA, WIDE, "%LMQ%direct", TOPIC):
        said[queue] = records(cluster, queue)
        said[queue, "bounds"] = [ask(cluster, code, topic=queue, queueId=0).fields["offset"] for code in (MIN_OFFSET, MAX_OFFSET)]
        said[queue, "times"] = [ask(cluster, SEARCH, topic=queue, queueId=0, timestamp=at).fields["offset"] for at in (0, 1 << 42)]
    said["behind"] = pull(cluster, ALPHA, 3).code, pull(cluster, ALPHA, 7).code
    said["never sent to"] = pull(cluster, "%LMQ%nobody").code, end_of(cluster, "%LMQ%nobody")
    said["update"] = ask(cluster, UPDATE_OFFSET, consumerGroup="%LMQ%reader", topic=ALPHA, queueId=0, commitOffset=2).code
    said["query"] = ask(cluster, QUERY_OFFSET, consumerGroup="%LMQ%reader", topic=ALPHA, queueId=0).fields["offset"]
    config = ask(cluster, GET_TOPIC_CONFIG, topic=ALPHA)
    said["config"] = config.code, {name: config.json()[name] for name in ("topicName", "readQueueNums", "writeQueueNums", "perm")}
    said["stats"] = ask(cluster, TOPIC_STATS, topic=ALPHA).code
    return said


def entries(cluster: Cluster, queue: str) -> bytes:
    """What its first file holds."""
    return (cluster.broker.store / "consumequeue" / queue / "0" / f"{0:020}").read_bytes()[:400]


def test_both_say_the_same_and_write_the_same(new_cluster: Callable[..., Cluster], product: Product, peer: Product) -> None:
    ours, theirs = (new_cluster(brokers=[each], **SETTINGS) for each in (product, peer))
    for cluster in (ours, theirs):
        cluster.create_topic(TOPIC, queues=1)
    said, wanted = what_is_said(ours), what_is_said(theirs)
    for what, value in wanted.items():
        assert said[what] == value, what
    for cluster in (ours, theirs):
        cluster.broker.stop()
    for queue in (ALPHA, BETA, WIDE, TOPIC):
        assert entries(ours, queue) == entries(theirs, queue), queue


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_store_changes_hands(new_cluster: Callable[..., Cluster], product: Product, peer: Product, end: str) -> None:
    cluster = new_cluster(namesrv=product, brokers=[product], **SETTINGS)
    cluster.create_topic(TOPIC, queues=1)
    for turn, owner in enumerate((peer, product, peer, product), 1):
        fill(cluster, f"turn{turn}-")
        wait_until(lambda turn=turn: (end_of(cluster, ALPHA), end_of(cluster, BETA)) == (3 * turn, 2 * turn), 20, "the queues of this turn")
        offset = ask(cluster, UPDATE_OFFSET, consumerGroup="%LMQ%reader", topic=ALPHA, queueId=0, commitOffset=turn)
        assert offset.code == 0
        before = {queue: records(cluster, queue) for queue in (ALPHA, BETA, WIDE)}
        if end == "kill":
            cluster.broker.kill()
        else:
            cluster.broker.stop()
        cluster.broker.product = owner
        cluster.broker.start(cluster.namesrv)
        wait_until(lambda before=before: {queue: records(cluster, queue) for queue in before} == before, 20, "all that was there")
        for queue, found in before.items():
            assert [_offset_in(each, queue) for each in found] == list(range(len(found)))
        if end == "stop":
            assert ask(cluster, QUERY_OFFSET, consumerGroup="%LMQ%reader", topic=ALPHA, queueId=0).fields["offset"] == str(turn)


def _offset_in(record: stored.Record, queue: str) -> int:
    names, offsets = record.pairs["INNER_MULTI_DISPATCH"].split(","), record.pairs["INNER_MULTI_QUEUE_OFFSET"].split(",")
    return int(offsets[names.index(queue)])


def test_who_waits_is_woken(new_cluster: Callable[..., Cluster], product: Product) -> None:
    cluster = new_cluster(**SETTINGS)
    cluster.create_topic(TOPIC, queues=1)
    answers: list[wire.Reply] = []
    for offset in range(2):  # before the queue is there, and behind its end
        waiting = threading.Thread(target=lambda offset=offset: answers.append(pull(cluster, BETA, offset, suspend_ms=20_000)))
        waiting.start()
        wait_until(lambda: pull(cluster, ALPHA).code != 0, 10, "the broker answers others")
        assert send(cluster, f"{ALPHA}-other,{BETA}", f"late{offset}").code == 0
        waiting.join(30)
        assert [each.code for each in answers] == [0] * (offset + 1)
        assert [each.body for each in stored.parse(answers[-1].body)] == [f"late{offset}".encode()]


def test_a_push_consumer_of_java_reads_one(new_cluster: Callable[..., Cluster], tmp_path: Path) -> None:
    cluster = new_cluster(**SETTINGS)
    cluster.create_topic(TOPIC, queues=1)
    command = [java(), f"-Duser.home={tmp_path}", "-cp", f"{library()}/*", str(JAVA / "LightQueues.java"), TOPIC, ALPHA, "5"]
    environment = {**os.environ, **UTF_8, "NAMESRV_ADDR": cluster.address}
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    received = [line.split(" ") for line in done.stdout.splitlines() if line.startswith(TOPIC)]
    assert sorted(body for _, _, body in received) == [f"body{number}" for number in range(5)], done.stdout + done.stderr
    wait_until(lambda: cluster.committed("GID-light", ALPHA, 0) == 5, 20, "the consumer's offset")


def test_a_delayed_message_comes_when_it_is_due_and_a_retry_is_in_none(new_cluster: Callable[..., Cluster], product: Product) -> None:
    cluster = new_cluster(timerWheelEnable=True, **SETTINGS)
    cluster.create_topic(TOPIC, queues=1)
    assert send(cluster, ALPHA, "level", "DELAY\x011\x02").code == 0
    assert send(cluster, BETA, "timer", "TIMER_DELAY_SEC\x012\x02").code == 0
    assert (end_of(cluster, ALPHA), end_of(cluster, BETA)) == (0, 0)
    wait_until(lambda: (end_of(cluster, ALPHA), end_of(cluster, BETA)) == (1, 1), 30, "both are due")
    for queue, body in ((ALPHA, b"level"), (BETA, b"timer")):
        (record,) = records(cluster, queue)
        assert (record.body, record.topic, _offset_in(record, queue)) == (body, TOPIC, 0)


@pytest.mark.parametrize("which", ["ours behind RocketMQ", "RocketMQ behind ours"])
def test_a_slave_has_the_same_queues(
    new_cluster: Callable[..., Cluster], product: Product, peer: Product, tmp_path: Path, which: str
) -> None:
    first, second = (peer, product) if which.startswith("ours") else (product, peer)
    cluster = new_cluster(namesrv=product, brokers=[first], **SETTINGS)
    broker = Broker(second, tmp_path / "slave", cluster.address, {"slaveReadEnable": True, **SETTINGS}, "broker-a", 1)
    cluster.brokers.append(broker)
    broker.start(cluster.namesrv)
    cluster.create_topic(TOPIC, queues=1)
    fill(cluster, "m")
    assert ask(cluster, UPDATE_OFFSET, consumerGroup="%LMQ%reader", topic=ALPHA, queueId=0, commitOffset=2).code == 0
    slave = Cluster(cluster.namesrv, [broker])
    wait_until(lambda: (end_of(slave, ALPHA), end_of(slave, BETA)) == (3, 2), 60, "the slave's queues")
    for queue in (ALPHA, BETA, WIDE):
        assert records(slave, queue) == records(cluster, queue)
    if second.name == "rocketpy":  # RocketMQ's slaves copy the offsets of other groups only
        wait_until(lambda: slave.committed("%LMQ%reader", ALPHA, 0) == 2, 60, "the slave's offsets")
