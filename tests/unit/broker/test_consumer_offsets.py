"""Offsets: questions over all groups, copies, resets, corrections, versions, the file."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.broker.client_requests import ClientRequests
from rocketpy.broker.consumer_offsets import ConsumerOffsets, OffsetsSnapshot, SavedOffsets
from rocketpy.remoting.bodies import DataVersion
from rocketpy.remoting.codes import RequestCode, ResponseCode
from rocketpy.remoting.json_codec import read_json, write_fastjson
from tests.unit.broker.recorder import Clock, Recorder
from tests.unit.broker.running import Running, run, running
from tests.unit.broker.test_service import create_topic


def make(*rows: tuple[str, str, int, int], step: int = 500) -> tuple[ConsumerOffsets, Recorder]:
    recorder = Recorder()
    offsets = ConsumerOffsets(recorder, Clock(), step)
    for row in rows:
        recorder.put_offset(*row)
    return offsets, recorder


def test_the_version_moves_once_in_many_commits() -> None:
    offsets, recorder = make(step=10)
    first = offsets.version
    for offset in range(9):
        recorder.put_offset("g", "t", 0, offset)
    assert offsets.version == first
    recorder.put_offset("g", "t", 0, 9)
    assert offsets.version.counter == first.counter + 1
    for offset in range(25):
        recorder.put_offset("g", "t", 0, offset)
    assert offsets.version.counter == first.counter + 3


def test_questions_over_all_groups() -> None:
    offsets, _ = make(("g", "t", 0, 5), ("g", "u", 0, 1), ("h", "t", 1, 2))
    assert offsets.topics_of("g") == {"t", "u"}
    assert offsets.groups_of("t") == {"g", "h"}
    assert offsets.topics_by_group() == {"g": {"t", "u"}, "h": {"t"}}
    assert offsets.of("g", "t") == {0: 5}
    assert offsets.query("g", "t", 7) == -1


def test_a_question_about_one_group_or_topic_takes_no_others_rows() -> None:
    """Otherwise deleting thousands of topics, or asking for each group's progress, costs the square of what there is."""
    offsets, recorder = make(*((f"g{i}", f"t{i}", queue_id, 1) for i in range(100) for queue_id in range(8)))
    assert (offsets.topics_of("g7"), offsets.groups_of("t7"), len(offsets.of("g7", "t7"))) == ({"t7"}, {"g7"}, 8)
    assert offsets.lowest("t7", set(), lambda queue_id: 0) == dict.fromkeys(range(8), 1)
    assert offsets.clone("g7", "h", "t7") == 8
    offsets.delete_topic("t8")
    assert recorder.rows_given <= 6 * 16
    offsets.delete_group("h")
    assert len(recorder.table) == 99 * 8


def test_a_snapshot_takes_no_rows_until_its_text_is_made() -> None:
    """It is taken on the event loop, which 80,000 rows held up for 28 to 110 ms at each save."""
    offsets, recorder = make(*((f"g{i}", f"t{i}", 0, i) for i in range(100)))
    snapshot = offsets.snapshot()
    assert recorder.rows_given == 0
    recorder.put_offset("g7", "t7", 0, 700)
    read = SavedOffsets.from_json(read_json(snapshot.text()))
    assert recorder.rows_given == 100 and read.offsets["t7@g7"] == {0: 7} and len(read.offsets) == 100


