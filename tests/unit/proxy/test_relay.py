"""4.x clients at the proxy's other port: which broker a request goes to, and a whole proxy before a broker, asked by a bare client."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from rocketpy._core.errors import NetworkError, TimedOut
from rocketpy._core.remoting import Command
from rocketpy.proxy.brokers import Brokers
from rocketpy.proxy.clients import Clients
from rocketpy.proxy.guests import Guest
from rocketpy.proxy.relay import Relay, behind
from rocketpy.proxy.relay_rules import ANSWER_S, assigned_topic, locked_broker, named_broker, named_topic, patience_s
from rocketpy.proxy.service import ProxyService
from rocketpy.proxy.settings import ProxySettings
from rocketpy.remoting.client import RemotingClient
from rocketpy.remoting.codes import RequestCode, ResponseCode
from rocketpy.remoting.command import Response
from rocketpy.remoting.credentials import Credentials
from rocketpy.remoting.route import BrokerData, QueueData, TopicRoute
from rocketpy.testing import LocalRocketMQ
from tests.processes import PATIENCE_S

from .test_authority import CHECKS, new_user
from .test_service import Peer, code, consumer, message, running

BROKER = "broker-a"


# ---- decisions ----


def test_the_broker_of_a_request_is_the_one_it_names() -> None:
    assert (
        named_broker(RequestCode.SEND_MESSAGE_V2, {"n": "b", "bname": "x"}) == named_broker(RequestCode.PULL_MESSAGE, {"bname": "b"}) == "b"
    )
    assert named_broker(RequestCode.PULL_MESSAGE, {"n": "b"}) == named_broker(RequestCode.PULL_MESSAGE, {"bname": "b" * 256}) == ""
    assert named_topic(RequestCode.SEND_MESSAGE_V2, {"b": "t"}) == named_topic(RequestCode.SEND_MESSAGE, {"topic": "t"}) == "t"
    assert locked_broker(b'{"mqSet":[{"brokerName":"b"}]}') == "b"
    for body in (
        b"",
        b"[]",
        b"{}",
        b'{"mqSet":[]}',
        b'{"mqSet":[{}]}',
        b'{"mqSet":["x"]}',
        b'{"mqSet":[{"brokerName":1}]}',
        b'{"mqSet":7}',
    ):
        assert locked_broker(body) == ""


def test_the_topic_of_an_assignment_is_in_its_body() -> None:
    assert assigned_topic(b'{"topic":"t"}') == "t"
    for body in (b"", b"[]", b"{}", b'{"topic":1}', b'{"topic":"' + b"x" * 256 + b'"}'):
        assert assigned_topic(body) == ""


def test_a_broker_may_keep_a_pull_as_long_as_it_asks_for() -> None:
    assert patience_s(RequestCode.SEND_MESSAGE, {"pollTime": "99999"}) == ANSWER_S
    assert patience_s(RequestCode.PULL_MESSAGE, {"suspendTimeoutMillis": "15000"}) == 25
    for odd in ("", "-1", "²", "9" * 30, "x"):
        assert patience_s(RequestCode.POP_MESSAGE, {"pollTime": odd}) == 10
    assert patience_s(RequestCode.POP_MESSAGE, {"pollTime": "999999999"}) == 310


def test_every_broker_of_a_route_is_at_the_proxys_address() -> None:
    route = TopicRoute(
        (QueueData("b", 4, 4, 6),), (BrokerData("c", "b", {0: "1.1.1.1:1", 1: "1.1.1.1:2"}), BrokerData("c", "d", {1: "2.2.2.2:2"}))
    )
    seen = behind(route, "p:8080")
    assert seen.queue_datas == route.queue_datas
    assert [data.broker_addrs for data in seen.broker_datas] == [{0: "p:8080"}, {1: "p:8080"}]


# ---- a proxy and a broker ----


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalRocketMQ]:
    with LocalRocketMQ(keys={"brokerName": BROKER}) as rocketmq:
        yield rocketmq


class Client:
    """One of 4.x, or as many as one connection may stand for."""

    def __init__(self, address: str, credentials: Credentials | None = None, tls: ssl.SSLContext | None = None) -> None:
        self.address = address
        self.told: asyncio.Queue[Command] = asyncio.Queue()
        self.remoting = RemotingClient(on_request=lambda _, request: self.told.put_nowait(request), credentials=credentials, tls=tls)

    async def ask(self, request: int, body: bytes | dict[str, Any] = b"", **fields: Any) -> Command:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        texts = {name: str(value) for name, value in fields.items()}
        return await self.remoting.invoke(self.address, request, texts, data, timeout_s=PATIENCE_S)

    async def send(self, topic: str, body: bytes, **fields: Any) -> Command:
        header: dict[str, Any] = {
            "a": "producers",
            "b": topic,
            "c": "TBW102",
            "d": 4,
            "e": 0,
            "f": 0,
            "g": 1,
            "h": 0,
            "i": "",
            "j": 0,
            "k": "false",
        }
        return await self.ask(RequestCode.SEND_MESSAGE_V2, body, **header, m="false", **fields)

    async def beat(self, group: str, topic: str, client_id: str = "c1") -> Command:
        data = {
            "groupName": group,
            "consumeType": "CONSUME_PASSIVELY",
            "messageModel": "CLUSTERING",
            "subscriptionDataSet": [{"topic": topic}],
        }
        producers = [{"groupName": "producers"}]
        return await self.ask(RequestCode.HEART_BEAT, {"clientID": client_id, "consumerDataSet": [data], "producerDataSet": producers})

    async def pull(self, topic: str, group: str, wait_ms: int) -> Command:
        fields = {"queueId": 0, "queueOffset": 0, "maxMsgNums": 32, "sysFlag": 6, "commitOffset": 0, "suspendTimeoutMillis": wait_ms}
        header: dict[str, Any] = {**fields, "subscription": "*", "subVersion": 0, "expressionType": "TAG"}
        return await self.ask(RequestCode.PULL_MESSAGE, consumerGroup=group, topic=topic, bname=BROKER, **header)


@asynccontextmanager
async def client_of(address: str, credentials: Credentials | None = None, tls: ssl.SSLContext | None = None) -> AsyncIterator[Client]:
    client = Client(address, credentials, tls)
    try:
        yield client
    finally:
        await client.remoting.stop()


def with_port(cluster: LocalRocketMQ, test: Callable[[str, Peer], Awaitable[None]], **settings: Any) -> None:
    async def run(peer: Peer, proxy: ProxyService) -> None:
        await test(f"127.0.0.1:{proxy.remoting_port}", peer)

    running(cluster, run, remoting_listen_port=0, **settings)


def test_a_4x_client_sends_waits_pulls_and_shares_its_group(cluster: LocalRocketMQ) -> None:
    topic, group = cluster.make_topic("Relayed"), "relayed"

    async def test(address: str, peer: Peer) -> None:
        async with client_of(address) as client, client_of(address) as other, client_of(cluster.broker) as direct:
            route = json.loads((await client.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic=topic, acceptStandardJsonOnly="true")).body)
            assert [data["brokerAddrs"] for data in route["brokerDatas"]] == [{"0": address}]
            assert (await client.beat(group, topic)).code == (await direct.beat(group, topic, "c2")).code == ResponseCode.SUCCESS
            assert (await client.told.get()).code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, "a broker's word comes through"
            waiting = asyncio.ensure_future(client.pull(topic, group, 20_000))
            sent = await client.send(topic, b"x" * 100_000, n=BROKER)
            assert sent.code == ResponseCode.SUCCESS and "queueOffset" in sent.fields
            found = await waiting
            assert found.code == ResponseCode.SUCCESS and b"x" * 100_000 in found.body
            listed = json.loads((await other.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, consumerGroup=group)).body)
            assert sorted(listed["consumerIdList"]) == ["c1", "c2"]
            lock = {"clientId": "c1", "consumerGroup": group, "mqSet": [{"topic": topic, "brokerName": BROKER, "queueId": 0}]}
            locked = await client.ask(RequestCode.LOCK_BATCH_MQ, lock)
            assert json.loads(locked.body)["lockOKMQSet"]
            await client.ask(RequestCode.UNREGISTER_CLIENT, clientID="c1", consumerGroup=group)
            listed = json.loads((await other.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, consumerGroup=group)).body)
            assert listed["consumerIdList"] == ["c2"]

    with_port(cluster, test)


def test_who_reads_a_group_is_known_before_its_retry_topic_is(cluster: LocalRocketMQ, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rocketpy.proxy.relay.RETRY_PREFIX", "%NOT_HEARD_OF%")
    topic = cluster.make_topic("New")

    async def test(address: str, peer: Peer) -> None:
        async with client_of(address) as client, client_of(address) as other:
            assert (await client.beat("new", topic)).code == ResponseCode.SUCCESS
            listed = await other.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, consumerGroup="new")
            assert json.loads(listed.body)["consumerIdList"] == ["c1"]
            assert (await other.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, consumerGroup="of nobody")).code == ResponseCode.SYSTEM_ERROR

    with_port(cluster, test)


def test_a_client_that_goes_is_gone_for_the_brokers(cluster: LocalRocketMQ) -> None:
    topic, group = cluster.make_topic("Leaving"), "leaving"

    async def test(address: str, peer: Peer) -> None:
        async with client_of(cluster.broker) as direct:
            async with client_of(address) as client:
                await client.beat(group, topic, "goes")
                await direct.beat(group, topic, "stays")
            while True:
                async with asyncio.timeout(PATIENCE_S):
                    await direct.told.get()
                listed = json.loads((await direct.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, consumerGroup=group)).body)
                if listed["consumerIdList"] == ["stays"]:
                    return

    with_port(cluster, test)


def test_what_names_no_broker_and_what_is_no_clients_is_refused(cluster: LocalRocketMQ) -> None:
    topic = cluster.make_topic("Alone")

    async def test(address: str, peer: Peer) -> None:
        async with client_of(address) as client:
            assert (await client.send(topic, b"of 4.9")).code == ResponseCode.SUCCESS, "the topic is on one broker alone"
            refused = {
                RequestCode.UPDATE_BROKER_CONFIG: ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
                RequestCode.DELETE_TOPIC_IN_BROKER: ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
                RequestCode.GET_ROUTEINFO_BY_TOPIC: ResponseCode.TOPIC_NOT_EXIST,
                RequestCode.GET_MAX_OFFSET: ResponseCode.VERSION_NOT_SUPPORTED,
            }
            for request, wanted in refused.items():
                assert (await client.ask(request, topic="Nowhere")).code == wanted
            assert (await client.ask(RequestCode.GET_MAX_OFFSET, topic=topic, queueId=0, bname="Nobody")).code == ResponseCode.SYSTEM_ERROR
            assert (await client.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, consumerGroup="none")).code == ResponseCode.SYSTEM_ERROR
            assert (await client.ask(RequestCode.HEART_BEAT, b"\xff")).code != ResponseCode.SUCCESS
            assert (await client.ask(RequestCode.GET_MAX_OFFSET, topic=topic, queueId=0, bname=BROKER)).fields["offset"] == "1"

    with_port(cluster, test)


def test_tls_comes_to_the_same_port(cluster: LocalRocketMQ) -> None:
    topic = cluster.make_topic("Sealed")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE

    async def test(address: str, peer: Peer) -> None:
        for tls in (context, None):
            async with client_of(address, tls=tls) as client:
                assert (await client.send(topic, b"x", n=BROKER)).code == ResponseCode.SUCCESS

    with_port(cluster, test, tls_test_mode_enable=True)


def test_a_client_that_asks_for_too_much_hurts_itself_alone(cluster: LocalRocketMQ, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = cluster.make_topic("Crowded")
    monkeypatch.setattr("rocketpy.proxy.relay.UNDER_WAY_MAX", 4)

    async def test(address: str, peer: Peer) -> None:
        async with client_of(address) as greedy, client_of(address) as other:
            pulls = [asyncio.ensure_future(greedy.pull(topic, "greedy", 60_000)) for _ in range(5)]
            done, waiting = await asyncio.wait(pulls, return_when=asyncio.FIRST_COMPLETED, timeout=PATIENCE_S)
            assert {each.result().code for each in done} == {ResponseCode.SYSTEM_BUSY} and len(waiting) == 4
            assert (await other.send(topic, b"x", n=BROKER)).code == ResponseCode.SUCCESS
            await asyncio.wait(waiting, timeout=PATIENCE_S)

    with_port(cluster, test)


def test_a_broker_that_does_not_answer_keeps_no_heartbeat_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        settings = ProxySettings(namesrv_addr="127.0.0.1:1")
        relay = Relay(Brokers(settings, lambda *_: None), Clients(lambda: 0, 1), None, "p:1")
        relay.opened(event := SimpleNamespace(connection_id=7, body=b"{}", fields={}, code=RequestCode.HEART_BEAT))  # type: ignore[arg-type]
        relay._guest(event).brokers |= {"dead", "full", "good"}  # type: ignore[arg-type]
        stuck = asyncio.Event()

        async def pass_on(request: Any, broker: str) -> Response:
            if broker == "dead":
                await stuck.wait()
            return Response(ResponseCode.SYSTEM_BUSY if broker == "full" else ResponseCode.SUCCESS, broker)

        monkeypatch.setattr(relay, "_pass_on", pass_on)
        answer = await asyncio.wait_for(relay._heartbeat(event), PATIENCE_S)  # type: ignore[arg-type]
        assert answer is not None and answer.remark == "good"
        stuck.set()
        await relay.stop()

    asyncio.run(run())


class Reached:
    """In the place of a guest's connections: the brokers that answer, those that cannot be reached, and those that say nothing."""

    def __init__(self, relay: Relay, monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
        self.asked: list[str] = []
        self.faults: dict[str, Exception] = {}
        self.known = {name: name for name in names}
        """Addresses by name, as the name server has them."""
        self.may_answer = asyncio.Event()
        self.may_answer.set()

        async def masters(topic: str) -> list[str]:
            return sorted(self.known) if topic == "t" else [topic] if topic in self.known else []

        async def address_of(broker: str) -> str:
            return broker

        async def invoke(address: str, *_: Any, **__: Any) -> Any:
            self.asked.append(address)
            await self.may_answer.wait()
            if address in self.faults:
                raise self.faults[address]
            return SimpleNamespace(code=ResponseCode.SUCCESS, remark=address, fields={}, body=b"")

        async def stop() -> None:
            pass

        monkeypatch.setattr(relay, "_masters", masters)
        monkeypatch.setattr(relay._brokers, "address_of", address_of)
        monkeypatch.setattr(Guest, "client_for", lambda *_: SimpleNamespace(invoke=invoke, stop=stop))


def relay_with_guest(request: int, body: bytes, **fields: str) -> tuple[Relay, Any, Guest]:
    relay = Relay(Brokers(ProxySettings(namesrv_addr="127.0.0.1:1"), lambda *_: None), Clients(lambda: 0, 1), None, "p:1")
    event: Any = SimpleNamespace(connection_id=7, body=body, fields=fields, code=request, is_oneway=False)
    relay.opened(event)
    return relay, event, relay._guest(event)


def test_brokers_of_the_topic_that_know_the_guest_are_asked_for_an_assignment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Java's clients name no broker. Some that are refused share the queues out themselves, and pull what their group is to pop."""

    async def run() -> None:
        relay, event, guest = relay_with_guest(RequestCode.QUERY_ASSIGNMENT, b'{"topic":"t"}')
        reached = Reached(relay, monkeypatch, "a", "b", "c", "d")

        async def ask(*brokers: str, lost: str = "") -> set[str]:
            answers = set()
            for _ in range(64):
                guest.brokers, guest.lost = set(brokers), set(lost)
                answer = await relay.handlers()[RequestCode.QUERY_ASSIGNMENT](event)
                assert answer is not None
                answers.add(str(answer.remark) if answer.code == ResponseCode.SUCCESS else "refused")
            return answers

        assert await ask("b", "x") == {"b"} and await ask("a", "c") == {"a", "c"} and await ask() == {"a", "b", "c", "d"}
        assert await ask("a", "b", lost="b") == {"a"} and await ask("b", lost="b") == {"b"}
        event.fields["bname"] = "c"
        assert await ask("a", "b") == await ask("b", "c") == {"c"}
        for fault in (NetworkError("connection refused"), TimedOut("no answer")):
            reached.faults = {"b": fault, "c": fault}
            assert await ask("a", "b") == {"a"} and await ask("c") == {"refused"}
            event.fields.clear()
            assert await ask("a", "b", "c") == {"a"} and await ask("b") == {"refused"}
            event.fields["bname"] = "c"
        reached.faults = {name: TimedOut("no answer") for name in "abcd"}
        reached.asked.clear()
        assert await ask("a", "b", "c", "d") == {"refused"} and len(reached.asked) == 3 * 64
        await relay.stop()

    asyncio.run(run())


def test_of_a_lost_broker_that_is_tried_again_nothing_else_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        relay, event, guest = relay_with_guest(RequestCode.HEART_BEAT, b"{}")
        reached = Reached(relay, monkeypatch, "back", "live")
        reached.faults = {"back": NetworkError("no route to host")}
        guest.brokers, guest.lost = {"live"}, {"back", "gone"}
        handlers = relay.handlers()
        beat, end = handlers[RequestCode.HEART_BEAT], handlers[RequestCode.END_TRANSACTION]
        reached.may_answer.clear()
        beats = [asyncio.ensure_future(beat(event)) for _ in range(3)]
        async with asyncio.timeout(PATIENCE_S):
            while "back" not in reached.asked or guest.brokers != {"live", "back"}:  # noqa: ASYNC110 - nobody is told
                await asyncio.sleep(0)
        for request in (end, handlers[RequestCode.CHECK_CLIENT_CONFIG]):
            event.code = RequestCode.END_TRANSACTION
            answer = asyncio.ensure_future(request(event))
            await asyncio.sleep(0)
            assert reached.asked[-1] == "live"
            reached.may_answer.set()
            assert (await answer).code == ResponseCode.SUCCESS  # type: ignore[union-attr]
            reached.may_answer.clear()
            guest.brokers.add("back")
        reached.may_answer.set()
        await asyncio.gather(*beats)
        await relay.stop()

    asyncio.run(run())


def test_a_lost_broker_is_tried_once_at_a_time_and_only_while_the_name_server_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        relay, event, guest = relay_with_guest(RequestCode.HEART_BEAT, b"{}")
        reached = Reached(relay, monkeypatch, "live")
        guest.brokers, guest.lost = {"live"}, {"lost"}

        async def beat() -> list[str]:
            reached.asked.clear()
            await relay.handlers()[RequestCode.HEART_BEAT](event)
            async with asyncio.timeout(PATIENCE_S):
                while relay._background:  # noqa: ASYNC110 - nobody is told
                    await asyncio.sleep(0)
            return sorted(reached.asked)

        assert await beat() == await beat() == ["live"] and guest.lost == {"lost"}, "it may come back"
        reached.known["lost"] = "lost"
        reached.may_answer.clear()
        reached.asked.clear()
        beats = [asyncio.ensure_future(relay._heartbeat(event)) for _ in range(9)]
        async with asyncio.timeout(PATIENCE_S):
            while len(reached.asked) < 9 + 1:  # noqa: ASYNC110 - nobody is told
                await asyncio.sleep(0)
        for _ in range(20):
            await asyncio.sleep(0)
        assert reached.asked.count("lost") == 1
        reached.may_answer.set()
        await asyncio.gather(*beats)
        assert await beat() == ["live", "lost"] and not guest.lost
        await relay.stop()

    asyncio.run(run())


def test_a_broker_that_is_back_is_told_of_producers_that_send_nothing_more() -> None:
    """It asks them how their transactions ended."""
    with LocalRocketMQ(keys={"brokerName": BROKER}) as cluster:
        topic = cluster.make_topic("Back")

        async def test(address: str, peer: Peer) -> None:
            async with client_of(address) as client, client_of(cluster.broker) as direct:
                assert (await client.send(topic, b"x", n=BROKER)).code == ResponseCode.SUCCESS
                await asyncio.to_thread(cluster.stop)
                assert (await client.send(topic, b"x", n=BROKER)).code == ResponseCode.SYSTEM_ERROR
                await asyncio.to_thread(cluster.start)
                async with asyncio.timeout(PATIENCE_S):
                    while True:
                        await client.ask(RequestCode.HEART_BEAT, {"clientID": "c1", "producerDataSet": [{"groupName": "producers"}]})
                        listed = await direct.ask(RequestCode.GET_PRODUCER_CONNECTION_LIST, producerGroup="producers")
                        if listed.code == ResponseCode.SUCCESS:
                            return

        with_port(cluster, test)


def test_a_heartbeat_has_few_topics_looked_up() -> None:
    guest = Guest(1, None, lambda *_: None)
    subscriptions = [{"topic": f"t{number}"} for number in range(100)]
    body = json.dumps({"clientID": "c", "consumerDataSet": [{"groupName": "g", "subscriptionDataSet": subscriptions}]}).encode()
    guest.learn(body)
    looked_up = [guest.new_topics() for _ in range(5)]
    assert [len(each) for each in looked_up] == [16, 16, 16, 16, 0] and guest.topics_of("g")[:2] == ("t0", "t1")
    for odd in (b"", b"[]", b'{"clientID":"c","consumerDataSet":7}', b"\xff"):
        guest.learn(odd)
    assert guest.topics_of("g"), "what cannot be read changes nothing"


def test_of_what_a_heartbeat_says_little_is_kept() -> None:
    guest = Guest(1, None, lambda *_: None)
    long, many = "x" * 256, [{"topic": f"t{number}"} for number in range(64)]
    groups = [{"groupName": f"g{number}", "subscriptionDataSet": [{"topic": long}, *many]} for number in range(20)]
    guest.learn(json.dumps({"clientID": "c", "consumerDataSet": [{"groupName": long}, *groups]}).encode())
    kept = [guest.topics_of(f"g{number}") for number in range(20)]
    assert [len(topics) for topics in kept] == [64] * 16 + [0] * 4 and not any(long in topics for topics in kept)
    assert guest.topics_of(long) == () and guest.new_topics()
    guest.learn(b'{"clientID":"c"}')
    assert not guest._looked_up, "nor what it has looked up for what it said before"


def test_the_connections_of_a_group_are_those_of_both_kinds(cluster: LocalRocketMQ) -> None:
    topic, group = cluster.make_topic("Both"), "both"

    async def test(address: str, peer: Peer) -> None:
        async with client_of(address) as client:
            nobody = await client.ask(RequestCode.GET_CONSUMER_CONNECTION_LIST, consumerGroup=group)
            assert nobody.code == ResponseCode.CONSUMER_NOT_ONLINE
            async with peer.telemetry(**consumer(topic, group)):
                alone = json.loads((await client.ask(RequestCode.GET_CONSUMER_CONNECTION_LIST, consumerGroup=group)).body)
                (connection,) = alone["connectionSet"]
                assert connection["language"] == "PYTHON" and connection["clientAddr"].startswith("127.0.0.1:")
                assert alone["consumeType"] == "CONSUME_ACTIVELY" and alone["subscriptionTable"][topic]["subString"] == "*"
                await client.beat(group, topic, "four")
                both = json.loads((await client.ask(RequestCode.GET_CONSUMER_CONNECTION_LIST, consumerGroup=group)).body)
                assert sorted(each["clientId"] for each in both["connectionSet"]) == ["c1", "four"]

    with_port(cluster, test)


def test_who_comes_by_the_other_port_is_asked_too(cluster: LocalRocketMQ, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = cluster.make_topic("Asked")
    monkeypatch.setattr("rocketpy.proxy.service.LOOK_S", 0.05)

    async def test(address: str, peer: Peer) -> None:
        await new_user(cluster, "four", (f"Topic:{topic}", "Pub", "Allow"))
        assert code(await peer.ask("SendMessage", messages=[message(topic)])) == "UNAUTHORIZED"  # whoever is refused has the users copied
        async with client_of(address, Credentials("four", "secret of four")) as four, client_of(address) as stranger:
            async with asyncio.timeout(PATIENCE_S):
                while (await four.send(topic, b"x", n=BROKER)).code != ResponseCode.SUCCESS:  # noqa: ASYNC110 - it is looked at now and then
                    await asyncio.sleep(0.05)
            assert (await four.send("Other", b"x", n=BROKER)).code == ResponseCode.NO_PERMISSION
            assert (await stranger.send(topic, b"x", n=BROKER)).code == ResponseCode.NO_PERMISSION

    with_port(cluster, test, **CHECKS)
