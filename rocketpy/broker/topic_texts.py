"""The topics as JSON, for config/topics.json and for slaves. With thousands of topics, nearly the whole cost of a change is making the
text, so the text of each topic is kept until the topic changes.

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
        texts = self._texts = self._texts_of(topics.configs)
        return f'{{\n\t"dataVersion":{version},\n\t"topicConfigTable":{_table(texts)}\n}}'

    def compact(self, topics: TopicsOfAMoment, mappings: str = "{}", mappings_version: str = _NO_VERSION) -> bytes:
        """The body of GET_ALL_TOPIC_CONFIG, of all topics or a piece of them; mappings: of the static ones, by their names."""
        version = write_fastjson(topics.version.to_json()).decode()
        texts = self._texts_of(topics.configs)
        self._texts = self._texts | texts
        table = _table(texts).replace("\n", "").replace("\t", "")  # neither stands inside of a JSON text as it is
        return (
            f'{{"dataVersion":{version},"mappingDataVersion":{mappings_version},"topicConfigTable":{table},'
            f'"topicQueueMappingDetailMap":{mappings},"topicQueueMappingInfoMap":{{}}}}'
        ).encode()

    def _texts_of(self, configs: Iterable[TopicConfig]) -> dict[str, tuple[TopicConfig, str]]:
        before, texts = self._texts, {}
        for config in sorted(configs, key=lambda config: config.topic_name):
            known = before.get(config.topic_name)
            texts[config.topic_name] = known if known is not None and known[0] is config else (config, _member(config))
        return texts


def _table(texts: Mapping[str, tuple[TopicConfig, str]]) -> str:
    return "{\n\t\t" + ",\n\t\t".join([text for _, text in texts.values()]) + "\n\t}" if texts else "{}"


def _member(config: TopicConfig) -> str:
    return f"{_pretty(config.topic_name)}:{_pretty(config.to_json())}".replace("\n", "\n\t\t")


def _pretty(value: Any) -> str:
    return write_fastjson(value, pretty=True).decode()