def test_a_copy_of_the_native_offsets_stays_as_it_was(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as at:
            assert at.broker.parts is not None
            native = at.broker.parts.native
            rows = {(group, "t", queue_id, 5 + queue_id) for group in ("g", "h") for queue_id in range(300)}
            for row in rows:
                native.put_offset(*row)
            copy, of_one, of_none = native.copy_offsets(), native.copy_offsets("h"), native.copy_offsets(topic="u")
            assert sorted(copy) == sorted(native.offsets())
            first, second = iter(copy), iter(copy)
            assert next(first) == next(second), "each walk is one of its own"
            native.put_offset("g", "t", 0, 99)
            native.delete_offsets("h")
        for _ in range(2):
            assert set(copy) == rows, "also when the broker has gone"
        assert set(of_one) == {row for row in rows if row[0] == "h"} and list(of_none) == [] and list(second) != []

    run(test)


def test_a_topics_end_takes_its_offsets_along() -> None:
    offsets, recorder = make(("g", "t", 0, 5), ("g", "u", 0, 1), ("h", "t", 1, 2))
    offsets.delete_topic("t")
    assert recorder.table == {("g", "u", 0): 1}
    offsets.delete_group("g")
    assert recorder.table == {}


def test_a_copy_goes_to_the_other_group() -> None:
    offsets, recorder = make(("g", "t", 0, 5), ("g", "t", 1, 6), ("g", "u", 0, 1))
    assert offsets.clone("g", "h", "t") == 2
    assert recorder.table[("h", "t", 0)] == 5 and ("h", "u", 0) not in recorder.table


def test_the_lowest_offset_still_in_the_store() -> None:
    offsets, _ = make(("a", "t", 0, 5), ("b", "t", 0, 9), ("c", "t", 0, 1), ("d", "t", 0, 3))
    assert offsets.lowest("t", {"d"}, lambda queue: 2) == {0: 5}


def test_offsets_nobody_subscribes_to_and_behind_everything_are_forgotten() -> None:
    offsets, recorder = make(("gone", "t", 0, 5), ("gone", "t", 1, 10), ("live", "t", 0, 5), ("ahead", "t", 0, 11))
    gone = offsets.clean_unsubscribed(lambda group, topic: group == "live", lambda topic, queue: 10)
    assert gone == ["t@gone"]
    assert set(recorder.table) == {("live", "t", 0), ("ahead", "t", 0)}


def test_a_masters_older_offsets_never_take_ours_back() -> None:
    offsets, recorder = make(("g", "t", 0, 50), ("g", "t", 1, 5))
    master = SavedOffsets.from_json({"offsetTable": {"t@g": {"0": 40, "1": 60, "2": 7}}, "dataVersion": {"counter": 1}})
    assert offsets.merge(master, forward_only=True) == 2
    assert recorder.table == {("g", "t", 0): 50, ("g", "t", 1): 60, ("g", "t", 2): 7}
    assert offsets.merge(master, forward_only=False) == 1 and recorder.table[("g", "t", 0)] == 40


def test_an_offset_of_a_lite_topic_that_has_begun_anew_follows_the_masters() -> None:
    ours = {"%LMQ%$t$anew": 5, "%LMQ%$t$same": 50, "%LMQ%$t$ahead": 5, "t": 5}
    offsets, recorder = make(*(("g", topic, 0, 50) for topic in ours))
    theirs = {f"{topic}@g": {"0": 60 if "ahead" in topic else 3} for topic in ours}
    master = SavedOffsets.from_json({"offsetTable": theirs, "dataVersion": {"counter": 1}})
    assert offsets.merge(master, forward_only=True, end_of=lambda topic, _: ours[topic]) == 2
    assert [recorder.table["g", topic, 0] for topic in ours] == [3, 50, 60, 50]


def test_a_reset_is_told_to_the_pull_path() -> None:
    offsets, recorder = make(("g", "t", 0, 50))
    offsets.reset("g", "t", 0, 3)
    assert recorder.table[("g", "t", 0)] == 3 and recorder.resets == {("g", "t", 0): 3}


def test_what_was_written_is_read_back() -> None:
    offsets, _ = make(("g", "t", 0, 5), ("h", "t", 1, 2))
    saved = SavedOffsets.from_json(read_json(offsets.snapshot().text()))
    other, recorder = make()
    other.load(saved)
    assert recorder.table == {("g", "t", 0): 5, ("h", "t", 1): 2}
    assert other.version == saved.version


def test_the_shape_is_the_one_of_the_peers_file() -> None:
    offsets, _ = make(("G1", "bench", 0, 1))
    version = offsets.version.to_json()
    expected = {"dataVersion": version, "groupTopicMap": {"G1": ["bench"]}, "offsetTable": {"bench@G1": {0: 1}}, "pullOffsetTable": {}}
    for pretty in (False, True):
        assert offsets.snapshot().text(pretty=pretty) == write_fastjson(expected, pretty=pretty).decode()
    empty = expected | {"groupTopicMap": {}, "offsetTable": {}}
    assert OffsetsSnapshot(offsets.version, []).text(pretty=True) == write_fastjson(empty, pretty=True).decode()


rows = st.tuples(
    st.text("abc%|-_", min_size=1, max_size=4), st.text("xyz%", min_size=1, max_size=4), st.integers(0, 11), st.integers(0, 1 << 62)
)


@given(st.lists(rows, max_size=30, unique_by=lambda row: row[:3]), st.booleans())
def test_the_text_is_read_back(rows: list[tuple[str, str, int, int]], pretty: bool) -> None:
    text = OffsetsSnapshot(DataVersion(1, 2, 3), rows).text(pretty=pretty)
    saved = SavedOffsets.from_json(read_json(text))
    assert {(*key.split("@"), queue, offset) for key, table in saved.offsets.items() for queue, offset in table.items()} == {
        (topic, group, queue, offset) for group, topic, queue, offset in rows
    }


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{\n\t"a":{\n\t\t0:1\n\t},\n\t"b":{"$ref":"$.a"}\n}', {"a": {"0": 1}, "b": {"0": 1}}),
        ('{\n\t"t@\\ud800":{\n\t\t0:1\n\t}\n}', {"t@\ufffd": {"0": 1}}),
    ],
)
def test_what_fastjson_says_by_reference_or_cannot_say_is_read_in_the_pretty_form_too(text: str, value: object) -> None:
    assert read_json(text) == value


