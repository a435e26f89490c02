"""The log's files: what was synced is there after a kill at any byte, what was cut never comes back, and damage is told from a torn end."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from rocketpy._core.errors import NotFound, ProtocolError, StoreCorrupt, StoreLocked, TooLarge
from rocketpy.dledger.entry import Entry, decode_entry
from rocketpy.dledger.entry_store import EntryStore
from rocketpy.dledger.settings import GroupSettings
from rocketpy.dledger.term_file import TermFile

FILE_SIZE = 4096


def settings(path: Path) -> GroupSettings:
    return GroupSettings("g", "n0", {"n0": "127.0.0.1:1"}, path, data_file_size=FILE_SIZE, index_file_size=320)


def opened(path: Path) -> EntryStore:
    store = EntryStore(settings(path))
    store.open()
    return store


def filled(path: Path, count: int, size: int = 100) -> EntryStore:
    store = opened(path)
    for number in range(count):
        store.append(1 + number // 10, bytes([number]) * size)
    store.sync()
    return store


def data_files(path: Path) -> list[Path]:
    return sorted((path / "dledger-n0" / "data").iterdir())


def test_an_entry_has_dledgers_bytes() -> None:
    data = Entry(7, 3, 96, b"body", body_crc=5).encode()
    assert data == struct.pack(">iiqqqiiii", 1, 52, 7, 3, 96, 0, 0, 5, 4) + b"body"
    with pytest.raises(StoreCorrupt):
        decode_entry(data)  # 5 is not its CRC
    assert decode_entry(data[:40] + bytes(4) + data[44:]) == Entry(7, 3, 96, b"body")


def test_entries_of_many_files_survive_a_restart(tmp_path: Path) -> None:
    store = filled(tmp_path, 200)
    assert len(data_files(tmp_path)) > 6
    store.close()
    again = opened(tmp_path)
    assert (again.begin_index, again.end_index, again.end_term) == (0, 199, 20)
    assert [again.get(index).body[0] for index in range(200)] == list(range(200))
    assert [again.term_of(index) for index in (-1, 0, 199)] == [-1, 1, 20]
    with pytest.raises(NotFound):
        again.get(200)


def test_an_index_that_is_gone_is_made_again(tmp_path: Path) -> None:
    filled(tmp_path, 60).close()
    for path in (tmp_path / "dledger-n0" / "index").iterdir():
        path.unlink()
    assert opened(tmp_path).get(59).body[0] == 59


@pytest.mark.parametrize("kept", [0, 1, 20, 47, 48, 100, 147])
def test_a_torn_last_entry_goes_and_the_next_takes_its_place(tmp_path: Path, kept: int) -> None:
    store = filled(tmp_path, 5)
    entry = store.append(9, b"x" * 100)
    store.close()
    with data_files(tmp_path)[0].open("r+b") as file:
        file.seek(entry.pos + kept)
        file.write(bytes(entry.size - kept))
    again = opened(tmp_path)
    assert again.end_index == 4
    assert again.append(9, b"y") == Entry(5, 9, entry.pos, b"y", body_crc=again.get(5).body_crc)


def test_what_was_cut_never_continues_another_log(tmp_path: Path) -> None:
    store = filled(tmp_path, 100)
    store.write_checkpoint(10)
    store.cut(4)
    assert (store.end_index, store.end_term) == (4, 1)
    store.append(1, b"z" * 100)  # as long as the entry that was there
    store.close()
    again = opened(tmp_path)
    assert again.end_index == 5
    assert again.get(5).body == b"z" * 100
    again.cut(-1)
    again.close()
    assert opened(tmp_path).end_index == -1


def test_a_log_that_lost_synced_entries_is_refused(tmp_path: Path) -> None:
    store = filled(tmp_path, 20)
    store.write_checkpoint(19)
    pos = store.get(10).pos
    store.close()
    with data_files(tmp_path)[0].open("r+b") as file:
        file.seek(pos + 60)
        file.write(b"?")
    with pytest.raises(StoreCorrupt, match="lost or damaged"):
        opened(tmp_path)


@pytest.mark.parametrize("synced", ["9" * 19, "9" * 5000], ids=len)
def test_a_checkpoint_beyond_any_log_says_that_entries_were_lost(tmp_path: Path, synced: str) -> None:
    store = filled(tmp_path, 3)
    store.write_checkpoint(2)
    store.close()
    (checkpoint,) = tmp_path.rglob("checkpoint")
    checkpoint.write_text(f"syncedIndex={synced}\n")
    with pytest.raises(StoreCorrupt, match="lost or damaged"):
        opened(tmp_path)


def test_a_file_cut_short_between_its_two_halves_is_made_whole(tmp_path: Path) -> None:
    store = filled(tmp_path, 3)
    end = store.get(2).end_pos
    store.close()
    path = data_files(tmp_path)[0]
    with path.open("r+b") as file:
        file.truncate(end)
    assert opened(tmp_path).end_index == 2
    assert path.stat().st_size == FILE_SIZE


def test_what_does_not_follow_is_refused(tmp_path: Path) -> None:
    store = filled(tmp_path, 2)
    end = store.get(1).end_pos
    for entry in (Entry(3, 1, end, b""), Entry(2, 0, end, b""), Entry(2, 1, end + 1, b"")):
        with pytest.raises(ProtocolError):
            store.append_entry(entry)
    with pytest.raises(TooLarge):
        store.append(1, bytes(FILE_SIZE))
    store.append_entry(Entry(2, 1, end, b""))
    assert store.end_index == 2


def test_a_member_runs_once(tmp_path: Path) -> None:
    store = filled(tmp_path, 1)
    with pytest.raises(StoreLocked):
        opened(tmp_path)
    store.close()


def test_promises_are_kept_and_a_damaged_file_makes_none_up(tmp_path: Path) -> None:
    path = tmp_path / "currterm"
    promises = TermFile(path)
    assert not promises.read()
    promises.write(7, "n1")
    promises.write(8, None)
    again = TermFile(path)
    assert again.read()
    assert (again.term, again.vote) == (8, None)
    for text in ("", "currTerm=8\n", *(f"currTerm={term}\nvoteLeader=n0\n" for term in ("-1", "9" * 20, "9" * 5000))):
        path.write_text(text)
        with pytest.raises(StoreCorrupt):
            TermFile(path).read()
    path.write_text("voteLeader=n2\ncurrTerm=12\n")  # as Java's Properties may order them
    assert again.read()
    assert (again.term, again.vote) == (12, "n2")
