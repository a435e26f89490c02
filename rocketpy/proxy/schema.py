"""The gRPC protocol of RocketMQ 5 as one table: every message, enum and method, which protobuf makes classes of when this is imported.
RocketMQ: apache.rocketmq.v2.MessagingService (apache/rocketmq-apis).

A field is `name:type=number`; `?name` has presence, `[name` repeats, `{name` maps text to text, `name@choice` belongs to a oneof. A type in
capitals is a message or an enum of this table, or one of protobuf's own two.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, duration_pb2, message_factory, timestamp_pb2

PACKAGE: Final = "apache.rocketmq.v2"
FILE: Final = "rocketpy/proxy/schema.proto"
SERVICE: Final = f"{PACKAGE}.MessagingService"

_ENUMS: Final[Mapping[str, str]] = {
    "TransactionResolution": "TRANSACTION_RESOLUTION_UNSPECIFIED COMMIT ROLLBACK",
    "TransactionSource": "SOURCE_UNSPECIFIED SOURCE_CLIENT SOURCE_SERVER_CHECK",
    "Permission": "PERMISSION_UNSPECIFIED NONE READ WRITE READ_WRITE",
    "FilterType": "FILTER_TYPE_UNSPECIFIED TAG SQL",
    "AddressScheme": "ADDRESS_SCHEME_UNSPECIFIED IPv4 IPv6 DOMAIN_NAME",
    "MessageType": "MESSAGE_TYPE_UNSPECIFIED NORMAL FIFO DELAY TRANSACTION LITE PRIORITY",
    "DigestType": "DIGEST_TYPE_UNSPECIFIED CRC32 MD5 SHA1",
    "ClientType": ("CLIENT_TYPE_UNSPECIFIED PRODUCER PUSH_CONSUMER SIMPLE_CONSUMER PULL_CONSUMER LITE_PUSH_CONSUMER LITE_SIMPLE_CONSUMER"),
    "Encoding": "ENCODING_UNSPECIFIED IDENTITY GZIP",
    "Language": "LANGUAGE_UNSPECIFIED JAVA CPP DOT_NET GOLANG RUST PYTHON PHP NODE_JS RUBY OBJECTIVE_C DART KOTLIN",
    "QueryOffsetPolicy": "BEGINNING END TIMESTAMP",
    "LiteSubscriptionAction": "PARTIAL_ADD PARTIAL_REMOVE COMPLETE_ADD COMPLETE_REMOVE",
    "OffsetPolicy": "LAST MIN MAX",
    "Code": (
        "CODE_UNSPECIFIED=0 OK=20000 MULTIPLE_RESULTS=30000 BAD_REQUEST=40000 ILLEGAL_ACCESS_POINT=40001 ILLEGAL_TOPIC=40002 "
        "ILLEGAL_CONSUMER_GROUP=40003 ILLEGAL_MESSAGE_TAG=40004 ILLEGAL_MESSAGE_KEY=40005 ILLEGAL_MESSAGE_GROUP=40006 "
        "ILLEGAL_MESSAGE_PROPERTY_KEY=40007 INVALID_TRANSACTION_ID=40008 ILLEGAL_MESSAGE_ID=40009 ILLEGAL_FILTER_EXPRESSION=40010 "
        "ILLEGAL_INVISIBLE_TIME=40011 ILLEGAL_DELIVERY_TIME=40012 INVALID_RECEIPT_HANDLE=40013 "
        "MESSAGE_PROPERTY_CONFLICT_WITH_TYPE=40014 UNRECOGNIZED_CLIENT_TYPE=40015 MESSAGE_CORRUPTED=40016 CLIENT_ID_REQUIRED=40017 "
        "ILLEGAL_POLLING_TIME=40018 ILLEGAL_OFFSET=40019 ILLEGAL_LITE_TOPIC=40020 INVALID_CLIENT_PROPERTIES=40021 UNAUTHORIZED=40100 "
        "PAYMENT_REQUIRED=40200 FORBIDDEN=40300 NOT_FOUND=40400 MESSAGE_NOT_FOUND=40401 TOPIC_NOT_FOUND=40402 "
        "CONSUMER_GROUP_NOT_FOUND=40403 OFFSET_NOT_FOUND=40404 REQUEST_TIMEOUT=40800 PAYLOAD_TOO_LARGE=41300 "
        "MESSAGE_BODY_TOO_LARGE=41301 MESSAGE_BODY_EMPTY=41302 PRECONDITION_FAILED=42800 TOO_MANY_REQUESTS=42900 "
        "LITE_TOPIC_QUOTA_EXCEEDED=42901 LITE_SUBSCRIPTION_QUOTA_EXCEEDED=42902 REQUEST_HEADER_FIELDS_TOO_LARGE=43100 "
        "MESSAGE_PROPERTIES_TOO_LARGE=43101 INTERNAL_ERROR=50000 INTERNAL_SERVER_ERROR=50001 HA_NOT_AVAILABLE=50002 "
        "NOT_IMPLEMENTED=50100 PROXY_TIMEOUT=50400 MASTER_PERSISTENCE_TIMEOUT=50401 SLAVE_PERSISTENCE_TIMEOUT=50402 "
        "UNSUPPORTED=50500 VERSION_UNSUPPORTED=50501 VERIFY_FIFO_MESSAGE_UNSUPPORTED=50502 FAILED_TO_CONSUME_MESSAGE=60000"
    ),
}
_MESSAGES: Final[Mapping[str, str]] = {
    "Resource": "resource_namespace:string=1 name:string=2",
    "FilterExpression": "type:FilterType=1 expression:string=2",
    "RetryPolicy": (
        "max_attempts:int32=1 exponential_backoff@strategy:ExponentialBackoff=2 customized_backoff@strategy:CustomizedBackoff=3"
    ),
    "ExponentialBackoff": "initial:Duration=1 max:Duration=2 multiplier:float=3",
    "CustomizedBackoff": "[next:Duration=1",
    "SubscriptionEntry": "topic:Resource=1 expression:FilterExpression=2",
    "Address": "host:string=1 port:int32=2",
    "Endpoints": "scheme:AddressScheme=1 [addresses:Address=2",
    "Broker": "name:string=1 id:int32=2 endpoints:Endpoints=3",
    "MessageQueue": "topic:Resource=1 id:int32=2 permission:Permission=3 broker:Broker=4 [accept_message_types:MessageType=5",
    "Digest": "type:DigestType=1 checksum:string=2",
    "SystemProperties": (
        "?tag:string=1 [keys:string=2 message_id:string=3 body_digest:Digest=4 body_encoding:Encoding=5 message_type:MessageType=6 "
        "born_timestamp:Timestamp=7 born_host:string=8 ?store_timestamp:Timestamp=9 store_host:string=10 ?delivery_timestamp:Timestamp=11 "
        "?receipt_handle:string=12 queue_id:int32=13 ?queue_offset:int64=14 ?invisible_duration:Duration=15 ?delivery_attempt:int32=16 "
        "?message_group:string=17 ?trace_context:string=18 ?orphaned_transaction_recovery_duration:Duration=19 "
        "?dead_letter_queue:DeadLetterQueue=20 ?lite_topic:string=21 ?priority:int32=22"
    ),
    "DeadLetterQueue": "topic:string=1 message_id:string=2",
    "Message": "topic:Resource=1 {user_properties=2 system_properties:SystemProperties=3 body:bytes=4",
    "Assignment": "message_queue:MessageQueue=1",
    "Status": "code:Code=1 message:string=2",
    "UA": "language:Language=1 version:string=2 platform:string=3 hostname:string=4",
    "Settings": (
        "?client_type:ClientType=1 ?access_point:Endpoints=2 ?backoff_policy:RetryPolicy=3 ?request_timeout:Duration=4 "
        "publishing@pub_sub:Publishing=5 subscription@pub_sub:Subscription=6 user_agent:UA=7 metric:Metric=8 {client_properties=9"
    ),
    "Publishing": "[topics:Resource=1 max_body_size:int32=2 validate_message_type:bool=3",
    "Subscription": (
        "?group:Resource=1 [subscriptions:SubscriptionEntry=2 ?fifo:bool=3 ?receive_batch_size:int32=4 ?long_polling_timeout:Duration=5 "
        "?lite_subscription_quota:int32=6 ?max_lite_topic_size:int32=7"
    ),
    "Metric": "on:bool=1 ?endpoints:Endpoints=2",
    "OffsetOption": "policy@offset_type:OffsetPolicy=1 offset@offset_type:int64=2 tail_n@offset_type:int64=3 timestamp@offset_type:int64=4",
    "QueryRouteRequest": "topic:Resource=1 endpoints:Endpoints=2",
    "QueryRouteResponse": "status:Status=1 [message_queues:MessageQueue=2",
    "SendMessageRequest": "[messages:Message=1",
    "SendResultEntry": "status:Status=1 message_id:string=2 transaction_id:string=3 offset:int64=4 recall_handle:string=5",
    "SendMessageResponse": "status:Status=1 [entries:SendResultEntry=2",
    "QueryAssignmentRequest": "topic:Resource=1 group:Resource=2 endpoints:Endpoints=3",
    "QueryAssignmentResponse": "status:Status=1 [assignments:Assignment=2",
    "ReceiveMessageRequest": (
        "group:Resource=1 message_queue:MessageQueue=2 filter_expression:FilterExpression=3 batch_size:int32=4 "
        "?invisible_duration:Duration=5 auto_renew:bool=6 ?long_polling_timeout:Duration=7 ?attempt_id:string=8"
    ),
    "ReceiveMessageResponse": "status@content:Status=1 message@content:Message=2 delivery_timestamp@content:Timestamp=3",
    "AckMessageEntry": "message_id:string=1 receipt_handle:string=2 ?lite_topic:string=3",
    "AckMessageRequest": "group:Resource=1 topic:Resource=2 [entries:AckMessageEntry=3",
    "AckMessageResultEntry": "message_id:string=1 receipt_handle:string=2 status:Status=3",
    "AckMessageResponse": "status:Status=1 [entries:AckMessageResultEntry=2",
    "ForwardMessageToDeadLetterQueueRequest": (
        "group:Resource=1 topic:Resource=2 receipt_handle:string=3 message_id:string=4 delivery_attempt:int32=5 "
        "max_delivery_attempts:int32=6 ?lite_topic:string=7"
    ),
    "ForwardMessageToDeadLetterQueueResponse": "status:Status=1",
    "HeartbeatRequest": "?group:Resource=1 client_type:ClientType=2",
    "HeartbeatResponse": "status:Status=1",
    "EndTransactionRequest": (
        "topic:Resource=1 message_id:string=2 transaction_id:string=3 resolution:TransactionResolution=4 source:TransactionSource=5 "
        "trace_context:string=6"
    ),
    "EndTransactionResponse": "status:Status=1",
    "PrintThreadStackTraceCommand": "nonce:string=1",
    "ReconnectEndpointsCommand": "nonce:string=1",
    "ThreadStackTrace": "nonce:string=1 ?thread_stack_trace:string=2",
    "VerifyMessageCommand": "nonce:string=1 message:Message=2",
    "VerifyMessageResult": "nonce:string=1",
    "RecoverOrphanedTransactionCommand": "message:Message=1 transaction_id:string=2",
    "NotifyUnsubscribeLiteCommand": "lite_topic:string=1",
    "TelemetryCommand": (
        "?status:Status=1 settings@command:Settings=2 thread_stack_trace@command:ThreadStackTrace=3 "
        "verify_message_result@command:VerifyMessageResult=4 "
        "recover_orphaned_transaction_command@command:RecoverOrphanedTransactionCommand=5 "
        "print_thread_stack_trace_command@command:PrintThreadStackTraceCommand=6 verify_message_command@command:VerifyMessageCommand=7 "
        "reconnect_endpoints_command@command:ReconnectEndpointsCommand=8 "
        "notify_unsubscribe_lite_command@command:NotifyUnsubscribeLiteCommand=9"
    ),
    "NotifyClientTerminationRequest": "?group:Resource=1",
    "NotifyClientTerminationResponse": "status:Status=1",
    "ChangeInvisibleDurationRequest": (
        "group:Resource=1 topic:Resource=2 receipt_handle:string=3 invisible_duration:Duration=4 message_id:string=5 "
        "?lite_topic:string=6 ?suspend:bool=7"
    ),
    "ChangeInvisibleDurationResponse": "status:Status=1 receipt_handle:string=2",
    "PullMessageRequest": (
        "group:Resource=1 message_queue:MessageQueue=2 offset:int64=3 batch_size:int32=4 filter_expression:FilterExpression=5 "
        "long_polling_timeout:Duration=6"
    ),
    "PullMessageResponse": "status@content:Status=1 message@content:Message=2 next_offset@content:int64=3",
    "UpdateOffsetRequest": "group:Resource=1 message_queue:MessageQueue=2 offset:int64=3",
    "UpdateOffsetResponse": "status:Status=1",
    "GetOffsetRequest": "group:Resource=1 message_queue:MessageQueue=2",
    "GetOffsetResponse": "status:Status=1 offset:int64=2",
    "QueryOffsetRequest": "message_queue:MessageQueue=1 query_offset_policy:QueryOffsetPolicy=2 ?timestamp:Timestamp=3",
    "QueryOffsetResponse": "status:Status=1 offset:int64=2",
    "RecallMessageRequest": "topic:Resource=1 recall_handle:string=2",
    "RecallMessageResponse": "status:Status=1 message_id:string=2",
    "SyncLiteSubscriptionRequest": (
        "action:LiteSubscriptionAction=1 topic:Resource=2 group:Resource=3 [lite_topic_set:string=4 ?version:int64=5 "
        "?offset_option:OffsetOption=6"
    ),
    "SyncLiteSubscriptionResponse": "status:Status=1",
}
METHODS: Final[Mapping[str, str]] = {
    "QueryRoute": "unary",
    "Heartbeat": "unary",
    "SendMessage": "unary",
    "QueryAssignment": "unary",
    "ReceiveMessage": "answers",
    "AckMessage": "unary",
    "ForwardMessageToDeadLetterQueue": "unary",
    "PullMessage": "answers",
    "UpdateOffset": "unary",
    "GetOffset": "unary",
    "QueryOffset": "unary",
    "EndTransaction": "unary",
    "Telemetry": "both",
    "NotifyClientTermination": "unary",
    "ChangeInvisibleDuration": "unary",
    "RecallMessage": "unary",
    "SyncLiteSubscription": "unary",
}
"""By name: which side of a call is a stream. Requests and responses are NAMERequest and NAMEResponse, but those of Telemetry."""

_F = descriptor_pb2.FieldDescriptorProto
_SCALARS: Final = {
    "string": _F.TYPE_STRING,
    "bytes": _F.TYPE_BYTES,
    "int32": _F.TYPE_INT32,
    "int64": _F.TYPE_INT64,
    "bool": _F.TYPE_BOOL,
    "float": _F.TYPE_FLOAT,
}
_PROTOBUF: Final = {"Duration", "Timestamp"}


def _add_enum(file: Any, name: str, values: str) -> None:
    enum = file.enum_type.add(name=name)
    for place, value in enumerate(values.split()):
        label, _, number = value.partition("=")
        enum.value.add(name=label, number=int(number) if number else place)


def _add_map(message: Any, package: str, name: str, number: int) -> None:
    entry = message.nested_type.add(name="".join(part.title() for part in name.split("_")) + "Entry")
    entry.options.map_entry = True
    for place, part in enumerate(("key", "value"), start=1):
        entry.field.add(name=part, number=place, type=_F.TYPE_STRING, label=_F.LABEL_OPTIONAL)
    type_name = f".{package}.{message.name}.{entry.name}"
    message.field.add(name=name, number=number, type=_F.TYPE_MESSAGE, type_name=type_name, label=_F.LABEL_REPEATED)


def _add_message(file: Any, name: str, fields: str) -> None:
    message = file.message_type.add(name=name)
    choices: list[str] = []
    with_presence: list[Any] = []
    for text in fields.split():
        mark = text[0] if text[0] in "?[{" else ""
        head, _, number = text.removeprefix(mark).partition("=")
        label, _, kind = head.partition(":")
        if mark == "{":
            _add_map(message, file.package, label, int(number))
            continue
        label, _, choice = label.partition("@")
        field = message.field.add(name=label, number=int(number), label=_F.LABEL_REPEATED if mark == "[" else _F.LABEL_OPTIONAL)
        if kind in _SCALARS:
            field.type = _SCALARS[kind]
        else:
            field.type = _F.TYPE_ENUM if kind in _ENUMS else _F.TYPE_MESSAGE
            field.type_name = f".google.protobuf.{kind}" if kind in _PROTOBUF else f".{file.package}.{kind}"
        if choice:
            if choice not in choices:
                choices.append(choice)
            field.oneof_index = choices.index(choice)
        elif mark == "?":
            with_presence.append(field)
    for choice in choices:
        message.oneof_decl.add(name=choice)
    for field in with_presence:  # what proto3 calls optional is a oneof of its own, behind the real ones
        field.proto3_optional = True
        field.oneof_index = len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{field.name}")


def _described() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name=FILE, package=PACKAGE, syntax="proto3")
    file.dependency.extend([duration_pb2.DESCRIPTOR.name, timestamp_pb2.DESCRIPTOR.name])
    for name, values in _ENUMS.items():
        _add_enum(file, name, values)
    for name, fields in _MESSAGES.items():
        _add_message(file, name, fields)
    return file


def _load() -> tuple[dict[str, Any], dict[str, Any]]:
    """(message classes, enum descriptors) by name. They have a pool of their own, because a program may use RocketMQ's Python client beside
    us."""
    pool = descriptor_pool.DescriptorPool()
    for needed in (duration_pb2, timestamp_pb2):
        pool.AddSerializedFile(needed.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(_described().SerializeToString())
    file = pool.FindFileByName(FILE)
    messages = {name: message_factory.GetMessageClass(descriptor) for name, descriptor in file.message_types_by_name.items()}
    return messages, dict(file.enum_types_by_name)


_CLASSES, _ENUM_TYPES = _load()


def message(name: str) -> Any:
    """The class of a message, by name."""
    return _CLASSES[name]


@functools.cache
def number(enum: str, label: str) -> int:
    """The number of an enum's value. Results are cached; there are as many as names in this program."""
    return int(_ENUM_TYPES[enum].values_by_name[label].number)


def label(enum: str, value: int) -> str:
    """The name of an enum's value; the number itself if it has none."""
    found = _ENUM_TYPES[enum].values_by_number.get(value)
    return str(found.name) if found is not None else str(value)


def request_of(method: str) -> Any:
    return _CLASSES["TelemetryCommand" if method == "Telemetry" else f"{method}Request"]


def response_of(method: str) -> Any:
    return _CLASSES["TelemetryCommand" if method == "Telemetry" else f"{method}Response"]
