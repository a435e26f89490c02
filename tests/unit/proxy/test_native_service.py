"""A whole proxy whose usual messages are sent without Python, before a broker that does what it is told: it is asked natively what Python
would ask, and whatever it does, each call ends once.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio
import pytest

from rocketpy._core.remoting import Command, decode_command, encode_command, scan_frame
from rocketpy.auth.acls import Acl
from rocketpy.auth.users import User
from rocketpy.proxy import schema
from rocketpy.proxy.context import now_ms
from rocketpy.proxy.handles import ReceiptHandle
from rocketpy.proxy.renewals import Held
from rocketpy.proxy.service import ProxyService
from rocketpy.proxy.settings import NO_PORT, ProxySettings
from rocketpy.remoting.codes import RequestCode, SerializeType
from rocketpy.remoting.credentials import signature
from rocketpy.remoting.json_codec import write_json
from rocketpy.remoting.latencies import Kind
from tests.processes import PATIENCE_S
from tests.unit.proxy.http2 import PREFACE, Peer, call
from tests.unit.proxy.http2 import settings as http2_settings
from tests.unit.proxy.test_authority import signed_by

HEADERS = (("x-mq-client-id", "c1"), ("x-mq-language", "PYTHON"), ("x-mq-client-version", "5.1.2"))
TOPIC = "Sent"


@dataclass
class Answer:
    """What a broker says to a send: a code and fields; silence; or the end of the connection."""

    code: int = 0
    fields: dict[str, str] | None = None
    remark: str | None = None
    is_silent: bool = False
    hangs_up: bool = False


STORED = Answer(fields={"queueOffset": "7", "msgId": "7F00000100002A9F" + "0" * 16})


class Broker:
    """A name server and the only broker that it knows, on one port. `script` says what becomes of each send, then all are stored."""

    def __init__(self) -> None:
        self.sends: list[Command] = []
        self.changes: list[str] = []
        """Handles whose invisible time was changed."""
        self.script: list[Answer] = []
        self.connections = 0
        self.open: set[asyncio.StreamWriter] = set()
        self.topic_type = "NORMAL"
        self.address = ""

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        self._server.close()
        for each in list(self.open):
            each.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open.add(writer)
        data = b""
        try:
            while chunk := await reader.read(65536):
                data += chunk
                while (size := scan_frame(data) if data else 0) and size <= len(data):
                    request, data = decode_command(data[:size]), data[size:]
                    if not self._answer(request, writer):
                        return
        finally:
            self.open.discard(writer)
            writer.close()

    def _answer(self, request: Command, writer: asyncio.StreamWriter) -> bool:
        body, answer = b"", Answer()
        if request.code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
            queues = [{"brokerName": "b", "perm": 6, "readQueueNums": 2, "topicSysFlag": 0, "writeQueueNums": 2}]
            brokers = [{"brokerAddrs": {"0": self.address}, "brokerName": "b", "cluster": "c"}]
            body = write_json({"brokerDatas": brokers, "queueDatas": queues, "filterServerTable": {}})
        elif request.code == RequestCode.GET_TOPIC_CONFIG:
            body = write_json({"topicName": TOPIC, "attributes": {"message.type": self.topic_type}})
        elif request.code in (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE, RequestCode.ACK_MESSAGE):
            self.sends.append(request)
            answer = self.script.pop(0) if self.script else STORED
        elif request.code == RequestCode.CHANGE_MESSAGE_INVISIBLETIME:
            self.changes.append(request.fields["extraInfo"])
            answer = Answer(fields={"popTime": str(now_ms()), "invisibleTime": "1000", "reviveQid": "0"})
        else:
            answer = Answer(1, remark="not here")
        if not answer.is_silent and not answer.hangs_up:
            kind = request.serialize_type
            writer.write(
                encode_command(answer.code, answer.fields, body, opaque=request.opaque, flag=1, remark=answer.remark, serialize_type=kind)
            )
        return not answer.hangs_up

    @property
    def kinds(self) -> str:
        """How each send came: P by Python, N natively. The native side writes the other encoding."""
        return "".join("N" if each.serialize_type == SerializeType.ROCKETMQ else "P" for each in self.sends)


class Client:
    """Sends and acknowledges by grpc's own client."""

    def __init__(self, channel: Any) -> None:
        self._send, self._ack = (
            channel.unary_unary(f"/{schema.SERVICE}/{name}", schema.request_of(name).SerializeToString, schema.response_of(name).FromString)
            for name in ("SendMessage", "AckMessage")
        )
        self._ids = itertools.count(1)

    def begin_ack(self, *handles: str, client_id: str = "c1", headers: Any = ()) -> Any:
        entries = [{"message_id": "M", "receipt_handle": handle} for handle in handles]
        request = schema.message("AckMessageRequest")(topic={"name": TOPIC}, group={"name": "g"}, entries=entries)
        return self._ack(request, metadata=(*headers, ("x-mq-client-id", client_id)), timeout=PATIENCE_S)

    async def ack(self, *handles: str, client_id: str = "c1", headers: Any = ()) -> tuple[str, Any]:
        answer = await self.begin_ack(*handles, client_id=client_id, headers=headers)
        return schema.label("Code", answer.status.code), answer

    def request(self, count: int = 1, body: bytes = b"hello", **system: Any) -> Any:
        """So many messages in one request."""
        messages = [
            schema.message("Message")(
                topic={"name": TOPIC}, body=body, user_properties={"color": "red"},
                system_properties={"message_id": f"M{next(self._ids)}", "tag": "T", "keys": ["k"], **system},
            )
            for _ in range(count)
        ]  # fmt: skip
        return schema.message("SendMessageRequest")(messages=messages)

    def begin(self, headers: Any = HEADERS, timeout: float = PATIENCE_S, **given: Any) -> Any:
        return self._send(self.request(**given), metadata=headers, timeout=timeout)

    async def send(self, **given: Any) -> tuple[str, Any]:
        answer = await self.begin(**given)
        return schema.label("Code", answer.status.code), answer


