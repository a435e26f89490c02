"""Consumer groups: made on first use, changed by operators, forbidden topics."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rocketpy._core.errors import NoMemory
from rocketpy.broker import group_texts, names
from rocketpy.broker.attributes import AttributeFault
from rocketpy.broker.persistence import pretty_text
from rocketpy.broker.subscriptions import JUST_MADE_MS, GroupConfig, GroupSettings, GroupTable, SavedGroups
from rocketpy.remoting.json_codec import write_fastjson
from tests.unit.broker.recorder import Clock, Recorder


def test_predefined_groups_exist_from_the_first_start() -> None:
    recorder = Recorder()
    GroupTable(recorder, Clock())
    assert set(recorder.groups) == set(names.PREDEFINED_GROUPS)


def test_an_unknown_group_is_made_when_the_settings_allow_it() -> None:
    recorder = Recorder()
    table = GroupTable(recorder, Clock())
    assert table.find_or_create("g") == GroupConfig("g") and "g" in recorder.groups
    version = table.version
    assert table.find_or_create("g") == GroupConfig("g") and table.version is version


def test_without_automatic_creation_only_system_groups_are_made() -> None:
    table = GroupTable(Recorder(), Clock(), settings=GroupSettings(auto_create=False))
    assert table.find_or_create("g") is None
    assert table.find_or_create("CID_RMQ_SYS_x") is not None
    table.apply(GroupSettings(auto_create=False, create_system_groups=False))
    assert table.find_or_create("CID_RMQ_SYS_y") is None and table.find_or_create("g") is None
    table.apply(GroupSettings(auto_create=True))
    assert table.find_or_create("g") is not None


@pytest.mark.parametrize("group", ["", "a b", "g" * 256, "ü"])
def test_a_group_with_a_bad_name_is_never_made(group: str) -> None:
    recorder = Recorder()
    assert GroupTable(recorder, Clock()).find_or_create(group) is None
    assert group not in recorder.groups


def test_an_update_reaches_the_native_table() -> None:
    recorder = Recorder()
    table = GroupTable(recorder, Clock())
    table.update(GroupConfig("g", consume_enable=False, broker_id=1, system_flag=2))
    assert recorder.groups["g"] == {
        "consume_enable": False,
        "consume_broadcast_enable": True,
        "broker_id": 1,
        "which_broker_when_slow": 1,
        "sys_flag": 2,
        "priority_percent": 100,
        "retry_queues": 1,
        "retry_times_max": 16,
    }
    for queues, times, wanted in (
        (4, 3, (4, 3)),
        (0, 3, (0, 3)),
        (-1, 3, (0, 0)),
        (65_537, 3, (0, 0)),
        (1, 1 << 31, (0, 0)),
        (1, -(1 << 31), (1, -(1 << 31))),
    ):
        table.load(SavedGroups({"g": GroupConfig("g", retry_queues=queues, retry_times_max=times)}, {}, table.version))
        assert (recorder.groups["g"]["retry_queues"], recorder.groups["g"]["retry_times_max"]) == wanted
    for said, percent in (("30", 30), ("0", 0), ("500", 100), ("-1", 0), ("much", 100)):
        table.load(SavedGroups({"g": GroupConfig("g", attributes={"priority.factor": said})}, {}, table.version))  # a file may say anything
        assert recorder.groups["g"]["priority_percent"] == percent
    with pytest.raises(AttributeFault):
        table.update(GroupConfig("g", attributes={"+nonsense": "1"}))


def test_a_forbidden_topic_is_told_and_kept() -> None:
    told: list[tuple[str, str]] = []
    table = GroupTable(Recorder(), Clock(), on_forbidden=lambda group, topic: told.append((group, topic)))
    table.set_readable("g", "t", False)
    assert not table.is_readable("g", "t") and table.is_readable("g", "u")
    assert table.to_json()["forbiddenTable"] == {"g": {"t": 4}}
    table.set_readable("g", "t", True)
    assert table.is_readable("g", "t") and table.to_json()["forbiddenTable"] == {}
    assert told == [("g", "t"), ("g", "t")]


def test_a_deleted_group_frees_its_forbidden_topics() -> None:
    recorder = Recorder()
    table = GroupTable(recorder, Clock())
    table.find_or_create("g")
    table.set_readable("g", "t", False)
    assert table.delete("g") and "g" not in recorder.groups and table.is_readable("g", "t")
    assert not table.delete("g")


def test_members_of_newer_releases_survive() -> None:
    config = GroupConfig.from_json({"groupName": "g", "somethingNew": {"a": [1]}, "subscriptionDataSet": None})
    assert config.to_json()["somethingNew"] == {"a": [1]}
    assert "subscriptionDataSet" not in config.to_json()


def test_what_was_written_is_read_back() -> None:
    table = GroupTable(Recorder(), Clock())
    table.update(GroupConfig("g", retry_policy={"type": "EXPONENTIAL", "exponentialRetryPolicy": {"initial": 5}}))
    table.set_readable("g", "t", False)
    other = GroupTable(Recorder(), Clock())
    other.load(SavedGroups.from_json(table.to_json()))
    assert other.to_json() == table.to_json()


def test_texts_are_those_of_the_whole_table_written_anew() -> None:
    table = GroupTable(Recorder(), Clock())

    def is_as_written_anew() -> bool:
        by_name = replace(table.snapshot(), configs=tuple(sorted(table, key=lambda config: config.group)))
        compact = table.texts.compact(by_name) == write_fastjson(table.to_json())
        return compact and table.texts.pretty(table.snapshot()) == pretty_text(table.to_json())

    table.load(SavedGroups({each.group: each for each in ODD}, {}, table.version.next(now_ms=1)))
    assert is_as_written_anew()
    table.set_readable("g", "u", False)
    table.set_readable("g", "t", False)
    table.set_readable("a", "t", False)
    assert is_as_written_anew()
    table.update(GroupConfig("plain", retry_times_max=3))
    assert is_as_written_anew() and table.delete("tab\there") and is_as_written_anew()
    nothing = replace(table.snapshot(), configs=(), forbidden={})
    assert table.texts.compact(nothing).endswith(b'"forbiddenTable":{},"subscriptionGroupTable":{}}')
    assert table.texts.pretty(nothing).endswith('"forbiddenTable":{},\n\t"subscriptionGroupTable":{}\n}')


ODD = (
    GroupConfig("tab\there"),
    GroupConfig('"quoted" ü', attributes={"+lite.bind.topic": "t\nu", "a": ""}, system_flag=-1),
    GroupConfig("g", retry_policy={"type": "EXPONENTIAL", "exponentialRetryPolicy": {"initial": 5, "next": [1, 2]}}),
    GroupConfig("new", extra={"somethingNew": {"a": [1, {"b": None}]}, "another": []}),
)


def test_a_change_of_one_group_writes_the_text_of_that_one_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 5,000 groups that was 0.2 s for each change, and the event loop made them all into dictionaries before."""
    written, real = list[str](), group_texts._member

    def write(config: group_texts.WrittenGroup) -> str:
        written.append(config.group)
        return real(config)

    monkeypatch.setattr(group_texts, "_member", write)
    table = GroupTable(Recorder(), Clock())
    table.update(GroupConfig("g"))
    before = table.snapshot()
    assert not written
    table.texts.pretty(before)
    assert len(written) == len(table)
    written.clear()
    table.update(GroupConfig("g", retry_times_max=3))
    table.update(GroupConfig("h"))
    table.texts.compact(replace(table.snapshot(), configs=table.snapshot().configs[:1]))
    table.texts.pretty(table.snapshot())
    assert written == ["g", "h"]
    assert b'"retryMaxTimes":16' in table.texts.compact(before)


