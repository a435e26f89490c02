"""Rows of Arrow batches as the bodies of send requests: what a message is made of, which parcel it goes to, what cannot be sent."""

from __future__ import annotations

import ctypes
import json
import mmap
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy._core.arrow import MessagePacker, Parcel
from rocketpy._core.errors import AlreadyExists, Closed, InvalidArgument, NotFound, TooLarge

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'pyspark>=4.2' 'pyarrow>=18'")

PREFIX = "ABCDEF0123456789ABCDEF01"


def messages(parcel: Parcel) -> Iterator[tuple[bytes, dict[str, str], int]]:
    """(body, properties, flag) of each message, read as a broker reads them."""
    data, at = bytes(parcel.body), 0
    while at < len(data):
        size, magic, crc, flag, body_size = struct.unpack_from(">iiiii", data, at)
        body = data[at + 20 : at + 20 + body_size]
        texts_size = struct.unpack_from(">h", data, at + 20 + body_size)[0]
        texts = data[at + 22 + body_size : at + 22 + body_size + texts_size].decode()
        assert (magic, crc) == (0, 0) and size == 22 + body_size + texts_size
        pairs = [pair.split("\x01") for pair in texts.split("\x02") if pair]
        yield body, {pair[0]: pair[1] for pair in pairs}, flag
        at += size


def pack(*batches: Any, queue_ids: tuple[int, ...] = (0, 1, 2, 3), **options: Any) -> list[Parcel]:
    with MessagePacker(**{"topic": "T", "id_prefix": PREFIX, **options}) as packer:
        parcels = []
        for batch in batches:
            packer.begin(batch)
            while True:
                while (parcel := packer.next()) is not None:
                    parcels.append(parcel)
                if packer.wanted_topic is None:
                    break
                packer.put_topic(packer.wanted_topic, queue_ids)
        while (parcel := packer.flush()) is not None:
            parcels.append(parcel)
        return parcels


def only(columns: dict[str, Any]) -> tuple[bytes, dict[str, str], int]:
    """The one message that one row makes, without its id."""
    (parcel,) = pack(pa.record_batch(columns))
    ((body, texts, flag),) = messages(parcel)
    assert texts.pop("UNIQ_KEY") == PREFIX + "00000000"
    return body, texts, flag


def test_rows_become_messages_with_ids_that_count_on_over_batches() -> None:
    batch = pa.record_batch({"body": [b"a", b"b", b""]})
    found = [(body, texts) for parcel in pack(batch, batch.slice(1), rows_max=2) for body, texts, _ in messages(parcel)]
    assert [body for body, _ in found] == [b"a", b"b", b"", b"b", b""]
    assert [texts["UNIQ_KEY"] for _, texts in found] == [f"{PREFIX}{row:08X}" for row in range(5)]


@pytest.mark.parametrize("kind", [pa.string(), pa.binary(), pa.large_string(), pa.large_binary()])
def test_texts_and_binaries_of_both_widths_are_bodies(kind: Any) -> None:
    assert only({"body": pa.array(["hällo"], kind)})[0] == "hällo".encode()


class SchemaHead(ctypes.Structure):
    """The beginning of struct ArrowSchema."""


SchemaHead._fields_ = [
    ("format", ctypes.c_char_p),
    ("name", ctypes.c_char_p),
    ("metadata", ctypes.c_char_p),
    ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("children", ctypes.POINTER(ctypes.POINTER(SchemaHead))),
]


class NamelessFirstColumn:
    """A batch whose first column has no name: NULL in the C data interface, where pyarrow writes an empty one."""

    def __init__(self, batch: Any) -> None:
        self.batch = batch

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        schema, array = self.batch.__arrow_c_array__(requested_schema)
        pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
        pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        head = SchemaHead.from_address(pointer_of(schema, b"arrow_schema"))
        head.children[0].contents.name = None
        return schema, array


def test_a_column_without_a_name_is_left_alone() -> None:
    (parcel,) = pack(NamelessFirstColumn(pa.record_batch({"other": [1], "body": [b"x"]})))
    assert [body for body, _, _ in messages(parcel)] == [b"x"]


