"""The C++ client (PyPI `rocketmq` 0.4.4) against our servers: JSON headers of an old version, its own parser for our bodies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.processes import wait_until

from .cppclient import CppClient
from .javaenv import JavaClients
from .products import Cluster

pytest.importorskip("rocketmq.client", reason="no C++ client: pip install rocketmq==0.4.4 (x86-64 Linux)")


@pytest.fixture
def cpp(cluster: Cluster, tmp_path: Path) -> Iterator[Callable[[], CppClient]]:
    made: list[CppClient] = []

    def make() -> CppClient:
        made.append(CppClient(cluster.address, tmp_path / f"cpp-{len(made)}"))
        return made[-1]

    yield make
    for client in made:
        client.close()


def numbered(count: int, word: str = "message") -> list[str]:
    return [f"{word} {number:04}" for number in range(count)]


def bodies(messages: list[dict]) -> list[str]:
    return sorted(each["body"].decode() for each in messages)


def test_it_sends_in_every_way_and_consumes_all_of_it(cpp: Callable[[], CppClient], topic: str, group: str) -> None:
    client = cpp()
    client.call("producer")
    client.call("consumer", group=group, topic=topic)
    results = client.send(topic, *numbered(20, "sync"), keys="K", tags="T", properties={"colour": "blue"})
    assert [each["status"] for each in results] == ["OK"] * 20
    assert len({each["msgId"] for each in results}) == 20
    results = client.send(topic, *numbered(20, "async"), how="async")
    assert [each["status"] for each in results] == ["OK"] * 20
    client.send(topic, *numbered(20, "oneway"), how="oneway")
    received = client.received(60)
    assert bodies(received) == sorted(numbered(20, "sync") + numbered(20, "async") + numbered(20, "oneway"))
    marked = [each for each in received if each["body"].startswith(b"sync")]
    assert {(each["keys"], each["tags"], each["colour"]) for each in marked} == {("K", "T", "blue")}
    assert {each["reconsumeTimes"] for each in received} == {0}


@pytest.mark.slow
def test_its_batch_is_kept_as_rocketmq_keeps_it(
    cpp: Callable[[], CppClient], clients: Callable[..., JavaClients], cluster: Cluster, topic: str, group: str
) -> None:
    """This version sends a batch with the code of a plain send and no batch flag, so RocketMQ stores the encoded batch as one body."""
    client = cpp()
    client.call("producer")
    (result,) = client.send(topic, "first body", "second body", how="batch")
    assert result["status"] == "OK"
    (message,) = clients(cluster).push(group, topic).received(1)
    assert b"first body" in message["body"] and b"second body" in message["body"]


def test_it_receives_only_the_tags_it_asked_for(cpp: Callable[[], CppClient], topic: str, group: str) -> None:
    client = cpp()
    client.call("producer")
    client.call("consumer", group=group, topic=topic, expression="TagA || TagC")
    for tag in ("TagA", "TagB", "TagC"):
        client.send(topic, *numbered(5, tag), tags=tag)
    assert Counter(each["tags"] for each in client.received(10)) == {"TagA": 5, "TagC": 5}


def test_an_orderly_consumer_keeps_the_order_of_a_queue(cpp: Callable[[], CppClient], topic: str, group: str) -> None:
    client = cpp()
    client.call("producer")
    client.send(topic, *numbered(20), how="orderly", queue=1)
    client.call("consumer", group=group, topic=topic, orderly=True)
    received = client.received(20)
    assert [each["body"].decode() for each in received] == numbered(20)
    assert {each["queueId"] for each in received} == {1}


def test_two_clients_share_the_queues_of_a_group(
    cpp: Callable[[], CppClient], clients: Callable[..., JavaClients], cluster: Cluster, topic: str, group: str
) -> None:
    first, second = cpp(), cpp()
    for client in (first, second):
        client.call("consumer", group=group, topic=topic)
    producer = clients(cluster).producer()
    counts = [0, 0]

    def both_receive() -> bool:
        producer.send(topic, *numbered(8, "probe"))
        now = [len(first.received(0, 0)), len(second.received(0, 0))]
        shared = all(now[each] > counts[each] for each in (0, 1))
        counts[:] = now
        return shared

    wait_until(both_receive, 40, "both C++ consumers receive", every=0.3)


def test_its_offsets_survive_a_restart(cpp: Callable[[], CppClient], cluster: Cluster, topic: str, group: str) -> None:
    first = cpp()
    first.call("producer")
    first.call("consumer", group=group, topic=topic)
    first.send(topic, *numbered(20, "first"))
    assert len(first.received(20)) == 20
    wait_until(lambda: sum(max(0, cluster.committed(group, topic, number)) for number in range(4)) == 20, 20, "the C++ consumer committed")
    first.close()
    second = cpp()
    second.call("producer")
    second.send(topic, *numbered(20, "second"))
    second.call("consumer", group=group, topic=topic)
    assert bodies(second.received(20)) == numbered(20, "second")


def test_java_and_cpp_understand_each_others_messages(
    cpp: Callable[[], CppClient], clients: Callable[..., JavaClients], cluster: Cluster, topic: str, group: str
) -> None:
    java = clients(cluster)
    client = cpp()
    client.call("producer")
    java_consumer = java.push(group + "-java", topic)
    client.call("consumer", group=group, topic=topic)
    compressed = "long " * 5000
    java.producer(compressOver=1000).send(topic, "from java", compressed)
    client.send(topic, "from c++", compressed + "c++")
    expected = sorted(["from java", "from c++", compressed, compressed + "c++"])
    assert bodies(client.received(4)) == expected
    assert bodies(java_consumer.received(4)) == expected
