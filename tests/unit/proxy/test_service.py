"""A whole proxy before a broker in this process, asked by grpc's own client: in the clear and by TLS, rightly and wrongly."""

from __future__ import annotations

import asyncio
import gc
import re
import socket
import ssl
import time
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio
import pytest

from rocketpy.proxy import schema
from rocketpy.proxy.context import now_ms
from rocketpy.proxy.service import ProxyService
from rocketpy.proxy.settings import NO_PORT, ProxySettings
from rocketpy.remoting.client import RemotingClient
from rocketpy.remoting.codes import RequestCode
from rocketpy.remoting.headers import CreateTopicRequestHeader, GetMaxOffsetRequestHeader
from rocketpy.remoting.json_codec import read_object, write_json
from rocketpy.remoting.queue_mapping import MappingItem, QueueMapping
from rocketpy.testing import LocalRocketMQ
from tests.processes import PATIENCE_S

HEADERS = (("x-mq-client-id", "c1"), ("x-mq-language", "PYTHON"), ("x-mq-client-version", "5.1.2"))


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalRocketMQ]:
    with LocalRocketMQ() as rocketmq:
        yield rocketmq


class Peer:
    """A client without a library of RocketMQ's."""

    def __init__(self, channel: Any) -> None:
        self._channel = channel

    def _method(self, kind: str, name: str) -> Any:
        make = getattr(self._channel, kind)
        path = f"/{schema.SERVICE}/{name}"
        return make(path, schema.request_of(name).SerializeToString, schema.response_of(name).FromString)

    async def ask(self, name: str, headers: Any = HEADERS, **fields: Any) -> Any:
        return await self._method("unary_unary", name)(schema.request_of(name)(**fields), metadata=headers, timeout=PATIENCE_S)

    async def receive(self, topic: str, group: str, **fields: Any) -> tuple[str, list[Any]]:
        """(the status' code, messages)."""
        request = schema.message("ReceiveMessageRequest")(
            group={"name": group}, message_queue={"topic": {"name": topic}}, batch_size=16, **fields
        )
        code, messages = "", []
        async for answer in self._method("unary_stream", "ReceiveMessage")(request, metadata=HEADERS, timeout=PATIENCE_S):
            kind = answer.WhichOneof("content")
            if kind == "status":
                code = schema.label("Code", answer.status.code)
            elif kind == "message":
                messages.append(answer.message)
        return code, messages

    @asynccontextmanager
    async def telemetry(self, headers: Any = HEADERS, **settings: Any) -> AsyncIterator[Any]:
        """The stream, with the answer to the settings read: stream.answer."""
        stream = self._method("stream_stream", "Telemetry")(metadata=headers)
        await stream.write(schema.message("TelemetryCommand")(settings=settings))
        stream.answer = await stream.read()
        try:
            yield stream
        finally:
            stream.cancel()


def message(topic: str, body: bytes = b"hello", **system: Any) -> Any:
    return schema.message("Message")(topic={"name": topic}, body=body, system_properties={"message_id": "M1", **system})


def code(answer: Any) -> str:
    return schema.label("Code", answer.status.code)


def running(cluster: LocalRocketMQ, test: Callable[[Peer, ProxyService], Awaitable[None]], **settings: Any) -> None:
    async def run() -> None:
        ports = {"grpc_server_port": 0, "remoting_listen_port": NO_PORT, "local_serve_addr": "127.0.0.1"}
        given = {**ports, "tls_test_mode_enable": False, **settings}
        proxy = ProxyService(ProxySettings(namesrv_addr=cluster.namesrv, **given))
        await proxy.start()
        try:
            async with grpc.aio.insecure_channel(f"127.0.0.1:{proxy.port}") as channel:
                await test(Peer(channel), proxy)
        finally:
            await proxy.stop()

    asyncio.run(run())


def consumer(topic: str, group: str) -> dict[str, Any]:
    subscription = {"group": {"name": group}, "subscriptions": [{"topic": {"name": topic}, "expression": {"expression": "*"}}]}
    return {"client_type": schema.number("ClientType", "SIMPLE_CONSUMER"), "subscription": subscription}


