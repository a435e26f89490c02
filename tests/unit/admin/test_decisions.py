"""What commands decide by themselves, without a server."""

from __future__ import annotations

import io
import json
import os
import weakref
from pathlib import Path
from typing import Any

import pytest

from rocketpy._core.results import Message
from rocketpy.admin.access import credentials_of, keys_in
from rocketpy.admin.cluster import ClusterInfo
from rocketpy.admin.clusters import base_cells, totals
from rocketpy.admin.command_line import parse
from rocketpy.admin.commands import find_command
from rocketpy.admin.errors import AdminError, UsageError, refused
from rocketpy.admin.exports import add_up, write_file
from rocketpy.admin.finding import track_state
from rocketpy.admin.found_message import FoundMessage, place_of, records_in
from rocketpy.admin.groups import group_of
from rocketpy.admin.messages import body_file, charset_of
from rocketpy.admin.monitoring import undone_of
from rocketpy.admin.name_values import merged_order
from rocketpy.admin.output import Columns, Output, Shown, plain
from rocketpy.admin.progress import ConsumeStats, route_topics
from rocketpy.admin.properties import one_line
from rocketpy.admin.queues import by_queue, queue_of
from rocketpy.admin.reading import BLANK, file_messages
from rocketpy.admin.running_info import blocked_queues, check_report, has_same_subscriptions, running_text
from rocketpy.admin.sending import targets_of, unique_id
from rocketpy.admin.texts import time_of, version_text
from rocketpy.admin.topics import allocate_averagely, attributes_of, queues_at
from rocketpy.admin.traces import traces_in
from rocketpy.cli.admin import may_go_on
from rocketpy.remoting.json_codec import ObjectKey
from rocketpy.remoting.records import place_id
from rocketpy.remoting.route import BrokerData, QueueData, TopicRoute

NOW = 1_795_656_260_754


def message(**members: Any) -> FoundMessage:
    values = {
        "topic": "T", "queue_id": 0, "queue_offset": 5, "commit_log_offset": 7, "size": 100, "flag": 0, "sys_flag": 0, "body_crc": 1,
        "born_timestamp_ms": NOW, "born_host": "10.0.0.1:1", "store_timestamp_ms": NOW, "store_host": "10.0.0.2:10911",
        "reconsume_times": 0, "prepared_transaction_offset": 0, "properties": {"TAGS": "A"}, "body": b"hello",
    }  # fmt: skip
    return FoundMessage(Message(**(values | members)), "broker-a")


# ---- what was given ----


@pytest.mark.parametrize(
    ("text", "attributes"), [("", {}), ("+a=b,-c", {"+a": "b", "-c": ""}), ("+message.type=FIFO", {"+message.type": "FIFO"})]
)
def test_attributes_are_added_and_taken_away(text: str, attributes: dict[str, str]) -> None:
    assert attributes_of(text) == attributes


@pytest.mark.parametrize("text", ["a=b", "+a", "-a=b", "+a=b,+a=c", "+=b", "-"])
def test_attributes_without_a_sign_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        attributes_of(text)


def test_a_group_has_mqadmins_defaults_and_what_was_given() -> None:
    command = find_command("updateSubGroup")
    assert command is not None
    group = group_of(parse(command, ["-g", "G", "-b", "B", "-s", "false", "-r", "3", "--attributes", "+a=b"]))
    assert (group["groupName"], group["consumeEnable"], group["consumeBroadcastEnable"], group["retryMaxTimes"]) == ("G", False, False, 3)
    assert group["attributes"] == {"+a": "b"}
    with pytest.raises(UsageError, match="groupRetryPolicy"):
        group_of(parse(command, ["-g", "G", "-b", "B", "-p", "{"]))


@pytest.mark.parametrize("key_value", [("a", "b\nc"), ("a=b", "c"), ("", "x"), ("a\rb", "c")])
def test_one_setting_is_one_line(key_value: tuple[str, str]) -> None:
    with pytest.raises(AdminError):
        one_line(*key_value)
    assert one_line("a", "b=c") == b"a=b=c\n"


