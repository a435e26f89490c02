"""What a slave copies from its master besides the commit log: topics, offsets, groups, request modes, how far timers are.
RocketMQ: SlaveSynchronize (5.3.3 broker/slave/).

One table says what is copied: the request that asks for it, how its body is read, and what is done with it. A new kind of state is a new
row.

  * Nothing is copied from a master that does not have our log: if it lost its store, it would remove topics whose messages only we have.
  * Consumer offsets normally move forward only, because after a role change, or when the master was away, its file may be older than what
    consumers have committed here since. They move back in two cases: when they were set back at a master that has been there all the time,
    and when they lie past the end of a light queue, which has begun anew, as the queues of lite topics do.
  * When a topic was deleted at the master, its queues and offsets are deleted here (deleted_topics.py).

Threads  one event loop. A row that fails is logged and tried again the next time; the others are not held up by it.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from .._core.errors import RocketpyError
from .._core.remoting import Command
from ..remoting.codes import RequestCode, ResponseCode
from ..remoting.command import CommandError
from ..remoting.json_codec import read_json
from . import names
from .callers import Caller
from .consumer_offsets import ConsumerOffsets, SavedOffsets, split_key
from .delay_offsets import CopiedDelayOffsets, DelayOffsets, SavedDelayOffsets
from .deleted_topics import DeletedTopics
from .masters_answers import LoggedAnswers, MastersAnswers
from .parts import SavedStates
from .queue_mappings import QueueMappings, SavedMappings
from .request_modes import RequestModes
from .subscriptions import GroupTable, SavedGroups
from .timers import CopiedCheckpoint, FollowedTimers
from .topic_deletion import TopicDeletion
from .topics import SavedTopics, TopicTable
from .transaction_checks import GROUP as CHECKING_GROUP

log = logging.getLogger(__name__)

TIMEOUT_S = 3.0
TOPICS = "topic config"
USERS, RIGHTS = "users", "rights"
WHOLE_S = 3.0
"""Rounds for new topics may come without end; the rest is not copied less often for that."""


class Log(Protocol):
    """The part of HaService that is needed here."""

    @property
    def is_stranger(self) -> bool: ...

    def connection(self) -> int | None: ...


class Followed(Protocol):
    """What the rows ask of it."""

    def connection(self) -> int | None:
        """The number of the connection to the master's log. The same number twice means that the master was not away in between."""

    def log_end(self) -> int: ...

    def queue_end(self, topic: str, queue_id: int) -> int: ...

    def queued_end(self) -> int:
        """The log offset below which all messages are in their queues."""


def _read_json(answer: Command) -> Any:
    return read_json(answer.body) if answer.body else None


@dataclass(frozen=True, slots=True)
class CopiedState:
    """One row of the table. `take` returns True if something changed and has to be saved."""

    name: str
    code: RequestCode
    take: Callable[[Any], object]
    save: Callable[[], Awaitable[object]] | None
    """None: what took it keeps it."""
    asked: Callable[[str], object] | None = None
    """Called just before the request goes out, with the master's address."""
    finish: Callable[[], Awaitable[object]] | None = None
    """What is left to do after each answer, whether it changed anything or not."""
    read: Callable[[Command], Any] = _read_json
    """Makes of an answer what `take` gets. Raises ValueError."""