def test_a_message_is_sent_received_put_off_and_acknowledged(cluster: LocalRocketMQ) -> None:
    topic = cluster.make_topic("Shop")

    async def test(peer: Peer, proxy: ProxyService) -> None:
        route = await peer.ask("QueryRoute", topic={"name": topic}, endpoints={"scheme": 1, "addresses": [{"host": "h", "port": 1}]})
        assert code(route) == "OK" and len(route.message_queues) == 4
        assert {queue.broker.endpoints.addresses[0].port for queue in route.message_queues} == {proxy.port}
        async with peer.telemetry(**consumer(topic, "g")) as stream:
            assert stream.answer.settings.subscription.receive_batch_size == 32
            assert stream.answer.settings.backoff_policy.max_attempts == 17
            assert code(await peer.ask("Heartbeat", group={"name": "g"})) == "OK"
            waiting = asyncio.ensure_future(peer.receive(topic, "g", invisible_duration={"seconds": 30}))
            sent = await peer.ask("SendMessage", messages=[message(topic, tag="T", keys=["k"])])
            assert code(sent) == "OK" and sent.entries[0].message_id == "M1"
            got, (received,) = await waiting
            assert got == "OK" and (received.body, received.topic.name) == (b"hello", topic)
            system = received.system_properties
            assert (system.tag, list(system.keys), system.message_id, system.delivery_attempt) == ("T", ["k"], "M1", 1)
            assert system.born_host == "127.0.0.1"
            handle = {"group": {"name": "g"}, "topic": {"name": topic}}
            changed = await peer.ask(
                "ChangeInvisibleDuration", **handle, receipt_handle=system.receipt_handle, invisible_duration={"seconds": 20}
            )
            assert code(changed) == "OK" and changed.receipt_handle != system.receipt_handle
            acked = await peer.ask("AckMessage", **handle, entries=[{"message_id": "M1", "receipt_handle": changed.receipt_handle}])
            assert code(acked) == "OK"
            wrong = await peer.ask("AckMessage", **handle, entries=[{"receipt_handle": "x"}, {"receipt_handle": "1 1 1 1 0 b 1 1"}])
            assert code(wrong) == "INVALID_RECEIPT_HANDLE" and len(wrong.entries) == 2
            nowhere = await peer.ask("AckMessage", **handle, entries=[{"receipt_handle": f"1 {now_ms()} 60000 0 0 no-broker 1 1"}])
            assert (code(nowhere), nowhere.entries[0].status.message) == ("INVALID_RECEIPT_HANDLE", "cannot find broker no-broker")
        assert code(await peer.ask("NotifyClientTermination", group={"name": "g"})) == "OK"

    running(cluster, test)


def test_a_client_that_cuts_its_telemetry_off_leaves_no_task_behind(cluster: LocalRocketMQ) -> None:
    """As the Rust client does after NotifyClientTermination; what is left is an error in the log once it is collected."""
    topic = cluster.make_topic("Shop")

    def waits() -> bool:
        return any("Queue.get" in repr(task.get_coro()) for task in asyncio.all_tasks())

    async def test(peer: Peer, proxy: ProxyService) -> None:
        complaints: list[str] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context["message"]))
        async with peer.telemetry(**consumer(topic, "g")):
            assert code(await peer.ask("NotifyClientTermination", group={"name": "g"})) == "OK"
            assert waits()
        async with asyncio.timeout(PATIENCE_S):
            while waits():
                await asyncio.sleep(0.01)
                gc.collect()
        assert complaints == []

    running(cluster, test)


