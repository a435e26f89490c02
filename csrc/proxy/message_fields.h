/* message_fields.h: the field numbers of apache.rocketmq.v2.Message and the messages inside it, as in rocketpy/proxy/schema.py. */
#ifndef RP_PROXY_MESSAGE_FIELDS_H
#define RP_PROXY_MESSAGE_FIELDS_H

enum message_field { MESSAGE_TOPIC = 1, MESSAGE_PROPERTIES = 2, MESSAGE_SYSTEM = 3, MESSAGE_BODY = 4 };
enum pair_field { PAIR_NAME = 1, PAIR_VALUE = 2 };
enum timestamp_field { TIMESTAMP_SECONDS = 1, TIMESTAMP_NANOS = 2 };
enum digest_field { DIGEST_TYPE = 1, DIGEST_CHECKSUM = 2 };
enum system_field {
    SYSTEM_TAG = 1,
    SYSTEM_KEYS = 2,
    SYSTEM_ID = 3,
    SYSTEM_DIGEST = 4,
    SYSTEM_ENCODING = 5,
    SYSTEM_TYPE = 6,
    SYSTEM_BORN = 7,
    SYSTEM_BORN_HOST = 8,
    SYSTEM_STORED = 9,
    SYSTEM_STORE_HOST = 10,
    SYSTEM_DELIVERY = 11,
    SYSTEM_HANDLE = 12,
    SYSTEM_QUEUE_ID = 13,
    SYSTEM_OFFSET = 14,
    SYSTEM_ATTEMPT = 16,
    SYSTEM_GROUP = 17,
    SYSTEM_TRACE = 18,
    SYSTEM_DEAD = 20,
    SYSTEM_LITE_TOPIC = 21,
    SYSTEM_PRIORITY = 22
};

#endif
