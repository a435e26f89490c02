"""What a change of the configuration does to a broker that runs: each part is told the settings that concern it, from the next request on.
RocketMQ: Configuration.update (5.3.3 remoting/); its services read the configuration again wherever they use it.

Threads  the event loop; the native parts take what they are told atomically, field by field.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..config import Value
from ..ha.service import HaSettings
from .native_options import append_timing, flush_timing, native_settings
from .parts import Parts
from .settings import broker_settings, group_settings, registration_settings, retention_settings, topic_settings


def apply_changes(parts: Parts, changes: Mapping[str, Value]) -> None:
    """Puts changes of live keys into force; the configuration has the new values already."""
    config = parts.config
    parts.settings_holder.current = broker_settings(config)
    parts.ha.apply(HaSettings.of(config))
    parts.native.set_settings(**native_settings(config))
    parts.store.set_message_size_max(config.integer("maxMessageSize"))
    parts.store.set_append_timing(**append_timing(config))
    parts.store.set_flush_timing(**flush_timing(config))
    parts.groups.apply(group_settings(config))
    parts.registration.apply(registration_settings(config))
    parts.retention.apply(retention_settings(config))
    is_changed = parts.topics.apply(topic_settings(config))
    if "brokerPermission" in changes:
        parts.topics.next_version()
        is_changed = True
    _announce(parts, changes, topics_changed=is_changed)


def _announce(parts: Parts, changes: Mapping[str, Value], *, topics_changed: bool) -> None:
    """Tells the name servers. A new list of them is told everything, whatever else has changed."""
    if "namesrvAddr" in changes:
        parts.registration.announce_all(parts.config.addresses("namesrvAddr"))
    elif topics_changed:
        parts.registration.announce_all()
