"""Why an operator's group is refused. RocketMQ: SubscriptionGroupConfig, GroupRetryPolicy, SimpleSubscriptionData (5.5.0 remoting/).

RocketMQ's brokers, slaves and tools read the table of groups as a whole: one member of an unexpected type, and they cannot read any group.
So a group that they could not read is refused. What a file or a master already has stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import names
from .json_members import fits_32_bits
from .subscriptions import GroupConfig
from .topics import QUEUES_MAX

_EXPONENTIAL = ("initial", "max", "multiplier")
_SUBSCRIPTION_TEXTS = ("topic", "expressionType", "expression")


def group_config_fault(config: GroupConfig) -> str | None:
    """Why the numbers of a group's configuration are refused; None if they are not."""
    if (fault := names.group_fault(config.group)) is not None:
        return fault
    if not 0 <= config.retry_queues <= QUEUES_MAX:
        return f"retryQueueNums = {config.retry_queues} is not in 0..{QUEUES_MAX}"
    numbers = {
        "retryMaxTimes": config.retry_times_max,
        "groupSysFlag": config.system_flag,
        "consumeTimeoutMinute": config.consume_timeout_minutes,
    }
    for name, number in numbers.items():
        if not fits_32_bits(number):
            return f"{name} = {number} is not a number of 32 bits"
    if not _is_retry_policy(config.retry_policy):
        return 'groupRetryPolicy is not such as {"type":"CUSTOMIZED","customizedRetryPolicy":{"next":[1000,5000]}}'
    if not _are_subscriptions(config.extra.get("subscriptionDataSet")):
        return "subscriptionDataSet is not a list of objects with topic, expressionType, expression and version"
    return None


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -(1 << 63) <= value < 1 << 63


def _is_retry_policy(policy: Mapping[str, Any]) -> bool:
    exponential, customized = policy.get("exponentialRetryPolicy"), policy.get("customizedRetryPolicy")
    return (
        isinstance(policy.get("type"), (str, type(None)))
        and (
            exponential is None or (isinstance(exponential, Mapping) and all(_is_whole(exponential.get(name, 0)) for name in _EXPONENTIAL))
        )
        and (customized is None or (isinstance(customized, Mapping) and _are_whole(customized.get("next"))))
    )


def _are_whole(values: Any) -> bool:
    return values is None or (isinstance(values, list) and all(map(_is_whole, values)))


def _are_subscriptions(values: Any) -> bool:
    return values is None or (isinstance(values, list) and all(map(_is_subscription, values)))


def _is_subscription(value: Any) -> bool:
    return (
        isinstance(value, Mapping)
        and all(isinstance(value.get(name), (str, type(None))) for name in _SUBSCRIPTION_TEXTS)
        and _is_whole(value.get("version", 0))
    )
