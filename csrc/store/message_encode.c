/* message_encode.c: the fields of a record in order, straight into the mapped log. */
#include "message_encode.h"

#include <stdatomic.h>
#include <string.h>

#include "../base/bytes_inl.h"
#include "../base/crc32.h"
#include "../base/error.h"
#include "message_layout_inl.h"

static uint32_t topic_length_size(rp_slice topic) { return topic.size > INT8_MAX ? 2 : 1; }

/* Splits a part at a __CRC32# property that somebody else put in: *before and *after are what remains. */
static void without_crc(rp_slice part, rp_slice *before, rp_slice *after) {
    static const char name[] = RP_PROPERTY_CRC32 "\x01";
    *before = part;
    *after = (rp_slice){NULL, 0};
    for (uint32_t at = 0; at < part.size;) {
        const uint8_t *start = part.data + at, *stop = memchr(start, RP_PROPERTY_SEPARATOR, part.size - at);
        uint32_t size = stop == NULL ? part.size - at : (uint32_t)(stop - start) + 1;
        if (size >= sizeof name - 1 && memcmp(start, name, sizeof name - 1) == 0) {
            before->size = at;
            *after = (rp_slice){start + size, part.size - at - size};
            return;
        }
        at += size;
    }
}

/* Returns the last byte of the properties, 2 if there are none: a property appended behind another byte needs a separator first. */
static uint8_t last_property_byte(const rp_slice *parts) {
    uint8_t last = RP_PROPERTY_SEPARATOR;
    for (int i = 0; i < RP_ENCODE_PROPERTY_PARTS; i++) {
        if (parts[i].size != 0) {
            last = parts[i].data[parts[i].size - 1];
        }
    }
    return last;
}

int rp_encode_properties_are_closed(const rp_encode_source *source) {
    return last_property_byte(source->properties) == RP_PROPERTY_SEPARATOR;
}

/* Lists the pieces to write for the properties, at most two per part; returns their size without the appended CRC. */
static uint64_t property_pieces(const rp_encode_source *source, rp_slice pieces[2 * RP_ENCODE_PROPERTY_PARTS]) {
    uint64_t size = 0;
    for (int i = 0; i < RP_ENCODE_PROPERTY_PARTS; i++) {
        pieces[2 * i] = source->properties[i];
        pieces[2 * i + 1] = (rp_slice){NULL, 0};
        if (source->append_crc) {
            without_crc(source->properties[i], &pieces[2 * i], &pieces[2 * i + 1]);
        }
        size += (uint64_t)pieces[2 * i].size + pieces[2 * i + 1].size;
    }
    return size;
}

static uint64_t properties_size(const rp_encode_source *source, rp_slice pieces[2 * RP_ENCODE_PROPERTY_PARTS]) {
    uint64_t size = property_pieces(source, pieces);
    if (source->append_crc) {
        size += RP_PROPERTY_CRC32_SIZE + (last_property_byte(source->properties) != RP_PROPERTY_SEPARATOR);
    }
    return size;
}

int64_t rp_message_encoded_size(const rp_encode_source *source) {
    rp_slice pieces[2 * RP_ENCODE_PROPERTY_PARTS];
    uint64_t properties = properties_size(source, pieces);
    if (properties > RP_PROPERTIES_SIZE_MAX || source->topic.size > INT16_MAX) {
        return RP_E_TOO_LARGE;
    }
    uint64_t size = (uint64_t)RP_RECORD_FIXED_SIZE - 1 + topic_length_size(source->topic) + rp_born_host_size(source->sys_flag) +
                    rp_store_host_size(source->sys_flag) + source->body.size + source->topic.size + properties;
    return size > INT32_MAX ? RP_E_TOO_LARGE : (int64_t)size;
}

static uint8_t *put_bytes(uint8_t *at, const void *bytes, size_t size) {
    if (size != 0) {
        memcpy(at, bytes, size);
    }
    return at + size;
}

static uint8_t *put_properties(uint8_t *at, const rp_encode_source *source) {
    rp_slice pieces[2 * RP_ENCODE_PROPERTY_PARTS];
    uint64_t size = properties_size(source, pieces);
    rp_put_u16(at, (uint16_t)size);
    at += 2;
    for (int i = 0; i < 2 * RP_ENCODE_PROPERTY_PARTS; i++) {
        at = put_bytes(at, pieces[i].data, pieces[i].size);
    }
    return at;
}

