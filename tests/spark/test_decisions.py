"""What the sources decide without Spark or a broker: options, ranges, shares, messages, reports."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'pyspark>=4.2' 'pyarrow>=18'")
pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'pyspark>=4.2' 'pyarrow>=18'")

import lz4.frame
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import DataSource, GreaterThanOrEqual, In, LessThanOrEqual
from pyspark.sql.types import StringType, StructField, StructType

from rocketpy._core.errors import InvalidArgument, OffsetOutOfRange
from rocketpy.spark.cluster import Cluster, Endpoint, Queue, flatten, nest, order_addresses
from rocketpy.spark.columns import record_schema
from rocketpy.spark.options import READS, Use, parse_options, refuse_contradictions
from rocketpy.spark.plan import Range, check_range, limit_bytes, limit_offsets, resolve_offsets, share_out, split_ranges
from rocketpy.spark.positions import first_not_before
from rocketpy.spark.queue_read import parse_tags
from rocketpy.spark.report import Report
from rocketpy.spark.rows import decompress_bodies, decompress_body
from rocketpy.spark.source import RocketMQDataSource
from rocketpy.spark.store_source import RocketMQStoreDataSource
from rocketpy.spark.table import FilteredTableReader, Pushed
from rocketpy.spark.writer import BatchTopicWriter, StreamTopicWriter, row_ids


def zstd_compress(data: bytes) -> bytes:
    import pyarrow as pa

    return bytes(pa.compress(data, codec="zstd", asbytes=True))


A, B = Queue("T", "a", 0), Queue("T", "a", 1)
BATCH = frozenset({Use.BATCH})


def test_names_ignore_case_and_know_their_aliases() -> None:
    options = parse_options({"NAMESRVADDR": "h:1;g:2", "subscribe": "x, y", "minpartitions": "3"}, BATCH)
    assert (options["nameServer"], options["topics"], options["minPartitions"]) == (("h:1", "g:2"), ("x", "y"), 3)


@pytest.mark.parametrize(
    ("given_options", "text"),
    [
        ({"nameservr": "h:1"}, "did you mean 'nameserver'|did you mean 'nameServer'"),
        ({"nameServer": "h:1", "namesrvAddr": "h:1"}, "are the same option"),
        ({"startingOffsets": '{"T":{"a":{"0":-3}}}'}, "-1 latest or -2 earliest"),
        ({"topicPattern": "("}, "not a regular expression"),
        ({"minPartitions": "0"}, "at least 1"),
        ({"minPartitions": "many"}, "takes a number of at least 1"),
        ({"pullBatchSize": "99999999999"}, "at most 2147483647"),
        ({"batchBytes": "3g"}, "at most 1g"),
        ({"pullTimeoutMs": "0"}, "at least 1 ms"),
        ({"timeoutMs": "99999999999999999"}, "at most 24d"),
        ({"retryTimeoutMs": "25d"}, "at most 24d"),
        ({"topic": " "}, "names nothing"),
        ({"endingOffsets": "earliest"}, "takes latest or JSON"),
        ({"endingOffsets": '{"T":{"a":{"0":-2}}}'}, "an offset or -1 latest"),
        ({"startingTimestamp": "99999999999999999999"}, "milliseconds since 1970"),
        ({"startingTimestamp": "1960-01-01"}, "milliseconds since 1970"),
        ({"startingTimestamp": "9999-12-31T23:59:59-12:00"}, "milliseconds since 1970"),
        ({"startingOffsets": '{"T": {"a": {"1": 9223372036854775808}}}'}, r"T\.a\.1: expected a queue number and an offset"),
        ({"startingOffsets": '{"T": {"a": {"99999999999": 1}}}'}, r"T\.a\.99999999999: expected a queue number"),
        ({"startingOffsets": "[" * 100_000}, "takes earliest, latest or JSON"),
    ],
)
def test_wrong_options_say_what_is_wrong(given_options: dict[str, str], text: str) -> None:
    with pytest.raises(InvalidArgument, match=text):
        parse_options(given_options, BATCH)


@pytest.mark.parametrize(
    ("given_options", "use", "text"),
    [
        ({"startingOffsets": "latest"}, Use.BATCH, "leaves nothing to read"),
        ({"startingTimestamp": "2000", "endingTimestamp": "1000"}, Use.BATCH, "lies behind endingTimestamp"),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, Use.STREAM, "is above maxOffsetsPerTrigger"),
        ({"commitOffsets": "true"}, Use.STREAM, "needs option 'consumerGroup'"),
    ],
)
def test_options_that_contradict_each_other_are_refused(given_options: dict[str, str], use: Use, text: str) -> None:
    with pytest.raises(InvalidArgument, match=text):
        refuse_contradictions(parse_options(given_options, frozenset({use})), use)


@given(st.integers(0, 4 * 10**12))
def test_a_time_is_its_own_millisecond_or_the_next_whole_one(ms: int) -> None:
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
    for late, wanted in ((0, ms), (1, ms + 1), (999, ms + 1)):
        text = (at + timedelta(microseconds=late)).isoformat()
        assert parse_options({"endingTimestamp": text}, BATCH)["endingTimestamp"] == wanted


@given(st.integers(0, 4 * 10**12))
def test_pushed_times_leave_out_no_row_of_theirs(ms: int) -> None:
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
    pushed = Pushed()
    assert not pushed.take(GreaterThanOrEqual(("storeTimestamp",), at)) and not pushed.take(LessThanOrEqual(("storeTimestamp",), at))
    first, end = pushed.stored_ms_bounds
    assert first is not None and end is not None and first <= ms < end


@pytest.mark.parametrize(
    "at", [datetime.min.replace(tzinfo=timezone(timedelta(hours=14))), datetime.max.replace(tzinfo=timezone(-timedelta(hours=12)))]
)
def test_times_at_the_ends_of_the_calendar_are_left_to_spark(at: datetime) -> None:
    pushed = Pushed()
    assert not pushed.take(GreaterThanOrEqual(("storeTimestamp",), at)) and not pushed.take(LessThanOrEqual(("storeTimestamp",), at))
    assert pushed.stored_ms_bounds == (None, None)


@pytest.mark.parametrize(
    ("tags", "expression"),
    [
        (("b", "a"), "a || b"),
        ((" a", "b"), "*"),
        (("a|b",), "*"),
        (("*", "b"), "*"),
        (("",), "*"),
        (tuple(f"tag{number:03}" for number in range(200)), "*"),
    ],
)
def test_tags_that_no_expression_can_name_are_left_to_spark(tags: tuple[str, ...], expression: str) -> None:
    reader = FilteredTableReader(parse_options({"nameServer": "h:1", "topic": "T"}, BATCH), ("tags",))
    assert list(reader.pushFilters([In(("tags",), tags)])) == [In(("tags",), tags)]
    assert reader.settings.sub_expression == expression and bool(reader.settings.rows.tags) == (expression != "*")


def test_offsets_may_be_written_with_at_signs() -> None:
    options = parse_options({"startingOffsets": '{"T@a@1": 7}'}, READS)
    assert options["startingOffsets"] == {"T": {"a": {"1": 7}}}


def test_offsets_are_resolved_by_name_and_by_word() -> None:
    low, high = {A: 5, B: 0}, {A: 50, B: 9}
    assert resolve_offsets("latest", [A, B], low, high, "x", -2) == high
    assert resolve_offsets({"T": {"a": {"0": -2}}}, [A, B], low, high, "x", -1) == {A: 5, B: 9}
    with pytest.raises(InvalidArgument, match="not a queue"):
        resolve_offsets({"T": {"b": {"0": 1}}}, [A, B], low, high, "endingOffsets", -1)


def test_ranges_outside_of_a_queue_are_refused_or_cut() -> None:
    assert check_range(A, 3, 7, 0, 9, True) == Range(A, 3, 7)
    with pytest.raises(OffsetOutOfRange, match="are gone"):
        check_range(A, 3, 7, 5, 9, True)
    assert check_range(A, 3, 12, 5, 9, False) == Range(A, 5, 9)
    assert check_range(A, 3, 7, 8, 9, False).size == 0


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**4)), max_size=6), st.integers(1, 30), st.integers(1, 5000))
def test_pieces_cover_their_ranges_without_overlap(sizes: list[tuple[int, int]], pieces: int, most: int) -> None:
    ranges = [Range(Queue("T", "a", number), begin, begin + size) for number, (begin, size) in enumerate(sizes)]
    parts = split_ranges(ranges, pieces, most)
    assert all(0 < part.size <= most for part in parts)
    for queue_range in ranges:
        mine = sorted((part.begin, part.end) for part in parts if part.queue == queue_range.queue)
        edges = [queue_range.begin, *(end for _, end in mine)]
        assert [begin for begin, _ in mine] == edges[: len(mine)] and (not mine or edges[-1] == queue_range.end)


@pytest.mark.parametrize(
    ("ends", "size", "count"),
    [((100, 200, 211), 50, 4), ((100,), 100, 1), ((100, 130), 100, 2), ((10,), 100, 1), ((), 100, 1), ((7, 7), 1, 7)],
)
def test_a_log_is_dealt_out_evenly_and_whole(ends: tuple[int, ...], size: int, count: int) -> None:
    stretches = list(pairwise((0, *ends)))
    parts = share_out(stretches, size)
    sizes = [sum(end - begin for begin, end in part) for part in parts]
    assert max(sizes) - min(sizes) <= 1 and len(parts) == count
    whole = [at for part in parts for begin, end in part for at in range(begin, end)]
    assert whole == [at for begin, end in stretches for at in range(begin, end)]
    assert all(any(low <= begin < end <= high for low, high in stretches) for part in parts for begin, end in part)


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=8), st.integers(1, 10**6))
def test_a_limit_is_shared_out_whole_and_never_passed(backlogs: list[int], limit: int) -> None:
    latest = {Queue("T", "a", number): size for number, size in enumerate(backlogs)}
    start = dict.fromkeys(latest, 0)
    ends = limit_offsets(start, latest, limit)
    assert sum(ends.values()) == min(limit, sum(backlogs))
    assert all(0 <= ends[queue] <= latest[queue] for queue in latest)


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=8), st.integers(1, 10**9), st.floats(1, 10**6))
def test_a_limit_in_bytes_moves_something_and_passes_nothing(backlogs: list[int], limit: int, mean: float) -> None:
    latest = {Queue("T", "a", number): size for number, size in enumerate(backlogs)}
    ends = limit_bytes(dict.fromkeys(latest, 0), latest, dict.fromkeys(latest, mean), limit)
    assert all(0 <= ends[queue] <= latest[queue] for queue in latest)
    assert sum(ends.values()) * mean <= max(limit * 1.001, mean)
    assert sum(ends.values()) > 0 or sum(backlogs) == 0


@given(st.lists(st.integers(0, 30), max_size=40), st.integers(-2, 45), st.integers(-1, 31), st.integers(0, 5))
def test_the_first_message_of_a_time_is_found_whatever_the_hint(stamps: list[int], hint: int, wanted: int, low: int) -> None:
    stamps = sorted(stamps)
    low = min(low, len(stamps))
    found = first_not_before(low, len(stamps), hint, wanted, lambda offset: stamps[offset])
    assert found == next((offset for offset in range(low, len(stamps)) if stamps[offset] >= wanted), len(stamps))


def test_a_good_hint_costs_two_looks() -> None:
    looked: list[int] = []

    def stored_ms(offset: int) -> int:
        looked.append(offset)
        return offset

    assert first_not_before(0, 1_000_000, 400_000, 400_000, stored_ms) == 400_000 and looked == [400_000, 399_999]


def test_offsets_survive_nesting_in_one_order() -> None:
    assert flatten(nest({B: 2, A: 1})) == {A: 1, B: 2}
    assert str(nest({B: 2, A: 1})) == str(nest({A: 1, B: 2}))


def test_the_wanted_replica_comes_first() -> None:
    assert order_addresses({0: "m", 1: "s", 2: "t"}, False) == ("m", "s", "t")
    assert order_addresses({0: "m", 1: "s", 2: "t"}, True) == ("s", "t", "m")


def test_tag_expressions() -> None:
    assert parse_tags("*") == () and parse_tags("a || b") == ("a", "b")
    assert parse_tags("a\xa0 || \u3000") == ("a\xa0", "\u3000"), "as brokers trim"
    with pytest.raises(InvalidArgument):
        parse_tags("a || ")


def test_row_ids_are_the_same_for_a_repeated_epoch_only() -> None:
    first, again, later = (row_ids(3, "query", epoch, True).prefix for epoch in ("5", "5", "6"))
    assert first == again != later and len(first) == 24
    assert row_ids(3, None, None, True).prefix != row_ids(3, None, None, True).prefix


def test_a_partition_that_an_id_has_no_room_for_gets_ids_of_its_own() -> None:
    assert row_ids(65535, "query", "5", True).can_repeat and not row_ids(65536, "query", "5", True).can_repeat


def test_a_batch_write_gives_new_ids_in_an_epoch_too() -> None:
    options = parse_options({"nameServer": "h:1", "topic": "T"}, frozenset({Use.WRITE}))
    schema = StructType([StructField("body", StringType())])
    assert StreamTopicWriter(options, schema).settings.idempotent and not BatchTopicWriter(options, schema).settings.idempotent


@pytest.mark.parametrize("source", [RocketMQDataSource, RocketMQStoreDataSource])
def test_a_table_of_a_catalog_is_refused_because_spark_would_lose_its_options(source: type[DataSource]) -> None:
    with pytest.raises(InvalidArgument, match="CREATE TEMPORARY VIEW"):
        source({"provider": "rocketmq", "nameserver": "h:1", "option.nameserver": "h:1", "owner": "me"})
    with pytest.raises(InvalidArgument, match="a table of CREATE TABLE comes without its options"):
        source({}).reader(record_schema())


def test_a_report_escapes_what_it_shows(tmp_path: Path) -> None:
    report = Report("<Title>")
    report.table("t", ["a"], [("<script>",)])
    report.bars("b", [("<x>", 3.0)])
    report.lines("l", {"<y>": [(0, 1), (1, 2)]})
    text = report.write(tmp_path / "r.html").read_text()
    assert "<script>" not in text and "<x>" not in text and text.count("<svg") == 2


@pytest.mark.parametrize(("count", "left_out"), [(24, None), (27, "3 more bars are left out.")])
def test_a_chart_says_how_many_bars_it_leaves_out(count: int, left_out: str | None) -> None:
    report = Report("r")
    report.bars("b", [(str(number), 1.0) for number in range(count)])
    assert report.parts[0].count("<rect") == 24
    assert report.parts[1:] == ([f'<p class="note">{left_out}</p>'] if left_out else [])


def test_bodies_are_decompressed_around_rows_that_stand_for_damage() -> None:
    import pyarrow as pa

    table = pa.RecordBatch.from_pydict(
        {"sysFlag": pa.array([0, None, 1 | 3 << 8], pa.int32()), "body": [b"plain", None, zlib.compress(b"packed")]}
    )
    (whole,) = decompress_bodies(table, 1000)
    assert whole.column("body").to_pylist() == [b"plain", None, b"packed"]


@pytest.mark.parametrize(("kind", "pack"), [(0, zlib.compress), (1, lz4.frame.compress), (2, zstd_compress)])
def test_a_body_that_cannot_be_decompressed_is_named_and_one_without_end_is_not_taken(kind: int, pack: Callable[[bytes], bytes]) -> None:
    import pyarrow as pa

    flag, packed = 1 | kind << 8, pack(bytes(5000))
    assert decompress_body(packed, flag, 5000) == bytes(5000)
    with pytest.raises(InvalidArgument, match="more than 4,999 bytes"):
        decompress_body(packed, flag, 4999)
    for broken in (b"plain", packed[:-9]):
        table = pa.RecordBatch.from_pydict({"sysFlag": pa.array([0, flag], pa.int32()), "queueOffset": [7, 8], "body": [b"", broken]})
        with pytest.raises(InvalidArgument, match=r"^offset 8: a body marked as .* cannot be decompressed: .*; read with decompress=false"):
            list(decompress_bodies(table, 1000))


@pytest.mark.parametrize(("kind", "pack"), [(1, lz4.frame.compress), (2, zstd_compress)])
def test_a_small_body_is_decompressed_in_little_memory(kind: int, pack: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    """pyarrow takes as much as a read may give, before it knows how much that is."""
    import pyarrow as pa

    asked: list[int] = []

    class Packed(pa.CompressedInputStream):
        def read(self, size: int | None = None) -> bytes:
            asked.append(size or 0)
            return bytes(super().read(size))

    monkeypatch.setattr(pa, "CompressedInputStream", Packed)
    assert decompress_body(pack(bytes(5_000_000)), 1 | kind << 8) == bytes(5_000_000)
    assert 0 < max(asked) <= 1 << 20


def test_bodies_that_grow_when_they_are_decompressed_come_in_several_batches() -> None:
    import pyarrow as pa

    packed = zlib.compress(bytes(1000))
    table = pa.RecordBatch.from_pydict({"sysFlag": pa.array([1] * 10, pa.int32()), "body": [packed] * 10, "queueId": list(range(10))})
    parts = list(decompress_bodies(table, 3000))
    assert [part.num_rows for part in parts] == [3, 3, 3, 1]
    assert [number for part in parts for number in part.column("queueId").to_pylist()] == list(range(10))
    assert all(body == bytes(1000) for part in parts for body in part.column("body").to_pylist())


@pytest.mark.parametrize(
    ("pattern", "shown"),
    [
        (".*", ["orders"]),
        ("%RETRY%.*", ["%RETRY%G"]),
        ("RMQ_SYS_.*", ["RMQ_SYS_TRACE_TOPIC"]),
        ("rmq_sys_.*", ["rmq_sys_wheel_timer"]),
        ("TBW102", ["TBW102"]),
        ("broker-a", ["broker-a"]),
    ],
)
def test_topics_of_the_system_are_matched_only_by_a_pattern_that_begins_like_them(
    pattern: str, shown: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster(Endpoint(("127.0.0.1:9876",)))
    known = ["orders", "%RETRY%G", "RMQ_SYS_TRACE_TOPIC", "rmq_sys_wheel_timer", "TBW102", "broker-a"]
    monkeypatch.setattr(cluster, "topics", lambda: known)
    monkeypatch.setattr(cluster, "_topics_of_servers", lambda: {"broker-a"})
    assert cluster.matching_topics(pattern) == shown


def test_names_of_a_list_have_no_blanks_around_them_and_count_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from rocketpy.spark.pipelines import lag

    asked: list[tuple[list[str], list[str]]] = []

    def lag_of(cluster: None, topics: list[str], groups: list[str]) -> list[tuple[object, ...]]:
        asked.append((topics, groups))
        return []

    monkeypatch.setattr(lag, "Cluster", lambda endpoint: None)
    monkeypatch.setattr(lag, "lag_of", lag_of)
    monkeypatch.setattr(lag, "has_topic", lambda name_server, topic: False)
    words = ["-n", "h:1", "-o", str(tmp_path / "lag.html")]
    assert lag.main([*words, "-t", " a, b,a,", "-g", "g , h,g"]) == 0
    assert asked == [(["a", "b"], ["g", "h"])]
    for nothing in (["-t", " ,", "-g", "g"], ["-t", "a", "-g", ","]):
        with pytest.raises(SystemExit):
            lag.main([*words, *nothing])
