"""Which broker gets which global queue."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rocketpy.admin.mapping_plans import (
    Brokers,
    Plan,
    adopted,
    complete,
    mapping_of,
    placed,
    plan_move,
    plan_queues,
    rounded_up,
    share_out,
)
from rocketpy.remoting.json_codec import read_json, write_fastjson
from rocketpy.remoting.queue_mapping import MappingFault, StaticTopic

NOW = 1_000_000


def made(queues: int, targets: set[str], brokers: Brokers | None = None) -> Plan:
    return plan_queues("t", queues, targets, brokers or {}, NOW, sorted)


def leaders(brokers: Brokers) -> dict[int, tuple[str, int, int]]:
    return {
        global_id: (name, items[-1].queue_id, items[-1].logic_offset)
        for name, known in brokers.items()
        for global_id, items in mapping_of(name, known).hosted.items()
        if mapping_of(name, known).leads(items)
    }


def test_queues_are_shared_out_evenly_and_stay_when_more_come() -> None:
    assert share_out({"a": 0, "b": 0, "c": 2}, 5, sorted) == ["a", "b", "a", "b", "a"]
    first = made(5, {"a", "b"})
    assert leaders(first.brokers) == {0: ("a", 0, 0), 1: ("b", 0, 0), 2: ("a", 1, 0), 3: ("b", 1, 0), 4: ("a", 2, 0)}
    assert {known.config.write_queue_nums for known in first.brokers.values()} == {2, 3}
    more = made(8, {"a", "b", "c"}, first.brokers)
    assert more.epoch == NOW + 2000 and {each: place for each, place in leaders(more.brokers).items() if each < 5} == leaders(first.brokers)
    assert {each: place for each, place in leaders(more.brokers).items() if each >= 5} == {5: ("c", 0, 0), 6: ("c", 1, 0), 7: ("b", 2, 0)}


@pytest.mark.parametrize(
    ("queues", "targets", "fault"),
    [
        (2, {"a", "b"}, "Cannot decrease the queue num for static topic 2 < 4"),
        (4, {"a", "b"}, "The topic queue num is equal the existed queue num, do nothing"),
        (6, {"b"}, "The existed broker a does not in target brokers "),
        (70_000, {"a", "b"}, "A topic has at most 65536 queues"),
    ],
)
def test_plans_that_are_refused(queues: int, targets: set[str], fault: str) -> None:
    with pytest.raises(MappingFault) as raised:
        made(queues, targets, made(4, {"a", "b"}).brokers)
    assert str(raised.value) == fault


def test_brokers_that_disagree_are_left_alone() -> None:
    good = dict(made(4, {"a", "b"}).brokers)
    known, mapping = good["b"], mapping_of("b", good["b"])
    for broker, fault in (
        (replace(known, mapping=None), "Mapping info should not be null in broker b"),
        (replace(known, mapping=replace(mapping, epoch=1)), "epoch does not match"),
        (replace(known, mapping=replace(mapping, total_queues=3)), "total queue number does not match"),
        (replace(known, mapping=replace(mapping, scope="own")), "scope does not match"),
        (replace(known, mapping=replace(mapping, broker_name="c")), "The broker name is not equal b != c "),
        (replace(known, mapping=replace(mapping, topic="u")), "The topic name is inconsistent in broker  b"),
        (replace(known, mapping=replace(mapping, is_dirty=True)), "The mapping info is dirty in broker  b"),
        (replace(known, mapping=replace(mapping, hosted={})), "does not match the real hosted queues 4 != 2"),
        (replace(known, config=replace(known.config, write_queue_nums=1)), "The physical queue id is overflow the write queues"),
        (replace(known, config=replace(known.config, read_queue_nums=1)), "Read queues is smaller than write queues"),
    ):
        for plan in (lambda brokers: made(6, {"a", "b"}, brokers), lambda brokers: plan_move("t", {"a"}, brokers, NOW)):
            with pytest.raises(MappingFault, match=fault):
                plan({**good, "b": broker})
    with pytest.raises(MappingFault, match="No topic route"):
        plan_move("t", {"a"}, {}, NOW)


def test_a_move_takes_as_few_queues_as_can_be_and_offsets_behind_what_is_there() -> None:
    before = made(4, {"a", "b"}).brokers
    plan = plan_move("t", {"b", "c"}, before, NOW)
    assert (plan.map_in, plan.map_out) == ({"c"}, {"a"})
    assert leaders(plan.brokers) == {0: ("c", 0, -1), 1: ("b", 0, 0), 2: ("c", 1, -1), 3: ("b", 1, 0)}
    assert mapping_of("a", plan.brokers["a"]).hosted == mapping_of("c", plan.brokers["c"]).hosted
    decided = placed(plan, {("a", 0): 3, ("a", 1): 17_000})
    assert [leaders(decided.brokers)[each] for each in (0, 2)] == [("c", 0, 10_000), ("c", 1, 30_000)]
    assert placed(decided, {}) == decided, "what is decided stays"
    with pytest.raises(MappingFault, match="Cannot get the max offset for old leader"):
        placed(plan, {("a", 0): 3})
    assert adopted(plan, decided.brokers) == replace(decided, brokers={**plan.brokers, **decided.brokers})
    assert adopted(plan, before) == plan
    back = plan_move("t", {"a", "b"}, decided.brokers, NOW)
    assert back.map_in == {"a"} and [leaders(back.brokers)[each] for each in (0, 2)] == [("a", 2, -1), ("a", 3, -1)]
    same = plan_move("t", {"a", "b"}, before, NOW)
    assert not same.map_in and not same.map_out and leaders(same.brokers) == leaders(before)


def test_blocks() -> None:
    assert [rounded_up(each) for each in (0, 1, 4_999, 5_000, 9_999, 10_000)] == [10_000, 10_000, 10_000, 20_000, 20_000, 20_000]


def test_a_plan_is_written_and_read_again() -> None:
    plan = complete(plan_move("t", {"c"}, made(4, {"a", "b"}).brokers, NOW), {"a", "b", "c", "d"})
    assert plan.brokers["d"] == StaticTopic.empty("t", "d", 4, plan.epoch)
    assert Plan.from_json(read_json(write_fastjson(plan.to_json()))) == plan
    for strange in ([], {"brokerConfigMap": {"a": 7}}, {"brokerToMapIn": "a"}, {"brokerToMapIn": ["x"]}):
        with pytest.raises(ValueError):
            Plan.from_json(strange)
