"""What a broker says about itself on GET_BROKER_RUNTIME_INFO: the table that mqadmin brokerStatus prints and clusterList reads.
RocketMQ: AdminBrokerProcessor.prepareRuntimeInfo, StoreStatsService.getRuntimeInfo, DefaultMessageStore.getRuntimeInfo (5.3.3).

The keys and the forms of the values are RocketMQ's, even for thread pools that do not exist here: clusterList parses them, and a missing
key blanks the whole line of a broker.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from .stats import BrokerStats

PUT_TIME_TEXTS: Final = (
    "[<=0ms]",
    "[0~10ms]",
    "[10~50ms]",
    "[50~100ms]",
    "[100~200ms]",
    "[200~500ms]",
    "[500ms~1s]",
    "[1~2s]",
    "[2~3s]",
    "[3~4s]",
    "[4~5s]",
    "[5~10s]",
    "[10s~]",
)

_RATES: Final = {
    "putTps": ("messages_put",),
    "getFoundTps": ("pulls_found",),
    "getMissTps": ("pulls_missed",),
    "getTotalTps": ("pulls_found", "pulls_missed"),
    "getTransferredTps": ("messages_out",),
    "getTransferedTps": ("messages_out",),  # as RocketMQ 4 spells it: exportMetrics of its mqadmin ends without
}

# Thread pools of RocketMQ that are a native path or a task here: their queues are always empty.
_POOLS: Final = (
    ("send", 10_000),
    ("pull", 100_000),
    ("litePull", 100_000),
    ("query", 20_000),
    ("ack", 100_000),
)


@dataclass(frozen=True, slots=True)
class RuntimeFacts:
    """What the table needs besides the samples, read at the moment of the question."""

    now_ms: int
    boot_ms: int
    version: int
    version_text: str
    active: bool
    accept_after_ms: int
    root_path: str
    commit_log_path: str
    earliest_message_ms: int
    broker: Mapping[str, object]
    store: Mapping[str, int]
    requests_waiting: int = 0
    next_deletion: tuple[str, datetime] | None = None
    """The commit log file that goes next and when, local time: not RocketMQ's."""
    timers: Mapping[str, str] | None = None
    delay_levels: Mapping[int, tuple[int, int]] | None = None
    """(delivered, stored) by level."""


def human_bytes(count: int) -> str:
    """ "1.5 GiB" as MixAll.humanReadableByteCount writes it."""
    if count < 1024:
        return f"{count} B"
    value = float(count)
    for unit in ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB"):
        value /= 1024
        if value < 1024 or unit == "EiB":
            break
    return f"{value:.1f} {unit}"