@pytest.mark.parametrize(
    ("columns", "texts"),
    [
        ({"tags": ["red"], "keys": ["k1"]}, {"TAGS": "red", "KEYS": "k1"}),
        ({"tags": pa.array([None], pa.string()), "properties": ['{"TAGS": "blue"}']}, {"TAGS": "blue"}),
        ({"tags": ["red"], "properties": ['{"TAGS": "blue", "n": "1"}']}, {"TAGS": "red", "n": "1"}),
        ({"properties": [' {"n" : 1.5, "yes":true, "none":null , "t":"\\u00e4\\n\\"" } ']}, {"n": "1.5", "yes": "true", "t": 'ä\n"'}),
        ({"properties": ["{}"]}, {}),
        ({"properties": ['{"UNIQ_KEY": "old", "WAIT": "true", "MSG_REGION": "x", "CLUSTER": "c", "mine": "1"}']}, {"mine": "1"}),
        ({"properties": pa.array([[("a", "1"), ("b", None)]], pa.map_(pa.string(), pa.string()))}, {"a": "1"}),
        ({"properties": pa.array([None], pa.map_(pa.string(), pa.string()))}, {}),
        ({"properties": pa.array([None], pa.string())}, {}),
        ({"delayLevel": pa.array([3], pa.int32())}, {"DELAY": "3"}),
        ({"delayLevel": pa.array([0], pa.int32())}, {}),
        ({"deliverTimeMs": pa.array([2**40], pa.int64())}, {"TIMER_DELIVER_MS": str(2**40)}),
        ({"deliverTimeMs": pa.array([7], pa.int32())}, {"TIMER_DELIVER_MS": "7"}),
        ({"messageGroup": ["g"]}, {"__SHARDINGKEY": "g"}),
        ({"storeHost": ["ignored"], "queueOffset": pa.array([1], pa.int64())}, {}),
    ],
)
def test_columns_become_properties(columns: dict[str, Any], texts: dict[str, str]) -> None:
    assert only({"body": [b"x"], **columns})[1] == texts


def test_a_slice_of_a_table_is_read_where_it_begins() -> None:
    maps = pa.array([[("n", str(i))] * (i % 3) for i in range(20)], pa.map_(pa.string(), pa.string()))
    table = pa.record_batch({"body": [b"%d" % i for i in range(20)], "properties": maps, "flag": pa.array(range(20), pa.int32())})
    found = [message for parcel in pack(table.slice(7, 9)) for message in messages(parcel)]
    assert [body for body, _, _ in found] == [b"%d" % i for i in range(7, 16)]
    assert [flag for _, _, flag in found] == list(range(7, 16))
    assert [texts.get("n") for _, texts, _ in found] == [str(i) if i % 3 else None for i in range(7, 16)]


def test_rows_that_may_go_anywhere_are_one_parcel_and_others_go_by_queue() -> None:
    batch = pa.record_batch({"body": [b"a", b"b", b"c"], "queueId": pa.array([None, 2, 2], pa.int32())})
    assert sorted((parcel.queue if parcel.queue is not None else -1, parcel.rows) for parcel in pack(batch)) == [(-1, 1), (2, 2)]


def test_brokers_that_have_the_same_queue_take_turns() -> None:
    by_broker = pack(pa.record_batch({"body": [b"x"] * 4, "queueId": pa.array([5] * 4, pa.int32())}), queue_ids=(4, 5, 4, 5))
    assert sorted((parcel.queue, parcel.rows) for parcel in by_broker) == [(1, 2), (3, 2)]


def java_hash(text: str) -> int:
    """String.hashCode."""
    code = 0
    for (unit,) in struct.iter_unpack(">H", text.encode("utf-16-be")):
        code = (31 * code + unit) & 0xFFFFFFFF
    return code - (1 << 32) if code >> 31 else code


def test_a_group_goes_to_the_queue_its_hash_code_says() -> None:
    names = [f"gruppe-ä-{i % 7}" for i in range(50)]
    for parcel in pack(pa.record_batch({"body": [b"x"] * 50, "messageGroup": names})):
        assert parcel.is_ordered
        assert {abs(java_hash(texts["__SHARDINGKEY"])) % 4 for _, texts, _ in messages(parcel)} == {parcel.queue}


