"""RocketMQ's proxy in cluster mode before our brokers, and ours: 5.x clients in Java and other languages, and 4.x clients at the
other port."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.processes import PATIENCE_S, wait_until

from . import proxies, wire
from .javaenv import CURRENT, OLD, JavaClients, JavaError, Jvm
from .judge import judgement
from .mqadmin import MqAdmin
from .products import Broker, Cluster, Product, running_cluster
from .proxies import GrpcClients, Listener, OwnProxy, Proxy
from .test_go_client import built

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

KINDS = {"normal": None, "fifo": "FIFO", "delay": "DELAY", "transaction": "TRANSACTION"}
COUNT = 20
GET_CONSUMER_CONNECTION_LIST, POLLING_INFO = 203, 200055


@pytest.fixture(scope="module")
def cluster(product: Product, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two brokers that filter by properties, take messages back and ask producers soon."""
    settings = {"enablePropertyFilter": True, "recallMessageEnable": True, "transactionCheckInterval": 1000, "transactionTimeOut": 1000}
    with running_cluster(product, tmp_path_factory.mktemp("proxied"), settings, brokers=2) as cluster:
        yield cluster


@pytest.fixture(scope="module", params=[Proxy, OwnProxy], ids=["theirs", "ours"])
def kind(request: pytest.FixtureRequest) -> type[Proxy]:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def new_proxy(kind: type[Proxy], cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Proxy]]:
    made: list[Proxy] = []

    def make(**settings: Any) -> Proxy:
        made.append(kind(tmp_path_factory.mktemp("proxy"), cluster.address, settings).start())
        return made[-1]

    yield make
    for each in made:
        each.kill()


@pytest.fixture(scope="module")
def proxy(new_proxy: Callable[..., Proxy]) -> Proxy:
    return new_proxy()


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jvm]:
    further = (proxies.client_class_path(tmp_path_factory.mktemp("grpc")), proxies.GRPC)
    driver = Jvm(CURRENT, tmp_path_factory.mktemp("driver"), further=further)
    yield driver
    driver.close()


@pytest.fixture
def at(driver: Jvm) -> Iterator[Callable[[Proxy], GrpcClients]]:
    """at(proxy): clients of it that end with the test."""
    made: list[GrpcClients] = []

    def make(proxy: Proxy) -> GrpcClients:
        made.append(GrpcClients(driver, proxy))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def grpc(at: Callable[[Proxy], GrpcClients], proxy: Proxy) -> GrpcClients:
    return at(proxy)


@pytest.fixture
def admin(driver: Jvm, cluster: Cluster) -> Callable[..., str]:
    return lambda command, *arguments: MqAdmin(driver, cluster.address).run(command, "-c", "DefaultCluster", *arguments)


@pytest.fixture
def typed(admin: Callable[..., str], topic: str) -> Callable[[str], str]:
    """typed("FIFO"): a topic of that message type."""

    def make(kind: str) -> str:
        admin("updateTopic", "-t", f"{topic}-{kind}", "-r", "4", "-w", "4", "-a", f"+message.type={kind}")
        return f"{topic}-{kind}"

    return make


def in_order(listener: Listener, count: int) -> dict[str, list[str]]:
    """What it took of each message group."""
    groups: dict[str, list[str]] = {}
    for each in listener.attempts(count):
        if each["taken"]:
            groups.setdefault(each["messageGroup"], []).append(each["body"].decode())
    return groups


def test_a_push_consumer_gets_each_message_whole_and_once(grpc: GrpcClients, topic: str, group: str) -> None:
    listener = grpc.listener(group, topic)
    large = "großer Körper " * 200_000
    bodies = [*(f"{number}" for number in range(40)), large]
    messages = [{"body": body, "tags": "标签", "keys": "K1 ключ", "properties": {"größe": "b c=d"}} for body in bodies]
    receipts = grpc.sender(topic).send(topic, *messages)
    attempts = listener.attempts(41)
    assert {each["msgId"]: each["body"].decode() for each in attempts} == {
        receipt["msgId"]: body for receipt, body in zip(receipts, bodies, strict=True)
    }
    assert len(attempts) == 41 and {each["attempt"] for each in attempts} == {1}
    for each in attempts:
        assert (each["topic"], each["tags"], each["keys"], each["properties"]) == (topic, "标签", "K1 ключ", {"größe": "b c=d"})


