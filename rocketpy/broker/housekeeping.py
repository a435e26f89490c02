"""What a running broker does again and again: which work, how often, each in a task of its own (periodic.py).
RocketMQ: the scheduled executors of BrokerController (5.3.3 broker/).

Threads  one event loop.
"""

from __future__ import annotations

import asyncio
import logging

from .._core.errors import NetworkError
from ..awake_clock import monotonic_ms
from ..remoting.look_up import LookUps
from . import names
from .acting_master import ActingMaster
from .acting_state import may_act
from .addresses import looked_up
from .compacted_gaps import CompactedGaps
from .foreign_messages import ForeignMessages
from .late_syncs import LOOK_S, LateSyncs
from .lite_lifecycle import LiteLifecycle
from .mapping_cleaner import MappingCleaner
from .native_options import flush_timing
from .parts import Parts
from .periodic import at_midnight, every, plain
from .pop import RetryTopics
from .slave_synchronize import SlaveSynchronize
from .stalled_queues import StalledQueues
from .start_checks import warn_of_ha_port
from .transaction_checks import TransactionChecks

log = logging.getLogger(__name__)

SCAN_CLIENTS_S = 10.0
SAVE_TABLES_S = 10.0
STORE_RATES_S = 1.0
SERIES_RATES_S = 10.0
CLEAN_OFFSETS_S = 600.0
CLEAN_MAPPINGS_S = 300.0
STALLED_QUEUES_S = 10.0
RETRY_TOPICS_S = 1.0
FOREIGN_MESSAGES_S = 1.0
LITE_MISSED_S = 10.0
CHECKS_LOOK_S = 1.0  # how often their interval, which may change, is looked at
SLAVE_SYNCHRONIZE_S = 3.0
SLAVE_SYNCHRONIZE_REST_S = 0.2  # thousands of topics made in a row are copied a few times a second, whole


