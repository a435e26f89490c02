"""What the sources decide without Spark or a broker: options, ranges, shares, messages, reports."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'rocketpy-mq[spark]'")
pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'rocketpy-mq[spark]'")

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from rocketpy._core.errors import InvalidArgument, OffsetOutOfRange
from rocketpy.spark.cluster import Queue, flatten, nest, order_addresses
from rocketpy.spark.messages import messages_of
from rocketpy.spark.options import READS, Use, parse_options
from rocketpy.spark.plan import Range, check_range, limit_offsets, resolve_offsets, split_ranges
from rocketpy.spark.queue_read import parse_tags
from rocketpy.spark.report import Report
from rocketpy.spark.writer import row_ids

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
    ],
)
def test_wrong_options_say_what_is_wrong(given_options: dict[str, str], text: str) -> None:
    with pytest.raises(InvalidArgument, match=text):
        parse_options(given_options, BATCH)


def test_offsets_may_be_written_with_at_signs() -> None:
    options = parse_options({"startingOffsets": '{"T@a@1": 7}'}, READS)
    assert options["startingOffsets"] == {"T": {"a": {"1": 7}}}


def test_offsets_are_resolved_by_name_and_by_word() -> None:
    low, high = {A: 5, B: 0}, {A: 50, B: 9}
    assert resolve_offsets("latest", [A, B], low, high, "x", -2) == high
    assert resolve_offsets({"T": {"a": {"0": -2}}}, [A, B], low, high, "x", -1) == {A: 5, B: 9}
    with pytest.raises(InvalidArgument, match="no queue"):
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
    covered = [offset for part in parts for offset in (part.begin, part.end)]
    for queue_range in ranges:
        mine = sorted((part.begin, part.end) for part in parts if part.queue == queue_range.queue)
        edges = [queue_range.begin, *(end for _, end in mine)]
        assert [begin for begin, _ in mine] == edges[: len(mine)] and (not mine or edges[-1] == queue_range.end)
    assert len(covered) == 2 * len(parts)


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=8), st.integers(1, 10**6))
def test_a_limit_is_shared_out_whole_and_never_passed(backlogs: list[int], limit: int) -> None:
    latest = {Queue("T", "a", number): size for number, size in enumerate(backlogs)}
    start = dict.fromkeys(latest, 0)
    ends = limit_offsets(start, latest, limit)
    assert sum(ends.values()) == min(limit, sum(backlogs))
    assert all(0 <= ends[queue] <= latest[queue] for queue in latest)


def test_offsets_survive_nesting_in_one_order() -> None:
    assert flatten(nest({B: 2, A: 1})) == {A: 1, B: 2}
    assert str(nest({B: 2, A: 1})) == str(nest({A: 1, B: 2}))


def test_the_wanted_replica_comes_first() -> None:
    assert order_addresses({0: "m", 1: "s", 2: "t"}, False) == ("m", "s", "t")
    assert order_addresses({0: "m", 1: "s", 2: "t"}, True) == ("s", "t", "m")


def test_tag_expressions() -> None:
    assert parse_tags("*") == () and parse_tags("a || b") == ("a", "b")
    with pytest.raises(InvalidArgument):
        parse_tags("a || ")


def test_row_ids_are_the_same_for_a_repeated_epoch_only() -> None:
    first, again, later = (row_ids(3, "query", epoch, True).of(7) for epoch in ("5", "5", "6"))
    assert first == again != later and len(first) == 32
    assert row_ids(3, None, None, True).of(7) != row_ids(3, None, None, True).of(7)


def test_a_row_becomes_a_message_with_its_properties() -> None:
    batch = pa.record_batch(
        {"body": ["text"], "tags": ["red"], "properties": ['{"n": 1, "UNIQ_KEY": "old"}'], "delayLevel": pa.array([3], pa.int32())}
    )
    message = next(messages_of(batch, "T", 0))
    assert message.properties == {"n": "1", "TAGS": "red", "DELAY": "3"} and message.is_alone and message.body == b"text"


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ({"body": [None]}, "row 40: body is null"),
        ({"body": ["x"], "properties": ["[1]"]}, "row 40: properties are no JSON object"),
        ({"body": ["x"], "keys": ["a\x01b"]}, "separator byte"),
        ({"body": ["x"], "delayLevel": [1], "deliverTimeMs": [1]}, "exclude each other"),
    ],
)
def test_a_row_that_is_no_message_is_named(columns: dict[str, list[object]], text: str) -> None:
    with pytest.raises(InvalidArgument, match=text):
        list(messages_of(pa.record_batch({name: pa.array(values) for name, values in columns.items()}), "T", 40))


def test_a_report_escapes_what_it_shows(tmp_path: Path) -> None:
    report = Report("<Title>")
    report.table("t", ["a"], [("<script>",)])
    report.bars("b", [("<x>", 3.0)])
    report.lines("l", {"<y>": [(0, 1), (1, 2)]})
    text = report.write(tmp_path / "r.html").read_text()
    assert "<script>" not in text and "<x>" not in text and text.count("<svg") == 2
