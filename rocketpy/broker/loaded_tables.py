"""Loads the tables of a broker from their files, at the start."""

from __future__ import annotations

import logging
import time
from pathlib import Path

from ..auth.metadata import SavedAuth
from ..auth.service import AuthService
from ..remoting.json_codec import read_json
from ..state_file import StateFile
from . import names
from .consumer_offsets import LIGHT_OFFSETS_FILE, OFFSETS_FILE, SavedOffsets
from .consumer_orders import SavedOrders
from .delay_offsets import SavedDelayOffsets
from .parts import Parts
from .queue_mappings import SavedMappings
from .request_modes import RequestModes
from .subscriptions import SavedGroups
from .topics import SavedTopics
from .unlisted_topics import list_unlisted

log = logging.getLogger(__name__)


def load_tables(parts: Parts, auth: AuthService, directory: Path) -> None:
    """Loads the tables from their files, on top of what every broker has. A damaged file leaves its table as it is, and is reported. Raises
    as SavedState.load."""
    parts.store.hold_compacted_gaps(parts.ha.is_slave)
    if parts.saved.topics.load(SavedTopics.from_json, parts.topics.load) and not parts.ha.is_slave:
        list_unlisted(parts.topics, parts.store)
    if not parts.saved.queue_mappings.load(SavedMappings.from_json, parts.queue_mappings.load):
        parts.saved.queue_mappings.mark_saved()
    parts.saved.groups.load(SavedGroups.from_json, parts.groups.load)
    _load_offsets(parts)
    if not parts.ha.is_slave:
        hold_offsets_back(parts)
    if not parts.saved.delay_offsets.load(SavedDelayOffsets.from_json, parts.delay_offsets.load):
        parts.saved.delay_offsets.mark_saved()
    _hold_delays_back(parts)
    if not parts.saved.timer_metrics.file.path.exists():
        parts.saved.timer_metrics.mark_saved()  # while none waits, there is no need of one
    if not parts.saved.request_modes.load(RequestModes.read, parts.request_modes.load):
        parts.saved.request_modes.mark_saved()
    if not parts.saved.consumer_orders.load(SavedOrders.from_json, parts.consumer_orders.load):
        parts.saved.consumer_orders.mark_saved()
    if not parts.saved.auth.load(SavedAuth.from_json, auth.metadata.load):
        parts.saved.auth.mark_saved()
    auth.begin(directory)


def _load_offsets(parts: Parts) -> None:
    """The first start after `enableLmq` was changed finds them in the other file: a group without them would begin anew or at the end, one
    with those of the time before the last change would go back to them."""
    own = parts.saved.offsets.file
    other = StateFile(own.path.with_name(OFFSETS_FILE if own.path.name == LIGHT_OFFSETS_FILE else LIGHT_OFFSETS_FILE))
    is_other_later = _written_ns(other) > _written_ns(own)  # never, but at that start: it is not even read
    theirs = other.read(lambda text: SavedOffsets.from_json(read_json(text, tolerant_max=None))) if is_other_later else None
    is_stale = False

    def use(ours: SavedOffsets) -> None:
        nonlocal is_stale
        is_stale = theirs is not None and _age(theirs) >= _age(ours)  # in a copy of the directory the files may have any time
        if not is_stale:
            parts.offsets.load(ours)

    is_found = parts.saved.offsets.load(SavedOffsets.from_json, use) or bool(own.faults)
    if theirs is not None and (is_stale or not is_found):
        parts.offsets.load(theirs)
        # newer from now on than where they come from
        now_ms = max(time.time_ns() // 1_000_000, theirs.version.timestamp + 1)
        parts.offsets.assign_version(theirs.version.next(theirs.version.state_version, now_ms))
        log.warning("enableLmq was changed: consumer offsets are those of %s, written later than %s", other.path, own.path)


def _written_ns(file: StateFile) -> int:
    """When the file was written; -1: never."""
    return max((path.stat().st_mtime_ns for path in (file.path, file.backup_path) if path.exists()), default=-1)


def _age(saved: SavedOffsets) -> tuple[int, int]:
    return saved.version.timestamp, saved.version.counter


def _hold_delays_back(parts: Parts) -> None:
    """Moves positions back that are past the end of their queue. Also on slaves: from RocketMQ's masters they take positions that their own
    logs have not reached."""
    path = parts.saved.delay_offsets.file.path
    if moved := parts.delay_offsets.hold_back(lambda level: parts.store.next_offset(names.SCHEDULE_TOPIC, level - 1)):
        log.warning("%s: %d delay levels were past their queues' ends in this log: they go on at the ends", path, moved)


def hold_offsets_back(parts: Parts) -> None:
    """On a master, moves offsets back that are past the end of their queue: nobody can have read anything there."""
    if moved := parts.offsets.hold_back(parts.queue_end):
        log.warning("%d consumer offsets were past their queues' ends: what they had read is lost, they go on at the ends", moved)
