"""Brokers that are gone for a while: what was not known then is no answer afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from rocketpy._core.errors import Closed, NetworkError, ProtocolError
from rocketpy._core.remoting import Command, decode_command, encode_command
from rocketpy.proxy.brokers import Brokers
from rocketpy.proxy.group_config import GroupConfig
from rocketpy.proxy.service import ProxyService
from rocketpy.proxy.settings import ProxySettings
from rocketpy.proxy.status import ProxyError
from rocketpy.remoting.client import RemotingClient
from rocketpy.remoting.codes import RequestCode, ResponseCode
from rocketpy.remoting.command import check_success
from tests.unit.proxy.test_native_service import Broker, Client, running


def test_a_topic_that_could_not_be_asked_about_is_asked_about_again() -> None:
    async def test(client: Client, broker: Broker, proxy: ProxyService) -> None:
        answers, is_gone = broker._answer, True

        def answer(request: Command, writer: object) -> bool:
            return not (is_gone and request.code == RequestCode.GET_TOPIC_CONFIG) and answers(request, writer)  # type: ignore[arg-type]

        broker._answer = answer  # type: ignore[method-assign, assignment]
        code, response = await client.send()
        assert code == "INTERNAL_SERVER_ERROR" and "no broker answers GET_TOPIC_CONFIG" in response.status.message
        is_gone = False
        assert (await client.send())[0] == (await client.send())[0] == "OK"
        assert broker.kinds == "PN"

    running(test)


def test_who_stops_a_proxy_that_stops_waits_for_that() -> None:
    async def test(client: Client, broker: Broker, proxy: ProxyService) -> None:
        assert (await client.send())[0] == "OK" and proxy.native is not None
        handler = proxy.native.handler
        await asyncio.gather(proxy.stop(), proxy.stop())
        with pytest.raises(Closed):
            handler.stats()

    running(test)


@pytest.mark.parametrize("code", [ResponseCode.SUCCESS, ResponseCode.TOPIC_NOT_EXIST])
def test_a_name_server_that_is_away_is_waited_for_once(monkeypatch: pytest.MonkeyPatch, code: ResponseCode) -> None:
    """A host without power does not even refuse a connection: each topic would wait three seconds for it whenever its route grows old."""
    asked: list[str] = []

    async def call(self: RemotingClient, address: str, *rest: Any, **more: Any) -> Command:
        asked.append(address)
        if address == "away:1":
            raise NetworkError("connect failed")
        return check_success(decode_command(encode_command(code, {}, b'{"brokerDatas":[],"queueDatas":[]}', opaque=1, flag=1)))

    async def test() -> None:
        brokers = Brokers(ProxySettings(namesrv_addr="away:1;here:2"), lambda address, command: None)
        for topic in ("a", "b", "c"):
            try:
                await brokers.route(topic)
            except ProxyError:
                assert code == ResponseCode.TOPIC_NOT_EXIST
        await brokers.stop()

    monkeypatch.setattr(RemotingClient, "call", call)
    asyncio.run(test())
    assert asked == ["away:1", "here:2", "here:2", "here:2"]


def test_what_was_known_is_good_while_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers go on without name servers, and so do clients of 4.x and of RocketMQ's proxy."""
    answer: ResponseCode | None = ResponseCode.SUCCESS

    def answered(body: bytes) -> Command:
        if answer is None:
            raise NetworkError("connect failed")
        return check_success(decode_command(encode_command(answer, {}, body, opaque=1, flag=1)))

    async def call(self: RemotingClient, *rest: Any, **more: Any) -> Command:
        return answered(b'{"brokerDatas":[{"brokerName":"b","cluster":"c","brokerAddrs":{"0":"here:1"}}],"queueDatas":[]}')

    async def invoke(self: RemotingClient, *rest: Any, **more: Any) -> Command:
        return answered(b'{"groupName":"g","consumeMessageOrderly":true}')

    async def test() -> None:
        nonlocal answer
        settings = ProxySettings(namesrv_addr="here:2", topic_route_service_cache_refresh_seconds=0)
        brokers = Brokers(settings, lambda address, command: None)
        route = await brokers.route("t")
        assert (await brokers.group_now("g")) == GroupConfig(orderly=True)
        answer = None
        for _ in range(2):
            assert await brokers.route("t") is route and (await brokers.group_now("g")) == GroupConfig(orderly=True)
        with pytest.raises(NetworkError):
            await brokers.route("u")
        answer = ResponseCode.TOPIC_NOT_EXIST
        with pytest.raises(ProxyError):
            await brokers.route("t")
        await brokers.stop()

    monkeypatch.setattr(RemotingClient, "invoke", invoke)
    monkeypatch.setattr(RemotingClient, "call", call)
    asyncio.run(test())


