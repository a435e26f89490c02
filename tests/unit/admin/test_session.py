"""What a run of a command makes of servers that do not answer, or refuse, told by a client that only pretends to ask them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rocketpy._core.errors import NetworkError, RocketpyError, TimedOut
from rocketpy._core.remoting import Command, decode_command, encode_command
from rocketpy.admin import monitoring, progress, reading
from rocketpy.admin.acls import copy_acl
from rocketpy.admin.clients import consumer_status, running_info, shown_info
from rocketpy.admin.command_line import Given
from rocketpy.admin.errors import AdminError
from rocketpy.admin.exports import export_metrics
from rocketpy.admin.finding import Pulled
from rocketpy.admin.offsets import clone_group_offset, reset_offset_by_time, skip_accumulated_message
from rocketpy.admin.output import Output
from rocketpy.admin.progress import ConsumeStats
from rocketpy.admin.sending import Outgoing, measure_sends
from rocketpy.admin.session import TIMEOUT_MAX_S, Session
from rocketpy.admin.stats import broker_stats
from rocketpy.admin.users import copy_user
from rocketpy.remoting.client import ConnectFailed, RemotingClient
from rocketpy.remoting.codes import RequestCode, ResponseCode

HOLE, BROKER, NAMESRV = "127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"
ROUTE = (
    b'{"brokerDatas":[{"brokerName":"b","cluster":"C","brokerAddrs":{"0":"%s"}}],'
    b'"queueDatas":[{"brokerName":"b","perm":6,"readQueueNums":2,"writeQueueNums":2}]}'
)


def answer(code: int = 0, remark: str = "", body: bytes = b"", fields: Mapping[str, str] | None = None) -> Command:
    return decode_command(encode_command(code, fields or {}, body, opaque=1, flag=1, remark=remark))


class Client:
    """asked: whom, for what. give: the answer, or what is raised instead."""

    def __init__(self, give: Callable[[str, int], Command | RocketpyError], *, is_connected: bool = False) -> None:
        self.asked: list[tuple[str, int]] = []
        self._give = give
        self._is_connected = is_connected

    async def invoke(self, address: str, code: int, *rest: Any, **more: Any) -> Command:
        self.asked.append((address, code))
        given = self._give(address, code)
        if isinstance(given, RocketpyError):
            raise given
        return given

    def is_connected(self, address: str) -> bool:
        return self._is_connected

    def session(self) -> Session:
        return Session(cast(RemotingClient, self), (NAMESRV,))


@pytest.mark.parametrize(
    ("error", "is_connected", "tries"),
    [
        (ConnectFailed("no answer"), False, 1),
        (TimedOut("no answer"), False, 1),  # as long as a connection may take, or shorter
        (TimedOut("no answer"), True, 3),  # a request may be slow, and the next one not
        (NetworkError("lost"), False, 3),
    ],
)
def test_who_cannot_be_reached_is_waited_for_once_a_round(error: RocketpyError, is_connected: bool, tries: int) -> None:
    client = Client(lambda address, code: error if address == HOLE else answer(), is_connected=is_connected)
    session = client.session()

    async def ask(address: str) -> None:
        await session.call(address, RequestCode.GET_MAX_OFFSET)

    async def round_of_three() -> None:
        assert not await session.each([HOLE, BROKER, HOLE, BROKER, HOLE], ask)

    asyncio.run(round_of_three())
    assert [address for address, _ in client.asked].count(HOLE) == tries
    assert [address for address, _ in client.asked].count(BROKER) == 2
    assert len(session.take_troubles()) == 1
    asyncio.run(round_of_three())
    assert [address for address, _ in client.asked].count(HOLE) == 2 * tries


def test_a_connection_that_fails_is_told_from_one_that_is_lost() -> None:
    async def ask() -> None:
        async with RemotingClient() as client:
            await client.invoke(HOLE, RequestCode.GET_MAX_OFFSET)

    with pytest.raises(ConnectFailed):
        asyncio.run(ask())


@pytest.mark.parametrize(
    ("code", "remark", "is_empty"),
    [
        (ResponseCode.SYSTEM_ERROR, "The stats <TOPIC_PUT_NUMS> <T> not exist", True),
        (ResponseCode.SYSTEM_ERROR, "java.lang.NullPointerException", False),
        (ResponseCode.NO_PERMISSION, "no", False),
        (ResponseCode.SYSTEM_BUSY, "later", False),
    ],
)
def test_only_a_topic_without_messages_has_no_rates(code: int, remark: str, is_empty: bool) -> None:
    session = Client(lambda address, request: answer(code, remark)).session()

    async def ask() -> dict[str, Any]:
        return await broker_stats(session, BROKER, "TOPIC_PUT_NUMS", "T")

    if is_empty:
        assert asyncio.run(ask()) == {}
    else:
        with pytest.raises(AdminError):
            asyncio.run(ask())


def test_sends_that_fail_are_tried_each_and_say_why() -> None:
    client = Client(lambda address, code: ConnectFailed("no answer") if address == HOLE else answer(body=ROUTE % HOLE.encode()))
    session = client.session()
    assert asyncio.run(measure_sends(session, Outgoing("b", b"x"), 3))[:2] == (0, 3)
    assert [address for address, _ in client.asked] == [NAMESRV, HOLE, HOLE, HOLE]
    assert [error.address for error in session.troubles] == [HOLE]
    session = Client(lambda address, code: answer(ResponseCode.TOPIC_NOT_EXIST, "none")).session()
    assert asyncio.run(measure_sends(session, Outgoing("b", b"x"), 3)) == (0, 3, 0.0)
    assert [error.code for error in session.troubles] == [ResponseCode.TOPIC_NOT_EXIST]


def test_a_client_that_does_not_answer_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = {"brokerName": "b", "queueId": 0, "topic": "T"}

    async def consumers(session: Session, group: str) -> dict[str, Any]:
        return {"connectionSet": [{"clientId": f"10.0.0.{number}@1"} for number in range(3)]}

    async def info(session: Session, group: str, client_id: str) -> dict[str, Any]:
        if client_id == "10.0.0.0@1":
            raise AdminError("no answer", address=client_id)
        if client_id == "10.0.0.1@1":
            raise AdminError("left meanwhile", code=ResponseCode.CONSUMER_NOT_ONLINE)
        return {"mqTable": {f'{{"brokerName":"b","queueId":0,"topic":"{queue["topic"]}"}}': {}}}

    async def stats(session: Session, group: str, **more: Any) -> ConsumeStats:
        return ConsumeStats()

    seen: list[list[Any]] = []

    def look(infos: list[Any], now: int) -> bool:
        seen.append(infos)
        return False

    monkeypatch.setattr(progress, "shown_info", info)
    for module in (progress, monitoring):
        monkeypatch.setattr(module, "consumers_of", consumers)
    monkeypatch.setattr(monitoring, "consume_stats", stats)
    monkeypatch.setattr(monitoring, "has_same_subscriptions", look)
    session, said = Client(lambda address, code: answer()).session(), []
    assert list(asyncio.run(progress.clients_of_queues(session, "G")).values()) == ["10.0.0.2"]
    asyncio.run(monitoring.look_at(session, Output(said.append, is_json=False), "G"))
    assert len(seen[0]) == 1
    assert said[0].endswith("different subscriptions in group=G\n")
    assert [error.cause for error in session.troubles] == ["no answer"]


def test_nonsense_that_is_not_shown_keeps_nothing_from_being_done() -> None:
    """A message is given to a push consumer, whatever else it says."""
    report = {"properties": {"PROP_CONSUME_TYPE": "CONSUME_PASSIVELY"}, "mqTable": {"T@a@0": {}}}
    session = Client(lambda address, code: answer(body=json.dumps(report).encode())).session()
    assert asyncio.run(running_info(session, "G", "c", address=BROKER)) == report
    with pytest.raises(AdminError, match="not a queue"):
        asyncio.run(shown_info(session, "G", "c", address=BROKER))


def test_a_client_that_says_nonsense_of_itself_hides_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The third has no id that a file can have as its name."""
    monkeypatch.chdir(tmp_path)
    ids = ["a", "b", "c" * 300, "d"]
    reports = iter([b'{"mqTable":{"x":{}}}', b'{"subscriptionSet":5,"statusTable":{"T":{"pullRT":{}}}}', b"{}", b'{"jstack":"fine"}'])
    bodies = {
        RequestCode.GET_ROUTEINFO_BY_TOPIC: ROUTE % BROKER.encode(),
        RequestCode.GET_CONSUMER_CONNECTION_LIST: json.dumps({"connectionSet": [{"clientId": each} for each in ids]}).encode(),
    }
    session = Client(lambda address, code: answer(body=bodies.get(RequestCode(code)) or next(reports))).session()
    said: list[str] = []
    asyncio.run(consumer_status(session, Given({"g": "G"}, {}), Output(said.append, is_json=False)))
    assert [error.cause.partition(":")[0][-60:] for error in session.troubles] == [
        "what client a says of itself, mqTable",
        f"{'c' * 300} cannot be written"[-60:],
    ]
    assert [line.split()[1] for line in "".join(said).splitlines()[1:3]] == ["b", "d"] and "Rebalance OK" in "".join(said)
    assert sorted(path.name for path in tmp_path.glob("*/*")) == ["b", "d"]