class Housekeeping:
    """The periodic tasks of one broker. `synchronize` belongs to a slave, or a broker that may become one."""

    def __init__(self, parts: Parts, synchronize: SlaveSynchronize | None) -> None:
        self._parts = parts
        self._synchronize = synchronize
        self._stalled = StalledQueues(parts.consumers.client_ids, parts.consumers.is_consumed)
        self._late_syncs = LateSyncs()
        self._look_ups = LookUps()
        self._tasks: list[asyncio.Task[None]] = []
        self.checks = TransactionChecks(parts)
        self._lite = LiteLifecycle(parts, least_ms=parts.config.integer("minLiteTTl"), started_ms=monotonic_ms())
        acts = may_act(parts.config)  # read in any case: a key that nobody reads is reported
        self._gaps = CompactedGaps(parts.client, parts.store)
        self._acting = ActingMaster(parts, synchronize) if synchronize is not None and acts else None

    def start(self) -> None:
        parts, config = self._parts, self._parts.config
        offsets_s = config.integer("flushConsumerOffsetInterval") / 1000
        delay_offsets_s = config.integer("flushDelayOffsetInterval") / 1000
        retention_s = config.integer("cleanResourceInterval") / 1000
        members_s = config.integer("syncBrokerMemberGroupPeriod") / 1000
        lite_ttl_s = config.integer("liteTtlCheckInterval") / 1000
        lite_clients_s = config.integer("liteSubscriptionCheckInterval") / 1000
        look_up_s = config.integer("updateNameServerAddrPeriod") / 1000  # read in any case: a key that nobody reads is reported
        tasks = [
            parts.clock.keep(),
            every("client housekeeping", SCAN_CLIENTS_S, plain(self._scan_clients)),
            every("store rates", STORE_RATES_S, plain(parts.stats.sample_rates)),
            every("topic and group rates", SERIES_RATES_S, plain(parts.stats.sample_series)),
            every("persist consumer offsets", offsets_s, parts.saved.offsets.save_or_log),
            every("persist delay offsets", delay_offsets_s, parts.saved.delay_offsets.save_or_log),
            every("checks of transactions", CHECKS_LOOK_S, self.checks.run_if_due),
            every("retry topics of popped messages", RETRY_TOPICS_S, RetryTopics(parts).make_wanted),
            every("messages that other brokers gave out", FOREIGN_MESSAGES_S, ForeignMessages(parts).fetch),
            every("persist tables", SAVE_TABLES_S, self.save_all),
            every("retention", retention_s, parts.retention.run_once),
            every("late syncs", LOOK_S, plain(self.warn_of_late_syncs)),
            every("clean offsets", CLEAN_OFFSETS_S, plain(self._clean_offsets)),
            every("cleaning of queue mappings", CLEAN_MAPPINGS_S, MappingCleaner(parts).run_if_due),
            every("expiry of lite topics", lite_ttl_s, self._lite.look),
            every("clients of lite topics", lite_clients_s, plain(self._scan_lite_clients)),
            every("lite topics that were missed", LITE_MISSED_S, plain(parts.lite.tell_missed)),
            every("stalled queues", STALLED_QUEUES_S, plain(self.warn_of_stalled_queues)),
            at_midnight("the morning's mark of what was counted", plain(parts.stats.record_morning)),
        ]
        if config.boolean("fetchNameSrvAddrByDnsLookup"):
            tasks.append(every("looking up the name servers", look_up_s, self._look_up_name_servers))
        if self._synchronize is None:
            tasks.append(warn_of_ha_port(parts.registration.identity.ha_address, is_sync=parts.ha.settings.is_sync))
        if self._synchronize is not None:
            is_due = self._synchronize.is_due
            copy = self.synchronize_with_master
            tasks.append(every("copying from the master", SLAVE_SYNCHRONIZE_S, copy, at_once=is_due, rest_s=SLAVE_SYNCHRONIZE_REST_S))
            parts.ha.watch(self._synchronize.is_to_copy)
        if self._acting is not None:
            tasks.append(every("standing in for the master", members_s, self._acting.look))
        self._tasks = [asyncio.create_task(task) for task in tasks]

    async def stop(self) -> None:
        """Idempotent."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._acting is not None:
            await self._acting.stop()

    async def looked_up_name_servers(self, otherwise: list[str]) -> list[str]:
        """The addresses behind namesrvAddr; `otherwise` if they cannot be looked up."""
        try:
            return await looked_up(self._parts.config.addresses("namesrvAddr"), self._look_ups)
        except NetworkError as error:
            log.warning("%s; staying with %s", error, ";".join(otherwise))
            return otherwise

    async def synchronize_with_master(self) -> None:
        """Copies the master's tables."""
        assert self._synchronize is not None
        if self._parts.ha.is_slave and not self._parts.registration.is_isolated:
            await self.find_master()
            await self._synchronize.run_due()
            if (address := self._synchronize.master_address) is not None and not self._parts.ha.is_stranger:
                await self._gaps.fill(address)

    async def find_master(self) -> None:
        """Asks the name servers for a master while there is none, or (with haMasterAddress) only the address of its log is known, instead
        of waiting for the next period."""
        parts = self._parts
        if not parts.ha.is_slave or self._synchronize is None or parts.registration.is_isolated:
            return
        if parts.ha.connection() is None or self._synchronize.master_address is None:
            await parts.registration.register_all(is_forced=True)  # the answer names the master, however well we are known

    async def save_all(self) -> None:
        """Saves the tables whose changes no request waits for: retry topics, automatically created groups."""
        for saved in self._parts.saved:
            await saved.save_or_log()

    async def _look_up_name_servers(self) -> None:
        """With fetchNameSrvAddrByDnsLookup: follows the name servers behind one name as they come and go."""
        registration = self._parts.registration
        addresses = await self.looked_up_name_servers(registration.name_servers)
        if set(addresses) != set(registration.name_servers):
            await registration.set_name_servers(addresses)

    def _scan_clients(self) -> None:
        parts = self._parts
        parts.act([*parts.producers.scan(), *parts.consumers.scan()])
        parts.locks.forget_expired()

    def _scan_lite_clients(self) -> None:
        self._parts.lite.scan(self._parts.settings.lite_idle_ms)

    def warn_of_stalled_queues(self) -> None:
        """Warns once about each queue whose messages a live group does not fetch, and again if that happens again."""
        if (after_ms := self._parts.settings.queue_stalled_after_ms) > 0:
            for warning in self._stalled.news(self._parts.native.stalled_queues(after_ms)):
                log.warning("%s", warning)

    def warn_of_late_syncs(self) -> None:
        """Says when the commit log's syncs do not come to their end, and when they do again."""
        parts = self._parts
        stats, timing = parts.store.stats(), flush_timing(parts.config)
        interval_ms = timing["interval_ms"] + timing["thorough_interval_ms"]  # few pages wait until a sync finds that the latter has passed
        is_acknowledged = parts.config.text("flushDiskType") == "ASYNC_FLUSH" and not parts.ha.is_slave
        end, flushed = stats["commit_log_max_offset"], stats["flushed_offset"]
        if line := self._late_syncs.look(end, flushed, interval_ms, monotonic_ms(), is_acknowledged=is_acknowledged):
            log.warning("%s", line)

    def _clean_offsets(self) -> None:
        """With enableCleanExpiredOffset, forgets offsets that lie before all messages and that nobody subscribes to any more."""
        parts = self._parts
        if parts.settings.clean_offsets:
            parts.offsets.clean_unsubscribed(
                lambda group, topic: (
                    parts.groups.is_light(group)
                    or names.lite_parts(topic) is not None
                    or parts.consumers.subscription(group, topic) is not None
                ),
                parts.store.first_offset,
            )
