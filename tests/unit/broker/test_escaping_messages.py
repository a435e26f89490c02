"""What is sent to another master, and to whom: decisions only."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rocketpy._core.results import Message
from rocketpy.broker.escaping_messages import (
    DEFAULT_TOPIC,
    Master,
    Place,
    choose,
    other_masters,
    place_of,
    popped_topics,
    request_of,
    topics_to_ask,
)
from rocketpy.broker.names import TIMER_TOPIC, TRANS_HALF_TOPIC
from rocketpy.remoting.route import BrokerData, QueueData, TopicRoute

BY_BROKERS = {"MSG_REGION": "r", "TRACE_ON": "true", "CLUSTER": "c", "__CRC32#": "1"}


def message(topic: str, properties: dict[str, str], sys_flag: int = 0) -> Message:
    return Message(topic, 3, 0, 0, 0, 7, sys_flag, 0, 11, "127.0.0.1:1", 0, "127.0.0.1:2", 2, 0, {**properties, **BY_BROKERS}, b"body")


def sent(given: Message) -> tuple[str, dict[str, str], int]:
    """Topic, properties and sysFlag of its request."""
    place = place_of(given)
    assert place is not None
    header = request_of(given, place, 1, "broker-b", "own")
    assert (header.queue_id, header.flag, header.born_timestamp, header.reconsume_times, header.bname) == (1, 7, 11, 2, "broker-b")
    pairs = (pair.split("\x01") for pair in (header.properties or "").split("\x02")[:-1])
    return header.topic, dict(pairs), header.sys_flag


def test_a_delayed_message_does_not_wait_once_more() -> None:
    delayed = message(
        "T", {"DELAY": "3", "TIMER_DELIVER_MS": "5", "TRAN_MSG": "true", "KEYS": "k", "REAL_TOPIC": "T"}, 0x10 | 0x20 | 0x8 | 1
    )
    assert sent(delayed) == ("T", {"KEYS": "k", "REAL_TOPIC": "T"}, 1)


def test_a_rolled_one_waits_for_the_time_that_it_has() -> None:
    waits = {"TIMER_OUT_MS": "99", "TIMER_DELAY_SEC": "5", "TIMER_ROLL_TIMES": "1", "REAL_TOPIC": "T", "REAL_QID": "2", "KEYS": "k"}
    rolled = message(TIMER_TOPIC, waits)
    assert place_of(rolled) == Place("T", 2)
    assert sent(rolled) == ("T", {"KEYS": "k", "TIMER_DELIVER_MS": "99"}, 0)


def test_a_prepared_one_is_prepared_there_and_keeps_its_delay() -> None:
    half = {"REAL_TOPIC": "T", "REAL_QID": "2", "TRANSACTION_CHECK_TIMES": "4", "DELAY": "3", "PGROUP": "P", "UNIQ_KEY": "u"}
    prepared = message(TRANS_HALF_TOPIC, half)
    place = place_of(prepared)
    assert place is not None and request_of(prepared, place, 1, "b", "own").producer_group == "P"
    assert sent(prepared) == ("T", {"DELAY": "3", "PGROUP": "P", "UNIQ_KEY": "u", "TRAN_MSG": "true"}, 4)


@pytest.mark.parametrize(
    "properties", [{}, {"REAL_TOPIC": "T"}, {"REAL_TOPIC": "T", "REAL_QID": "-1"}, {"REAL_QID": "1"}, {"REAL_TOPIC": "T", "REAL_QID": "٣"}]
)
def test_what_names_no_queue_goes_nowhere(properties: dict[str, str]) -> None:
    assert place_of(message(TIMER_TOPIC, properties)) is None


ROUTE = TopicRoute(
    (
        QueueData("own", 4, 4, 6),
        QueueData("d", 4, 4, 6),
        QueueData("c", 4, 4, 6),
        QueueData("closed", 4, 4, 4),
        QueueData("headless", 4, 4, 6),
        QueueData("none", 4, 0, 6),
    ),
    (
        *(BrokerData("x", name, {0: f"{name}:1", 1: "slave"}) for name in ("own", "d", "c", "closed", "none")),
        BrokerData("x", "headless", {1: "slave"}),
    ),
)


def test_other_masters_are_those_that_take_messages_and_a_queue_goes_to_one_of_theirs() -> None:
    masters = other_masters(ROUTE, "own")
    assert masters == (Master("c", "c:1", range(4)), Master("d", "d:1", range(4)))
    chosen = {queue_id: choose(masters, Place("T", queue_id), ()) for queue_id in range(8)}
    assert chosen == {queue_id: choose(masters, Place("T", queue_id), ()) for queue_id in range(8)}
    assert {each[0].broker_name for each in chosen.values() if each} == {"c", "d"}
    assert all(each is not None and each[1] == queue_id % 4 for queue_id, each in chosen.items())
    assert all(each is not None and each[0].broker_name == "d" for each in (choose(masters, Place("T", at), {"c:1"}) for at in range(4)))
    assert choose(masters, Place("T", 0), {"c:1", "d:1"}) is not None, "one that failed may be back"
    assert choose((), Place("T", 0), ()) is None


def test_of_a_static_topic_another_master_is_asked_for_queues_that_it_leads() -> None:
    mappings = {"c": {"currIdMap": {"5": 0, "2": 3}}, "d": {"currIdMap": {}}, "own": {"currIdMap": {"0": 0}}}
    masters = other_masters(replace(ROUTE, queue_mappings=mappings), "own")
    assert [(each.broker_name, list(each.queues)) for each in masters] == [("c", [2, 5])]
    assert [chosen[1] for at in range(3) if (chosen := choose(masters, Place("T", at), ()))] == [2, 5, 2]
    for strange in ([], {"x": 0}, {"-1": 0}, {"9" * 5000: 0}):
        assert other_masters(replace(ROUTE, queue_mappings={"c": {"currIdMap": strange}, "d": []}), "own") == ()  # type: ignore[dict-item]


def test_who_is_asked_for_a_retry_topic() -> None:
    groups, topics = {"a", "a_b"}, {"b_t", "t"}
    assert popped_topics("%RETRY%a_b_t", groups.__contains__, topics.__contains__) == ["b_t", "t"]
    assert popped_topics("%RETRY%a+t", groups.__contains__, topics.__contains__) == ["t"]
    assert (
        popped_topics("%RETRY%a", groups.__contains__, topics.__contains__)
        == popped_topics("T", groups.__contains__, topics.__contains__)
        == []
    )
    assert list(topics_to_ask("%RETRY%a+t", ["t"])) == ["%RETRY%a+t", "t"]
    assert list(topics_to_ask("T", [])) == ["T", DEFAULT_TOPIC]
