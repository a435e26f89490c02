"""What the clients of a consumer group are told about it, read from a broker's configuration of the group.
RocketMQ: SubscriptionGroupConfig, GroupRetryPolicy, CustomizedRetryPolicy, ExponentialRetryPolicy (5.5.0 remoting/).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final

LITE_QUOTA: Final = 2000
INT_MAX: Final = (1 << 31) - 1
PAUSE_MAX_MS: Final = 315_576_000_000_000
"""Ten thousand years: the longest Duration."""
_NUMBER: Final = re.compile("[+-]?[0-9]{1,19}")
POWER_MAX, FACTOR_MAX = 64, 1e4  # of the pauses: a group may be configured to anything


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """What the clients of a consumer group are told about it."""

    orderly: bool = False
    retries: int = 16
    exponential: tuple[int, int, float] | None = None
    """First pause and longest in ms, and the factor between two; None: the pauses of next_ms."""
    next_ms: tuple[int, ...] = field(
        default=tuple(1000 * s for s in (1, 5, 10, 30, *range(60, 601, 60), 1200, 1800, 3600, 7200)),
    )
    lite_bind_topic: str = ""
    """The topic whose lite topics it consumes; "": it is no lite group."""
    lite_quota: int = LITE_QUOTA
    """Lite topics that a client of it may have."""

    def pause_ms(self, times: int) -> int:
        """How long a message stays invisible after it was consumed `times` times."""
        if self.exponential is not None:
            first, longest, factor = self.exponential
            return int(min(longest, first * factor ** min(max(0, times), POWER_MAX))) if 1 <= factor <= FACTOR_MAX else first
        return self.next_ms[min(max(0, times), len(self.next_ms) - 1)]

    @classmethod
    def from_json(cls, members: dict[str, Any]) -> GroupConfig:
        """Numbers that clients cannot be told are replaced by the nearest possible ones. Raises AttributeError, OverflowError, TypeError,
        ValueError."""
        policy = members.get("groupRetryPolicy") or {}
        next_ms = tuple(_pause_ms(each) for each in (policy.get("customizedRetryPolicy") or {}).get("next") or ())
        exponential = None
        if policy.get("type") == "EXPONENTIAL":
            given = policy.get("exponentialRetryPolicy") or {}
            first_ms, longest_ms = _pause_ms(given.get("initial", 5000)), _pause_ms(given.get("max", 7_200_000))
            exponential = (first_ms, longest_ms, float(given.get("multiplier", 2)))
        attributes = members.get("attributes") or {}
        return cls(
            members.get("consumeMessageOrderly") is True,
            min(max(-1, int(members.get("retryMaxTimes", 16))), INT_MAX - 1),
            exponential,
            next_ms or cls().next_ms,
            str(attributes.get("lite.bind.topic") or ""),
            min(max(-1, int(quota)), INT_MAX) if _NUMBER.fullmatch(quota := str(attributes.get("lite.sub.client.quota"))) else LITE_QUOTA,
        )


def _pause_ms(value: Any) -> int:
    return min(max(0, int(value)), PAUSE_MAX_MS)
