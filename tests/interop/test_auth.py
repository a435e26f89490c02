"""Unmodified clients and tools of RocketMQ against brokers that ask who every request is from and what that user may do."""

from __future__ import annotations

import re
import stat
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rocketpy.remoting.codes import RequestCode
from tests.processes import wait_until

from . import proxies
from .authority import PROXY_SETTINGS, SETTINGS, Authority, entry, java, signed
from .javaenv import CURRENT, OLD, JavaClients, JavaError, Jvm
from .judge import judgement
from .mqadmin import MqAdmin
from .products import Broker, Cluster, Product, running_cluster
from .proxies import GrpcClients, OwnProxy, Proxy
from .test_go_client import built
from .test_proxy import KINDS, go_judge, python_judge  # noqa: F401 - fixtures

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def guarded(product: Product, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(product, tmp_path_factory.mktemp("guarded"), SETTINGS) as cluster:
        yield cluster


@pytest.fixture
def root(guarded: Cluster) -> Authority:
    return Authority(guarded.broker)


@pytest.fixture(params=[(CURRENT, "JSON"), (CURRENT, "ROCKETMQ"), (OLD, "JSON"), (OLD, "ROCKETMQ")], ids="-".join)
def client(request: pytest.FixtureRequest, clients: Callable[..., JavaClients], guarded: Cluster) -> JavaClients:
    return clients(guarded, *request.param)


@pytest.fixture
def name() -> str:
    return uuid.uuid4().hex[:8]


# ---- Java clients ----


def test_messages_go_from_a_user_who_may_send_to_one_who_may_read(
    client: JavaClients, root: Authority, guarded: Cluster, name: str
) -> None:
    topic, group = f"orders-{name}", f"readers-{name}"
    root.topic(topic, guarded)
    root.user(f"sender-{name}", entry(f"Topic:{topic}", "Pub"))
    root.user(f"reader-{name}", entry("Topic:orders-*", "Sub"), entry(f"Group:{group}", "Sub"))
    producer = client.producer(f"senders-{name}", **java(f"sender-{name}"))
    bodies = {f"message {number}".encode() for number in range(20)}
    for how in ("sync", "async", "oneway"):
        producer.send(topic, *({"body": body + how.encode(), "keys": "key", "tags": "tag"} for body in bodies), how=how)
    producer.send(topic, *({"body": body + b"batch"} for body in bodies), how="batch")
    producer.send(topic, {"body": b"large" * 20_000})
    consumer = client.push(group, topic, **java(f"reader-{name}"))
    received = {message["body"] for message in consumer.received(81)}
    assert received == {body + how for body in bodies for how in (b"sync", b"async", b"oneway", b"batch")} | {b"large" * 20_000}
    consumer.shutdown()
    wait_until(
        lambda: sum(committed(root, group, topic, queue) for queue in range(4)) == 81,
        20,
        "what was read is committed, which asks rights too",
    )


def committed(root: Authority, group: str, topic: str, queue: int) -> int:
    reply = root.ask(RequestCode.QUERY_CONSUMER_OFFSET, {"consumerGroup": group, "topic": topic, "queueId": str(queue)})
    return int(reply.fields["offset"]) if reply.code == 0 else 0


def test_who_may_not_send_is_told_why(client: JavaClients, root: Authority, guarded: Cluster, name: str) -> None:
    topic = f"orders-{name}"
    root.topic(topic, guarded)
    for user, entries in (
        ("good", [entry(f"Topic:{topic}", "Pub")]),
        ("poor", [entry(f"Topic:{topic}", "Sub")]),
        ("denied", [entry("Topic:*", "Pub"), entry(f"Topic:{topic}", "Pub", decision="Deny")]),
        ("elsewhere", [entry(f"Topic:{topic}", "Pub", source_ips=["10.0.0.0/8"])]),
        ("asleep", [entry(f"Topic:{topic}", "Pub")]),
    ):
        root.user(f"{user}-{name}", *entries)
    root.done(RequestCode.AUTH_UPDATE_USER, {"username": f"asleep-{name}"}, {"userStatus": "disable"})
    no_permission = f"has no permission to access Topic:{topic} from 127.0.0.1"
    for user, complaint in {
        f"poor-{name}": f"User:poor-{name} {no_permission}, no matched policies.",
        f"denied-{name}": f"User:denied-{name} {no_permission}, the decision is deny.",
        f"elsewhere-{name}": f"User:elsewhere-{name} {no_permission}, no matched policies.",
        f"asleep-{name}": f"User:asleep-{name} is disabled.",
        f"stranger-{name}": f"User:stranger-{name} is not found.",
    }.items():
        assert refusal(client, topic, java(user)) == complaint
    assert refusal(client, topic, {**java(f"good-{name}"), "secretKey": "wrong"}) == "check signature failed."
    assert refusal(client, topic, {}) == "username cannot be null."
    assert refusal(client, topic, java(f"good-{name}")) == ""


def refusal(client: JavaClients, topic: str, who: dict[str, str]) -> str:
    """Why that user's message is not taken; "" when it is."""
    try:
        client.producer("senders", retries=0, **who).send(topic, b"x")
    except JavaError as error:
        found = re.search(r"CODE: 16 +DESC: (.*?)(?: BROKER: .*)?\n", str(error))
        assert found, error
        return found[1].strip()
    return ""


def test_who_may_not_read_receives_nothing(client: JavaClients, root: Authority, guarded: Cluster, name: str) -> None:
    topic, group = f"orders-{name}", f"readers-{name}"
    root.topic(topic, guarded)
    root.user(f"sender-{name}", entry("Topic:*", "Pub"))
    root.user(f"no-group-{name}", entry(f"Topic:{topic}", "Sub"))
    root.user(f"no-topic-{name}", entry(f"Group:{group}", "Sub"))
    client.producer("senders", **java(f"sender-{name}")).send(topic, b"one")
    for user in (f"no-group-{name}", f"no-topic-{name}"):
        queues = client.pull(group, **java(user))
        with pytest.raises(JavaError, match="CODE: 16"):
            queues.pull({"topic": topic, "broker": guarded.broker.name, "queueId": 0}, 0)
    assert sum(committed(root, group, topic, queue) for queue in range(4)) == 0


def test_a_transaction_is_sent_and_ended(clients: Callable[..., JavaClients], root: Authority, guarded: Cluster, name: str) -> None:
    client = clients(guarded)
    topic, group = f"paid-{name}", f"readers-{name}"
    root.topic(topic, guarded)
    root.user(f"user-{name}", entry("Topic:paid-*", "Pub", "Sub"), entry("Group:*", "Sub"))
    client.transaction(f"payers-{name}", **java(f"user-{name}")).send(topic, b"COMMIT COMMIT", b"ROLLBACK ROLLBACK")
    consumer = client.push(group, topic, **java(f"user-{name}"))
    assert [message["body"] for message in consumer.received(1)] == [b"COMMIT COMMIT"]


def test_a_message_that_a_reader_refuses_is_stored_for_its_group(
    clients: Callable[..., JavaClients], root: Authority, guarded: Cluster, name: str
) -> None:
    client = clients(guarded)
    topic, group = f"orders-{name}", f"readers-{name}"
    root.topic(topic, guarded)
    root.user(f"user-{name}", entry(f"Topic:{topic}", "Pub", "Sub"), entry(f"Group:{group}", "Sub"))
    client.push(group, topic, rejectTimes=1, nextDelayLevel=1, **java(f"user-{name}"))
    client.producer("senders", **java(f"user-{name}")).send(topic, b"again")
    retries = {"topic": f"%RETRY%{group}", "queueId": "0"}

    def stored() -> int:
        reply = root.ask(RequestCode.GET_MAX_OFFSET, retries)
        return int(reply.fields["offset"]) if reply.code == 0 else 0

    wait_until(lambda: stored() == 1, 60, "the message in the group's retry topic")


# ---- clients in Go, and those that speak gRPC ----


def test_the_go_client_signs_what_we_accept(root: Authority, guarded: Cluster, name: str, tmp_path: Path) -> None:
    judge = built(".", tmp_path / "judge")
    topic, group = f"orders-{name}", f"readers-{name}"
    root.topic(topic, guarded)
    root.user(f"user-{name}", entry(f"Topic:{topic}", "Pub", "Sub"), entry(f"Group:{group}", "Sub"))
    seen = judgement(judge, guarded.address, topic, group, "10", f"user-{name}", f"secret-of-user-{name}", home=tmp_path, timeout=90)
    assert seen["statuses"] == {"0": 21} and len(seen["received"]) == 20
    with pytest.raises(AssertionError, match="check signature failed"):
        judgement(judge, guarded.address, topic, group, "1", f"user-{name}", "wrong", home=tmp_path, timeout=90)


@pytest.mark.parametrize("kind", [Proxy, OwnProxy], ids=["theirs", "ours"])
def test_a_proxy_asks_our_broker_for_users_and_rights(
    kind: type[Proxy], root: Authority, guarded: Cluster, name: str, tmp_path: Path
) -> None:
    topic, group = f"orders-{name}", f"readers-{name}"
    root.topic(topic, guarded)
    root.user(f"user-{name}", entry(f"Topic:{topic}", "Pub", "Sub"), entry(f"Group:{group}", "Sub"))
    root.user(f"poor-{name}", entry(f"Topic:{topic}", "Sub"))
    proxy = kind(tmp_path / "proxy", guarded.address, PROXY_SETTINGS).start()
    (tmp_path / "grpc").mkdir()
    driver = Jvm(CURRENT, tmp_path / "driver", further=(proxies.client_class_path(tmp_path / "grpc"), proxies.GRPC))
    try:
        grpc = GrpcClients(driver, proxy)
        sent = grpc.sender(topic, **java(f"user-{name}")).send(topic, "by gRPC")
        assert len(sent) == 1
        for who in (java(f"poor-{name}"), {**java(f"user-{name}"), "secretKey": "wrong"}):
            with pytest.raises(JavaError):
                grpc.sender(topic, **who).send(topic, "refused")
        simple = grpc.simple(group, topic, **java(f"user-{name}"))
        (message,) = simple.receive_all(1)
        assert message["body"] == b"by gRPC"
        simple.ack(message)
    finally:
        driver.close()
        proxy.kill()


@pytest.mark.parametrize("kind", [Proxy, OwnProxy], ids=["theirs", "ours"])
@pytest.mark.parametrize("language", ["python", "go"])
def test_clients_in_other_languages_sign_for_a_proxy(
    request: pytest.FixtureRequest, language: str, kind: type[Proxy], root: Authority, guarded: Cluster, name: str, tmp_path: Path
) -> None:
    judge, prefix = request.getfixturevalue(f"{language}_judge"), f"signed-{name}"
    for each, type_ in KINDS.items():
        root.topic(f"{prefix}-{each}", guarded, attributes=f"+message.type={type_}" if type_ else "")
    root.done(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body={"groupName": f"{prefix}-fifo-push", "consumeMessageOrderly": True})
    root.user(f"user-{name}", entry(f"Topic:{prefix}*", "Pub", "Sub"), entry(f"Group:{prefix}*", "Sub"))
    proxy = kind(tmp_path / "proxy", guarded.address, PROXY_SETTINGS).start()
    try:
        who = (f"user-{name}", f"secret-of-user-{name}")
        seen = judgement(*judge, proxy.address, prefix, "10", *who, home=tmp_path, timeout=300)
        assert sorted(set(seen["transaction"])) == ["commit it", "unknown it"]
        assert len(seen["normal"]) == 5
        refused = "check signature failed" if language == "go" else "failed to fetch topic"
        with pytest.raises(AssertionError, match=refused):
            judgement(*judge, proxy.address, prefix, "1", who[0], "wrong", home=tmp_path, timeout=120)
    finally:
        proxy.kill()


@pytest.mark.parametrize("kind", [Proxy, OwnProxy], ids=["theirs", "ours"])
def test_4x_clients_sign_for_a_proxy(
    kind: type[Proxy], jvm: Callable[..., Jvm], root: Authority, guarded: Cluster, name: str, tmp_path: Path
) -> None:
    topic, group = f"orders-{name}", f"readers-{name}"
    root.topic(topic, guarded)
    root.user(f"user-{name}", entry(f"Topic:{topic}", "Pub", "Sub"), entry(f"Group:{group}", "Sub"))
    root.user(f"poor-{name}", entry(f"Topic:{topic}", "Sub"))
    proxy = kind(tmp_path / "proxy", guarded.address, PROXY_SETTINGS).start()
    client = JavaClients(jvm(), proxy.remoting)
    try:
        client.producer(f"senders-{name}", **java(f"user-{name}")).send(topic, b"by the other port")
        consumer = client.push(group, topic, **java(f"user-{name}"))
        assert [message["body"] for message in consumer.received(1)] == [b"by the other port"]
        with pytest.raises(JavaError, match="has no permission to access Topic"):
            client.producer(f"poor-{name}", retries=0, **java(f"poor-{name}")).send(topic, b"x")
    finally:
        client.close()
        proxy.kill()


# ---- mqadmin ----


@pytest.fixture(scope="module")
def admin_jvm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jvm]:
    """A JVM whose mqadmin finds its credentials where an operator puts them."""
    home = tmp_path_factory.mktemp("admin")
    (home / "conf").mkdir()
    (home / "conf/tools.yml").write_text("accessKey: root\nsecretKey: secret-of-root\n")
    jvm = Jvm(CURRENT, home)
    yield jvm
    jvm.close()


