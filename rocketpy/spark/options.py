"""The options of the Spark sources: one table, from which parsing, error texts and the tables of docs/spark.md are made.

Names are those of the rocketmq-spark connector first, then Spark's Kafka source where the meaning is the same; `rocketmq.client.NAME` is
what the Java client calls a setting. As everywhere in Spark, case does not matter. An unknown option is an error that names the nearest
known one.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from .._core.errors import InvalidArgument
from .cluster import name_server_addresses


class Use(StrEnum):
    """What an option belongs to."""

    BATCH = "batch"
    STREAM = "stream"
    WRITE = "write"
    STORE = "store"


READS = frozenset({Use.BATCH, Use.STREAM})
WIRE = READS | {Use.WRITE}
ALL = WIRE | {Use.STORE}


def _boolean(text: str) -> bool:
    lowered = text.strip().lower()
    if lowered in ("true", "1", "yes"):
        return True
    if lowered in ("false", "0", "no"):
        return False
    raise ValueError("takes true or false")


NUMBER_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
TIME_MAX_MS = 253_402_300_799_999  # the end of the year 9999


def _positive(text: str) -> int:
    if re.fullmatch(r"\s*[0-9]+\s*", text) is None or not 1 <= int(text) <= NUMBER_MAX:
        raise ValueError(f"takes a number of at least 1, at most {NUMBER_MAX}")
    return int(text)


def _name(text: str) -> str:
    if not text.strip():
        raise ValueError("names nothing")
    return text.strip()


def _names(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not names:
        raise ValueError("names nothing")
    return names


def _addresses(text: str) -> tuple[str, ...]:
    addresses = name_server_addresses(text)
    for address in addresses:
        host, _, port = address.rpartition(":")
        if not host or not port.isascii() or not port.isdigit():
            raise ValueError(f"{address!r} is not HOST:PORT")
    if not addresses:
        raise ValueError("names no address")
    return addresses


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def whole_ms(at: datetime) -> int:
    """The first millisecond that is not before a time (local when it has no zone): brokers count in whole ones.
    Raises OverflowError or ValueError for one that is outside of the years 1 to 9999 in UTC."""
    return -((EPOCH - at.astimezone(UTC)) // timedelta(milliseconds=1))


def _timestamp_ms(text: str) -> int:
    """Milliseconds since 1970, or an ISO 8601 time (local when it has no zone)."""
    stripped = text.strip()
    outside = f"takes milliseconds since 1970, 0 to {TIME_MAX_MS}, or an ISO 8601 time between them"
    try:
        value = int(stripped) if re.fullmatch(r"-?[0-9]{1,20}", stripped) else whole_ms(datetime.fromisoformat(stripped))
    except OverflowError:  # a zone that leads out of the years 1 to 9999
        raise ValueError(outside) from None
    if not 0 <= value <= TIME_MAX_MS:
        raise ValueError(outside)
    return value


_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


DURATION_MAX_MS = NUMBER_MAX  # 24 days: what goes into a poll


def _duration_ms(text: str) -> int:
    found = re.fullmatch(r"(\d+)\s*(ms|s|m|h|d)?", text.strip())
    if found is None:
        raise ValueError("takes a duration such as 500ms, 30s, 15m")
    value = int(found[1]) * _UNITS_MS[found[2] or "ms"]
    if value > DURATION_MAX_MS:
        raise ValueError("takes at most 24d")
    return value


def _limit_ms(text: str) -> int:
    if (value := _duration_ms(text)) < 1:
        raise ValueError("takes a duration of at least 1 ms")
    return value


def _bytes(text: str) -> int:
    found = re.fullmatch(r"(\d+)\s*([kmg]?)b?", text.strip().lower())
    if found is None or int(found[1]) < 1:
        raise ValueError("takes a number of bytes such as 1000000, 64m, 1g")
    return int(found[1]) << {"": 0, "k": 10, "m": 20, "g": 30}[found[2]]


BATCH_BYTES_MAX = 1 << 30  # a column of a batch has less than 2 GB


def _batch_bytes(text: str) -> int:
    if (value := _bytes(text)) > BATCH_BYTES_MAX:
        raise ValueError("takes at most 1g")
    return value


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"is not a regular expression: {error}") from None
    return text


QueueNumbers = dict[str, dict[str, dict[str, int]]]
Offsets = str | QueueNumbers
"""'earliest', 'latest', or topic -> broker -> queue -> offset with -2 for earliest and -1 for latest."""


def _offsets(text: str) -> Offsets:
    if text.strip().lower() in ("earliest", "latest"):
        return text.strip().lower()
    return _queue_numbers(text, -2, "earliest, latest or JSON", "an offset, -1 latest or -2 earliest")


def _ends(text: str) -> Offsets:
    if text.strip().lower() == "latest":
        return "latest"
    return _queue_numbers(text, -1, "latest or JSON", "an offset or -1 latest")


def _queue_times(text: str) -> QueueNumbers:
    return _queue_numbers(text, 0, "JSON", "a time in ms since 1970")


def _queue_numbers(text: str, least: int, wanted: str, number: str) -> QueueNumbers:
    """{"topic":{"broker":{"queue":number}}}, or {"topic@broker@queue":number}."""
    try:
        given = json.loads(text)
    except (json.JSONDecodeError, RecursionError):
        raise ValueError(f'takes {wanted} {{"topic":{{"broker":{{"queue":number}}}}}}') from None
    numbers: QueueNumbers = {}
    if not isinstance(given, dict):
        raise ValueError("is not a JSON object")
    for topic, brokers in given.items():
        if topic.count("@") == 2 and isinstance(brokers, int):
            topic, broker, queue = topic.split("@")
            brokers = {broker: {queue: given[f"{topic}@{broker}@{queue}"]}}
        if not isinstance(brokers, dict):
            raise ValueError(f"{topic}: expected an object of brokers")
        for broker, queues in brokers.items():
            if not isinstance(queues, dict):
                raise ValueError(f"{topic}.{broker}: expected an object of queues")
            for queue, value in queues.items():
                is_number = isinstance(value, int) and not isinstance(value, bool) and least <= value <= LONG_MAX
                if not re.fullmatch("[0-9]{1,9}", str(queue)) or not is_number:
                    raise ValueError(f"{topic}.{broker}.{queue}: expected a queue number and {number}")
                numbers.setdefault(topic, {}).setdefault(broker, {})[str(int(queue))] = value
    return numbers


def _choice(*values: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        lowered = {value.lower(): value for value in values}
        if text.strip().lower() not in lowered:
            raise ValueError(f"takes {' or '.join(values)}")
        return lowered[text.strip().lower()]

    return parse


@dataclass(frozen=True, slots=True)
class Option:
    """One row: name, how its text is read, default, where it applies, what it means."""

    name: str
    parse: Callable[[str], Any]
    default: Any
    uses: frozenset[Use]
    help: str
    aliases: tuple[str, ...] = ()


OPTIONS: tuple[Option, ...] = (
    Option(
        "nameServer", _addresses, None, WIRE, "Name servers, HOST:PORT separated by ; or ,",
        ("namesrvAddr", "namesrv", "rocketmq.client.namesrvAddr"),
    ),
    Option("topic", _name, None, ALL, "One topic. For a sink it overrides the column `topic`."),
    Option("topics", _names, None, READS, "Several topics, separated by commas.", ("subscribe",)),
    Option("topicPattern", _pattern, None, READS,
           "Every readable topic whose whole name matches this regular expression; retry, dead "
           "letter and system topics when it begins as they do.", ("subscribePattern",)),
    Option(
        "startingOffsets", _offsets, None, READS, "earliest, latest (a stream) or JSON topic → broker → queue → offset; -2 earliest, -1 "
        "latest. Default: earliest for a batch, latest for a stream; a stream's new queues start at their first message.",
    ),
    Option("endingOffsets", _ends, "latest", frozenset({Use.BATCH}), "latest or the same JSON; exclusive."),
    Option(
        "startingTimestamp", _timestamp_ms, None, READS,
        "Messages stored at or after this time: ms since 1970 or ISO 8601 (local without a zone).",
    ),
    Option("endingTimestamp", _timestamp_ms, None, frozenset({Use.BATCH}), "Messages stored before this time."),
    Option(
        "startingOffsetsByTimestamp", _queue_times, None, READS,
        "JSON topic → broker → queue → ms since 1970, a time a queue.",
    ),
    Option("endingOffsetsByTimestamp", _queue_times, None, frozenset({Use.BATCH}), "The same for the end; exclusive."),
    Option(
        "startingOffsetsByTimestampStrategy", _choice("error", "latest"), "error", READS,
        "What a starting time behind a queue's last message is: an error, or its end.",
    ),
    Option("failOnDataLoss", _boolean, True, READS | {Use.STORE},
           "Whether what the broker no longer has, offsets or files, ends the query; else it is skipped."),
    Option("minPartitions", _positive, None, READS, "Large queues are split until there are this many partitions."),
    Option("maxRecordsPerPartition", _positive, None, READS, "A partition holds at most this many offsets."),
    Option("maxOffsetsPerTrigger", _positive, None, frozenset({Use.STREAM}), "Offsets per micro-batch, shared among queues by backlog."),
    Option(
        "maxBytesPerTrigger", _bytes, None, frozenset({Use.STREAM}),
        "Bytes per micro-batch, about: reckoned from each queue's next messages. Takes 64m, 1g.",
    ),
    Option("minOffsetsPerTrigger", _positive, None, frozenset({Use.STREAM}), "A micro-batch waits for this many new offsets…"),
    Option("maxTriggerDelay", _duration_ms, 900_000, frozenset({Use.STREAM}), "…but not longer than this."),
    Option(
        "consumerGroup", _name, None, READS, "Group whose committed offsets are the start without startingOffsets.",
        ("group", "rocketmq.client.consumerGroup"),
    ),
    Option("commitOffsets", _boolean, False, frozenset({Use.STREAM}), "Commit each batch's end to consumerGroup: lag shows in mqadmin."),
    Option("subExpression", str, "*", READS, "What is read, in the language of filterType: `red || blue`; the broker filters."),
    Option(
        "filterPushdown", _boolean, False, frozenset({Use.BATCH}),
        "Filters of the query on topic, queueId, queueOffset, storeTimestamp and tags decide what is read; needs "
        "spark.sql.python.filterPushdown.enabled. For a table loaded for one query: Spark takes the last filter's plan for others too.",
    ),
    Option(
        "filterType", _choice("TAG", "SQL92"), "TAG", READS,
        "Language of subExpression: tags, or SQL92 over properties (brokers with enablePropertyFilter=true).",
    ),
    Option(
        "readFrom", _choice("master", "slave"), "master", READS,
        "Which replica is read; the other one when it does not answer, or is behind.",
    ),
    Option(
        "pullBatchSize", _positive, 1024, READS, "Messages asked for per pull; the broker's own limit also holds.",
        ("rocketmq.client.pullBatchSize",),
    ),
    Option(
        "pullTimeoutMs", _limit_ms, 30_000, READS, "How long a broker may say nothing while it is read.",
        ("rocketmq.client.consumerPullTimeoutMillis",),
    ),
    Option("batchRows", _positive, 10_000, READS | {Use.STORE}, "Rows of an Arrow batch."),
    Option("batchBytes", _batch_bytes, 16 << 20, READS | {Use.STORE}, "Message bytes of an Arrow batch, at most 1g. Takes 64m."),
    Option("propertiesAsMap", _boolean, False, READS | {Use.STORE}, "properties as map<string,string> instead of a JSON text."),
    Option("decompress", _boolean, True, READS | {Use.STORE}, "Bodies compressed by a client (ZLIB, LZ4, ZSTD) are given plain."),
    Option("checkCrc", _boolean, False, READS, "Verify the CRC of every body that is read from a broker."),
    Option(
        "timeoutMs", _limit_ms, 3000, WIRE, "Time limit of one request.",
        ("requestTimeoutMs", "rocketmq.client.mqClientApiTimeout", "rocketmq.client.sendMsgTimeout"),
    ),
    Option(
        "retryTimeoutMs", _duration_ms, 30_000, WIRE,
        "How long a broker or name server that does not answer, or is behind, is tried again.",
    ),
    Option(
        "producerGroup", _name, "spark-rocketmq-sink", frozenset({Use.WRITE}), "Producer group of a sink.",
        ("rocketmq.client.producerGroup",),
    ),
    Option("batchSize", _positive, 256, frozenset({Use.WRITE}), "Messages per send-batch request."),
    Option("maxInFlight", _positive, 4, frozenset({Use.WRITE}), "Send requests under way per task."),
    Option(
        "idempotent", _boolean, True, frozenset({Use.WRITE}),
        "A streaming sink gives rows the message id of (query, epoch, partition, row) and skips what a replayed epoch has stored.",
    ),
    Option("checkpointLocation", str, None, frozenset({Use.WRITE, Use.STREAM}), "Spark's own."),
    Option("storePath", _name, None, frozenset({Use.STORE}), "The broker's storePathRootDir.", ("path",)),
    Option("commitLogPath", _name, None, frozenset({Use.STORE}), "storePathCommitLog when it is elsewhere."),
    Option("table", _choice("commitlog", "consumequeue", "index"), "commitlog", frozenset({Use.STORE}), "What is read."),
    Option("brokerName", str, "", frozenset({Use.STORE}), "What the column brokerName shows."),
    Option("audit", _boolean, False, frozenset({Use.STORE}), "Adds `valid` and `damage`; damage becomes rows instead of an error."),
    Option("splitBytes", _bytes, 512 << 20, frozenset({Use.STORE}), "Bytes of the log per partition, about; all have the same. Takes 64m."),
)  # fmt: skip

_BY_NAME = {name.lower(): option for option in OPTIONS for name in (option.name, *option.aliases)}


# What Spark's Kafka source calls it.
KAFKA_NAMES = {"kafka.bootstrap.servers": "nameServer", "kafka.group.id": "consumerGroup", "includeheaders": "propertiesAsMap"}


def _nearest(name: str, uses: frozenset[Use]) -> str:
    if name.lower() in KAFKA_NAMES:
        return f"; it is {KAFKA_NAMES[name.lower()]!r} here"
    known = {other.lower(): other for option in OPTIONS if option.uses & uses for other in (option.name, *option.aliases)}
    close = difflib.get_close_matches(name.lower(), list(known), 1, 0.5)
    return f"; did you mean {known[close[0]]!r}?" if close else f"; there are: {', '.join(sorted(known.values()))}"


def parse_options(given: Mapping[str, str], uses: frozenset[Use]) -> dict[str, Any]:
    """Every option of these uses by its name, given or default. Raises InvalidArgument for an unknown name or a bad value."""
    values = {option.name: option.default for option in OPTIONS if option.uses & uses}
    seen: dict[str, str] = {}
    for name, text in given.items():
        option = _BY_NAME.get(name.lower())
        if option is None or not option.uses & uses:
            where = "" if option is None else f" for {' and '.join(sorted(uses))} (it belongs to {', '.join(sorted(option.uses))})"
            raise InvalidArgument(f"there is no option {name!r}{where}{_nearest(name, uses)}")
        if option.name in seen:
            raise InvalidArgument(f"{seen[option.name]!r} and {name!r} are the same option; give one")
        seen[option.name] = name
        try:
            values[option.name] = option.parse(str(text))
        except ValueError as error:
            raise InvalidArgument(f"option {name}={text!r}: {error}") from None
    return values


CATALOG_MARK = "provider"
"""What Spark's catalog adds to the options of CREATE TABLE."""
AS_VIEW = "CREATE TEMPORARY VIEW name USING format OPTIONS (…) makes a table of the session"