def running(test: Callable[[Client, Broker, ProxyService], Awaitable[None]], **settings: Any) -> None:
    async def run() -> None:
        broker = Broker()
        await broker.start()
        ports = {"grpc_server_port": 0, "remoting_listen_port": NO_PORT, "local_serve_addr": "127.0.0.1"}
        given = {**ports, "tls_test_mode_enable": False, **settings}
        proxy = ProxyService(ProxySettings(namesrv_addr=broker.address, **given))
        await proxy.start()
        try:
            async with grpc.aio.insecure_channel(f"127.0.0.1:{proxy.port}") as channel:
                await test(Client(channel), broker, proxy)
        finally:
            await proxy.stop()
            await broker.stop()

    asyncio.run(run())


def figures(proxy: ProxyService) -> dict[str, int]:
    assert proxy.native is not None
    return proxy.native.handler.stats()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 - of a proxy's figures nobody is told
            await asyncio.sleep(0.005)


def test_the_first_message_of_a_topic_comes_by_python_and_the_others_say_the_same_without_it() -> None:
    async def test(client: Client, broker: Broker, proxy: ProxyService) -> None:
        for _ in range(5):
            code, answer = await client.send()
            assert code == "OK" and (answer.entries[0].offset, answer.entries[0].status.message) == (7, "OK")
        assert broker.kinds == "PNNNN"
        first, second = (dict(each.fields) for each in (broker.sends[0], broker.sends[1]))
        assert first.pop("i").replace("M1", "M2") == second.pop("i") and first == second
        assert broker.sends[0].body == broker.sends[1].body == b"hello"
        assert answer.entries[0].message_id == "M5"
        assert figures(proxy) == {**dict.fromkeys(figures(proxy), 0), "sent": 4, "answered": 4, "punted": 1, "upstreams": 1}

    running(test)