COMMANDS = [
    ["listUser", "-b", "THIS"],
    ["createUser", "-b", "THIS", "-u", "alice", "-p", "secret-1"],
    ["createUser", "-b", "THIS", "-u", "alice", "-p", "secret-1"],
    ["createUser", "-c", "DefaultCluster", "-u", "boss", "-p", "secret-2", "-t", "Super"],
    ["updateUser", "-b", "THIS", "-u", "alice", "-s", "disable"],
    ["updateUser", "-b", "THIS", "-u", "bob", "-p", "x"],
    ["getUser", "-b", "THIS", "-u", "alice"],
    ["getUser", "-b", "THIS", "-u", "bob"],
    ["listUser", "-c", "DefaultCluster", "-f", "alice"],
    ["createAcl", "-b", "THIS", "-s", "User:alice", "-r", "Topic:orders*,Group:g", "-a", "Pub,Sub", "-i", "10.0.0.0/8", "-d", "Allow"],
    ["createAcl", "-b", "THIS", "-s", "User:bob", "-r", "Topic:*", "-a", "Pub", "-d", "Allow"],
    ["createAcl", "-b", "THIS", "-s", "User:alice", "-r", "Topic:*", "-a", "Pub", "-i", "somewhere", "-d", "Allow"],
    ["updateAcl", "-c", "DefaultCluster", "-s", "User:alice", "-r", "Topic:orders*", "-a", "Sub", "-d", "Deny"],
    ["getAcl", "-b", "THIS", "-s", "User:alice"],
    ["getAcl", "-b", "THIS", "-s", "User:bob"],
    ["listAcl", "-b", "THIS"],
    ["listAcl", "-c", "DefaultCluster", "-s", "ali", "-r", "Group"],
    ["deleteAcl", "-b", "THIS", "-s", "User:alice", "-r", "Group:g"],
    ["getAcl", "-b", "THIS", "-s", "User:alice"],
    ["copyUser", "-f", "THIS", "-t", "OTHER"],
    ["copyAcl", "-f", "THIS", "-t", "OTHER"],
    ["copyUser", "-f", "OTHER", "-t", "THIS", "-u", "alice,boss,nobody"],
    ["listUser", "-b", "OTHER"],
    ["listAcl", "-b", "OTHER"],
    ["deleteAcl", "-c", "DefaultCluster", "-s", "User:alice"],
    ["deleteUser", "-c", "DefaultCluster", "-u", "alice"],
    ["listUser", "-b", "THIS"],
    ["listAcl", "-b", "THIS"],
]


