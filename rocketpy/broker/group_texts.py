"""The consumer groups as JSON, for config/subscriptionGroup.json and for slaves. The text of each is kept until it changes.

Threads  any.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from ..remoting.bodies import DataVersion
from .kept_texts import KeptTexts, in_one_line, indented, version_text


class WrittenGroup(Protocol):
    """What is written of a GroupConfig (subscriptions.py)."""

    @property
    def group(self) -> str: ...
    def to_json(self) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class GroupsOfAMoment:
    """All groups, or a piece of them, and which topics each may not read. Neither is ever altered."""

    version: DataVersion
    configs: tuple[WrittenGroup, ...]
    forbidden: Mapping[str, Mapping[str, int]]


class GroupTexts:
    """One a table."""

    def __init__(self) -> None:
        self._texts = KeptTexts[WrittenGroup](lambda config: config.group, _member)

    def pretty(self, groups: GroupsOfAMoment) -> str:
        """As RocketMQ writes subscriptionGroup.json."""
        return (
            f'{{\n\t"dataVersion":{indented(groups.version.to_json(), 1)},\n\t"forbiddenTable":{_forbidden(groups)},'
            f'\n\t"subscriptionGroupTable":{self._texts.of_all(groups.configs)}\n}}'
        )

    def compact(self, groups: GroupsOfAMoment) -> bytes:
        """The body of GET_ALL_SUBSCRIPTIONGROUP_CONFIG, in the order of `groups`."""
        forbidden, table = in_one_line(_forbidden(groups)), self._texts.of_some(groups.configs)
        version = version_text(groups.version)
        return f'{{"dataVersion":{version},"forbiddenTable":{forbidden},"subscriptionGroupTable":{table}}}'.encode()


def _forbidden(groups: GroupsOfAMoment) -> str:
    return indented({group: dict(sorted(topics.items())) for group, topics in sorted(groups.forbidden.items())}, 1)


def _member(config: WrittenGroup) -> str:
    return f"{indented(config.group, 0)}:{indented(config.to_json(), 2)}"
