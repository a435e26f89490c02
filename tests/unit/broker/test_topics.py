"""Topics: what exists, who may create it, and the file they live in."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rocketpy._core.errors import TooLarge, Unsupported
from rocketpy.broker import names, topic_texts
from rocketpy.broker.attributes import TOPIC_ATTRIBUTES, AttributeFault, altered_attributes, parse_attributes
from rocketpy.broker.persistence import pretty_text
from rocketpy.broker.topics import MULTI_TAG, QUEUES_MAX, SavedTopics, TopicSettings, TopicTable, topic_config_fault, topic_config_text
from rocketpy.remoting.bodies import DataVersion, TopicConfig
from rocketpy.remoting.json_codec import write_fastjson
from tests.unit.broker.recorder import Clock, Recorder


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


def make_table(recorder: Recorder, **settings: object) -> TopicTable:
    return TopicTable(TopicSettings(**settings), recorder, Clock())  # type: ignore[arg-type]


def test_a_new_broker_has_the_topics_of_the_system(recorder: Recorder) -> None:
    table = make_table(recorder)
    assert table.get("TBW102").perm == 7 and table.get("TBW102").read_queue_nums == 8
    assert recorder.topics["SCHEDULE_TOPIC_XXXX"]["write"] == 18
    assert recorder.topics["rmq_sys_REVIVE_LOG_DefaultCluster"]["read"] == 8
    assert {config.topic_name for config in table} == set(recorder.topics)
    assert all(table.is_system_topic(config.topic_name) for config in table)


def test_without_automatic_creation_there_is_no_default_topic(recorder: Recorder) -> None:
    table = make_table(recorder, auto_create=False)
    assert "TBW102" not in table
    assert table.create_for_send("orders", "TBW102", 4, "client") is None
    assert "orders" not in recorder.topics


def test_automatic_creation_can_be_switched_while_running(recorder: Recorder) -> None:
    table = make_table(recorder, auto_create=False)
    assert table.apply(TopicSettings(auto_create=True, default_queues=3)), "there is a default topic now"
    assert table.create_for_send("orders", "TBW102", 4, "client") == TopicConfig("orders", 3, 3, 6)
    assert not table.apply(TopicSettings(auto_create=False))
    assert table.create_for_send("bills", "TBW102", 4, "client") is None
    assert not table.apply(TopicSettings(auto_create=True)), "it was there already"
    assert table.create_for_send("bills", "TBW102", 4, "client") is not None


def test_a_topic_sent_to_is_made_from_its_default_topic(recorder: Recorder) -> None:
    table = make_table(recorder)
    version = table.version
    config = table.create_for_send("orders", "TBW102", 4, "127.0.0.1:1")
    assert config == TopicConfig("orders", 4, 4, 6)
    assert recorder.topics["orders"]["permission"] == 6
    assert table.version.counter == version.counter + 1


def test_sends_to_a_new_topic_come_up_until_it_is_released(recorder: Recorder) -> None:
    table = make_table(recorder)
    assert table.withheld == frozenset()
    table.create_for_send("orders", "TBW102", 4, "127.0.0.1:1")
    table.update(TopicConfig("bills"))
    table.create_plain("%RETRY%g", 1, 6)
    table.create_plain("%DLQ%g", 1, 6)
    assert table.withheld == {"orders", "bills", "%RETRY%g", "%DLQ%g"}
    table.update(TopicConfig("orders", write_queue_nums=2))  # while its file is written
    table.delete("bills")
    assert not recorder.topics["orders"]["native_send"] and not recorder.topics["%RETRY%g"]["retry_send"]
    table.release({"orders", "bills", "TBW102", "%RETRY%g", "%DLQ%g"})
    assert recorder.topics["orders"] == {**recorder.topics["orders"], "write": 2, "native_send": True}
    assert recorder.topics["%RETRY%g"]["retry_send"] and not recorder.topics["%DLQ%g"]["retry_send"]
    assert "bills" not in recorder.topics and table.withheld == frozenset()
    table.update(TopicConfig("orders", write_queue_nums=3))
    assert recorder.topics["orders"]["native_send"], "what is known stays with the fast path"


def test_sends_to_a_retry_topic_whose_name_is_refused_come_up(recorder: Recorder) -> None:
    table = make_table(recorder)
    for topic in ("%RETRY%g", "%RETRY%g+t"):  # the second is POP's, which the broker alone sends to
        table.create_plain(topic, 1, 6)
    table.release(table.withheld)
    assert [recorder.topics[topic]["retry_send"] for topic in ("%RETRY%g", "%RETRY%g+t")] == [True, False]


def test_a_priority_topic_is_one_for_as_long_as_it_says_so(recorder: Recorder) -> None:
    table = make_table(recorder)
    for kind in ("FIFO", "PRIORITY", "NORMAL"):
        table.update(TopicConfig("orders"), {"+message.type": kind})
        assert recorder.topics["orders"]["priority"] == (kind == "PRIORITY")


def test_a_topic_that_the_native_table_refuses_leaves_nothing(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the next new topic could not be released, and nobody could send to it."""
    table = make_table(recorder)

    def refuse(*_: object, **__: object) -> None:
        raise TooLarge("the table is full")

    with monkeypatch.context() as patch:
        patch.setattr(recorder, "put_topic", refuse)
        with pytest.raises(TooLarge):
            table.update(TopicConfig("orders"))
    assert "orders" not in table and table.withheld == frozenset()
    table.update(TopicConfig("bills"))
    table.release(table.withheld)
    assert recorder.topics["bills"]["native_send"]


