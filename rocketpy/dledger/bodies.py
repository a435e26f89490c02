"""What members say to each other, and its JSON. DLedger: RequestOrResponse and its subclasses (0.3.2 dledger/protocol/).

The bytes come from whoever reaches the port: decode raises ProtocolError for a value that has the wrong type or does not fit a long.
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass, fields
from typing import Any, Self

from .._core.errors import ProtocolError
from .codes import DLedgerResponseCode, PushType, VoteResult
from .entry import Entry

LONG_MIN, LONG_MAX = -(1 << 63), (1 << 63) - 1
BATCH_MAX = 10_000


@dataclass(slots=True, kw_only=True)
class Message:
    """The members that all requests and responses have. `code` only means something in responses."""

    group: str | None = None
    remote_id: str | None = None
    local_id: str | None = None
    leader_id: str | None = None
    code: int = DLedgerResponseCode.SUCCESS
    term: int = -1

    def encode(self) -> bytes:
        members = {_json_name(field.name): _to_json(getattr(self, field.name)) for field in fields(self)}
        return json.dumps({name: value for name, value in members.items() if value is not None}, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, body: bytes) -> Self:
        try:
            members = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise ProtocolError(f"{cls.__name__} is no JSON: {error}") from None
        if not isinstance(members, dict):
            raise ProtocolError(f"{cls.__name__} is no JSON object")
        values = {}
        for field in fields(cls):
            value = members.get(_json_name(field.name))
            if value is not None:
                values[field.name] = _from_json(field.name, str(field.type), value)
        return cls(**values)


@dataclass(slots=True, kw_only=True)
class VoteRequest(Message):
    """leader_id: the member that wants to lead."""

    ledger_end_index: int = -1
    ledger_end_term: int = -1


@dataclass(slots=True, kw_only=True)
class VoteResponse(Message):
    vote_result: VoteResult = VoteResult.UNKNOWN


@dataclass(slots=True, kw_only=True)
class HeartBeatRequest(Message):
    pass


@dataclass(slots=True, kw_only=True)
class HeartBeatResponse(Message):
    pass


@dataclass(slots=True, kw_only=True)
class PushRequest(Message):
    """One entry, or with batch_entry several (enableBatchPush of DLedger; we never send those)."""

    type: PushType = PushType.APPEND
    commit_index: int = -1
    entry: Entry | None = None
    batch_entry: tuple[Entry, ...] = ()

    @property
    def entries(self) -> tuple[Entry, ...]:
        return self.batch_entry or ((self.entry,) if self.entry is not None else ())


@dataclass(slots=True, kw_only=True)
class PushResponse(Message):
    index: int = -1
    begin_index: int = -1
    end_index: int = -1
    count: int = 0


@dataclass(slots=True, kw_only=True)
class MetadataResponse(Message):
    """instance: which process answers; only rocketpy sets it."""

    peers: dict[str, str] | None = None
    instance: str | None = None


@dataclass(slots=True, kw_only=True)
class LeadershipTransferRequest(Message):
    """transfer_id hands its lead over to transferee_id, once that member has the entry."""

    transfer_id: str | None = None
    transferee_id: str | None = None
    take_leadership_ledger_index: int = -1


Request = VoteRequest | HeartBeatRequest | PushRequest
Answer = VoteResponse | HeartBeatResponse | PushResponse


def _json_name(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.title() for part in rest)


def _to_json(value: object) -> object:
    if isinstance(value, Entry):
        return {
            "magic": value.magic,
            "size": value.size,
            "index": value.index,
            "term": value.term,
            "pos": value.pos,
            "channel": value.channel,
            "chainCrc": value.chain_crc,
            "bodyCrc": value.body_crc,
            "body": base64.b64encode(value.body).decode(),
        }
    if isinstance(value, tuple):
        return [_to_json(each) for each in value]
    return value


def _from_json(name: str, kind: str, value: object) -> Any:
    if kind == "int":
        return _integer(name, value)
    if name == "entry":
        return _entry(value)
    if name == "batch_entry":
        if not isinstance(value, list) or len(value) > BATCH_MAX:
            raise ProtocolError(f"{name} is not a list of at most {BATCH_MAX} entries")
        return tuple(_entry(each) for each in value)
    if name == "peers":
        if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
            raise ProtocolError("peers is not an object of texts")
        return value
    if not isinstance(value, str):
        raise ProtocolError(f"{name} is not a text")
    try:
        return {"VoteResult": VoteResult, "PushType": PushType}.get(kind, str)(value)
    except ValueError:
        raise ProtocolError(f"{name} is {value[:40]!r}, which is unknown") from None


def _integer(name: str, value: object, low: int = LONG_MIN, high: int = LONG_MAX) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise ProtocolError(f"{name} is not a number from {low} to {high}")
    return value


def _entry(value: object) -> Entry:
    if not isinstance(value, dict):
        raise ProtocolError("an entry is not an object")
    try:
        body = base64.b64decode(value.get("body") or "", validate=True)
    except (ValueError, TypeError, binascii.Error):
        raise ProtocolError("the body of an entry is no base64") from None
    low, high = -(1 << 31), (1 << 31) - 1
    entry = Entry(
        _integer("index", value.get("index"), 0),
        _integer("term", value.get("term"), 0),
        _integer("pos", value.get("pos"), 0),
        body,
        _integer("magic", value.get("magic"), 1, 1),
        _integer("channel", value.get("channel", 0), low, high),
        _integer("chainCrc", value.get("chainCrc", 0), low, high),
        _integer("bodyCrc", value.get("bodyCrc", 0), low, high),
    )
    if not entry.has_whole_body():
        raise ProtocolError(f"the body of entry {entry.index} does not match its CRC")
    return entry