def test_mqadmin_prints_the_same_of_both_and_copies_across(
    new_cluster: Callable[..., Cluster], admin_jvm: Jvm, product: Product, peer: Product
) -> None:
    ours, theirs = (new_cluster(namesrv=each, brokers=[each], **SETTINGS) for each in (product, peer))
    for command in COMMANDS:
        assert shown(admin_jvm, ours, theirs, command) == shown(admin_jvm, theirs, ours, command), command
    for source, target, user in ((theirs, ours, "from-theirs"), (ours, theirs, "from-ours")):
        Authority(source.broker).user(
            user, entry("Topic:t*", "Pub", source_ips=["10.0.0.0/8"]), default=[entry("*", "Get", decision="Deny")]
        )
        for command in ("copyUser", "copyAcl"):
            assert f"from {source.broker.address}" in " ".join(
                shown(admin_jvm, source, target, [command, "-f", "THIS", "-t", "OTHER"], even=False)
            )
        for code in (RequestCode.AUTH_LIST_USER, RequestCode.AUTH_LIST_ACL):
            assert Authority(target.broker).done(code).json() == Authority(source.broker).done(code).json()


def shown(jvm: Jvm, cluster: Cluster, other: Cluster, command: list[str], *, even: bool = True) -> list[str]:
    places = {"THIS": cluster.broker.address, "OTHER": other.broker.address}
    text = MqAdmin(jvm, cluster.address).text(command[0], *(places.get(word, word) for word in command[1:]))
    for name, address in places.items() if even else ():
        text = text.replace(address, name)
    lines = [re.sub(r"\s+", " ", re.sub(r"\.java:\d+", "", line)).strip() for line in text.splitlines()]
    return [line for line in lines if line and not line.startswith(("at ", "..."))]