def test_times_are_milliseconds_or_a_date() -> None:
    assert time_of("1600000000000") == 1_600_000_000_000
    assert time_of("2026-11-26#01:02:03:004") % 1000 == 4
    for wrong in ("yesterday", "2026-13-01#00:00:00:000", "2026-01-01 00:00:00", "", "٣", "²"):
        with pytest.raises(UsageError):
            time_of(wrong)


@pytest.mark.parametrize(
    ("number", "text"),
    [(479, "V5_3_3"), (478, "V5_3_3_SNAPSHOT"), (0, "V3_0_0_SNAPSHOT"), (15, "V3_0_0_FINAL"), (999, "HIGHER_VERSION"), (-1, "V3(-1)")],
)
def test_versions_have_names(number: int, text: str) -> None:
    assert version_text(number) == text


# ---- who is asked, and as whom ----


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("words", "answers", "goes_on"),
    [
        (["-t", "T", "-c", "C"], Terminal("y\n"), True),
        (["-t", "T", "-c", "C"], Terminal("\n"), False),
        (["-t", "T", "-c", "C"], Terminal(""), False),
        (["-t", "T", "-c", "C", "--yes"], Terminal(""), True),
        (["-t", "T", "-c", "C"], io.StringIO(""), True),
        (["-t", "T", "-c", "C"], None, True),
    ],
)
def test_a_person_is_asked_and_a_script_is_not(words: list[str], answers: io.StringIO | None, goes_on: bool) -> None:
    command, questions = find_command("deleteTopic"), io.StringIO()
    assert command is not None
    assert may_go_on(command, parse(command, words), answers, questions) is goes_on
    if answers is not None and answers.isatty() and "--yes" not in words:
        assert questions.getvalue() == "Delete topic T and its messages from cluster C? [y/N] "


def test_credentials_come_from_the_environment_then_from_the_tools_file(tmp_path: Any) -> None:
    (tmp_path / "conf").mkdir()
    home = {"ROCKETMQ_HOME": str(tmp_path)}
    assert credentials_of(home) is None
    (tmp_path / "conf/tools.yml").write_text("# tools\naccessKey: one\nsecretKey: 'two # three' # four\n")
    found = credentials_of(home)
    assert found is not None and (found.access_key, found.secret_key) == ("one", "two # three")
    found = credentials_of(home | {"ROCKETMQ_ACCESS_KEY": "a", "ROCKETMQ_SECRET_KEY": "b"})
    assert found is not None and (found.access_key, found.secret_key) == ("a", "b")
    with pytest.raises(UsageError) as half:
        credentials_of({"ROCKETMQ_SECRET_KEY": "hidden"})
    assert "hidden" not in str(half.value)
    assert keys_in("acl: {}\n") == {}


CLUSTER = ClusterInfo.from_json(
    {
        "brokerAddrTable": {
            "a": {"brokerName": "a", "cluster": "C", "brokerAddrs": {"0": "h:1", "2": "h:3", "1": "h:2"}},
            "b": {"brokerName": "b", "cluster": "C", "brokerAddrs": {"1": "h:4"}},
        },
        "clusterAddrTable": {"C": ["b", "a", "gone"]},
    }
)


def test_a_cluster_names_masters_and_slaves() -> None:
    assert CLUSTER.masters("C") == ["h:1"]
    assert CLUSTER.addresses("C") == ["h:1", "h:2", "h:3", "h:4"]
    assert CLUSTER.masters_and_slaves("C") == [("h:1", ["h:2", "h:3"]), ("NO_MASTER", ["h:4"])]
    assert CLUSTER.name_of("h:4") == "b"
    for ask in (lambda: CLUSTER.masters("D"), lambda: CLUSTER.broker("c"), lambda: CLUSTER.name_of("h:9")):
        with pytest.raises(AdminError):
            ask()


ROUTE = TopicRoute(
    (QueueData("a", 4, 2, 6), QueueData("b", 4, 1, 6), QueueData("c", 4, 4, 4)),
    (BrokerData("C", "a", {0: "h:1", 1: "h:2"}), BrokerData("C", "b", {0: "h:3"}), BrokerData("C", "c", {0: "h:4"})),
)


def test_messages_go_to_writable_queues_of_masters_in_turn() -> None:
    assert [(each.broker_name, each.queue_id) for each in targets_of(ROUTE)] == [("a", 0), ("b", 0), ("a", 1)]
    assert targets_of(TopicRoute((QueueData("a", 4, 2, 6),), (BrokerData("C", "a", {1: "h:2"}),))) == []