@pytest.mark.parametrize(("asked", "made"), [(4, 4), (8, 8), (100, 8), (0, 0), (-3, 0)])
def test_the_default_topic_bounds_the_queues_a_client_asks_for(recorder: Recorder, asked: int, made: int) -> None:
    config = make_table(recorder).create_for_send("orders", "TBW102", asked, "client")
    assert config is not None and config.write_queue_nums == made


def test_a_topic_is_not_made_from_one_that_does_not_allow_it(recorder: Recorder) -> None:
    table = make_table(recorder)
    assert table.create_for_send("orders", "BenchmarkTest", 4, "client") is None
    assert table.create_for_send("orders", "no such topic", 4, "client") is None


def test_creating_an_existing_topic_changes_nothing(recorder: Recorder) -> None:
    table = make_table(recorder)
    first = table.create_for_send("orders", "TBW102", 4, "client")
    version = table.version
    assert table.create_for_send("orders", "TBW102", 8, "client") is first
    assert table.version is version


def test_a_retry_topic_follows_the_order_of_its_subscriptions(recorder: Recorder) -> None:
    table = make_table(recorder)
    made, changed = table.create_plain("%RETRY%g", 1, 6)
    assert changed and not made.order
    _, changed = table.create_plain("%RETRY%g", 1, 6)
    assert not changed
    remade, changed = table.create_plain("%RETRY%g", 1, 6, order=True)
    assert changed and remade.order and recorder.topics["%RETRY%g"]["order"]


def test_only_topics_that_are_not_looked_at_first_take_the_fast_path(recorder: Recorder) -> None:
    table = make_table(recorder)
    table.update(TopicConfig("plain"))
    table.update(TopicConfig("tags", topic_filter_type=MULTI_TAG))
    table.update(TopicConfig("compacted"), {"+cleanup.policy": "COMPACTION"})
    table.update(TopicConfig("batched"), {"+queue.type": "BatchCQ"})
    table.update(TopicConfig("simple"), {"+queue.type": "SimpleCQ"})
    table.create_plain("%RETRY%g", 1, 6)
    table.release(table.withheld)
    assert recorder.topics["plain"]["native_send"] and recorder.topics["simple"]["native_send"]
    assert recorder.topics["batched"]["native_send"] and recorder.topics["batched"]["batch"]
    assert not recorder.topics["simple"]["batch"]
    assert recorder.topics["tags"]["native_send"] and recorder.topics["tags"]["multi_tag"]
    assert recorder.topics["compacted"]["native_send"] and recorder.topics["compacted"]["compacted"]
    assert not recorder.topics["plain"]["compacted"] and not recorder.topics["batched"]["compacted"]
    assert not recorder.topics["%RETRY%g"]["native_send"]
    assert not recorder.topics["SCHEDULE_TOPIC_XXXX"]["native_send"]


def test_an_update_that_changes_nothing_keeps_the_version(recorder: Recorder) -> None:
    table = make_table(recorder)
    assert table.update(TopicConfig("orders", 4, 4), {"+message.type": "FIFO"})
    version = table.version
    assert not table.update(TopicConfig("orders", 4, 4))
    assert table.version is version
    assert table.get("orders").attributes == {"message.type": "FIFO"}


def test_a_deleted_topic_leaves_the_native_table(recorder: Recorder) -> None:
    table = make_table(recorder)
    table.update(TopicConfig("orders"))
    assert table.delete("orders") and "orders" not in recorder.topics
    version = table.version
    assert not table.delete("orders") and table.version is version


def test_a_masters_table_replaces_ours(recorder: Recorder) -> None:
    table = make_table(recorder)
    table.update(TopicConfig("ours"))
    version = DataVersion(5, 99, 0)
    assert table.replace_all({"theirs": TopicConfig("theirs", 2, 2)}, version)
    assert set(recorder.topics) == {"theirs"} and table.version == version
    assert not table.replace_all({}, version)


