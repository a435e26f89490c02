"""What is missing, zero or damaged in a commit log is an error or a row, wherever its pieces are cut; asked of the reader itself."""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'pyspark>=4.2' 'pyarrow>=18'")
pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'pyspark>=4.2' 'pyarrow>=18'")

from rocketpy._core.errors import InvalidArgument, NotFound, OffsetOutOfRange, StoreCorrupt
from rocketpy.spark.store_source import RocketMQStoreDataSource
from tests.crash.broker_process import BrokerProcess, NameServerProcess
from tests.spark.servers import Cluster, copy_store, create_topic, send
from tests.spark.test_batch import numbered

SEGMENT = 64 << 10


@pytest.fixture(scope="module")
def segments(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A stopped store of 64 KB segments, 1200 messages, in a directory with blanks and letters beyond ASCII."""
    home = tmp_path_factory.mktemp("segments")
    names = NameServerProcess(home / "namesrv")
    broker = BrokerProcess(
        home / "a store, größer",
        namesrvAddr=names.address,
        brokerName="broker-a",
        mappedFileSizeCommitLog=SEGMENT,
        messageIndexEnable=False,
    )
    try:
        names.start()
        broker.start()
        create_topic(broker.address, "Cut")
        send(broker.address, "Cut", numbered(1200))
    finally:
        broker.stop()
        names.stop()
    yield broker.store


def rows(store: Path, **options: str) -> list[dict[str, Any]]:
    given = {"storePath": str(store), "topic": "Cut", **options}
    source = RocketMQStoreDataSource(given)
    table = source.reader(source.schema())
    return [row for part in table.partitions() for batch in table.read(part) for row in batch.to_pylist()]


@pytest.fixture
def store(segments: Path, tmp_path: Path) -> Path:
    return copy_store(segments, tmp_path / "copy")


def log_files(store: Path) -> list[Path]:
    return sorted((store / "commitlog").iterdir())


def damage(store: Path, **options: str) -> list[int]:
    return [row["commitLogOffset"] for row in rows(store, audit="true", **options) if not row["valid"]]


@pytest.mark.parametrize("split", ["1000", "7000", "1g"])
def test_a_sound_store_has_every_message_and_no_damage_however_it_is_cut(segments: Path, split: str) -> None:
    found = rows(segments, audit="true", splitBytes=split)
    assert all(row["valid"] for row in found)
    assert sorted(row["body"] for row in found) == sorted(body for _, body, _ in numbered(1200))


def test_a_missing_segment_is_damage(store: Path) -> None:
    victim = log_files(store)[2]
    victim.unlink()
    assert damage(store) == [int(victim.name)]
    with pytest.raises(StoreCorrupt, match=f"{SEGMENT} bytes are missing: no file has them"):
        rows(store)


@pytest.mark.parametrize("split", ["9000", "1g"])
def test_a_segment_that_ends_too_early_is_damage(store: Path, split: str) -> None:
    victim = log_files(store)[2]
    with victim.open("r+b") as file:
        file.truncate(SEGMENT // 2 + 13)
    found = damage(store, splitBytes=split)
    assert found[-1] == int(victim.name) + SEGMENT // 2 + 13 and len(found) == 2


@pytest.mark.parametrize("split", ["1000", "9000", "1g"])
def test_zeros_inside_of_the_log_are_damage_wherever_they_lie(segments: Path, tmp_path: Path, split: str) -> None:
    starts = [row["commitLogOffset"] for row in rows(segments)]
    middle = len(starts) // 2
    begin, end = starts[middle], starts[middle + 90]  # over a border of every kind
    store = copy_store(segments, tmp_path / "copy")
    for path in log_files(store):
        low, high = max(begin, int(path.name)), min(end, int(path.name) + SEGMENT)
        if low < high:
            with path.open("r+b") as file:
                file.seek(low - int(path.name))
                file.write(bytes(high - low))
    found = rows(store, audit="true", splitBytes=split)
    assert min(row["commitLogOffset"] for row in found if not row["valid"]) == begin
    assert sorted(row["commitLogOffset"] for row in found if row["valid"]) == sorted({*starts} - {*starts[middle : middle + 90]})
    with pytest.raises(StoreCorrupt, match="audit=true"):
        rows(store, splitBytes=split)


def test_each_record_that_breaks_is_told_once_at_every_border(segments: Path, tmp_path: Path) -> None:
    starts = [row["commitLogOffset"] for row in rows(segments)]
    store = copy_store(segments, tmp_path / "copy")
    for at in starts[5:400:7]:
        with log_files(store)[at // SEGMENT].open("r+b") as file:
            file.seek(at % SEGMENT + 4)
            file.write(b"XXXX")
    for split in ("3333", "1g"):
        assert damage(store, splitBytes=split) == starts[5:400:7]


def test_unknown_topics_are_named(segments: Path) -> None:
    with pytest.raises(NotFound, match=r"no queue of topic 'Cutt' .* did you mean 'Cut'"):
        rows(segments, topic="Cutt")
    with pytest.raises(InvalidArgument, match="an index has no topics"):
        rows(segments, table="index")


def test_a_store_is_for_batch_reads_only(segments: Path) -> None:
    source = RocketMQStoreDataSource({"storePath": str(segments)})
    with pytest.raises(InvalidArgument, match="read by batch queries"):
        source.streamReader(source.schema()).initialOffset()
    for writer in (source.writer, source.streamWriter):
        with pytest.raises(InvalidArgument, match="written by its broker"):
            writer(source.schema(), False)


def test_times_of_a_damaged_index_are_null(store: Path) -> None:
    (store / "index").mkdir(exist_ok=True)
    for first_ms, stored in ((2**62, None), (-5000, None), (1000, datetime(1970, 1, 1, 0, 0, 3, tzinfo=UTC))):
        entry = struct.pack(">iqii", 7, 0, 2, 0)
        (store / "index" / "20260101000000000").write_bytes(struct.pack(">qqqqii", first_ms, 0, 0, 0, 1, 2) + bytes(4) + entry * 4)
        source = RocketMQStoreDataSource({"storePath": str(store), "table": "index"})
        table = source.reader(source.schema())
        found = [row["storeTimestamp"] for part in table.partitions() for batch in table.read(part) for row in batch.to_pylist()]
        assert found == [stored]


def test_blank_queue_entries_are_no_rows(store: Path) -> None:
    path = next((store / "consumequeue" / "Cut" / "0").iterdir())
    with path.open("r+b") as file:
        file.write((bytes(8) + b"\x7f\xff\xff\xff" + bytes(8)) * 3)
    found = [row["queueOffset"] for row in rows(store, table="consumequeue") if row["queueId"] == 0]
    assert found == list(range(3, 300))


def test_entries_that_stand_for_missing_records_are_no_rows(store: Path) -> None:
    """They have a place in the log (csrc/store/dispatcher.c), but the size of no record."""
    path = next((store / "consumequeue" / "Cut" / "0").iterdir())
    with path.open("r+b") as file:
        file.seek(20 * 5)
        file.write(struct.pack(">qiq", 1000, 2**31 - 1, 0) * 2)
    found = [row["queueOffset"] for row in rows(store, table="consumequeue") if row["queueId"] == 0]
    assert found == [*range(5), *range(7, 300)]


@pytest.mark.parametrize(("table", "gone"), [("commitlog", "consumequeue"), ("consumequeue", "consumequeue"), ("index", "index")])
def test_a_directory_that_goes_before_it_is_listed_is_an_empty_one(
    store: Path, monkeypatch: pytest.MonkeyPatch, table: str, gone: str
) -> None:
    (store / "index").mkdir(exist_ok=True)
    list_files = Path.iterdir

    def gone_when_listed(path: Path) -> Iterator[Path]:
        if path == store / gone:
            raise FileNotFoundError(2, "No such file or directory", str(path))
        return list_files(path)

    monkeypatch.setattr(Path, "iterdir", gone_when_listed)
    source = RocketMQStoreDataSource({"storePath": str(store), "table": table})
    assert bool(source.reader(source.schema()).partitions()) == (table == "commitlog")


@pytest.mark.parametrize("what", ["commitlog", "consumequeue"])
def test_files_that_go_before_they_are_looked_into_are_passed_over(store: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """The last file of the log; a queue between the looks at its end and at the entry there."""
    ahead = store / "commitlog" / f"{10 * SEGMENT:020}"
    ahead.write_bytes(bytes(SEGMENT))
    looked_into = {ahead} if what == "commitlog" else set()
    look_into = Path.open

    def gone_when_opened(path: Path, *arguments: Any) -> Any:
        if path in looked_into:
            raise FileNotFoundError(2, "No such file or directory", str(path))
        if what == "consumequeue" and (store / what) in path.parents:
            looked_into.add(path)
        return look_into(path, *arguments)

    monkeypatch.setattr(Path, "open", gone_when_opened)
    assert len(rows(store)) == 1200


def test_files_that_retention_takes_while_the_work_is_planned_are_left_out(store: Path) -> None:
    """A link to nowhere is what was listed and is gone when it is asked for its size."""
    taken = store / "consumequeue" / "Cut" / "0" / f"{0:020}"
    taken.rename(taken.with_name(f"{taken.stat().st_size:020}"))
    index = store / "index" / "20260101000000000"
    index.parent.mkdir(exist_ok=True)
    for path in (taken, index):
        path.symlink_to("nowhere")
    assert sum(1 for row in rows(store, table="consumequeue") if row["queueId"] == 0) == 300
    source = RocketMQStoreDataSource({"storePath": str(store), "table": "index"})
    assert source.reader(source.schema()).partitions() == []


def read_after(store: Path, gone: str, **options: str) -> list[dict[str, Any]]:
    """The rows of a query between whose planning and reading a file went."""
    source = RocketMQStoreDataSource({"storePath": str(store), **options})
    table = source.reader(source.schema())
    parts = table.partitions()
    (store / gone).unlink()
    return [row for part in parts for batch in table.read(part) for row in batch.to_pylist()]


@pytest.mark.parametrize(("table", "directory"), [("commitlog", "commitlog"), ("consumequeue", "consumequeue/Cut/0")])
def test_a_file_that_retention_takes_before_it_is_read_is_an_error_or_left_out(store: Path, table: str, directory: str) -> None:
    oldest = f"{directory}/{0:020}"
    kept = (store / oldest).read_bytes()
    with pytest.raises(OffsetOutOfRange, match=r"deleted this file since the query was planned.*failOnDataLoss=false") as told:
        read_after(store, oldest, table=table, splitBytes="100k")
    assert told.value.file == str(store / oldest)
    (store / oldest).write_bytes(kept)
    before = rows(store, table=table, splitBytes="100k")
    left = read_after(store, oldest, table=table, splitBytes="100k", failOnDataLoss="false")
    assert 0 < len(left) < len(before) and all(row in before for row in left)


def test_a_file_that_goes_from_the_middle_is_damage_whatever_is_allowed(store: Path) -> None:
    middle = f"commitlog/{SEGMENT:020}"
    found = read_after(store, middle, audit="true", failOnDataLoss="false")
    assert [(row["commitLogOffset"], row["damage"]) for row in found if not row["valid"]] == [
        (SEGMENT, f"{SEGMENT} bytes are missing: no file has them")
    ]


def test_a_live_store_is_read_while_it_grows_without_a_word_of_damage(cluster: Cluster, topic: str) -> None:
    cluster.send(topic, numbered(40))
    ended = threading.Event()

    def fill() -> None:
        while not ended.is_set():
            cluster.send(topic, [(0, bytes([65 + i % 26]) * 300, "") for i in range(200)])

    writer = threading.Thread(target=fill)
    writer.start()
    try:
        for _ in range(3):
            found = rows(cluster.store, topic=topic)
            assert [row["queueOffset"] for row in found if row["queueId"] == 0] == list(range(sum(row["queueId"] == 0 for row in found)))
    finally:
        ended.set()
        writer.join()
