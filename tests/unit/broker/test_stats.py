"""Rates and sums from samples, and the table that mqadmin brokerStatus prints."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from rocketpy.broker.runtime_info import PUT_TIME_TEXTS, RuntimeFacts, disk_used_ratio, human_bytes, runtime_info
from rocketpy.broker.stats import REFRESH_MS, BrokerStats
from rocketpy.remoting.codes import RequestCode
from tests.unit.broker.recorder import Clock
from tests.unit.broker.running import run, running


class Counters:
    """The native counters, as they are set."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {"messages_in": 0, "messages_out": 0, "pulls_found": 0, "pulls_missed": 0}
        self.topics: dict[str, tuple[int, int]] = {}
        self.groups: dict[tuple[str, str], tuple[int, int]] = {}

    def stats(self) -> dict[str, Any]:
        return self.values

    def topic_stats(self) -> list[tuple[str, int, int, int, int]]:
        return [(topic, messages, size, 0, 0) for topic, (messages, size) in self.topics.items()]

    def group_stats(self) -> list[tuple[str, str, int, int, int]]:
        return [(*key, messages, size, 0) for key, (messages, size) in self.groups.items()]


def make() -> tuple[BrokerStats, Counters, Clock]:
    counters, clock = Counters(), Clock()
    return BrokerStats(counters, clock, "cluster"), counters, clock


def test_a_rate_needs_its_span_of_samples() -> None:
    stats, counters, clock = make()
    for second in range(1, 70):
        clock.ms += 1000
        counters.values["messages_in"] = second * 5
        stats.sample_rates()
        assert (stats.rate("messages_in", 10) is None) == (second < 10)
    assert stats.rate("messages_in", 10) == 5.0
    assert stats.rate("messages_in", 60) == 5.0
    assert stats.rate("messages_in", 600) is None


def test_the_last_minute_of_a_topic() -> None:
    stats, counters, clock = make()
    for round_ in range(13):
        counters.topics["t"] = (100 * (round_ + 1), 1000 * (round_ + 1))
        counters.groups[("g", "t")] = (50 * (round_ + 1), 500 * (round_ + 1))
        stats.sample_series()
        clock.ms += 10_000
    series = stats.series("TOPIC_PUT_NUMS", "t")
    assert series is not None and series.minute.sum == 600 and series.minute.per_second == 10.0 and series.minute.average == 1.0
    size = stats.series("TOPIC_PUT_SIZE", "t")
    assert size is not None and size.minute.average == 10.0
    assert stats.topic_put_rate("t") == 10.0
    assert stats.group_get_rate("g", "t") == 5.0
    assert stats.topic_put_rate("never sent to") == 0.0


def test_the_whole_broker_has_series_under_its_clusters_name() -> None:
    stats, counters, clock = make()
    stats.sample_series()
    assert stats.series("BROKER_PUT_NUMS", "cluster") is None, "as long as nothing was sent, as in RocketMQ"
    for round_ in range(13):
        counters.values |= {"messages_in": 70 * (round_ + 1), "puts_inside": 30 * (round_ + 1), "messages_out": 50 * (round_ + 1)}
        stats.sample_series()
        clock.ms += 10_000
    for name, rate in (("BROKER_PUT_NUMS", 10.0), ("BROKER_GET_NUMS", 5.0)):
        series = stats.series(name, "cluster")
        assert series is not None and series.minute.per_second == rate and series.minute.average == 1.0


def test_the_first_sample_shows_what_was_counted_before_it() -> None:
    stats, counters, clock = make()
    counters.topics["t"] = (10, 100)
    clock.ms += 10_000
    stats.sample_series()
    series = stats.series("TOPIC_PUT_NUMS", "t")
    assert series is not None
    assert [each.sum for each in (series.minute, series.hour, series.day)] == [10, 10, 10]
    assert series.minute.per_second == 1.0


def test_a_counter_that_moves_again_goes_on_from_where_it_stood() -> None:
    stats, counters, clock = make()
    counters.topics["t"] = (1000, 1000)
    stats.sample_series()
    clock.ms += 86_400_001
    stats.sample_series()
    clock.ms += 10_000
    stats.sample_series()
    assert stats.series("TOPIC_PUT_NUMS", "t") is None
    counters.topics["t"] = (1003, 1003)
    clock.ms += 10_000
    stats.sample_series()
    series = stats.series("TOPIC_PUT_NUMS", "t")
    assert series is not None and series.minute.sum == 3