class SlaveSynchronize:
    """Copies the master's tables. `follow(address)` whenever the master is known; `run_due()` every few seconds, and at once when is_due is
    set."""

    def __init__(self, caller: Caller, states: tuple[CopiedState, ...], own_log: Log) -> None:
        self._caller = caller
        self._states = states
        self._own_log = own_log
        self._failing: set[str] = set()
        self.master_address: str | None = None
        self.is_due = asyncio.Event()
        self._is_for_topics = False  # is_due, for new topics only
        self._whole_connection: int | None = None  # the log's, in the last round that copied everything
        self._whole_s = 0.0
        self._copied_connection: int | None = None  # the log's, when all of a round had been copied last
        self.is_standing_in = False
        """Nothing is copied from a master that this broker stands in for, nor is an answer taken that is under way."""
        self._has_complained = False
        self._is_waiting = False
        self._rounds = asyncio.Lock()  # one at a time: an older answer behind a newer one looks like offsets that were set back

    def follow(self, address: str | None) -> None:
        if address and address != self.master_address:
            log.info("Update master address from %s to %s", self.master_address, address)
            self.master_address = address
            self._is_for_topics = False
            self.is_due.set()

    def leave(self) -> None:
        """There is no master to copy from any more. An answer that is still under way is ignored."""
        self.master_address = None

    def is_to_copy(self) -> None:
        """The master has just proved to have our log, which run_once waits for, or a queue's first message has come: its topic may be one
        that was not there when we copied last, and with the master it would be lost."""
        if self.master_address is None:
            return
        is_known = self._own_log.connection() == self._whole_connection is not None
        self._is_for_topics = is_known and (self._is_for_topics or not self.is_due.is_set())
        self.is_due.set()

    @property
    def has_copied(self) -> bool:
        """All that this slave knows besides its log is of the master whose log it has, since it is connected to it."""
        return self._own_log.connection() == self._copied_connection is not None

    async def run_due(self) -> int:
        """As run_once, but of topics only where a new one is all that there may be and the rest was copied a moment ago."""
        is_for_topics, self._is_for_topics = self._is_for_topics, False
        return await self.run_once(is_for_topics=is_for_topics)

    async def run_once(self, *, is_for_topics: bool = False) -> int:
        """Copies everything from the master. Returns how many states changed. Does nothing without a master."""
        if self.is_standing_in:
            return 0
        if self.master_address is None:
            if not self._has_complained:
                log.warning("no name server knows a master with this brokerName and brokerClusterName: there is nobody to follow yet")
            self._has_complained = True
            return 0
        if self._own_log.is_stranger:
            if not self._is_waiting:
                log.info("nothing is copied from master %s until its commit log has proved to be ours", self.master_address)
            self._is_waiting = True
            return 0
        self._is_waiting = False
        changed = 0
        async with self._rounds:
            address, connection, now_s = self.master_address, self._own_log.connection(), asyncio.get_running_loop().time()
            is_whole = not is_for_topics or now_s - self._whole_s >= WHOLE_S
            if is_whole:
                self._whole_connection, self._whole_s = connection, now_s
            for state in self._states if is_whole else [state for state in self._states if state.name == TOPICS]:
                if self.master_address != address or self._own_log.is_stranger:  # another one came meanwhile, and waits its turn
                    break
                changed += await self._copy(state, address)
            if is_whole and self.master_address == address and not self._failing and self._own_log.connection() == connection:
                self._copied_connection = connection
        return changed

    async def settled(self) -> None:
        """Returns when no round is under way."""
        async with self._rounds:
            pass

    async def catch_up(self, *, with_users: bool = False) -> None:
        """Copies now: our log may hold messages of topics that were made since the last round. Raises CommandError when the master's
        topics cannot be had; with_users: or its users."""
        await self.run_once()
        if self.master_address is not None and (self._own_log.is_stranger or TOPICS in self._failing):
            raise CommandError(
                ResponseCode.SYSTEM_ERROR,
                f"the topics of master {self.master_address} cannot be copied just now: what looks unused here may be new there",
            )
        if with_users and self.master_address is not None and self._failing & {USERS, RIGHTS}:
            raise CommandError(ResponseCode.SYSTEM_ERROR, f"users and rights of master {self.master_address} cannot be copied just now")

    async def _copy(self, state: CopiedState, address: str) -> bool:
        try:
            if state.asked is not None:
                state.asked(address)
            connection = self._own_log.connection()
            answer = await self._caller.call(address, state.code, timeout_s=TIMEOUT_S)
            if self.master_address != address or self.is_standing_in:
                return False
            if self._own_log.connection() != connection:  # what it says of the log may be of another one
                self.is_due.set()
                return False
            is_changed = bool(state.take(state.read(answer)))
            if is_changed and state.save is not None:
                await state.save()
            if state.finish is not None:
                await state.finish()
        except (RocketpyError, CommandError, ValueError, OSError, RecursionError) as error:
            if state.name not in self._failing:  # once per outage, not every few seconds
                cause = f"{error}{_remedy(error)}"
                log.warning("%s could not be copied from master %s: %s; tried again with the next round", state.name, address, cause)
            self._failing.add(state.name)
            return False
        if state.name in self._failing:
            self._failing.discard(state.name)
            log.info("%s are copied from master %s again", state.name, address)
        if is_changed:
            log.info("Update slave %s from master, %s", state.name, address)
        return is_changed


def _remedy(error: Exception) -> str:
    """What to do about a master that does not let this broker in."""
    if not isinstance(error, CommandError) or error.code != ResponseCode.NO_PERMISSION:
        return ""
    return "; innerClientAuthenticationCredentials have to be those of a super user that the master knows: give both brokers the same"


class MasterOffsets:
    """The master's offsets as copied last. `asked` before each request for them."""

    def __init__(self) -> None:
        self._saved: SavedOffsets | None = None
        self._answers = MastersAnswers()
        self.asked = self._answers.asked

    def replace(self, saved: SavedOffsets, connection: int | None) -> SavedOffsets | None:
        """Keeps these. Returns the previous ones if they came from the same master, which has not been away since."""
        before = self._saved if self._answers.follows_on(connection) else None
        self._saved = saved
        return before


