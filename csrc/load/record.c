/* record.c: the layout is that of store/message.h; every length is checked against the record's own size, which must come out even.
 * RocketMQ: MessageDecoder.decode, MessageExtEncoder (5.3.3 common/message/, store/).
 */
#include "record.h"

#include "../base/bytes_inl.h"
#include "../base/crc32.h"
#include "../base/error.h"

#define MAGIC_V1 0xDAA320A7u
#define MAGIC_V2 0xDAA320ABu
#define SYS_FLAG_BORN_V6 0x10
#define SYS_FLAG_STORE_V6 0x20
#define FIXED_SIZE 91 /* everything with two IPv4 hosts, a one-byte topic size and nothing in body, topic and properties */

int rp_load_decode_record(const uint8_t *data, uint64_t size, int check_crc, rp_load_record *record, const char **cause) {
    *cause = "the record is shorter than its fixed part";
    if (size < FIXED_SIZE)
        return RP_E_CORRUPT;
    record->size = rp_get_u32(data);
    if (record->size < FIXED_SIZE)
        return RP_E_CORRUPT;
    *cause = "the record is longer than the response";
    if (record->size > size)
        return RP_E_CORRUPT;
    uint32_t magic = rp_get_u32(data + 4);
    *cause = "unknown magic";
    if (magic != MAGIC_V1 && magic != MAGIC_V2)
        return RP_E_CORRUPT;
    record->queue_id = (int32_t)rp_get_u32(data + 12);
    record->queue_offset = (int64_t)rp_get_u64(data + 20);
    record->physical_offset = (int64_t)rp_get_u64(data + 28);
    uint32_t sys_flag = rp_get_u32(data + 36);
    record->born_timestamp_ms = (int64_t)rp_get_u64(data + 40);
    uint32_t at = 48 + (sys_flag & SYS_FLAG_BORN_V6 ? 20 : 8);
    record->store_timestamp_ms = (int64_t)rp_get_u64(data + at); /* within the fixed part's 91 bytes: at is at most 68 */
    at += 8 + (sys_flag & SYS_FLAG_STORE_V6 ? 20 : 8) + 12;
    uint32_t left = record->size;
    *cause = "the hosts are longer than the record";
    if (left < at + 4)
        return RP_E_CORRUPT;
    uint32_t body_size = rp_get_u32(data + at);
    at += 4;
    left -= at;
    uint32_t topic_bytes = magic == MAGIC_V1 ? 1 : 2;
    *cause = "the body is longer than the record";
    if (left < topic_bytes || body_size > left - topic_bytes)
        return RP_E_CORRUPT;
    record->body = (rp_slice){data + at, body_size};
    at += body_size;
    uint32_t topic_size = topic_bytes == 1 ? data[at] : rp_get_u16(data + at);
    at += topic_bytes;
    left -= body_size + topic_bytes;
    *cause = "the topic is longer than the record";
    if (left < 2 || topic_size > left - 2)
        return RP_E_CORRUPT;
    record->topic = (rp_slice){data + at, topic_size};
    at += topic_size;
    uint32_t properties_size = rp_get_u16(data + at);
    at += 2;
    left -= topic_size + 2;
    *cause = "the properties do not end where the record does";
    if (properties_size != left)
        return RP_E_CORRUPT;
    record->properties = (rp_slice){data + at, properties_size};
    *cause = "the body's CRC does not match";
    if (check_crc && (rp_crc32(0, record->body.data, body_size) & 0x7FFFFFFFu) != rp_get_u32(data + 8))
        return RP_E_CORRUPT;
    *cause = NULL;
    return RP_OK;
}
