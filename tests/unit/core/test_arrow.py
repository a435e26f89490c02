"""Commit log records as Arrow batches: every column, masks, maps, bounds and damage. The records are encoded here, independently."""

from __future__ import annotations

import json
import os
import random
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from rocketpy._core.arrow import COLUMN_NAMES, BufferPool, RecordBatch, SegmentReader, column_mask
from rocketpy._core.errors import Closed, InvalidArgument, StoreCorrupt

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'pyspark>=4.2' 'pyarrow>=18'")

MAGIC_V1 = 0xDAA320A7
HOST = bytes([127, 0, 0, 1]) + struct.pack(">i", 10911)


def record(
    offset: int, body: bytes = b"hello", properties: str | bytes = "", topic: str = "TopicTest", physical: int = 0, host: bytes = HOST
) -> bytes:
    """One record of layout version 1."""
    texts = properties.encode() if isinstance(properties, str) else properties
    sys_flag = 0x30 if len(host) == 20 else 0
    middle = struct.pack(">IiiqqI", zlib.crc32(body) & 0x7FFFFFFF, 3, 7, offset, physical, sys_flag)
    tail = struct.pack(">q", 1_700_000_000_123) + host + struct.pack(">q", 1_700_000_000_456) + host + struct.pack(">iq", 2, 99)
    tail += struct.pack(">i", len(body)) + body + bytes([len(topic)]) + topic.encode() + struct.pack(">h", len(texts)) + texts
    size = 8 + len(middle) + len(tail)
    return struct.pack(">II", size, MAGIC_V1) + middle + tail


def batch_of(data: bytes, **options: object) -> pa.RecordBatch:
    with RecordBatch(broker_name="broker-a", **options) as batch:  # type: ignore[arg-type]
        assert batch.put_records(data) == len(data)
        return pa.record_batch(batch.export())


def test_every_column_of_a_record_arrives() -> None:
    properties = 'TAGS\x01red\x02KEYS\x01k1 k2\x02UNIQ_KEY\x017F000001\x02odd\x01a"b\x02'
    row = batch_of(record(5, b"\x00body", properties, physical=1024)).to_pylist()[0]
    assert list(row) == list(COLUMN_NAMES[:20])
    assert json.loads(row.pop("properties")) == {"TAGS": "red", "KEYS": "k1 k2", "UNIQ_KEY": "7F000001", "odd": 'a"b'}
    assert row.pop("bornTimestamp").timestamp() == 1_700_000_000.123
    assert row.pop("storeTimestamp").timestamp() == 1_700_000_000.456
    assert row == {
        "topic": "TopicTest", "flag": 7, "body": b"\x00body", "brokerName": "broker-a", "queueId": 3, "queueOffset": 5, "tags": "red",
        "keys": "k1 k2", "msgId": "7F000001", "offsetMsgId": "7F00000100002A9F0000000000000400",
        "bodyCrc": zlib.crc32(b"\x00body") & 0x7FFFFFFF, "commitLogOffset": 1024, "sysFlag": 0, "reconsumeTimes": 2,
        "bornHost": "127.0.0.1:10911", "storeHost": "127.0.0.1:10911", "preparedTransactionOffset": 99,
    }  # fmt: skip


def test_a_record_without_properties_has_nulls_and_the_brokers_message_id() -> None:
    row = batch_of(record(0)).to_pylist()[0]
    assert (row["tags"], row["keys"], row["properties"]) == (None, None, "{}")
    assert row["msgId"] == row["offsetMsgId"]


def test_a_mask_picks_columns_in_their_order() -> None:
    batch = batch_of(record(1) + record(2), column_mask=column_mask(["queueOffset", "topic"]))
    assert batch.schema.names == ["topic", "queueOffset"]
    assert batch.column("queueOffset").to_pylist() == [1, 2]


def test_properties_as_a_map() -> None:
    batch = batch_of(record(1, properties="a\x011\x02b\x012\x02") + record(2), column_mask=column_mask(["properties"]), properties_as_map=1)
    assert batch.schema.field("properties").type == pa.map_(pa.string(), pa.string())
    assert batch.column(0).to_pylist() == [[("a", "1"), ("b", "2")], []]
    batch.validate(full=True)


def test_hosts_of_version_six_are_bracketed() -> None:
    row = batch_of(record(1, host=bytes(15) + b"\x01" + struct.pack(">i", 9))).to_pylist()[0]
    assert row["bornHost"] == "[::1]:9"


def test_a_full_batch_stops_at_a_record_and_goes_on_after_export() -> None:
    data = b"".join(record(offset) for offset in range(10))
    with RecordBatch(rows_max=4) as batch:
        seen: list[int] = []
        while data:
            data = data[batch.put_records(data) :]
            seen += pa.record_batch(batch.export()).column("queueOffset").to_pylist()
        assert seen == list(range(10))