def test_topics_of_a_column_are_asked_for_when_they_first_come() -> None:
    batch = pa.record_batch({"body": [b"1", b"2", b"3"], "topic": ["A", "B", "A"]})
    parcels = pack(batch, topic=None)
    assert [(parcel.topic, [body for body, _, _ in messages(parcel)]) for parcel in parcels] == [(0, [b"1", b"3"]), (1, [b"2"])]


def test_parcels_keep_to_their_bounds_and_a_large_row_goes_alone() -> None:
    sizes = [100, 300, 900, 5000, 10, 10]
    parcels = pack(pa.record_batch({"body": [bytes(size) for size in sizes]}), bytes_max=1000)
    assert [[len(body) for body, _, _ in messages(parcel)] for parcel in parcels] == [[100, 300], [900], [5000], [10, 10]]
    assert [(parcel.first_row, parcel.last_row) for parcel in parcels] == [(0, 1), (2, 2), (3, 3), (4, 5)]


def test_many_open_parcels_stay_within_the_packers_memory() -> None:
    """Of 96 MiB in parcels that are not full, a third has to go before the rest is flushed."""
    batch = pa.record_batch({"body": [bytes(1 << 19)] * 192, "queueId": pa.array([i % 96 for i in range(192)], pa.int32())})
    with MessagePacker(topic="T", id_prefix=PREFIX, bytes_max=4 << 20) as packer:
        packer.put_topic("T", range(96))
        packer.begin(batch)
        early = 0
        while packer.next() is not None:
            early += 1
        left = 0
        while (parcel := packer.flush()) is not None:
            left += len(parcel.body)
    assert early >= 32 and left <= 64 << 20


def test_a_delayed_message_is_a_parcel_of_its_own() -> None:
    batch = pa.record_batch({"body": [b"1", b"2", b"3"], "properties": ["{}", '{"DELAY": "2"}', "{}"]})
    parcels = pack(batch)
    assert [(parcel.rows, parcel.is_delayed, parcel.first_row) for parcel in parcels] == [(1, True, 1), (2, False, 0)]


@pytest.mark.parametrize(
    ("columns", "kind", "text"),
    [
        ({"body": pa.array([None], pa.string())}, InvalidArgument, "row 40: body is null"),
        ({"body": [b"x"], "properties": ["[1]"]}, InvalidArgument, "row 40: properties are no JSON object"),
        ({"body": [b"x"], "properties": ['{"a": {}}']}, InvalidArgument, "row 40: property 'a' is an array or object"),
        ({"body": [b"x"], "properties": ['{"a": 1,}']}, InvalidArgument, "row 40: properties are no JSON object"),
        ({"body": [b"x"], "properties": ['{"a": 1} 2']}, InvalidArgument, "row 40: properties are no JSON object"),
        ({"body": [b"x"], "keys": ["a\x01b"]}, InvalidArgument, "row 40: property 'KEYS' holds a separator byte"),
        ({"body": [b"x"], "keys": ["k" * 40000]}, TooLarge, "row 40: properties of 400.. bytes; a message takes 32767"),
        ({"body": [b"x"], "delayLevel": pa.array([19], pa.int32())}, InvalidArgument, "row 40: delayLevel 19 is not 1 to 18"),
        ({"body": [b"x"], "delayLevel": pa.array([1], pa.int32()), "deliverTimeMs": [1]}, InvalidArgument, "row 40: .* exclude each other"),
        ({"body": [b"x"], "queueId": pa.array([9], pa.int32())}, NotFound, "row 40: topic 'T' has no writable queue 9"),
        ({"keys": ["x"]}, InvalidArgument, "the column `body` is required"),
        ({"body": pa.array([1], pa.int64())}, InvalidArgument, "column `body` is of Arrow format l; a sink takes binary or text"),
        ({"body": [b"x"], "tags": pa.array(["x"]).dictionary_encode()}, InvalidArgument, "column `tags` is of Arrow format"),
    ],
)
def test_what_cannot_be_sent_is_one_error_that_names_the_row(columns: dict[str, Any], kind: type[Exception], text: str) -> None:
    batch = pa.record_batch({name: pa.array(values) if isinstance(values, list) else values for name, values in columns.items()})
    with pytest.raises(kind, match=text):
        pack(pa.record_batch({"body": [b"x"] * 40}), batch)


