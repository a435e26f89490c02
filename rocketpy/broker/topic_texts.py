"""The topics as JSON, for config/topics.json, for slaves and for name servers. With thousands of topics, nearly the whole cost of a change
is making the text, so the text of each topic is kept until the topic changes.

Threads  any: two at once make the same text twice at worst.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from ..remoting.bodies import DataVersion, TopicConfig
from .kept_texts import KeptTexts, indented, version_text

_NO_VERSION: Final = '{"counter":0,"stateVersion":0,"timestamp":0}'


@dataclass(frozen=True, slots=True)
class TopicsOfAMoment:
    """Configurations are never altered, a changed topic has another one."""

    version: DataVersion
    configs: tuple[TopicConfig, ...]


class TopicTexts:
    """One a table."""

    def __init__(self) -> None:
        self._texts = KeptTexts[TopicConfig](lambda config: config.topic_name, _member)

    def pretty(self, topics: TopicsOfAMoment) -> str:
        """As RocketMQ writes topics.json."""
        version = indented(topics.version.to_json(), 1)
        return f'{{\n\t"dataVersion":{version},\n\t"topicConfigTable":{self._texts.of_all(topics.configs)}\n}}'

    def compact(self, topics: TopicsOfAMoment, mappings: str = "{}", mappings_version: str = _NO_VERSION) -> bytes:
        """The body of GET_ALL_TOPIC_CONFIG, of all topics or a piece of them; mappings: of the static ones, by their names."""
        table = self.table(sorted(topics.configs, key=lambda config: config.topic_name))
        return (
            f'{{"dataVersion":{version_text(topics.version)},"mappingDataVersion":{mappings_version},"topicConfigTable":{table},'
            f'"topicQueueMappingDetailMap":{mappings},"topicQueueMappingInfoMap":{{}}}}'
        ).encode()

    def table(self, configs: Iterable[TopicConfig]) -> str:
        """Topics by their names, in one line and in the order given."""
        return self._texts.of_some(configs)


def _member(config: TopicConfig) -> str:
    name = indented(config.topic_name, 0)
    if config.attributes or config.extra:
        return f"{name}:{indented(config.to_json(), 2)}"
    return _PLAIN.format(  # nearly every topic is like this, and a start makes the texts of all
        name=name,
        order=str(config.order).lower(),
        perm=config.perm,
        reads=config.read_queue_nums,
        filter_type=indented(config.topic_filter_type, 0),
        sys_flag=config.topic_sys_flag,
        writes=config.write_queue_nums,
    )


_PLAIN: Final = (
    '{name}:{{\n\t\t\t"attributes":{{}},\n\t\t\t"order":{order},\n\t\t\t"perm":{perm},\n\t\t\t"readQueueNums":{reads},'
    '\n\t\t\t"topicFilterType":{filter_type},\n\t\t\t"topicName":{name},\n\t\t\t"topicSysFlag":{sys_flag},'
    '\n\t\t\t"writeQueueNums":{writes}\n\t\t}}'
)
