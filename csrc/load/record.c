/* record.c: see record.h. The layout is that of store/message.h; every length is checked against the record's own size, which must be
 * used up exactly.
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
#define FIXED_SIZE 91 /* with two IPv4 hosts, a one-byte topic size, and empty body, topic and properties */
#define HOST_V4_SIZE 8
#define HOST_V6_SIZE 20

/* Both decoders return what is wrong with the record, or NULL. The first decodes what lies before the body, and says where that begins. */
static const char *decode_head(const uint8_t *data, uint64_t size, rp_load_record *record, uint32_t *body_at) {
    if (size < FIXED_SIZE)
        return "the record is shorter than its fixed part";
    record->size = rp_get_u32(data);
    if (record->size < FIXED_SIZE)
        return "the record is shorter than its fixed part";
    if (record->size > size)
        return "the record is longer than the response";
    uint32_t magic = rp_get_u32(data + 4);
    if (magic != MAGIC_V1 && magic != MAGIC_V2)
        return "unknown magic";
    record->queue_id = (int32_t)rp_get_u32(data + 12);
    record->queue_offset = (int64_t)rp_get_u64(data + 20);
    record->physical_offset = (int64_t)rp_get_u64(data + 28);
    uint32_t sys_flag = rp_get_u32(data + 36);
    record->born_timestamp_ms = (int64_t)rp_get_u64(data + 40);
    uint32_t at = 48 + (sys_flag & SYS_FLAG_BORN_V6 ? HOST_V6_SIZE : HOST_V4_SIZE);
    record->store_timestamp_ms = (int64_t)rp_get_u64(data + at); /* within the 91 fixed bytes: at is at most 68 */
    at += 8 + (sys_flag & SYS_FLAG_STORE_V6 ? HOST_V6_SIZE : HOST_V4_SIZE) + 12;
    *body_at = at;
    return record->size < at + 4 ? "the hosts are longer than the record" : NULL;
}

/* Decodes body, topic and properties, each preceded by its size; `at` is the offset of the body's size. */
static const char *decode_texts(const uint8_t *data, uint32_t at, rp_load_record *record) {
    uint32_t body_size = rp_get_u32(data + at), topic_bytes = rp_get_u32(data + 4) == MAGIC_V1 ? 1 : 2;
    at += 4;
    uint32_t left = record->size - at;
    if (left < topic_bytes || body_size > left - topic_bytes)
        return "the body is longer than the record";
    record->body = (rp_slice){data + at, body_size};
    at += body_size;
    uint32_t topic_size = topic_bytes == 1 ? data[at] : rp_get_u16(data + at);
    at += topic_bytes;
    left -= body_size + topic_bytes;
    if (left < 2 || topic_size > left - 2)
        return "the topic is longer than the record";
    record->topic = (rp_slice){data + at, topic_size};
    at += topic_size;
    uint32_t properties_size = rp_get_u16(data + at);
    at += 2;
    left -= topic_size + 2;
    record->properties = (rp_slice){data + at, properties_size};
    return properties_size != left ? "the properties do not end where the record does" : NULL;
}

int rp_load_decode_record(const uint8_t *data, uint64_t size, int check_crc, rp_load_record *record, const char **cause) {
    uint32_t body_at;
    *cause = decode_head(data, size, record, &body_at);
    if (*cause == NULL)
        *cause = decode_texts(data, body_at, record);
    if (*cause == NULL && check_crc && (rp_crc32(0, record->body.data, record->body.size) & 0x7FFFFFFFu) != rp_get_u32(data + 8))
        *cause = "the body's CRC does not match";
    return *cause == NULL ? RP_OK : RP_E_CORRUPT;
}