def test_a_topics_queues_are_those_of_the_master_at_an_address() -> None:
    found = [queues_at(ROUTE, address) for address in ("h:1", "h:4", "h:2")]
    assert [queues and queues.perm for queues in found] == [6, 4, None]


@pytest.mark.parametrize(("queues", "clients", "sizes"), [(4, 3, [2, 1, 1]), (2, 3, [1, 1, 0]), (6, 2, [3, 3]), (0, 2, [0, 0])])
def test_queues_are_shared_evenly_and_each_once(queues: int, clients: int, sizes: list[int]) -> None:
    names = [str(number) for number in range(clients)]
    shares = [allocate_averagely(range(queues), names, name) for name in names]
    assert [len(share) for share in shares] == sizes
    assert sorted(queue for share in shares for queue in share) == list(range(queues))


# ---- offsets ----


def test_tables_by_queue_have_objects_or_texts_as_keys() -> None:
    queue = queue_of("T", "a", 1)
    assert by_queue({queue: 5}) == by_queue({'{"topic":"T","brokerName":"a","queueId":1}': 5}) == {queue: 5}
    assert by_queue(None) == {}
    for wrong in ("x", "{}", "7"):
        with pytest.raises(AdminError):
            by_queue({wrong: 1})


def stats(*rows: tuple[int, int, int]) -> ConsumeStats:
    table = {
        queue_of("T", "a", number): {"brokerOffset": end, "consumerOffset": at, "pullOffset": at, "lastTimestamp": last}
        for number, (end, at, last) in enumerate(rows)
    }
    return ConsumeStats.from_json({"offsetTable": table, "consumeTps": 1.5})


def test_a_group_is_behind_by_the_sum_of_its_queues() -> None:
    assert stats((10, 4, 1), (5, 5, 1)).behind() == 6
    (undone,) = undone_of(stats((10, 4, NOW - 50), (8, 7, NOW - 70), (5, 5, 0)), NOW)
    assert (undone.topic, undone.total, undone.most, undone.delay_ms) == ("T", 7, 6, 70)


def test_a_groups_brokers_are_found_by_its_retry_topic_first() -> None:
    assert route_topics("G", None, "C") == ["%RETRY%G"]
    assert route_topics("G", "T", "C") == ["%RETRY%G", "T", "%RETRY%G_T"]
    assert route_topics("G", "%LMQ%T", "parent")[-1] == "parent"


def test_an_order_configuration_changes_one_broker() -> None:
    assert merged_order("", "a:4") == "a:4"
    assert merged_order("a:2;b:3", "a:4") == "a:4;b:3"


# ---- messages ----


def test_an_id_of_an_offset_is_its_place() -> None:
    for host in ("10.0.0.2:10911", "[fe80::1]:10911"):
        assert place_of(place_id(host, 77)) == (host, 77)
    for other in ("", "K1", "z" * 32, "7F000001000100000000000000000000", "0" * 33, "AA " * 10 + "AA"):
        assert place_of(other) is None


def test_unique_ids_differ() -> None:
    assert len({unique_id(NOW) for _ in range(1000)}) == 1000
    assert len(unique_id(NOW)) == 32


@pytest.mark.parametrize("body", [b"\0\0\0\1", b"\0\0\0\xff" + b"x" * 20, b"\xff" * 64, b"\0\0\0\x10" + b"\0" * 12])
def test_bytes_that_are_no_messages_are_an_error(body: bytes) -> None:
    with pytest.raises(AdminError):
        records_in(body)


def test_a_compressed_body_is_shown_as_it_was_sent() -> None:
    import zlib

    assert message(sys_flag=1, body=zlib.compress(b"hello")).body == b"hello"
    assert message(sys_flag=1, body=b"no stream").body == b"no stream"
    assert message(sys_flag=1 | 2 << 8, body=b"zstd").body == b"zstd"


