"""Whether a group pulls or pops a topic, set by an operator, and how the broker divides a topic's queues among a group's clients.
RocketMQ: MessageRequestModeManager, QueryAssignmentProcessor, AllocateMessageQueueAveragely, …ByCircle (5.3.3 broker/, common/).
File config/messageRequestMode.json, request GET_ALL_MESSAGE_REQUEST_MODE. Decisions only.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .json_members import integer_member, object_member, text_member
from .names import RETRY_PREFIX
from .rebalance_locks import MessageQueue

log = logging.getLogger(__name__)

PULL = "PULL"
POP = "POP"


@dataclass(frozen=True, slots=True)
class RequestMode:
    """How one group reads one topic. pop_share: how many neighbours share a client's queues; 0 or less means all."""

    topic: str
    group: str
    mode: str = PULL
    pop_share: int = 0

    def to_json(self) -> dict[str, Any]:
        return {"consumerGroup": self.group, "mode": self.mode, "popShareQueueNum": self.pop_share, "topic": self.topic}

    @staticmethod
    def from_json(value: Any) -> RequestMode:
        """Raises ValueError."""
        if not isinstance(value, Mapping):
            raise ValueError(f"request mode is {type(value).__name__}, expected an object")
        mode = RequestMode(
            topic=text_member(value, "topic", None, "request mode"),
            group=text_member(value, "consumerGroup", None, "request mode"),
            mode=text_member(value, "mode", PULL, "request mode"),
            pop_share=integer_member(value, "popShareQueueNum", 0, "request mode"),
        )
        if mode.mode not in (PULL, POP):
            raise ValueError(f"request mode: mode is {mode.mode!r}, expected PULL or POP")
        return mode


ModeTable = Mapping[str, Mapping[str, RequestMode]]
"""Topic → group → mode."""


class RequestModes:
    """The modes that operators have set. Every other pair of group and topic has the broker's default."""

    def __init__(self, default_mode: str = PULL, default_pop_share: int = -1) -> None:
        self._default_mode = default_mode
        self._default_pop_share = default_pop_share
        self._modes: dict[str, dict[str, RequestMode]] = {}
        self.change_count = 0

    def __iter__(self) -> Iterator[RequestMode]:
        return (mode for groups in self._modes.values() for mode in groups.values())

    def set(self, mode: RequestMode) -> None:
        self._modes.setdefault(mode.topic, {})[mode.group] = mode
        self.change_count += 1

    def get(self, topic: str, group: str) -> RequestMode:
        known = self._modes.get(topic, {}).get(group)
        if known is not None:
            return known
        mode = PULL if topic.startswith(RETRY_PREFIX) else self._default_mode
        return RequestMode(topic, group, mode, self._default_pop_share if mode == POP else 0)

    def to_json(self) -> dict[str, Any]:
        """The shape of config/messageRequestMode.json."""
        return {
            "messageRequestModeMap": {
                topic: {group: mode.to_json() for group, mode in sorted(groups.items())} for topic, groups in sorted(self._modes.items())
            }
        }

    def load(self, modes: ModeTable) -> bool:
        """Takes over the table of a file or a master. True if anything changed."""
        if modes == self._modes:
            return False
        self._modes = {topic: dict(groups) for topic, groups in modes.items()}
        self.change_count += 1
        return True

    @staticmethod
    def read(value: Any) -> ModeTable:
        """A table in the shape of to_json. Raises ValueError."""
        if not isinstance(value, Mapping):
            raise ValueError(f"request modes are {type(value).__name__}, expected an object")
        modes: dict[str, dict[str, RequestMode]] = {}
        for topic, groups in object_member(value, "messageRequestModeMap", "request modes").items():
            if not isinstance(groups, Mapping):
                raise ValueError(f"request modes of {topic} are {type(groups).__name__}, expected an object")
            modes[str(topic)] = {str(group): RequestMode.from_json(mode) for group, mode in groups.items()}
        return modes


def allocate_averagely(client_id: str, queues: Sequence[MessageQueue], clients: Sequence[str]) -> list[MessageQueue]:
    """Gives each client a run of neighbouring queues, the first clients one more than the others. Empty for a client that is not in the
    group."""
    if client_id not in clients:
        return []
    index = list(clients).index(client_id)
    size, rest = divmod(len(queues), len(clients))
    begin = index * size + min(index, rest)
    return list(queues[begin : begin + size + (index < rest)])


def allocate_by_circle(client_id: str, queues: Sequence[MessageQueue], clients: Sequence[str]) -> list[MessageQueue]:
    """Gives each client every n-th queue. Empty for a client that is not in the group."""
    if client_id not in clients:
        return []
    return list(queues[list(clients).index(client_id) :: len(clients)])


Allocation = Callable[[str, Sequence[MessageQueue], Sequence[str]], list[MessageQueue]]
STRATEGIES: Mapping[str, Allocation] = {"AVG": allocate_averagely, "AVG_BY_CIRCLE": allocate_by_circle}


def allocate_for_pop(
    allocation: Allocation, client_id: str, queues: Sequence[MessageQueue], clients: Sequence[str], share: int
) -> list[MessageQueue]:
    """The queues that a client pops from: its own, and those of the `share` clients after it."""
    if client_id not in clients:
        return []
    index = list(clients).index(client_id)
    if len(clients) > len(queues):
        return [queues[index % len(queues)]]
    result: list[MessageQueue] = []
    for step in range(share + 1):
        result += allocation(clients[(index + step) % len(clients)], queues, clients)
    return result


def allocate(
    mode: RequestMode, strategy: str, client_id: str, queues: Sequence[MessageQueue], clients: Sequence[str]
) -> list[MessageQueue] | None:
    """The queues of one client of a clustering group. None, which lets the client keep what it has, if the strategy is unknown or there is
    no queue to read. Clients that pop from all queues of a broker (id -1) do not share those out."""
    allocation = STRATEGIES.get(strategy)
    if allocation is None:
        log.warning("QueryLoad: unsupported strategy [%s]", strategy)
        return None
    ordered_queues, ordered_clients = sorted(queues), sorted(clients)
    if mode.mode == POP and not 0 < mode.pop_share < len(clients) - 1:
        return list(dict.fromkeys(MessageQueue(queue.topic, queue.broker_name, -1) for queue in ordered_queues))
    if not queues:
        log.warning("QueryLoad: no assignment for group[%s] topic[%s], it has no readable queue", mode.group, mode.topic)
        return None
    if mode.mode == POP:
        return allocate_for_pop(allocation, client_id, ordered_queues, ordered_clients, mode.pop_share)
    return allocation(client_id, ordered_queues, ordered_clients)
