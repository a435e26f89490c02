"""Key-value configuration: what was answered is on disk, whatever happens in between."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rocketpy import state_file
from rocketpy._core.errors import DiskFull, StoreIOError
from rocketpy.namesrv import kv_config
from rocketpy.namesrv.kv_config import KvConfig, KvConfigFull


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "namesrv" / "kvConfig.json"


def loaded(path: Path) -> KvConfig:
    config = KvConfig(path)
    config.load()
    return config


def test_entries_survive_a_restart(path: Path) -> None:
    config = loaded(path)
    config.put("n", "k", "v")
    config.put("n", "k2", "värde 中")
    config.delete("n", "k")
    config.delete("n", "k")
    config.delete("nowhere", "k")
    assert loaded(path).namespace("n") == {"k2": "värde 中"}
    assert loaded(path).get("n", "k") is None
    assert loaded(path).namespace("nowhere") is None


def test_the_file_has_rocketmqs_shape(path: Path) -> None:
    loaded(path).put("ORDER_TOPIC_CONFIG", "t", "broker-a:4")
    assert json.loads(path.read_text()) == {"configTable": {"ORDER_TOPIC_CONFIG": {"t": "broker-a:4"}}}


def test_a_file_of_rocketmq_is_read(path: Path) -> None:
    path.parent.mkdir()
    path.write_text('{\n\t"configTable":{"ORDER_TOPIC_CONFIG":{"t":"broker-a:4"}\n\t}\n}')
    assert loaded(path).get("ORDER_TOPIC_CONFIG", "t") == "broker-a:4"


@pytest.mark.parametrize(
    "damage", [b"", b"\0" * 64, b'{"configTable":{"n":{"k"', b"\xff\xfe", b'{"configTable":[1]}', b"null", b"[" * 100_000]
)
def test_a_damaged_file_gives_way_to_its_backup(path: Path, damage: bytes) -> None:
    config = loaded(path)
    config.put("n", "k", "1")
    config.put("n", "k", "2")
    path.write_bytes(damage)
    assert loaded(path).get("n", "k") == "1"


def test_a_lost_file_gives_way_to_its_backup(path: Path) -> None:
    config = loaded(path)
    config.put("n", "k", "1")
    config.put("n", "k", "2")
    path.unlink()
    assert loaded(path).get("n", "k") == "1"


def test_both_files_damaged_begin_empty_and_keep_the_evidence(path: Path) -> None:
    config = loaded(path)
    config.put("n", "k", "1")
    config.put("n", "k", "2")
    path.write_bytes(b"garbage")
    path.with_name("kvConfig.json.bak").write_bytes(b"garbage")
    config = loaded(path)
    assert config.namespace("n") is None
    config.put("n", "k", "3")
    assert loaded(path).get("n", "k") == "3"
    assert path.with_name("kvConfig.json.damaged").read_bytes() == b"garbage"


def test_values_that_are_no_texts_are_what_fastjson_makes_of_them(path: Path) -> None:
    path.parent.mkdir()
    path.write_text('{"configTable":{"n":{"a":4,"b":true,"c":null,"d":{"x":[1]}}}}')
    assert loaded(path).namespace("n") == {"a": "4", "b": "true", "d": '{"x":[1]}'}


@pytest.mark.parametrize("table", ["[]", "0", '""', "false", '{"n":[]}'])
def test_a_table_of_another_kind_is_no_empty_one(path: Path, table: str) -> None:
    config = loaded(path)
    config.put("n", "k", "1")
    config.put("n", "k", "2")
    path.write_text(f'{{"configTable":{table}}}')
    assert loaded(path).get("n", "k") == "1"
    assert path.with_name("kvConfig.json.damaged").exists()


STEPS = ("open", "write", "fsync", "link", "replace")


@pytest.mark.parametrize("step", STEPS)
def test_a_write_that_fails_at_any_step_changes_nothing(path: Path, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    config = loaded(path)
    config.put("n", "k", "1")
    config.put("n", "k", "2")

    def fail(*arguments: object, **named: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path if step == "replace" else state_file.os, step, fail)
        with pytest.raises(DiskFull):
            config.put("n", "k", "3")
    assert config.get("n", "k") == "2"
    assert loaded(path).get("n", "k") == "2"
    config.put("n", "k", "4")
    assert loaded(path).get("n", "k") == "4"


def test_a_torn_write_is_never_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever prefix of the new text reached the temporary file, the old text is what a restart finds."""
    config = loaded(path)
    config.put("n", "k", "1")
    for size in range(40):
        path.with_name("kvConfig.json.tmp").write_bytes(b'{"configTable":{"n":{"k":"2"}}}'[:size])
        assert loaded(path).get("n", "k") == "1"


def test_an_unwritable_directory_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreIOError, match="kvConfig"):
        loaded(tmp_path / "file" / "kvConfig.json").put("n", "k", "v")


def test_the_listener_hears_of_changes_on_disk_only(path: Path) -> None:
    heard: list[str] = []
    config = KvConfig(path, heard.append)
    config.load()
    config.put("n", "k", "v")
    config.delete("n", "nothing")
    config.delete("n", "k")
    assert heard == ["n", "n"]


def test_the_bounds_are_kept(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kv_config, "ENTRIES_MAX", 2)
    monkeypatch.setattr(kv_config, "TEXT_MAX", 8)
    config = loaded(path)
    config.put("n", "a", "1")
    config.put("m", "b", "1")
    config.put("m", "b", "2")
    with pytest.raises(KvConfigFull, match="2 entries"):
        config.put("n", "c", "1")
    with pytest.raises(KvConfigFull, match="longer than 8"):
        config.put("n", "a", "123456789")


def test_all_entries_together_have_a_bound_and_can_be_deleted_beyond_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = KvConfig(tmp_path / "kvConfig.json")
    table.put("n", "a", "x" * 100)
    table.put("n", "b", "x" * 100)
    monkeypatch.setattr(kv_config, "FILE_MAX", 150)
    with pytest.raises(KvConfigFull, match="150 characters are kept at most in all"):
        table.put("n", "c", "x")
    table.delete("n", "a")
    assert table.namespace("n") == {"b": "x" * 100}
    table.put("n", "c", "x")