@pytest.mark.parametrize(
    "value",
    [[], {"offsetTable": []}, {"offsetTable": {"t@g": 3}}, {"offsetTable": {"t@g": {"x": 1}}}, {"offsetTable": {"t@g": {"0": 1 << 63}}}],
)
def test_a_damaged_table_is_refused(value: object) -> None:
    with pytest.raises(ValueError):
        SavedOffsets.from_json(value)


def test_a_key_that_is_no_topic_and_group_is_skipped() -> None:
    assert SavedOffsets.from_json({"offsetTable": {"t": {}, "a@b@c": {"0": 1}, "t@g": {"0": 1}}}).offsets == {"t@g": {0: 1}}


@pytest.mark.parametrize("topic", ["%LMQ%a", "%LMQ%a@b", "t"])
@pytest.mark.parametrize("group", ["%LMQ%g", "%LMQ%me@home", "g"])
def test_names_of_light_queues_and_groups_may_hold_an_at(topic: str, group: str) -> None:
    offsets, _ = make((group, topic, 0, 5))
    other, recorder = make()
    other.load(SavedOffsets.from_json(read_json(offsets.snapshot().text(light=True))))
    assert recorder.table == {(group, topic, 0): 5}


def test_an_offset_below_zero_or_of_an_impossible_queue_is_none_and_the_others_stand() -> None:
    saved = SavedOffsets.from_json({"offsetTable": {"t@g": {"0": -7, "1": 5, "2": -1, "-1": 3, "65536": 3}, "t@h": {"0": 0}}})
    assert saved.offsets == {"t@g": {1: 5}, "t@h": {0: 0}}


def test_with_light_queues_the_offsets_of_all_groups_are_where_rocketmq_has_them(tmp_path: Path) -> None:
    """Otherwise every group began again, and once more when RocketMQ came back."""
    file = tmp_path / "store" / "config" / "lmqConsumerOffset.json"
    file.parent.mkdir(parents=True)
    file.write_text(  # as 4.9.7 writes it
        '{\n\t"lmqOffsetTable":{\n\t\t"%LMQ%a/b@%LMQ%me@home":2\n\t},\n\t"offsetTable":{\n\t\t"t@plain":{0:3,1:1\n\t\t}\n\t}\n}'
    )

    async def test() -> None:
        async with running(tmp_path, enableLmq="true") as at:
            fields = {"consumerGroup": "plain", "topic": "t", "queueId": 0}
            assert (await at.peer().ask(RequestCode.QUERY_CONSUMER_OFFSET, fields)).fields["offset"] == "3"
            assert (await at.peer().send("t")).code == 0 == (await at.peer().pull("plain", "t")).code
            assert (await at.peer().ask(RequestCode.UPDATE_CONSUMER_OFFSET, {**fields, "commitOffset": 4})).code == 0

    run(test)
    kept = read_json(file.read_text())
    assert kept["lmqOffsetTable"] == {"%LMQ%a/b@%LMQ%me@home": 2} and kept["offsetTable"] == {"t@plain": {"0": 4, "1": 1}}
    assert not file.with_name("consumerOffset.json").exists()


