"""What the proxy has begun for a client ends with him, or with the proxy: no task stays, and nobody makes it keep more than it may."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from rocketpy._core.remoting import Command, decode_command, encode_command
from rocketpy.proxy import clients, schema, told
from rocketpy.proxy.clients import Client, Clients
from rocketpy.proxy.context import Context, now_ms
from rocketpy.proxy.group_config import GroupConfig
from rocketpy.proxy.lite import LiteSubscriptions
from rocketpy.proxy.receiving import Receiving
from rocketpy.proxy.settings import ProxySettings
from rocketpy.proxy.status import ProxyError
from rocketpy.proxy.telemetry import Telemetry
from rocketpy.proxy.told import ENDS
from rocketpy.remoting.codes import RequestCode
from tests.processes import PATIENCE_S
from tests.unit.proxy.test_native_receiving import record

SETTINGS = ProxySettings(namesrv_addr="127.0.0.1:9876")
CONTEXT = Context("client", "JAVA", "5.0.4", "10.0.0.7", lambda: 18_000)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 - nobody is told
            await asyncio.sleep(0)


def others() -> set[Any]:
    return asyncio.all_tasks() - {asyncio.current_task()}


def test_of_a_telemetry_stream_whose_client_is_gone_no_task_stays() -> None:
    async def requests() -> AsyncIterator[Any]:
        await asyncio.Event().wait()
        yield None

    async def run() -> None:
        telemetry = Telemetry(SETTINGS, None, Clients(now_ms, 1), None, None)  # type: ignore[arg-type]

        async def follow() -> None:
            async for _ in telemetry.telemetry(CONTEXT, requests()):
                pass

        stream = asyncio.ensure_future(follow())
        await until(lambda: len(others()) == 3)
        stream.cancel()
        await asyncio.gather(stream, return_exceptions=True)
        assert not others()

    asyncio.run(run())


def test_settings_of_all_clients_together_are_bounded() -> None:
    def settings(size: int) -> Any:
        return schema.message("Settings")(subscription={"group": {"name": "g" * size}})

    known = Clients(now_ms, 0, 2 * settings(1000).ByteSize())
    for client_id in "ab":
        known.put(client_id, settings(1000), None)
    with pytest.raises(ProxyError, match="bytes of clients' settings") as refused:
        known.put("c", settings(10), None)
    assert refused.value.code == "TOO_MANY_REQUESTS" and known.get("c") is None
    known.put("a", settings(1000), None)  # what a client says again takes the place of what it has said
    with pytest.raises(ProxyError):
        known.put("a", settings(1001), None)
    known.put("a", settings(500), None)
    known.put("c", settings(400), None)
    known.remove("b")
    known.put("d", settings(1000), None)


MANY = {
    "topics": lambda settings, count: [settings.publishing.topics.add() for _ in range(count)],
    "subscriptions": lambda settings, count: [settings.subscription.subscriptions.add() for _ in range(count)],
    "addresses": lambda settings, count: [settings.access_point.addresses.add() for _ in range(count)],
    "metric addresses": lambda settings, count: [settings.metric.endpoints.addresses.add() for _ in range(count)],
    "pauses": lambda settings, count: [settings.backoff_policy.customized_backoff.next.add() for _ in range(count)],
    "properties": lambda settings, count: settings.client_properties.update((str(number), "") for number in range(count)),
}


@pytest.mark.parametrize("what", MANY)
def test_what_takes_more_memory_than_its_bytes_is_counted_so(what: str) -> None:
    settings = schema.message("Settings")()
    MANY[what](settings, 1024)
    known = Clients(now_ms, 0, 1 << 20)
    for client_id in "abc":
        known.put(client_id, settings, None)
        known.put(client_id, settings, None)
    with pytest.raises(ProxyError, match="bytes of clients' settings"):
        known.put("d", settings, None)
    known.remove("a")
    known.put("d", settings, None)
    MANY[what](settings, 1025)
    with pytest.raises(ProxyError, match="settings of more than 1024 topics") as refused:
        known.put("d", settings, None)
    assert refused.value.code == "BAD_REQUEST"


def test_ten_thousand_usual_clients_are_kept() -> None:
    settings = schema.message("Settings")()
    for number in range(5):
        settings.publishing.topics.add(name=f"a-topic-of-forty-characters-or-so-{number:06d}")
    known = Clients(now_ms, 0)
    for number in range(10_000):
        known.put(f"host@{number}", settings, None)
    assert len(known) == 10_000


def question(size: int) -> Any:
    return schema.message("TelemetryCommand")(recover_orphaned_transaction_command={"message": {"body": bytes(size)}})


def test_who_does_not_read_is_told_no_more_than_so_many_bytes() -> None:
    """A broker asks a producer of a topic how its transactions ended, each question with a message of up to 4 MB."""
    known, large = Clients(now_ms, 0), question(4 << 20)
    silent = known.put("silent", schema.message("Settings")(), known.new_stream())
    assert [silent.tell(large) for _ in range(3)] == [True, True, False]
    assert silent.stream is not None and silent.stream.get_nowait() is large and silent.tell(large) and not silent.tell(ENDS)
    usual = known.put("usual", schema.message("Settings")(), known.new_stream())
    assert all(usual.tell(question(1000)) for _ in range(2000)), "a broker asks about all transactions that nobody ended at once"
    small = known.put("small", schema.message("Settings")(), known.new_stream())
    count = sum(small.tell(question(1)) for _ in range(10_000))
    assert 2000 < count < 3000, "a command takes memory beside its bytes"
    for name, part in (("properties", "user_properties"), ("keys", "system_properties.keys")):
        large = question(1)
        of_message = large.recover_orphaned_transaction_command.message
        if part == "user_properties":
            of_message.user_properties.update((str(number), "v") for number in range(1000))
        else:
            of_message.system_properties.keys.extend(map(str, range(1000)))
        client = known.put(name, schema.message("Settings")(), known.new_stream())
        assert sum(client.tell(large) for _ in range(1000)) < 60, "so do its parts"
        assert client.stream is not None
        taken = client.stream.get_nowait()
        client.stream.said(taken)
        assert client.tell(large) and not client.tell(large)
    huge = known.put("huge", schema.message("Settings")(), known.new_stream())
    assert huge.tell(question(9 << 20)), "what alone is too large could be said to nobody"


def test_all_who_do_not_read_are_told_no_more_than_so_many_bytes() -> None:
    command = question(1000)
    known = Clients(now_ms, 0, 3 * (command.ByteSize() + told.COMMAND_BYTES))
    streams = {client_id: known.new_stream() for client_id in "abcd"}
    a, b, c, d = (known.put(client_id, schema.message("Settings")(), stream) for client_id, stream in streams.items())
    assert a.tell(command) and a.tell(command) and b.tell(command) and not c.tell(command)
    assert c.tell(ENDS), "which takes nothing"
    taken = streams["b"].get_nowait()
    assert not c.tell(command), "it is under way still"
    streams["b"].said(taken)
    assert c.tell(command) and not d.tell(command)
    known.stream_ended("a", streams["a"])
    assert d.tell(command) and d.tell(command) and not b.tell(command)


def test_what_a_telemetry_stream_has_said_is_counted_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    command = question(1000)

    async def requests() -> AsyncIterator[Any]:
        await asyncio.Event().wait()
        yield None

    async def run() -> None:
        known = Clients(now_ms, 1, command.ByteSize() + told.COMMAND_BYTES)
        streams: list[told.Told] = []
        make = known.new_stream
        monkeypatch.setattr(known, "new_stream", lambda: streams.append(make()) or streams[-1])
        telemetry = Telemetry(SETTINGS, None, known, None, None)  # type: ignore[arg-type]
        said = telemetry.telemetry(CONTEXT, requests())
        first = asyncio.ensure_future(anext(said))
        await until(lambda: len(streams) == 1)
        assert streams[0].offer(command) and await first is command
        other = make()
        assert not streams[0].offer(command) and not other.offer(command)
        second = asyncio.ensure_future(anext(said))
        await until(lambda: other.offer(command))
        other.close()
        assert streams[0].offer(command) and await second is command
        await said.aclose()
        assert make().offer(command)

    asyncio.run(run())


def test_settings_are_kept_without_the_command_that_they_came_in() -> None:
    command = schema.message("TelemetryCommand")(settings={"subscription": {"group": {"name": "g"}}})
    kept = Clients(now_ms, 0).put("a", command.settings, None).settings
    assert kept == command.settings and kept is not command.settings
    too_many = schema.message("Settings")()
    for number in range(clients.SETTINGS_PARTS_MAX + 1):
        too_many.publishing.topics.add(name=f"t{number}")
    with pytest.raises(ProxyError, match="more than 1024 topics"):
        Clients(now_ms, 0).put("a", too_many, None)


def test_a_client_whose_name_is_large_is_not_kept() -> None:
    """Each of 65,536 clients might have the 16 KB that metadata may."""
    known, settings = Clients(now_ms, 0), schema.message("Settings")()
    known.put("é" * 512, settings, None)
    with pytest.raises(ProxyError, match="client id of more than 1024 bytes") as refused:
        known.put("é" * 513, settings, None)
    assert refused.value.code == "BAD_REQUEST" and len(list(known)) == 1


class Silent:
    """In the place of Brokers: answers once it may."""

    def __init__(self) -> None:
        self.asked: list[RequestCode] = []
        self.may_answer = asyncio.Event()
        self.pop: Command | None = None

    async def readable_brokers(self, topic: str) -> list[str]:
        return ["broker-a"]

    async def group(self, group: str) -> GroupConfig:
        return GroupConfig()

    async def call(self, broker: str, code: RequestCode, header: Any, body: bytes = b"", *, timeout_s: float = 3) -> Command:
        self.asked.append(code)
        if code == RequestCode.POP_MESSAGE and self.pop is not None:
            return self.pop
        await self.may_answer.wait()
        return decode_command(encode_command(0, {"popTime": "1", "invisibleTime": "1", "reviveQid": "1"}))


def test_of_a_lite_client_that_comes_and_goes_one_goodbye_is_under_way() -> None:
    async def run() -> None:
        brokers = Silent()
        lite = LiteSubscriptions(SETTINGS, brokers, Clients(now_ms, 1))  # type: ignore[arg-type]
        settings = schema.message("Settings")(client_type=schema.number("ClientType", "LITE_PUSH_CONSUMER"))
        settings.subscription.subscriptions.add(topic={"name": "parent"})
        client = Client("client", settings, 0)
        for _ in range(100):
            lite.leave(client)
        await until(lambda: len(brokers.asked) == 1)
        assert len(others()) == 1 + 1, "the goodbye, and the broker that it is said to"
        brokers.may_answer.set()
        await lite.stop()
        lite.leave(client)
        await lite.stop()
        assert len(brokers.asked) == 2 and not others()

    asyncio.run(run())


def consuming(brokers: Silent) -> tuple[Receiving, Any]:
    known = Clients(now_ms, 1)
    known.put("client", schema.message("Settings")(client_type=schema.number("ClientType", "SIMPLE_CONSUMER")), None)
    request = schema.message("ReceiveMessageRequest")(group={"name": "g"}, message_queue={"topic": {"name": "t"}}, batch_size=1)
    request.invisible_duration.FromSeconds(60)
    request.long_polling_timeout.FromSeconds(5)
    return Receiving(SETTINGS, brokers, known), request  # type: ignore[arg-type]


def test_a_proxy_that_stops_waits_for_what_it_says_of_messages() -> None:
    async def run() -> None:
        brokers = Silent()
        fields = {"popTime": str(now_ms()), "invisibleTime": "60000", "reviveQid": "0"}
        brokers.pop = decode_command(encode_command(0, fields, record()))
        receiving, request = consuming(brokers)
        answers = receiving.receive_message(CONTEXT, request)
        assert (await anext(answers)).status.code == schema.number("Code", "OK")
        await answers.aclose()  # its client is gone
        stopping = asyncio.ensure_future(receiving.let_go())
        await until(lambda: RequestCode.CHANGE_MESSAGE_INVISIBLETIME in brokers.asked)
        for _ in range(10):
            await asyncio.sleep(0)
        assert not stopping.done()
        brokers.may_answer.set()
        await stopping
        assert not others()

    asyncio.run(run())


def test_a_proxy_that_stops_polls_for_nobody_who_is_gone() -> None:
    async def run() -> None:
        brokers = Silent()
        receiving, request = consuming(brokers)

        async def receive() -> None:
            async for _ in receiving.receive_message(CONTEXT, request):
                pass

        client = asyncio.ensure_future(receive())
        await until(lambda: RequestCode.POP_MESSAGE in brokers.asked)
        client.cancel()
        await asyncio.gather(client, return_exceptions=True)
        assert others(), "the broker's answer is waited for"
        await receiving.let_go()
        await until(lambda: not others())

    asyncio.run(run())
