"""Bodies of what brokers and controllers tell each other: who is in sync with the master, and where its epochs began.
RocketMQ: SyncStateSet, ElectMasterResponseBody, EpochEntryCache, EpochEntry (5.3.3 remoting/protocol/).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .bodies import BodyError, read_integer
from .json_codec import JsonError, read_object, write_fastjson

LAST_EPOCH_END = 2**63 - 1
"""The end offset that the wire has for the epoch that goes on."""


@dataclass(frozen=True, slots=True)
class SyncStateSet:
    """The broker ids of the replicas that hold everything that was acknowledged, and the epoch of this set, which grows with each
    change."""

    ids: frozenset[int] = frozenset()
    epoch: int = 0

    def encode(self) -> bytes:
        return write_fastjson({"syncStateSet": sorted(self.ids), "syncStateSetEpoch": self.epoch})

    @staticmethod
    def decode(body: bytes) -> SyncStateSet:
        """Also reads an ElectMasterResponseBody, which has no epoch. An empty body is an empty set. Raises BodyError."""
        if not body:
            return SyncStateSet()
        try:
            members = read_object(body)
        except JsonError as error:
            raise BodyError(f"SyncStateSet: {error}") from None
        ids = members.get("syncStateSet")
        if ids is None:
            ids = []
        if not isinstance(ids, list) or not all(isinstance(each, int) and not isinstance(each, bool) for each in ids):
            raise BodyError(f"syncStateSet: expected broker ids, found {str(ids)[:64]!r}")
        return SyncStateSet(frozenset(ids), read_integer(members, "syncStateSetEpoch"))


def epoch_cache_body(cluster: str, broker: str, broker_id: int, epochs: Iterable[tuple[int, int]], log_end: int) -> bytes:
    """The body of GET_BROKER_EPOCH_CACHE. `epochs`: (epoch, offset in the commit log at which it began), in order."""
    rows = list(epochs)
    ends = [*(start for _, start in rows[1:]), LAST_EPOCH_END]
    entries = [{"endOffset": end, "epoch": epoch, "startOffset": start} for (epoch, start), end in zip(rows, ends, strict=True)]
    return write_fastjson({"brokerId": broker_id, "brokerName": broker, "clusterName": cluster, "epochList": entries, "maxOffset": log_end})
