"""Configuration keys → options of the native store, broker and listener: which key ends where, in one place.

The left column of each table below is a field of a C struct (csrc/store/message_store.h, csrc/broker/broker.h, csrc/remoting/server.h).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypedDict

from .._core.broker import BrokerOptions
from .._core.broker import BrokerSettings as NativeSettings
from .._core.liburing import liburing_path
from .._core.options import TimerOptions
from .._core.store import MessageStoreOptions
from ..config import Config
from ..ha.service import HaSettings
from ..store.directory import batch_topics
from .ledger_options import with_ledger
from .light_queues import light_queues_max
from .queue_files import queue_files_max
from .settings import ROLES

FLUSH_MODES = ("ASYNC_FLUSH", "SYNC_FLUSH")
FLUSH_BACKENDS = ("AUTO", "SYSCALL", "IO_URING")
REACTORS_MAX = 16


class FlushTiming(TypedDict):
    """rp_flush_timing (csrc/store/flush_timing.h)."""

    interval_ms: int
    least_pages: int
    thorough_interval_ms: int
    queue_interval_ms: int


def flush_timing(config: Config) -> FlushTiming:
    """The settings of the store's syncs that may change at run time."""
    return {
        "interval_ms": config.integer("flushIntervalCommitLog"),
        "least_pages": config.integer("flushCommitLogLeastPages"),
        "thorough_interval_ms": config.integer("flushCommitLogThoroughInterval"),
        "queue_interval_ms": config.integer("flushIntervalConsumeQueue"),
    }


class AppendTiming(TypedDict):
    """The keywords of MessageStore.set_append_timing."""

    busy_timeout_ms: int
    wait_timeout_ms: int


def append_timing(config: Config) -> AppendTiming:
    """How long sends wait for each other. RocketMQ's operators change it on a broker under pressure."""
    wait = "waitTimeMillsInSendQueue" if config.boolean("brokerFastFailureEnable") else "osPageCacheBusyTimeOutMills"
    return {"busy_timeout_ms": config.milliseconds("osPageCacheBusyTimeOutMills"), "wait_timeout_ms": config.milliseconds(wait)}


def store_options(config: Config, store_host: str) -> MessageStoreOptions:
    timing, appending = flush_timing(config), append_timing(config)
    options: MessageStoreOptions = {
        "commit_log_file_size": config.integer("mappedFileSizeCommitLog"),
        "consume_queue_file_size": config.integer("mappedFileSizeConsumeQueue"),
        "batch_queue_file_size": config.integer("mapperFileSizeBatchConsumeQueue"),
        "batch_topics": batch_topics(Path(config.text("storePathRootDir"))),
        "message_size_max": config.integer("maxMessageSize"),
        "flush_mode": FLUSH_MODES.index(config.text("flushDiskType")),
        "flush_backend": FLUSH_BACKENDS.index(config.text("flushBackend")),
        "liburing_path": liburing_path(),
        "flush_interval_ms": timing["interval_ms"],
        "flush_least_pages": timing["least_pages"],
        "flush_thorough_interval_ms": timing["thorough_interval_ms"],
        "queue_flush_interval_ms": timing["queue_interval_ms"],
        "append_busy_timeout_ms": appending["busy_timeout_ms"],
        "append_wait_timeout_ms": appending["wait_timeout_ms"],
        "append_property_crc": int(config.boolean("enabledAppendPropCRC")),
        "holds_back": int(config.boolean("enableControllerMode")),
        "queue_files_max": queue_files_max(),
        "light_queues_max": light_queues_max(config),
        "delay_levels": config.text("messageDelayLevel"),
        "index_enable": int(config.boolean("messageIndexEnable")),
        "index_slot_count": config.integer("maxHashSlotNum"),
        "index_entry_count_max": config.integer("maxIndexNum"),
        "store_host": store_host,
        "compaction_file_size": config.integer("compactionMappedFileSize") if config.boolean("enableCompaction") else 0,
        "compaction_queue_file_size": config.integer("compactionCqMappedFileSize"),
        "compaction_interval_ms": config.milliseconds("compactionScheduleInternal"),
        "compaction_key_memory": config.integer("maxOffsetMapSize"),
    }
    if config.boolean("enableDLegerCommitLog"):
        return with_ledger(options, config)
    if config.text("storePathCommitLog"):
        options["commit_log_path"] = config.text("storePathCommitLog")
    return options