class LoggedRows:
    """Rows of the master's consumer offsets that say what its log holds: how far its transaction checks have got, and what was popped. What
    lies below is copied behind all others, or has a checkpoint there, and is never looked at again: they are taken over once our log holds
    what the master's did."""

    def __init__(self, is_logged: Callable[[str, str], bool]) -> None:
        """is_logged: (topic, group)."""
        self._is_logged = is_logged
        self._taken: Mapping[str, Mapping[int, int]] = {}
        self._answers: LoggedAnswers[SavedOffsets] = LoggedAnswers()

    def hold_back(self, copied: SavedOffsets, log_end: int, connection: int | None) -> SavedOffsets:
        """The answer with those rows as of the last answer that our log, which ends at log_end, goes as far as. connection: the log's."""
        logged = self._answers.take(copied, log_end, connection)
        if logged is not None:
            self._taken = self._rows(logged)
        others = copied.offsets.keys() - self._rows(copied).keys()
        return replace(copied, offsets={**{key: copied.offsets[key] for key in others}, **self._taken})

    def _rows(self, saved: SavedOffsets) -> Mapping[str, Mapping[int, int]]:
        return {key: queues for key, queues in saved.offsets.items() if self._is_logged(*split_key(key))}


def is_logged(topics: TopicTable, topic: str, group: str) -> bool:
    """Of what the transaction checks and the revive service read, and of topics that a group pops: they have a retry topic for that."""
    if group in (CHECKING_GROUP, names.REVIVE_GROUP):
        return True
    is_retry = topic.startswith(names.pop_retry_topics("", group))
    return is_retry or any(retry in topics for retry in names.pop_retry_topics(topic, group))


def copied_states(
    topics: TopicTable,
    queue_mappings: QueueMappings,
    offsets: ConsumerOffsets,
    groups: GroupTable,
    modes: RequestModes,
    delay_offsets: DelayOffsets,
    saved: SavedStates,
    own_log: Followed,
    deletion: TopicDeletion,
    timers: FollowedTimers | None,
) -> tuple[CopiedState, ...]:
    """Everything a slave has today, but for users (copied_users.py). timers: None with timerWheelEnable=false."""
    masters_offsets = MasterOffsets()
    masters_delay_offsets = CopiedDelayOffsets(delay_offsets)
    logged_rows = LoggedRows(functools.partial(is_logged, topics))
    deleted = DeletedTopics(topics.is_system_topic)

    def topics_asked(master: str) -> None:
        deleted.asked(master, own_log.connection(), own_log.log_end())

    def offsets_asked(master: str) -> None:
        masters_offsets.asked(master, own_log.connection())

    def take_topics(value: Any) -> bool:
        copied = SavedTopics.from_json(value)
        deleted.take(copied, own_log.connection(), lambda: SavedTopics({config.topic_name: config for config in topics}, topics.version))
        mappings = SavedMappings.of_master(value)
        is_changed = mappings is not None and queue_mappings.replace_all(mappings)
        return topics.replace_all(copied.configs, copied.version) or is_changed

    async def save_topics() -> None:
        await saved.queue_mappings.save()
        await saved.topics.save()

    async def delete_queues() -> None:
        for topic in sorted(deleted.topics):
            if await deletion.delete_old(topic, deleted.log_offset):
                deleted.topics.discard(topic)

    def take_offsets(value: Any) -> bool:
        copied = logged_rows.hold_back(SavedOffsets.from_json(value), own_log.log_end(), own_log.connection())
        before = masters_offsets.replace(copied, own_log.connection())
        has_all = 0 < copied.log_end <= own_log.queued_end()  # that the master's offsets are about
        changed = offsets.merge(copied, forward_only=True, before=before, end_of=own_log.queue_end if has_all else None)
        if deleted.of_offsets:  # made again, the topics would have their messages passed over up to the old offsets
            known = copied.topics
            for topic in deleted.of_offsets - known:
                offsets.delete_topic(topic)
                changed += 1
            deleted.of_offsets &= known  # the master has yet to forget them
        offsets.assign_version(copied.version)
        return changed > 0

    def take_groups(value: Any) -> bool:
        return groups.replace_all(SavedGroups.from_json(value))

    def take_modes(value: Any) -> bool:
        return modes.load(RequestModes.read(value))

    def take_delay_offsets(value: Any) -> bool:
        return masters_delay_offsets.take(SavedDelayOffsets.from_json(value), own_log.log_end(), own_log.connection())

    states = (
        CopiedState(TOPICS, RequestCode.GET_ALL_TOPIC_CONFIG, take_topics, save_topics, topics_asked, delete_queues),
        CopiedState("consumer offsets", RequestCode.GET_ALL_CONSUMER_OFFSET, take_offsets, saved.offsets.save, offsets_asked),
        CopiedState("subscription groups", RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, take_groups, saved.groups.save),
        CopiedState("delay offsets", RequestCode.GET_ALL_DELAY_OFFSET, take_delay_offsets, saved.delay_offsets.save),
        CopiedState("message request modes", RequestCode.GET_ALL_MESSAGE_REQUEST_MODE, take_modes, saved.request_modes.save),
    )
    if timers is None:
        return states

    def take_timers(copied: CopiedCheckpoint) -> None:
        timers.take(copied, own_log.log_end(), own_log.connection())

    copied_timers = CopiedState("timers", RequestCode.GET_TIMER_CHECK_POINT, take_timers, None, read=CopiedCheckpoint.of)
    return (*states, copied_timers)
