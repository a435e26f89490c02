/* message_layout_inl.h: where the fields of a commit log record lie (message.h draws it). C only. */
#ifndef RP_STORE_MESSAGE_LAYOUT_INL_H
#define RP_STORE_MESSAGE_LAYOUT_INL_H

#include <stdint.h>

#include "message.h"

#define RP_AT_MAGIC 4
#define RP_AT_BODY_CRC 8
#define RP_AT_QUEUE_ID 12
#define RP_AT_FLAG 16
#define RP_AT_QUEUE_OFFSET 20
#define RP_AT_PHYSICAL_OFFSET 28
#define RP_AT_SYS_FLAG 36
#define RP_AT_BORN_TIMESTAMP 40
#define RP_AT_BORN_HOST 48
#define RP_HOST_V4_SIZE 8
#define RP_HOST_V6_SIZE 20

/* Everything but hosts, body, topic and properties; in V2 the topic's length takes one byte more. */
#define RP_RECORD_FIXED_SIZE (RP_AT_BORN_HOST + 8 + 4 + 8 + 4 + 1 + 2)
#define RP_RECORD_SIZE_MIN (RP_RECORD_FIXED_SIZE + 2 * RP_HOST_V4_SIZE)
_Static_assert(RP_RECORD_SIZE_MIN == 91, "an empty message with an empty topic takes 91 bytes in RocketMQ");

#define RP_PROPERTY_NAME_VALUE_SEPARATOR 1
#define RP_PROPERTY_SEPARATOR 2
#define RP_PROPERTY_CRC32 "__CRC32#"
#define RP_PROPERTY_CRC32_DIGITS 10
#define RP_PROPERTY_CRC32_SIZE (8 + 1 + RP_PROPERTY_CRC32_DIGITS + 1)

static inline uint32_t rp_born_host_size(int32_t sys_flag) { return sys_flag & RP_SYSFLAG_BORN_V6 ? RP_HOST_V6_SIZE : RP_HOST_V4_SIZE; }
static inline uint32_t rp_store_host_size(int32_t sys_flag) { return sys_flag & RP_SYSFLAG_STORE_V6 ? RP_HOST_V6_SIZE : RP_HOST_V4_SIZE; }

/* 1 if records with that sys flag have an entry in their queue. Prepared and rolled-back halves of transactions have none: consumers
 * must not see them. */
static inline int rp_message_is_queued(int32_t sys_flag) {
    int32_t transaction = sys_flag & RP_SYSFLAG_TRANSACTION_MASK;
    return transaction != RP_SYSFLAG_TRANSACTION_PREPARED && transaction != RP_SYSFLAG_TRANSACTION_ROLLBACK;
}

#endif