def test_an_incomplete_record_waits_for_its_rest() -> None:
    data = record(0) + record(1)
    with RecordBatch() as batch:
        assert batch.put_records(data[:-1]) == len(record(0))
        assert batch.rows == 1


def test_only_offsets_of_the_range_are_taken() -> None:
    with RecordBatch() as batch:
        batch.put_records(b"".join(record(offset) for offset in range(9)), 1, 3, 5)
        assert pa.record_batch(batch.export()).column("queueOffset").to_pylist() == [3, 4, 5]


def test_a_wrong_crc_is_refused_when_asked_and_rows_before_it_stay() -> None:
    bad = record(1, b"hello").replace(b"hello", b"hellO")
    with RecordBatch() as batch:
        with pytest.raises(StoreCorrupt):
            batch.put_records(record(0) + bad)
        assert batch.rows == 1
    with RecordBatch() as batch:
        assert batch.put_records(bad, 0) == len(bad)


def test_bad_utf8_in_properties_becomes_a_replacement_character() -> None:
    data = record(0, properties="name\x01AB\x02").replace(b"AB", b"\xff\x07")
    value = json.loads(batch_of(data).column("properties").to_pylist()[0])["name"]
    assert value == "\ufffd\x07"


def pairs_of(properties: bytes) -> list[tuple[bytes, bytes]]:
    """What the reader is to find, said simply: text without a name is not a pair."""
    return [(name, value) for part in properties.split(b"\x02") for name, found, value in [part.partition(b"\x01")] if found]


def test_properties_of_any_bytes_are_the_same_as_text_and_as_columns() -> None:
    seed = int(os.environ.get("ROCKETPY_SEED", random.randrange(1 << 32)))
    print(f"ROCKETPY_SEED={seed}")
    chance = random.Random(seed)
    pieces = [
        b"TAGS",
        b"KEYS",
        b"UNIQ_KEY",
        b"\x01",
        b"\x01",
        b"\x02",
        b"\x02",
        b'"',
        b"\\",
        b"\x1f",
        b"plain text",
        b"\xc3\xa9",
        b"\xe4\xb8",
        b"\xff",
        b"x",
    ]
    texts = [b"".join(chance.choices(pieces, k=chance.randrange(14))) for _ in range(3000)]
    data = b"".join(record(row, properties=text) for row, text in enumerate(texts))
    whole = batch_of(data)
    narrow = batch_of(data, column_mask=column_mask(["tags", "keys", "msgId"]))
    for name in ("tags", "keys", "msgId"):
        assert whole.column(name).equals(narrow.column(name))
    tags, keys = whole.column("tags").to_pylist(), whole.column("keys").to_pylist()
    for row, text in enumerate(texts):
        pairs = pairs_of(text)
        shown = [tuple(part.decode("utf-8", "replace") for part in pair) for pair in pairs]
        assert json.loads(whole.column("properties")[row].as_py(), object_pairs_hook=list) == shown, text
        last = {name: value for name, value in shown if value}
        assert (tags[row], keys[row]) == (last.get("TAGS"), last.get("KEYS")), text
    for name in ("properties", "tags", "keys", "msgId"):
        whole.column(name).validate(full=True)


