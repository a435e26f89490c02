"""config/*.json of RocketMQ 5.5.0 (peer_config/, written by the released broker) against ours: same members, same types, same text form."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rocketpy.broker.consumer_offsets import ConsumerOffsets, SavedOffsets
from rocketpy.broker.subscriptions import GroupTable, SavedGroups
from rocketpy.broker.topics import SavedTopics, TopicSettings, TopicTable
from rocketpy.remoting.json_codec import read_json, write_fastjson
from tests.unit.broker.recorder import Clock, Recorder

PEER = Path(__file__).parent / "peer_config"


def peer_text(name: str) -> str:
    return (PEER / name).read_text()


def our_topics() -> Any:
    table = TopicTable(TopicSettings(), Recorder(), Clock())
    table.load(SavedTopics.from_json(read_json(peer_text("topics.json"))))
    return table.to_json()


def our_groups() -> Any:
    table = GroupTable(Recorder(), Clock())
    table.load(SavedGroups.from_json(read_json(peer_text("subscriptionGroup.json"))))
    return table.to_json()


def our_offsets() -> Any:
    recorder = Recorder()
    offsets = ConsumerOffsets(recorder, Clock())
    offsets.load(SavedOffsets.from_json(read_json(peer_text("consumerOffset.json"))))
    return offsets.snapshot().text(pretty=True)


def our_text(name: str) -> str:
    value = TABLES[name]()
    return value if isinstance(value, str) else write_fastjson(value, pretty=True).decode()


def peer_table(name: str) -> Any:
    """What the peer wrote, without its pull offsets: ours go on from committed ones."""
    value = read_json(peer_text(name))
    return value | {"pullOffsetTable": {}} if "pullOffsetTable" in value else value


TABLES = {"topics.json": our_topics, "subscriptionGroup.json": our_groups, "consumerOffset.json": our_offsets}


@pytest.mark.parametrize("name", TABLES)
def test_what_the_peer_wrote_we_write_again(name: str) -> None:
    assert read_json(our_text(name)) == peer_table(name)


def lines(text: str) -> list[str]:
    """Lines without commas, in order of the alphabet: a map's order is chance in the peer's files."""
    return sorted(line.rstrip(",") for line in text.splitlines())


@pytest.mark.parametrize("name", TABLES)
def test_the_text_has_the_peers_form_line_by_line(name: str) -> None:
    theirs = peer_text(name)
    if name == "consumerOffset.json":
        theirs = theirs[: theirs.index('"pullOffsetTable"')] + '"pullOffsetTable":{}\n}'
    assert lines(our_text(name)) == lines(theirs)


def test_a_new_broker_has_the_topics_of_a_new_peer() -> None:
    ours = {topic.topic_name: topic for topic in TopicTable(TopicSettings(), Recorder(), Clock())}
    theirs = SavedTopics.from_json(read_json(peer_text("topics.json"))).configs
    missing = set(theirs) - set(ours)
    assert missing == {"%RETRY%G1", "bench", "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC", "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC"}
    assert all(ours[topic] == theirs[topic] for topic in ours)


def test_a_new_broker_has_the_groups_of_a_new_peer() -> None:
    ours = {config.group: config for config in GroupTable(Recorder(), Clock())}
    theirs = SavedGroups.from_json(read_json(peer_text("subscriptionGroup.json"))).configs
    assert set(theirs) - set(ours) == {"G1"}
    assert all(ours[group] == theirs[group] for group in ours)
