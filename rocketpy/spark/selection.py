"""What the options of format("rocketmq") mean to whoever reads or writes topics: which cluster, which topics, how a task reads them."""

from __future__ import annotations

import re
from typing import Any

from .._core.errors import InvalidArgument, NotFound
from ..broker.names import java_trim
from .cluster import Cluster, Endpoint, Queue
from .options import AS_VIEW
from .plan import QueuePartition, Range
from .queue_read import READER_GROUP, ReadSettings, check_sql_expression, parse_tags
from .rows import row_settings_of

SQL92 = "SQL92"


def endpoint_of(options: dict[str, Any]) -> Endpoint:
    if options["nameServer"] is None:
        raise InvalidArgument("option 'nameServer' is required: HOST:PORT of a name server")
    return Endpoint(
        options["nameServer"], options["timeoutMs"] / 1000, options["retryTimeoutMs"] / 1000, options.get("readFrom") == "slave"
    )


def settings_of(options: dict[str, Any], columns: tuple[str, ...]) -> ReadSettings:
    expression, is_sql = java_trim(options["subExpression"]), options["filterType"] == SQL92
    if is_sql and expression in ("", "*"):
        raise InvalidArgument("filterType SQL92 takes an expression: give subExpression")
    if is_sql:
        check_sql_expression(expression)
    return ReadSettings(
        endpoint=endpoint_of(options),
        rows=row_settings_of(options, columns, () if is_sql else parse_tags(expression)),
        group=options["consumerGroup"] or READER_GROUP,
        sub_expression=expression or "*",
        is_sql=is_sql,
        fail_on_data_loss=options["failOnDataLoss"],
        pull_batch=options["pullBatchSize"],
        pull_timeout_s=options["pullTimeoutMs"] / 1000,
        check_crc=options["checkCrc"],
    )


def place(cluster: Cluster, parts: list[Range]) -> list[QueuePartition]:
    """The tasks that read these ranges, each with the present address of its broker."""
    addresses = cluster.addresses_of(part.queue for part in parts)
    return [QueuePartition(part, addresses[part.queue]) for part in parts]


class TopicSelection:
    """Which topics: topic, topics or topicPattern."""

    def __init__(self, options: dict[str, Any]) -> None:
        given = [name for name in ("topic", "topics", "topicPattern") if options[name] is not None]
        if len(given) != 1:
            hint = "" if given or options["nameServer"] else f"; a table of CREATE TABLE comes without its options: {AS_VIEW}"
            raise InvalidArgument(f"give one of the options topic, topics, topicPattern{f', not {given}' if given else hint}")
        self.names: tuple[str, ...] = (options["topic"],) if options["topic"] else options["topics"] or ()
        self.pattern: str | None = options["topicPattern"]

    def queues(self, cluster: Cluster) -> list[Queue]:
        """The queues to read. With a pattern, those of all matching topics that may be read. Raises NotFound if there are none, unless
        cluster.topics_exist."""
        if self.pattern is None:
            return cluster.queues(self.names)
        found = cluster.queues(cluster.matching_topics(self.pattern), readable_only=True)
        if not found and not cluster.topics_exist:
            raise NotFound(f"no topic matches topicPattern {self.pattern!r}")
        return found

    def names_topic(self, topic: str) -> bool:
        return topic in self.names if self.pattern is None else re.fullmatch(self.pattern, topic) is not None