def test_a_missing_topic_is_named_with_its_row() -> None:
    with pytest.raises(InvalidArgument, match="row 1: topic is null or empty, and there is no option 'topic'"):
        pack(pa.record_batch({"body": [b"1", b"2"], "topic": ["A", None]}), topic=None)


def test_rows_beyond_what_an_id_tells_apart_are_refused(tmp_path: Path) -> None:
    """The offsets of that many rows are never looked at: a hole in a file will do."""
    count = 2**32
    with (tmp_path / "offsets").open("w+b") as file:
        file.truncate(4 * (count + 1))
        offsets = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    bodies = pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(b"")])
    with MessagePacker(id_prefix=PREFIX, topic="T") as packer:
        packer.put_topic("T", [0])
        packer.begin(pa.record_batch({"body": [b"x"]}))
        assert packer.next() is None
        with pytest.raises(TooLarge, match=r"rows 1 to 4294967296 of a task: .* at most 4294967296; repartition into more tasks"):
            packer.begin(pa.RecordBatch.from_arrays([bodies], ["body"]))
        packer.begin(pa.record_batch({"body": [b"y"]}))
        assert packer.next() is None
        assert [texts["UNIQ_KEY"] for _, texts, _ in messages(packer.flush())] == [PREFIX + "00000000", PREFIX + "00000001"]


def test_wrong_use_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="24 digits"):
        MessagePacker(id_prefix="1")
    with MessagePacker(id_prefix=PREFIX, topic="T") as packer:
        with pytest.raises(InvalidArgument):
            packer.put_topic("T", [])
        packer.put_topic("T", [0])
        with pytest.raises(AlreadyExists):
            packer.put_topic("T", [0])
        packer.begin(pa.record_batch({"body": [b"x"] * 600}))
        assert packer.next() is not None
        with pytest.raises(InvalidArgument, match="have not been taken"):
            packer.begin(pa.record_batch({"body": [b"x"]}))
    with pytest.raises(Closed):
        packer.flush()


OWN = {
    *("UNIQ_KEY", "WAIT", "MIN_OFFSET", "MAX_OFFSET", "MSG_REGION", "TRACE_ON", "CLUSTER", "__CRC32#", "TRAN_MSG"),
    *("REAL_TOPIC", "REAL_QID"),
}
"""What a broker or client writes into a message by itself: not carried over."""
NAMES = st.text(st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]), min_size=1) | st.sampled_from(sorted(OWN))


@given(st.dictionaries(NAMES, st.text(st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"])), max_size=6))
def test_any_json_object_of_texts_arrives_without_what_brokers_write_themselves(texts: dict[str, str]) -> None:
    for ascii_only in (True, False):
        ((_, found, _),) = messages(pack(pa.record_batch({"body": [b"x"], "properties": [json.dumps(texts, ensure_ascii=ascii_only)]}))[0])
        found.pop("UNIQ_KEY")  # of this packer
        assert found == {name: value for name, value in texts.items() if name not in OWN}


@pytest.mark.parametrize("number", ["0", "-0", "12", "-1.50", "1e9", "1E-9", "0.1e+07", "true", "false"])
def test_numbers_and_switches_of_a_json_object_arrive_as_they_stand(number: str) -> None:
    ((_, found, _),) = messages(pack(pa.record_batch({"body": [b"x"], "properties": [f'{{"n": {number} }}']}))[0])
    assert found["n"] == number


@pytest.mark.parametrize("word", ["12foo", "1a", "01", "-", "+1", ".5", "1.", "1.e3", "1e", "1e+", "--1", "1-2", "1.2.3", "nulls", "tru"])
def test_words_that_json_does_not_know_are_refused(word: str) -> None:
    with pytest.raises(InvalidArgument, match="row 0: properties are no JSON object"):
        pack(pa.record_batch({"body": [b"x"], "properties": [f'{{"n": {word} }}']}))


@given(st.text(max_size=40))
def test_any_text_as_properties_is_an_object_or_an_error(text: str) -> None:
    try:
        pack(pa.record_batch({"body": [b"x"], "properties": [text]}))
    except (InvalidArgument, TooLarge) as error:
        assert "row 0" in str(error)
