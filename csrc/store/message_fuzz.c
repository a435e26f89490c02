/* message_fuzz.c: feeds hostile bytes to the record decoder, and what it accepts back through the encoder.
 *
 * Claims   no slice leaves the record; properties can be read; a record of kind message, encoded again from its parts, is accepted again
 *          with the same parts.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../base/fuzz_inl.h"
#include "../base/hash.h"
#include "light_queue.h"
#include "message.h"
#include "message_encode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void lies_inside(rp_slice part, const uint8_t *data, uint64_t size) {
    demand(part.size == 0 || (part.data >= data && part.data + part.size <= data + size));
}

static void round_trip(const rp_message *message) {
    rp_encode_source source = {.queue_id = message->queue_id,
                               .flag = message->flag,
                               .sys_flag = message->sys_flag,
                               .reconsume_times = message->reconsume_times,
                               .born_timestamp_ms = message->born_timestamp_ms,
                               .store_timestamp_ms = message->store_timestamp_ms,
                               .queue_offset = message->queue_offset,
                               .physical_offset = message->physical_offset,
                               .prepared_transaction_offset = message->prepared_transaction_offset,
                               .born_host = message->born_host.data,
                               .store_host = message->store_host.data,
                               .topic = message->topic,
                               .body = message->body,
                               .properties = {message->properties, {NULL, 0}, {NULL, 0}}};
    for (source.append_crc = 0; source.append_crc <= 1; source.append_crc++) {
        int64_t size = rp_message_encoded_size(&source);
        if (size < 0) {
            demand(source.append_crc); /* only the bytes of the CRC can make it too large */
            continue;
        }
        uint8_t *target = calloc(1, (size_t)size);
        rp_message again;
        demand(target != NULL);
        rp_message_encode(&source, target, (uint32_t)size);
        demand(rp_message_decode(target, (uint64_t)size, RP_CHECK_RECORD_CRC, &again, NULL) == RP_RECORD_MESSAGE);
        demand(again.body.size == message->body.size && memcmp(again.body.data, message->body.data, again.body.size) == 0);
        demand(again.topic.size == message->topic.size && memcmp(again.topic.data, message->topic.data, again.topic.size) == 0);
        demand(again.queue_offset == message->queue_offset && again.physical_offset == message->physical_offset);
        demand(again.store_timestamp_ms == message->store_timestamp_ms && again.sys_flag == message->sys_flag);
        free(target);
    }
}

/* Checks that there are at most as many light queues as names, each inside the record. */
static void look_at_light_queues(const rp_message *message, const uint8_t *data) {
    rp_light_queues light = rp_light_queues_of(message->properties);
    uint32_t names = rp_light_names_count(light.names), found = 0;
    rp_slice name;
    int64_t offset;
    while (rp_light_queues_next(&light, &name, &offset)) {
        lies_inside(name, data, message->size);
        demand(rp_is_light_queue(name) && offset >= 0 && rp_light_queue_holds(name, message->properties, offset));
        demand(++found <= names);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    rp_message message;
    rp_error error;
    for (int check_crc = RP_CHECK_NO_CRC; check_crc <= RP_CHECK_RECORD_CRC; check_crc++) {
        int kind = rp_message_decode(data, size, check_crc, &message, &error);
        demand(kind == RP_RECORD_MESSAGE || kind == RP_RECORD_BLANK || kind == RP_RECORD_END || kind == RP_E_CORRUPT);
        if (kind != RP_RECORD_MESSAGE) {
            continue;
        }
        const rp_slice parts[] = {message.born_host, message.store_host, message.body, message.topic, message.properties};
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
            lies_inside(parts[i], data, message.size);
        }
        lies_inside(rp_message_property(message.properties, "KEYS"), data, message.size);
        rp_slice tags = rp_message_property(message.properties, "TAGS");
        demand(rp_message_tags_code(message.properties) == (tags.data == NULL ? 0 : rp_hash_java(tags.data, tags.size)));
        look_at_light_queues(&message, data);
        round_trip(&message);
    }
    return 0;
}
