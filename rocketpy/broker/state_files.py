"""Which table of the broker is kept in which file of `config/`."""

from __future__ import annotations

from pathlib import Path

from ..auth.metadata import AUTH_FILE, AuthMetadata, SavedAuth
from .consumer_offsets import ConsumerOffsets
from .consumer_orders import ORDERS_FILE, ConsumerOrders
from .delay_offsets import DELAY_OFFSETS_FILE, DelayOffsets
from .durable_offsets import DurableOffsets
from .parts import SavedStates
from .persistence import SavedState
from .queue_mappings import QUEUE_MAPPINGS_FILE, QueueMappings
from .request_modes import RequestModes
from .subscriptions import GroupTable
from .timer_metrics import TIMER_METRICS_FILE, TimerMetrics
from .topics import TopicTable


def saved_states(
    directory: Path,
    topics: TopicTable,
    groups: GroupTable,
    offsets: ConsumerOffsets,
    modes: RequestModes,
    delay_offsets: DelayOffsets,
    timer_metrics: TimerMetrics,
    orders: ConsumerOrders,
    auth: AuthMetadata,
    queue_mappings: QueueMappings,
    *,
    durable_offsets: DurableOffsets,
    offsets_file: str,
) -> SavedStates:
    """The tables that are kept in files."""
    return SavedStates(
        SavedState(directory / "topics.json", topics.snapshot, lambda: topics.version, topics.texts.pretty),
        SavedState(directory / "subscriptionGroup.json", groups.snapshot, lambda: groups.version, groups.texts.pretty),
        SavedState(directory / offsets_file, durable_offsets.snapshot, lambda: offsets.change_count, durable_offsets.text),
        SavedState(directory / "messageRequestMode.json", modes.to_json, lambda: modes.change_count),
        SavedState(directory / DELAY_OFFSETS_FILE, delay_offsets.snapshot, delay_offsets.state, delay_offsets.durable_text),
        SavedState(directory / TIMER_METRICS_FILE, timer_metrics.to_json, timer_metrics.version, timer_metrics.text),
        SavedState(directory / ORDERS_FILE, orders.snapshot, orders.version),
        SavedState(directory / AUTH_FILE, auth.snapshot, lambda: auth.change_count, SavedAuth.text, is_private=True),
        SavedState(directory / QUEUE_MAPPINGS_FILE, queue_mappings.to_json, lambda: queue_mappings.version),
    )
