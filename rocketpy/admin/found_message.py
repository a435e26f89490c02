"""Messages as an operator sees them: records decoded, ids, texts. RocketMQ: MessageDecoder, MessageExt, MessageClientExt (5.3.3)."""

from __future__ import annotations

import ipaddress
import re
import struct
import zlib
from dataclasses import dataclass
from typing import Any

from .._core.errors import RocketpyError
from .._core.results import Message
from ..remoting.records import place_id, read_records, unwrapped
from .errors import AdminError
from .texts import java_map

COMPRESSED_FLAG = 0x1
COMPRESSION_SHIFT, COMPRESSION_MASK = 8, 0x7
ZLIB = (0, 3)
"""Of the compression bits; older producers set none. LZ4 and ZSTD have no reader in Python's library."""
INFLATED_MAX = 64 << 20
UNIQUE_ID = "UNIQ_KEY"


@dataclass(frozen=True, slots=True)
class FoundMessage:
    message: Message
    broker_name: str | None = None

    def at(self, queue_id: int, offset: int) -> FoundMessage:
        """The message as consumers see it who pull that queue: for a static topic, the record itself has the number and the offset of the
        broker's own queue."""
        return FoundMessage(self.message._replace(queue_id=queue_id, queue_offset=offset), self.broker_name)

    @property
    def unique_id(self) -> str | None:
        """The id that the producer gave it."""
        return self.message.properties.get(UNIQUE_ID)

    @property
    def offset_id(self) -> str:
        """The id that says where it is stored: the broker's address and the log offset."""
        return place_id(self.message.store_host, self.message.commit_log_offset)

    @property
    def shown_id(self) -> str:
        return self.unique_id or self.offset_id

    @property
    def tags(self) -> str | None:
        return self.message.properties.get("TAGS")

    @property
    def keys(self) -> str | None:
        return self.message.properties.get("KEYS")

    @property
    def body(self) -> bytes:
        """The body as the producer was given it. One that is not a zlib stream stays as it is."""
        sys_flag, body = self.message.sys_flag, self.message.body
        if not sys_flag & COMPRESSED_FLAG or (sys_flag >> COMPRESSION_SHIFT) & COMPRESSION_MASK not in ZLIB:
            return body
        try:
            return zlib.decompressobj().decompress(body, INFLATED_MAX)
        except zlib.error:
            return body

    def body_text(self, charset: str) -> str:
        return self.body.decode(charset, "replace")

    def to_json(self, *, with_body: bool = True) -> dict[str, Any]:
        message = self.message
        members: dict[str, Any] = {
            "msgId": self.shown_id,
            "offsetMsgId": self.offset_id,
            "topic": message.topic,
            "brokerName": self.broker_name,
            "queueId": message.queue_id,
            "queueOffset": message.queue_offset,
            "commitLogOffset": message.commit_log_offset,
            "storeSize": message.size,
            "flag": message.flag,
            "sysFlag": message.sys_flag,
            "bodyCRC": message.body_crc,
            "bornTimestamp": message.born_timestamp_ms,
            "bornHost": message.born_host,
            "storeTimestamp": message.store_timestamp_ms,
            "storeHost": message.store_host,
            "reconsumeTimes": message.reconsume_times,
            "preparedTransactionOffset": message.prepared_transaction_offset,
            "properties": dict(message.properties),
        }
        return members | ({"body": self.body_text("utf-8")} if with_body else {})

    def text(self) -> str:
        """MessageExt.toString."""
        message = self.message
        signed = [byte - 256 if byte > 127 else byte for byte in self.body]
        is_prepared = message.properties.get("TRAN_MSG", "").lower() == "true"
        transaction = self.unique_id if is_prepared and self.unique_id else "null"
        inner = (
            f"Message{{topic='{message.topic}', flag={message.flag}, properties={java_map(message.properties)}, body={signed}, "
            f"transactionId='{transaction}'}}"
        )
        return (
            f"MessageExt [brokerName={self.broker_name or 'null'}, queueId={message.queue_id}, storeSize={message.size}, "
            f"queueOffset={message.queue_offset}, sysFlag={message.sys_flag}, bornTimestamp={message.born_timestamp_ms}, "
            f"bornHost=/{message.born_host}, storeTimestamp={message.store_timestamp_ms}, storeHost=/{message.store_host}, "
            f"msgId={self.offset_id}, commitLogOffset={message.commit_log_offset}, bodyCRC={message.body_crc}, "
            f"reconsumeTimes={message.reconsume_times}, preparedTransactionOffset={message.prepared_transaction_offset}, "
            f"toString()={inner}]"
        )


def place_of(message_id: str) -> tuple[str, int] | None:
    """(address, log offset) in a place_id; None for other ids, though a producer's id may look like one."""
    if not re.fullmatch(r"[0-9A-Fa-f]{32}|[0-9A-Fa-f]{56}", message_id):
        return None
    data = bytes.fromhex(message_id)
    address = ipaddress.ip_address(data[:-12])
    port, offset = struct.unpack(">iq", data[-12:])
    if not 0 < port < 65536 or offset < 0:
        return None
    return f"[{address}]:{port}" if address.version == 6 else f"{address}:{port}", offset


def records_in(body: bytes, broker_name: str | None = None, *, pulled: bool = False) -> list[FoundMessage]:
    """The messages in consecutive records; `pulled`: as consumers see them. Raises AdminError for other bytes."""
    try:
        records = read_records(body)
        return [FoundMessage(message, broker_name) for message in (unwrapped(records) if pulled else records)]
    except RocketpyError as error:
        raise AdminError(str(error)) from error