def test_several_messages_of_a_call_go_without_python_as_one_batch() -> None:
    async def test(client: Client, broker: Broker, proxy: ProxyService) -> None:
        for _ in range(3):
            code, answer = await client.send(count=3)
            assert code == "OK" and len(answer.entries) == 1 and answer.entries[0].offset == 7
        assert answer.entries[0].message_id == "M7,M8,M9"
        assert broker.kinds == "PNN" and {each.code for each in broker.sends} == {RequestCode.SEND_BATCH_MESSAGE}
        first, second = broker.sends[:2]
        assert bytes(first.body).replace(b"M1", b"M4").replace(b"M2", b"M5").replace(b"M3", b"M6") == bytes(second.body)
        assert first.fields["i"].replace("M1", "M4") == second.fields["i"] and second.fields["m"] == "true"
        broker.script = [Answer(1500), Answer(13, remark="too large"), Answer(hangs_up=True)]
        assert [(await client.send(count=2))[0] for _ in range(3)] == ["INTERNAL_SERVER_ERROR"] * 2 + ["OK"]
        assert broker.kinds == "PNNNPNN" and figures(proxy)["waiting"] == 0

    running(test)


@pytest.mark.parametrize(
    ("topic_type", "system"), [("PRIORITY", {"priority": 3}), ("LITE", {"lite_topic": "l"}), ("MIXED", {"priority": 0})]
)
def test_messages_of_a_priority_and_of_lite_topics_go_without_python(topic_type: str, system: dict[str, Any]) -> None:
    async def test(client: Client, broker: Broker, proxy: ProxyService) -> None:
        broker.topic_type = topic_type
        for _ in range(3):
            assert (await client.send(**system))[0] == "OK"
        first, second = (each.fields["i"] for each in broker.sends[:2])
        assert broker.kinds == "PNN" and first.replace("M1", "M2") == second

    running(test)


def handle_of(offset: int, pop_ms: int | None = None) -> ReceiptHandle:
    return ReceiptHandle(offset, now_ms() if pop_ms is None else pop_ms, 60_000, 0, "0", "b", 1, offset)


def test_acknowledgements_go_without_python_by_the_handle_that_is_true_today() -> None:
    async def test(client: Client, broker: Broker, proxy: ProxyService) -> None:
        await client.send()  # now it is known where the broker is
        broker.sends.clear()
        plain, first, today = handle_of(1), handle_of(2), handle_of(3)
        assert proxy.native is not None and proxy.receiving is not None
        native, renewals = proxy.native.handler, proxy.receiving.renewals
        held = Held("c1", "g", TOPIC, "M", first.text, first, now_ms(), 1000)
        renewals.add(held)
        renewals.renewed(held, today)
        assert (await client.ack(plain.text))[0] == "OK"
        assert (await client.ack(first.text, client_id="c2"))[0] == "OK", "of another client: nothing is held"
        assert native.is_held("c1", "g", first.text)
        code, answer = await client.ack(first.text)
        assert code == "OK" and answer.entries[0].receipt_handle == first.text
        assert not native.is_held("c1", "g", first.text) and renewals.take("c1", "g", first.text) is None
        assert [each.fields["extraInfo"] for each in broker.sends] == [plain.text, first.text, today.text]
        assert figures(proxy)["acknowledged"] == 3
        assert (await client.ack(handle_of(4, pop_ms=1).text))[0] == "INVALID_RECEIPT_HANDLE"
        broker.script = [Answer(1, remark="no")]
        code, answer = await client.ack(plain.text)
        assert code == "INTERNAL_SERVER_ERROR" and answer.entries[0].status.message == "ack failed: no"
        broker.script = [Answer(1500)]
        assert (await client.ack(plain.text))[0] == "OK", "asked again"
        broker.script = [Answer(1500), Answer(1500)]
        code, answer = await client.ack(plain.text)
        assert code == "INTERNAL_SERVER_ERROR" and "goes away" in answer.entries[0].status.message
        broker.script = [Answer(hangs_up=True)]
        code, answer = await client.ack(plain.text)
        assert code == "INTERNAL_SERVER_ERROR" and "was lost" in answer.entries[0].status.message

    running(test)