def test_no_answer_is_waited_for_without_end() -> None:
    waits: list[float] = []

    class Patient(Client):
        async def invoke(self, address: str, code: int, *rest: Any, timeout_s: float, **more: Any) -> Command:
            waits.append(timeout_s)
            return answer(body=b"{}")

    session = Patient(lambda address, code: answer()).session()
    for text in ("9" * 18, "2000"):
        given = Given({"b": BROKER, "t": text}, {})
        asyncio.run(progress.broker_consume_stats(session, given, Output(lambda text: None, is_json=False)))
    assert waits == [TIMEOUT_MAX_S, 2.0]


def test_monitoring_goes_on_past_a_group_whose_clients_do_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    async def consumers(session: Session, group: str) -> dict[str, Any]:
        return {"connectionSet": [{"clientId": "10.0.0.1@1"}]}

    async def no_info(session: Session, group: str, client_id: str) -> dict[str, Any]:
        raise AdminError("no answer", address=client_id)

    async def stats(session: Session, group: str, **more: Any) -> ConsumeStats:
        return ConsumeStats()

    monkeypatch.setattr(progress, "shown_info", no_info)
    monkeypatch.setattr(monitoring, "consumers_of", consumers)
    monkeypatch.setattr(monitoring, "consume_stats", stats)
    session, said = Client(lambda address, code: answer()).session(), []
    asyncio.run(monitoring.look_at(session, Output(said.append, is_json=False), "G"))
    assert (said, [error.cause for error in session.troubles]) == ([], ["no answer"])