def broker_options(config: Config, store_host: str) -> BrokerOptions:
    return {
        "cluster_name": config.text("brokerClusterName"),
        "broker_name": config.text("brokerName"),
        "broker_ip": config.text("brokerIP1"),
        "region_id": config.text("regionId"),
        "trace_on": int(config.boolean("traceOn")),
        "store_host": store_host,
        "memory_bytes": config.integer("memory"),
    }


def native_settings(config: Config) -> NativeSettings:
    """The settings that the fast path reads and that may change at run time."""
    role, replication = config.text("brokerRole"), HaSettings.of(config)
    return {
        "permission": config.integer("brokerPermission"),
        "role": ROLES.index(role),
        "accept_after_ms": config.integer("startAcceptSendRequestTimeStamp"),
        "slave_read_enable": int(config.boolean("slaveReadEnable")),
        "offset_check_in_slave": int(config.boolean("offsetCheckInSlave")),
        "lite_pull_enable": int(config.boolean("litePullMessageEnable")),
        "property_filter_enable": int(config.boolean("enablePropertyFilter")),
        "flush_mode": FLUSH_MODES.index(config.text("flushDiskType")),
        "slaves_min": replication.slaves_min if replication.is_sync else 0,
        "slave_acks": replication.slave_acks,
        "slave_gap_bytes_max": config.integer("haMaxGapNotInSync"),
        "message_size_max": config.integer("maxMessageSize"),
        "transfer_bytes_max_memory": config.integer("maxTransferBytesOnMessageInMemory"),
        "transfer_count_max_memory": config.integer("maxTransferCountOnMessageInMemory"),
        "transfer_bytes_max_disk": config.integer("maxTransferBytesOnMessageInDisk"),
        "transfer_count_max_disk": config.integer("maxTransferCountOnMessageInDisk"),
        "filter_bytes_max": config.integer("maxFilterMessageSize"),
        "memory_ratio_max": config.integer("accessMessageInMemoryMaxRatio"),
        "long_polling_enable": int(config.boolean("longPollingEnable")),
        "short_polling_ms": config.milliseconds("shortPollingTimeMills"),
        "sync_flush_timeout_ms": config.integer("syncFlushTimeout"),
        "slave_timeout_ms": config.integer("slaveTimeout"),
        "store_reply_enable": int(config.boolean("storeReplyMessageEnable")),
        "transaction_enable": int(not config.boolean("rejectTransactionMessage")),
        "transaction_timeout_ms": config.integer("transactionTimeOut"),
        "timer_enable": int(config.boolean("timerWheelEnable")),
        "timer_precision_ms": config.integer("timerPrecisionMs"),
        "timer_delay_max_ms": config.integer("timerMaxDelaySec") * 1000,
        "timer_slot_messages_max": config.integer("timerCongestNumEachSlot"),
        "timer_stop_enqueue": int(config.boolean("timerStopEnqueue")),
        "timer_stop_dequeue": int(config.boolean("timerStopDequeue")),
        "retry_topic_version": 2 if config.boolean("enableRetryTopicV2") else 1,
        "retry_topic_v1_too": int(config.boolean("retrieveMessageFromPopRetryTopicV1")),
        "separate_retry_queues": int(config.boolean("useSeparateRetryQueue")),
        "pop_from_retry_percent": config.integer("popFromRetryProbability"),
        "pop_from_retry_percent_by_priority": config.integer("popFromRetryProbabilityForPriority"),
        "priority_ascends": int(config.boolean("priorityOrderAsc")),
        "pop_begins_in_memory": int(config.boolean("initPopOffsetByCheckMsgInMem")),
        "cold_flow_enable": int(config.boolean("coldDataFlowControlEnable")),
        "cold_group_bytes": config.integer("cgColdReadThreshold"),
        "cold_all_bytes": config.integer("globalColdReadThreshold"),
    }


def timer_options(config: Config, *, delivers: bool) -> TimerOptions:
    return {
        "log_file_size": config.integer("mappedFileSizeTimerLog"),
        "precision_ms": config.integer("timerPrecisionMs"),
        "roll_window_slots": config.integer("timerRollWindowSlot"),
        "flush_interval_ms": config.integer("timerFlushIntervalMs"),
        "progress_interval_ms": config.integer("timerProgressLogIntervalMs"),
        "delivers": int(delivers),
    }


def reactor_count(config: Config) -> int:
    """The value of reactorThreads; by default one per core.

    On two cores one reactor serves better: with two, three busy threads (the third is a client's, or the flusher) take turns on the cores,
    and each turn of a reactor carries half as many requests (docs/performance.md has the figures).
    """
    cores = len(os.sched_getaffinity(0))
    return config.integer("reactorThreads") or (1 if cores <= 2 else min(cores, REACTORS_MAX))
