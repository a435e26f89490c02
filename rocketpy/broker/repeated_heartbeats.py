"""Heartbeats that repeat, byte by byte, the last one of their connection: a client sends one every 30 s until its subscriptions change.

Such a heartbeat only says that the client is there, but reading, checking and comparing it costs several times as much as noting that. So
the digest of a heartbeat that changed nothing is remembered. The same heartbeat changes nothing again, as long as everything that it was
compared with is unchanged:

    the groups' subscriptions, kinds and fingerprints     ConsumerGroup.changes
    the client's records in its groups                    looked up each time, as a goodbye takes them away; those of a producer, of which a
                                                          goodbye makes the list shorter, are all that its connection has
    configurations of groups, and their retry topics      looked up each time, by what any heartbeat asks

When one of these has changed, the heartbeat is read like any other. So are heartbeats of version 2, whose answers depend on more, and all
heartbeats while pull consumers are refused. A digest is forgotten with its connection, and when another heartbeat of it is read.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from .._core.remoting import Request
from . import names
from .clients import Channel, Client, ConsumerGroup, Heard
from .heartbeat import Heartbeat
from .parts import Parts

DIGEST_BYTES = 12

Standing = tuple[Any, ...]
"""Each group, and behind it how often it had changed by then: flat, as there is one for each connection."""


class RepeatedHeartbeats:
    """Recognises heartbeats that change nothing. First `renew`; if that fails, `standing`, the heartbeat itself, and `keep`."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def renew(self, channel: Channel, request: Request) -> bool:
        """Renews the client if the heartbeat is a known one. False: the heartbeat has to be read."""
        parts = self._parts
        heard = parts.consumers.heard.get(channel)
        if heard is None or parts.settings.reject_pull_consumer or heard.digest != _digest(request):
            return False
        produces_for = parts.producers.groups_of(channel)
        if len(produces_for) != heard.producer_groups:
            return False
        clients = [self._unchanged(channel, *group) for group in zip(heard.consumers[::2], heard.consumers[1::2], strict=True)]
        clients += [parts.producers.find(group, channel) for group in produces_for]
        now = parts.clock()
        for client in clients:
            if client is None:
                return False
            client.seen_ms = now
        return True

    def _unchanged(self, channel: Channel, group: ConsumerGroup, changes: int) -> Client | None:
        """The client in a group with which the heartbeat would do nothing."""
        parts = self._parts
        if group.changes != changes or parts.consumers.get(group.group) is not group or parts.groups.find_or_create(group.group) is None:
            return None
        retry = parts.topics.get(names.retry_topic(group.group))
        if retry is None or retry.order != any(map(parts.topics.is_order_topic, group.subscriptions)):
            return None
        return group.clients.get(channel)

    def standing(self, channel: Channel, heartbeat: Heartbeat) -> Standing | None:
        """The groups as they are; None: the client is not in all of them, or this one is not to be remembered. Forgets the one before."""
        parts = self._parts
        parts.consumers.heard.pop(channel, None)
        if heartbeat.fingerprint or heartbeat.without_sub or parts.settings.reject_pull_consumer:
            return None
        groups: list[Any] = []
        for data in heartbeat.consumers:
            group = parts.consumers.get(data.group)
            if group is None or not _is(group.clients.get(channel), heartbeat.client_id):
                return None
            groups += group, group.changes
        are_all = set(parts.producers.groups_of(channel)) == set(heartbeat.producer_groups)
        is_known = all(_is(parts.producers.find(group, channel), heartbeat.client_id) for group in heartbeat.producer_groups)
        return tuple(groups) if are_all and is_known else None

    def keep(self, channel: Channel, request: Request, heartbeat: Heartbeat, before: Standing | None) -> None:
        """After the heartbeat was read: remembers it if it changed nothing."""
        if before is not None and before == self.standing(channel, heartbeat):
            self._parts.consumers.heard[channel] = Heard(_digest(request), before, len(set(heartbeat.producer_groups)))


def _is(client: Client | None, client_id: str) -> bool:
    return client is not None and client.client_id == client_id


def _digest(request: Request) -> bytes:
    """Of what the client says about itself; its header says the rest."""
    return sha256(b"%d %d " % (request.language, request.version) + request.body, usedforsecurity=False).digest()[:DIGEST_BYTES]