def codes_of(answer: Any) -> list[str]:
    return [schema.label("Code", each.status.code) for each in answer.entries]


def test_several_acknowledgements_of_a_call_go_without_python_and_each_has_its_own_answer() -> None:
    async def test(client: Client, broker: Broker, proxy: ProxyService) -> None:
        await client.send()
        broker.sends.clear()
        assert proxy.native is not None and proxy.receiving is not None
        native, handles = proxy.native.handler, [handle_of(number).text for number in range(32)]
        proxy.receiving.renewals.add(Held("c1", "g", TOPIC, "M", handles[1], handle_of(1), now_ms(), 1000))
        code, answer = await client.ack(*handles)
        assert code == "OK" and codes_of(answer) == ["OK"] * 32 and [each.receipt_handle for each in answer.entries] == handles
        assert not native.is_held("c1", "g", handles[1])
        assert [each.fields["extraInfo"] for each in broker.sends] == handles
        broker.script = [Answer(1500), STORED, Answer(1, remark="no"), STORED, STORED]
        code, answer = await client.ack(*handles[:4])
        assert code == "MULTIPLE_RESULTS" and codes_of(answer) == ["OK", "OK", "INTERNAL_SERVER_ERROR", "OK"], "the first is asked again"
        broker.script = [STORED, Answer(hangs_up=True)]
        code, answer = await client.ack(*handles[:3])
        assert code == "MULTIPLE_RESULTS" and codes_of(answer) == ["OK", *["INTERNAL_SERVER_ERROR"] * 2]
        assert figures(proxy)["acknowledged"] == 3 and figures(proxy)["punted"] == 1 and figures(proxy)["waiting"] == 0
        assert Kind("grpc_v2", "AckMessage", "MULTIPLE_RESULTS", False) in {kind for kind, _ in proxy.native.latencies()}

    running(test)


def test_one_of_several_that_python_has_words_for_takes_the_others_there_with_what_they_were_held_for() -> None:
    async def test(client: Client, broker: Broker, proxy: ProxyService) -> None:
        await client.send()
        assert proxy.receiving is not None
        held, over = handle_of(1), handle_of(2, pop_ms=1)
        proxy.receiving.renewals.add(Held("c1", "g", TOPIC, "M", held.text, held, now_ms(), 1000))
        code, answer = await client.ack(held.text, over.text)
        assert code == "MULTIPLE_RESULTS" and codes_of(answer) == ["OK", "INVALID_RECEIPT_HANDLE"]
        assert figures(proxy)["acknowledged"] == 0 and proxy.receiving.renewals.take("c1", "g", held.text) is None

    running(test)


def test_who_does_not_wait_for_several_acknowledgements_leaves_nothing_behind() -> None:
    async def test(client: Client, broker: Broker, proxy: ProxyService) -> None:
        await client.send()
        broker.script = [STORED, *[Answer(is_silent=True)] * 3]
        given_up = client.begin_ack(*(handle_of(number).text for number in range(4)))
        await until(lambda: figures(proxy)["waiting"] == 3 and len(broker.sends) == 5)
        given_up.cancel()
        await until(lambda: figures(proxy)["waiting"] == 0)
        assert (await client.ack(handle_of(5).text))[0] == "OK" and figures(proxy)["upstreams"] == 1

    running(test)


