"""docs/spark.md does what it says: its Python blocks are run in order, its option tables are those of the code."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tests.spark.servers import Cluster

PAGE = Path(__file__).resolve().parents[2] / "docs" / "spark.md"


def test_the_examples_run(spark: Any, cluster: Cluster) -> None:
    cluster.create_topic("Orders")
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        code = block.replace('"127.0.0.1:9876"', repr(cluster.name_server))
        exec(compile(code, str(PAGE), "exec"), names)


def test_the_option_tables_are_fresh(spark: Any) -> None:
    from rocketpy.spark.options import Use, markdown_table

    shown = dict(re.findall(r"<!-- options (\w+) -->\n(.*?)\n<!-- end -->", PAGE.read_text(), re.DOTALL))
    assert shown == {str(use): markdown_table(use) for use in Use}
