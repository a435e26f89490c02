"""Behind a controller, a change of topics, groups or users is answered only once a replica in sync has it, too: the master may be replaced
at any time, and its tables are not in the log. RocketMQ answers at once, so a topic that was made in the seconds before a switch is lost
(apache/rocketmq#9804).

    operator ─ change ─► on disk here ─ NOTIFY_BROKER_ROLE_CHANGED with catchUp ─► a slave of ours copies now ─ its versions ─► answer

Users have no version: a slave that has caught up since the request has them, or says that it could not copy them.
RocketMQ's slaves take the request for a notice of something that they know already, and their answer has no versions: they are not waited
for.

Threads  one event loop. Bounds: metadataAckMillis for each answer; 0 asks nobody.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
from collections.abc import Callable, Mapping
from typing import Final

from .._core.errors import RocketpyError
from .._core.remoting import Command, Request
from ..remoting.bodies import DataVersion
from ..remoting.codes import RequestCode, ResponseCode
from ..remoting.command import CommandError, Response
from ..remoting.headers import HeaderError
from ..remoting.service import Handler
from .group_members import group_members
from .parts import Parts

log = logging.getLogger(__name__)

CATCH_UP: Final = "catchUp"
TOPICS_VERSION: Final = "topicsVersion"
GROUPS_VERSION: Final = "groupsVersion"
CHANGES: Final = frozenset(
    {
        RequestCode.UPDATE_AND_CREATE_TOPIC,
        RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC,
        RequestCode.UPDATE_AND_CREATE_TOPIC_LIST,
        RequestCode.DELETE_TOPIC_IN_BROKER,
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
        RequestCode.DELETE_SUBSCRIPTIONGROUP,
    }
)
USER_CHANGES: Final = frozenset(
    {
        RequestCode.AUTH_CREATE_USER,
        RequestCode.AUTH_UPDATE_USER,
        RequestCode.AUTH_DELETE_USER,
        RequestCode.AUTH_CREATE_ACL,
        RequestCode.AUTH_UPDATE_ACL,
        RequestCode.AUTH_DELETE_ACL,
    }
)


def versions(parts: Parts) -> Mapping[str, str]:
    """The versions of our tables, as fields of an answer."""
    return {TOPICS_VERSION: parts.topics.version.encode().decode(), GROUPS_VERSION: parts.groups.version.encode().decode()}


class MetadataAcks:
    """Makes a master, where masters are elected, answer changes of tables only when a replica has them."""

    def __init__(self, parts: Parts, others_in_sync: Callable[[], frozenset[int]]) -> None:
        """others_in_sync: the broker ids in the in-sync set except ours; empty on a slave."""
        self._parts = parts
        self._others_in_sync = others_in_sync

    def guard(self, handlers: Mapping[int, Handler]) -> dict[int, Handler]:
        """The same handlers, of which those in CHANGES answer later; those in USER_CHANGES too, where users are copied
        (copied_users.py)."""
        changes = CHANGES | USER_CHANGES if self._parts.auth.stats() else CHANGES
        return {code: functools.partial(self._answer, handler) if code in changes else handler for code, handler in handlers.items()}

    async def _answer(self, handler: Handler, request: Request) -> Response | None:
        found = handler(request)
        response = await found if inspect.isawaitable(found) else found
        if response is not None and response.code == ResponseCode.SUCCESS:
            await self.held()
        return response

    async def held(self) -> None:
        """Returns when a replica has the tables as they are now. Raises CommandError if none has; the change stays."""
        wait_s = self._parts.settings.metadata_ack_ms / 1000
        ids = self._others_in_sync()
        if not wait_s or not ids:
            return
        parts = self._parts
        wanted = (parts.topics.version, parts.groups.version)
        members = await group_members(parts.client, parts.registration.name_servers, parts.registration.identity)
        asked = [address for broker_id, address in members if broker_id in ids]
        answers = await asyncio.gather(*(self._has(address, wanted, wait_s) for address in asked))
        if answers and True not in answers:
            raise CommandError(
                ResponseCode.SYSTEM_ERROR,
                f"the change is made and on disk here, but no replica in sync has it yet ({', '.join(sorted(asked))}): it would be gone "
                "with this master; ask for it again, or set metadataAckMillis=0 to be answered without them",
            )

    async def _has(self, address: str, wanted: tuple[DataVersion, DataVersion], wait_s: float) -> bool:
        try:
            answer = await self._parts.client.call(address, RequestCode.NOTIFY_BROKER_ROLE_CHANGED, {CATCH_UP: "true"}, timeout_s=wait_s)
            return covers(answer, wanted)
        except CommandError as error:
            log.warning("replica %s could not copy what was changed: %s", address, error)
            return error.code != ResponseCode.SYSTEM_ERROR  # RocketMQ's would have a master in it
        except (RocketpyError, HeaderError) as error:
            log.warning("replica %s does not say whether it has what was changed: %s", address, error)
            return False


def covers(answer: Command, wanted: tuple[DataVersion, DataVersion]) -> bool:
    """Whether the tables of the broker that answers are at least as new as these, for topics and groups. An answer without versions is
    RocketMQ's."""
    if TOPICS_VERSION not in answer.fields:
        return True
    has = [DataVersion.decode(answer.fields.get(name, "").encode()) for name in (TOPICS_VERSION, GROUPS_VERSION)]
    return all((own.state_version, own.counter) >= (other.state_version, other.counter) for own, other in zip(has, wanted, strict=True))
