/* index_key.c: see index_key.h. */
#include "index_key.h"

#include <string.h>

#include "../base/hash.h"

#define TOPIC_SIZE_MAX 512

rp_index_keys rp_index_keys_of(const rp_message *message) {
    if ((message->sys_flag & RP_SYSFLAG_TRANSACTION_MASK) == RP_SYSFLAG_TRANSACTION_ROLLBACK)
        return (rp_index_keys){0};
    return (rp_index_keys){rp_message_property(message->properties, "UNIQ_KEY"), rp_message_property(message->properties, "KEYS")};
}

int rp_index_keys_next(rp_index_keys *keys, rp_slice *key) {
    if (keys->unique.data != NULL) {
        *key = keys->unique;
        keys->unique = (rp_slice){0};
        return 1;
    }
    while (keys->words.size > 0) {
        const uint8_t *start = keys->words.data, *space = memchr(start, ' ', keys->words.size);
        uint32_t size = space == NULL ? keys->words.size : (uint32_t)(space - start);
        uint32_t used = space == NULL ? size : size + 1;
        keys->words.data += used;
        keys->words.size -= used;
        if (size == 0)
            continue;
        *key = (rp_slice){start, size};
        return 1;
    }
    return 0;
}

int32_t rp_index_key_hash(rp_slice topic, rp_slice key) {
    uint8_t text[TOPIC_SIZE_MAX + 1 + RP_PROPERTIES_SIZE_MAX];
    if (topic.size > TOPIC_SIZE_MAX || key.size > RP_PROPERTIES_SIZE_MAX)
        return -1;
    memcpy(text, topic.data, topic.size);
    text[topic.size] = '#';
    memcpy(text + topic.size + 1, key.data, key.size);
    int32_t hash = rp_hash_java(text, topic.size + 1 + key.size);
    return hash == INT32_MIN ? 0 : hash < 0 ? -hash : hash;
}