/* Writes name, \1, ten digits with the least significant first, \2. The CRC covers every byte of the record before it, size and magic
 * included. */
static void put_trailing_crc(const rp_encode_source *source, uint8_t *target, uint8_t *at, uint32_t magic, uint32_t size) {
    if (last_property_byte(source->properties) != RP_PROPERTY_SEPARATOR) {
        *at++ = RP_PROPERTY_SEPARATOR;
    }
    uint8_t start[8];
    rp_put_u32(start, size);
    rp_put_u32(start + 4, magic);
    uint32_t crc = rp_crc32(rp_crc32(0, start, sizeof start), target + sizeof start, (size_t)(at - target) - sizeof start) & 0x7FFFFFFFu;
    at = put_bytes(at, RP_PROPERTY_CRC32 "\x01", RP_PROPERTY_CRC32_SIZE - RP_PROPERTY_CRC32_DIGITS - 1);
    for (int i = 0; i < RP_PROPERTY_CRC32_DIGITS; i++) {
        *at++ = (uint8_t)('0' + crc % 10);
        crc /= 10;
    }
    *at = RP_PROPERTY_SEPARATOR;
}

static void put_size_and_magic(uint8_t *target, uint32_t size, uint32_t magic) {
    uint8_t start[8];
    uint64_t word;
    rp_put_u32(start, size);
    rp_put_u32(start + 4, magic);
    memcpy(&word, start, sizeof word);
    /* After all other bytes of the record: this order holds for what a killed process leaves, for other processes that read the file,
     * and for a page that the kernel is writing at a power cut. Other threads are kept off by the log's max offset, not by this. */
    atomic_thread_fence(memory_order_release);
    memcpy(target, &word, sizeof word);
}

void rp_message_encode(const rp_encode_source *source, uint8_t *target, uint32_t size) {
    uint32_t magic = topic_length_size(source->topic) == 2 ? RP_MESSAGE_MAGIC_V2 : RP_MESSAGE_MAGIC_V1;
    rp_put_u32(target + RP_AT_QUEUE_ID, (uint32_t)source->queue_id);
    rp_put_u32(target + RP_AT_FLAG, (uint32_t)source->flag);
    rp_put_u64(target + RP_AT_QUEUE_OFFSET, (uint64_t)source->queue_offset);
    rp_put_u64(target + RP_AT_PHYSICAL_OFFSET, (uint64_t)source->physical_offset);
    rp_put_u32(target + RP_AT_SYS_FLAG, (uint32_t)source->sys_flag);
    rp_put_u64(target + RP_AT_BORN_TIMESTAMP, (uint64_t)source->born_timestamp_ms);
    uint8_t *at = put_bytes(target + RP_AT_BORN_HOST, source->born_host, rp_born_host_size(source->sys_flag));
    rp_put_u64(at, (uint64_t)source->store_timestamp_ms);
    at = put_bytes(at + 8, source->store_host, rp_store_host_size(source->sys_flag));
    rp_put_u32(at, (uint32_t)source->reconsume_times);
    rp_put_u64(at + 4, (uint64_t)source->prepared_transaction_offset);
    rp_put_u32(at + 12, source->body.size);
    at += 16;
    uint32_t crc = rp_crc32_copy(0, at, source->body.data, source->body.size) & 0x7FFFFFFFu;
    rp_put_u32(target + RP_AT_BODY_CRC, crc);
    at += source->body.size;
    if (magic == RP_MESSAGE_MAGIC_V2) {
        rp_put_u16(at, (uint16_t)source->topic.size);
        at += 2;
    } else {
        *at++ = (uint8_t)source->topic.size;
    }
    at = put_properties(put_bytes(at, source->topic.data, source->topic.size), source);
    if (source->append_crc) {
        put_trailing_crc(source, target, at, magic, size);
    }
    put_size_and_magic(target, size, magic);
}

void rp_message_encode_blank(uint8_t *target, uint32_t size) { put_size_and_magic(target, size, RP_MESSAGE_MAGIC_BLANK); }
