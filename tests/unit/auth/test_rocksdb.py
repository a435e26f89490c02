"""RocksDB directories read without RocksDB: what lies in logs and tables, what a kill left, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rocketpy.auth import rocksdb
from rocketpy.auth.rocksdb import RocksDbError, read_rocksdb
from tests.unit.auth.rocksdb_writer import batch, new_table, record_file, table, text, varint, write_rocksdb

ENTRIES = [(3, b"app", b"one"), (2, b"apple", b"two"), (5, b"inner", None), (1, b"inner", b"three"), (4, b"root", b"four")]


def test_the_newest_entry_of_each_key_counts_wherever_it_lies(tmp_path: Path) -> None:
    logs = {
        4: record_file([batch(90, (b"gone", b"in a table since"))]),
        8: record_file([batch(6, (b"app", b"newer"), (b"apple", None)), batch(8, (b"late", b"x" * 100_000))]),
        10: record_file([batch(9, (b"later", b""))], recycled=10),
    }
    found = read_rocksdb(write_rocksdb(tmp_path, logs, {9: table(ENTRIES)}, 8, 5))
    assert list(found.items()) == [(b"app", b"newer"), (b"late", b"x" * 100_000), (b"later", b""), (b"root", b"four")]


def test_tables_that_were_compacted_away_do_not_count(tmp_path: Path) -> None:
    tables = {9: table([(1, b"old", b"x")]), 11: table([(2, b"new", b"y")])}
    deleted = varint(6) + varint(0) + varint(9)
    other_family = varint(200) + varint(7) + varint(2) + varint(77) + new_table(13)
    found = read_rocksdb(write_rocksdb(tmp_path, {12: record_file([batch(3, (b"z", b"z"))])}, tables, 0, 2, deleted, other_family))
    assert found == {b"new": b"y", b"z": b"z"}


@pytest.mark.parametrize("cut", range(1, 40, 3))
def test_a_log_ends_at_what_a_kill_left_of_its_last_record(tmp_path: Path, cut: int) -> None:
    whole = record_file([batch(1, (b"kept", b"1"))])
    torn = record_file([batch(1, (b"kept", b"1")), batch(2, (b"torn", b"2" * 20))])
    found = read_rocksdb(write_rocksdb(tmp_path, {4: torn[:-cut]}, {}))
    assert found == {b"kept": b"1"} and len(torn) - cut >= len(whole)


def test_records_of_the_log_that_a_file_was_before_do_not_count(tmp_path: Path) -> None:
    data = record_file([batch(1, (b"kept", b"1"))], recycled=4) + record_file([batch(2, (b"old", b"2"))], recycled=3)
    assert read_rocksdb(write_rocksdb(tmp_path, {4: data}, {})) == {b"kept": b"1"}
    torn = record_file([batch(1, (b"kept", b"1"))], recycled=4) + record_file([batch(2, (b"old", b"2"))] * 2, recycled=3)[5:]
    assert read_rocksdb(write_rocksdb(tmp_path, {4: torn}, {})) == {b"kept": b"1"}, "what is written over such a record"


KEPT, LOST = record_file([batch(1, (b"kept", b"1"))]), record_file([batch(2, (b"lost", b"2"))])
CHANGES = record_file([batch(1, (b"kept", b"1")), batch(2, (b"lost", b"2")), batch(3, (b"kept", None))])


@pytest.mark.parametrize(
    "damage",
    [
        lambda record: record[:3] + bytes([record[3] ^ 1]) + record[4:],  # its checksum
        lambda record: record[:-1] + b"3",
        lambda record: record[:5] + b"\xff" + record[6:],  # it would reach over the block's end
        lambda record: record[:6] + b"\5" + record[7:],  # as in a file that is used again
        lambda record: bytes(len(record)),
    ],
)
def test_damage_inside_a_log_is_no_kill_and_is_refused(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    """A deletion behind it would be lost."""
    assert CHANGES.startswith(KEPT + LOST)
    data = KEPT + damage(LOST) + CHANGES[len(KEPT + LOST) :]
    with pytest.raises(RocksDbError, match=rf"000004.log: the record at {len(KEPT)} is damaged"):
        read_rocksdb(write_rocksdb(tmp_path, {4: data}, {}))


def test_a_log_may_have_room_at_its_end(tmp_path: Path) -> None:
    assert read_rocksdb(write_rocksdb(tmp_path, {4: KEPT + bytes(100_000)}, {})) == {b"kept": b"1"}


def flipped(data: bytes) -> bytes:
    return data[:3] + bytes([data[3] ^ 1]) + data[4:]


@pytest.mark.parametrize(
    ("tables", "logs", "edits", "cause"),
    [
        ({9: flipped(table(ENTRIES))}, {}, (), "000009.sst: the block at 0 is damaged"),
        ({9: table(ENTRIES)[:-1]}, {}, (), "000009.sst: magic"),
        ({9: table(ENTRIES, version=6)}, {}, (), "version 6"),
        ({9: table(ENTRIES, checksum=4)}, {}, (), "checksums of kind 4"),
        ({9: b"short"}, {}, (), "000009.sst: "),
        ({}, {4: record_file([batch(1, (b"k", b"v"))[:-1]])}, (), "000004.log: "),
        ({}, {4: record_file([batch(1)[:8] + b"\1\0\0\0\2" + text(b"k") + text(b"v")])}, (), "a change of kind 2"),
        ({}, {}, (varint(104),), "MANIFEST-000005: an edit of kind 104"),
    ],
)
def test_what_cannot_be_read_whole_is_refused_by_name(
    tmp_path: Path, tables: dict[int, bytes], logs: dict[int, bytes], edits: tuple[bytes, ...], cause: str
) -> None:
    with pytest.raises(RocksDbError) as error:
        read_rocksdb(write_rocksdb(tmp_path, logs, tables, 0, 0, *edits))
    assert cause in str(error.value)


def damaged_manifest(directory: Path) -> None:
    path = directory / "MANIFEST-000005"
    path.write_bytes(flipped(path.read_bytes()))


def pathless_current(directory: Path) -> None:
    (directory / "CURRENT").write_text("MANIFEST-/../x\n")


def large_log(directory: Path) -> None:
    with (directory / "000004.log").open("wb") as file:
        file.truncate(rocksdb.MAX_FILE_BYTES + 1)


@pytest.mark.parametrize(
    ("damage", "cause"), [(damaged_manifest, "at 0 is damaged"), (pathless_current, "names no manifest"), (large_log, "larger than")]
)
def test_a_damaged_directory_is_refused(tmp_path: Path, damage: Callable[[Path], None], cause: str) -> None:
    damage(write_rocksdb(tmp_path, {}, {}))
    with pytest.raises(RocksDbError, match=cause):
        read_rocksdb(tmp_path)


def test_any_damage_to_a_table_is_refused_or_harmless(tmp_path: Path) -> None:
    """Each byte of it in turn: the same comes out, or an error that names the file."""
    data = table(ENTRIES)
    expected = read_rocksdb(write_rocksdb(tmp_path, {}, {9: data}))
    for position in range(len(data)):
        (tmp_path / "000009.sst").write_bytes(data[:position] + bytes([data[position] ^ 0x55]) + data[position + 1 :])
        try:
            assert read_rocksdb(tmp_path) == expected, position
        except RocksDbError as error:
            assert "000009.sst: " in str(error)
