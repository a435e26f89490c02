"""The topics as JSON, for config/topics.json, for slaves and for name servers. With thousands of topics, nearly the whole cost of a change
is making the text, so the text of each topic is kept until the topic changes.

Threads  any: two at once make the same text twice at worst.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ..remoting.bodies import DataVersion, TopicConfig
from ..remoting.json_codec import write_fastjson

_NO_VERSION: Final = '{"counter":0,"stateVersion":0,"timestamp":0}'


@dataclass(frozen=True, slots=True)
class TopicsOfAMoment:
    """Configurations are never altered, a changed topic has another one."""

    version: DataVersion
    configs: tuple[TopicConfig, ...]


class TopicTexts:
    """One a table."""

    def __init__(self) -> None:
        self._texts: dict[str, tuple[TopicConfig, str]] = {}

    def pretty(self, topics: TopicsOfAMoment) -> str:
        """As RocketMQ writes topics.json."""
        version = _pretty(topics.version.to_json()).replace("\n", "\n\t")
        texts = self._texts = self._texts_of(_by_name(topics.configs))
        return f'{{\n\t"dataVersion":{version},\n\t"topicConfigTable":{_table(texts)}\n}}'

    def compact(self, topics: TopicsOfAMoment, mappings: str = "{}", mappings_version: str = _NO_VERSION) -> bytes:
        """The body of GET_ALL_TOPIC_CONFIG, of all topics or a piece of them; mappings: of the static ones, by their names."""
        version = write_fastjson(topics.version.to_json()).decode()
        table = self.table(_by_name(topics.configs))
        return (
            f'{{"dataVersion":{version},"mappingDataVersion":{mappings_version},"topicConfigTable":{table},'
            f'"topicQueueMappingDetailMap":{mappings},"topicQueueMappingInfoMap":{{}}}}'
        ).encode()

    def table(self, configs: Iterable[TopicConfig]) -> str:
        """Topics by their names, in one line and in the order given."""
        texts = self._texts_of(configs)
        self._texts = self._texts | texts
        return _table(texts).replace("\n", "").replace("\t", "")  # neither stands inside of a JSON text as it is

    def _texts_of(self, configs: Iterable[TopicConfig]) -> dict[str, tuple[TopicConfig, str]]:
        before, texts = self._texts, {}
        for config in configs:
            known = before.get(config.topic_name)
            texts[config.topic_name] = known if known is not None and known[0] is config else (config, _member(config))
        return texts


def _by_name(configs: Iterable[TopicConfig]) -> list[TopicConfig]:
    return sorted(configs, key=lambda config: config.topic_name)


def _table(texts: Mapping[str, tuple[TopicConfig, str]]) -> str:
    return "{\n\t\t" + ",\n\t\t".join([text for _, text in texts.values()]) + "\n\t}" if texts else "{}"


def _member(config: TopicConfig) -> str:
    name = _pretty(config.topic_name)
    if config.attributes or config.extra:
        return f"{name}:{_pretty(config.to_json())}".replace("\n", "\n\t\t")
    return _PLAIN.format(  # nearly every topic is like this, and a start makes the texts of all
        name=name,
        order=str(config.order).lower(),
        perm=config.perm,
        reads=config.read_queue_nums,
        filter_type=_pretty(config.topic_filter_type),
        sys_flag=config.topic_sys_flag,
        writes=config.write_queue_nums,
    )


_PLAIN: Final = (
    '{name}:{{\n\t\t\t"attributes":{{}},\n\t\t\t"order":{order},\n\t\t\t"perm":{perm},\n\t\t\t"readQueueNums":{reads},'
    '\n\t\t\t"topicFilterType":{filter_type},\n\t\t\t"topicName":{name},\n\t\t\t"topicSysFlag":{sys_flag},'
    '\n\t\t\t"writeQueueNums":{writes}\n\t\t}}'
)


def _pretty(value: Any) -> str:
    return write_fastjson(value, pretty=True).decode()
