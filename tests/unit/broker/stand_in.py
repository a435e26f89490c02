"""A controller of a few lines, and a log that says of itself what a test wants: what stands behind a broker's standing in tests."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

from rocketpy._core.errors import NetworkError
from rocketpy._core.remoting import Command, decode_command, encode_command
from rocketpy.remoting.codes import FLAG_RESPONSE, RequestCode, ResponseCode
from rocketpy.remoting.command import Fields, encode_fields
from rocketpy.remoting.replica_bodies import SyncStateSet

CONTROLLER = "127.0.0.1:9878"


def answered(code: int, remark: str | None = None, fields: dict[str, str] | None = None, body: bytes = b"") -> Command:
    return decode_command(encode_command(code, flag=FLAG_RESPONSE, remark=remark, fields=fields, body=body))


@dataclass
class Controller:
    """Of one set of brokers. It elects whoever asks first, and knows no time."""

    ids: dict[int, str] = field(default_factory=dict)
    """Check codes by id."""
    addresses: dict[int, str] = field(default_factory=dict)
    master: int | None = None
    epoch: int = 0
    known: SyncStateSet = field(default_factory=SyncStateSet)
    is_away: bool = False
    loses_answers: set[int] = field(default_factory=set)
    """Codes of requests that are carried out without an answer."""
    fails: dict[int, int] = field(default_factory=dict)
    """Codes of requests that are not carried out, and of their answers."""
    remark: str = "whether it comes true later is open"
    """Of those answers."""
    gives_up: set[int] = field(default_factory=set)
    """Codes of requests that are carried out, and answered with SYSTEM_ERROR: the log was slow."""
    beats: list[dict[str, str]] = field(default_factory=list)
    requests: list[int] = field(default_factory=list)

    async def invoke(self, address: str, code: int, fields: Fields = None, body: bytes = b"", *, timeout_s: float = 0) -> Command:
        if self.is_away or address != CONTROLLER:
            raise NetworkError(f"nobody answers at {address}")
        self.requests.append(code)
        failed = answered(self.fails.get(code, ResponseCode.SYSTEM_ERROR), remark=self.remark)
        answer = failed if code in self.fails else self._answer(code, dict(encode_fields(fields) or {}), body)
        if code in self.loses_answers:
            raise NetworkError("the answer was lost")
        return failed if code in self.gives_up else answer

    async def invoke_oneway(self, address: str, code: int, fields: Fields = None, body: bytes = b"", *, timeout_s: float = 0) -> None:
        if self.is_away:
            raise NetworkError(f"nobody answers at {address}")
        self.beats.append(dict(encode_fields(fields) or {}))

    def elect(self, broker_id: int) -> None:
        self.master, self.epoch = broker_id, self.epoch + 1
        self.known = SyncStateSet(frozenset({broker_id}), self.known.epoch + 1)

    def _answer(self, code: int, fields: dict[str, str], body: bytes) -> Command:
        answers: dict[int, Callable[[dict[str, str], bytes], Command]] = {
            RequestCode.CONTROLLER_GET_METADATA_INFO: lambda *_: answered(0, fields={"controllerLeaderAddress": CONTROLLER}),
            RequestCode.CONTROLLER_GET_NEXT_BROKER_ID: lambda *_: answered(0, fields={"nextBrokerId": str(len(self.ids) + 1)}),
            RequestCode.CONTROLLER_APPLY_BROKER_ID: self._apply,
            RequestCode.CONTROLLER_REGISTER_BROKER: self._register,
            RequestCode.CONTROLLER_ELECT_MASTER: self._elect,
            RequestCode.CONTROLLER_GET_REPLICA_INFO: lambda *_: self._info(),
            RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET: self._alter,
        }
        return answers[code](fields, body)

    def _apply(self, fields: dict[str, str], body: bytes) -> Command:
        broker_id, code = int(fields["appliedBrokerId"]), fields["registerCheckCode"]
        if self.ids.setdefault(broker_id, code) != code:
            return answered(ResponseCode.CONTROLLER_BROKER_ID_INVALID, remark="it is somebody else's")
        return answered(0)

    def _register(self, fields: dict[str, str], body: bytes) -> Command:
        self.addresses[int(fields["brokerId"])] = fields["brokerAddress"]
        return self._info()

    def _elect(self, fields: dict[str, str], body: bytes) -> Command:
        if self.master is None:
            self.elect(int(fields["brokerId"]))
            return self._info()
        answer = self._info()
        return answered(ResponseCode.CONTROLLER_MASTER_STILL_EXIST, fields=answer.fields, body=answer.body)

    def _info(self) -> Command:
        fields = {"masterEpoch": str(self.epoch), "syncStateSetEpoch": str(self.known.epoch)}
        if self.master is not None:
            fields |= {"masterBrokerId": str(self.master), "masterAddress": self.addresses.get(self.master, "")}
        return answered(0, fields=fields, body=self.known.encode())

    def _alter(self, fields: dict[str, str], body: bytes) -> Command:
        wanted = SyncStateSet.decode(body)
        if wanted.ids == self.known.ids:
            return answered(ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED, remark="it is equal")
        if int(fields["masterEpoch"]) != self.epoch:
            return answered(ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH, remark="an old epoch")
        if wanted.epoch != self.known.epoch:
            return answered(ResponseCode.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH, remark="an old set")
        self.known = SyncStateSet(wanted.ids, wanted.epoch + 1)
        return answered(0, body=self.known.encode())


@dataclass
class Log:
    """In place of AutoSwitchHaService."""

    is_slave: bool = True
    last_epoch: int = -1
    confirm_offset: int = 5
    cut_offset: int | None = None
    broker_id: int = -1
    slaves: list[dict[str, Any]] = field(default_factory=list)
    sets: list[tuple[str, list[int]]] = field(default_factory=list)
    followed: list[str | None] = field(default_factory=list)
    set_changed: Callable[[], None] = lambda: None

    def log_end(self) -> int:
        return 7

    def connection(self) -> int | None:
        return None

    def open(self, broker_id: int) -> None:
        self.broker_id = broker_id

    def follow(self, ha_address: str | None) -> None:
        self.followed.append(ha_address)

    def agree(self, broker_ids: Collection[int]) -> None:
        self.sets.append(("agreed", sorted(broker_ids)))

    def propose(self, broker_ids: Collection[int]) -> None:
        self.sets.append(("proposed", sorted(broker_ids)))

    def forget_expired(self) -> None: ...

    def followers(self) -> list[dict[str, Any]]:
        return self.slaves

    def watch_set(self, set_changed: Callable[[], None]) -> None:
        self.set_changed = set_changed

    def slave(self, broker_id: int, age_ms: int | None = 0) -> None:
        """One that has caught up joins."""
        row = {"broker_id": broker_id, "caught_up_age_ms": age_ms, "has_caught_up": 1, "is_learner": 0}
        self.slaves = [each for each in self.slaves if each["broker_id"] != broker_id] + [row]
        self.set_changed()
