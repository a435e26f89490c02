"""Commands against a name server and a broker in this process: one pair for all, so each test brings its own names."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.processes import PATIENCE_S, wait_until
from tests.unit.admin.conftest import Admin, Cluster


def make_topic(admin: Admin, name: str, queues: int = 2) -> str:
    assert admin("updateTopic", "-b", "{broker}", "-t", name, "-r", str(queues), "-w", str(queues))[0] == 0
    wait_until(lambda: admin("topicRoute", "-t", name)[0] == 0, PATIENCE_S, f"route of {name}")
    return name


def test_a_topic_is_made_shown_and_deleted(admin: Admin, document: Callable[..., Any]) -> None:
    status, out, err = admin("updateTopic", "-c", "DefaultCluster", "-t", "made", "-r", "3", "-w", "2", "-a", "+message.type=NORMAL")
    assert (status, err) == (0, "")
    assert out.splitlines()[1].startswith("TopicConfig [topicName=made, readQueueNums=3, writeQueueNums=2, perm=RW-,")
    wait_until(lambda: "made" in admin("topicList")[1].split(), PATIENCE_S, "the topic is listed")
    assert document("topicRoute", "-t", "made")["queueDatas"][0]["readQueueNums"] == 3
    assert document("topicClusterList", "-t", "made") == {"clusters": ["DefaultCluster"]}
    assert [row["queueId"] for row in document("topicStatus", "-t", "made")["queues"]] == [0, 1, 2]
    assert admin("updateTopicPerm", "-b", "{broker}", "-t", "made", "-p", "6")[1] == "new perm equals to the old one!\n"
    assert "from 6 to 4" in admin("updateTopicPerm", "-c", "DefaultCluster", "-t", "made", "-p", "4")[1]
    status, out, _ = admin("deleteTopic", "-c", "DefaultCluster", "-t", "made")
    assert (status, out.count("success")) == (0, 2)
    assert admin("topicRoute", "-t", "made")[0] == 1


def test_topics_come_from_a_file(admin: Admin, tmp_path: Path) -> None:
    file = tmp_path / "topics.json"
    file.write_text(json.dumps([{"topicName": "listed-1", "readQueueNums": 1, "writeQueueNums": 1, "perm": 6}, {"topicName": "listed-2"}]))
    assert admin("updateTopicList", "-b", "{broker}", "-f", str(file))[0] == 0
    wait_until(lambda: {"listed-1", "listed-2"} <= set(admin("topicList")[1].split()), PATIENCE_S, "both are listed")
    for wrong in ("{", "{}", "[1]", "[]"):
        file.write_text(wrong)
        for command in ("updateTopicList", "updateSubGroupList"):
            assert admin(command, "-b", "{broker}", "-f", str(file))[0] == 1
    with pytest.raises(FileNotFoundError):  # a line of the entry point's
        admin("updateTopicList", "-b", "{broker}", "-f", str(tmp_path / "missing"))


def test_an_ordered_topic_has_its_order_at_the_name_server(admin: Admin) -> None:
    assert admin("updateTopic", "-b", "{broker}", "-t", "ordered", "-w", "5", "-o", "true")[0] == 0
    assert "orderConf=[broker-a:5]" in admin("updateOrderConf", "-t", "ordered", "-m", "get")[1]
    assert admin("updateOrderConf", "-t", "ordered", "-m", "delete")[0] == 0
    status, _, err = admin("updateOrderConf", "-t", "ordered", "-m", "get")
    assert status == 1 and "has no order configuration" in err
    assert admin("updateOrderConf", "-t", "ordered", "-m", "turn")[0] == 2


@pytest.mark.parametrize("place", [("-b", "{broker}"), ("-c", "DefaultCluster")])
def test_a_topic_that_no_broker_takes_is_not_shown_and_gets_no_order(admin: Admin, place: tuple[str, str]) -> None:
    status, out, err = admin("updateTopic", *place, "-t", "not possible", "-o", "true")
    assert (status, out) == (1, "") and "illegal characters" in err
    assert admin("updateOrderConf", "-t", "not possible", "-m", "get")[0] == 1


def test_a_message_is_sent_and_found_in_every_way(admin: Admin, document: Callable[..., Any]) -> None:
    topic = make_topic(admin, "messages")
    words = ("sendMessage", "-t", topic, "-p", "héllo", "-k", "K1 K2", "-c", "A", "-b", "broker-a", "-i", "1")
    (sent,) = document(*words)["messages"]
    assert (sent["sendStatus"], sent["queueId"]) == ("SEND_OK", 1)
    (by_id,) = document("queryMsgById", "-t", topic, "-i", sent["msgId"])["messages"]
    assert (by_id["body"], by_id["properties"]["KEYS"], by_id["msgId"]) == ("héllo", "K1 K2", sent["msgId"])
    for command, more in {
        "queryMsgById": ("-i", by_id["offsetMsgId"]),
        "queryMsgByUniqueKey": ("-i", sent["msgId"]),
        "queryMsgByKey": ("-k", "K2"),
        "queryMsgByOffset": ("-b", "broker-a", "-i", "1", "-o", "0"),
        "printMsg": (),
        "printMsgByQueue": ("-a", "broker-a", "-i", "1", "-p", "true", "-d", "true"),
        "consumeMessage": ("-b", "broker-a", "-i", "1"),
    }.items():
        (found,) = document(command, "-t", topic, *more)["messages"]
        assert found["msgId"] == sent["msgId"], command
    assert "Tag: A " in admin("printMsgByQueue", "-t", topic, "-a", "broker-a", "-i", "1", "-f", "true")[1]
    assert "messages" not in document("printMsg", "-t", topic, "-s", "B")
    for nothing in (("queryMsgById", "-i", "0" * 32), ("queryMsgByOffset", "-b", "broker-a", "-i", "1", "-o", "9")):
        assert admin(nothing[0], "-t", topic, *nothing[1:])[0] == 1
    again = document("queryMsgById", "-t", topic, "-i", sent["msgId"], "-s", "true")["done"]
    assert again[0]["msgId"] == sent["msgId"]
    assert document("queryCq", "-t", topic, "-q", "1", "-i", "0")["maxQueueIndex"] >= 1


def test_a_queue_is_printed_to_its_end_whatever_tags_come_first(cluster: Cluster, admin: Admin, document: Callable[..., Any]) -> None:
    """A broker looks at 800 entries for one pull."""
    topic, peer = make_topic(admin, "tagged", 1), cluster.both.peer()
    for tag in ("A",) * 900 + ("B",):
        assert cluster.wait(peer.send(topic, properties=f"TAGS\x01{tag}\x02")).code == 0
    words = ("printMsgByQueue", "-t", topic, "-a", "broker-a", "-i", "0", "-s", "B", "-p", "true", "-f", "true")
    found = document(*words)
    assert (found["tags"], [each["queueOffset"] for each in found["messages"]]) == ({"B": 1}, [900])


@pytest.mark.parametrize(
    "words",
    [
        ("sendMessage", "-t", "T", "-p", "x", "-i", "1"),
        ("consumeMessage", "-t", "T", "-i", "1"),
        ("consumeMessage", "-t", "T", "-c", "0"),
        ("consumeMessage", "-t", "T", "-s", "99999999999999"),
        ("printMsg", "-t", "T", "-c", "no-such-encoding"),
        ("printMsgByQueue", "-t", "T", "-a", "broker-a", "-i", "0"),
        ("queryMsgById", "-t", "T", "-i", ","),
        ("checkMsgSendRT", "-t", "T", "-a", "9999999999999999999"),
        ("setConsumeMode", "-b", "{broker}", "-t", "T", "-g", "G", "-m", "PUSH"),
        ("switchTimerEngine", "-b", "{broker}", "-e", "X"),
        ("removeBroker", "-c", "{broker}", "-b", "C:name"),
        ("removeBroker", "-c", "{broker}", "-b", "C:name:²"),
        ("rocksDBConfigToJson", "-p", "/tmp"),
        ("getControllerConfig", "-a", ";"),
        ("updateControllerConfig", "-a", ";", "-k", "k", "-v", "v"),
        ("copyUser", "-f", "{broker}", "-t", "{broker}", "-u", ","),
        ("copyAcl", "-f", "{broker}", "-t", "{broker}", "-s", ","),
        ("sendMessage", "-t", "T", "-p", "\udcff"),
        ("exportMetadata", "-b", "{broker}"),
        ("topicRoute", "-t", "T", "-n", "nowhere"),
        ("topicRoute", "-t", "T", "--output", "xml"),
        ("topicRoute", "-t", "T", "--timeout", "0"),
        ("nothing",),
        ("updateStaticTopic", "-t", "T"),
    ],
)
def test_wrong_usage_ends_with_two_and_one_line(admin: Admin, words: tuple[str, ...]) -> None:
    status, _, err = admin(*words)
    assert status == 2
    assert err.startswith("rocketpy admin") and err.count("\n") == 1


def test_name_servers_are_asked_for_only_where_they_are_needed(admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NAMESRV_ADDR")
    assert admin("brokerStatus", "-b", "{broker}")[0] == 0
    status, _, err = admin("topicList")
    assert status == 2 and "NAMESRV_ADDR" in err


def test_a_server_that_is_not_there_is_named(admin: Admin) -> None:
    status, _, err = admin("brokerStatus", "-b", "127.0.0.1:1")
    assert status == 1
    assert "127.0.0.1:1, GET_BROKER_RUNTIME_INFO (28): connect to 127.0.0.1:1 failed" in err
    status, out, _ = admin("topicList", "-n", "127.0.0.1:1;127.0.0.1:2", "-o", "json")
    assert status == 1
    assert json.loads(out)["errors"][0]["address"] == "127.0.0.1:2"


def test_a_cluster_that_is_not_there_is_told_with_those_that_are(admin: Admin) -> None:
    status, _, err = admin("updateTopic", "-c", "Nowhere", "-t", "T")
    assert status == 1
    assert "no cluster 'Nowhere' is registered; the name servers know: DefaultCluster" in err


def test_offsets_are_moved_cloned_and_shown(admin: Admin, document: Callable[..., Any]) -> None:
    topic = make_topic(admin, "offsets", 1)
    for _ in range(3):
        assert admin("sendMessage", "-t", topic, "-p", "x")[0] == 0
    assert admin("updateSubGroup", "-c", "DefaultCluster", "-g", "mover")[0] == 0
    assert document("skipAccumulatedMessage", "-g", "mover", "-t", topic)["queues"][0]["offset"] == 3
    assert (
        "reset consumer offset to 1"
        in admin("resetOffsetByTime", "-g", "mover", "-t", topic, "-s", "0", "-b", "{broker}", "-q", "0", "-o", "1")[1]
    )
    rows = document("brokerConsumeStats", "-b", "{broker}")["queues"]
    assert [row["diff"] for row in rows if row["group"] == "mover"] == [2]
    assert document("resetOffsetByTime", "-g", "mover", "-t", topic, "-s", "0")["queues"][0]["offset"] == 0
    status, _, err = admin("consumerProgress", "-g", "mover")
    assert status == 1 and "no consumer of that group has connected yet" in err
    make_topic(admin, "%RETRY%mover", 1)
    progress = document("consumerProgress", "-g", "mover", "-t", topic)
    assert progress["diffTotal"] == 3
    assert [row["group"] for row in document("consumerProgress")["groups"]] == ["mover"]
    status, _, err = admin("cloneGroupOffset", "-s", "mover", "-d", "copy", "-t", topic)
    assert status == 1 and "SUBSCRIPTION_GROUP_NOT_EXIST" in err
    assert admin("updateSubGroup", "-b", "{broker}", "-g", "copy")[0] == 0
    status, out, err = admin("cloneGroupOffset", "-s", "mover", "-d", "copy", "-t", topic)
    assert (status, err) == (0, "") and "clone group offset success" in out


def test_a_group_is_made_shown_and_deleted(admin: Admin, document: Callable[..., Any]) -> None:
    status, out, _ = admin("updateSubGroup", "-b", "{broker}", "-g", "made-group", "-r", "4")
    assert status == 0 and "retryMaxTimes=4" in out
    (shown,) = document("getConsumerConfig", "-g", "made-group")["brokers"]
    assert (shown["clusterName"], shown["group"]["retryMaxTimes"]) == ("DefaultCluster", 4)
    topic = make_topic(admin, "popped")
    assert "consume mode[POP]" in admin("setConsumeMode", "-b", "{broker}", "-t", topic, "-g", "made-group", "-m", "POP")[1]
    assert admin("deleteSubGroup", "-c", "DefaultCluster", "-g", "made-group", "-r", "true")[0] == 0
    assert admin("getConsumerConfig", "-g", "made-group")[0] == 1


def test_brokers_and_name_servers_are_looked_at_and_set(admin: Admin, document: Callable[..., Any]) -> None:
    (row,) = document("clusterList")["brokers"]
    assert (row["clusterName"], row["brokerName"], row["brokerId"], row["active"]) == ("DefaultCluster", "broker-a", 0, True)
    assert "#InTotalYest" in admin("clusterList", "-m")[1]
    assert document("brokerStatus", "-c", "DefaultCluster")["brokers"][0]["table"]["brokerVersionDesc"].startswith("V5_")
    assert "update broker config success" in admin("updateBrokerConfig", "-c", "DefaultCluster", "-k", "fileReservedTime", "-v", "71")[1]
    assert document("getBrokerConfig", "-b", "{broker}")["brokers"][0]["settings"]["fileReservedTime"] == "71"
    status, told, _ = admin("updateBrokerConfig", "-b", "{broker}", "-k", "fileReservdTime", "-v", "71")
    assert status == 0 and told.endswith(": fileReservdTime is ignored: no such key; did you mean fileReservedTime?\n")
    told = admin("updateBrokerConfig", "-b", "{broker}", "-k", "fileReservedTime", "-v", "70")[1]
    assert told.endswith("lasts until this process ends, as there is no file (-c) to keep it: fileReservedTime\n")
    assert admin("updateBrokerConfig", "-b", "{broker}", "-k", "fileReservedTime", "-v", "x")[0] == 1
    assert admin("updateKvConfig", "-s", "S", "-k", "K", "-v", "V")[0] == admin("deleteKvConfig", "-s", "S", "-k", "K")[0] == 0
    assert "OK" in admin("wipeWritePerm", "-b", "broker-a")[1] and "OK" in admin("addWritePerm", "-b", "broker-a")[1]
    (name_server,) = document("getNamesrvConfig")["nameServers"]
    assert name_server["address"].endswith(":" + name_server["settings"]["listenPort"])
    for command in ("cleanExpiredCQ", "cleanUnusedTopic", "deleteExpiredCommitLog"):
        assert admin(command, "-b", "{broker}")[1] == "success"
    assert document("haStatus", "-b", "{broker}")["brokers"][0]["master"] is True


def test_what_a_server_does_not_have_is_its_answer(admin: Admin) -> None:
    for words in (
        ("getControllerMetaData", "-a", "{broker}"),
        ("setCommitLogReadAheadMode", "-b", "{broker}", "-m", "1"),
        ("resetMasterFlushOffset", "-b", "{broker}", "-o", "1"),
    ):
        status, _, err = admin(*words)
        assert status == 1
        assert "REQUEST_CODE_NOT_SUPPORTED" in err and "this server, or this release of it, has no such function" in err


def test_exports_are_files_of_json(admin: Admin, tmp_path: Path) -> None:
    make_topic(admin, "exported")
    for command, name, member in (
        ("exportMetadata", "metadata.json", "topicConfigTable"),
        ("exportConfigs", "configs.json", "clusterScale"),
        ("exportMetrics", "metrics.json", "evaluateReport"),
    ):
        assert admin(command, "-c", "DefaultCluster", "-f", str(tmp_path))[0] == 0
        assert json.loads((tmp_path / name).read_text())[member]
    assert "exported" in json.loads((tmp_path / "metadata.json").read_text())["topicConfigTable"]
    assert not list(tmp_path.glob(".*")), "no temporary file is left"


def test_what_is_not_there_is_not_passed_over(admin: Admin, document: Callable[..., Any]) -> None:
    topic = make_topic(admin, "nothing", 1)
    queue = ("printMsgByQueue", "-t", topic, "-a", "broker-a", "-p", "true", "-i")
    said = f"MessageQueue [topic={topic}, brokerName=broker-a, queueId=0] no matched msg, offset=0\n"
    assert admin(*queue, "0") == (0, said, "")
    assert admin("printMsgByQueue", "-t", topic, "-a", "broker-a", "-i", "0", "-f", "true") == (0, "", ""), "counts alone, as mqadmin's"
    status, out, _ = admin("exportPopRecord", "-b", "{broker}", "-d", "false")
    assert status == 0 and out.startswith("Export broker records, brokerName=broker-a, ") and out.endswith(", dryRun=true\n")
    make_topic(admin, "unread")
    assert admin("updateTopicPerm", "-b", "{broker}", "-t", "unread", "-p", "2")[0] == 0
    wait_until(lambda: document("topicRoute", "-t", "unread")["queueDatas"][0]["perm"] == 2, PATIENCE_S, "nobody reads it")
    for words, cause in {
        (*queue, "9"): f"{topic} has no queue 9 at broker 'broker-a'; it has 1 there, from 0 on",
        ("consumeMessage", "-t", topic, "-b", "broker-a", "-i", "9"): "has no queue 9",
        ("printMsg", "-t", "unread"): "no queue of unread can be read",
        ("queryMsgByKey", "-t", topic, "-k", "K"): f"no message with key K in {topic}",
        ("statsAll", "-t", "no-such-topic"): "no topic no-such-topic",
        ("triggerLiteDispatch", "-p", topic, "-g", "g", "-b", "no-such-broker"): "no queues at broker 'no-such-broker'",
        ("resetOffsetByTime", "-g", "g", "-t", topic, "-s", "0", "-b", "{broker}", "-q", "0", "-o", "0"): "nothing was moved",
    }.items():
        status, _, err = admin(*words)
        assert status == 1 and cause in err, words
    assert document("statsAll", "-t", "")["stats"]


def test_sends_are_timed(admin: Admin, document: Callable[..., Any]) -> None:
    topic = make_topic(admin, "timed")
    assert [row["sent"] for row in document("checkMsgSendRT", "-t", topic, "-a", "3")["sends"]] == [True] * 3
    assert admin("sendMsgStatus", "-b", "broker-a", "-c", "2")[1].count("SEND_OK") == 2
    (row,) = document("statsAll", "-t", topic)["stats"]
    assert (row["topic"], row["consumerGroup"], row["accumulation"]) == (topic, None, 0)


def test_sends_to_a_new_topic_go_to_the_queues_it_gets(admin: Admin) -> None:
    """The default topic has more of them."""
    status, out, err = admin("sendMsgStatus", "-b", "made-by-sends", "-c", "10")
    assert (status, err, out.count("SEND_OK")) == (0, "", 10)


def test_a_message_goes_to_the_broker_that_is_named(admin: Admin, document: Callable[..., Any]) -> None:
    topic = make_topic(admin, "to-a-broker")
    assert document("sendMessage", "-t", topic, "-p", "x", "-b", "broker-a")["messages"][0]["brokerName"] == "broker-a"
    status, _, err = admin("sendMessage", "-t", topic, "-p", "x", "-b", "broker-x")
    assert status == 1 and "takes no messages at broker 'broker-x'; it does at broker-a" in err


def test_where_nothing_was_done_nothing_is_said_but_the_error(admin: Admin) -> None:
    topic = make_topic(admin, "undone")
    for words in (
        ("resetOffsetByTime", "-g", "nobody", "-t", topic, "-s", "now"),
        ("skipAccumulatedMessage", "-g", "nobody", "-t", topic),
        ("setConsumeMode", "-b", "{broker}", "-t", topic, "-g", "g", "-m", "POP", "-q", str(1 << 40)),
    ):
        status, out, err = admin(*words)
        assert (status, out, err.count("\n")) == (1, "", 1), words


def test_a_broker_that_nobody_knows_is_no_success(admin: Admin) -> None:
    for command in ("wipeWritePerm", "addWritePerm"):
        status, out, err = admin(command, "-b", "broker-x")
        assert status == 1 and " OK, 0" in out and "no topic of a broker 'broker-x' is known there" in err


def test_rights_of_a_user_who_is_not_there_are_refused_with_a_word_about_that(admin: Admin) -> None:
    status, _, err = admin("getAcl", "-b", "{broker}", "-s", "User:nobody")
    assert status == 1 and "The subject is not exist.; if it is not that, the user needs that right" in err


def test_help_lists_the_commands_and_a_commands_options(admin: Admin) -> None:
    for words in ((), ("help",), ("--help",)):
        status, out, _ = admin(*words)
        assert status == 0 and "   topicRoute " in out
    for words in (("help", "topicRoute"), ("topicRoute", "-h")):
        status, out, _ = admin(*words)
        assert status == 0 and "usage: rocketpy admin topicRoute -t TOPIC" in out


def test_a_command_speaks_tls_when_told_to(admin: Admin) -> None:
    assert admin("brokerStatus", "-b", "{broker}", "--useTLS")[::2] == (0, "")
    assert admin("topicList", "--useTLS")[::2] == (0, "")
