"""The keywords of the native objects, one TypedDict per option struct of csrc/.

Units and defaults are in the headers; tests/unit/test_wrapper_fields.py compares the names with them.
"""

from __future__ import annotations

from typing import TypedDict


class ServerOptions(TypedDict, total=False):
    """The fields of rp_server_options, with their units and defaults in csrc/remoting/server.h."""

    bind_address: str
    port: int
    reactors: int
    frame_size_max: int
    connections_max: int
    idle_timeout_ms: int
    stall_timeout_ms: int
    output_bytes_max: int
    memory_bytes_max: int
    ring_capacity: int
    spin_us: int
    stand_in_after_us: int
    socket_send_buffer: int
    socket_receive_buffer: int
    tls_mode: int
    thread_name: str


class TlsOptions(TypedDict, total=False):
    """The fields of rp_tls_options, with their meanings in csrc/remoting/server.h."""

    certificate_path: str | None
    key_path: str | None
    key_password: str | None
    trust_path: str | None
    client_auth: int
    verifies_clients: int


class MessageStoreOptions(TypedDict, total=False):
    """The fields of rp_message_store_options, with their units and defaults in csrc/store/message_store.h."""

    commit_log_path: str | None
    commit_log_file_size: int
    consume_queue_file_size: int
    batch_queue_file_size: int
    batch_topics: str | None
    message_size_max: int
    flush_mode: int
    flush_backend: int
    liburing_path: str | None
    flush_interval_ms: int
    flush_least_pages: int
    flush_thorough_interval_ms: int
    queue_flush_interval_ms: int
    append_busy_timeout_ms: int
    append_wait_timeout_ms: int
    populate_ahead_bytes: int
    append_property_crc: int
    read_only: int
    check_crc_on_recover: int
    rebuild_queues: int
    holds_back: int
    queues_max: int
    queue_files_max: int
    light_queues_max: int
    delay_levels: str | None
    index_enable: int
    index_slot_count: int
    index_entry_count_max: int
    store_host: str | bytes
    store_host_is_v6: int
    ledger_index_path: str | None
    ledger_index_file_size: int
    ledger_committed_index: int
    compaction_file_size: int
    compaction_queue_file_size: int
    compaction_interval_ms: int
    compaction_key_memory: int


class BrokerOptions(TypedDict, total=False):
    """The fields of rp_broker_options, with their units and defaults in csrc/broker/broker.h."""

    cluster_name: str
    broker_name: str
    broker_ip: str
    region_id: str
    trace_on: int
    store_host: str | bytes
    store_host_is_v6: int
    memory_bytes: int
    suspended_pulls_max: int
    cold_after_bytes: int
    cold_after_entries: int
    cold_wait_ms: int
    cold_window_ms: int
    push_timeout_ms: int


class BrokerSettings(TypedDict, total=False):
    """The fields of rp_broker_settings (csrc/broker/broker.h): what may change while the broker runs."""

    permission: int
    role: int
    accept_after_ms: int
    slave_read_enable: int
    offset_check_in_slave: int
    lite_pull_enable: int
    property_filter_enable: int
    broker_id_min: int
    flush_mode: int
    slaves_min: int
    slave_acks: int
    slave_gap_bytes_max: int
    message_size_max: int
    transfer_bytes_max_memory: int
    transfer_count_max_memory: int
    transfer_bytes_max_disk: int
    transfer_count_max_disk: int
    filter_bytes_max: int
    memory_ratio_max: int
    long_polling_enable: int
    short_polling_ms: int
    sync_flush_timeout_ms: int
    slave_timeout_ms: int
    store_reply_enable: int
    transaction_enable: int
    transaction_timeout_ms: int
    timer_enable: int
    timer_precision_ms: int
    timer_delay_max_ms: int
    timer_slot_messages_max: int
    timer_stop_enqueue: int
    timer_stop_dequeue: int
    retry_topic_version: int
    retry_topic_v1_too: int
    separate_retry_queues: int
    pop_from_retry_percent: int
    pop_from_retry_percent_by_priority: int
    priority_ascends: int
    pop_begins_in_memory: int
    cold_flow_enable: int
    cold_group_bytes: int
    cold_all_bytes: int
    store_writable: int
    store_reason: str


class TimerOptions(TypedDict, total=False):
    """The fields of rp_timer_options, with their units and defaults in csrc/broker/timed_messages.h."""

    log_file_size: int
    precision_ms: int
    roll_window_slots: int
    flush_interval_ms: int
    progress_interval_ms: int
    delivers: int


class LoadOptions(TypedDict, total=False):
    """The fields of rp_load_options, with their units and defaults in csrc/load/load.h."""

    address: str | None
    topic: str | None
    producer_group: str | None
    consumer_group: str | None
    tags: str | None
    ledger_path: str | None
    mode: int
    serialize_type: int
    send_code: int
    pull_start: int
    queue_count: int
    connections: int
    pull_connections: int
    in_flight: int
    batch_size: int
    pull_batch: int
    threads: int
    message_size: int
    count: int
    duration_ms: int
    warm_up_ms: int
    rate: float
    connect_timeout_ms: int
    request_timeout_ms: int
    reconnect_timeout_ms: int
    drain_timeout_ms: int
    suspend_ms: int
    spin_us: int
    run_id: int
    repeat: int
    skip_verify: int
    check_order: int
    no_unique_key: int
    keep_ledger: int


class RecordBatchOptions(TypedDict, total=False):
    """The fields of rp_record_batch_options, with their units and defaults in csrc/arrow/record_batch.h."""

    column_mask: int
    broker_name: str
    properties_as_map: int
    rows_max: int
    bytes_max: int


class MessagePackerOptions(TypedDict, total=False):
    """The fields of rp_message_packer_options, with their units and defaults in csrc/arrow/message_packer.h."""

    topic: str | None
    id_prefix: str
    rows_max: int
    bytes_max: int


class QueueReaderOptions(TypedDict, total=False):
    """The fields of rp_queue_reader_options, with their units and defaults in csrc/arrow/queue_reader.h."""

    consumer_group: str
    topic: str
    subscription: str | None
    is_sql: int
    queue_id: int
    begin_offset: int
    end_offset: int
    pull_batch: int
    depth: int
    fail_on_data_loss: int
    check_crc: int
    patience_ms: int


class SegmentReaderOptions(TypedDict, total=False):
    """The fields of rp_segment_reader_options, with their units and defaults in csrc/arrow/segment_reader.h."""

    path: str
    topic: str | None
    begin_offset: int
    end_offset: int
    check_crc: int
    audit: int
    tail: int