def disk_used_ratio(path: str) -> float:
    """The used share of a file system, rounded up to hundredths; -1 if the path does not exist."""
    try:
        disk = os.statvfs(path)
    except OSError:
        return -1.0
    used = (disk.f_blocks - disk.f_bfree) * disk.f_frsize
    entire = used + disk.f_bavail * disk.f_frsize
    return -(-used * 100 // entire) / 100.0 if entire > 0 else -1.0


def disk_capacity(path: str) -> tuple[int, int]:
    """(size, free space) of a file system in bytes; zeros if the path does not exist."""
    try:
        disk = os.statvfs(path)
    except OSError:
        return 0, 0
    return disk.f_blocks * disk.f_frsize, disk.f_bfree * disk.f_frsize


def runtime_info(facts: RuntimeFacts, stats: BrokerStats) -> dict[str, str]:
    """The whole table."""
    return {
        **_counters(facts),
        **_rates(stats),
        **_days(facts, stats),
        **_disk(facts),
        **_queues(facts),
        "brokerActive": str(facts.active).lower(),
        "brokerVersion": str(facts.version),
        "brokerVersionDesc": facts.version_text,
        "bootTimestamp": str(facts.boot_ms),
        "runtime": _runtime_text(facts.now_ms - facts.boot_ms),
        "earliestMessageTimeStamp": str(facts.earliest_message_ms),
        **({"nextDeletion": "{} at {:%Y-%m-%d %H:%M:%S}".format(*facts.next_deletion)} if facts.next_deletion is not None else {}),
        "startAcceptSendRequestTimeStamp": str(facts.accept_after_ms),
        **(facts.timers or _NO_TIMERS),
        **{f"scheduleMessageOffset_{level}": f"{at},{end}" for level, (at, end) in (facts.delay_levels or {}).items()},
    }


_NO_TIMERS: Final = {
    "timerReadBehind": "0",
    "timerOffsetBehind": "0",
    "timerCongestNum": "0",
    "timerEnqueueTps": "0.0",
    "timerDequeueTps": "0.0",
}


def _counters(facts: RuntimeFacts) -> dict[str, str]:
    broker, store = facts.broker, facts.store
    messages = _number(broker, "messages_put")
    size = _number(broker, "bytes_put")
    return {
        "putMessageTimesTotal": str(max(1, messages)),
        "putMessageFailedTimes": str(_number(broker, "sends_failed")),
        "putMessageSizeTotal": str(size),
        "putMessageAverageSize": str(size / max(1, messages)),
        "putMessageEntireTimeMax": str(_number(broker, "put_ns_max") // 1_000_000),
        "getMessageEntireTimeMax": str(_number(broker, "get_ns_max") // 1_000_000),
        "putMessageDistributeTime": _distribution(broker.get("put_ms")),
        "putLatency99": f"{_number(broker, 'put_ns_p99') / 1e6:.2f}",
        "putLatency999": f"{_number(broker, 'put_ns_p999') / 1e6:.2f}",
        "dispatchMaxBuffer": "0",
        "dispatchBehindBytes": str(max(0, store.get("commit_log_max_offset", 0) - store.get("dispatched_offset", 0))),
        "commitLogMinOffset": str(store.get("commit_log_min_offset", 0)),
        "commitLogMaxOffset": str(store.get("commit_log_max_offset", 0)),
        "pageCacheLockTimeMills": "0",
        "remainTransientStoreBufferNumbs": str((1 << 31) - 1),
        "remainHowManyDataToFlush": human_bytes(max(0, store.get("appended_not_synced_bytes", 0))),
    }


def _rates(stats: BrokerStats) -> dict[str, str]:
    """Three rates in a row, over 10, 60 and 600 s. One that is not known yet is left out, but not the blanks around it."""
    result = {}
    for name, counters in _RATES.items():
        texts = []
        for seconds in (10, 60, 600):
            values = [rate for counter in counters if (rate := stats.rate(counter, seconds)) is not None]
            texts.append(str(sum(values)) if values else ("0.0" if len(counters) > 1 else ""))
        result[name] = " ".join(texts)
    return result


def _days(facts: RuntimeFacts, stats: BrokerStats) -> dict[str, str]:
    result = {}
    for name, counter in (("msgPutTotal", "messages_in"), ("msgGetTotal", "messages_out")):
        yesterday, today = stats.mornings(counter)
        result[f"{name}YesterdayMorning"] = str(yesterday)
        result[f"{name}TodayMorning"] = str(today)
        result[f"{name}TodayNow"] = str(_number(facts.broker, counter))
    return result


def _disk(facts: RuntimeFacts) -> dict[str, str]:
    ratio = disk_used_ratio(facts.commit_log_path)
    total, free = disk_capacity(facts.root_path)
    return {
        "commitLogDiskRatio": str(ratio),
        f"commitLogDiskRatio_{facts.commit_log_path}": str(ratio),
        "consumeQueueDiskRatio": str(disk_used_ratio(facts.root_path)),
        "commitLogDirCapacity": f"Total : {human_bytes(total)}, Free : {human_bytes(free)}.",
    }


def _queues(facts: RuntimeFacts) -> dict[str, str]:
    result = {}
    for pool, capacity in _POOLS:
        result[f"{pool}ThreadPoolQueueSize"] = str(facts.requests_waiting if pool == "query" else 0)
        result[f"{pool}ThreadPoolQueueCapacity"] = str(capacity)
        result[f"{pool}ThreadPoolQueueHeadWaitTimeMills"] = "0"
    result["EndTransactionQueueSize"] = "0"
    result["EndTransactionThreadPoolQueueCapacity"] = "100000"
    return result


def _distribution(counts: object) -> str:
    if not isinstance(counts, list | tuple) or len(counts) != len(PUT_TIME_TEXTS):
        return "null"
    return "".join(f"{text}:{count} " for text, count in zip(PUT_TIME_TEXTS, counts, strict=True))


def _runtime_text(elapsed_ms: int) -> str:
    minutes, seconds = divmod(max(0, elapsed_ms) // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"[ {days} days, {hours} hours, {minutes} minutes, {seconds} seconds ]"


def _number(values: Mapping[str, object], name: str) -> int:
    value = values.get(name, 0)
    return value if isinstance(value, int) else 0
