"""JSON as RocketMQ writes and reads it, which is fastjson 1's: a superset that a standard parser refuses, and two ways of writing.
RocketMQ: RemotingSerializable over com.alibaba.fastjson 1.2 (5.3.3 remoting/protocol/).

Reading  standard JSON goes through the C parser, and so does JSON whose only fault is keys that are bare numbers, as tables by queue have:
         they are put in quotes first. What is left is read by the tolerant parser: keys that are objects or bare words, single quotes,
         comments, spare commas, numbers with a type letter (12L), Set[…], undefined, references ({"$ref":"$.a.b"}). Numeric keys become
         text ("0"), object keys become ObjectKey. Lone surrogates, of which no UTF-8 can be made again, become U+FFFD.
Writing  write_json: standard. write_fastjson: numeric keys bare, object keys as objects, for peers before 4.9.4 and files in `config/`.

Bounds   nesting to DEPTH_MAX, but of standard JSON as far as its parser goes (is_deeper tells); sizes are the frame's, but what needs the
         tolerant parser, a microsecond a character at worst on the event loop, has TOLERANT_MAX characters, unless it is a file of ours;
         texts that were inflated share an Allowance. What references stand for holds MEMBERS_MAX members. Nothing raises but JsonError.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

DEPTH_MAX = 200
TOLERANT_MAX = 1 << 20
MEMBERS_MAX = 1_000_000
"""The most members of a value with references, each counted as often as it is written: a few hundred bytes could fill any memory."""


class JsonError(ValueError):
    """A text that is not JSON even by fastjson's rules. The message names the place and quotes nothing of the text, which may be a
    secret."""


class Allowance:
    """How many more characters are read of texts that arrived together. `slow` is for those that need the tolerant parser or have
    references."""

    __slots__ = ("all", "slow")

    def __init__(self, characters: int, slow: int) -> None:
        self.all = characters
        self.slow = slow

    def spend(self, characters: int) -> None:
        """Takes that many characters from the allowance. Raises JsonError if there are fewer."""
        if characters > self.all:
            raise JsonError(f"{characters} characters of JSON where at most {self.all} are read: send less of it, or not compressed")
        self.all -= characters

    def spend_slow(self, characters: int) -> None:
        """As spend, for a text that is slow to read. Raises JsonError."""
        if characters > self.slow:
            raise JsonError(
                f"{characters} characters that are no standard JSON; of such text at most {self.slow} are read: write standard JSON"
            )
        self.slow -= characters


class ObjectKey(tuple[tuple[str, Any], ...]):
    """An object used as the key of a map, such as a MessageQueue. It is hashable, and compares by its members in the order of their
    names."""

    __slots__ = ()

    @classmethod
    def of(cls, **members: Any) -> ObjectKey:
        return cls(sorted(members.items()))

    def __getitem__(self, name: Any) -> Any:
        """A member by its name."""
        return super().__getitem__(name) if isinstance(name, (int, slice)) else dict(self)[name]


def read_json(data: bytes | bytearray | memoryview | str, *, tolerant_max: int | Allowance | None = TOLERANT_MAX) -> Any:
    """The value of a JSON text, standard or fastjson's. `tolerant_max` bounds what the tolerant parser reads: None for files, an Allowance
    for texts that were inflated. Raises JsonError."""
    try:
        text = data if isinstance(data, str) else bytes(data).decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise JsonError(f"not UTF-8 at byte {error.start}") from None
    if isinstance(tolerant_max, Allowance):
        tolerant_max.spend(len(text))
    value = _parse(text, tolerant_max)
    if "$" not in text or '"$ref"' not in text:
        return value
    if isinstance(tolerant_max, Allowance):
        tolerant_max.spend_slow(len(text))
    return _resolve_references(value)


def _parse(text: str, tolerant_max: int | Allowance | None) -> Any:
    if not _has_lone_surrogate(text):
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            pass
        try:
            return json.loads(_with_quoted_keys(text))
        except (ValueError, RecursionError):
            pass
    if tolerant_max is not None:
        allowance = tolerant_max if isinstance(tolerant_max, Allowance) else Allowance(0, tolerant_max)
        allowance.spend_slow(len(text))
    return _Reader(text).read()


def _has_lone_surrogate(text: str) -> bool:
    return "\\" in text and ("\\ud" in text or "\\uD" in text) and _LONE_SURROGATE.search(text) is not None


def _with_quoted_keys(text: str) -> str:
    """The text with its bare numeric keys in quotes. If a string contains what looks like such a key, the string now ends there and a digit
    follows it: every parser refuses that, so it is never misread."""
    return '"'.join(_BARE_KEY.split(text))


def read_object(data: bytes | bytearray | memoryview | str, *, tolerant_max: int | Allowance | None = TOLERANT_MAX) -> dict[str, Any]:
    """As read_json, for a text that must be an object."""
    value = read_json(data, tolerant_max=tolerant_max)
    if not isinstance(value, dict):
        raise JsonError(f"expected an object, found {type(value).__name__}")
    return value


def unknown_members(value: Mapping[Any, Any], known: Iterable[str]) -> dict[str, Any]:
    """The members that we do not know and that are not null: they are written back as they came."""
    skipped = frozenset(known)
    if value.keys() <= skipped:
        return {}
    return {name: member for name, member in value.items() if isinstance(name, str) and name not in skipped and member is not None}


def is_deeper(value: Any, levels: int) -> bool:
    """Whether objects and lists are nested in more than `levels` levels; a single one is one level."""
    nested = [value] if isinstance(value, (dict, list)) else []
    for _ in range(levels):
        if not nested:
            return False
        members = [member for each in nested for member in (each.values() if isinstance(each, dict) else each)]
        nested = [member for member in members if isinstance(member, (dict, list))]
    return bool(nested)


def write_json(value: Any) -> bytes:
    """Standard JSON, sorted and compact, with all characters outside ASCII escaped (fastjson's BrowserCompatible with MapSortField)."""
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode("ascii")


def write_fastjson(value: Any, *, pretty: bool = False) -> bytes:
    """JSON as fastjson 1 writes it: members that are None are left out, numeric and object keys are bare. `pretty` indents with tabs, as in
    `config/*.json`."""
    text = None if pretty else _plain_text(value)
    if text is None:
        parts: list[str] = []
        _write(value, parts, "\n" if pretty else "", 0)
        text = "".join(parts)
    return text.encode("utf-8")


# ---- writing ----

json_text = json.encoder.encode_basestring
"""A text as a member of what is written here."""
_quote = json.JSONEncoder(ensure_ascii=False).encode
_write_plain = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode
_KEY_LIKE_A_NUMBER = re.compile(r'"(?:-?[0-9][^"]*|true|false)":')


def _plain_text(value: Any) -> str | None:
    """The text that json's C writer makes, which is several times as fast. None if fastjson's text may differ, or if the writer cannot make
    one.

    The C writer differs for members that are None, for keys that are numbers, which it quotes, and for an ObjectKey, which it takes for a
    list of pairs. The text shows whether one of them may be there.
    """
    if isinstance(value, ObjectKey):
        return None
    try:
        text = _write_plain(value)
    except (TypeError, ValueError, RecursionError):
        return None
    if "null" in text or '[["' in text or _KEY_LIKE_A_NUMBER.search(text) is not None:
        return None
    if text.count("[") + text.count("{") > DEPTH_MAX and is_deeper(value, DEPTH_MAX):
        return None
    return text


def _write(value: Any, parts: list[str], line: str, depth: int) -> None:
    if depth > DEPTH_MAX:
        raise JsonError(f"nested deeper than {DEPTH_MAX}")
    if isinstance(value, ObjectKey):
        _write(dict(value), parts, "", depth)
    elif isinstance(value, Mapping):
        members = sorted(((key, member) for key, member in value.items() if member is not None), key=_key_order)
        _write_block("{}", [(_key_text(key), member) for key, member in members], parts, line, depth)
    elif isinstance(value, (list, tuple, set, frozenset)):
        _write_block("[]", [("", member) for member in value], parts, line, depth)
    else:
        parts.append(_quote(value))


def _write_block(brackets: str, members: list[tuple[str, Any]], parts: list[str], line: str, depth: int) -> None:
    parts.append(brackets[0])
    indent = line + "\t" * (depth + 1) if line else ""
    for index, (prefix, member) in enumerate(members):
        parts.append("," + indent + prefix if index else indent + prefix)
        _write(member, parts, line, depth + 1)
    if members and line:
        parts.append(line + "\t" * depth)
    parts.append(brackets[1])


def _key_order(member: tuple[Any, Any]) -> tuple[int, Any]:
    key = member[0]
    return (0, key) if isinstance(key, int) else (1, str(key))


def _key_text(key: Any) -> str:
    if isinstance(key, ObjectKey):
        return write_fastjson(key).decode("utf-8") + ":"
    return (str(key) if isinstance(key, int) else _quote(str(key))) + ":"


# ---- reading what a standard parser refuses ----

# An escaped half without its other half beside it; or behind a backslash that may itself be escaped.
_LONE_SURROGATE = re.compile(
    r"\\\\u[dD][89a-fA-F]|\\u[dD][89abAB]..(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F]", re.DOTALL
)
_BARE_KEY = re.compile(r"(?<=[{,\s])([+-]?[0-9]++)(?=\s*+:)")
_SPACE = re.compile(r"(?:[\s\x00]|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_NUMBER = re.compile(r"[+-]?(?:[0-9]{1,64}(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
_WORD = re.compile(r"[^\s\x00,:{}\[\]\"'/]+")
_PLAIN = re.compile(r"[^\"'\\]*")
_LITERALS: dict[str, Any] = {
    "true": True,
    "false": False,
    "null": None,
    "undefined": None,
    "NaN": float("nan"),
    "Infinity": float("inf"),
    "-Infinity": float("-inf"),
}
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\x0b", "0": "\0", "F": "\f"}


class _Reader:
    """One pass over a text, by the rules of fastjson's DefaultJSONParser with its default features."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def read(self) -> Any:
        value = self._value(0)
        if self._peek():
            raise self._error("text behind the value")
        return value

    def _error(self, cause: str) -> JsonError:
        before = self._text[: self._at]
        return JsonError(f"{cause} at line {before.count(chr(10)) + 1}, column {len(before) - before.rfind(chr(10))}")

    def _peek(self) -> str:
        """The next character after blanks and comments; "" at the end."""
        match = _SPACE.match(self._text, self._at)
        assert match is not None
        self._at = match.end()
        return self._text[self._at : self._at + 1]

    def _value(self, depth: int) -> Any:
        if depth > DEPTH_MAX:
            raise self._error(f"nested deeper than {DEPTH_MAX}")
        character = self._peek()
        if character == "{":
            return self._object(depth)
        if character == "[":
            return self._array(depth)
        if character in ('"', "'"):
            return self._string()
        number = _NUMBER.match(self._text, self._at)
        if number is not None and (word := _WORD.match(self._text, self._at)) is not None:
            suffix = word.group()[len(number.group()) :]
            if suffix in ("", "L", "S", "B", "F", "D"):
                self._at = word.end()
                return _number_of(number.group(), suffix)
        return self._literal(depth)

    def _literal(self, depth: int) -> Any:
        word = _WORD.match(self._text, self._at)
        if word is None:
            raise self._error("no value")
        name = word.group()
        if name in ("Set", "TreeSet"):
            self._at = word.end()
            if self._peek() != "[":
                raise self._error(f"{name} without [")
            return self._array(depth)
        if name not in _LITERALS:
            raise self._error("no value")
        self._at = word.end()
        return _LITERALS[name]

    def _object(self, depth: int) -> dict[Any, Any]:
        self._at += 1
        members: dict[Any, Any] = {}
        for _ in self._members("}"):
            key = self._key(depth)
            if self._peek() != ":":
                raise self._error("expected : behind a key")
            self._at += 1
            members[key] = self._value(depth + 1)
        return members

    def _array(self, depth: int) -> list[Any]:
        self._at += 1
        return [self._value(depth + 1) for _ in self._members("]")]

    def _members(self, end: str) -> Iterator[None]:
        """Stops at each member. At least one comma has to stand between two members; more are accepted."""
        separated = True
        while (character := self._peek()) != end:
            if character == ",":
                self._at += 1
                separated = True
            elif not separated or not character:
                raise self._error(f"expected , or {end}")
            else:
                yield
                separated = False
        self._at += 1

    def _key(self, depth: int) -> Any:
        character = self._peek()
        if character in ('"', "'"):
            return self._string()
        if character in ("{", "["):
            return _frozen(self._value(depth + 1))
        word = _WORD.match(self._text, self._at)
        if word is None:
            raise self._error("no key")
        self._at = word.end()
        number = re.fullmatch(r"([+-]?[0-9]+)[LSB]?", word.group())
        return number.group(1) if number is not None else word.group()

    def _string(self) -> str:
        quote = self._text[self._at]
        self._at += 1
        parts: list[str] = []
        while True:
            plain = _PLAIN.match(self._text, self._at)
            assert plain is not None
            parts.append(plain.group())
            self._at = plain.end()
            character = self._text[self._at : self._at + 1]
            self._at += 1
            if character == quote:
                return "".join(parts).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            if not character:
                raise self._error("string without end")
            parts.append(self._escape() if character == "\\" else character)

    def _escape(self) -> str:
        escape = self._text[self._at : self._at + 1]
        self._at += 1
        if escape in ("u", "x"):
            size = 4 if escape == "u" else 2
            digits = self._text[self._at : self._at + size]
            if not re.fullmatch(rf"[0-9a-fA-F]{{{size}}}", digits):
                raise self._error("bad escape")
            self._at += size
            return chr(int(digits, 16))
        if not escape:
            raise self._error("string without end")
        return _ESCAPES.get(escape, escape)


def _number_of(text: str, suffix: str) -> int | float:
    if suffix in ("F", "D") or any(mark in text for mark in ".eE"):
        return float(text)
    return int(text)


def _frozen(value: Any) -> Any:
    """A value in a form that can be a key: hashable in all its parts."""
    if isinstance(value, dict):
        return ObjectKey(sorted((str(key), _frozen(member)) for key, member in value.items()))
    if isinstance(value, list):
        return tuple(_frozen(member) for member in value)
    return value


# ---- references ----

_CIRCLE = "references lead in a circle"
_STEP = re.compile(r"\.((?:\\.|[^.\[\\])+)|\[([0-9]{1,9})\]")


def _resolve_references(root: Any) -> Any:
    """Replaces each {"$ref": path} by the object that the path names; $ is the root. Raises JsonError for references that form a circle, as
    those to the object itself (@) and to its parent (..) do, and for those that lead to more than MEMBERS_MAX members."""

    def target(path: str) -> Any:
        if path in ("@", ".."):
            raise JsonError(_CIRCLE)
        if not path.startswith("$"):
            return None
        found, position = root, 1
        while position < len(path):
            step = _STEP.match(path, position)
            if step is None:
                return None
            name = re.sub(r"\\(.)", r"\1", step.group(1) or "")
            if isinstance(found, dict) and name in found:
                found = found[name]
            elif isinstance(found, list) and step.group(2) and int(step.group(2)) < len(found):
                found = found[int(step.group(2))]
            else:
                return None
            position = step.end()
        return found

    def is_reference(value: Any) -> bool:
        return isinstance(value, dict) and len(value) == 1 and isinstance(value.get("$ref"), str)

    if not isinstance(root, (dict, list)):
        return root
    pending: list[Any] = [root]
    while pending:
        value = pending.pop()
        slots = list(value.items()) if isinstance(value, dict) else list(enumerate(value))
        for slot, member in slots:
            if is_reference(member):
                value[slot] = target(member["$ref"])
            elif isinstance(member, (dict, list)):
                pending.append(member)
    _refuse_growth(root)
    return root


def _refuse_growth(root: dict[Any, Any] | list[Any]) -> None:
    counts: dict[int, int] = {}  # by id: the members of what was walked, with all that they hold
    path: list[tuple[Any, Iterator[Any]]] = []  # from the root to where the walk is
    on_path: set[int] = set()

    def enter(value: Any) -> None:
        path.append((value, iter(value.values() if isinstance(value, dict) else value)))
        on_path.add(id(value))
        counts[id(value)] = len(value)

    enter(root)
    while path:
        value, members = path[-1]
        for member in members:
            if not isinstance(member, (dict, list)):
                continue
            if id(member) in on_path:
                raise JsonError(_CIRCLE)
            if id(member) not in counts:
                enter(member)
                break
            counts[id(value)] += counts[id(member)]
        else:
            path.pop()
            on_path.remove(id(value))
            if path:
                counts[id(path[-1][0])] += counts[id(value)]
        if counts[id(value)] > MEMBERS_MAX:
            raise JsonError(f"references stand for more than {MEMBERS_MAX} members")