def test_topics_and_groups_that_went_are_forgotten() -> None:
    stats, counters, clock = make()
    counters.topics["t"] = (1, 1)
    counters.groups[("g", "t")] = (1, 1)
    counters.groups[("g", "u")] = (1, 1)
    stats.sample_series()
    stats.forget_topic("t")
    assert stats.series("TOPIC_PUT_NUMS", "t") is None and stats.series("GROUP_GET_NUMS", "t@g") is None
    stats.forget_group("g")
    assert stats.series("GROUP_GET_NUMS", "u@g") is None
    counters.topics["t"] = (1, 1)
    stats.sample_series()
    clock.ms += 86_400_001
    stats.sample_series()
    assert stats.series("TOPIC_PUT_NUMS", "t") is None, "a topic that stood still for a day"


def test_a_topic_or_group_that_was_deleted_is_not_counted_again_and_a_new_one_begins_at_nothing(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as at:
            parts, peer = at.broker.parts, at.peer()
            assert parts is not None

            async def use(times: int) -> None:
                for _ in range(times):
                    assert (await peer.send("t")).code == 0
                assert (await peer.pull("g", "t")).code == 0
                assert (await peer.pull("h", "t")).code == 0
                parts.stats.sample_series()

            def counted() -> list[int]:
                keys = (("TOPIC_PUT_NUMS", "t"), ("GROUP_GET_NUMS", "t@g"), ("GROUP_GET_NUMS", "t@h"))
                series = [parts.stats.series(*key) for key in keys]
                return [-1 if each is None else each.day.sum for each in series]

            await use(3)
            assert counted() == [3, 3, 3]
            assert (await peer.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": "h"})).code == 0
            parts.stats.sample_series()
            assert counted() == [3, 3, -1]
            assert (await peer.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "t"})).code == 0
            parts.stats.sample_series()
            assert counted() == [-1, -1, -1]
            assert [row for row in parts.native.topic_stats() if row[0] == "t"] == [] == parts.native.group_stats()
            await use(2)
            assert counted() == [2, 2, 2]

    run(test)


def test_what_was_counted_a_moment_ago_is_in_the_answer() -> None:
    stats, counters, clock = make()
    clock.ms += 5000
    counters.topics["t"] = (10, 100)
    stats.refresh_series()
    series = stats.series("TOPIC_PUT_NUMS", "t")
    assert series is not None and series.minute.sum == 10 and series.minute.per_second == 2.0 and series.day.sum == 10
    clock.ms += 100
    counters.topics["t"] = (11, 110)
    stats.refresh_series()
    assert series.minute.sum == 10, "not more often than twice a second"


def test_mornings_move_at_midnight() -> None:
    stats, counters, _ = make()
    counters.values["messages_in"] = 7
    stats.record_morning()
    counters.values["messages_in"] = 11
    stats.record_morning()
    assert stats.mornings("messages_in") == (7, 11)


def facts(tmp_path: Path, **broker: Any) -> RuntimeFacts:
    return RuntimeFacts(
        now_ms=90_061_000,
        boot_ms=0,
        version=479,
        version_text="V5_3_3",
        active=True,
        accept_after_ms=0,
        root_path=str(tmp_path),
        commit_log_path=str(tmp_path / "commitlog"),
        earliest_message_ms=5,
        broker=broker,
        store={"commit_log_min_offset": 0, "commit_log_max_offset": 100, "dispatched_offset": 90, "appended_not_synced_bytes": 1536},
    )


PEER_KEYS = """EndTransactionQueueSize EndTransactionThreadPoolQueueCapacity ackThreadPoolQueueCapacity ackThreadPoolQueueHeadWaitTimeMills
ackThreadPoolQueueSize bootTimestamp brokerActive brokerVersionDesc commitLogDirCapacity commitLogDiskRatio commitLogMaxOffset
commitLogMinOffset consumeQueueDiskRatio dispatchBehindBytes dispatchMaxBuffer earliestMessageTimeStamp getFoundTps
getMessageEntireTimeMax getMissTps getTotalTps getTransferredTps litePullThreadPoolQueueCapacity
litePullThreadPoolQueueHeadWaitTimeMills litePullThreadPoolQueueSize msgGetTotalTodayMorning msgGetTotalTodayNow
msgGetTotalYesterdayMorning msgPutTotalTodayMorning msgPutTotalTodayNow msgPutTotalYesterdayMorning pageCacheLockTimeMills
pullThreadPoolQueueCapacity pullThreadPoolQueueHeadWaitTimeMills pullThreadPoolQueueSize putLatency99 putLatency999
putMessageAverageSize putMessageDistributeTime putMessageEntireTimeMax putMessageFailedTimes putMessageSizeTotal
putMessageTimesTotal putTps queryThreadPoolQueueCapacity queryThreadPoolQueueHeadWaitTimeMills queryThreadPoolQueueSize
remainHowManyDataToFlush remainTransientStoreBufferNumbs runtime sendThreadPoolQueueCapacity sendThreadPoolQueueHeadWaitTimeMills
sendThreadPoolQueueSize startAcceptSendRequestTimeStamp timerCongestNum timerDequeueTps timerEnqueueTps timerOffsetBehind
timerReadBehind"""


