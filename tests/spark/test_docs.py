"""docs/spark.md does what it says: its Python blocks are run in order, its option tables are those of the code."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'pyspark>=4.2' 'pyarrow>=18'")

from tests.spark.servers import Cluster

PAGE = Path(__file__).resolve().parents[2] / "docs" / "spark.md"


def test_the_examples_run(spark: Any, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # where their lake goes, as pytest's own directories do
    cluster.create_topic("Orders")
    names: dict[str, Any] = {}
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert blocks
    for block in blocks:
        code = block.replace('"127.0.0.1:9876"', repr(cluster.name_server))
        exec(compile(code, str(PAGE), "exec"), names)


def test_the_option_tables_are_fresh(spark: Any) -> None:
    from rocketpy.spark.options import Use, markdown_table

    shown = dict(re.findall(r"<!-- options (\w+) -->\n(.*?)\n<!-- end -->", PAGE.read_text(), re.DOTALL))
    assert shown == {str(use): markdown_table(use) for use in Use}


def test_every_option_is_used_by_a_test() -> None:
    """Under the name of the tables; checkpointLocation is Spark's own."""
    from rocketpy.spark.options import OPTIONS

    texts = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py") if path.name != Path(__file__).name)
    unused = [option.name for option in OPTIONS if not re.search(rf"\b{option.name}\b", texts)]
    assert not unused


@pytest.mark.slow
def test_the_example_runs_with_servers_of_its_own(spark: Any) -> None:
    done = subprocess.run(
        [sys.executable, str(PAGE.parents[1] / "examples" / "spark_lake.py"), "--count", "5000"],
        cwd=PAGE.parents[1], capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout.strip()) == (0, "5000 messages written, 5000 different ones in the lake"), done.stderr[-3000:]
