"""The output of a command: mqadmin's text, or with --output json one JSON document a round, whose member names are stable.

A handler reports everything once, and both forms are made of it. A row gives its cells; their names in JSON stand beside the headings.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..remoting.json_codec import ObjectKey


class Shown(NamedTuple):
    """A cell whose text differs from its value."""

    value: Any
    text: str


def plain(value: Any) -> Any:
    """A value as standard JSON can express it: a table whose keys are objects, such as queues, becomes a list of objects with the members
    of both."""
    if isinstance(value, Mapping):
        if any(isinstance(key, ObjectKey) for key in value):
            return [_joined(key, plain(member)) for key, member in value.items()]
        return {key if isinstance(key, (str, int)) else str(key): plain(member) for key, member in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(member) for member in value]
    return value


def _joined(key: Any, value: Any) -> dict[str, Any]:
    members = dict(key) if isinstance(key, ObjectKey) else {"key": key}
    return {**members, **(value if isinstance(value, dict) else {"value": value})}


@dataclass(frozen=True, slots=True)
class Columns:
    """A table: its member in the JSON document, printf formats of heading and rows, and for each column its heading and its member."""

    member: str
    head: str
    form: str
    names: Mapping[str, str]


class Output:
    """A command's output. write: takes text for standard output."""

    def __init__(self, write: Callable[[str], object], *, is_json: bool) -> None:
        self._write = write
        self.is_json = is_json
        self._document: dict[str, Any] = {}
        self._texts: list[str] = []

    def aside(self) -> Output:
        """An output for one of several places that are asked at once: it keeps what it is given, for take."""
        texts: list[str] = []
        kept = Output(texts.append, is_json=self.is_json)
        kept._texts = texts
        return kept

    def take(self, kept: Output) -> None:
        """Puts out what an output aside was given. Of members that are lists the items are added."""
        self._write("".join(kept._texts))
        kept._texts.clear()
        for member, value in kept._document.items():
            if isinstance(value, list):
                self._document.setdefault(member, []).extend(value)
            else:
                self._document[member] = value

    def put(self, text: str) -> None:
        """Text as it is."""
        if not self.is_json:
            self._write(text)

    def line(self, text: str = "") -> None:
        self.put(text + "\n")

    def set(self, **members: Any) -> None:
        """Sets members of the JSON document. Text output neither shows nor keeps them."""
        if self.is_json:
            self._document.update(plain(members))

    def add(self, member: str, value: Any) -> None:
        """Adds an item to a list in the document."""
        if self.is_json:
            self._document.setdefault(member, []).append(plain(value))

    def done(self, text: str, **members: Any) -> None:
        """Prints a line about one thing that was done."""
        self.line(text)
        self.add("done", members)

    def heading(self, columns: Columns) -> None:
        self.line(columns.head % tuple(columns.names))
        if self.is_json:
            self._document.setdefault(columns.member, [])

    def row(self, columns: Columns, *cells: Any) -> None:
        self.line(columns.form % tuple(cell.text if isinstance(cell, Shown) else cell for cell in cells))
        values = (cell.value if isinstance(cell, Shown) else cell for cell in cells)
        self.add(columns.member, dict(zip(columns.names.values(), values, strict=True)))

    def end(self) -> None:
        """Ends a round: the document is written, and the next one begins."""
        if self.is_json:
            self._write(json.dumps(self._document, default=str) + "\n")  # ASCII: any bytes, any locale
        self._document = {}