@pytest.mark.parametrize("is_light", [False, True])
def test_offsets_stay_when_light_queues_are_turned_on_or_off(tmp_path: Path, is_light: bool) -> None:
    """Their file is another one then. A group without an offset begins anew: what waited for it is read twice, or never."""
    queue = {"consumerGroup": "g", "topic": "t", "queueId": 0}

    async def test() -> None:
        async with running(tmp_path, enableLmq=str(is_light).lower()) as at:
            assert (await at.peer().send("t")).code == 0
            assert (await at.peer().pull("g", "t")).code == 0
            assert (await at.peer().ask(RequestCode.UPDATE_CONSUMER_OFFSET, {**queue, "commitOffset": 1})).code == 0
        async with running(tmp_path, enableLmq=str(not is_light).lower()) as at:
            assert (await at.peer().ask(RequestCode.QUERY_CONSUMER_OFFSET, queue)).fields["offset"] == "1"
        for file in ("consumerOffset.json", "lmqConsumerOffset.json"):
            assert read_json((tmp_path / "store" / "config" / file).read_text())["offsetTable"]["t@g"] == {"0": 1}

    run(test)


def test_offsets_never_go_back_to_those_of_before_light_queues_were_turned_on_and_off(tmp_path: Path) -> None:
    queue = {"consumerGroup": "g", "topic": "t", "queueId": 0}

    async def test() -> None:
        for number, is_light in enumerate((False, True, False, True, True, False)):
            async with running(tmp_path, enableLmq=str(is_light).lower()) as at:
                peer = at.peer()
                assert (await peer.send("t")).code == 0 == (await peer.pull("g", "t")).code
                if number > 0:
                    assert (await peer.ask(RequestCode.QUERY_CONSUMER_OFFSET, queue)).fields["offset"] == str(number)
                assert (await peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, {**queue, "commitOffset": number + 1})).code == 0

    run(test)


def test_in_a_copied_directory_the_older_file_is_not_taken_for_the_newer_one_by_its_time(tmp_path: Path) -> None:
    queue = {"consumerGroup": "g", "topic": "t", "queueId": 0}

    async def test() -> None:
        for offset, is_light in ((1, False), (2, True)):
            async with running(tmp_path, enableLmq=str(is_light).lower()) as at:
                peer = at.peer()
                assert (await peer.send("t")).code == 0 == (await peer.pull("g", "t")).code
                assert (await peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, {**queue, "commitOffset": offset})).code == 0
        late = time.time_ns() + 60 * 10**9
        os.utime(tmp_path / "store" / "config" / "consumerOffset.json", ns=(late, late))
        async with running(tmp_path, enableLmq="true") as at:
            assert (await at.peer().ask(RequestCode.QUERY_CONSUMER_OFFSET, queue)).fields["offset"] == "2"

    run(test)


def test_an_offset_below_zero_is_not_committed(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as at:
            peer, queue = at.peer(), {"consumerGroup": "g", "topic": "t", "queueId": 0}
            assert (await peer.send("t")).code == 0
            assert (await peer.pull("g", "t", commitOffset=1, sysFlag=5)).code == 0
            assert (await peer.pull("g", "t", commitOffset=-7, sysFlag=5)).code == 0
            for wrong in ({"commitOffset": -5}, {"queueId": -1, "commitOffset": 5}):
                answer = await peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, queue | wrong)
                assert answer.code == ResponseCode.INVALID_PARAMETER and "is negative, topic is t" in answer.remark
            assert (await peer.ask(RequestCode.QUERY_CONSUMER_OFFSET, queue)).fields["offset"] == "1"

    run(test)