def route_to(*names: str) -> Callable[..., Awaitable[Command]]:
    """In the place of RemotingClient.call: any topic has a queue at each of these brokers, whose addresses are their names, port 1."""
    brokers = ",".join(f'{{"brokerName":"{name}","cluster":"c","brokerAddrs":{{"0":"{name}:1"}}}}' for name in names)
    queues = ",".join(f'{{"brokerName":"{name}","readQueueNums":1,"writeQueueNums":1,"perm":6}}' for name in names)
    body = f'{{"brokerDatas":[{brokers}],"queueDatas":[{queues}]}}'.encode()

    async def call(self: RemotingClient, *rest: Any, **more: Any) -> Command:
        return decode_command(encode_command(ResponseCode.SUCCESS, {}, body, opaque=1, flag=1))

    return call


@pytest.mark.parametrize("most", [0, -1])
def test_a_proxy_that_is_to_remember_no_topic_still_finds_what_it_asks_for(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    async def test() -> None:
        settings = ProxySettings(namesrv_addr="here:2", topic_route_service_cache_max_num=most)
        brokers = Brokers(settings, lambda address, command: None)
        for name in ("t", "u", "t"):
            assert [queue.broker for queue in await brokers.writable_queues(name)] == ["b"]
            assert (await brokers.message_type(name), await brokers.group_now(name)) == ("NORMAL", GroupConfig())
        await brokers.stop()

    async def invoke(self: RemotingClient, address: str, code: RequestCode, *rest: Any, **more: Any) -> Command:
        return decode_command(encode_command(ResponseCode.SUCCESS, {}, b"{}", opaque=1, flag=1))

    monkeypatch.setattr(RemotingClient, "call", route_to("b"))
    monkeypatch.setattr(RemotingClient, "invoke", invoke)
    asyncio.run(test())


@pytest.mark.parametrize("trouble", [NetworkError("dark"), ResponseCode.SYSTEM_BUSY], ids=["silent", "busy"])
def test_what_a_broker_in_trouble_knows_is_not_forgotten_for_another_that_knows_nothing(
    monkeypatch: pytest.MonkeyPatch, trouble: NetworkError | ResponseCode
) -> None:
    is_well = True
    group, topic = b'{"groupName":"g","consumeMessageOrderly":true}', b'{"topicName":"t","attributes":{"message.type":"FIFO"}}'

    async def invoke(self: RemotingClient, address: str, code: int, *rest: Any, **more: Any) -> Command:
        if address == "knows:1" and not is_well and isinstance(trouble, NetworkError):
            raise trouble
        answer = ResponseCode.SUCCESS if is_well else trouble
        if address != "knows:1" or not isinstance(answer, ResponseCode):
            answer = ResponseCode.TOPIC_NOT_EXIST
        body = (topic if code == RequestCode.GET_TOPIC_CONFIG else group) if answer == ResponseCode.SUCCESS else b""
        return decode_command(encode_command(answer, {}, body, opaque=1, flag=1))

    async def test() -> None:
        nonlocal is_well
        settings = ProxySettings(namesrv_addr="here:2", topic_route_service_cache_refresh_seconds=0)
        brokers = Brokers(settings, lambda address, command: None)
        for round_number in range(3):
            is_well = round_number == 0
            assert await brokers.message_type("t") == "FIFO"
            assert await brokers.group_now("g") == GroupConfig(orderly=True)
        assert await brokers.group_now("nobody's") is None
        await brokers.stop()

    monkeypatch.setattr(RemotingClient, "invoke", invoke)
    monkeypatch.setattr(RemotingClient, "call", route_to("knows", "not"))
    asyncio.run(test())


def test_what_was_deleted_is_not_taken_for_known_while_another_broker_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    is_there = True
    bodies = {
        RequestCode.GET_TOPIC_CONFIG: b'{"topicName":"t","attributes":{"message.type":"FIFO"}}',
        RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: b'{"groupName":"g","consumeMessageOrderly":true}',
    }

    async def invoke(self: RemotingClient, address: str, code: RequestCode, *rest: Any, **more: Any) -> Command:
        if address == "away:1":
            raise NetworkError("dark")
        answer, body = (ResponseCode.SUCCESS, bodies[code]) if is_there else (ResponseCode.TOPIC_NOT_EXIST, b"")
        return decode_command(encode_command(answer, {}, body, opaque=1, flag=1))

    async def test() -> None:
        nonlocal is_there
        settings = ProxySettings(namesrv_addr="here:2", topic_route_service_cache_refresh_seconds=0)
        brokers = Brokers(settings, lambda address, command: None)
        assert (await brokers.message_type("t"), await brokers.group_now("g")) == ("FIFO", GroupConfig(orderly=True))
        is_there = False
        assert (await brokers.message_type("t"), await brokers.group_now("g")) == ("UNSPECIFIED", None)
        await brokers.stop()

    monkeypatch.setattr(RemotingClient, "invoke", invoke)
    monkeypatch.setattr(RemotingClient, "call", route_to("away", "here"))
    asyncio.run(test())


@pytest.mark.parametrize(
    "policy",
    [
        "[7]",
        '{"customizedRetryPolicy":{"next":["x"]}}',
        '{"customizedRetryPolicy":{"next":[1e999]}}',
        '{"type":"EXPONENTIAL","exponentialRetryPolicy":{"multiplier":"x"}}',
    ],
)
def test_a_group_that_cannot_be_read_is_as_one_that_nobody_knows(monkeypatch: pytest.MonkeyPatch, policy: str) -> None:
    async def invoke(self: RemotingClient, *rest: Any, **more: Any) -> Command:
        return decode_command(encode_command(0, {}, f'{{"groupName":"g","groupRetryPolicy":{policy}}}'.encode(), opaque=1, flag=1))

    async def call(self: RemotingClient, *rest: Any, **more: Any) -> Command:
        route = b'{"brokerDatas":[{"brokerName":"b","cluster":"c","brokerAddrs":{"0":"here:1"}}],"queueDatas":[]}'
        return decode_command(encode_command(0, {}, route, opaque=1, flag=1))

    async def test() -> None:
        brokers = Brokers(ProxySettings(namesrv_addr="here:2"), lambda address, command: None)
        await brokers.route("t")
        assert await brokers.group("g") is None
        with pytest.raises(ProtocolError, match="group g of a broker cannot be read"):
            await brokers.group_now("g")
        await brokers.stop()

    monkeypatch.setattr(RemotingClient, "invoke", invoke)
    monkeypatch.setattr(RemotingClient, "call", call)
    asyncio.run(test())


def test_a_broker_that_is_gone_for_good_is_asked_about_groups_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its address stays known, and a host that is no more does not even refuse: each group would wait three seconds for it."""
    asked: list[str] = []

    async def invoke(self: RemotingClient, address: str, *rest: Any, **more: Any) -> Command:
        asked.append(address)
        if address == "away:1":
            raise NetworkError("connect failed")
        return decode_command(encode_command(0, {}, b'{"groupName":"g"}', opaque=1, flag=1))

    async def call(self: RemotingClient, *rest: Any, **more: Any) -> Command:
        masters = (f'{{"brokerName":"{name}","cluster":"c","brokerAddrs":{{"0":"{name}:1"}}}}' for name in ("away", "here"))
        return decode_command(encode_command(0, {}, f'{{"brokerDatas":[{",".join(masters)}],"queueDatas":[]}}'.encode(), opaque=1, flag=1))

    async def test() -> None:
        brokers = Brokers(ProxySettings(namesrv_addr="here:2"), lambda address, command: None)
        await brokers.route("t")
        for group in ("g", "h", "i"):
            assert await brokers.group(group) is not None
        await brokers.stop()

    monkeypatch.setattr(RemotingClient, "invoke", invoke)
    monkeypatch.setattr(RemotingClient, "call", call)
    asyncio.run(test())
    assert asked == ["away:1", "here:1", "here:1", "here:1"]
