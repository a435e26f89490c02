"""Requests about the broker itself: its state, its configuration, its statistics, its house-keeping, its replication.
RocketMQ: AdminBrokerProcessor (5.3.3 broker/processor/).
"""

from __future__ import annotations

import logging

from .._core.errors import RocketpyError
from .._core.remoting import Request
from .._core.store import decode_message
from ..config import ConfigError, StoredConfig, read_properties
from ..remoting.bodies import DataVersion
from ..remoting.codes import CURRENT_VERSION, RequestCode, ResponseCode
from ..remoting.command import CommandError, Response
from ..remoting.headers import (
    ExchangeHAInfoRequestHeader,
    ExchangeHAInfoResponseHeader,
    GetBrokerConfigResponseHeader,
    ViewBrokerStatsDataRequestHeader,
)
from .ledger_options import log_directory, record_distance
from .names import LIGHT_QUEUE_PREFIX
from .parts import HandlerTable, Parts, json_response, now_ms
from .runtime_info import RuntimeFacts, runtime_info
from .settings import MASTER_ID
from .timers import runtime_facts

log = logging.getLogger(__name__)

VERSION_TEXT = "V5_3_3"
"""The release whose behaviour CURRENT_VERSION stands for."""


class BrokerAdmin:
    """Handlers of requests about the broker itself."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._config_version = DataVersion(parts.boot_ms)
        self._stored_config = StoredConfig(parts.config)
        self._earliest = (-1, -1)  # (commit log's first offset, time of the message there)

    def handlers(self) -> HandlerTable:
        return {
            RequestCode.GET_BROKER_RUNTIME_INFO: self._runtime_info,
            RequestCode.GET_BROKER_CONFIG: self._config,
            RequestCode.UPDATE_BROKER_CONFIG: self._update_config,
            RequestCode.VIEW_BROKER_STATS_DATA: self._stats,
            RequestCode.CLEAN_UNUSED_TOPIC: self._clean_unused_topics,
            RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE: self._clean_expired,
            RequestCode.DELETE_EXPIRED_COMMITLOG: self._clean_expired,
            RequestCode.GET_BROKER_HA_STATUS: self._ha_status,
            RequestCode.EXCHANGE_BROKER_HA_INFO: self._exchange_ha_addresses,
        }

    def runtime_table(self) -> dict[str, str]:
        """The table that mqadmin brokerStatus prints."""
        parts = self._parts
        root = parts.config.text("storePathRootDir")
        store = parts.store.stats()
        facts = RuntimeFacts(
            now_ms=now_ms(),
            boot_ms=parts.boot_ms,
            version=CURRENT_VERSION,
            version_text=VERSION_TEXT,
            active=parts.settings.broker_id == MASTER_ID,
            accept_after_ms=parts.settings.accept_after_ms,
            root_path=root,
            commit_log_path=str(log_directory(parts.config)),
            earliest_message_ms=self._earliest_message_ms(store.get("commit_log_min_offset", 0), store.get("commit_log_max_offset", 0)),
            broker=parts.stats.counters(),
            store=store,
            next_deletion=parts.retention.plan,
            timers=runtime_facts(
                parts.native.timer_stats(), (parts.stats.rate("timers_entered", 10), parts.stats.rate("timers_delivered", 10))
            )
            if parts.config.boolean("timerWheelEnable")
            else None,
            delay_levels=parts.delay_offsets.ends(),
        )
        return {**runtime_info(facts, parts.stats), **parts.ha.counters()}

    def _earliest_message_ms(self, low: int, high: int) -> int:
        """The store time of the oldest message, -1 if there is none. It is read again only if the log's first offset has moved."""
        if low >= high:
            return -1
        if self._earliest[0] != low:
            try:
                first = low + record_distance(self._parts.config)
                self._earliest = (low, decode_message(self._parts.store.read(first), check_crc=False).store_timestamp_ms)
            except RocketpyError as error:
                log.warning("the first message of the commit log at %d cannot be read: %s", low, error)
                return -1
        return self._earliest[1]

    def _runtime_info(self, request: Request) -> Response:
        return json_response({"table": self.runtime_table()})

    def _config(self, request: Request) -> Response:
        version = self._config_version.encode().decode()
        return Response(fields=GetBrokerConfigResponseHeader(version=version), body=self._parts.config.format().encode())

    async def _update_config(self, request: Request) -> Response:
        parts = self._parts
        log.info("Broker receive request to update config, caller address=%s", request.remote_address)
        try:
            changes = {entry.key: entry.value for entry in read_properties(request.body.decode())}
        except ValueError as error:  # UnicodeDecodeError too
            raise CommandError(ResponseCode.SYSTEM_ERROR, f"string2Properties error: {error}") from error
        if not parts.settings.config_black_list.isdisjoint(changes):
            return Response(ResponseCode.NO_PERMISSION, "Can not update config in black list.")
        try:
            updated = parts.config.update(changes)
        except ConfigError as error:
            raise CommandError(ResponseCode.INVALID_PARAMETER, str(error)) from error
        if "brokerPermission" in changes and "brokerPermission" not in updated.changed:
            parts.topics.next_version()  # an operator's word to name servers, which may say otherwise since (wipeWritePerm)
            parts.registration.announce_all()
        self._config_version = self._config_version.next()
        try:
            await self._stored_config.store(changes)
        except RocketpyError as error:
            raise CommandError(ResponseCode.SYSTEM_ERROR, f"the change is in force, but it could not be stored: {error}") from error
        await parts.registration.settled()
        return Response(remark=updated.told(is_stored=self._stored_config.path is not None) or None)

    def _stats(self, request: Request) -> Response:
        header = ViewBrokerStatsDataRequestHeader.decode(request.fields)
        self._parts.stats.refresh_series()
        series = self._parts.stats.series(header.stats_name, header.stats_key)
        if series is None:
            return Response(ResponseCode.SYSTEM_ERROR, f"The stats <{header.stats_name}> <{header.stats_key}> not exist")
        return json_response({"statsDay": series.day.to_json(), "statsHour": series.hour.to_json(), "statsMinute": series.minute.to_json()})

    async def _clean_expired(self, request: Request) -> Response:
        """mqadmin's deleteExpiredCommitLog and cleanExpiredCQ: deletes what has expired at once, whatever the hour. Queues are shortened
        with the log."""
        deleted = await self._parts.retention.run_once(now=True)
        return Response(remark=f"{deleted} expired commit log files were deleted")

    async def _clean_unused_topics(self, request: Request) -> Response:
        """Drops the queues of topics that no longer exist. System topics', retry topics' and RocketMQ's light queues stay."""
        parts = self._parts
        unused = [topic for topic in sorted({topic for topic, _ in parts.store.queues()}) if self._is_unused(topic)]
        if unused:
            await parts.catch_up()  # behind the look at the queues: a slave has messages of a new topic before it has the topic
        for topic in unused:
            if self._is_unused(topic):
                log.warning("cleanUnusedTopic: %s", topic)
                await parts.deletion.delete_queues(topic)
        return Response()

    def _is_unused(self, topic: str) -> bool:
        topics = self._parts.topics
        return topic not in topics and not topics.is_system_topic(topic) and not topic.startswith(LIGHT_QUEUE_PREFIX)

    def _ha_status(self, request: Request) -> Response:
        return json_response(self._parts.ha.runtime_info())

    def _exchange_ha_addresses(self, request: Request) -> Response:
        """With enableSlaveActingMaster a broker of RocketMQ registers only after it is connected with its group: a slave asks its master
        where to, a master that comes back tells its slaves, who cannot hear of it from a name server before."""
        parts, header = self._parts, ExchangeHAInfoRequestHeader.decode(request.fields)
        if header.master_ha_address is not None:
            parts.follow(header.master_address, header.master_ha_address)
            return Response()
        if parts.settings.broker_id != MASTER_ID:
            return Response()
        identity = parts.registration.identity
        return Response(
            fields=ExchangeHAInfoResponseHeader(
                master_ha_address=identity.ha_address, master_flush_offset=parts.ha.start_offset, master_address=identity.address
            )
        )
