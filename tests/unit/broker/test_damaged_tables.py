"""Every table that a broker or a name server reads from a JSON file, with every member of the file, and every key, of another kind: what
somebody's editor leaves behind. Each is read, or refused as damaged and its backup read, or refused as one that cannot be held; what was
read is taken by the native tables. Nothing else ends the start.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from rocketpy._core.auth import AuthTable
from rocketpy._core.broker import Broker
from rocketpy._core.errors import Unsupported
from rocketpy._core.store import MessageStore
from rocketpy.auth.metadata import AuthMetadata, SavedAuth
from rocketpy.auth.native_tables import NativeTables
from rocketpy.broker.acting_file import ActingProgress
from rocketpy.broker.consumer_offsets import ConsumerOffsets, SavedOffsets
from rocketpy.broker.consumer_orders import ConsumerOrders, SavedOrders
from rocketpy.broker.delay_offsets import DelayOffsets, SavedDelayOffsets
from rocketpy.broker.persistence import SavedState, pretty_text
from rocketpy.broker.queue_mappings import QueueMappings, SavedMappings
from rocketpy.broker.request_modes import RequestModes
from rocketpy.broker.subscriptions import GroupTable, SavedGroups
from rocketpy.broker.topics import SavedTopics, TopicSettings, TopicTable
from rocketpy.ha.service import DurableLog
from rocketpy.namesrv.kv_config import KvConfig
from tests.unit.broker.recorder import Clock

VERSION = {"counter": 3, "stateVersion": 0, "timestamp": 1_700_000_000_000}
PIECE = {"bname": "b", "endOffset": -1, "gen": 0, "logicOffset": 0, "queueId": 0, "startOffset": 0, "timeOfEnd": -1, "timeOfStart": -1}
ORDER = {"a": "attempt", "cm": 2, "i": 60, "l": 1_000_000, "o": [7, 2], "oc": {"9": 2}, "ot": {"9": 80}, "popTime": 5}
ENTRY = {"actions": ["Pub"], "decision": "Allow", "resource": "Topic:t", "sourceIps": ["10.0.0.0/8"]}
TABLES: dict[str, dict[str, Any]] = {
    "topics": {
        "dataVersion": VERSION,
        "topicConfigTable": {
            "t": {
                "attributes": {"message.type": "NORMAL"}, "order": False, "perm": 6, "readQueueNums": 4, "topicFilterType": "SINGLE_TAG",
                "topicName": "t", "topicSysFlag": 0, "writeQueueNums": 4,
            }
        },
    },
    "groups": {
        "dataVersion": VERSION,
        "forbiddenTable": {"g": {"t": 4}},
        "subscriptionGroupTable": {
            "g": {
                "attributes": {"priority.factor": "30"}, "brokerId": 0, "consumeEnable": True, "groupName": "g", "groupSysFlag": 0,
                "groupRetryPolicy": {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [1000]}}, "retryMaxTimes": 16,
                "whichBrokerWhenConsumeSlowly": 1,
            }
        },
    },
    "offsets": {"dataVersion": VERSION, "offsetTable": {"t@g": {"0": 7}}, "lmqOffsetTable": {"%LMQ%t@%LMQ%g": 3}, "logEnd": 9},
    "modes": {"messageRequestModeMap": {"t": {"g": {"consumerGroup": "g", "mode": "POP", "popShareQueueNum": 2, "topic": "t"}}}},
    "delays": {"dataVersion": VERSION, "offsetTable": {"1": 7}, "setAside": {"1": {"reached": 9, "offsets": "7,8"}}},
    "orders": {"table": {"t@g": {"1": ORDER}}},
    "mappings": {
        "dataVersion": VERSION,
        "topicQueueMappingInfoMap": {
            "t": {
                "bname": "b", "dirty": False, "epoch": 5, "hostedQueues": {"0": [PIECE]}, "scope": "__global__", "topic": "t",
                "totalQueues": 1,
            }
        },
    },
    "auth": {
        "acls": [{"policies": [{"entries": [ENTRY], "policyType": "Custom"}], "subject": "User:u"}],
        "users": [{"password": "secret", "userStatus": "enable", "userType": "Super", "username": "u"}],
    },
    "acting": {
        "logEnd": 4096, "halves": {"reached": 40, "offsets": "17,29"}, "timers": {"readMs": 17, "queueOffset": 90, "offsets": "12"},
    },
    "kv": {"configTable": {"ORDER_TOPIC_CONFIG": {"t": "broker-a:4"}}},
}  # fmt: skip

OTHERS = (
    "null", "true", "7", "-1", str(2**31), str(2**63), str(2**70), "9" * 5000, "1.5", "1e999", "NaN", '""', '"x"', f'"{"9" * 5000}"',
    '"\\u0000"', '"\\ud800"', f'"{"n" * 70_000}"', "[]", "[7]", "[[]]", "{}", '{"x":7}', '{"x":{}}', "[" * 300 + "]" * 300,
)  # fmt: skip
KEYS = ('""', '"x"', "-1", str(2**31), str(2**70), "9" * 5000, '{"a":1}', "[1]", '"\\u0000"', f'"{"n" * 70_000}"')
MARK = "the one that is replaced"


def damaged(value: Any) -> Iterator[str]:
    """The JSON text with one value or one key replaced, by each of the others in turn."""

    def marked(value: Any) -> Iterator[tuple[Any, bool]]:
        """(the value with a mark in one place, whether that is a key)."""
        yield MARK, False
        if isinstance(value, dict):
            for key, member in value.items():
                yield {**{name: each for name, each in value.items() if name != key}, MARK: member}, True
                yield from (({**value, key: each}, is_key) for each, is_key in marked(member))
        elif isinstance(value, list):
            for index, member in enumerate(value):
                yield from (([*value[:index], each, *value[index + 1 :]], is_key) for each, is_key in marked(member))

    for place, is_key in marked(value):
        text = json.dumps(place)
        yield from (text.replace(f'"{MARK}"', other) for other in (KEYS if is_key else OTHERS))


class Tables:
    """What a start reads into, over one native broker for all."""

    def __init__(self, native: Broker, users: AuthTable) -> None:
        self._native, self._users = native, users

    def load(self, name: str, path: Path) -> Any:
        """What the file says, or its backup; None where neither can be used."""
        if name == "kv":
            values = KvConfig(path)
            values.load()
            return values.namespace("ORDER_TOPIC_CONFIG")
        native, clock = self._native, Clock()
        topics = TopicTable(TopicSettings(), native, clock)
        topics.create_plain("t", 4, 6)
        groups = GroupTable(native, clock)
        readers: dict[str, tuple[Callable[[Any], Any], Callable[[Any], object]]] = {
            "topics": (SavedTopics.from_json, topics.load),
            "groups": (SavedGroups.from_json, groups.load),
            "offsets": (SavedOffsets.from_json, ConsumerOffsets(native, clock).load),
            "modes": (RequestModes.read, RequestModes().load),
            "delays": (SavedDelayOffsets.from_json, DelayOffsets(native, cast(DurableLog, None), clock, 1).load),
            "orders": (SavedOrders.from_json, ConsumerOrders(native, topics, lambda group: True, clock).load),
            "mappings": (SavedMappings.from_json, QueueMappings("b", topics, native, clock).load),
            "auth": (SavedAuth.from_json, AuthMetadata(NativeTables(self._users)).load),
            "acting": (ActingProgress.from_json, lambda progress: progress),
        }
        from_json, use = readers[name]
        read: list[Any] = []
        SavedState(path, dict, lambda: 0).load(from_json, lambda value: (read.append(value), use(value)))
        for table in (topics, groups):  # what was read can be written again
            pretty_text(table.to_json())
        return read[0] if read else None


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tables]:
    with MessageStore(tmp_path_factory.mktemp("store"), commit_log_file_size=64 * 1024) as store, Broker(store) as native:
        users = AuthTable()
        try:
            yield Tables(native, users)
        finally:
            users.close()


def test_an_order_of_a_queue_that_nobody_can_have_is_damage_of_its_file(
    tables: Tables, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "orders.json"
    path.with_name("orders.json.bak").write_text(json.dumps(TABLES["orders"]))
    path.write_text(json.dumps({"table": {"t@g": {str(2**70): ORDER}}}))
    assert [order.queue_id for order in tables.load("orders", path).orders] == [1]
    assert f"load {path} failed (order info of t@g: a queue is {2**70}, expected a number of 64 bits)" in caplog.text
    assert path.with_name("orders.json.damaged").exists()


@pytest.mark.parametrize("name", TABLES)
def test_a_file_with_anything_anywhere_is_read_or_its_backup_is(
    name: str, tables: Tables, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    path = tmp_path / f"{name}.json"
    backup, aside = path.with_name(f"{name}.json.bak"), path.with_name(f"{name}.json.damaged")
    whole = json.dumps(TABLES[name])
    backup.write_text(whole)
    good = tables.load(name, path)
    assert good is not None
    for text in damaged(TABLES[name]):
        path.write_text(text)
        try:
            read = tables.load(name, path)
        except Unsupported as error:
            assert str(path) in str(error) and path.read_text() == text, text[:1000]
            continue
        except Exception as error:
            error.add_note(text[:1000])
            raise
        assert not aside.exists() or read == good, text[:1000]
        aside.unlink(missing_ok=True)