def test_mqadmin_without_credentials_changes_nothing(jvm: Callable[..., Jvm], root: Authority, guarded: Cluster) -> None:
    printed = MqAdmin(jvm(), guarded.address).text("createUser", "-b", root.address, "-u", "mallory", "-p", "x", "-t", "Super")
    assert "CODE: 16" in printed and "username cannot be null" in printed
    assert root.done(RequestCode.AUTH_GET_USER, {"username": "mallory"}).body == b""


# ---- clusters ----


@pytest.mark.parametrize("ours", ["broker", "namesrv"])
def test_a_cluster_of_both_products(
    ours: str, new_cluster: Callable[..., Cluster], clients: Callable[..., JavaClients], product: Product, peer: Product, name: str
) -> None:
    namesrv, broker = (peer, product) if ours == "broker" else (product, peer)
    cluster = new_cluster(namesrv=namesrv, brokers=[broker], **SETTINGS)
    root = Authority(cluster.broker)
    root.topic("orders", cluster)
    root.user("alice", entry("Topic:orders", "All"), entry("Group:*", "All"))
    client = clients(cluster)
    client.producer("senders", **java("alice")).send("orders", b"one")
    assert [message["body"] for message in client.push("readers", "orders", **java("alice")).received(1)] == [b"one"]