def test_a_message_behind_the_offset_is_consumed_unless_its_tag_is_not_wanted() -> None:
    assert track_state(message(), {}, False) == "NOT_CONSUME_YET"
    assert track_state(message(), {"T": {"tagsSet": []}}, True) == "CONSUMED"
    assert track_state(message(), {"T": {"tagsSet": ["A"]}}, True) == "CONSUMED"
    assert track_state(message(), {"T": {"tagsSet": ["B"]}}, True) == "CONSUMED_BUT_FILTERED"


def test_traces_are_sends_and_finished_consumptions() -> None:
    sent = "\x01".join(["Pub", str(NOW), "R", "P", "T", "ID", "", "", "h", "5", "3", "0", "OFF", "true"])
    consumed = "\x01".join(["SubAfter", "req", "ID", "7", "false", "", "0", str(NOW), "G"])
    found = list(traces_in("\x02".join([sent, consumed, "SubBefore\x01x", "Pub\x01no", "", "Pub" + "\x01x" * 13]), "10.0.0.1"))
    assert [(each.is_publish, each.group, each.cost_ms, each.succeeded) for each in found] == [(True, "P", 3, True), (False, "G", 7, False)]


# ---- what others say about themselves ----


def consumer(**members: Any) -> dict[str, Any]:
    properties = {"PROP_CONSUME_TYPE": "CONSUME_PASSIVELY", "PROP_CONSUMER_START_TIMESTAMP": "0", "PROP_CONSUMEORDERLY": "false"}
    table = {queue_of("T", "a", 0): {"commitOffset": 3, "cachedMsgCount": 9, "lastConsumeTimestamp": 0}}
    return {"properties": properties, "subscriptionSet": [{"topic": "T", "subString": "*"}], "mqTable": table} | members


def test_a_queue_that_holds_messages_and_does_not_go_on_is_told_of() -> None:
    (line,) = blocked_queues("c", consumer(), NOW)
    assert "can't consume for a while" in line
    assert not list(blocked_queues("c", consumer(mqTable={}), NOW))


def test_different_subscriptions_are_seen() -> None:
    other = consumer(subscriptionSet=[{"topic": "T", "subString": "A"}])
    assert has_same_subscriptions([consumer(), consumer()], NOW)
    assert not has_same_subscriptions([consumer(), other], NOW)
    assert has_same_subscriptions([consumer(), other], 60_000), "one that has just started may differ"


@pytest.mark.parametrize(
    "info",
    [
        {},
        {"properties": 5, "mqTable": [], "statusTable": {"T": 1}, "subscriptionSet": [1]},
        {"jstack": "stack"},
        consumer(subscriptionSet=5, statusTable={"T": {"pullRT": {}, "pullTPS": 10**400, "consumeRT": "x", "consumeFailedMsgs": 1e999}}),
        consumer(mqTable={queue_of("T", "a", 0): {"lastConsumeTimestamp": 1e999, "tryUnlockTimes": [], "cachedMsgCount": "x"}}),
        consumer(statusTable={"T": {}, ObjectKey.of(a=1): {}}, userConsumerInfo={ObjectKey.of(a=1): 2}),
    ],
)
def test_a_consumer_that_says_nonsense_is_shown_all_the_same(info: dict[str, Any]) -> None:
    check_report("c", info)
    assert running_text(info).startswith("#Consumer Properties#")
    assert has_same_subscriptions([info, info], NOW) and len(list(blocked_queues("c", info, NOW))) <= 1


@pytest.mark.parametrize(
    "table", [{"x": {}}, {ObjectKey.of(brokerName="a", queueId=1e999, topic="T"): {}}, json.loads("[" * 300 + "]" * 300)]
)
def test_of_a_report_that_cannot_be_shown_the_client_is_named(table: Any) -> None:
    for name in ("mqTable", "mqPopTable"):
        with pytest.raises(AdminError, match="what client c says of itself"):
            check_report("c", consumer(**{name: table}))


def test_a_broker_that_says_nothing_has_a_row() -> None:
    assert [cell for cell in base_cells({}, NOW) if cell][-1] == Shown(False, "false")
    assert totals({"msgPutTotalTodayNow": "7", "msgPutTotalTodayMorning": "2", "msgGetTotalTodayNow": "x"}) == [2, 0, 5, 0]