@pytest.mark.parametrize("filter_", [{"expression": "TagA || TagC"}, {"sql": "n BETWEEN 3 AND 7"}], ids=["tags", "sql"])
def test_a_filter_passes_what_it_names(grpc: GrpcClients, topic: str, group: str, filter_: dict[str, str]) -> None:
    listener = grpc.listener(group, topic, **filter_)
    sent = [{"body": f"{number}", "tags": f"Tag{'AB'[number % 2]}", "properties": {"n": f"{number}"}} for number in range(20)]
    grpc.sender(topic).send(topic, *sent)
    wanted = {f"{number}" for number in (range(3, 8) if "sql" in filter_ else range(0, 20, 2))}
    assert set(listener.bodies(len(wanted))) == wanted


def test_a_message_group_is_consumed_in_order_a_refused_message_again_before_the_next(
    grpc: GrpcClients, admin: Callable[..., str], typed: Callable[[str], str], group: str
) -> None:
    topic = typed("FIFO")
    admin("updateSubGroup", "-g", group, "-o", "true")
    sent = [{"body": f"{number}", "messageGroup": f"group {number % 3}"} for number in range(9)]
    grpc.sender(topic).send(topic, *sent)
    listener = grpc.listener(group, topic, rejectTimes=1)
    assert in_order(listener, 18) == {f"group {of}": [f"{number}" for number in range(of, 9, 3)] for of in range(3)}
    for of in range(3):
        tries = [(each["body"].decode(), each["attempt"]) for each in listener.attempts() if each["messageGroup"] == f"group {of}"]
        assert tries == [(f"{number}", attempt) for number in range(of, 9, 3) for attempt in (1, 2)]


def test_a_message_comes_when_it_is_due_and_not_when_it_is_taken_back(grpc: GrpcClients, typed: Callable[[str], str], group: str) -> None:
    topic = typed("DELAY")
    listener, sender = grpc.listener(group, topic), grpc.sender(topic)
    back, stays = sender.send(topic, {"body": "taken back", "delayMs": 5000}, {"body": "stays", "delayMs": 5000})
    assert sender.call("recall", topic=topic, handle=back["recallHandle"]) == back["msgId"]
    sender.send(topic, {"body": "last", "delayMs": 8000})
    due = {each["body"].decode(): each for each in listener.attempts(2)}
    assert set(due) == {"stays", "last"} and due["stays"]["msgId"] == stays["msgId"]
    assert all(each["receivedTimestamp"] >= each["deliveryTimestamp"] - 1000 for each in due.values()), "the second it is due in"


def test_a_transaction_is_decided_by_its_producer_or_by_what_it_says_when_it_is_asked(
    grpc: GrpcClients, typed: Callable[[str], str], group: str
) -> None:
    topic = typed("TRANSACTION")
    listener, sender = grpc.listener(group, topic), grpc.sender(topic, transaction=True)
    sender.send(topic, "COMMIT it", "ROLLBACK it", "UNKNOWN ROLLBACK", "UNKNOWN COMMIT", transaction=True)
    assert sorted(listener.bodies(2)) == ["COMMIT it", "UNKNOWN COMMIT"]
    unknown = {b"UNKNOWN ROLLBACK", b"UNKNOWN COMMIT"}  # 5.5.0, which puts decisions off for 3 s, may ask about the others as well
    wait_until(lambda: {each["body"] for each in sender.checks()} >= unknown, what="both asked about")


def test_the_producers_of_another_proxy_are_asked_when_theirs_is_gone(
    grpc: GrpcClients, at: Callable[[Proxy], GrpcClients], new_proxy: Callable[..., Proxy], typed: Callable[[str], str], group: str
) -> None:
    topic = typed("TRANSACTION")
    listener, staying = grpc.listener(group, topic), grpc.sender(topic, transaction=True)
    staying.send(topic, "COMMIT it", transaction=True)
    other = new_proxy()
    at(other).sender(topic, transaction=True).send(topic, "UNKNOWN COMMIT", transaction=True)
    other.kill()
    assert sorted(listener.bodies(2)) == ["COMMIT it", "UNKNOWN COMMIT"]
    assert b"UNKNOWN COMMIT" in {each["body"] for each in staying.checks()}


