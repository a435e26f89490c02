"""Registrations of many topics: who else asks is answered meanwhile, and each broker is what it said last."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from rocketpy.config import load_config
from rocketpy.namesrv import requests, turns
from rocketpy.namesrv.service import NameServer
from rocketpy.remoting.bodies import BodyError, DataVersion, RegisterBrokerBody, TopicConfig
from rocketpy.remoting.codes import RequestCode, ResponseCode
from rocketpy.remoting.command import Response, encode_fields
from rocketpy.remoting.headers import (
    DeleteTopicFromNamesrvRequestHeader,
    RegisterBrokerRequestHeader,
    RegisterTopicRequestHeader,
    UnRegisterBrokerRequestHeader,
    WipeWritePermOfBrokerRequestHeader,
)
from rocketpy.remoting.route import QueueData, TopicRoute

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


def register(data: bytes, *, connection_id: int = 1, address: str = "a:1", broker_id: int = 0, **more: str) -> Any:
    header = RegisterBrokerRequestHeader(
        broker_name=address[0],
        broker_addr=address,
        cluster_name="c",
        ha_server_addr="",
        broker_id=broker_id,
        compressed=False,
        body_crc32=0,
    )
    return Asked(REGISTER, {**(encode_fields(header) or {}), **more}, data, connection_id=connection_id)


def unregister(*, connection_id: int = 1, **more: str) -> Any:
    header = UnRegisterBrokerRequestHeader(broker_name="a", broker_addr="a:1", cluster_name="c", broker_id=0)
    return Asked(UNREGISTER, {**(encode_fields(header) or {}), **more}, connection_id=connection_id)


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


def test_how_many_requests_wait_has_a_bound(namesrv: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "TURNS_MAX", 3)

    async def test() -> None:
        waiting = [handle(namesrv, asked) for asked in (register(body(MANY)), unregister(), register(body(2)))]
        for asked in (unregister(), register(body(2, version=2)), register(b"")):
            busy = namesrv.requests.handlers[asked.code](asked)
            assert isinstance(busy, Response) and busy.code == ResponseCode.SYSTEM_BUSY
        assert [answer.code for answer in await asyncio.gather(*waiting)] == [0, 0, 0]
        assert namesrv.routes.data_version("c", "a:1") == DataVersion(1, 1), "what is refused is not carried out"

    run(test)


def test_what_is_in_headers_of_requests_that_wait_counts(tmp_path: Path) -> None:
    data = body(MANY)
    namesrv = Harness(tmp_path, {"bufferBytesMax": str(turns.BUFFERS_PART * len(data) * 3 // 2)})

    async def test() -> None:
        first = handle(namesrv, register(data))
        for asked in (unregister(pad="x" * len(data)), register(b"", pad="x" * len(data))):
            busy = namesrv.requests.handlers[asked.code](asked)
            assert isinstance(busy, Response) and busy.code == ResponseCode.SYSTEM_BUSY
        assert (await handle(namesrv, unregister())).code == (await first).code == 0

    run(test)


def test_a_goodbye_counts_though_its_connection_closes_while_it_waits(namesrv: Harness) -> None:
    async def test() -> None:
        namesrv.requests.handlers[REGISTER](register(body(2), connection_id=1))
        large, gone = handle(namesrv, register(body(MANY, version=2), connection_id=2)), handle(namesrv, unregister(connection_id=2))
        namesrv.requests.turns.connection_closed(2)
        assert (await large).code == ResponseCode.SYSTEM_ERROR and (await gone).code == 0
        assert [each.registration for each in namesrv.departures] == [namesrv.routes.registration("c", "a:1")]

    run(test)


def test_of_a_connection_that_has_closed_nothing_is_read(namesrv: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[RegisterBrokerBody] = []
    in_slices = requests.topics_in_slices

    async def counted(data: RegisterBrokerBody) -> RegisterBrokerBody:
        read.append(data)
        return await in_slices(data)

    monkeypatch.setattr(requests, "topics_in_slices", counted)

    async def test() -> None:
        closed = [handle(namesrv, register(body(MANY), connection_id=7, address=f"{name}:1")) for name in "bcd"]
        namesrv.requests.turns.connection_closed(7)
        assert (await handle(namesrv, register(body(MANY)))).code == 0
        assert {(await answer).code for answer in closed} == {ResponseCode.SYSTEM_ERROR} and len(read) == 1

    run(test)


DELETE, ADD = RequestCode.DELETE_TOPIC_IN_NAMESRV, RequestCode.REGISTER_TOPIC_IN_NAMESRV


def change(namesrv: Harness, code: RequestCode, header: Any, data: bytes = b"") -> int:
    asked: Any = Asked(code, encode_fields(header) or {}, data)
    answer = namesrv.requests.handlers[code](asked)
    assert isinstance(answer, Response), "it waits for nobody"
    return answer.code


def delete(namesrv: Harness, topic: str, cluster: str | None = None) -> int:
    return change(namesrv, DELETE, DeleteTopicFromNamesrvRequestHeader(topic=topic, cluster_name=cluster))


def add(namesrv: Harness, topic: str, *brokers: str) -> int:
    queues = tuple(QueueData(broker, 1, 1, 6) for broker in brokers)
    return change(namesrv, ADD, RegisterTopicRequestHeader(topic=topic), TopicRoute(queues, ()).encode(standard=True))


def test_what_changes_topics_counts_behind_a_registration_that_came_before_it(namesrv: Harness) -> None:
    """A topic that was deleted meanwhile would be back, for as long as nobody deletes it again."""

    async def test() -> None:
        for address in ("a:1", "b:1"):
            namesrv.requests.handlers[REGISTER](register(body(10), address=address))
        large, larger = (handle(namesrv, register(body(MANY + more, version=2 + more))) for more in (0, 1))
        assert delete(namesrv, "t1") == delete(namesrv, "t2", "c") == delete(namesrv, "t3", "elsewhere") == delete(namesrv, "t4") == 0
        assert add(namesrv, "t4", "a") == add(namesrv, "t5", "a", "b") == add(namesrv, "t6", "a", "nowhere") == 0
        later = handle(namesrv, register(body(MANY, version=2), address="b:1"))
        assert (await large).code == (await later).code == 0
        assert namesrv.requests.turns.has(("c", "a:1")), "one that came before still waits"
        assert (await larger).code == 0
        queues = {f"t{i}": route.queue_datas if (route := namesrv.routes.pick_route(f"t{i}")) else () for i in range(1, 7)}
        names = {topic: sorted(each.broker_name for each in found) for topic, found in queues.items()}
        assert names == {"t1": ["b"], "t2": ["b"], "t3": ["a", "b"], "t4": ["a", "b"], "t5": ["a", "b"], "t6": ["a", "b"]}
        assert {topic for topic, found in queues.items() if any(each.read_queue_nums == 1 for each in found)} == {"t4", "t5"}

    run(test)


def test_a_permission_that_was_wiped_stays_so_behind_a_registration_that_came_before(namesrv: Harness) -> None:
    async def test() -> None:
        answers = [handle(namesrv, register(body(MANY), address=f"{name}:1")) for name in "ab"]
        code, header = RequestCode.WIPE_WRITE_PERM_OF_BROKER, WipeWritePermOfBrokerRequestHeader(broker_name="a")
        assert change(namesrv, code, header) == 0
        assert [answer.code for answer in await asyncio.gather(*answers)] == [0, 0]
        route = namesrv.routes.pick_route("t9")
        assert route is not None and {data.broker_name: data.perm for data in route.queue_datas} == {"a": 4, "b": 6}

    run(test)


def test_a_registration_that_is_ignored_changes_nothing_about_the_topics_of_who_holds_its_id(namesrv: Harness) -> None:
    """A topic that was deleted, and made again by the master, was gone until the master's next registration."""

    async def test() -> None:
        outdated = DataVersion(state_version=1)
        data = RegisterBrokerBody({f"t{i}": TopicConfig(f"t{i}") for i in range(MANY)}, outdated).encode(compressed=False)
        answer = handle(namesrv, register(data, address="a:2"))
        assert delete(namesrv, "t1") == 0
        made = RegisterBrokerBody({"t1": TopicConfig("t1"), "t2": TopicConfig("t2")}, DataVersion(state_version=2))
        namesrv.requests.handlers[REGISTER](register(made.encode(compressed=False), address="a:1"))
        assert (await answer).code == 0
        assert namesrv.routes.broker_member_group("a") == {0: "a:1"}
        assert sorted(namesrv.routes.all_topics()) == ["t1", "t2"]

    run(test)