def test_a_message_that_is_renewed_just_now_is_acknowledged_by_python_which_waits() -> None:
    async def test(client: Client, broker: Broker, proxy: ProxyService) -> None:
        await client.send()
        first = handle_of(2)
        assert proxy.native is not None and proxy.receiving is not None
        proxy.receiving.renewals.add(Held("c1", "g", TOPIC, "M", first.text, first, now_ms(), 1000))
        assert proxy.native.handler.begin_renewal("c1", "g", first.text)
        assert (await client.ack(first.text))[0] == "OK"
        assert figures(proxy)["acknowledged"] == 0 and not proxy.native.handler.is_held("c1", "g", first.text)

    running(test)


def test_a_proxy_that_stops_lets_go_of_what_was_not_acknowledged_and_of_nothing_else() -> None:
    async def test(client: Client, broker: Broker, proxy: ProxyService) -> None:
        await client.send()
        assert proxy.receiving is not None
        done, open_still = handle_of(1), handle_of(2)
        for each in (done, open_still):
            proxy.receiving.renewals.add(Held("c1", "g", TOPIC, "M", each.text, each, now_ms(), 1000))
        assert (await client.ack(done.text))[0] == "OK" and figures(proxy)["acknowledged"] == 1
        await proxy.stop()
        assert broker.changes == [open_still.text]

    running(test)


def test_what_is_unusual_comes_by_python_still() -> None:
    async def test(client: Client, broker: Broker, proxy: ProxyService) -> None:
        for _ in range(2):
            await client.send()
        assert (await client.send(message_group="g"))[0] == "MESSAGE_PROPERTY_CONFLICT_WITH_TYPE"
        assert (await client.send(message_id=" "))[0] == "ILLEGAL_MESSAGE_ID"
        assert (await client.send(headers=()))[0] == "CLIENT_ID_REQUIRED"
        assert (await client.send(born_host=" h "))[0] == "OK"
        assert (await client.send())[0] == "OK"
        assert broker.kinds == "PNPN"

    running(test)