ODD: tuple[dict[str, Any], ...] = (
    {"topic_name": "b", "attributes": {"message.type": "FIFO"}, "order": True},
    {"topic_name": '%RETRY%a\u00e4"\n\t', "extra": {"newer": {"list": [1, {"x": None, "y": "1\n\t2"}], "empty": []}}},
    {"topic_name": "a", "read_queue_nums": 3},
)


def test_texts_are_those_of_the_whole_table_written_anew(recorder: Recorder) -> None:
    topics = make_table(recorder)
    mappings = {"mappingDataVersion": DataVersion().to_json(), "topicQueueMappingDetailMap": {}, "topicQueueMappingInfoMap": {}}

    def is_as_written_anew() -> bool:
        compact = topics.texts.compact(topics.snapshot()) == write_fastjson(topics.to_json() | mappings)
        return compact and topics.texts.pretty(topics.snapshot()) == pretty_text(topics.to_json())

    for members in ODD:
        topics.load(SavedTopics({**{config.topic_name: config for config in topics}, "": TopicConfig(**members)}, topics.version.next()))
        assert is_as_written_anew()
    assert topics.update(TopicConfig("a", 5)) and is_as_written_anew()
    piece = replace(topics.snapshot(), configs=topics.snapshot().configs[:2])
    assert topics.texts.compact(piece).count(b'"topicName"') == 2
    assert topics.delete("b") and is_as_written_anew()
    nothing = replace(piece, configs=())
    assert b'"topicConfigTable":{},' in topics.texts.compact(nothing) and '"topicConfigTable":{}' in topics.texts.pretty(nothing)


