"""The codec of command headers: a frozen dataclass is the table, encode and decode are made from it.
RocketMQ: CommandCustomHeader, RemotingCommand.decodeCommandCustomHeader, makeCustomHeaderToNet, @CFNotNull (5.3.3 remoting/).

    @wire_header(RequestCode.GET_KV_CONFIG)
    class GetKVConfigRequestHeader(Header):
        namespace: str            # no default: required, its absence is "the custom field <namespace> is null"
        key: str | None = None    # absent fields take the default; None is not sent

On the wire every value is text: numbers in decimal, booleans as true/false. A field's wire name is its attribute in camel case unless
it is `renamed`. RocketMQ 5.x logs a missing or unreadable field and goes on with null, which ends as a NullPointerException somewhere
else; here both are refused where they are read, with the text of older releases.
"""

from __future__ import annotations

import dataclasses
import re
import threading
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Self, TypeVar, dataclass_transform

from ..codes import RequestCode

I32 = Annotated[int, 32]
"""Java's int or Integer."""
I64 = Annotated[int, 64]
"""Java's long or Long."""


class HeaderError(ValueError):
    """A header lacks a required field, or holds a value that cannot be read. The message is the remark for the peer."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Field:
    """How one attribute is read from a header and written into it."""

    attribute: str
    wire_name: str
    required: bool
    default: Any
    read: Callable[[str, str], Any]
    write: Callable[[Any], str]


_NUMBER = re.compile(r"[+-]?[0-9]{1,20}")


def _integer_reader(bits: int) -> Callable[[str, str], int]:
    limit = 1 << (bits - 1)

    def read(name: str, text: str) -> int:
        if (len(text) <= 20 and text.isascii() and text.isdigit()) or _NUMBER.fullmatch(text):
            value = int(text)
            if -limit <= value < limit:
                return value
        raise HeaderError(f"the custom field <{name}> is not a {bits}-bit number: {text[:64]!r}")

    return read


def _read_text(name: str, text: str) -> str:
    return text


def _read_boolean(name: str, text: str) -> bool:
    return text.lower() == "true"


def _write_boolean(value: bool) -> str:
    return "true" if value else "false"


_READERS: dict[object, tuple[Callable[[str, str], Any], Callable[[Any], str]]] = {
    str: (_read_text, str),
    bool: (_read_boolean, _write_boolean),
    32: (_integer_reader(32), str),
    64: (_integer_reader(64), str),
}


def _codec_of(hint: Any) -> tuple[Callable[[str, str], Any], Callable[[Any], str]]:
    """The reader and the writer for an annotation: str, bool, I32, I64, each perhaps with `| None`."""
    for part in typing.get_args(hint):
        if part is not type(None) and type(None) in typing.get_args(hint):
            return _codec_of(part)
    if typing.get_origin(hint) is Annotated:
        return _READERS[typing.get_args(hint)[1]]
    return _READERS[hint]


def _camel_case(attribute: str) -> str:
    head, *rest = attribute.split("_")
    return head + "".join(word.capitalize() for word in rest)


def renamed(wire_name: str, default: Any = dataclasses.MISSING) -> Any:
    """A field whose wire name is not its attribute's name in camel case."""
    return dataclasses.field(default=default, metadata={"wire": wire_name})


class Header:
    """The base class of all headers. Instances are immutable and compare by value."""

    __slots__ = ()
    plan: ClassVar[tuple[_Field, ...]] = ()

    @classmethod
    def decode(cls, fields: Mapping[str, str]) -> Self:
        """Makes a header of the fields of a command; unknown fields are ignored. Raises HeaderError."""
        values: dict[str, Any] = {}
        for field in cls.plan:
            text = fields.get(field.wire_name)
            if text is not None:
                values[field.attribute] = field.read(field.wire_name, text)
            elif field.required:
                raise HeaderError(f"the custom field <{field.wire_name}> is null")
        header = cls.__new__(cls)
        vars(header).update(values)  # as its __init__ would, which has to ask object for each; the class has the other fields' defaults
        header.check()
        return header

    def encode(self) -> dict[str, str]:
        """The fields as they are sent; those that are None are left out."""
        fields: dict[str, str] = {}
        for field in self.plan:
            value = getattr(self, field.attribute)
            if value is not None:
                fields[field.wire_name] = field.write(value)
        return fields

    def check(self) -> None:
        """Raises HeaderError for values that their types cannot rule out. RocketMQ: checkFields."""


_HeaderClass = TypeVar("_HeaderClass", bound=Header)
_BY_REQUEST: dict[int, type[Header]] = {}


class _PlanOnDemand:
    """Stands in for `plan` until it is first read: most processes use only a few of the 150 headers, and to make all of them at import
    takes 0.2 s."""

    def __get__(self, instance: object, owner: type[Header]) -> tuple[_Field, ...]:
        _complete(owner)
        return owner.plan


_completing = threading.RLock()
"""Servers in a test's process have a thread of their own, beside those of its clients."""


def _init(self: Header, **values: Any) -> None:
    """Of all headers, complete or not: another thread may be making one of them now."""
    fields = vars(self)
    for field in type(self).plan:
        if field.attribute in values:
            fields[field.attribute] = values.pop(field.attribute)
        elif field.required:
            raise TypeError(f"{type(self).__name__} needs {field.attribute}")
        else:
            fields[field.attribute] = field.default
    if values:
        raise TypeError(f"{type(self).__name__} has no {', '.join(values)}")


def _complete(cls: type[Header]) -> None:
    """Turns a declared header, and those it extends, into dataclasses with their codec, in place."""
    with _completing:
        _complete_alone(cls)


def _complete_alone(cls: type[Header]) -> None:
    for declared in reversed(cls.__mro__):
        if isinstance(declared.__dict__.get("plan"), _PlanOnDemand):
            made: Any = dataclasses.dataclass(frozen=True, kw_only=True, init=False)(declared)
            hints = typing.get_type_hints(made, include_extras=True)
            made.plan = tuple(
                _Field(
                    field.name,
                    field.metadata.get("wire") or _camel_case(field.name),
                    field.default is dataclasses.MISSING,
                    field.default,
                    *_codec_of(hints[field.name]),
                )
                for field in dataclasses.fields(made)
            )


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(renamed,))
def wire_header(*codes: RequestCode) -> Callable[[type[_HeaderClass]], type[_HeaderClass]]:
    """Declares a class as the header of these requests. At its first use it becomes a frozen, keyword-only dataclass with a codec."""

    def decorate(cls: type[_HeaderClass]) -> type[_HeaderClass]:
        declared: Any = cls
        declared.plan = _PlanOnDemand()
        declared.__init__ = _init
        for code in codes:
            _BY_REQUEST[code] = cls
        return cls

    return decorate


def header_for(code: int) -> type[Header] | None:
    """The header class of a request code; None for requests without a header."""
    return _BY_REQUEST.get(code)


@wire_header()
class RpcRequestHeader(Header):
    """What a request may say about the broker that it is meant for (static topics, proxies)."""

    ns: str | None = None
    nsd: bool | None = None
    bname: str | None = None
    oway: bool | None = None


@wire_header()
class TopicRequestHeader(RpcRequestHeader):
    lo: bool | None = None


@wire_header()
class TopicQueueRequestHeader(TopicRequestHeader):
    pass
