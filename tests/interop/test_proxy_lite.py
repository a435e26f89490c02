"""Lite topics and priorities by RocketMQ's proxy and by ours, with RocketMQ's Java client."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest

from tests.processes import wait_until

from . import proxies, wire
from .javaenv import CURRENT, JavaError, Jvm
from .mqadmin import MqAdmin
from .products import Cluster, NameServer, Product
from .proxies import GrpcClients, LiteListener, OwnProxy, Proxy
from .test_admin import ours as own
from .test_admin import settled

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

GET_BROKER_LITE_INFO, NOT_SUPPORTED = 200074, 3


@pytest.fixture(scope="module")
def cluster(product: Product, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    home = tmp_path_factory.mktemp("lite")
    cluster = Cluster(NameServer(product, home / "namesrv").start())
    try:
        cluster.add_brokers(home, [product], {"enableLmq": True, "enableMultiDispatch": True})
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jvm]:
    further = (proxies.client_class_path(tmp_path_factory.mktemp("grpc")), proxies.GRPC)
    driver = Jvm(CURRENT, tmp_path_factory.mktemp("driver"), further=further)
    yield driver
    driver.close()


@pytest.fixture(scope="module", params=[Proxy, OwnProxy], ids=["theirs", "ours"])
def proxy(request: pytest.FixtureRequest, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    proxy = request.param(tmp_path_factory.mktemp("proxy"), cluster.address).start()
    yield proxy
    proxy.kill()


@pytest.fixture
def grpc(driver: Jvm, proxy: Proxy) -> Iterator[GrpcClients]:
    clients = GrpcClients(driver, proxy)
    yield clients
    clients.close()


@pytest.fixture
def admin(driver: Jvm, cluster: Cluster) -> Callable[..., str]:
    return lambda command, *arguments: MqAdmin(driver, cluster.address).run(command, "-c", "DefaultCluster", *arguments)


@pytest.fixture
def lites(cluster: Cluster, admin: Callable[..., str], topic: str, group: str) -> tuple[str, str]:
    """(a topic of lite topics, a group that is bound to it)."""
    if wire.call(cluster.broker.address, GET_BROKER_LITE_INFO).code == NOT_SUPPORTED:
        pytest.skip("these brokers have no lite topics")
    admin("updateTopic", "-t", topic, "-r", "4", "-w", "4", "-a", "+message.type=LITE")
    admin("updateSubGroup", "-g", group, "-o", "true", "--attributes", f"+lite.bind.topic={topic},+lite.sub.client.quota=4")
    return topic, group


def by_lite_topic(listener: LiteListener, count: int) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for each in listener.attempts(count):
        if each["taken"]:
            found.setdefault(each["liteTopic"], []).append(each["body"].decode())
    return found


def sent_to(lite_topic: str, *bodies: str) -> list[dict[str, str]]:
    return [{"body": body, "liteTopic": lite_topic} for body in bodies]


def test_a_lite_consumer_gets_what_is_sent_to_the_lite_topics_it_has_in_order(grpc: GrpcClients, lites: tuple[str, str]) -> None:
    topic, group = lites
    listener, sender = grpc.lite_listener(group, topic), grpc.sender(topic)
    for name in ("a", "b"):
        listener.subscribe(name)
    sent = {name: [f"{name} {number}" for number in range(8)] for name in ("a", "b", "c")}
    for name, bodies in sent.items():
        sender.send(topic, *sent_to(name, *bodies))
    assert by_lite_topic(listener, 16) == {name: sent[name] for name in ("a", "b")}
    assert {each["attempt"] for each in listener.attempts()} == {1}
    listener.unsubscribe("b")
    listener.subscribe("c", fromFirst=True)
    sender.send(topic, *sent_to("b", "nobody's"), *sent_to("a", "the last"))
    found = by_lite_topic(listener, 25)
    assert found == {"a": [*sent["a"], "the last"], "b": sent["b"], "c": sent["c"]} and listener.subscribed() == {"a", "c"}


def test_a_message_that_is_refused_comes_again_before_the_next_of_its_lite_topic(grpc: GrpcClients, lites: tuple[str, str]) -> None:
    topic, group = lites
    listener = grpc.lite_listener(group, topic, rejectTimes=1)
    listener.subscribe("a")
    grpc.sender(topic).send(topic, *sent_to("a", "1", "2"))
    tries = [(each["body"].decode(), each["attempt"]) for each in listener.attempts(4)]
    assert tries == [("1", 1), ("1", 2), ("2", 1), ("2", 2)]


def test_who_takes_over_goes_on_where_the_other_stopped(grpc: GrpcClients, lites: tuple[str, str]) -> None:
    topic, group = lites
    first, sender = grpc.lite_listener(group, topic), grpc.sender(topic)
    first.subscribe("a")
    sender.send(topic, *sent_to("a", "1", "2"))
    assert by_lite_topic(first, 2) == {"a": ["1", "2"]}
    first.shutdown()
    sender.send(topic, *sent_to("a", "3", "4"))
    second = grpc.lite_listener(group, topic)
    second.subscribe("a")
    assert by_lite_topic(second, 2) == {"a": ["3", "4"]}


def test_a_lite_topic_of_an_exclusive_group_is_the_last_clients_and_the_other_hears_of_it(
    grpc: GrpcClients, admin: Callable[..., str], lites: tuple[str, str]
) -> None:
    topic, group = lites
    admin("updateSubGroup", "-g", group, "-o", "true", "--attributes", "+lite.sub.model=Exclusive")
    first, second, sender = grpc.lite_listener(group, topic), grpc.lite_listener(group, topic), grpc.sender(topic)
    first.subscribe("a")
    sender.send(topic, *sent_to("a", "1"))
    assert by_lite_topic(first, 1) == {"a": ["1"]}
    second.subscribe("a")
    wait_until(lambda: first.subscribed() == set(), what="the first has heard that it has it no more")
    sender.send(topic, *sent_to("a", "2"))
    assert by_lite_topic(second, 1) == {"a": ["2"]}
    assert len(first.attempts()) == 1


def test_lite_consumers_and_regular_ones_have_groups_of_their_own(grpc: GrpcClients, lites: tuple[str, str]) -> None:
    topic, group = lites
    with pytest.raises(JavaError):
        grpc.listener(group, topic)
    with pytest.raises(JavaError):
        grpc.lite_listener(f"{group}-regular", topic)
    with pytest.raises(JavaError):
        grpc.lite_listener(group, f"{topic}-other")


def test_there_is_a_quota_and_names_that_cannot_be(grpc: GrpcClients, lites: tuple[str, str]) -> None:
    topic, group = lites
    listener, sender = grpc.lite_listener(group, topic), grpc.sender(topic)
    for name in "abcd":
        listener.subscribe(name)
    with pytest.raises(JavaError, match="LiteSubscriptionQuotaExceeded"):
        listener.subscribe("e")
    for name in ("x" * 65, "a b"):
        with pytest.raises(JavaError):
            sender.send(topic, *sent_to(name, "x"))
    with pytest.raises(JavaError, match="message type not match"):
        sender.send(topic, "of no lite topic")


def test_a_simple_consumer_gets_the_highest_priority_first(grpc: GrpcClients, admin: Callable[..., str], topic: str, group: str) -> None:
    admin("updateTopic", "-t", topic, "-r", "4", "-w", "4", "-a", "+message.type=PRIORITY")
    simple, sender = grpc.simple(group, topic), grpc.sender(topic)
    assert simple.receive() == []  # the group begins at the end
    for round_ in range(3):
        sender.send(topic, *({"body": f"{round_} {priority}", "priority": priority} for priority in (1, 0, 3, 2, 7)))
    with pytest.raises(JavaError, match="message type not match"):
        sender.send(topic, "of none")
    received = [each for _ in range(15) for each in simple.receive(1)]
    priorities = [each["priority"] for each in received]
    assert sorted(priorities[:6]) == [3, 3, 3, 7, 7, 7] and priorities[6:] == [2] * 3 + [1] * 3 + [0] * 3, "past the last queue is in it"
    assert {each["body"].decode() for each in received} == {f"{round_} {priority}" for round_ in range(3) for priority in (0, 1, 2, 3, 7)}


def test_our_admin_commands_print_what_mqadmins_do(
    grpc: GrpcClients, proxy: Proxy, driver: Jvm, cluster: Cluster, lites: tuple[str, str]
) -> None:
    if not isinstance(proxy, OwnProxy):
        pytest.skip("brokers are asked, by whichever proxy the consumer comes")
    topic, group = lites
    listener = grpc.lite_listener(group, topic)
    listener.subscribe("a")
    grpc.sender(topic).send(topic, *sent_to("a", "1", "2"), *sent_to("b", "nobody's"))
    assert by_lite_topic(listener, 2) == {"a": ["1", "2"]}
    (client_id,) = re.findall(
        rf"\[([^\[\]@]+(?:@[^\[\]@]+)*)@{group}\]", own(cluster.address, "getLiteTopicInfo", "-p", topic, "-l", "a", "-s")
    )
    group_info = ("getLiteGroupInfo", "-p", topic, "-g", group)
    for words in (
        ("getBrokerLiteInfo", "-b", cluster.broker.address),
        ("getBrokerLiteInfo", "-c", "DefaultCluster", "-d"),
        ("getParentTopicInfo", "-p", topic),
        ("getLiteTopicInfo", "-p", topic, "-l", "a"),
        ("getLiteTopicInfo", "-p", topic, "-l", "nowhere", "-s"),
        ("getLiteClientInfo", "-p", topic, "-g", group, "-c", client_id, "-s"),
        ("getLiteClientInfo", "-p", topic, "-g", group, "-c", "nobody"),
        group_info,
        (*group_info, "-l", "a", "-k", "5"),
        (*group_info, "-l", "nowhere"),
        ("triggerLiteDispatch", "-p", topic, "-g", group),
        ("triggerLiteDispatch", "-p", topic, "-g", group, "-c", client_id, "-b", cluster.broker.name),
    ):
        printed, wanted = own(cluster.address, *words), MqAdmin(driver, cluster.address).text(*words)
        assert timeless(printed) == timeless(wanted), words


def timeless(printed: str) -> list[str]:
    """What is in a hash table has no order."""
    printed = re.sub(r"\d{13} \(-?\d+ s ago\)", "THEN", printed)
    return settled(re.sub(r"(?<=Meta: )\{(.*)\}", lambda found: str(sorted(found[1].split(","))), printed))