def test_a_group_whose_consumers_cannot_be_asked_for_is_missing_aloud(tmp_path: Path) -> None:
    """One that nobody consumes is not."""
    cluster = b'{"brokerAddrTable":{"b":{"brokerName":"b","cluster":"C","brokerAddrs":{"0":"%s"}}},"clusterAddrTable":{"C":["b"]}}'
    bodies = {
        RequestCode.GET_BROKER_CLUSTER_INFO: cluster % BROKER.encode(),
        RequestCode.GET_ROUTEINFO_BY_TOPIC: ROUTE % BROKER.encode(),
        RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: b'{"subscriptionGroupTable":{"readers":{}}}',
    }

    def export(no_consumers: RocketpyError | Command) -> list[str]:
        def give(address: str, code: int) -> Command | RocketpyError:
            return no_consumers if code == RequestCode.GET_CONSUMER_CONNECTION_LIST else answer(body=bodies.get(RequestCode(code), b""))

        session = Client(give).session()
        given = Given({"c": "C", "f": str(tmp_path)}, {})
        asyncio.run(export_metrics(session, given, Output(lambda text: None, is_json=False)))
        return [error.cause for error in session.troubles]

    assert export(NetworkError("the connection was lost")) == ["the connection was lost"]
    assert export(answer(ResponseCode.CONSUMER_NOT_ONLINE, "not online")) == []
    assert json.loads((tmp_path / "metrics.json").read_text())["evaluateReport"]["b"]["runtimeVersion"]["clientInfo"] == []


