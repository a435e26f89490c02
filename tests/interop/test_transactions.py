"""Transactional messages of Java producers: seen when they are committed, never when they are rolled back, and asked about."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from tests.processes import wait_until

from . import wire
from .javaenv import JavaClients, PushConsumer
from .products import Cluster, Product, running_cluster
from .stored import Record, records

pytestmark = pytest.mark.timeout(300)

GIVEN_UP, RESUME = "TRANS_CHECK_MAX_TIME_TOPIC", 323


@pytest.fixture(scope="module")
def cluster(product: Product, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """As that of the other tests, but for producers that are asked after a second, three times."""
    settings = {"transactionCheckInterval": 1000, "transactionTimeOut": 1000, "transactionCheckMax": 3}
    with running_cluster(product, tmp_path_factory.mktemp("transactions"), settings) as cluster:
        yield cluster


def bodies(consumer: PushConsumer, count: int) -> list[str]:
    return sorted(each["body"].decode() for each in consumer.received(count))


def test_what_is_committed_is_received_and_what_is_rolled_back_never_is(java: JavaClients, topic: str, group: str) -> None:
    """Though it was sent before."""
    consumer = java.push(group, topic)
    producer = java.transaction(f"P-{group}")
    sent = [f"{word} {number}" for number in range(10) for word in ("ROLLBACK", "COMMIT")]
    results = producer.send(topic, *({"body": body, "tags": "T", "keys": f"K{body}"} for body in sent))
    assert {each["status"] for each in results} == {"SEND_OK"}
    java.producer().send(topic, "plain")
    wanted = sorted([*(body for body in sent if body.startswith("COMMIT")), "plain"])
    assert bodies(consumer, len(wanted)) == wanted
    received = {each["body"].decode(): each for each in consumer.received()}
    by_body = dict(zip(sent, results, strict=True))
    for body in wanted[:-1]:
        message = received[body]
        assert (message["topic"], message["tags"], message["keys"]) == (topic, "T", f"K{body}")
        assert message["msgId"] == by_body[body]["msgId"] and message["queueId"] == by_body[body]["queueId"]


def test_who_did_not_know_is_asked_until_it_knows(java: JavaClients, topic: str, group: str) -> None:
    consumer = java.push(group, topic)
    producer = java.transaction(f"P-{group}")
    (first, second) = producer.send(topic, {"body": "UNKNOW COMMIT", "keys": "K"}, "UNKNOW ROLLBACK")
    assert bodies(consumer, 1) == ["UNKNOW COMMIT"]
    checks = {each["body"].decode(): each for each in producer.checks(2)}
    assert set(checks) == {"UNKNOW COMMIT", "UNKNOW ROLLBACK"}
    check = checks["UNKNOW COMMIT"]
    assert (check["topic"], check["keys"], check["queueId"]) == (topic, "K", first["queueId"])
    assert [each["properties"]["UNIQ_KEY"] for each in (check, checks["UNKNOW ROLLBACK"])] == [first["msgId"], second["msgId"]]
    (message,) = consumer.received()
    assert message["msgId"] == first["msgId"] and message["keys"] == "K"


def given_up(cluster: Cluster, topic: str) -> list[Record]:
    """Of the messages to this topic."""
    return [each for each in records(cluster.broker.address, GIVEN_UP, 0) if each.pairs["REAL_TOPIC"] == topic]


@pytest.mark.slow
def test_who_never_knows_is_asked_so_often_and_then_no_more(java: JavaClients, cluster: Cluster, topic: str, group: str) -> None:
    producer = java.transaction(f"P-{group}")
    producer.send(topic, "UNKNOW UNKNOW UNKNOW UNKNOW")
    wait_until(lambda: given_up(cluster, topic), what="the message that is given up")
    assert len(producer.checks()) == 3
    (message,) = given_up(cluster, topic)
    assert message.body == b"UNKNOW UNKNOW UNKNOW UNKNOW" and message.pairs["TRANSACTION_CHECK_TIMES"] == "3"
    host, port = cluster.broker.address.rsplit(":", 1)
    message_id = f"{socket.inet_aton(host).hex()}{int(port):08x}{message.physical_offset:016x}".upper()
    reply = wire.call(cluster.broker.address, RESUME, {"msgId": message_id})
    assert reply.code == 0, reply
    assert len(producer.checks(4)) >= 4


@pytest.mark.slow
def test_another_producer_of_the_group_is_asked_when_the_first_is_gone(java: JavaClients, topic: str, group: str) -> None:
    consumer = java.push(group, topic)
    first = java.transaction(f"P-{group}")
    first.send(topic, "UNKNOW COMMIT")
    first.shutdown()
    second = java.transaction(f"P-{group}")
    second.send(topic, "COMMIT")
    assert bodies(consumer, 2) == ["COMMIT", "UNKNOW COMMIT"]
    assert [each["body"] for each in second.checks()] == [b"UNKNOW COMMIT"]


@pytest.mark.slow
def test_a_large_one_is_asked_about_whole(java: JavaClients, topic: str, group: str) -> None:
    consumer = java.push(group, topic)
    producer = java.transaction(f"P-{group}")
    body = "UNKNOW COMMIT " + "großer Körper " * 20_000
    producer.send(topic, {"body": body, "properties": {"größe": "äö €"}})
    assert bodies(consumer, 1) == [body]
    (check,) = producer.checks(1)
    assert check["body"].decode() == body and check["properties"]["größe"] == "äö €"