def test_an_offset_of_a_queue_far_behind_those_that_there_are_is_not_kept(tmp_path: Path) -> None:
    """C says so, and Python of light groups that come for the first time."""

    async def test() -> None:
        async with running(tmp_path, enableLmq="true", enableMultiDispatch="true") as at:
            peer, fields = at.peer(), {"consumerGroup": "g", "commitOffset": 1}
            assert (await peer.send("t", b"x", "INNER_MULTI_DISPATCH\x01%LMQ%1\x02")).code == 0
            assert (await peer.pull("g", "t")).code == 0
            for topic in ("t", "%LMQ%1"):
                for queue_id, code in ((255, 0), (600, ResponseCode.INVALID_PARAMETER), (65535, ResponseCode.INVALID_PARAMETER)):
                    answer = await peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, {**fields, "topic": topic, "queueId": queue_id})
                    assert answer.code == code, (topic, queue_id)
            of_light_group = {**fields, "consumerGroup": "%LMQ%new", "topic": "t", "queueId": 600}
            answer = await peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, of_light_group)
            assert (answer.code, answer.remark) == (ResponseCode.INVALID_PARAMETER, "queueId 600 is illegal, topic is t")

    run(test)


def test_an_offset_of_the_last_of_many_queues_is_kept(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as at:
            peer, parts = at.peer(), at.broker.parts
            await create_topic(at, "wide", 10_000)
            assert (await peer.send("wide")).code == 0 == (await peer.pull("g", "wide")).code
            for queue_id, code in ((9_999, 0), (60_000, ResponseCode.INVALID_PARAMETER)):
                fields = {"consumerGroup": "g", "topic": "wide", "queueId": queue_id, "commitOffset": 1}
                assert (await peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, fields)).code == code, queue_id
            assert parts is not None
            python = ClientRequests(parts)  # for what C leaves to it
            assert python._may_be_made("wide", 9_999) and not python._may_be_made("wide", 10_000)

    run(test)


def test_offsets_past_the_end_of_a_queue_go_back_to_it() -> None:
    offsets, recorder = make(("g", "t", 0, 12), ("g", "t", 1, 10), ("h", "t", 0, 9), ("g", "unknown", 0, 99))
    assert offsets.hold_back(lambda topic, queue_id: 10 if topic == "t" else None) == 1
    assert sorted(recorder.offsets()) == [("g", "t", 0, 10), ("g", "t", 1, 10), ("g", "unknown", 0, 99), ("h", "t", 0, 9)]


def test_a_group_gets_what_is_sent_after_a_power_cut_took_messages_it_had_read(tmp_path: Path) -> None:
    """Its offsets are saved, and synced, more often than a log with ASYNC_FLUSH."""

    async def committed(at: Running, topic: str) -> str:
        answer = await at.peer().ask(RequestCode.QUERY_CONSUMER_OFFSET, {"consumerGroup": "g", "topic": topic, "queueId": 0})
        return str(answer.fields["offset"])

    async def test() -> None:
        async with running(tmp_path, haListenPort="0") as at:
            peer = at.peer()
            await create_topic(at, "batches", attributes="+queue.type=BatchCQ")
            for topic in ("t", "batches"):
                assert (await peer.send(topic)).code == 0
            at.broker.parts.native.put_offset("g", "t", 0, 4)  # type: ignore[union-attr]
            at.broker.parts.native.put_offset("g", "batches", 0, 4)  # type: ignore[union-attr]
        async with running(tmp_path, haListenPort="0") as at:
            assert await committed(at, "t") == "1"
            assert await committed(at, "batches") == "1"
        async with running(tmp_path, haListenPort="0", brokerRole="SLAVE", brokerId="1") as at:
            at.broker.parts.native.put_offset("g", "t", 0, 4)  # type: ignore[union-attr]
        async with running(tmp_path, haListenPort="0", brokerRole="SLAVE", brokerId="1") as at:
            assert await committed(at, "t") == "4", "its log comes behind its master's offsets"

    run(test)