@pytest.mark.parametrize(
    ("answer", "code", "text"),
    [
        (Answer(2, remark="[PCBUSY]"), "TOO_MANY_REQUESTS", "CODE: 2  DESC: [PCBUSY]"),
        (Answer(10), "MASTER_PERSISTENCE_TIMEOUT", "MASTER_PERSISTENCE_TIMEOUT"),
        (Answer(hangs_up=True), "INTERNAL_SERVER_ERROR", "was lost before the response"),
        (Answer(fields={"queueOffset": "seven"}), "INTERNAL_SERVER_ERROR", "queue offset 'seven'"),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_what_a_broker_does_is_what_the_client_hears(answer: Answer, code: str, text: str) -> None:
    async def test(client: Client, broker: Broker, proxy: ProxyService) -> None:
        await client.send()
        broker.script = [answer]
        heard, response = await client.send()
        assert heard == code and text in response.status.message
        assert (await client.send())[0] == "OK"
        assert broker.kinds == "PNN" and figures(proxy)["waiting"] == 0

    running(test)


@pytest.mark.parametrize("given", [{"count": 5}, {"trace_context": "t" * 13_500_000}], ids=["several", "a trace"])
def test_what_no_broker_would_read_ends_no_other_call(given: dict[str, Any]) -> None:
    async def test(client: Client, broker: Broker, proxy: ProxyService) -> None:
        await client.send()
        await client.send()
        broker.script = [Answer(is_silent=True)]
        other = client.begin()
        await until(lambda: len(broker.sends) == 3)
        before = broker.connections
        code, answer = await client.send(body=b"x" * 3_400_000, **given)
        assert code == "MESSAGE_BODY_TOO_LARGE" and "16777216" in answer.status.message
        assert broker.kinds == "PNN" and broker.connections == before and figures(proxy)["waiting"] == 1
        other.cancel()

    running(test)


def test_a_broker_that_goes_away_is_asked_again_on_another_connection() -> None:
    async def test(client: Client, broker: Broker, proxy: ProxyService) -> None:
        assert (await client.send())[0] == (await client.send())[0] == "OK"
        before = broker.connections
        broker.script = [Answer(1500)]
        assert (await client.send())[0] == "OK"
        assert (await client.send())[0] == "OK"
        assert broker.kinds == "PNNPN" and broker.connections == before + 1

    running(test)


def test_who_does_not_wait_leaves_nothing_behind() -> None:
    async def test(client: Client, broker: Broker, proxy: ProxyService) -> None:
        await client.send()
        broker.script = [Answer(is_silent=True)] * 100
        timeout_s = 0.3
        while len(broker.sends) < 2:  # a busy machine's client gives up before it is heard
            with pytest.raises(grpc.aio.AioRpcError) as raised:
                await client.begin(timeout=timeout_s)
            assert raised.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
            timeout_s *= 2
        before = len(broker.sends)
        given_up = [client.begin() for _ in range(2)]
        await until(lambda: len(broker.sends) >= before + 2)
        for each in given_up:
            each.cancel()
        await until(lambda: figures(proxy)["waiting"] == 0)
        broker.script = []
        assert (await client.send())[0] == "OK" and set(broker.kinds[1:]) == {"N"}

    running(test)


@pytest.mark.parametrize(("count", "name"), [(1, "SEND_MESSAGE_V2"), (2, "SEND_BATCH_MESSAGE")])
def test_a_request_without_an_answer_is_called_what_it_was(count: int, name: str) -> None:
    async def test(client: Client, broker: Broker, proxy: ProxyService) -> None:
        await client.send()
        broker.script = [Answer(is_silent=True)] * 3
        peer = await Peer.dial(proxy.port, PREFACE + http2_settings())
        for stream, timeout in ((1, "300m"), (3, "3S"), (5, "20S")):
            headers = {"x-mq-client-id": "c1", "grpc-timeout": timeout}
            peer.say(call(stream, "SendMessage", client.request(count).SerializeToString(), headers))
            async with asyncio.timeout(PATIENCE_S):
                ended = await peer.ends(stream)
            if b"the call's time is over" not in ended:  # the port's own word, where the machine stood still meanwhile
                break
        assert f"{name}: wait response on the channel <{broker.address}>".encode() in ended
        await until(lambda: broker.kinds.startswith("PN"))
        peer.close()

    running(test)


def test_many_calls_at_once_have_an_answer_each() -> None:
    async def test(client: Client, broker: Broker, proxy: ProxyService) -> None:
        await client.send()
        answers = await asyncio.gather(*(client.begin() for _ in range(500)))
        assert {answer.entries[0].message_id for answer in answers} == {f"M{number}" for number in range(2, 502)}
        assert figures(proxy)["answered"] == figures(proxy)["sent"] == 500
        assert proxy.native is not None
        ((kind, latency),) = proxy.native.latencies()
        assert kind == Kind("grpc_v2", "SendMessage", "OK") and sum(latency.counts) == 500 and latency.sum_ms > 0

    running(test)


def test_a_topic_that_has_changed_is_heard_of_within_a_refresh() -> None:
    async def test(client: Client, broker: Broker, proxy: ProxyService) -> None:
        await client.send()
        await client.send()
        broker.topic_type = "FIFO"
        async with asyncio.timeout(PATIENCE_S):
            while (code := (await client.send())[0]) == "OK":  # noqa: ASYNC110 - the proxy takes its time
                await asyncio.sleep(0.02)
        assert code == "MESSAGE_PROPERTY_CONFLICT_WITH_TYPE" and "N" in broker.kinds

    running(test, topic_route_service_cache_refresh_seconds=1)


def test_a_proxy_that_stops_leaves_no_call_without_an_end() -> None:
    async def test(client: Client, broker: Broker, proxy: ProxyService) -> None:
        await client.send()
        broker.script = [Answer(is_silent=True)] * 3
        waiting = [asyncio.ensure_future(client.send()) for _ in range(3)]
        await until(lambda: len(broker.sends) == 4)
        await proxy.stop()
        ends = await asyncio.gather(*waiting, return_exceptions=True)
        assert all(isinstance(end, grpc.aio.AioRpcError) for end in ends)

    running(test, grpc_shutdown_time_seconds=0)


@pytest.mark.parametrize("token", [{}, {"securityToken": "t"}], ids=["", "with a token"])
def test_a_proxy_that_signs_what_it_passes_on_does_so_natively(token: dict[str, str]) -> None:
    async def test(client: Client, broker: Broker, proxy: ProxyService) -> None:
        assert (await client.send())[0] == (await client.send())[0] == "OK"
        assert (await client.ack(handle_of(1).text))[0] == "OK"
        assert broker.kinds == "PNP" and figures(proxy)["acknowledged"] == 1, "an acknowledgement has JSON by both ways"
        for request in broker.sends:
            fields = dict(request.fields)
            given = fields.pop("Signature")
            assert fields["AccessKey"] == "u" and fields.get("SecurityToken") == token.get("securityToken")
            assert given == signature("s", fields, bytes(request.body))

    credentials = json.dumps({"accessKey": "u", "secretKey": "s", **token})
    running(test, enable_acl_rpc_hook_for_cluster_mode=True, inner_client_authentication_credentials=credentials)


def may(*entries: tuple[str, str]) -> Acl:
    listed = [{"resource": resource, "actions": [action], "decision": "Allow"} for resource, action in entries]
    return Acl.from_json({"policies": [{"entries": listed}], "subject": "User:alice"})


def test_who_is_let_in_goes_without_python_and_who_is_not_hears_why_from_it() -> None:
    async def test(client: Client, broker: Broker, proxy: ProxyService) -> None:
        users, alice = proxy.users, signed_by("alice", "a")
        assert users is not None
        users.put([User("alice", "a"), User("bob", "b")], [may((f"Topic:{TOPIC}", "Pub"))])
        assert (await client.send(headers=alice))[0] == (await client.send(headers=alice))[0] == "OK"
        assert broker.kinds == "PN" and users.native.stats()["authorized"] == 2
        for headers in (HEADERS, signed_by("alice", "wrong"), signed_by("bob", "b"), signed_by("carol", "c"), alice[:-1]):
            assert (await client.send(headers=headers))[0] == "UNAUTHORIZED"
        other_time = (*alice[:-1], ("x-mq-date-time", "20261126T041501Z"))
        assert (await client.send(headers=other_time))[0] == "UNAUTHORIZED"
        assert (await client.ack(handle_of(1).text, headers=alice[3:]))[0] == "UNAUTHORIZED" and len(broker.sends) == 2
        users.put([User("alice", "b")], [may((f"Topic:{TOPIC}", "Sub"), ("Group:g", "Sub"))])
        assert (await client.send(headers=alice))[0] == "UNAUTHORIZED"
        assert (await client.send(headers=signed_by("alice", "b")))[0] == "UNAUTHORIZED"
        assert (await client.ack(handle_of(1).text, headers=signed_by("alice", "b")[3:]))[0] == "OK"
        assert figures(proxy)["acknowledged"] == 1 and len(broker.sends) == 3
        users.put([User("alice", "b", "Super")], [])
        assert (await client.send(headers=signed_by("alice", "b")))[0] == "OK" and broker.kinds == "PNPN"

    running(test, authentication_enabled=True, authorization_enabled=True)


def test_where_only_some_are_asked_who_they_are_all_calls_come_by_python() -> None:
    async def test(client: Client, broker: Broker, proxy: ProxyService) -> None:
        assert proxy.native is None
        assert (await client.send())[0] == (await client.send())[0] == "OK" and broker.kinds == "PP"

    running(test, authentication_enabled=True, authentication_whitelist="apache.rocketmq.v2.SendMessageRequest")
