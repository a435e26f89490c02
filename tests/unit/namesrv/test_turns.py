"""Registrations of many topics: who else asks is answered meanwhile, and each broker is what it said last."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from rocketpy.config import load_config
from rocketpy.namesrv import turns
from rocketpy.namesrv.service import NameServer
from rocketpy.remoting.bodies import BodyError, DataVersion, RegisterBrokerBody, TopicConfig
from rocketpy.remoting.codes import RequestCode, ResponseCode
from rocketpy.remoting.command import Response, encode_fields
from rocketpy.remoting.headers import RegisterBrokerRequestHeader, UnRegisterBrokerRequestHeader

from .test_requests import Asked, Harness

MANY = 5000
REGISTER, UNREGISTER = RequestCode.REGISTER_BROKER, RequestCode.UNREGISTER_BROKER


@pytest.fixture
def namesrv(tmp_path: Path) -> Harness:
    return Harness(tmp_path)


def body(count: int, version: int = 1, *, compressed: bool = False) -> bytes:
    return RegisterBrokerBody({f"t{i}": TopicConfig(f"t{i}") for i in range(count)}, DataVersion(version, version)).encode(
        compressed=compressed
    )


def register(data: bytes, *, connection_id: int = 1, address: str = "a:1", broker_id: int = 0) -> Any:
    header = RegisterBrokerRequestHeader(
        broker_name=address[0],
        broker_addr=address,
        cluster_name="c",
        ha_server_addr="",
        broker_id=broker_id,
        compressed=False,
        body_crc32=0,
    )
    return Asked(REGISTER, encode_fields(header) or {}, data, connection_id=connection_id)


def unregister() -> Any:
    header = UnRegisterBrokerRequestHeader(broker_name="a", broker_addr="a:1", cluster_name="c", broker_id=0)
    return Asked(UNREGISTER, encode_fields(header) or {})


def handle(namesrv: Harness, asked: Any) -> Awaitable[Response]:
    """As the remoting service does."""
    answer = namesrv.requests.handlers[asked.code](asked)
    assert not isinstance(answer, Response), "what is under way is waited for"
    return answer


def run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 120))  # type: ignore[arg-type]


@pytest.mark.parametrize("compressed", [False, True])
def test_others_are_answered_while_many_topics_are_read_and_all_come_at_once(namesrv: Harness, compressed: bool) -> None:
    async def test() -> None:
        answer = asyncio.ensure_future(handle(namesrv, register(body(MANY, compressed=compressed))))
        seen = []
        while not answer.done():
            seen.append(len(namesrv.routes.all_topics()))
            await asyncio.sleep(0)
        assert answer.result().code == 0 and len(namesrv.routes.all_topics()) == MANY
        assert seen.count(0) >= MANY / turns.SLICE_TOPICS and set(seen) <= {0, MANY}
        await asyncio.sleep(0)
        assert not namesrv.requests.turns.has(("c", "a:1"))

    run(test)


def test_what_comes_of_one_broker_is_carried_out_in_its_order(namesrv: Harness) -> None:
    async def test() -> None:
        large = handle(namesrv, register(body(MANY)))
        small = handle(namesrv, register(body(2, version=2)))
        other = namesrv.requests.handlers[REGISTER](register(body(2), address="b:1"))
        assert isinstance(other, Response) and other.code == 0, "nobody else waits"
        assert [answer.code for answer in await asyncio.gather(large, small)] == [0, 0]
        assert namesrv.routes.data_version("c", "a:1") == DataVersion(2, 2)
        again, gone = handle(namesrv, register(body(MANY, version=3))), handle(namesrv, unregister())
        assert (await gone).code == 0 and (await again).code == 0
        assert namesrv.departures[-1].registration == namesrv.routes.registration("c", "a:1")

    run(test)


def test_of_a_connection_that_closes_meanwhile_nothing_is_taken(tmp_path: Path) -> None:
    async def test() -> None:
        overrides = {"listenPort": "0", "bindAddress": "127.0.0.1", "kvConfigPath": str(tmp_path / "kv.json"), "reactorThreads": "1"}
        server = NameServer(load_config("namesrv", None, overrides))
        await server.start()
        try:
            assert server._requests is not None
            answer: Any = server._requests.handlers[REGISTER](register(body(MANY), connection_id=7))
            stays: Any = server._requests.handlers[REGISTER](register(body(MANY), connection_id=8, address="b:1"))
            await asyncio.sleep(0)
            server._connection_closed(register(b"", connection_id=7))
            assert (await answer).code == ResponseCode.SYSTEM_ERROR and (await stays).code == 0
            assert server.routes.registration("c", "a:1") is None and server.routes.registration("c", "b:1") is not None
        finally:
            await server.stop()

    run(test)


def test_a_topic_that_cannot_be_read_refuses_a_master_and_not_a_slave(namesrv: Harness) -> None:
    data = body(MANY).replace(b'"perm":6', b'"perm":{}', 1)

    async def test() -> None:
        slave, master = handle(namesrv, register(data, address="b:1", broker_id=1)), handle(namesrv, register(data))
        assert (await slave).code == 0
        with pytest.raises(BodyError, match="perm"):
            await master
        assert namesrv.routes.registration("c", "a:1") is None and not namesrv.requests.turns.has(("c", "a:1"))

    run(test)


def test_what_waits_has_a_bound(tmp_path: Path) -> None:
    data = body(MANY)
    namesrv = Harness(tmp_path, {"bufferBytesMax": str(turns.BUFFERS_PART * len(data) * 3 // 2)})

    async def test() -> None:
        first = handle(namesrv, register(data))
        busy = namesrv.requests.handlers[REGISTER](register(data))
        assert isinstance(busy, Response) and busy.code == ResponseCode.SYSTEM_BUSY
        other = namesrv.requests.handlers[REGISTER](register(data, address="b:1"))
        assert isinstance(other, Response) and other.code == 0, "it is read in one piece"
        assert (await first).code == 0
        assert (await handle(namesrv, register(data))).code == 0

    run(test)