def test_a_queue_whose_offset_is_refused_is_named() -> None:
    body = b'{"offsetTable":{{"brokerName":"b","queueId":1,"topic":"T"}:{"brokerOffset":7,"consumerOffset":5}}}'
    bodies = {RequestCode.GET_ROUTEINFO_BY_TOPIC: ROUTE % BROKER.encode(), RequestCode.GET_CONSUME_STATS: body}

    def give(address: str, code: int) -> Command:
        return answer(ResponseCode.SYSTEM_ERROR, "full") if code == RequestCode.UPDATE_CONSUMER_OFFSET else answer(body=bodies[code])

    session, said = Client(give).session(), []
    given = Given({"s": "G", "d": "H", "t": "T"}, {})
    asyncio.run(clone_group_offset(session, given, Output(said.append, is_json=False)))
    assert (said, [error.cause for error in session.troubles]) == ([], ["MessageQueue [topic=T, brokerName=b, queueId=1]: full"])


COUNTED = cast(Any, SimpleNamespace(tags="A"))


def counted(monkeypatch: pytest.MonkeyPatch, *pulls: Pulled | AdminError) -> tuple[str, list[str]]:
    """(what printMsgByQueue -f true says, what went wrong) where a queue of nine messages is pulled like this."""
    left = list(pulls)

    async def pull(*rest: Any) -> Pulled:
        pulled = left.pop(0)
        if isinstance(pulled, AdminError):
            raise pulled
        return pulled

    def give(address: str, code: int) -> Command:
        if code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
            return answer(body=ROUTE % BROKER.encode())
        return answer(fields={"offset": "0" if code == RequestCode.GET_MIN_OFFSET else "9"})

    monkeypatch.setattr(reading, "pull", pull)
    session, said = Client(give).session(), []
    given = Given({"t": "T", "a": "b", "i": "0", "f": "true"}, {})
    asyncio.run(reading.print_msg_by_queue(session, given, Output(said.append, is_json=False)))
    return "".join(said), [error.cause for error in session.troubles]


def test_counts_are_all_that_is_said_where_no_message_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    first, ends = Pulled(ResponseCode.SUCCESS, [COUNTED], 1), Pulled(ResponseCode.PULL_OFFSET_MOVED, [], 9)
    assert counted(monkeypatch, first, ends) == (f"Tag: {'A':30} Count: 1\n", [])