def test_hosts_that_change_within_a_block_keep_their_rows() -> None:
    hosts = [bytes([10, 0, 0, row // 5 % 3]) + struct.pack(">i", 80) for row in range(200)]
    column = batch_of(b"".join(record(row, host=host) for row, host in enumerate(hosts))).column("storeHost")
    assert column.to_pylist() == [f"10.0.0.{row // 5 % 3}:80" for row in range(200)]


def test_a_batch_is_taken_once() -> None:
    with RecordBatch() as batch:
        batch.put_records(record(0))
        exported = batch.export()
    pa.record_batch(exported)
    with pytest.raises(Closed):
        exported.__arrow_c_array__()


def test_a_batch_that_nobody_takes_is_freed() -> None:
    with RecordBatch() as batch:
        batch.put_records(record(0))
        assert batch.export().rows == 1
        assert batch.rows == 0


def test_a_buffer_is_used_again_only_when_nobody_holds_its_batch() -> None:
    with RecordBatch(broker_name="broker-a") as batch:
        held = []
        for turn in range(6):
            batch.put_records(b"".join(record(row, b"%d" % turn * 5000) for row in range(20)))
            held.append(pa.record_batch(batch.export()))
            if turn % 2:
                held[turn - 1] = None
    for turn, each in enumerate(held):
        if each is not None:  # some outlive the batch they came from
            each.validate(full=True)
            assert set(each.column("body").to_pylist()) == {b"%d" % turn * 5000}


def test_a_batch_knows_the_flags_of_its_rows() -> None:
    with RecordBatch() as batch:
        batch.put_records(record(1, host=bytes(16) + bytes(4)) + record(2))
        assert batch.export().sys_flags == 0x30
        batch.put_records(record(3))
        assert batch.export().sys_flags == 0


@pytest.mark.skipif("ROCKETPY_LIBRARY" in os.environ, reason="a sanitizer's malloc ends the process where there is no memory")
def test_no_memory_for_a_batch_is_called_so(tmp_path: Path) -> None:
    """Not a record that is too large: an operator would look for it in vain."""
    segment = tmp_path / f"{0:020}"
    place, records = 0, []
    for number in range(64):
        records.append(record(number, bytes(1 << 20), physical=place))
        place += len(records[-1])
    segment.write_bytes(b"".join(records))
    fill = (
        "import resource, sys; from rocketpy._core.arrow import RecordBatch, SegmentReader\n"
        "sizes = {'bytes_max': 1 << 30, 'rows_max': 1 << 20}\n"
        "data = open(sys.argv[1], 'rb').read()\n"
        "size = int(open('/proc/self/statm').read().split()[0]) * 4096 + len(data) + (20 << 20)\n"
        "resource.setrlimit(resource.RLIMIT_AS, (size, size))\n"
        "for put in (lambda: RecordBatch(**sizes).put_records(data), lambda: SegmentReader(sizes, path=sys.argv[1]).next_batch()):\n"
        "    while True:\n"
        "        try: put()\n"
        "        except Exception as error: print(type(error).__name__, error); break\n"
    )
    done = subprocess.run([sys.executable, "-c", fill, segment], capture_output=True, text=True, timeout=200, check=False)
    lines = done.stdout.splitlines()
    assert [line.split(";")[0] for line in lines] == ["NoMemory no memory for an Arrow batch"] * 2, done
    assert all("lower batchBytes" in line for line in lines) and str(segment) in lines[1]


def test_unknown_columns_are_named() -> None:
    with pytest.raises(InvalidArgument, match="bogus"):
        column_mask(["bogus"])


def segment(tmp_path: Path, count: int) -> Path:
    """A commit log file with count records, the rest unwritten."""
    path = tmp_path / f"{0:020d}"
    data = bytearray()
    for offset in range(count):
        data += record(offset, b"body %d" % offset, physical=len(data))
    path.write_bytes(data + bytes(4096))
    return path


def test_a_segment_is_read_to_its_last_record(tmp_path: Path) -> None:
    with SegmentReader({"rows_max": 10}, path=str(segment(tmp_path, 25))) as reader:
        offsets = []
        while (batch := reader.next_batch()) is not None:
            offsets += pa.record_batch(batch).column("queueOffset").to_pylist()
    assert offsets == list(range(25))


def test_readers_that_share_a_pool_do_not_share_rows(tmp_path: Path) -> None:
    path, pool = str(segment(tmp_path, 25)), BufferPool()
    with SegmentReader({"rows_max": 10}, pool, path=path) as one, SegmentReader({"rows_max": 5}, pool, path=path) as other:
        held = [pa.record_batch(batch) for _ in range(2) for reader in (one, other) if (batch := reader.next_batch()) is not None]
    del pool
    assert [batch.column("queueOffset").to_pylist() for batch in held] == [
        list(range(10)), list(range(5)), list(range(10, 20)), list(range(5, 10)),
    ]  # fmt: skip


def test_damage_in_a_segment_is_an_error_or_with_audit_a_row(tmp_path: Path) -> None:
    path = segment(tmp_path, 3)
    path.write_bytes(path.read_bytes().replace(b"body 1", b"body X"))
    with SegmentReader(path=str(path)) as reader, pytest.raises(StoreCorrupt, match="audit"):
        reader.next_batch()
    mask = column_mask(["queueOffset", "commitLogOffset", "valid", "damage"])
    with SegmentReader({"column_mask": mask}, path=str(path), audit=1) as reader:
        rows = pa.record_batch(reader.next_batch()).to_pylist()
    assert [row["valid"] for row in rows] == [True, False, True]
    assert rows[1]["queueOffset"] is None and "CRC" in rows[1]["damage"].upper()
    assert rows[1]["commitLogOffset"] == len(record(0, b"body 0"))


def test_a_segment_can_be_narrowed_to_a_topic(tmp_path: Path) -> None:
    with SegmentReader(path=str(segment(tmp_path, 3)), topic="Other") as reader:
        assert reader.next_batch() is None