def test_a_masters_table_replaces_ours() -> None:
    recorder, master = Recorder(), GroupTable(Recorder(), Clock(2))
    master.update(GroupConfig("theirs"))
    table = GroupTable(recorder, Clock())
    table.update(GroupConfig("ours"))
    saved = SavedGroups.from_json(master.to_json())
    assert table.replace_all(saved) and "theirs" in recorder.groups and "ours" not in recorder.groups
    assert not table.replace_all(saved)


def test_a_group_that_was_just_made_stays_for_a_moment() -> None:
    """The pull that it was made for comes back to the fast path, and was refused where a copy of the master's table came first."""
    recorder, clock = Recorder(), Clock()
    table, saved = GroupTable(recorder, clock), SavedGroups.from_json(GroupTable(Recorder(), Clock(2)).to_json())
    assert table.find_or_create("reader") is not None
    assert table.replace_all(saved) and "reader" in recorder.groups and "reader" in table
    clock.ms += JUST_MADE_MS
    assert table.replace_all(saved), "also where the master's version is the same as before"
    assert "reader" not in recorder.groups and "reader" not in table
    assert not table.replace_all(saved)


def test_what_a_master_forbids_or_allows_again_is_told_here_too() -> None:
    told: list[tuple[str, str]] = []
    master = GroupTable(Recorder(), Clock(2))
    table = GroupTable(Recorder(), Clock(), on_forbidden=lambda group, topic: told.append((group, topic)))
    master.set_readable("g", "t", False)
    master.set_readable("g", "u", False)
    assert table.replace_all(SavedGroups.from_json(master.to_json()))
    assert sorted(told) == [("g", "t"), ("g", "u")] and not table.is_readable("g", "t")
    told.clear()
    master.set_readable("g", "t", True)
    assert table.replace_all(SavedGroups.from_json(master.to_json()))
    assert told == [("g", "t")] and table.is_readable("g", "t") and not table.is_readable("g", "u")