@pytest.mark.parametrize("who", ["both-ours", "our-master", "our-slave"])
def test_a_slave_follows_a_master_that_asks(
    who: str, new_cluster: Callable[..., Cluster], product: Product, peer: Product, tmp_path: Path
) -> None:
    master, slave = {"our-master": (product, peer), "our-slave": (peer, product), "both-ours": (product, product)}[who]
    settings: dict[str, Any] = {**SETTINGS, "slaveReadEnable": True}
    cluster = new_cluster(namesrv=product, brokers=[master], brokerRole="SYNC_MASTER", **settings)
    cluster.brokers.append(Broker(slave, tmp_path / "slave", cluster.address, settings, "broker-a", 1).start(cluster.namesrv))
    root = Authority(cluster.broker)
    root.topic("orders", cluster)
    root.done(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body={"groupName": "readers"})
    copy = cluster.brokers[1]
    wait_until(
        lambda: signed(copy.address, RequestCode.GET_TOPIC_CONFIG, {"topic": "orders"}).code == 0, 90, "the slave has copied the topic"
    )
    assert signed(copy.address, RequestCode.GET_TOPIC_CONFIG, {"topic": "orders"}, user=None).code == 16


def test_users_of_a_broker_are_taken_over_with_its_store(new_cluster: Callable[..., Cluster], product: Product, peer: Product) -> None:
    """What its RocksDB holds is in its log after a kill, in a table after a clean stop; RocketMQ's own lists are the judge."""
    cluster = new_cluster(namesrv=product, brokers=[peer], **SETTINGS)
    broker, root = cluster.broker, Authority(cluster.broker)

    def lists() -> list[Any]:
        return [root.done(code).json() for code in (RequestCode.AUTH_LIST_USER, RequestCode.AUTH_LIST_ACL)]

    root.user("alice", entry("Topic:orders*", "Pub", "Sub", source_ips=["10.0.0.0/8"]), default=[entry("*", "Get", decision="Deny")])
    root.user("boss", kind="Super")
    for changed in (("carol", broker.kill), ("dave", broker.stop)):
        root.user(changed[0], entry("Group:readers", "Sub"), entry("Cluster:*", "All"))
        root.done(RequestCode.AUTH_UPDATE_USER, {"username": changed[0]}, {"userStatus": "disable"})
        theirs = lists()
        changed[1]()
        broker.product = product
        broker.start(cluster.namesrv)
        assert lists() == theirs
        broker.stop()
        broker.product = peer
        broker.start(cluster.namesrv)
        assert lists() == theirs
        root.done(RequestCode.AUTH_DELETE_USER, {"username": "alice"})


def test_users_outlive_the_broker(new_cluster: Callable[..., Cluster], product: Product, tmp_path: Path) -> None:
    cluster = new_cluster(**SETTINGS)
    root = Authority(cluster.broker)
    root.topic("orders", cluster)
    root.user("alice", entry("Topic:orders", "Get"))
    before = [root.done(code).json() for code in (RequestCode.AUTH_LIST_USER, RequestCode.AUTH_LIST_ACL)]
    cluster.broker.kill()
    cluster.broker.start(cluster.namesrv)
    assert [root.done(code).json() for code in (RequestCode.AUTH_LIST_USER, RequestCode.AUTH_LIST_ACL)] == before
    if product.name == "rocketpy":
        assert stat.S_IMODE((cluster.broker.store / "config/auth.json").stat().st_mode) == 0o600
        logs = "".join(path.read_text(errors="replace") for path in cluster.broker.home.rglob("*.log"))
        assert "secret-of" not in logs
