"""Messages that a push consumer works on for longer than they are invisible: when to renew each handle, and when to stop.
RocketMQ: DefaultReceiptHandleManager, ReceiptHandleGroup, RenewStrategyPolicy (5.3.3 proxy/service/receipt/).

Decisions only: events and the time come in, requests to brokers go out. Where acknowledgements are native, the native side is told which
messages are held. When it has acknowledged one, the message is missing there when its renewal is due, and is not renewed. Messages that
were received natively come here once they have been held for a while (`adopt`); most are acknowledged before that.

Bounds   HANDLES_MAX in all. A message that comes when there are that many is not renewed, and is delivered again when its time is over.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from .._core.proxy import Proxy
from .handles import ReceiptHandle
from .settings import ProxySettings

HANDLES_MAX: Final = 200_000
RENEWED_FOR_MS: Final = (60_000, 180_000, 300_000, 600_000, 1_800_000, 3_600_000)


@dataclass(slots=True)
class Held:
    """A message that a client is working on."""

    client_id: str
    group: str
    topic: str
    message_id: str
    first: str
    """The handle that the client knows."""
    handle: ReceiptHandle
    since_ms: int
    pause_ms: int
    """After what time it comes again once it is held for too long."""
    lite_topic: str = ""
    """Where it was popped from, of a lite consumer's."""
    renewed: int = 0
    failed: int = 0
    is_asked: bool = False
    """A renewal is under way."""

    @property
    def key(self) -> tuple[str, str, str]:
        return self.client_id, self.group, self.first


@dataclass(frozen=True, slots=True)
class Renewal:
    """A request to a broker: that the message stay invisible for that long from now on."""

    held: Held
    invisible_ms: int
    is_last: bool


class Renewals:
    """All messages that clients are working on. `native` may have acknowledged some of them."""

    def __init__(self, settings: ProxySettings, native: Proxy | None = None) -> None:
        self._settings = settings
        self._native = native
        self._held: dict[tuple[str, str, str], Held] = {}
        self._lite: dict[tuple[str, str], int] = {}

    def __len__(self) -> int:
        return len(self._held)

    def add(self, held: Held) -> None:
        if len(self._held) < HANDLES_MAX and (self._native is None or self._native.hold(*held.key)):
            self._drop(held.key)
            self._held[held.key] = held
            if held.lite_topic:
                owner = held.client_id, held.group
                self._lite[owner] = self._lite.get(owner, 0) + 1

    def lite_count(self, client_id: str, group: str) -> int:
        """How many messages of lite topics the client is working on."""
        return self._lite.get((client_id, group), 0)

    def _drop(self, key: tuple[str, str, str]) -> Held | None:
        held = self._held.pop(key, None)
        if held is not None and held.lite_topic:
            owner = held.client_id, held.group
            self._lite[owner] -= 1
            if not self._lite[owner]:
                del self._lite[owner]
        return held

    def adopt(self, held: Held) -> None:
        """Takes over a message from the native side. If it is acknowledged there meanwhile, that is noticed when its renewal is due."""
        self._held[held.key] = held

    def take(self, client_id: str, group: str, handle: str) -> Held | None:
        """Removes a message that is done with, or whose invisible time its client changes. The result has its current handle."""
        key = (client_id, group, handle)
        return self._drop(key) if self._forget(key) else None

    def _forget(self, key: tuple[str, str, str]) -> bool:
        """Makes the native side forget a message. False if it was taken there before; it is then forgotten here, too."""
        if self._native is None or self._native.forget_held(*key):
            return True
        self._drop(key)
        return False

    def due(self, now_ms: int, is_online: Callable[[str, str], bool]) -> list[Renewal]:
        """The renewals to ask for now. Messages of a client that is gone become visible again soon."""
        found = []
        for held in list(self._held.values()):
            if held.is_asked:
                continue
            if not is_online(held.client_id, held.group):
                if self._forget(held.key):
                    self._drop(held.key)
                    found.append(Renewal(held, self._settings.invisible_time_millis_when_clear, is_last=True))
            elif held.handle.visible_ms - now_ms <= self._settings.renew_ahead_time_millis:
                if (renewal := self._renewal(held, now_ms)) is not None:
                    found.append(renewal)
            elif self._native is not None and not self._native.is_held(*held.key):
                self._drop(held.key)
        return found

    def _renewal(self, held: Held, now_ms: int) -> Renewal | None:
        """The renewal of a message; None if it was acknowledged."""
        if now_ms - held.since_ms >= self._settings.renew_max_time_millis:
            if not self._forget(held.key):
                return None
            self._drop(held.key)
            return Renewal(held, held.pause_ms, is_last=True)
        if self._native is not None and not self._native.begin_renewal(*held.key):
            self._drop(held.key)
            return None
        held.is_asked = True
        return Renewal(held, RENEWED_FOR_MS[min(held.renewed, len(RENEWED_FOR_MS) - 1)], is_last=False)

    def renewed(self, held: Held, handle: ReceiptHandle) -> None:
        """A broker has renewed the message."""
        held.is_asked = False
        held.handle = handle
        held.renewed += 1
        held.failed = 0
        if self._native is not None:
            self._native.end_renewal(*held.key, handle.text)

    def refused(self, held: Held, *, is_final: bool) -> None:
        """A broker has not renewed the message. After some attempts, or if it never will, the message is given up."""
        held.is_asked = False
        held.failed += 1
        if is_final or held.failed >= self._settings.max_renew_retry_times:
            self.take(*held.key)
        elif self._native is not None:
            self._native.end_renewal(*held.key)

    def all(self) -> list[Held]:
        """Forgets and returns all messages, for a proxy that stops, once nobody acknowledges any more. Those acknowledged natively are not
        among them."""
        held = [each for each in list(self._held.values()) if self._forget(each.key)]
        self._held, self._lite = {}, {}
        return held