def test_a_change_of_one_topic_writes_the_text_of_that_one_only(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    written, real = list[str](), topic_texts._member
    monkeypatch.setattr(topic_texts, "_member", lambda config: written.append(config.topic_name) or real(config))
    topics = make_table(recorder)
    topics.update(TopicConfig("t"))
    topics.texts.pretty(topics.snapshot())
    assert len(written) == len(topics)
    topics.update(TopicConfig("t", 3))
    written.clear()
    topics.texts.compact(replace(topics.snapshot(), configs=topics.snapshot().configs[:1]))
    topics.texts.pretty(topics.snapshot())
    assert written == ["t"]


def test_what_was_written_is_read_back(recorder: Recorder) -> None:
    table = make_table(recorder)
    table.update(TopicConfig("orders", 4, 4, 6, order=True), {"+message.type": "FIFO"})
    saved = SavedTopics.from_json(table.to_json())
    other = TopicTable(TopicSettings(), Recorder(), Clock())
    other.load(saved)
    assert other.to_json() == table.to_json()


def test_members_of_a_newer_release_are_written_back_and_null_attributes_are_none(recorder: Recorder) -> None:
    members = {"readQueueNums": 4, "attributes": {"+message.type": None, "reserve.time": "5"}, "orderOfTomorrow": {"a": 1}, "unsaid": None}
    table = make_table(recorder)
    table.load(SavedTopics.from_json({"topicConfigTable": {"orders": members}}))
    table.update(TopicConfig("orders", 8, 8), {"-reserve.time": ""})
    written = table.to_json()["topicConfigTable"]["orders"]
    assert written["orderOfTomorrow"] == {"a": 1} and written["readQueueNums"] == 8
    assert written["attributes"] == {} and "unsaid" not in written


@pytest.mark.parametrize(
    "value",
    [
        [],
        {},
        {"topicConfigTable": []},
        {"topicConfigTable": {"a": 1}},
        {"topicConfigTable": {"a": {"readQueueNums": "many"}}},
        {"topicConfigTable": {}, "dataVersion": 3},
    ],
)
def test_a_damaged_table_is_refused(value: object) -> None:
    with pytest.raises(ValueError):
        SavedTopics.from_json(value)


@pytest.mark.parametrize("members", [{"readQueueNums": -1}, {"writeQueueNums": QUEUES_MAX + 1}, {"perm": 99}])
def test_a_topic_beyond_what_we_take_is_named(members: object) -> None:
    with pytest.raises(Unsupported, match=r"^topic wide: "):
        SavedTopics.from_json({"topicConfigTable": {"wide": members}})


def test_order_topics_of_a_name_server_are_marked(recorder: Recorder) -> None:
    table = make_table(recorder)
    table.update(TopicConfig("orders"))
    assert table.update_order_topics(["orders", "unknown"]) and table.get("orders").order
    assert not table.update_order_topics(["orders"])


def test_a_topics_text_is_the_one_operators_know() -> None:
    text = topic_config_text(TopicConfig("bench", 4, 4, 6, attributes={"+message.type": "NORMAL"}))
    assert text == (
        "TopicConfig [topicName=bench, readQueueNums=4, writeQueueNums=4, perm=RW-, topicFilterType=SINGLE_TAG, "
        "topicSysFlag=0, order=false, attributes={+message.type=NORMAL}]"
    )


def test_numbers_of_a_topic_are_bounded() -> None:
    assert topic_config_fault(TopicConfig("t")) is None
    for bad in (
        TopicConfig("t", -1),
        TopicConfig("t", 1, QUEUES_MAX + 1),
        TopicConfig("t", perm=16),
        TopicConfig("t", topic_filter_type="X"),
    ):
        assert topic_config_fault(bad) is not None


@pytest.mark.parametrize("topic", ["orders", "%RETRY%" + "g" * 240, "a|b", "A-1_2", "%DLQ%g"])
def test_good_topic_names(topic: str) -> None:
    assert names.topic_fault(topic) is None


@pytest.mark.parametrize(
    ("topic", "words"),
    [
        ("", "blank"),
        ("  ", "blank"),
        ("a b", "illegal characters"),
        ("ä", "illegal characters"),
        ("a/b", "illegal characters"),
        ("t" * 128, "longer than topic max length: 127"),
        ("%RETRY%" + "g" * 249, "longer than topic max length: 255"),
    ],
)
def test_bad_topic_names(topic: str, words: str) -> None:
    assert words in (names.topic_fault(topic) or "")


@pytest.mark.parametrize(
    ("text", "code"), [("", 0), ("a", 97), ("tagA", 3552231), ("TagB", 2598920), ("中文", 646394), ("polygenelubricants", -(1 << 31))]
)
def test_tag_codes_are_javas_hash(text: str, code: int) -> None:
    assert names.java_hash(text) == code


def test_attributes_are_changed_by_signed_names() -> None:
    changed = altered_attributes(TOPIC_ATTRIBUTES, {"message.type": "FIFO"}, {"+message.type": "NORMAL", "+reserve.time": "5"})
    assert changed == {"message.type": "NORMAL", "reserve.time": "5"}
    assert altered_attributes(TOPIC_ATTRIBUTES, changed, {"-reserve.time": ""}) == {"message.type": "NORMAL"}


@pytest.mark.parametrize(
    ("current", "request_", "words"),
    [
        (None, {"-message.type": ""}, "only add attribute is supported while creating topic. key: message.type"),
        ({}, {"-message.type": ""}, "attempt to delete a nonexistent key: message.type"),
        ({}, {"message.type": "FIFO"}, "kv string format wrong|wrong format key|unsupported"),
        ({}, {"+x": "y"}, "unsupported key: x"),
        ({}, {"+message.type": "FOO"}, "value is not in set"),
        ({"queue.type": "SimpleCQ"}, {"+queue.type": "BatchCQ"}, "attempt to update an unchangeable attribute. key: queue.type"),
        ({}, {"+reserve.time": "-2"}, "value is not in range"),
        *[({}, {"+reserve.time": text}, "For input string: ") for text in ("", "1_000", " 5", "5 ", "0x5", "٣", "1e3", "9" * 5000)],
        ({}, {"+reserve.time": "9" * 19}, "value is not in range"),
        ({}, {"+": "y"}, "kv string format wrong"),
    ],
)
def test_a_bad_change_of_attributes_says_why(current: dict[str, str] | None, request_: dict[str, str], words: str) -> None:
    with pytest.raises(AttributeFault, match=words):
        altered_attributes(TOPIC_ATTRIBUTES, current, request_)


def test_attributes_travel_as_a_list_of_signed_pairs() -> None:
    assert parse_attributes("+message.type=FIFO,-reserve.time") == {"+message.type": "FIFO", "-reserve.time": ""}
    assert parse_attributes(None) == parse_attributes("") == parse_attributes(",") == {}
    assert parse_attributes("+message.type=FIFO,,") == {"+message.type": "FIFO"}
    assert parse_attributes("+a = b ") == {"+a ": " b "}, "then it is no attribute that is known, or not one of its values"
    assert parse_attributes("+message.type=FIFO=x,+a==b") == {"+message.type": "FIFO", "+a": ""}
    for bad, remark in (
        (",+message.type=FIFO", "delete attribute format is wrong: "),
        ("+a=1,,-b", "delete attribute format is wrong: "),
        ("message.type=FIFO", "add/alter attribute format is wrong: message.type"),
        ("message.type", "delete attribute format is wrong: message.type"),
        ("+a=1,+a=2", "key duplication: +a"),
    ):
        with pytest.raises(AttributeFault) as refused:
            parse_attributes(bad)
        assert str(refused.value) == remark


def test_rights_are_asked_for_of_messages_that_are_sent_back_and_other_sends_to_retry_topics_stay_native(recorder: Recorder) -> None:
    for asks in (False, True):
        table = make_table(recorder, asks_rights=asks)
        table.create_plain("%RETRY%g", 1, 6)
        table.release(["%RETRY%g"])
        put = recorder.topics["%RETRY%g"]
        assert (put["retry_send"], put["checked_back"]) == (True, asks)
