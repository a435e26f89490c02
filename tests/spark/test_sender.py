"""What a task sends when an earlier try of its epoch has sent some of it already: everything once, whatever the brokers' index says."""

from __future__ import annotations

import itertools
import json
import struct
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'pyspark>=4.2' 'pyarrow>=18'")
pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'pyspark>=4.2' 'pyarrow>=18'")

from rocketpy._core.arrow import MessagePacker
from rocketpy._core.errors import NetworkError
from rocketpy._core.remoting import decode_command, encode_command
from rocketpy.remoting.codes import RequestCode, ResponseCode
from rocketpy.spark.cluster import Cluster as View
from rocketpy.spark.cluster import Endpoint
from rocketpy.spark.plan import QueuePartition, Range
from rocketpy.spark.queue_read import ReadSettings, read_queue
from rocketpy.spark.rows import RowSettings
from rocketpy.spark.sender import Connection, RowIds, Sender, SendRefused, SendSettings, Sent
from tests.interop import wire
from tests.processes import wait_until
from tests.spark.servers import Cluster, send


@pytest.fixture
def row_ids() -> RowIds:
    return RowIds(uuid.uuid4().hex[:24].upper(), True)


def write(name_server: str, topic: str, ids: RowIds, batch_size: int, **columns: Any) -> Sent:
    import pyarrow as pa

    sender = Sender(SendSettings(Endpoint((name_server,)), topic, "makers", batch_size), 0, ids)
    try:
        sender.add(pa.record_batch(columns))
        sender.flush()
    finally:
        sender.close()
    return sender.sent


def rows(cluster: Cluster, topic: str) -> Iterator[dict[str, Any]]:
    view = View(Endpoint((cluster.name_server,)))
    queues = view.queues([topic])
    settings = ReadSettings(view.endpoint, RowSettings(("body", "msgId", "tags", "keys", "properties"), properties_as_map=True), "readers")
    places, ends = view.addresses_of(queues), view.max_offsets(queues)
    for queue in queues:
        for batch in read_queue(settings, QueuePartition(Range(queue, 0, ends[queue]), places[queue])):
            yield from batch.to_pylist()


def is_indexed(broker: str, topic: str, key: str) -> bool:
    fields = {"topic": topic, "key": key, "maxNum": "1", "beginTimestamp": "0", "endTimestamp": str(2**63 - 1)}
    return bool(wire.call(broker, RequestCode.QUERY_MESSAGE, fields).code == 0)


def java_hash(text: str) -> int:
    value = 0
    for character in text:
        value = (value * 31 + ord(character)) & 0xFFFFFFFF
    return value


def key_with_the_hash_of(topic: str, wanted: str) -> str:
    """A key that brokers index under the same code: seven digits to the base 31 reach every code."""
    missing = (java_hash(f"{topic}#{wanted}") - java_hash(f"{topic}#!!!!!!!")) & 0xFFFFFFFF
    digits = []
    for _ in range(7):
        missing, digit = divmod(missing, 31)
        digits.append(chr(ord("!") + digit))
    return "".join(reversed(digits))


def test_a_row_is_sent_though_another_key_has_its_hash_code(cluster: Cluster, topic: str, row_ids: RowIds) -> None:
    row_id = f"{row_ids.prefix}00000000"
    other = key_with_the_hash_of(topic, row_id)
    cluster.send(topic, [(0, b"other", f"KEYS\x01{other}\x02")])
    wait_until(lambda: is_indexed(cluster.broker, topic, row_id), 30, "an index entry of the row's hash code")
    assert write(cluster.name_server, topic, row_ids, 256, body=["row"]).skipped == 0
    assert sorted(row["body"] for row in rows(cluster, topic)) == [b"other", b"row"]


@pytest.mark.parametrize(("first", "then"), [(100, 600), (600, 100), (250, 250)])
def test_rows_missing_from_an_earlier_try_are_sent_whatever_its_parcels_were(
    cluster: Cluster, topic: str, row_ids: RowIds, first: int, then: int
) -> None:
    numbers = [str(number) for number in range(600)]
    write(cluster.name_server, topic, row_ids, first, body=numbers[:300])
    wait_until(lambda: is_indexed(cluster.broker, topic, f"{row_ids.prefix}{299:08X}"), 30, "the index has the last row")
    assert write(cluster.name_server, topic, row_ids, then, body=numbers).skipped == 300
    found = list(rows(cluster, topic))
    assert sorted(int(row["body"]) for row in found) == list(range(600))
    assert len({row["msgId"] for row in found}) == 600


