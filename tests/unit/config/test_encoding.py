"""Values beyond ASCII: RocketMQ's reader takes files for ISO-8859-1, ours for UTF-8, and both read \\uXXXX."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from rocketpy.config import ConfigError, load_config


def test_a_value_that_rocketmq_reads_otherwise_is_told_with_both_readings(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Its store lies where it read, and a broker that looked elsewhere would begin with an empty one."""
    file = tmp_path / "broker.conf"
    file.write_text("# größer\nbrokerName=a\nstorePathRootDir=/srv/größer\n", encoding="utf-8")
    config = load_config("broker", file)
    assert config.text("storePathRootDir") == "/srv/größer"
    config.report_remarks()
    (told,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert told.startswith(f"{file}:3: storePathRootDir is '/srv/größer' here")
    assert "'/srv/grÃ¶Ã\\x9fer' for RocketMQ" in told and "storePathRootDir=/srv/gr\\u00f6\\u00dfer is the same for both" in told


def test_an_escaped_value_is_the_same_to_both_and_no_news(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "broker.conf"
    file.write_text("storePathRootDir=/srv/gr\\u00f6\\u00dfer\n")
    config = load_config("broker", file)
    assert config.text("storePathRootDir") == "/srv/größer"
    config.report_remarks()
    assert not caplog.records


def test_what_is_written_is_ascii(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_text("# größer\nregionId=a\n", encoding="utf-8")
    config = load_config("broker", file)
    text = config.stored_text(file.read_text(encoding="utf-8"), {"regionId": "Größe 😀"})
    assert text == "# größer\nregionId=Gr\\u00f6\\u00dfe \\ud83d\\ude00\n"
    file.write_text(text, encoding="utf-8")
    assert load_config("broker", file).text("regionId") == "Größe 😀"


def test_a_value_of_another_encoding_is_refused_whatever_is_escaped_in_it(tmp_path: Path) -> None:
    """Beside a backslash the byte was replaced, and the broker began an empty store under that name."""
    file = tmp_path / "broker.conf"
    for value in (b"/srv/gr\xf6sser", b"/srv\\:gr\xf6sser", b"/srv\\u00e4gr\xf6sser"):
        file.write_bytes(b"storePathRootDir=" + value + b"\n")
        with pytest.raises(ConfigError, match=r"storePathRootDir: '/srv.*gr\ufffdsser' is not UTF-8"):
            load_config("broker", file)
