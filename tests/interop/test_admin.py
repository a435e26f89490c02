"""`rocketpy admin` beside RocketMQ 5.5.0's mqadmin: the same command against the same cluster, ours and (`--against peer`) theirs.

What differs from one moment to the next is blanked on both sides, and lines are sorted where Java prints what a hash table holds.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.processes import PATIENCE_S, wait_until

from . import wire
from .authority import SETTINGS
from .javaenv import CURRENT, JavaClients, Jvm
from .mqadmin import TROUBLE, MqAdmin
from .products import Cluster
from .test_auth import COMMANDS

pytestmark = pytest.mark.slow

TOPIC, PRODUCERS, CONSUMERS = "beside-topic", "GID-beside-producers", "GID-beside-consumers"
IDLE = "GID-beside-idle"


def ours(namesrv: str, *words: str) -> str:
    """What the command prints; it has to end with 0."""
    done = begin(namesrv, *words)
    assert done.returncode == 0, f"{words}: {done.stderr}"
    return done.stdout


def begin(namesrv: str, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "NAMESRV_ADDR": namesrv}
    command = [sys.executable, "-m", "rocketpy", "admin", *words]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=PATIENCE_S, check=False)


@dataclass
class Stage:
    cluster: Cluster
    java: JavaClients
    admin: MqAdmin
    sent: list[dict[str, Any]]
    consumer_id: str


@pytest.fixture(scope="module")
def stage(cluster: Cluster, jvm: Callable[..., Jvm]) -> Iterator[Stage]:
    """A topic with ten consumed messages, a producer and a consumer that stay connected: all made by our commands."""
    java = JavaClients(jvm(), cluster.address)
    printed = ours(cluster.address, "updateTopic", "-c", "DefaultCluster", "-t", TOPIC, "-r", "4", "-w", "4")
    assert f"create topic to {cluster.broker.address} success" in printed
    wait_until(lambda: cluster.route(TOPIC), 15, "route of the topic")
    producer = java.producer(PRODUCERS)
    sent = producer.send(TOPIC, *({"body": f"body {number}", "tags": f"T{number % 2}", "keys": f"K{number}"} for number in range(10)))
    first = java.push(CONSUMERS, TOPIC)
    assert len(first.received(10)) == 10
    first.shutdown()
    wait_until(lambda: sum(cluster.committed(CONSUMERS, TOPIC, number) for number in range(4)) == 10, 20, "the consumer committed")
    consumer = java.push(CONSUMERS, TOPIC)
    wait_until(lambda: len(consumer.queue_ids(TOPIC)) == 4, 20, "the consumer holds its queues")
    yield Stage(cluster, java, MqAdmin(jvm(), cluster.address), sent, consumer.started)
    java.close()


@pytest.fixture(scope="module")
def admin_jvm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jvm]:
    """A JVM whose mqadmin finds its credentials where an operator puts them."""
    home = tmp_path_factory.mktemp("admin")
    (home / "conf").mkdir()
    (home / "conf/tools.yml").write_text("accessKey: root\nsecretKey: secret-of-root\n")
    jvm = Jvm(CURRENT, home)
    yield jvm
    jvm.close()


_MOMENTS = (
    (re.compile(r"TPS: [0-9.E-]+"), "TPS: N"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(,\d{3})?"), "TIME"),
    (re.compile(r"timestamp\(long\)\[\d+\]"), "timestamp(long)[N]"),
    (re.compile(r"lastUpdateTimestamp=\d+"), "lastUpdateTimestamp=N"),
    (re.compile(r"INSTANCE_NAME, [^ ]*"), ""),
    (re.compile(r"(MIN|MAX)_OFFSET=\d+(, )?"), ""),
)


def settled(printed: str) -> list[str]:
    """The lines without what changes between two looks, those of hash tables in one order; the members of properties, too."""
    for pattern, instead in _MOMENTS:
        printed = pattern.sub(instead, printed)
    printed = re.sub(r"(?<=properties=)\{(.*?)\}(?=, body)", lambda match: _sorted(match[1]), printed)
    printed = re.sub(r"(?<=Properties:)( +)\{(.*)\}", lambda match: match[1] + _sorted(match[2]), printed)
    return sorted(line.rstrip() for line in printed.replace("\r", "").splitlines() if line.strip())


def _sorted(members: str) -> str:
    return str(sorted(member.strip() for member in members.split(", ") if member.strip()))


def members(printed: str) -> Any:
    """Of JSON, its value: fastjson writes numbers as keys."""
    return json.loads(re.sub(r"([{,\s])(\d+):", r'\1"\2":', printed))


SAME: dict[str, list[str]] = {
    "topicList": [],
    "topicList -c": ["-c"],
    "topicRoute -l": ["-t", TOPIC, "-l"],
    "topicStatus": ["-t", TOPIC],
    "topicClusterList": ["-t", TOPIC],
    "clusterList -m": ["-m"],
    "getNamesrvConfig": ["-n", "{namesrv}"],
    "getBrokerConfig -b": ["-b", "{broker}"],
    "getBrokerConfig -c": ["-c", "DefaultCluster"],
    "getConsumerConfig": ["-g", CONSUMERS],
    "consumerProgress -g": ["-g", CONSUMERS],
    "consumerProgress -s": ["-g", CONSUMERS, "-s", "true"],
    "consumerProgress -t": ["-g", CONSUMERS, "-t", TOPIC],
    "consumerProgress": [],
    "consumerConnection": ["-g", CONSUMERS],
    "producerConnection": ["-g", PRODUCERS, "-t", TOPIC],
    "producer": ["-b", "{broker}"],
    "brokerConsumeStats": ["-b", "{broker}"],
    "queryMsgById": ["-t", TOPIC, "-i", "{offsetMsgId}", "-f", "UTF-8"],
    "queryMsgById unique": ["-t", TOPIC, "-i", "{msgId}"],
    "queryMsgByKey": ["-t", TOPIC, "-k", "K3"],
    "queryMsgByKey -p": ["-t", TOPIC, "-k", "T1", "-p", "T"],
    "queryMsgByUniqueKey": ["-t", TOPIC, "-i", "{msgId}"],
    "queryMsgByOffset": ["-t", TOPIC, "-b", "broker-a", "-i", "{queueId}", "-o", "{queueOffset}"],
    "printMsg": ["-t", TOPIC],
    "printMsg -s": ["-t", TOPIC, "-s", "T1", "-d", "false"],
    "printMsgByQueue": ["-t", TOPIC, "-a", "broker-a", "-i", "1", "-p", "true", "-d", "true", "-f", "true"],
    "consumeMessage": ["-t", TOPIC],
    "queryCq": ["-t", TOPIC, "-q", "0", "-i", "0", "-b", "{broker}", "-c", "2"],
    "statsAll": ["-t", TOPIC],
    "haStatus": ["-b", "{broker}"],
    "updateTopic": ["-b", "{broker}", "-t", "beside-other", "-r", "3", "-w", "3", "-a", "+message.type=NORMAL"],
    "updateTopic -c": ["-c", "DefaultCluster", "-t", "beside-other", "-p", "4"],
    "updateOrderConf put": ["-t", "beside-other", "-m", "put", "-v", "broker-a:3"],
    "updateOrderConf get": ["-t", "beside-other", "-m", "get"],
    "updateOrderConf delete": ["-t", "beside-other", "-m", "delete"],
    "updateSubGroup": ["-b", "{broker}", "-g", IDLE, "-r", "3", "-p", '{"type":"CUSTOMIZED","customizedRetryPolicy":{"next":[1000,5000]}}'],
    "updateSubGroup -c": ["-c", "DefaultCluster", "-g", IDLE, "--attributes", ""],
    "setConsumeMode": ["-c", "DefaultCluster", "-t", TOPIC, "-g", IDLE, "-m", "POP", "-q", "2"],
    "updateKvConfig": ["-s", "beside", "-k", "a", "-v", "b"],
    "deleteKvConfig": ["-s", "beside", "-k", "a"],
    "wipeWritePerm": ["-b", "broker-a", "-n", "{namesrv}"],
    "addWritePerm": ["-b", "broker-a", "-n", "{namesrv}"],
    "updateBrokerConfig": ["-b", "{broker}", "-k", "fileReservedTime", "-v", "71"],
    "updateNamesrvConfig": ["-k", "clusterTest", "-v", "false", "-n", "{namesrv}"],
    "resetOffsetByTime": ["-g", IDLE, "-t", TOPIC, "-s", "1600000000000"],
    "resetOffsetByTime -q": ["-g", IDLE, "-t", TOPIC, "-s", "1600000000000", "-b", "{broker}", "-q", "1", "-o", "1"],
    "skipAccumulatedMessage": ["-g", IDLE, "-t", TOPIC],
    "cloneGroupOffset": ["-s", CONSUMERS, "-d", IDLE, "-t", TOPIC],
    "cleanExpiredCQ": ["-b", "{broker}"],
    "cleanUnusedTopic": ["-c", "DefaultCluster"],
    "deleteExpiredCommitLog": ["-b", "{broker}"],
    "updateColdDataFlowCtrGroupConfig": ["-b", "{broker}", "-g", IDLE, "-v", "1000"],
    "removeColdDataFlowCtrGroupConfig": ["-b", "{broker}", "-g", IDLE],
    "exportMetadata": ["-c", "DefaultCluster", "-f", "{directory}"],
    "exportConfigs": ["-c", "DefaultCluster", "-f", "{directory}"],
    "exportMetrics": ["-c", "DefaultCluster", "-f", "{directory}"],
    "deleteSubGroup": ["-b", "{broker}", "-g", IDLE, "-r", "true"],
    "deleteTopic": ["-c", "DefaultCluster", "-t", "beside-other"],
}
"""Printed by both in the same words."""


@pytest.fixture(scope="module")
def printed(stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, str]]:
    """What mqadmin and our command print, by name: one after the other, as some change what the next ones see."""
    directory = tmp_path_factory.mktemp("export")
    message = stage.sent[3]
    values = {
        "{broker}": stage.cluster.broker.address,
        "{namesrv}": stage.cluster.address,
        "{directory}": str(directory),
        **{f"{{{name}}}": str(message[name]) for name in ("msgId", "offsetMsgId", "queueId", "queueOffset")},
    }
    found = {}
    for name, words in SAME.items():
        command, arguments = name.split(" ")[0], [values.get(word, word) for word in words]
        theirs = stage.admin.begin(command, *[word for word in arguments if word not in ("-n", stage.cluster.address)])
        mine = begin(stage.cluster.address, command, *arguments)
        found[name] = (theirs.result(60), mine.stdout + mine.stderr)
    return found


@pytest.mark.parametrize("name", SAME)
def test_prints_what_mqadmin_prints(printed: dict[str, tuple[str, str]], name: str) -> None:
    theirs, mine = printed[name]
    assert settled(mine) == settled(theirs)


def test_prints_the_route_as_json(stage: Stage) -> None:
    theirs = stage.admin.begin("topicRoute", "-t", TOPIC).result(60)
    assert members(ours(stage.cluster.address, "topicRoute", "-t", TOPIC)) == members(theirs)


def test_shares_queues_as_consumers_do(stage: Stage) -> None:
    """mqadmin takes the queues in the order of a hash set."""
    words = ("-t", TOPIC, "-i", "10.0.0.1,10.0.0.2,10.0.0.3")
    theirs = members(stage.admin.begin("allocateMQ", *words).result(60))["result"]
    mine = members(ours(stage.cluster.address, "allocateMQ", *words))["result"]
    assert {client: len(queues) for client, queues in mine.items()} == {client: len(queues) for client, queues in theirs.items()}
    assert sorted(each["queueId"] for queues in mine.values() for each in queues) == [0, 1, 2, 3]


@pytest.mark.parametrize(("command", "words"), [("clusterList", []), ("brokerStatus", ["-b", "{broker}"])])
def test_names_the_columns_that_mqadmin_names(stage: Stage, command: str, words: list[str]) -> None:
    arguments = [stage.cluster.broker.address if word == "{broker}" else word for word in words]
    theirs = stage.admin.begin(command, *arguments).result(60).strip("\n").splitlines()
    mine = ours(stage.cluster.address, command, *arguments).splitlines()
    assert [line[:32] for line in mine] == [line[:32] for line in theirs]
    assert [len(line.split()) for line in mine[:2]] == [len(line.split()) for line in theirs[:2]]


def test_a_consumer_says_the_same_about_itself(stage: Stage, tmp_path: Path) -> None:
    words = ("-g", CONSUMERS, "-i", stage.consumer_id)
    theirs = stage.admin.begin("consumerStatus", *words).result(60)
    mine = ours(stage.cluster.address, "consumerStatus", *words)
    headings = [line for line in theirs.splitlines() if line.startswith("#")]
    assert [line for line in mine.splitlines() if line.startswith("#")] == headings
    assert mine.count("\n") == theirs.count("\n")


def test_a_message_is_given_to_a_consumer(stage: Stage) -> None:
    given = ours(stage.cluster.address, "queryMsgById", "-t", TOPIC, "-i", stage.sent[2]["msgId"], "-g", CONSUMERS, "-d", stage.consumer_id)
    assert "consumeResult=CR_SUCCESS" in given


def test_messages_are_sent_and_timed(stage: Stage) -> None:
    sent = ours(stage.cluster.address, "sendMessage", "-t", TOPIC, "-p", "by hand", "-k", "by-hand", "-b", "broker-a", "-i", "2")
    heading, row = sent.splitlines()
    assert heading.split() == ["#Broker", "Name", "#QID", "#Send", "Result", "#MsgId"]
    assert row.split()[:3] == ["broker-a", "2", "SEND_OK"]
    by_key = stage.admin.run("queryMsgByKey", "-t", TOPIC, "-k", "by-hand")
    assert row.split()[3] in by_key, "mqadmin finds it under the id that we said"
    assert "Avg RT: " in ours(stage.cluster.address, "checkMsgSendRT", "-t", TOPIC, "-a", "5")


# ---- users and rights ----


def test_users_and_rights_are_told_as_mqadmin_tells_them(
    new_cluster: Callable[..., Cluster], admin_jvm: Jvm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """mqadmin at two clusters, our command at two more: step by step the same is printed, and what fails there fails here."""
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf/tools.yml").write_text("accessKey: root\nsecretKey: secret-of-root\n")
    monkeypatch.setenv("ROCKETMQ_HOME", str(tmp_path))
    theirs, mine = ([new_cluster(**SETTINGS) for _ in range(2)] for _ in range(2))
    for words in COMMANDS:
        told = MqAdmin(admin_jvm, theirs[0].address).text(words[0], *placed(words[1:], theirs))
        done = begin(mine[0].address, words[0], *placed(words[1:], mine))
        assert "secret-of-root" not in done.stderr
        if TROUBLE.search(told):
            assert done.returncode == 1, f"{words}: {done.stdout}"
            assert done.stderr.count("\n") == 1
        else:
            assert settled(named(done.stdout, mine)) == settled(named(told, theirs)), words


def placed(words: list[str], clusters: list[Cluster]) -> list[str]:
    addresses = {"THIS": clusters[0].broker.address, "OTHER": clusters[1].broker.address}
    return [addresses.get(word, word) for word in words]


def named(printed: str, clusters: list[Cluster]) -> str:
    return printed.replace(clusters[0].broker.address, "THIS").replace(clusters[1].broker.address, "OTHER")


def test_nobody_in_particular_is_told_where_credentials_come_from(
    new_cluster: Callable[..., Cluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = new_cluster(**SETTINGS)
    words = ("listUser", "-b", cluster.broker.address)
    done = begin(cluster.address, *words)
    assert done.returncode == 1
    assert "NO_PERMISSION (16)" in done.stderr and "ROCKETMQ_ACCESS_KEY" in done.stderr
    monkeypatch.setenv("ROCKETMQ_ACCESS_KEY", "root")
    monkeypatch.setenv("ROCKETMQ_SECRET_KEY", "secret-of-root")
    assert "root" in ours(cluster.address, *words)


def test_static_topics_are_made_and_shown_as_by_mqadmin(stage: Stage) -> None:
    namesrv, broker = stage.cluster.address, stage.cluster.broker.address
    said, mapped = [], []
    for topic, tool in (("static-ours", lambda *words: ours(namesrv, *words)), ("static-theirs", stage.admin.run)):
        lines = [tool("updateStaticTopic", "-b", "broker-a", "-t", topic, "-qn", queues).splitlines() for queues in ("2", "3")]
        lines.append(tool("remappingStaticTopic", "-b", "broker-a", "-t", topic).splitlines())
        said.append([re.sub(rf"/\S*/{topic}-\d+", "FILE", line) for each in lines for line in each])
        known = wire.call(broker, 351, {"topic": topic, "lo": "true"}).json()
        known["mappingDetail"].pop("epoch")
        mapped.append(json.loads(json.dumps(known).replace(topic, "TOPIC")))
    assert said[0] == said[1] and len(said[0]) == 6, said
    assert mapped[0] == mapped[1], mapped
    wait_until(lambda: stage.cluster.route("static-ours"), 15, "the route")
    assert settled(ours(namesrv, "topicStatus", "-t", "static-ours")) == settled(stage.admin.run("topicStatus", "-t", "static-ours"))
