"""`rocketpy spark doctor` where something is missing; tests/spark has it where all is well."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rocketpy.cli import spark_doctor
from tests.processes import free_port


def test_a_missing_pyspark_is_named_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("rocketpy.spark")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    finding = spark_doctor.check_pyspark()
    assert finding.grade == "bad" and f"{sys.executable} -m pip install" in finding.text, "as the worker Python's remedy: not any pip's"


def test_a_java_home_without_java_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nonexistent")
    finding = spark_doctor.check_java()
    assert finding.grade == "bad" and "JAVA_HOME=/nonexistent" in finding.text


def test_a_java_that_cannot_be_run_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").write_text("no program")
    finding = spark_doctor.check_java()
    assert finding.grade == "bad" and f"{tmp_path}/bin/java" in finding.text and "JAVA_HOME" in finding.text


def test_a_java_or_worker_python_that_never_answers_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def hang(command: list[str], *, timeout: float, **options: Any) -> None:
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(subprocess, "run", hang)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    (tmp_path / "java").touch()
    monkeypatch.setattr(shutil, "which", lambda name: str(tmp_path / "java"))
    assert "did not answer within 30 s" in spark_doctor.check_java().text
    assert "did not answer within 120 s" in spark_doctor.check_worker_python().text


def test_a_worker_python_that_is_none_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "/nonexistent/python")
    assert "PYSPARK_PYTHON=/nonexistent/python" in spark_doctor.check_worker_python().text


def test_a_name_server_that_does_not_answer_is_bad() -> None:
    address = f"127.0.0.1:{free_port()}"
    (finding,) = spark_doctor.check_cluster(address)
    assert finding.grade == "bad" and address in finding.text
