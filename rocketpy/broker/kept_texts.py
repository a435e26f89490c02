"""JSON of a table's members, each kept until it changes: of thousands hardly one has, when the table is written again.

Threads  any: two at once make the same text twice at worst.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from ..remoting.bodies import DataVersion
from ..remoting.json_codec import write_fastjson

T = TypeVar("T")


class KeptTexts(Generic[T]):
    """The texts of one table, for its file and in one line. Members are never altered: a changed one is another object."""

    def __init__(self, name_of: Callable[[T], str], text_of: Callable[[T], str]) -> None:
        """text_of: a member with its name, as it stands in the file."""
        self._name_of = name_of
        self._text_of = text_of
        self._texts: dict[str, tuple[T, str]] = {}

    def of_all(self, members: Iterable[T]) -> str:
        """The table as the file has it, by names. Texts of others are forgotten."""
        texts = self._texts = self._texts_of(sorted(members, key=self._name_of))
        return _table(texts.values())

    def of_some(self, members: Iterable[T]) -> str:
        """A table of these in one line, in the order given."""
        texts = self._texts_of(members)
        self._texts = self._texts | texts
        return in_one_line(_table(texts.values()))

    def _texts_of(self, members: Iterable[T]) -> dict[str, tuple[T, str]]:
        before, texts = self._texts, {}
        for member in members:
            name = self._name_of(member)
            known = before.get(name)
            texts[name] = known if known is not None and known[0] is member else (member, self._text_of(member))
        return texts


def indented(value: Any, depth: int) -> str:
    """A value as files have it, so deep in them."""
    return write_fastjson(value, pretty=True).decode().replace("\n", "\n" + "\t" * depth)


def version_text(version: DataVersion) -> str:
    """A version in one line."""
    return write_fastjson(version.to_json()).decode()


def in_one_line(text: str) -> str:
    """A text of a file without its line ends and tabs, neither of which stands inside of a JSON text as it is."""
    return text.replace("\n", "").replace("\t", "")


def _table(texts: Iterable[tuple[Any, str]]) -> str:
    members = ",\n\t\t".join([text for _, text in texts])
    return f"{{\n\t\t{members}\n\t}}" if members else "{}"
