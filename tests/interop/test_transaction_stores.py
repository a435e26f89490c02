"""Transactions that begin under one product and end under the other, on the same store."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.processes import wait_until

from .javaenv import JavaClients
from .products import Cluster, Product
from .stored import queue_end, records

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

TOPIC, GROUP = "begun-elsewhere", "P-begun-elsewhere"
CALM = {"transactionCheckInterval": 3_600_000, "transactionTimeOut": 1000}
ASKING = {"transactionCheckInterval": 1000, "transactionTimeOut": 1000}


def received(cluster: Cluster) -> list[str]:
    return sorted(each.body.decode() for queue in range(4) for each in records(cluster.broker.address, TOPIC, queue))


@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
@pytest.mark.parametrize("we_begin", [True, False], ids=["ours-to-theirs-and-back", "theirs-to-ours-and-back"])
def test_who_has_the_store_asks_about_what_is_undecided(
    new_cluster: Callable[..., Cluster], clients: Callable[..., JavaClients], product: Product, peer: Product, we_begin: bool, kill: bool
) -> None:
    first, second = (product, peer) if we_begin else (peer, product)
    cluster = new_cluster(namesrv=product, brokers=[first], **CALM)
    java = clients(cluster)
    cluster.create_topic(TOPIC)
    expected: list[str] = []
    for word, other in (("first", second), ("second", first)):
        producer = java.transaction(f"{GROUP}-{word}")
        sent = [f"{decisions} {word} {n}" for n in range(5) for decisions in ("COMMIT", "ROLLBACK", "UNKNOW COMMIT", "UNKNOW ROLLBACK")]
        producer.send(TOPIC, *sent)
        expected += [body for body in sent if body.startswith("COMMIT")]
        wait_until(lambda: received(cluster) == sorted(expected), what="what was committed at once")  # noqa: B023
        cluster.broker.kill() if kill else cluster.broker.stop()
        cluster.broker.product = other
        cluster.broker.settings.update(ASKING)
        cluster.broker.start(cluster.namesrv)
        expected += [body for body in sent if body.startswith("UNKNOW COMMIT")]
        wait_until(lambda: set(received(cluster)) >= set(expected), 90, "what was committed when its producer was asked")  # noqa: B023
        asked = {each["body"].decode() for each in producer.checks(10)}
        if not kill:
            assert received(cluster) == sorted(expected) and asked == {body for body in sent if body.startswith("UNKNOW")}
        else:
            expected = received(cluster)  # RocketMQ has not written for three seconds what ended: it asks again
            assert {body for body in expected if "ROLLBACK" in body} == set()
        cluster.broker.stop()
        cluster.broker.settings.update(CALM)
        cluster.broker.start(cluster.namesrv)
        wait_until(lambda: cluster.route(TOPIC), what="the topic is announced")
        producer.shutdown()
    assert queue_end(cluster.broker.address, "TRANS_CHECK_MAX_TIME_TOPIC", 0) == 0