def test_no_client_is_forgotten_for_a_clock_that_is_set_or_a_process_that_stood_still(
    cluster: LocalRocketMQ, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would send its settings again after minutes, and receive nothing until then."""
    topic = cluster.make_topic("Clocks")
    jump_ns = 3_600_000_000_000
    wall_ns, monotonic_ns = time.time_ns, time.monotonic_ns

    async def test(peer: Peer, proxy: ProxyService) -> None:
        async with peer.telemetry(**consumer(topic, "g")):
            with monkeypatch.context() as turned:
                turned.setattr(time, "time_ns", lambda: wall_ns() + jump_ns)
                proxy._clients.expire()
                assert len(proxy._clients) == 1
                turned.setattr(time, "monotonic_ns", lambda: monotonic_ns() + jump_ns)
                proxy._clients.expire()
                assert len(proxy._clients) == 1

    running(cluster, test)


def test_a_static_topic_is_sent_to_by_its_global_queues(cluster: LocalRocketMQ) -> None:
    """The broker leads one of them, by the second of its four queues; the others are nobody's just now."""
    topic = cluster.make_topic("Static")

    async def test(peer: Peer, proxy: ProxyService) -> None:
        async with RemotingClient() as client:
            header = CreateTopicRequestHeader(
                topic=topic, default_topic="", read_queue_nums=4, write_queue_nums=4, perm=6, topic_filter_type="SINGLE_TAG", order=False
            )
            info = await client.call(cluster.namesrv, RequestCode.GET_BROKER_CLUSTER_INFO)
            (name,) = read_object(info.body)["brokerAddrTable"]
            mapping = QueueMapping(topic, 8, name, 1, {5: (MappingItem(0, 1, name, 0),)})
            await client.call(cluster.broker, RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC, header, write_json(mapping.to_json()))
        async with peer.telemetry(**consumer(topic, "g")):
            for offset in range(3):  # the first by Python, the others without
                sent = await peer.ask("SendMessage", messages=[message(topic, b"%d" % offset)])
                assert (code(sent), sent.entries[0].offset) == ("OK", offset)
            bodies = set[bytes]()
            async with asyncio.timeout(PATIENCE_S):
                while len(bodies) < 3:
                    _, received = await peer.receive(topic, "g", invisible_duration={"seconds": 30})
                    bodies |= {each.body for each in received}

    running(cluster, test)


@pytest.mark.parametrize(
    ("wanted", "method", "fields"),
    [
        ("TOPIC_NOT_FOUND", "QueryRoute", {"topic": {"name": "Nowhere"}}),
        ("ILLEGAL_TOPIC", "QueryRoute", {"topic": {"name": "TBW102"}}),
        ("TOPIC_NOT_FOUND", "QueryAssignment", {"topic": {"name": "Nowhere"}, "group": {"name": "g"}}),
        ("ILLEGAL_CONSUMER_GROUP", "QueryAssignment", {"topic": {"name": "Wrong"}, "group": {"name": "g" * 121}}),
        ("MESSAGE_CORRUPTED", "SendMessage", {}),
        ("MESSAGE_CORRUPTED", "SendMessage", {"messages": [message("Wrong"), message("Other")]}),
        ("MESSAGE_BODY_EMPTY", "SendMessage", {"messages": [message("Wrong", b"")]}),
        ("MESSAGE_BODY_TOO_LARGE", "SendMessage", {"messages": [message("Wrong", b"x" * (4 * 1024 * 1024 + 1))]}),
        ("MESSAGE_PROPERTY_CONFLICT_WITH_TYPE", "SendMessage", {"messages": [message("Wrong", message_group="g")]}),
        ("UNRECOGNIZED_CLIENT_TYPE", "Heartbeat", {}),
        ("UNRECOGNIZED_CLIENT_TYPE", "NotifyClientTermination", {}),
        ("INVALID_TRANSACTION_ID", "EndTransaction", {"topic": {"name": "Wrong"}}),
        ("INVALID_TRANSACTION_ID", "EndTransaction", {"topic": {"name": "Wrong"}, "transaction_id": "T"}),
        ("ILLEGAL_INVISIBLE_TIME", "ChangeInvisibleDuration", {"topic": {"name": "Wrong"}, "group": {"name": "g"}, "invisible_duration": {"seconds": 43_201}}),  # noqa: E501
        ("INTERNAL_SERVER_ERROR", "AckMessage", {"topic": {"name": "Wrong"}, "group": {"name": "g"}}),
        ("INVALID_RECEIPT_HANDLE", "ForwardMessageToDeadLetterQueue", {"topic": {"name": "Wrong"}, "group": {"name": "g"}}),
    ],
)  # fmt: skip
def test_what_is_wrong_is_answered_by_its_code(cluster: LocalRocketMQ, wanted: str, method: str, fields: dict[str, Any]) -> None:
    cluster.make_topic("Wrong")

    async def test(peer: Peer, proxy: ProxyService) -> None:
        assert code(await peer.ask(method, **fields)) == wanted
        for headers in ((), (("x-mq-client-id", " "),)):
            assert code(await peer.ask(method, headers=headers, **fields)) == "CLIENT_ID_REQUIRED"

    running(cluster, test)


@pytest.mark.parametrize("kind", ["CLIENT_TYPE_UNSPECIFIED", "PRODUCER", "PULL_CONSUMER", "LITE_SIMPLE_CONSUMER", 99])
def test_who_subscribes_is_a_consumer_of_a_kind_that_there_is(cluster: LocalRocketMQ, kind: str | int) -> None:
    topic, number = cluster.make_topic("Shop"), kind if isinstance(kind, int) else schema.number("ClientType", kind)

    async def test(peer: Peer, proxy: ProxyService) -> None:
        with pytest.raises(grpc.aio.AioRpcError, match=f"Client type is not consumer, type: {kind}") as raised:
            async with peer.telemetry(**{**consumer(topic, "g"), "client_type": number}):
                pass
        assert raised.value.code() == grpc.StatusCode.INTERNAL
        assert await peer.receive(topic, "g") == ("UNRECOGNIZED_CLIENT_TYPE", [])

    running(cluster, test)


def test_a_route_names_endpoints_that_can_be(cluster: LocalRocketMQ) -> None:
    topic = {"name": cluster.make_topic("Shop")}

    async def test(peer: Peer, proxy: ProxyService) -> None:
        for scheme in (0, 2):
            route = await peer.ask("QueryRoute", topic=topic, endpoints={"scheme": scheme})
            assert {each.broker.endpoints.scheme for each in route.message_queues} == {schema.number("AddressScheme", "IPv4")}
        for port, wanted in ((65_535, "OK"), (65_536, "BAD_REQUEST"), (-1, "BAD_REQUEST")):
            endpoints = {"scheme": 1, "addresses": [{"host": "127.0.0.1", "port": port}]}
            for method in ("QueryRoute", "QueryAssignment"):
                group = {"group": {"name": "g"}} if method == "QueryAssignment" else {}
                assert code(await peer.ask(method, topic=topic, endpoints=endpoints, **group)) == wanted

    running(cluster, test, use_endpoint_port_from_request=True)


def test_a_dead_letter_is_stored_once_whatever_topic_its_consumer_names(cluster: LocalRocketMQ) -> None:
    """Its ack fails, of a topic that is none: whoever heard so would send it to the dead letters again."""
    topic = cluster.make_topic("Lost")

    async def test(peer: Peer, proxy: ProxyService) -> None:
        assert code(await peer.ask("SendMessage", messages=[message(topic)])) == "OK"
        async with peer.telemetry(**consumer(topic, "losing")):
            limits = {"invisible_duration": {"seconds": 30}, "long_polling_timeout": {"seconds": 1}}
            (received,) = (await peer.receive(topic, "losing", **limits))[1]
            said = {"receipt_handle": received.system_properties.receipt_handle, "message_id": received.system_properties.message_id}
            answer = await peer.ask("ForwardMessageToDeadLetterQueue", group={"name": "losing"}, topic={"name": "NoTopic"}, **said)
            assert code(answer) == "OK", answer.status.message
        async with RemotingClient() as client:
            header = GetMaxOffsetRequestHeader(topic="%DLQ%losing", queue_id=0)
            assert (await client.call(cluster.broker, RequestCode.GET_MAX_OFFSET, header)).fields["offset"] == "1"

    running(cluster, test)


def consumer_filtering(kind: int, text: str) -> dict[str, Any]:
    entry = {"topic": {"name": "Filtered"}, "expression": {"type": kind, "expression": text}}
    return {"client_type": 3, "subscription": {"group": {"name": "filtering"}, "subscriptions": [entry]}}


@pytest.mark.parametrize(("kind", "text"), [(1, "||"), (2, "")])
def test_a_filter_that_is_none_is_refused_where_it_is_announced_and_where_it_is_used(cluster: LocalRocketMQ, kind: int, text: str) -> None:
    cluster.make_topic("Filtered")

    async def test(peer: Peer, proxy: ProxyService) -> None:
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            async with peer.telemetry(**consumer_filtering(kind, text)):
                pass
        assert raised.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        limits = {"invisible_duration": {"seconds": 30}, "long_polling_timeout": {"seconds": 1}}
        async with peer.telemetry(**consumer_filtering(1, "*")):
            for _ in range(2):  # what is usual is native once the topic is known
                assert (await peer.receive("Filtered", "filtering", **limits))[0] == "MESSAGE_NOT_FOUND"
                used = {"filter_expression": {"type": kind, "expression": text}, **limits}
                assert await peer.receive("Filtered", "filtering", **used) == ("ILLEGAL_FILTER_EXPRESSION", [])

    running(cluster, test)


def test_nothing_is_received_of_a_topic_without_queues_to_read(cluster: LocalRocketMQ) -> None:
    async def test(peer: Peer, proxy: ProxyService) -> None:
        async with RemotingClient() as client:
            queues = {"read_queue_nums": 0, "write_queue_nums": 4, "perm": 6}
            header = CreateTopicRequestHeader(topic="Unread", default_topic="", topic_filter_type="SINGLE_TAG", order=False, **queues)
            await client.call(cluster.broker, RequestCode.UPDATE_AND_CREATE_TOPIC, header)
        async with peer.telemetry(**consumer("Unread", "g")):
            limits = {"invisible_duration": {"seconds": 30}, "long_polling_timeout": {"seconds": 1}}
            assert await peer.receive("Unread", "g", **limits) == ("FORBIDDEN", [])

    running(cluster, test)


def test_who_has_not_said_what_he_is_receives_nothing(cluster: LocalRocketMQ) -> None:
    async def test(peer: Peer, proxy: ProxyService) -> None:
        assert await peer.receive("Shop", "g") == ("UNRECOGNIZED_CLIENT_TYPE", [])
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            async with peer.telemetry(client_type=1):
                pass
        assert raised.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        async with peer.telemetry(headers=HEADERS[1:], client_type=1, publishing={"topics": [{"name": "Shop"}]}) as stream:
            assert code(stream.answer) == "CLIENT_ID_REQUIRED"
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await peer.ask("GetOffset")
        assert raised.value.code() == grpc.StatusCode.UNIMPLEMENTED

    running(cluster, test)


def test_tls_and_clear_text_come_to_one_port(cluster: LocalRocketMQ) -> None:
    topic = cluster.make_topic("Safe")

    async def test(peer: Peer, proxy: ProxyService) -> None:
        assert code(await peer.ask("QueryRoute", topic={"name": topic})) == "OK"
        certificate = await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", proxy.port))
        credentials = grpc.ssl_channel_credentials(certificate.encode())
        options = [("grpc.ssl_target_name_override", "localhost")]
        async with grpc.aio.secure_channel(f"127.0.0.1:{proxy.port}", credentials, options) as channel:
            assert code(await Peer(channel).ask("QueryRoute", topic={"name": topic})) == "OK"

    running(cluster, test, tls_test_mode_enable=True)


def test_credentials_that_nothing_is_signed_with_are_told(cluster: LocalRocketMQ, caplog: pytest.LogCaptureFixture) -> None:
    """Whoever forgets the other key hears only that users cannot be copied."""

    async def test(peer: Peer, proxy: ProxyService) -> None:
        assert ("enableAclRpcHookForClusterMode=true" in caplog.text) is (proxy.settings.credentials is None)
        caplog.clear()

    for is_signed in (False, True):
        given = {"inner_client_authentication_credentials": '{"accessKey":"proxy","secretKey":"s3cret"}'}
        running(cluster, test, **given, enable_acl_rpc_hook_for_cluster_mode=is_signed)


class Balancer:
    """Passes connections on to a port, with what it is told to say first, a byte at a time."""

    def __init__(self, port: int, header: bytes) -> None:
        self._port, self._header = port, header

    async def start(self) -> int:
        self._server = await asyncio.start_server(self._pass_on, "127.0.0.1", 0)
        return int(self._server.sockets[0].getsockname()[1])

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._port)
        for at in range(len(self._header)):
            up_writer.write(self._header[at : at + 1])
            await up_writer.drain()
        await asyncio.gather(self._copy(reader, up_writer), self._copy(up_reader, writer), return_exceptions=True)

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
        writer.close()

    async def stop(self) -> None:
        self._server.close()