@pytest.mark.parametrize("acting", [{}, {"enableActingMaster": "false"}])
def test_a_slaves_registration_changes_nothing_about_the_topics_of_its_master(namesrv: Harness, acting: dict[str, str]) -> None:
    """As that of an outdated one."""

    async def test() -> None:
        def master(counter: int) -> None:
            made = RegisterBrokerBody({"t1": TopicConfig("t1"), "t2": TopicConfig("t2")}, DataVersion(2, counter))
            namesrv.requests.handlers[REGISTER](register(made.encode(compressed=False)))

        master(1)
        answer = handle(namesrv, register(body(MANY), address="a:2", broker_id=1, **acting))
        assert delete(namesrv, "t1") == 0
        master(2)
        assert (await answer).code == 0
        assert namesrv.routes.broker_member_group("a") == {0: "a:1", 1: "a:2"}
        assert sorted(namesrv.routes.all_topics()) == ["t1", "t2"]

    run(test)


def test_changes_are_kept_while_somebody_waits_and_no_more_than_so_many(namesrv: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "CHANGES_MAX", 2)

    async def test() -> None:
        for _ in range(3):
            assert delete(namesrv, "nobody waits") == 0
        large = handle(namesrv, register(body(MANY)))
        assert [delete(namesrv, f"t{i}") for i in range(3)] == [0, 0, ResponseCode.SYSTEM_BUSY]
        other = handle(namesrv, register(body(MANY), address="b:1"))
        assert (await large).code == 0
        assert [delete(namesrv, f"t{i}") for i in range(3, 6)] == [0, 0, ResponseCode.SYSTEM_BUSY], "the first two wait for nobody"
        assert (await other).code == 0
        await asyncio.sleep(0)
        kept = namesrv.requests.turns
        assert not kept._changes and kept._bytes == 0
        assert sorted({f"t{i}" for i in range(6)} & set(namesrv.routes.all_topics())) == ["t0", "t1", "t2", "t5"]

    run(test)
