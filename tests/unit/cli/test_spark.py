"""`rocketpy spark`: what it lists is there, and what is not there is said, with PySpark or without."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from rocketpy.cli.spark import COMMANDS, cause_of, run_spark


def test_the_help_lists_every_pipeline(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_spark(["--help"]) == 0
    shown = capsys.readouterr().out
    assert all(f"  {name} " in shown and text in shown for name, (_, text) in COMMANDS.items())
    assert {"doctor", "lake", "traffic", "lag", "dlq", "transform", "copy", "audit"} == set(COMMANDS)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_pipeline_is_a_module_and_explains_itself(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    if importlib.util.find_spec("pyspark") is None and name != "doctor":  # which says what is missing
        assert run_spark([name, "--help"]) == 1
        assert "pip install 'pyspark>=4.2' 'pyarrow>=18'" in capsys.readouterr().err
        return
    with pytest.raises(SystemExit) as ended:
        run_spark([name, "--help"])
    assert ended.value.code == 0 and f"rocketpy spark {name}" in capsys.readouterr().out


def test_the_doctor_runs_without_pyspark(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for module in ("pyspark", "pyspark.errors"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(SystemExit) as ended:
        run_spark(["doctor", "--help"])
    assert ended.value.code == 0 and "rocketpy spark doctor" in capsys.readouterr().out


def test_a_name_that_is_none_is_told_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_spark(["lakes"]) == 2
    assert "there is no 'lakes'; there are: doctor, lake" in capsys.readouterr().err


def test_an_error_of_ours_is_found_in_what_spark_makes_of_it() -> None:
    wrapped = """[PYTHON_DATA_SOURCE_ERROR] Failed:
Traceback (most recent call last):
  File "source.py", line 3, in read
rocketpy._core.errors.NotFound: topic 'Nope' is not known
    at org.apache.spark.Whatever(Whatever.scala:1)"""
    assert cause_of(wrapped) == "topic 'Nope' is not known"
    assert cause_of("[UNRESOLVED_COLUMN] no `x`\n'Project ['x]") == "[UNRESOLVED_COLUMN] no `x`"


@pytest.mark.skipif(importlib.util.find_spec("pyspark") is None, reason="PySpark is not installed")
def test_an_audit_of_no_store_ends_before_spark_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("rocketpy.spark.pipelines.audit.session", lambda name: pytest.fail(f"a session for {name} was asked for"))
    assert run_spark(["audit", str(tmp_path / "absent")]) == 1
    assert "there is no store directory here" in capsys.readouterr().err


@pytest.mark.skipif(importlib.util.find_spec("pyspark") is None, reason="PySpark is not installed")
def test_an_option_that_is_no_pair_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run_spark(["traffic", "-n", "h:1", "-t", "T", "--option", "batchRows"])
    assert "'batchRows' is not NAME=VALUE" in capsys.readouterr().err
