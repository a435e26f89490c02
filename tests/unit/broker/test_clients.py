"""Producers and consumers: who is there, what groups subscribed to, who hears of a change."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rocketpy.broker.clients import (
    EXPIRES_MS,
    FEW_GROUPS,
    Channel,
    ChannelGroups,
    Client,
    CloseChannel,
    ConsumerTable,
    Notify,
    ProducerTable,
)
from rocketpy.broker.heartbeat import BROADCASTING, ConsumerData, Heartbeat, Subscription
from rocketpy.broker.names import java_hash
from rocketpy.broker.parts import FAULT_MAX, read_body
from rocketpy.remoting.codes import RequestCode
from rocketpy.remoting.command import CommandError
from tests.unit.broker.recorder import Clock, Recorder

ONE, TWO = Channel(0, 1), Channel(1, 1)


def client(channel: Channel, client_id: str = "c") -> Client:
    return Client(channel, client_id, "127.0.0.1:1", 0, 475, 0)


def data(*topics: str, version: int = 1, model: str = "CLUSTERING", codes: tuple[int, ...] = ()) -> ConsumerData:
    return ConsumerData(
        "g", message_model=model, subscriptions=tuple(Subscription(topic, codes=codes, version=version) for topic in topics)
    )


def make(**options: object) -> tuple[ConsumerTable, Recorder, Clock]:
    recorder, clock = Recorder(), Clock()
    return ConsumerTable(recorder, clock, **options), recorder, clock  # type: ignore[arg-type]


def test_every_member_hears_of_a_new_one() -> None:
    table, _, _ = make()
    assert table.register(data("t"), client(ONE, "one")) == [Notify("g", (ONE,))]
    assert table.register(data("t"), client(TWO, "two")) == [Notify("g", (ONE, TWO))]
    assert table.register(data("t"), client(TWO, "two")) == [], "a heartbeat that changes nothing is no news"
    assert table.get("g").client_ids == ["one", "two"]
    assert table.find("g", "two").channel == TWO


def test_the_list_of_clients_is_kept_until_one_comes_goes_or_has_another_id() -> None:
    table, _, clock = make()
    table.register(data("t"), client(ONE, "one"))

    def encoded() -> bytes:
        return table.get("g").encoded_ids()

    first = encoded()
    table.register(data("u", version=2), client(ONE, "one"))
    assert encoded() is first == b'{"consumerIdList":["one"]}'
    table.register(data("t"), client(TWO, "two"))
    assert encoded() == b'{"consumerIdList":["one","two"]}'
    table.register(data("t"), client(TWO, "other"))
    assert encoded() == b'{"consumerIdList":["one","other"]}'
    for leave in (lambda: table.unregister("g", TWO), lambda: table.channel_closed(TWO)):
        table.register(data("t"), client(TWO, "two"))
        assert encoded() == b'{"consumerIdList":["one","two"]}'
        leave()
        assert encoded() == b'{"consumerIdList":["one"]}'
    clock.ms += EXPIRES_MS + 1
    table.register(data("t"), client(TWO, "two"))
    table.scan()
    assert encoded() == b'{"consumerIdList":["two"]}'


def test_connections_of_two_listeners_are_told_apart() -> None:
    table, _, _ = make()
    table.register(data("t"), client(Channel(0, 7), "one"))
    table.register(data("t"), client(Channel(1, 7), "two"))
    assert len(table.get("g").clients) == 2


def test_the_native_table_holds_what_live_groups_subscribed_to() -> None:
    table, recorder, _ = make()
    table.register(data("t", codes=(5,)), client(ONE))
    assert recorder.subscriptions == {("g", "t"): {"codes": [5], "version": 1, "broadcast": False, "native": True}}
    assert table.register(data("u"), client(ONE)) == [Notify("g", (ONE,))]
    assert set(recorder.subscriptions) == {("g", "u")}
    table.unregister("g", ONE)
    assert recorder.subscriptions == {} and table.get("g") is None


def test_an_older_subscription_does_not_replace_a_newer_one() -> None:
    table, recorder, _ = make()
    table.register(data("t", version=5, codes=(5,)), client(ONE))
    table.register(data("t", version=4, codes=(4,)), client(TWO))
    assert recorder.subscriptions[("g", "t")]["codes"] == [5]
    assert table.register(data("t", version=6, codes=(6,)), client(TWO)) == []
    assert recorder.subscriptions[("g", "t")]["codes"] == [6]


def test_broadcasting_groups_are_not_told_of_their_members() -> None:
    table, recorder, _ = make()
    assert table.register(data("t", model=BROADCASTING), client(ONE)) == []
    assert recorder.subscriptions[("g", "t")]["broadcast"]
    table.register(data("t"), client(ONE))
    assert not recorder.subscriptions[("g", "t")]["broadcast"], "a group that changes its model is published again"


def test_filters_the_fast_path_does_not_know_are_kept_from_it() -> None:
    table, recorder, _ = make()
    for version, (expression, expression_type, class_filter) in enumerate(
        (("a >", "SQL92", False), ("a", "XPATH", False), ("a", "TAG", True))
    ):
        other = Subscription("t", expression, expression_type, version=version, class_filter=class_filter)
        table.register(ConsumerData("g", subscriptions=(other,)), client(ONE))
        assert not recorder.subscriptions.pop(("g", "t"))["native"]


def test_a_sql_filter_is_the_fast_paths_and_what_it_does_not_look_at_is_said(caplog: pytest.LogCaptureFixture) -> None:
    table, recorder, _ = make()
    for version, expression in enumerate(("a > 1", "a > 1 b > 2")):
        sql = Subscription("t", expression, "SQL92", version=version)
        table.register(ConsumerData("g", subscriptions=(sql,)), client(ONE))
        assert recorder.subscriptions[("g", "t")] == {"expression": expression, "version": version, "broadcast": False}
        assert ("'b > 2', is not looked at" in caplog.text) == (version == 1)


def test_more_tags_than_the_fast_path_holds_are_kept_from_it() -> None:
    table, recorder, _ = make()
    recorder.codes_max = 2
    table.register(data("t", codes=(1, 2, 3)), client(ONE))
    assert recorder.subscriptions[("g", "t")] == {"codes": [], "version": 1, "broadcast": False, "native": False}


def test_a_forbidden_topic_is_kept_from_the_fast_path() -> None:
    readable = {"t": True}
    table, recorder, _ = make(is_readable=lambda group, topic: readable[topic])
    table.register(data("t"), client(ONE))
    readable["t"] = False
    table.republish("g", "t")
    assert not recorder.subscriptions[("g", "t")]["native"]
    table.republish("g", "other")
    table.republish("other", "t")


def test_a_closed_connection_leaves_all_its_groups() -> None:
    table, recorder, _ = make()
    table.register(data("t"), client(ONE, "one"))
    table.register(data("t"), client(TWO, "two"))
    table.register(ConsumerData("h", subscriptions=(Subscription("t"),)), client(ONE, "one"))
    assert table.channel_closed(ONE) == [Notify("g", (TWO,))]
    assert table.get("h") is None and set(recorder.subscriptions) == {("g", "t")}
    assert table.channel_closed(ONE) == []


def test_a_connection_leaves_one_of_few_groups_or_of_many() -> None:
    for count in (1, 2, FEW_GROUPS, FEW_GROUPS + 1, 3 * FEW_GROUPS):
        groups = ChannelGroups()
        names = [f"g{number}" for number in range(count)]
        for name in (*names, *names):
            assert groups.add(ONE, name)
        assert sorted(groups.of(ONE)) == sorted(names) and ONE in groups and not groups.of(TWO)
        groups.remove(ONE, "unknown")
        for left, name in enumerate(names, 1):
            groups.remove(ONE, name)
            assert sorted(groups.of(ONE)) == sorted(names[left:])
        assert ONE not in groups and not groups.pop(ONE)


def test_a_connection_with_too_many_groups_makes_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rocketpy.broker.clients.CHANNEL_GROUPS_MAX", 2)
    table, _, _ = make()
    for group in ("g", "h", "i"):
        table.register(replace(data("t"), group=group), client(ONE))
    assert len(table) == 2 and table.get("i") is None
    table.channel_closed(ONE)
    assert len(table) == 0


def test_silent_clients_are_let_go() -> None:
    table, _, clock = make()
    table.register(data("t"), client(ONE, "one"))
    clock.ms += EXPIRES_MS
    table.register(data("t"), client(TWO, "two"))
    assert table.scan() == []
    clock.ms += 1
    assert table.scan() == [CloseChannel(ONE), Notify("g", (TWO,))]
    clock.ms += EXPIRES_MS
    assert table.scan() == [CloseChannel(TWO)] and len(table) == 0


def test_a_group_may_forbid_the_news() -> None:
    table, _, _ = make(notifies=lambda group: False)
    assert table.register(data("t"), client(ONE)) == []


def test_heartbeats_without_subscriptions_keep_them() -> None:
    table, recorder, _ = make()
    table.register(data("t"), client(ONE))
    table.register(data(), client(ONE), update_subscriptions=False)
    assert set(recorder.subscriptions) == {("g", "t")}
    assert table.subscribers("t") == {"g"} and table.subscription_count("g") == 1


def test_producers_leave_by_word_by_connection_and_by_silence() -> None:
    clock = Clock()
    table = ProducerTable(Recorder(), clock)
    for group in ("p", "q"):
        table.register(group, client(ONE, "one"))
    table.register("p", client(TWO, "two"))
    table.unregister("q", ONE)
    assert table.clients("q") is None
    table.channel_closed(ONE)
    assert [known.client_id for known in table.clients("p")] == ["two"]
    clock.ms += EXPIRES_MS + 1
    assert table.scan() == [CloseChannel(TWO)] and len(table) == 0


def test_a_producer_is_found_by_its_client_id_while_one_of_its_groups_is_there() -> None:
    recorder = Recorder()
    table = ProducerTable(recorder, Clock())
    for group in ("p", "q"):
        table.register(group, client(ONE, "one"))
    assert recorder.producers == {"one": ONE}
    table.unregister("p", ONE)
    assert recorder.producers == {"one": ONE}, "RocketMQ forgets it with the first group"
    table.unregister("q", ONE)
    assert recorder.producers == {}


def test_of_two_connections_with_one_client_id_the_later_one_counts_and_then_the_other_again() -> None:
    recorder = Recorder()
    table = ProducerTable(recorder, Clock())
    table.register("p", client(ONE, "same"))
    table.register("p", client(TWO, "same"))
    table.register("p", client(ONE, "same"))
    assert recorder.producers == {"same": TWO}, "a heartbeat is no news"
    table.channel_closed(ONE)
    assert recorder.producers == {"same": TWO}, "an old connection's end is not the producer's either"
    table.register("p", client(ONE, "same"))
    table.channel_closed(ONE)
    table.register("p", client(TWO, "same"))
    assert recorder.producers == {"same": TWO}


def test_a_connection_has_one_client_id() -> None:
    recorder = Recorder()
    table = ProducerTable(recorder, Clock())
    table.register("p", client(ONE, "one"))
    table.register("q", client(ONE, "other"))
    assert recorder.producers == {"other": ONE}
    table.register("q", client(ONE, ""))
    table.register("r", client(TWO, "x" * 1025))
    assert recorder.producers == {}
    assert table.clients("r") is not None, "they are producers all the same"


def test_a_heartbeat_of_a_java_client_is_read() -> None:
    heartbeat = Heartbeat.from_json(
        {
            "clientID": "c@1",
            "consumerDataSet": [
                {
                    "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
                    "consumeType": "CONSUME_PASSIVELY",
                    "groupName": "g",
                    "messageModel": "CLUSTERING",
                    "subscriptionDataSet": [
                        {
                            "classFilterMode": False,
                            "codeSet": [7],
                            "expressionType": "TAG",
                            "subString": "a",
                            "subVersion": 9,
                            "tagsSet": ["a"],
                            "topic": "t",
                        }
                    ],
                    "unitMode": False,
                }
            ],
            "producerDataSet": [{"groupName": "p"}],
            "heartbeatFingerprint": 12,
            "withoutSub": True,
        }
    )
    assert heartbeat.client_id == "c@1" and heartbeat.producer_groups == ("p",) and heartbeat.fingerprint == 12 and heartbeat.without_sub
    assert heartbeat.consumers[0].subscriptions == (Subscription("t", "a", tags=("a",), codes=(7,), version=9),)


def test_a_heartbeat_of_the_cpp_client_is_read() -> None:
    """Enums by their position, numbers as texts."""
    heartbeat = Heartbeat.from_json(
        {
            "clientID": "c@1",
            "consumerDataSet": [
                {
                    "consumeFromWhere": 4,
                    "consumeType": 1,
                    "groupName": "g",
                    "messageModel": 0,
                    "subscriptionDataSet": [
                        {"codeSet": ["-7"], "subString": "a", "subVersion": "1795250909000", "tagsSet": ["a"], "topic": "t"}
                    ],
                }
            ],
            "producerDataSet": None,
        }
    )
    assert heartbeat.consumers == (
        ConsumerData(
            "g",
            "CONSUME_PASSIVELY",
            BROADCASTING,
            "CONSUME_FROM_FIRST_OFFSET",
            (Subscription("t", "a", tags=("a",), codes=(-7,), version=1795250909000),),
        ),
    )


def test_producer_groups_of_names_that_cannot_be_are_not_kept() -> None:
    """A connection may name ten thousand, of any length."""
    groups = [{"groupName": name} for name in ("p", "x" * 256, "", "y" * 255)]
    assert Heartbeat.from_json({"clientID": "c" * 1024, "producerDataSet": groups}).producer_groups == ("p", "y" * 255)


def test_an_old_client_that_sends_tags_alone_gets_their_codes() -> None:
    subscription = Subscription.from_json({"topic": "t", "subString": "a||b", "tagsSet": ["a", "b"], "subVersion": 1})
    assert subscription.codes == tuple(sorted({java_hash("a"), java_hash("b")})) and subscription.is_by_tag


def test_a_subscription_is_shown_as_it_came() -> None:
    value = {
        "classFilterMode": False,
        "codeSet": [1],
        "expressionType": "TAG",
        "subString": "a",
        "subVersion": 9,
        "tagsSet": ["a"],
        "topic": "t",
    }
    assert Subscription.from_json(value).to_json() == value


@pytest.mark.parametrize(
    "value",
    [
        None,
        {},
        {"clientID": 5},
        {"clientID": "c" * 1025},
        {"clientID": "c", "producerDataSet": [5]},
        {"clientID": "c", "producerDataSet": {}},
        {"clientID": "c", "consumerDataSet": [{}]},
        {"clientID": "c", "consumerDataSet": [{"groupName": "g", "subscriptionDataSet": [{"topic": 1}]}]},
        {"clientID": "c", "consumerDataSet": [{"groupName": "g", "subscriptionDataSet": [{"topic": "t", "codeSet": [1 << 40]}]}]},
        {"clientID": "c", "producerDataSet": [{"groupName": "p"}] * 10_001},
        {"clientID": "c", "consumerDataSet": [{"groupName": "g", "messageModel": 9}]},
        {"clientID": "c", "consumerDataSet": [{"groupName": "g", "consumeType": "SOMEHOW"}]},
    ],
)
def test_a_bad_heartbeat_is_refused(value: object) -> None:
    with pytest.raises(ValueError):
        Heartbeat.from_json(value)


def test_a_body_that_cannot_be_read_is_not_told_whole(caplog: pytest.LogCaptureFixture) -> None:
    """What is of a wrong kind is shown: in the log, whose files are kept in a number, and in the remark."""
    body = json.dumps({"clientID": ["x" * 100_000]}).encode()
    request = SimpleNamespace(code=RequestCode.HEART_BEAT, body=body, remote_address="127.0.0.1:1")
    with pytest.raises(CommandError, match=r"clientID is \['x") as raised:
        read_body(cast(Any, request), Heartbeat.from_json)
    assert len(str(raised.value)) < 2 * FAULT_MAX and len(caplog.text) < 2 * FAULT_MAX