def test_a_topic_takes_messages_of_its_type_alone(grpc: GrpcClients, typed: Callable[[str], str], topic: str) -> None:
    special = {"FIFO": {"messageGroup": "g"}, "DELAY": {"delayMs": 1000}}
    for kind, fields in special.items():
        name = typed(kind)
        for to, message in ((topic, {"body": "x", **fields}), (name, {"body": "x"})):
            with pytest.raises(JavaError, match="message type not match"):
                grpc.sender(to).send(to, message)
    with pytest.raises(JavaError, match="NotFoundException"):
        grpc.sender(maxAttempts=1).send(f"{topic}-nowhere", "x")


def test_a_simple_consumer_acks_some_and_gets_the_others_again_when_it_said(grpc: GrpcClients, topic: str, group: str) -> None:
    grpc.sender(topic).send(topic, *(f"{number}" for number in range(20)))
    simple = grpc.simple(group, topic)
    first = simple.receive_all(20)
    assert len(first) == 20
    for each in first[:10]:
        simple.ack(each)
    for each in first[10:15]:
        simple.change(each, 10_000)  # the least that the proxy lets through
    again = simple.receive_all(5)
    assert {each["body"] for each in again} == {each["body"] for each in first[10:15]}
    assert {each["attempt"] for each in again} == {2}


def test_what_is_refused_too_often_becomes_a_dead_letter(
    grpc: GrpcClients, admin: Callable[..., str], cluster: Cluster, topic: str, group: str
) -> None:
    admin("updateSubGroup", "-g", group, "-r", "1")
    listener = grpc.listener(group, topic, rejectTimes=100)
    grpc.sender(topic).send(topic, "x", "y")
    attempts = sorted((each["body"], each["attempt"]) for each in listener.attempts(4))
    assert attempts == [(b"x", 1), (b"x", 2), (b"y", 1), (b"y", 2)]
    wait_until(lambda: cluster.route(f"%DLQ%{group}"), what="the topic of its dead letters")
    admin("updateTopicPerm", "-t", f"%DLQ%{group}", "-p", "6")
    letters = grpc.listener(f"{group}-letters", f"%DLQ%{group}")
    assert sorted(letters.bodies(2)) == ["x", "y"]


