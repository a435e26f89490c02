"""The requests that members send each other, outgoing and incoming. The code that decides gets requests and answers from here and never
sees a socket. DLedger: DLedgerRpcNettyService (0.3.2).

    outbox ─ ask ─► a task each ─ RemotingClient ─► the other member ─► told(sent, answer; None: nothing in time, or nothing to be read)
    port ─ Command ─ answered ─► the decider ─► Response

Threads  one event loop. Bounds: push_timeout_ms for a request; the decider bounds how many are under way.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import ssl
from collections.abc import Callable, Coroutine, Iterable, Mapping

from .._core.errors import ProtocolError, RocketpyError
from .._core.remoting import Request as Command
from ..remoting.client import RemotingClient
from ..remoting.command import Response
from ..remoting.service import Handler
from .bodies import (
    Answer,
    HeartBeatRequest,
    HeartBeatResponse,
    LeadershipTransferRequest,
    Message,
    MetadataResponse,
    PushRequest,
    PushResponse,
    Request,
    VoteRequest,
    VoteResponse,
)
from .codes import DLedgerRequestCode, DLedgerResponseCode
from .identity import Question
from .replica import Sent
from .settings import GroupSettings

log = logging.getLogger(__name__)

ANSWERS: Mapping[
    type[VoteRequest] | type[HeartBeatRequest] | type[PushRequest],
    tuple[DLedgerRequestCode, type[VoteResponse] | type[HeartBeatResponse] | type[PushResponse]],
] = {
    VoteRequest: (DLedgerRequestCode.VOTE, VoteResponse),
    HeartBeatRequest: (DLedgerRequestCode.HEART_BEAT, HeartBeatResponse),
    PushRequest: (DLedgerRequestCode.PUSH, PushResponse),
}


class Exchange:
    """Sends requests to the other members. `ask` any number of times between the constructor and `stop`."""

    def __init__(self, settings: GroupSettings, tls: ssl.SSLContext | None = None) -> None:
        self._settings = settings
        self._client = RemotingClient(tls=tls)
        self._asking: set[asyncio.Task[None]] = set()

    def ask(self, outbox: Iterable[Sent], told: Callable[[Sent, Answer | None], object]) -> None:
        for sent in outbox:
            self._keep(self._ask(sent, told))

    def _keep(self, asking: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(asking)
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    def ask_who(self, questions: Iterable[Question], told: Callable[[Question, MetadataResponse], object]) -> None:
        """Nobody is told where nothing comes in time."""
        for question in questions:
            self._keep(self.ask_one(question, told))

    async def ask_one(self, question: Question, told: Callable[[Question, MetadataResponse], object]) -> None:
        settings = self._settings
        request = Message(group=settings.group, local_id=settings.self_id, remote_id=question.member)
        timeout_s = settings.push_timeout_ms / 1000
        try:
            code = DLedgerRequestCode.METADATA
            response = await self._client.invoke(question.address, code, None, request.encode(), timeout_s=timeout_s)
            answer = MetadataResponse.decode(response.body)
        except (RocketpyError, OSError) as error:
            log.debug("METADATA to %s at %s: %s", question.member, question.address, error)
            return
        told(question, answer)

    async def ask_to_lead(self, member: str, request: LeadershipTransferRequest, timeout_s: float) -> Message | None:
        """The member's answer; None if there is none in time."""
        code, address = DLedgerRequestCode.LEADERSHIP_TRANSFER, self._settings.peers[member]
        try:
            return Message.decode((await self._client.invoke(address, code, None, request.encode(), timeout_s=timeout_s)).body)
        except (RocketpyError, OSError) as error:
            log.debug("%s to %s: %s", code.name, member, error)
            return None

    async def stop(self) -> None:
        """Drops what is under way: nobody gets its answers."""
        tasks = list(self._asking)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._client.stop()

    async def _ask(self, sent: Sent, told: Callable[[Sent, Answer | None], object]) -> None:
        code, kind = ANSWERS[type(sent.request)]
        answer: Answer | None = None
        try:
            timeout_s = self._settings.push_timeout_ms / 1000
            response = await self._client.invoke(self._settings.peers[sent.peer], code, None, sent.request.encode(), timeout_s=timeout_s)
            answer = kind.decode(response.body)
        except (RocketpyError, OSError) as error:
            log.debug("%s to %s: %s", code.name, sent.peer, error)
        told(sent, answer)


def answered(
    kind: type[VoteRequest] | type[HeartBeatRequest] | type[PushRequest],
    group: str,
    decide: Callable[[Request], Answer | None],
    command: Command,
) -> Response:
    """The response to a request, as `decide` gives it; decide returns None while this member takes no part."""
    try:
        request = kind.decode(command.body)
    except ProtocolError as error:
        log.warning("%s from %s refused: %s", kind.__name__, command.remote_address, error)
        return response_of(Message(code=DLedgerResponseCode.UNEXPECTED_ARGUMENT))
    _, answer_kind = ANSWERS[kind]
    return response_of(decide(request) or answer_kind(group=group, code=DLedgerResponseCode.DISK_ERROR))


def member_handlers(group: str, decide: Callable[[Request], Answer | None], metadata: Handler) -> dict[int, Handler]:
    """By request code, what a member answers at its port."""
    asked: dict[int, Handler] = {int(code): functools.partial(answered, kind, group, decide) for kind, (code, _) in ANSWERS.items()}
    refused = (DLedgerRequestCode.APPEND, DLedgerRequestCode.GET, DLedgerRequestCode.PULL, DLedgerRequestCode.LEADERSHIP_TRANSFER)
    return {**asked, DLedgerRequestCode.METADATA: metadata, **dict.fromkeys(refused, unsupported)}


def response_of(message: Message) -> Response:
    return Response(DLedgerResponseCode.SUCCESS, body=message.encode())


def unsupported(command: Command) -> Response:
    """To clients, who neither append nor read here, and of members without entries in native hands to who would hand a lead over."""
    return response_of(Message(code=DLedgerResponseCode.UNSUPPORTED))
