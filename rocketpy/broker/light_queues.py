"""How many light queues (names.is_light) a broker may have: as many as are configured, but only as many as the kernel lets it map.
RocketMQ: HookUtils.handleLmqQuota (5.5.0 broker/util/), with enableLmqQuota; without it a broker maps files until it can take no message.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

from ..config import Config

log = logging.getLogger(__name__)

MAX_MAP_COUNT: Final = Path("/proc/sys/vm/max_map_count")
MAPS_SHARE: Final = 2
"""Light queues get one in so many of the maps that the process may have: at the limit there would be none left for the log's next file, or
for a thread's stack."""


def light_queues_max(config: Config, limit: Path = MAX_MAP_COUNT) -> int:
    """How many light queues may have messages; 0 unless both keys are set. RocketMQ with only one of the two keys counts offsets that are
    in no queue."""
    switches = config.boolean("enableLmq"), config.boolean("enableMultiDispatch")
    wanted, mapped = config.integer("maxLmqConsumeQueueNum"), _maps_for_them(limit)
    return min(wanted, mapped or wanted) if all(switches) else 0


def warn_of_light_queues(config: Config, limit: Path = MAX_MAP_COUNT) -> None:
    """Warns if there may be fewer than configured."""
    most, wanted = light_queues_max(config, limit), config.integer("maxLmqConsumeQueueNum")
    if 0 < most < wanted:
        log.warning(
            "there may be %d light queues, not the %d of maxLmqConsumeQueueNum: each is a map of this process, and half of what "
            "vm.max_map_count allows is for other files; raise it: sudo sysctl -w vm.max_map_count=%d",
            most,
            wanted,
            wanted * MAPS_SHARE,
        )


def _maps_for_them(limit: Path) -> int:
    """0: the limit cannot be read in this container."""
    try:
        return int(limit.read_text()) // MAPS_SHARE
    except (OSError, ValueError):
        return 0
