"""What the proxy has begun for a client ends with him, or with the proxy: no task stays, and nobody makes it keep more than it may."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from rocketpy._core.remoting import Command, decode_command, encode_command
from rocketpy.proxy import clients, schema
from rocketpy.proxy.brokers import GroupConfig
from rocketpy.proxy.clients import Client, Clients
from rocketpy.proxy.context import Context, now_ms
from rocketpy.proxy.lite import LiteSubscriptions
from rocketpy.proxy.receiving import Receiving
from rocketpy.proxy.settings import ProxySettings
from rocketpy.proxy.status import ProxyError
from rocketpy.proxy.telemetry import Telemetry
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


def test_settings_of_all_clients_together_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    def settings(size: int) -> Any:
        return schema.message("Settings")(subscription={"group": {"name": "g" * size}})

    known = Clients(now_ms, 0)
    monkeypatch.setattr(clients, "SETTINGS_TOTAL_MAX", 2 * settings(1000).ByteSize())
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


def test_settings_are_kept_without_the_command_that_they_came_in() -> None:
    command = schema.message("TelemetryCommand")(settings={"subscription": {"group": {"name": "g"}}})
    kept = Clients(now_ms, 0).put("a", command.settings, None).settings
    assert kept == command.settings and kept is not command.settings
    too_many = schema.message("Settings")()
    for number in range(clients.SETTINGS_TOPICS_MAX + 1):
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