@pytest.mark.parametrize(
    ("header", "born"),
    [
        (b"PROXY TCP4 10.1.2.3 10.0.0.1 4711 8081\r\n", "10.1.2.3"),
        (b"\r\n\r\n\0\r\nQUIT\n\x21\x21\0\x24" + bytes(15) + b"\x01" + bytes(15) + b"\x02\x12\x34\x1f\x91", "::1"),
        (b"PROXY UNKNOWN\r\n", "127.0.0.1"),
    ],
    ids=["text", "binary", "nobody"],
)
def test_a_balancer_says_who_the_client_is(cluster: LocalRocketMQ, header: bytes, born: str) -> None:
    topic = cluster.make_topic("Balanced")

    async def test(_: Peer, proxy: ProxyService) -> None:
        balancer = Balancer(proxy.port, header)
        async with grpc.aio.insecure_channel(f"127.0.0.1:{await balancer.start()}") as channel:
            peer = Peer(channel)
            async with peer.telemetry(**consumer(topic, "balanced")):
                waiting = asyncio.ensure_future(peer.receive(topic, "balanced", invisible_duration={"seconds": 30}))
                assert code(await peer.ask("SendMessage", messages=[message(topic)])) == "OK"
                _, (received,) = await waiting
                assert received.system_properties.born_host == born
                acked = [{"message_id": "M1", "receipt_handle": received.system_properties.receipt_handle}]
                await peer.ask("AckMessage", topic={"name": topic}, group={"name": "balanced"}, entries=acked)
        await balancer.stop()

    running(cluster, test)


