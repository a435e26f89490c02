"""The settings that a client is given: its own, completed by what the proxy and the configuration of its group say.
RocketMQ: GrpcClientSettingsManager.mergeProducerData, mergeSubscriptionData (5.3.3 proxy/grpc/v2/common/).
"""

from __future__ import annotations

from typing import Any

from . import schema
from .group_config import GroupConfig
from .settings import ProxySettings


def for_producer(given: Any, settings: ProxySettings) -> Any:
    merged = _copy(given)
    merged.backoff_policy.max_attempts = settings.grpc_client_producer_max_attempts
    _set_exponential(
        merged.backoff_policy,
        settings.grpc_client_producer_backoff_initial_millis,
        settings.grpc_client_producer_backoff_max_millis,
        settings.grpc_client_producer_backoff_multiplier,
    )
    merged.publishing.validate_message_type = settings.enable_topic_message_type_check
    merged.publishing.max_body_size = settings.max_message_size
    return merged


def for_consumer(given: Any, settings: ProxySettings, group: GroupConfig) -> Any:
    merged = _copy(given)
    subscription = merged.subscription
    subscription.receive_batch_size = settings.grpc_client_consumer_long_polling_batch_size
    subscription.long_polling_timeout.FromMilliseconds(settings.grpc_client_consumer_max_long_polling_timeout_millis)
    subscription.fifo = group.orderly
    subscription.lite_subscription_quota = group.lite_quota
    subscription.max_lite_topic_size = settings.max_lite_topic_size
    policy = merged.backoff_policy
    policy.max_attempts = group.retries + 1
    if group.exponential is not None:
        _set_exponential(policy, *group.exponential)
    else:
        del policy.customized_backoff.next[:]
        for each_ms in group.next_ms:
            policy.customized_backoff.next.add().FromMilliseconds(each_ms)
    return merged


def _copy(given: Any) -> Any:
    merged = schema.message("Settings")()
    merged.CopyFrom(given)
    merged.metric.on = False
    return merged


def _set_exponential(policy: Any, first_ms: int, longest_ms: int, factor: float) -> None:
    policy.exponential_backoff.initial.FromMilliseconds(first_ms)
    policy.exponential_backoff.max.FromMilliseconds(longest_ms)
    policy.exponential_backoff.multiplier = factor
