"""Commands where one broker of several cannot be asked: the others are, what they said is shown, and the exit status is 1.

`broker-0` is registered and does not listen: it comes first where brokers are asked in the order of their names. `broker-s` is a slave
whose master is away.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from rocketpy._core.errors import NetworkError
from rocketpy._core.remoting import Command, decode_command, encode_command
from rocketpy.admin.command_line import Given
from rocketpy.admin.errors import AdminError
from rocketpy.admin.output import Output
from rocketpy.admin.progress import ConsumeStats
from rocketpy.admin.rounds import every
from rocketpy.admin.session import Session
from rocketpy.remoting.bodies import DataVersion, RegisterBrokerBody, TopicConfig
from rocketpy.remoting.client import RemotingClient
from rocketpy.remoting.codes import RequestCode
from rocketpy.remoting.records import place_id
from tests.processes import PATIENCE_S, wait_until
from tests.unit.admin.conftest import Admin, Cluster
from tests.unit.broker.running import Peer

AWAY, SLAVE_AWAY = "127.0.0.1:1", "127.0.0.1:2"
GROUP, TOPIC, RETRY = "readers", "shared", "%RETRY%readers"
KEPT, ELSEWHERE, GIVEN = "kept", "elsewhere", "given"
"""A topic whose permissions are changed; one that only brokers have that are away; one that the other gets."""
POPPED = ("%RETRY%popping+one", "%RETRY%popping+two")
"""Retry topics of one POP group."""


async def register(peer: Peer, namesrv: str, cluster_name: str, name: str, broker_id: int, address: str) -> None:
    topics = {topic: TopicConfig(topic, 2, 2) for topic in (TOPIC, RETRY, *POPPED, KEPT, ELSEWHERE, GIVEN, "TBW102")}
    body = RegisterBrokerBody(topics, DataVersion(1, 1)).encode()
    fields = {"brokerName": name, "brokerAddr": address, "clusterName": cluster_name, "haServerAddr": address, "brokerId": broker_id}
    answer = await peer.ask(RequestCode.REGISTER_BROKER, fields, body, namesrv)
    assert answer.code == 0, answer.remark


@contextlib.contextmanager
def registered(cluster: Cluster, *brokers: tuple[str, int, str], cluster_name: str = "DefaultCluster") -> Iterator[Cluster]:
    """Brokers for one test: a registration lasts as long as the connection that made it, and not for two minutes without another one."""
    peer, names = cluster.both.peer(), {name for name, _, _ in brokers}
    try:
        for each in brokers:
            cluster.wait(register(peer, cluster.namesrv, cluster_name, *each))
        yield cluster
    finally:
        cluster.wait(peer.client.stop())
        routes = cluster.both.namesrv.routes
        wait_until(lambda: not names & set(routes.cluster_info()["brokerAddrTable"]), PATIENCE_S, "the brokers are gone")


async def make_topic(peer: Peer, name: str) -> None:
    answer = await peer.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, TOPIC_FIELDS | {"topic": name})
    assert answer.code == 0, answer.remark


async def consume(peer: Peer) -> None:
    for name in (TOPIC, RETRY, KEPT, "alone"):
        await make_topic(peer, name)
    assert (await peer.heartbeat("client-1", GROUP, TOPIC)).code == 0
    assert (await peer.send(TOPIC)).code == 0
    assert (await peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, OFFSET_FIELDS)).code == 0


TOPIC_FIELDS = {
    "defaultTopic": "TBW102", "readQueueNums": 1, "writeQueueNums": 1, "perm": 6, "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0,
    "order": False,
}  # fmt: skip
OFFSET_FIELDS = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": 0, "commitOffset": 0}


@pytest.fixture(scope="module")
def reader(cluster: Cluster) -> Peer:
    peer = cluster.both.peer()
    cluster.wait(consume(peer))
    return peer


@pytest.fixture
def away(cluster: Cluster, reader: Peer) -> Iterator[Cluster]:
    """A broker that is away, and one whose master is."""
    # as a client would, so that it is there for the last test, too
    assert cluster.wait(reader.heartbeat("client-1", GROUP, TOPIC)).code == 0

    def knows() -> bool:
        names = [queues["brokerName"] for queues in cluster.wait(cluster.both.namesrv_route(TOPIC))["queueDatas"]]
        return {"broker-0", "broker-a"} <= set(names)

    with registered(cluster, ("broker-0", 0, AWAY), ("broker-s", 1, SLAVE_AWAY)):
        wait_until(knows, PATIENCE_S, "the topic is known at both brokers")
        yield cluster


@pytest.fixture
def masterless(cluster: Cluster, reader: Peer) -> Iterator[Cluster]:
    """A broker whose master is away; all other masters answer."""
    with registered(cluster, ("broker-s", 1, SLAVE_AWAY)):
        yield cluster


def done_in_part(admin: Admin, *words: str) -> tuple[Any, list[str]]:
    """(the document, the errors' addresses) of a command that is done in part."""
    status, out, err = admin(*words, "--output", "json")
    found = json.loads(out)
    assert status == 1, found
    assert err.count("\n") == len(found["errors"]), err
    return found, [error.get("address", "") for error in found["errors"]]


@pytest.fixture
def failing(admin: Admin, away: Cluster) -> Any:
    return lambda *words: done_in_part(admin, *words)


@pytest.fixture
def leaving_out(admin: Admin, masterless: Cluster) -> Any:
    return lambda *words: done_in_part(admin, *words)


def test_queues_of_brokers_that_answer_are_shown(failing: Any) -> None:
    found, addresses = failing("topicStatus", "-t", TOPIC)
    assert {row["brokerName"] for row in found["queues"]} == {"broker-a"}
    assert addresses == [AWAY]


def test_a_group_is_seen_at_brokers_that_answer(failing: Any) -> None:
    found, addresses = failing("consumerProgress", "-g", GROUP)
    assert [row["diff"] for row in found["queues"] if row["topic"] == TOPIC] == [1]
    assert (found["diffTotal"], addresses) == (1, [AWAY])
    found, addresses = failing("consumerProgress")
    groups = [row["group"] for row in found["groups"]]
    assert groups.count("popping") == 1 and not any("+" in group for group in groups)
    row = found["groups"][groups.index(GROUP)]
    assert (row["count"], row["diffTotal"], addresses) == (1, 1, [AWAY])
    found, addresses = failing("statsAll", "-t", TOPIC)
    assert (found["stats"][0]["accumulation"], set(addresses)) == (1, {AWAY})


def test_what_any_broker_knows_is_asked_of_the_next_one(admin: Admin, document: Callable[..., Any], away: Cluster) -> None:
    (client,) = document("consumerConnection", "-g", GROUP)["connections"]
    assert client["clientId"] == "client-1"
    assert document("producerConnection", "-g", "producers", "-t", TOPIC)["connections"][0]["clientId"] == "client-1"
    status, _, err = admin("consumerConnection", "-g", GROUP, "-b", AWAY)
    assert status == 1 and AWAY in err


def test_messages_of_brokers_that_answer_are_printed(failing: Any) -> None:
    found, addresses = failing("printMsg", "-t", TOPIC)
    assert ([each["body"] for each in found["messages"]], addresses) == (["hello"], [AWAY])


def test_a_broker_without_master_is_told_of(failing: Any) -> None:
    found, addresses = failing("updateSubGroup", "-c", "DefaultCluster", "-g", "new-group")
    assert addresses == ["", AWAY]
    assert found["errors"][0]["cause"] == "broker broker-s of cluster DefaultCluster has no master now and was left out"
    assert len(found["done"]) == 1


def topics_at(cluster: Cluster, peer: Peer) -> Any:
    return cluster.wait(peer.value(RequestCode.GET_ALL_TOPIC_CONFIG))["topicConfigTable"]


def make_known(cluster: Cluster, peer: Peer, topic: str) -> None:
    cluster.wait(make_topic(peer, topic))
    wait_until(lambda: is_known(cluster, topic), PATIENCE_S, f"route of {topic}")


def is_known(cluster: Cluster, topic: str) -> bool:
    return topic in cluster.both.namesrv.routes.all_topics()


def test_a_group_that_a_master_kept_keeps_what_is_to_be_consumed_again(failing: Any, away: Cluster, reader: Peer) -> None:
    away.wait(make_topic(reader, "%RETRY%stayers"))
    found, addresses = failing("deleteSubGroup", "-c", "DefaultCluster", "-g", "stayers")
    assert ([done["address"] for done in found["done"]], addresses) == ([away.broker], ["", AWAY])
    assert "%RETRY%stayers" in topics_at(away, reader)


def test_a_group_goes_with_its_topics_while_a_broker_has_no_master(leaving_out: Any, masterless: Cluster, reader: Peer) -> None:
    make_known(masterless, reader, "%RETRY%goers")
    found, addresses = leaving_out("deleteSubGroup", "-c", "DefaultCluster", "-g", "goers")
    assert ([done["address"] for done in found["done"]], addresses) == ([masterless.broker], ["", SLAVE_AWAY])
    assert found["errors"][0]["remedy"].endswith("do this again with -b and its address")
    assert "%RETRY%goers" not in topics_at(masterless, reader)
    assert not is_known(masterless, "%RETRY%goers")


def test_a_topic_that_a_master_kept_is_found_there(failing: Any, away: Cluster, reader: Peer) -> None:
    make_known(away, reader, "stays")
    found, addresses = failing("deleteTopic", "-c", "DefaultCluster", "-t", "stays")
    assert ("done" in found, addresses) == (False, ["", AWAY])
    assert is_known(away, "stays")


def test_a_topic_is_deleted_while_a_broker_has_no_master(leaving_out: Any, masterless: Cluster, reader: Peer) -> None:
    make_known(masterless, reader, "goes")
    found, addresses = leaving_out("deleteTopic", "-c", "DefaultCluster", "-t", "goes")
    assert ([done["nameServers"] for done in found["done"]], addresses) == ([[masterless.namesrv]], [""])
    assert found["errors"][0]["remedy"].endswith("once it has one, do this again"), "the command has no -b"
    assert "goes" not in topics_at(masterless, reader)
    assert not is_known(masterless, "goes")


def test_who_only_asks_is_told_of_a_broker_without_master_where_nothing_was_found(
    document: Callable[..., Any], masterless: Cluster
) -> None:
    assert len(document("haStatus", "-c", "DefaultCluster")["brokers"]) == 1

    async def ask(found: str | None) -> list[str]:
        async def find(address: str) -> str | None:
            return found

        async with RemotingClient() as client:
            session = Session(client, (masterless.namesrv,))
            assert await session.found_at_master(Given({"c": "DefaultCluster"}, {}), find) == (found and (masterless.broker, found))
            return [error.cause for error in session.troubles]

    assert asyncio.run(ask("a user")) == []
    assert asyncio.run(ask(None)) == ["broker broker-s of cluster DefaultCluster has no master now and was left out"]


EXPORTS = {"exportMetadata": "metadata.json", "exportConfigs": "configs.json", "exportMetrics": "metrics.json"}


@pytest.mark.parametrize("command", EXPORTS)
def test_a_file_in_which_a_broker_is_missing_is_told_of(leaving_out: Any, tmp_path: Path, command: str) -> None:
    found, addresses = leaving_out(command, "-c", "DefaultCluster", "-f", str(tmp_path))
    assert (found["file"], addresses) == (str(tmp_path / EXPORTS[command]), [""])
    assert found["errors"][0]["cause"] == "broker broker-s of cluster DefaultCluster has no master now and was left out"
    assert json.loads((tmp_path / EXPORTS[command]).read_text())


@pytest.mark.parametrize("command", EXPORTS)
def test_of_a_cluster_without_a_master_no_file_is_written(admin: Admin, cluster: Cluster, tmp_path: Path, command: str) -> None:
    file = tmp_path / EXPORTS[command]
    file.write_text("what was there before")
    with registered(cluster, ("broker-m", 1, SLAVE_AWAY), cluster_name="Masterless"):
        status, out, err = admin(command, "-c", "Masterless", "-f", str(tmp_path))
        assert admin("checkRocksdbCqWriteProgress", "-c", "Masterless")[0] == 1
    assert (status, out) == (1, "") and "no broker of cluster Masterless has a master: no file is written" in err
    assert [path.read_text() for path in tmp_path.iterdir()] == ["what was there before"]


def test_a_group_without_offsets_where_the_topic_is_has_none_to_give(admin: Admin, away: Cluster) -> None:
    status, out, err = admin("cloneGroupOffset", "-s", GROUP, "-d", GROUP, "-t", ELSEWHERE)
    assert (status, out) == (1, "") and f"group {GROUP} has no offsets at the brokers of {ELSEWHERE}: nothing was moved" in err


def test_offsets_that_were_cloned_are_named_where_others_were_not(admin: Admin, away: Cluster) -> None:
    status, out, err = admin("cloneGroupOffset", "-s", GROUP, "-d", GROUP, "-t", TOPIC)
    queue = f"MessageQueue [topic={TOPIC}, brokerName=broker-a, queueId=0]"
    assert (status, out) == (1, f"clone group offset 0 to destGroup=[{GROUP}], {queue}\n")
    assert AWAY in err


def test_a_topic_that_a_master_gets_had_no_permissions_there(failing: Any, away: Cluster) -> None:
    found, _ = failing("updateTopicPerm", "-c", "DefaultCluster", "-t", GIVEN, "-p", "4")
    assert found["done"] == [{"address": away.broker, "perm": 4, "permBefore": None}]


def test_offsets_are_moved_where_brokers_answer(failing: Any) -> None:
    for command, more, offset in (("skipAccumulatedMessage", (), 1), ("resetOffsetByTime", ("-s", "0"), 0)):
        found, addresses = failing(command, "-g", GROUP, "-t", TOPIC, *more)
        assert ([row["offset"] for row in found["queues"]], addresses) == ([offset], [AWAY])


def test_a_message_of_a_broker_that_is_away_is_not_said_to_be_missing(failing: Any, admin: Admin) -> None:
    found, addresses = failing("queryMsgById", "-t", "alone", "-i", f"{place_id(SLAVE_AWAY, 0)},{place_id(AWAY, 0)}")
    assert addresses == [SLAVE_AWAY, AWAY]
    assert {error["request"] for error in found["errors"]} == {"VIEW_MESSAGE_BY_ID"}


def test_each_broker_keeps_its_number_of_queues(failing: Any, away: Cluster, reader: Peer) -> None:
    failing("updateTopicPerm", "-c", "DefaultCluster", "-t", KEPT, "-p", "4")
    config = topics_at(away, reader)[KEPT]
    assert (config["perm"], config["readQueueNums"], config["writeQueueNums"]) == (4, 1, 1)


def test_what_somebody_registered_as_an_address_is_not_wrong_usage(away: Cluster, failing: Any) -> None:
    with registered(away, ("broker-z", 0, "nowhere")):
        found, addresses = failing("clusterList")
        assert [row["brokerName"] for row in found["brokers"]] == ["broker-0", "broker-a", "broker-s", "broker-z"]
        assert addresses == [AWAY, SLAVE_AWAY, "nowhere"]


def test_rounds_go_on_when_the_name_server_is_away_for_one() -> None:
    """The first one says whether the command can be at all."""

    async def rounds_of(*served: bool) -> list[str]:
        left = list(served)

        async def work(session: Session, given: Given, out: Output) -> None:
            if not left:
                raise KeyboardInterrupt
            if not left.pop(0):
                raise AdminError("no answer", address=AWAY)
            out.set(rows=1)

        written: list[str] = []
        session = Session(cast(RemotingClient, None), (AWAY,))
        with contextlib.suppress(KeyboardInterrupt):
            await every(session, Given({}, {}), Output(written.append, is_json=True), work, 0)
        return written

    told = f'{{"errors": [{{"cause": "no answer", "address": "{AWAY}"}}]}}\n'
    assert asyncio.run(rounds_of(True, False, True)) == ['{"rows": 1}\n', told, '{"rows": 1}\n']
    with pytest.raises(AdminError):
        asyncio.run(rounds_of(False, True))


def test_a_table_of_many_queues_is_read() -> None:
    """Its keys are objects, as RocketMQ writes them: 15,000 queues are 1.1 MB of what is no standard JSON."""
    rows = (
        f'{{"brokerName":"broker-a","queueId":{number},"topic":"T"}}:{{"brokerOffset":{number},"consumerOffset":0}}'
        for number in range(15_000)
    )
    body = f'{{"offsetTable":{{{",".join(rows)}}}}}'.encode()

    class Client:
        async def invoke(self, address: str, *rest: Any, **more: Any) -> Command:
            return decode_command(encode_command(0, {}, body, opaque=1, flag=1))

    async def ask() -> ConsumeStats:
        session = Session(cast(RemotingClient, Client()), ())
        return ConsumeStats.from_json(await session.members(AWAY, RequestCode.GET_CONSUME_STATS))

    assert asyncio.run(ask()).behind() == sum(range(15_000))


def test_the_name_server_that_answered_is_asked_first() -> None:
    """One that is away costs the time to connect once, not with each request."""

    asked: list[str] = []

    class Client:
        async def invoke(self, address: str, *rest: Any, **more: Any) -> Command:
            asked.append(address)
            if address == AWAY:
                raise NetworkError("connect failed")
            return decode_command(encode_command(0, {}, b'{"topicList":["T"]}', opaque=1, flag=1))

    async def ask() -> None:
        session = Session(cast(RemotingClient, Client()), (AWAY, SLAVE_AWAY))
        assert [await session.topics() for _ in range(3)] == [["T"]] * 3

    asyncio.run(ask())
    assert asked == [AWAY, SLAVE_AWAY, SLAVE_AWAY, SLAVE_AWAY]
