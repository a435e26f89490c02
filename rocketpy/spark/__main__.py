"""Prints the option tables of docs/spark.md."""

from __future__ import annotations

from .job import say
from .options import Use, markdown_table

if __name__ == "__main__":
    for use in Use:
        say(f"### {use}\n\n{markdown_table(use)}\n")