@pytest.mark.parametrize(
    ("then", "cause"),
    [
        (Pulled(ResponseCode.PULL_RETRY_IMMEDIATELY, [], 1), "the broker's next offset 1 does not lead on from 1"),
        (AdminError("the connection was lost"), "the connection was lost"),
    ],
)
def test_what_was_counted_is_said_where_a_queue_cannot_be_read_on(
    then: Pulled | AdminError, cause: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    said, causes = counted(monkeypatch, Pulled(ResponseCode.SUCCESS, [COUNTED], 1), then)
    assert said == f"Tag: {'A':30} Count: 1\n"
    assert [each.endswith(cause) for each in causes] == [True], causes


@pytest.mark.parametrize("command", [reset_offset_by_time, skip_accumulated_message])
def test_only_brokers_without_consumers_get_offsets_written(command: Any) -> None:
    """What was before is read where nothing has been moved yet."""
    brokers = ",".join(
        f'{{"brokerName":"{name}","cluster":"C","brokerAddrs":{{"0":"{address}"}}}}' for name, address in (("a", HOLE), ("b", BROKER))
    )
    queues = ",".join(f'{{"brokerName":"{name}","perm":6,"readQueueNums":1,"writeQueueNums":1}}' for name in "ab")

    def row(name: str, value: str) -> bytes:
        return f'{{"offsetTable":{{{{"brokerName":"{name}","queueId":0,"topic":"T"}}:{value}}}}}'.encode()

    def give(address: str, code: int) -> Command:
        if code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
            return answer(body=f'{{"brokerDatas":[{brokers}],"queueDatas":[{queues}]}}'.encode())
        if code == RequestCode.INVOKE_BROKER_TO_RESET_OFFSET:
            return answer(body=row("a", "3")) if address == HOLE else answer(ResponseCode.CONSUMER_NOT_ONLINE, "nobody")
        if code == RequestCode.GET_CONSUME_STATS:
            return answer(body=row("b", '{"brokerOffset":7,"consumerOffset":5}'))
        return answer(fields={"offset": "4"})

    client = Client(give)
    said: list[str] = []
    out = Output(said.append, is_json=True)
    asyncio.run(command(client.session(), Given({"g": "G", "t": "T", "s": "0"}, {}), out))
    out.end()
    rows = {row["brokerName"]: row for row in json.loads(said[0])["queues"]}
    assert (rows["a"]["offset"], rows["b"]["consumerOffset"], rows["b"]["timestampOffset"]) == (3, 5, 4)
    assert {address for address, code in client.asked if code == RequestCode.UPDATE_CONSUMER_OFFSET} == {BROKER}


USERS = (copy_user, "username", "u", RequestCode.AUTH_GET_USER, RequestCode.AUTH_CREATE_USER, RequestCode.AUTH_UPDATE_USER)
ACLS = (copy_acl, "subject", "s", RequestCode.AUTH_GET_ACL, RequestCode.AUTH_CREATE_ACL, RequestCode.AUTH_UPDATE_ACL)


@pytest.mark.parametrize(("command", "member", "key", "get", "create", "update"), [USERS, ACLS])
@pytest.mark.parametrize("by_name", [True, False])
def test_what_is_copied_is_made_or_changed(command: Any, member: str, key: str, get: int, create: int, update: int, by_name: bool) -> None:
    missing = ResponseCode.USER_NOT_EXIST if command is copy_user else ResponseCode.POLICY_NOT_EXIST
    at_source = [{member: "old"}, {member: "new"}]

    def give(address: str, code: int, fields: Any) -> Command:
        if code in (RequestCode.AUTH_LIST_USER, RequestCode.AUTH_LIST_ACL):
            return answer(body=json.dumps(at_source).encode())
        name = getattr(fields, member)
        if code != get:
            return answer()
        known = [each for each in at_source if each[member] == name and (address == BROKER or name == "old")]
        return answer(body=json.dumps(known[0]).encode()) if known else answer(missing, "none")

    changed: list[tuple[str, int, str]] = []

    class Brokers(Client):
        async def invoke(self, address: str, code: int, *rest: Any, **more: Any) -> Command:
            if code in (create, update):
                changed.append((address, code, json.loads(rest[1])[member]))
            return give(address, code, rest[0])

    session, said = Brokers(lambda address, code: answer()).session(), []
    given = {"f": BROKER, "t": HOLE} | ({key: "old,new,nobody"} if by_name else {})
    asyncio.run(command(session, Given(given, {}), Output(said.append, is_json=False)))
    assert sorted(changed, key=lambda each: each[2]) == [(HOLE, create, "new"), (HOLE, update, "old")]
    assert len(said) == 2
    assert [error.code for error in session.troubles] == ([missing] if by_name else [])
