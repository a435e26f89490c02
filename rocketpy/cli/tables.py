"""Tables on standard output that lose nothing: names are not cut short, and a file or a pipe gets whole rows."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.table import Table

FILE_WIDTH = 240


def output() -> Console:
    """Standard output; what is not a terminal has room for whole rows."""
    return Console() if sys.stdout.isatty() else Console(width=FILE_WIDTH)


def table_of(*names: str) -> Table:
    """Columns whose long words go on in the next line: a file name cut short names no file."""
    table = Table()
    for name in names:
        table.add_column(name, overflow="fold")
    return table
