"""Java's .properties format with line numbers, which error messages need and no library gives: reading, writing, editing in place.
RocketMQ: java.util.Properties, MixAll.properties2String (5.3.3 common/).

A line is a comment (# or ! first), blank, or key, separator (=, : or blanks), value. A backslash at the end continues the line; \\t \\n
\\r \\f and \\uXXXX are escapes, a backslash before anything else vanishes. Values are trimmed at both ends. Java does not do that: there, a
blank behind a number makes the whole setting invalid. Files are UTF-8, which Java takes for ISO-8859-1: what is written here is ASCII,
with \\uXXXX for the rest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_BLANKS = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_LINE_END = re.compile("\r\n?|\n")
_ESCAPED = re.compile(r"(?:\\u[0-9a-fA-F]{4})+|\\(?:.|$)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Entry:
    """One key with the lines (from 1) it stands in."""

    key: str
    value: str
    line: int
    line_last: int
    is_ascii: bool = True
    """False where characters beyond ASCII stand as they are, not as \\uXXXX: readers differ in what they take them for."""


def properties_text(data: bytes) -> str:
    """A file's bytes as text. Bytes that are not UTF-8 become lone surrogates, which file_bytes() turns back into the same bytes: comments
    in another encoding, which RocketMQ's reader accepts, stay as they are. A value that holds one is refused when it is checked."""
    return data.decode("utf-8-sig", "surrogateescape")


def file_bytes(text: str) -> bytes:
    """The inverse of properties_text, but for a byte order mark, which is dropped."""
    return text.encode("utf-8", "surrogateescape")


def readable(text: str) -> str:
    """The text with U+FFFD for every byte that was not UTF-8: fit for logs and answers."""
    return text if text.isprintable() else file_bytes(text).decode("utf-8", "replace")


def read_properties(text: str) -> list[Entry]:
    """Every entry in order, duplicates included. Never fails: any text is some properties."""
    return [Entry(*_split(logical), line, last, logical.isascii()) for line, last, logical in _logical_lines(text)]


def format_properties(values: Mapping[str, str]) -> str:
    """Sorted `key=value` lines, as RocketMQ shows and keeps its configuration."""
    return "".join(f"{_escape(key, is_key=True)}={_escape(value)}\n" for key, value in sorted(values.items()))


def as_latin(value: str) -> str:
    """A value as java.util.Properties, which reads ISO-8859-1, understands it if the file holds it as UTF-8."""
    return file_bytes(value).decode("latin-1")


def escaped(value: str) -> str:
    """The value in the form that it has in a file: ASCII, which every reader understands in the same way."""
    return _escape(value)


def edit_properties(text: str, changes: Mapping[str, str]) -> str:
    """The text with these keys set. Existing entries are replaced in place, new ones appended; comments, order and the end of each line are
    kept."""
    lines, ends = _lines(text), _LINE_END.findall(text)
    end = ends[0] if ends else "\n"
    ends += ends[-1:] if ends and len(ends) < len(lines) else [end] * (len(lines) - len(ends))  # the last line's: CR and LF make one end
    pending = dict(changes)
    for entry in reversed(read_properties(text)):  # from the end, so that line numbers above stay true; the last of duplicates counts
        place = slice(entry.line - 1, entry.line_last)
        if entry.key in pending:
            lines[place], ends[place] = [_format_line(entry.key, pending.pop(entry.key))], [ends[entry.line_last - 1]]
        elif entry.key in changes:
            del lines[place], ends[place]
    if pending and _ends_open(lines):
        lines[-1] = lines[-1][:-1]  # a backslash at the end of a file continues nothing; now it would
    lines += [_format_line(key, value) for key, value in pending.items()]
    ends += [end] * len(pending)
    return "".join(map("".join, zip(lines, ends, strict=True)))


def _format_line(key: str, value: str) -> str:
    return f"{_escape(key, is_key=True)}={_escape(value)}"


def _lines(text: str) -> list[str]:
    """LF, CR LF and CR end a line, as in Java. What str.splitlines() takes for ends besides (\\v, U+0085, U+2028 …) may stand in a
    value."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return lines[:-1] if not lines[-1] else lines


def _logical_lines(text: str) -> Iterator[tuple[int, int, str]]:
    """(first line, last line, text with continuations joined) of every entry."""
    lines = iter(enumerate(_lines(text), 1))
    for first, line in lines:
        logical = line.lstrip(_BLANKS)
        if not logical or logical[0] in "#!":
            continue
        last = first
        while _ends_in_escape(logical):
            logical = logical[:-1]
            last, more = next(lines, (last, ""))
            logical += more.lstrip(_BLANKS)
        if logical:
            yield first, last, logical


def _ends_open(lines: list[str]) -> bool:
    """Whether these lines end such that another line behind them would be read as their continuation."""
    is_open = False
    for line in lines:
        starts = line.lstrip(_BLANKS)
        if is_open or (starts and starts[0] not in "#!"):
            is_open = _ends_in_escape(line)
    return is_open


def _ends_in_escape(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _split(logical: str) -> tuple[str, str]:
    position = 0
    while position < len(logical) and logical[position] not in "=:" + _BLANKS:
        position += 2 if logical[position] == "\\" else 1
    key, rest = logical[:position], logical[position:].lstrip(_BLANKS)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANKS)
    return _unescape(key), _unescape(rest).strip()


def _unescape(text: str) -> str:
    return _ESCAPED.sub(_unescaped, text)


def _unescaped(found: re.Match[str]) -> str:
    escaped = found[0]
    if len(escaped) > 2:  # units of UTF-16, of which two may be one character
        return bytes.fromhex(escaped.replace("\\u", "")).decode("utf-16-be", "replace")
    return _ESCAPES.get(escaped[1:], escaped[1:])


def _escape(text: str, *, is_key: bool = False) -> str:
    """Escapes only what a reader would misunderstand, so that `;` and `:` of addresses stay readable."""
    safe = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t").replace("\f", "\\f")
    if is_key:
        for special in "=: #!":
            safe = safe.replace(special, "\\" + special)
    return safe if safe.isascii() else re.sub("[^\x00-\x7f\udc80-\udcff]", _unicode_escapes, safe)


def _unicode_escapes(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at] << 8 | units[at + 1]:04x}" for at in range(0, len(units), 2))