def options_of(given: Mapping[str, str]) -> dict[str, str]:
    """Raises InvalidArgument for a table of a catalog: Spark (4.3 too) keeps its options and does not hand them to a Python source."""
    if CATALOG_MARK in given:
        raise InvalidArgument(f"Spark gives a Python source none of the options of CREATE TABLE when it is read; {AS_VIEW}")
    return {name: given[name] for name in given}


def is_refused(name: str, use: Use) -> bool:
    """Whether an option is known and means nothing for this use."""
    option = _BY_NAME.get(name.lower())
    return option is not None and use not in option.uses


def refuse_contradictions(options: Mapping[str, Any], use: Use) -> None:
    """Raises InvalidArgument for options that leave nothing to read, or cannot hold together. Spark's Kafka source refuses the same."""
    if use is Use.BATCH:
        if options["startingOffsets"] == "latest":
            raise InvalidArgument("startingOffsets=latest leaves nothing to read for a batch query; it is for streams")
        first_ms, end_ms = options["startingTimestamp"], options["endingTimestamp"]
        if first_ms is not None and end_ms is not None and first_ms > end_ms:
            raise InvalidArgument(f"startingTimestamp {first_ms} lies behind endingTimestamp {end_ms}")
    if use is Use.STREAM:
        least, most = options["minOffsetsPerTrigger"], options["maxOffsetsPerTrigger"]
        if least is not None and most is not None and least > most:
            raise InvalidArgument(f"minOffsetsPerTrigger {least} is above maxOffsetsPerTrigger {most}")
        if options["commitOffsets"] and options["consumerGroup"] is None:
            raise InvalidArgument("commitOffsets needs option 'consumerGroup'")


def refuse_unused(given: Mapping[str, str], use: Use) -> None:
    """Raises InvalidArgument for a known option that means nothing here, such as endingOffsets in a stream."""
    for name in given:
        if is_refused(name, use):
            uses = _BY_NAME[name.lower()].uses
            raise InvalidArgument(f"option {name!r} is not for a {use} query; it belongs to: {', '.join(sorted(uses))}")


def markdown_table(use: Use) -> str:
    """The rows of one use, for docs/spark.md."""
    lines = ["| option | default | meaning |", "| --- | --- | --- |"]
    for option in OPTIONS:
        if use not in option.uses:
            continue
        names = ", ".join(f"`{name}`" for name in (option.name, *option.aliases))
        default = {None: "", True: "true", False: "false", "": ""}.get(option.default, str(option.default))
        meaning = option.help.replace("|", r"\|")
        lines.append(f"| {names} | {default} | {meaning} |")
    return "\n".join(lines)