def test_consumers_at_two_proxies_share_a_topic_and_one_proxy_may_go(
    kind: type[Proxy],
    grpc: GrpcClients,
    at: Callable[[Proxy], GrpcClients],
    new_proxy: Callable[..., Proxy],
    cluster: Cluster,
    proxy: Proxy,
    topic: str,
    group: str,
) -> None:
    other = new_proxy(enableBatchAck=True)
    listeners = [grpc.listener(group, topic), at(other).listener(group, topic)]

    def knows_both(each: Proxy) -> bool:
        """By the messages that proxies tell each other of their clients with."""
        reply = wire.call(each.remoting, GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": group})
        return reply.code == 0 and len(reply.json()["connectionSet"]) == 2

    def both_wait(broker: Broker) -> bool:
        """Ours says nothing of its clients to others: consumers share by their pops."""
        fields = {"consumerGroup": group, "topic": topic, "queueId": -1}
        return int(wire.call(broker.address, POLLING_INFO, fields).fields["pollingNum"]) >= 2

    if kind is Proxy:
        for each in (proxy, other):
            wait_until(lambda each=each: knows_both(each), what="each proxy knows both clients")
    else:
        for broker in cluster.brokers:
            wait_until(lambda broker=broker: both_wait(broker), what="both clients wait for messages")
    sender = grpc.sender(topic)
    sent = [f"{number}" for number in range(60)]
    sender.send(topic, *sent)
    wait_until(lambda: sum(len(each.bodies()) for each in listeners) >= 60, what="60 messages")
    assert sorted(listeners[0].bodies() + listeners[1].bodies()) == sorted(sent)
    assert all(each.bodies() for each in listeners), "both got some"
    other.kill()
    sender.send(topic, *(f"later {number}" for number in range(20)))
    wanted = {f"later {number}" for number in range(20)}
    wait_until(lambda: set(listeners[0].bodies() + listeners[1].bodies()) >= wanted, 2 * PATIENCE_S, "what was sent without it")


def test_clients_go_on_after_brokers_were_killed(grpc: GrpcClients, cluster: Cluster, topic: str, group: str) -> None:
    listener, sender = grpc.listener(group, topic), grpc.sender(topic)
    sender.send(topic, *(f"before {number}" for number in range(20)))
    listener.bodies(20)
    for broker in cluster.brokers:
        broker.kill()
    for broker in cluster.brokers:
        broker.start(cluster.namesrv)
    wait_until(lambda: sender.send(topic, "first"), what="a message is taken", not_yet=JavaError)
    sender.send(topic, *(f"after {number}" for number in range(20)))
    wanted = {"first", *(f"{when} {number}" for when in ("before", "after") for number in range(20))}
    wait_until(lambda: set(listener.bodies()) >= wanted, 2 * PATIENCE_S, "every message was taken")


def test_4x_and_5x_clients_read_what_the_others_send(
    grpc: GrpcClients, clients: Callable[..., JavaClients], cluster: Cluster, topic: str, group: str
) -> None:
    java = clients(cluster)
    long = "long " * 5000
    listener, pushed = grpc.listener(group, topic), java.push(f"{group}-4", topic)
    java.producer(compressOver=1000).send(topic, *(f"{number}" for number in range(10)), long)
    grpc.sender(topic).send(topic, *(f"five {number}" for number in range(10)))
    wanted = sorted([*(f"{number}" for number in range(10)), *(f"five {number}" for number in range(10)), long])
    assert sorted(listener.bodies(21)) == wanted
    assert sorted(each["body"].decode() for each in pushed.received(21)) == wanted


@pytest.mark.parametrize("orderly", [False, True], ids=["concurrently", "orderly"])
def test_4x_clients_send_and_receive_at_the_proxys_other_port(
    driver: Jvm, proxy: Proxy, cluster: Cluster, topic: str, group: str, orderly: bool
) -> None:
    java = JavaClients(driver, proxy.remoting)
    try:
        consumer = java.push(group, topic, orderly=orderly, expression="TagA")
        sent = [{"body": f"{number}", "tags": f"Tag{'AB'[number % 2]}"} for number in range(40)]
        assert {each["status"] for each in java.producer().send(topic, *sent)} == {"SEND_OK"}
        assert sorted(int(each["body"]) for each in consumer.received(20)) == list(range(0, 40, 2))
        committed = [(broker, queue) for broker in cluster.brokers for queue in range(4)]
        wait_until(
            lambda: sum(max(0, cluster.committed(group, topic, queue, broker)) for broker, queue in committed) == 40, what="all committed"
        )
    finally:
        java.close()


def test_transactions_and_retries_at_the_other_port_of_ours(
    kind: type[Proxy], driver: Jvm, proxy: Proxy, cluster: Cluster, topic: str, group: str
) -> None:
    if kind is Proxy:
        pytest.skip("RocketMQ's proxy tells brokers of no consumer, who make no retry topic then, and asks about what was committed")
    java = JavaClients(driver, proxy.remoting)
    try:
        # Registers the group, so that its retry topic exists first: a client that is older reads it only when queues are shared out again.
        java.push(group, topic).shutdown()
        wait_until(lambda: len(cluster.route(f"%RETRY%{group}")) == 2, what="the group's retry topic on both brokers")
        consumer = java.push(group, topic, rejectTimes=1, nextDelayLevel=1)
        payers = java.transaction(f"{group}-payers")
        payers.send(topic, "COMMIT COMMIT", "ROLLBACK ROLLBACK", "UNKNOW COMMIT")
        wanted = {(body, taken) for body in (b"COMMIT COMMIT", b"UNKNOW COMMIT") for taken in (False, True)}
        wait_until(lambda: {(each["body"], each["taken"]) for each in consumer.attempts()} == wanted, what="each again that was refused")
        assert b"UNKNOW COMMIT" in {each["body"] for each in payers.checks()}  # 5.5.0's brokers may ask about the others as well
    finally:
        java.close()


def test_clients_of_4_9_come_by_the_other_port_to_a_topic_on_one_broker(
    kind: type[Proxy], jvm: Callable[..., Jvm], proxy: Proxy, cluster: Cluster, topic: str, group: str
) -> None:
    """They name no broker in their requests, without which RocketMQ's proxy does nothing for them."""
    if kind is Proxy:
        pytest.skip("RocketMQ's proxy refuses them")
    alone = f"{topic}-alone"
    MqAdmin(jvm(), cluster.address).run("updateTopic", "-b", cluster.brokers[0].address, "-t", alone, "-r", "4", "-w", "4")
    java = JavaClients(jvm(OLD), proxy.remoting)
    try:
        consumer = java.push(group, alone)
        sent = [f"{number}" for number in range(20)]
        assert {each["status"] for each in java.producer().send(alone, *sent)} == {"SEND_OK"}
        assert sorted(each["body"].decode() for each in consumer.received(20)) == sorted(sent)
    finally:
        java.close()


@pytest.fixture(scope="module")
def python_judge(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """In a directory of its own: the package has the name of the C++ client's, which the environment has."""
    home = tmp_path_factory.mktemp("python")
    command = [sys.executable, "-m", "pip", "install", "-q", "--target", str(home), "rocketmq-python-client==5.1.2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        pytest.skip(f"pip could not fetch the client: {done.stderr[-300:]}")
    shutil.copy(proxies.SOURCES / "python_judge.py", home)
    return [sys.executable, str(home / "python_judge.py")]


@pytest.fixture(scope="module")
def node_judge(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("no Node.js: `apt-get install nodejs npm`")
    home = Path(shutil.copytree(proxies.SOURCES / "node", tmp_path_factory.mktemp("node") / "judge"))
    install = [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts"]
    done = subprocess.run(install, cwd=home, capture_output=True, text=True, timeout=200, check=False)
    if done.returncode:
        pytest.skip(f"npm could not fetch the client: {done.stderr[-300:]}")
    return [node, str(home / "judge.js")]


@pytest.fixture(scope="module")
def go_judge(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return [str(built(".", tmp_path_factory.mktemp("go") / "judge", proxies.SOURCES / "go"))]


@pytest.mark.parametrize("language", ["python", "node", "go"])
def test_clients_in_other_languages_send_and_receive(
    request: pytest.FixtureRequest, language: str, proxy: Proxy, admin: Callable[..., str], topic: str, tmp_path: Path
) -> None:
    judge = request.getfixturevalue(f"{language}_judge")
    prefix = f"{topic}-{language}"
    for kind, type_ in KINDS.items():
        admin("updateTopic", "-t", f"{prefix}-{kind}", "-r", "4", "-w", "4", *(["-a", f"+message.type={type_}"] if type_ else []))
    admin("updateSubGroup", "-g", f"{prefix}-fifo-push", "-o", "true")
    seen = judgement(*judge, proxy.address, prefix, f"{COUNT}", home=tmp_path, timeout=300)
    tagged = [f"{number}" for number in range(0, COUNT, 2)]
    assert seen["fifo"] == [[f"{of} {number}" for number in range(of, COUNT, 2)] for of in (0, 1)]
    assert seen["colour"] == "blau ü"
    # 5.5.0 asks again while it puts the answer off, and commits it twice
    assert sorted(set(seen["transaction"])) == ["commit it", "unknown it"]
    if language == "go":  # no push consumer: one by tags that puts the first message off
        assert seen["normal"] == {body: 1 + (body == "0") for body in tagged} and seen["delay"] == ["late"]
    else:
        assert seen["simple"] == {f"{number}": 1 + (number == 0) for number in range(COUNT)}, "one was put off"
        assert seen["normal"] == dict.fromkeys(tagged, 2), "each was refused once"
        assert seen["delay"] == [["late", 1]]