def test_every_key_the_peer_shows_is_shown(tmp_path: Path) -> None:
    stats, _, _ = make()
    table = runtime_info(facts(tmp_path), stats)
    assert set(PEER_KEYS.split()) <= set(table)
    assert all(isinstance(value, str) for value in table.values())


def test_the_rate_that_rocketmq_4_spells_otherwise_has_both_names(tmp_path: Path) -> None:
    """exportMetrics of its mqadmin ends with a NullPointerException without."""
    stats, _, _ = make()
    table = runtime_info(facts(tmp_path), stats)
    assert table["getTransferedTps"] == table["getTransferredTps"]


def test_values_have_the_forms_that_cluster_list_parses(tmp_path: Path) -> None:
    stats, counters, clock = make()
    (tmp_path / "commitlog").mkdir()
    for _ in range(12):
        clock.ms += 1000
        counters.values["messages_in"] += 3
        stats.sample_rates()
    table = runtime_info(facts(tmp_path, messages_put=4, bytes_put=1000, put_ns_p99=26_000_000, put_ms=list(range(13))), stats)
    assert float(table["putTps"].split(" ")[0]) == 3.0 and table["putTps"] == "3.0  "
    assert table["getTotalTps"] == "0.0 0.0 0.0"
    assert table["runtime"] == "[ 1 days, 1 hours, 1 minutes, 1 seconds ]"
    assert table["putMessageAverageSize"] == "250.0" and table["putLatency99"] == "26.00"
    assert table["dispatchBehindBytes"] == "10" and table["remainHowManyDataToFlush"] == "1.5 KiB"
    assert table["putMessageDistributeTime"].startswith(f"{PUT_TIME_TEXTS[0]}:0 {PUT_TIME_TEXTS[1]}:1 ")
    assert 0 <= float(table["commitLogDiskRatio"]) <= 1
    assert table["commitLogDirCapacity"].startswith("Total : ")


@pytest.mark.parametrize(("count", "text"), [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1536, "1.5 KiB"), (5 << 30, "5.0 GiB")])
def test_bytes_for_people(count: int, text: str) -> None:
    assert human_bytes(count) == text


def test_a_missing_path_has_no_ratio() -> None:
    assert disk_used_ratio("/no/such/path") == -1.0


def test_rates_go_on_when_the_wall_clock_is_set_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with running(tmp_path) as at:
            peer, header = at.peer(), {"statsName": "TOPIC_PUT_NUMS", "statsKey": "t"}
            assert (await peer.send("t")).code == 0
            assert (await peer.value(RequestCode.VIEW_BROKER_STATS_DATA, header))["statsMinute"]["sum"] == 1
            wall_ns = time.time_ns
            monkeypatch.setattr(time, "time_ns", lambda: wall_ns() - 3_600_000_000_000)
            await asyncio.sleep(REFRESH_MS / 1000)
            assert (await peer.send("t")).code == 0
            minute = (await peer.value(RequestCode.VIEW_BROKER_STATS_DATA, header))["statsMinute"]
            assert minute["sum"] == 2 and minute["tps"] > 0

    run(test)


class Unwalked(dict[Any, Any]):
    """A table that nobody goes through."""

    def __iter__(self) -> Any:
        raise AssertionError("a walk over all series")


def test_the_end_of_a_topic_or_a_group_looks_at_no_others_series() -> None:
    """Otherwise the deletion of thousands of topics costs the square of what there is."""
    stats, counters, clock = make()
    counters.topics = {f"t{i}": (1, 1) for i in range(4)}
    counters.groups = {(f"g{i}", f"t{j}"): (1, 1) for i in range(3) for j in range(3)} | {("t1", "t3"): (1, 1)}
    stats.sample_series()
    clock.ms += 86_400_001
    counters.groups |= {key: (2, 2) for key in counters.groups if key[0] == "g0"}
    stats.sample_series()
    assert len(stats._series) == 2 * 3 and len(stats._still) == 2 * (4 + 7), "those that stood still for a day have their last sample only"
    stats._series, stats._still = Unwalked(stats._series), Unwalked(stats._still)
    stats.forget_topic("t1")
    assert len(stats._series) == 2 * 2 and len(stats._still) == 2 * (3 + 5)
    assert ("GROUP_GET_NUMS", "t3@t1") in stats._still, "a group of the same name"
    for group in ("g0", "g1", "g2", "t1"):
        stats.forget_group(group)
    assert not stats._series and len(stats._still) == 2 * 3
    for topic in counters.topics:
        stats.forget_topic(topic)
    assert not stats._still and not stats._of_topic and not stats._of_group, "nothing is left of what went"