def test_strangers_hurt_nobody(cluster: LocalRocketMQ) -> None:
    topic = cluster.make_topic("Calm")

    async def test(peer: Peer, proxy: ProxyService) -> None:
        for garbage in (
            b"\x16",
            b"\x16\x03\x01\xff\xff" + b"x" * 500,
            b"GET / HTTP/1.1\r\n\r\n",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 900,
        ):
            with socket.create_connection(("127.0.0.1", proxy.port)) as stranger:
                stranger.sendall(garbage)
        silent = [socket.create_connection(("127.0.0.1", proxy.port)) for _ in range(50)]
        assert code(await peer.ask("QueryRoute", topic={"name": topic})) == "OK"
        for each in silent:
            each.close()

    running(cluster, test)


def test_metrics_say_that_it_is_up_and_how_long_calls_took(cluster: LocalRocketMQ) -> None:
    topic = cluster.make_topic("Measured")

    async def test(peer: Peer, proxy: ProxyService) -> None:
        assert code(await peer.ask("SendMessage", messages=[message(topic)])) == "OK"
        assert code(await peer.ask("QueryRoute", topic={"name": "Nowhere"})) == "TOPIC_NOT_FOUND"
        async with peer.telemetry(**consumer(topic, "g")):
            text = (await asyncio.to_thread(urllib.request.urlopen, f"http://127.0.0.1:{proxy.metrics_port}/metrics")).read().decode()
        assert 'rocketmq_proxy_up{cluster="c",node_id="p",node_type="proxy",proxy_mode="cluster",zone="z"} 1.0' in text
        latency = re.findall(r'rocketmq_rpc_latency_milliseconds_count{.*?request_code="(.*?)",response_code="(.*?)".*?} (.*)', text)
        assert sorted(latency) == [("QueryRoute", "TOPIC_NOT_FOUND", "1.0"), ("SendMessage", "OK", "1.0")]
        assert re.search(r'rocketmq_consumer_connections{.*consumer_group="g".*protocol_type="grpc_v2".*} 1.0', text)

    settings = {"metrics_exporter_type": "PROM", "metrics_prom_exporter_port": 0, "metrics_label": "zone:z"}
    running(cluster, test, **settings, proxy_name="p", proxy_cluster_name="c")