class Refusing(Recorder):
    """Native tables without memory for one of their rows."""

    refused = ""

    def put_group(self, group: str, **members: Any) -> None:
        if self.refused == "group":
            raise NoMemory("no room")
        super().put_group(group, **members)

    def put_lite_group(self, group: str, topic: str, is_wildcard: bool) -> None:
        if self.refused == "lite":
            raise NoMemory("no room")
        super().put_lite_group(group, topic, is_wildcard)


@pytest.mark.parametrize("refused", ["group", "lite"])
def test_what_the_native_table_refuses_is_not_in_the_file(refused: str) -> None:
    recorder = Refusing()
    table = GroupTable(recorder, Clock())
    table.update(GroupConfig("known"))
    before, native, recorder.refused = table.to_json(), dict(recorder.groups), refused
    for change in (GroupConfig("new"), GroupConfig("known", consume_enable=False)):
        with pytest.raises(NoMemory):
            table.update(change)
    with pytest.raises(NoMemory):
        table.find_or_create("used")
    assert (table.to_json(), recorder.groups) == (before, native)
    assert "new" not in table and "used" not in table
    recorder.refused = ""
    assert table.find_or_create("used") == GroupConfig("used") and "used" in recorder.groups


@pytest.mark.parametrize(
    "value",
    [
        None,
        {},
        {"subscriptionGroupTable": {"g": []}},
        {"subscriptionGroupTable": {"g": {"retryQueueNums": "x"}}},
        {"subscriptionGroupTable": {"g": {"consumeEnable": 3}}},
        {"subscriptionGroupTable": {"g": {"groupSysFlag": 1 << 31}}},
        {"subscriptionGroupTable": {}, "forbiddenTable": {"g": 1}},
        {"subscriptionGroupTable": {}, "forbiddenTable": {"g": {"t": "x"}}},
    ],
)
def test_a_damaged_table_is_refused(value: object) -> None:
    with pytest.raises(ValueError):
        SavedGroups.from_json(value)