@pytest.mark.parametrize("code", [ResponseCode.SYSTEM_ERROR, ResponseCode.NO_PERMISSION])
def test_a_look_up_that_is_refused_is_no_word_that_a_row_is_missing(
    cluster: Cluster, topic: str, row_ids: RowIds, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """Rows would be written twice."""
    write(cluster.name_server, topic, row_ids, 256, body=["row"])
    wait_until(lambda: is_indexed(cluster.broker, topic, f"{row_ids.prefix}00000000"), 30, "the index has the row")
    refused = decode_command(encode_command(code, {}, opaque=1, flag=1, remark="not today"))
    monkeypatch.setattr(Sender, "_ask", lambda *_: refused)
    with pytest.raises(SendRefused, match=rf"row 0 of task 0, .*{row_ids.prefix}00000000.*CODE: {code:d} .*not today.*idempotent=false"):
        write(cluster.name_server, topic, row_ids, 256, body=["row"])
    assert [row["body"] for row in rows(cluster, topic)] == [b"row"]


def test_no_row_is_lost_when_a_second_try_has_them_in_another_order(cluster: Cluster, topic: str, row_ids: RowIds) -> None:
    numbers = [str(number) for number in range(600)]
    write(cluster.name_server, topic, row_ids, 100, body=numbers[:300])
    wait_until(lambda: is_indexed(cluster.broker, topic, f"{row_ids.prefix}{299:08X}"), 30, "the index has the last row")
    swapped = [*numbers[:110], *reversed(numbers[110:190]), *numbers[190:200], *reversed(numbers[200:])]
    sent = write(cluster.name_server, topic, row_ids, 100, body=swapped)
    assert sent.skipped == 100 + 10 + 10  # the parcel that is the same, and both ends of the one whose middle is not
    assert {int(row["body"]) for row in rows(cluster, topic)} == set(range(600))


def test_rows_under_way_are_sent_again_when_their_connection_breaks_under_the_next_request(
    cluster: Cluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = itertools.count(1)

    class Breaking(Connection):
        def send(self, *pieces: bytes | memoryview) -> None:
            if next(requests) == 3:
                self.close()
                raise NetworkError(f"the connection to {self.address} was lost")
            super().send(*pieces)

    monkeypatch.setattr("rocketpy.spark.sender.Connection", Breaking)
    sent = write(cluster.name_server, topic, RowIds(uuid.uuid4().hex[:24].upper(), False), 10, body=[str(number) for number in range(30)])
    assert sent.retries == 3 and {int(row["body"]) for row in rows(cluster, topic)} == set(range(30))


def test_rows_of_one_try_are_sent_again_though_their_look_up_is_refused(
    cluster: Cluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task that began again instead would give all its rows other ids."""
    requests, ask = itertools.count(1), Sender._ask
    refused = decode_command(encode_command(ResponseCode.NO_PERMISSION, {}, opaque=1, flag=1, remark="not today"))

    class Breaking(Connection):
        def send(self, *pieces: bytes | memoryview) -> None:
            if next(requests) == 2:
                raise NetworkError(f"the connection to {self.address} was lost")
            super().send(*pieces)

    def refuse_look_ups(sender: Sender, address: str, *frame: bytes | memoryview) -> Any:
        return refused if len(frame) == 1 else ask(sender, address, *frame)

    monkeypatch.setattr("rocketpy.spark.sender.Connection", Breaking)
    monkeypatch.setattr(Sender, "_ask", refuse_look_ups)
    write(cluster.name_server, topic, RowIds(uuid.uuid4().hex[:24].upper(), False), 10, body=[str(number) for number in range(30)])
    assert {int(row["body"]) for row in rows(cluster, topic)} == set(range(30))


def test_a_row_larger_than_a_frame_is_refused_at_once(cluster: Cluster, topic: str, row_ids: RowIds) -> None:
    with pytest.raises(SendRefused, match=r"row 0 of task 0, to .*: a message of 17,.* bytes; a broker takes frames of 16 MB"):
        write(cluster.name_server, topic, row_ids, 10, body=[bytes(17_000_000)])


@pytest.mark.parametrize("batch_size", [1, 3])
def test_rows_without_a_byte_of_body_and_with_bytes_for_a_text_are_sent(
    cluster: Cluster, topic: str, row_ids: RowIds, batch_size: int
) -> None:
    import pyarrow as pa

    tags = pa.StringArray.from_buffers(3, pa.py_buffer(struct.pack("<4i", 0, 3, 4, 5)), pa.py_buffer(b"a\xffbcd"))
    write(cluster.name_server, topic, row_ids, batch_size, body=[b"", b"", b"x"], tags=tags)
    assert sorted((row["body"], row["tags"]) for row in rows(cluster, topic)) == [(b"", "a\ufffdb"), (b"", "c"), (b"x", "d")]


def test_text_that_is_no_utf_8_is_mended_in_every_column(cluster: Cluster, topic: str) -> None:
    send(
        cluster.broker,
        topic,
        [(0, b"\xff", b"TAGS\x01re\xffd\x02KEYS\x01\xc3\xbck\xc3\x02n\xfe\x01v\xff\x02UNIQ_KEY\x01I\xed\xa0\x80\x02")],
    )
    (row,) = rows(cluster, topic)
    assert (row["body"], row["tags"], row["keys"], row["msgId"]) == (b"\xff", "re\ufffdd", "\u00fck\ufffd", "I\ufffd")
    assert dict(row["properties"])["n\ufffd"] == "v\ufffd"


@pytest.mark.parametrize("is_map", [True, False])
@pytest.mark.parametrize(
    ("names", "is_delayed"),
    [
        (["TIMER_DELAY_SEC"], True),
        (["TIMER_DELAY_MS", "a"], True),
        (["TIMER_DELAY_SEC", "a", "TIMER_OUT_MS"], False),
        (["TIMER_DEQUEUE_MS", "TIMER_DELIVER_MS", "a"], False),
        (["DELAY", "a"], True),
        (["DELAY", "a", "REAL_TOPIC", "REAL_QID"], False),
    ],
)
def test_a_delay_is_asked_for_unless_it_is_over(is_map: bool, names: list[str], is_delayed: bool) -> None:
    import pyarrow as pa

    pairs = [(name, "60000") for name in names]
    properties = pa.array([pairs], pa.map_(pa.string(), pa.string())) if is_map else pa.array([json.dumps(dict(pairs))])
    with MessagePacker(topic="T", id_prefix="0" * 24) as packer:
        packer.put_topic("T", [0])
        packer.begin(pa.record_batch({"body": ["later"], "properties": properties}))
        parcel = packer.next() or packer.flush()
        assert parcel is not None and parcel.is_delayed == is_delayed
        body = bytes(parcel.body)
        assert (names[0].encode() in body) == is_delayed and b"REAL_" not in body and (b"a\x0160000\x02" in body) == ("a" in names)


@pytest.mark.parametrize("properties", ['{"DELAY":"5","TIMER_DELAY_SEC":"60","a":"b"}', '{"TIMER_DELIVER_MS":"1","a":"b"}'])
@pytest.mark.parametrize(("column", "number", "name"), [("delayLevel", 3, b"DELAY"), ("deliverTimeMs", 7, b"TIMER_DELIVER_MS")])
def test_a_column_of_a_delay_stands_instead_of_every_delay_among_the_properties(
    properties: str, column: str, number: int, name: bytes
) -> None:
    import pyarrow as pa

    with MessagePacker(topic="T", id_prefix="0" * 24) as packer:
        packer.put_topic("T", [0])
        packer.begin(pa.record_batch({"body": ["later"], "properties": [properties], column: pa.array([number], pa.int32())}))
        parcel = packer.next()
        assert parcel is not None and parcel.is_delayed
        texts = bytes(parcel.body).split(b"UNIQ_KEY")[1].split(b"\x02")[1:]
        assert texts == [b"a\x01b", name + b"\x01%d" % number, b""]