def test_an_exported_file_is_on_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind a power cut, too, a file is whole or not there: of a static topic that moves, it says what is still to be done."""
    steps: list[str] = []
    real_sync, real_replace = os.fsync, Path.replace

    def sync(descriptor: int) -> None:
        steps.append(Path(f"/proc/self/fd/{descriptor}").readlink().name[:7])
        real_sync(descriptor)

    def replace(source: Path, target: Path) -> Path:
        steps.append("renamed")
        return real_replace(source, target)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(Path, "replace", replace)
    path = write_file(str(tmp_path / "exports"), "t.after", {"epoch": 7})
    assert steps == [".t.afte", "renamed", "exports"]
    assert json.loads(path.read_text()) == {"epoch": 7}


def test_queues_of_several_brokers_add_up() -> None:
    assert add_up([{"T": {"q": 4, "perm": 6}}, {"T": {"q": 2, "perm": 4}, "U": {"q": 1}}], "q") == {"T": {"q": 6, "perm": 4}, "U": {"q": 1}}


# ---- what is said ----


def test_an_error_is_one_line_that_says_where_what_why_and_what_to_do() -> None:
    error = refused("h:1", 105, 17, "No route: T\nSee https://example for further details.")
    assert str(error) == (
        "h:1 answered GET_ROUTEINFO_BY_TOPIC (105) with TOPIC_NOT_EXIST (17): No route: T; topicList shows the topics there are"
    )
    assert error.members()["codeName"] == "TOPIC_NOT_EXIST"
    assert str(refused("h:1", 99999, 4711, None)) == "h:1 answered 99999 (99999) with 4711 (4711): 4711"


def test_a_row_is_text_or_an_object() -> None:
    columns = Columns("rows", "%-4s%s", "%-4s%s", {"#A": "a", "#B": "b"})
    for is_json, expected in ((False, "#A  #B\n1   one\n"), (True, '{"rows": [{"a": 1, "b": 2}]}\n')):
        written: list[str] = []
        out = Output(written.append, is_json=is_json)
        out.heading(columns)
        out.row(columns, 1, Shown(2, "one"))
        out.end()
        assert "".join(written) == expected


def test_text_is_not_kept_once_it_is_written() -> None:
    """A topic may be larger than any memory."""

    class Message(dict[str, Any]):
        pass

    message = Message()
    is_there = weakref.ref(message)
    out = Output(lambda text: None, is_json=False)
    out.add("messages", message)
    out.set(last=message)
    del message
    assert is_there() is None


def test_what_is_no_log_of_messages_is_not_taken_for_an_empty_one(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000"
    for nothing in (b"", bytes(4096), b"\0\0\x0f\xf0" + BLANK + bytes(4080)):
        path.write_bytes(nothing)
        assert list(file_messages(path)) == []
    for strange in (b"root:x:0:0\n", b"\x7f", b"\0\0\1\0" + bytes(10)):
        path.write_bytes(strange)
        (fault,) = file_messages(path)
        assert isinstance(fault, AdminError) and f"{path} at byte 0: no whole message of " in str(fault)


def test_a_table_by_queue_is_a_list_in_json() -> None:
    queue = queue_of("T", "a", 1)
    named = {"topic": "T", "brokerName": "a", "queueId": 1}
    assert plain({"m": {queue: {"offset": 5}, "n": {queue: 6}}})["m"][0] == {**named, "offset": 5}
    assert plain({queue: 6}) == [{**named, "value": 6}]
    assert plain(({1: None},)) == [{1: None}]


# ---- messages as files and texts ----


def test_encodings_of_bytes_and_such_as_cannot_replace_are_none_of_messages() -> None:
    assert (charset_of("UTF-8"), charset_of("gbk")) == ("utf-8", "gbk")
    for text in ("", "no-such", "hex", "zlib", "rot13", "idna", "undefined"):
        with pytest.raises(UsageError, match=f"'{text}' is no encoding"):
            charset_of(text)


def test_a_body_is_a_file_of_its_own_directory_whatever_its_producer_called_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rocketpy.admin.messages.BODIES", tmp_path / "bodies")
    for name, file in (("..", "_"), (".", "_"), ("../a", "__a"), ("a.b", "a.b")):
        path = body_file(message(properties={"UNIQ_KEY": name}))
        assert path.parent == tmp_path / "bodies" and path.read_bytes() == b"hello"
        assert path.name == file
