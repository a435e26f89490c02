/* index_key.c: see index_key.h. */
#include "index_key.h"

#include <string.h>

#include "../base/hash.h"

#define TOPIC_SIZE_MAX 512
#define PREFIX_SIZE_MAX 2

rp_index_keys rp_index_keys_of(const rp_message *message) {
    if ((message->sys_flag & RP_SYSFLAG_TRANSACTION_MASK) == RP_SYSFLAG_TRANSACTION_ROLLBACK)
        return (rp_index_keys){0};
    return (rp_index_keys){.topic = message->topic,
                           .unique = rp_message_property(message->properties, "UNIQ_KEY"),
                           .words = rp_message_property(message->properties, "KEYS"),
                           .tags = rp_message_property(message->properties, "TAGS")};
}

/* Takes the next word of KEYS: 1, or 0 behind the last. */
static int next_word(rp_slice *words, rp_slice *word) {
    while (words->size > 0) {
        const uint8_t *start = words->data, *space = memchr(start, ' ', words->size);
        uint32_t size = space == NULL ? words->size : (uint32_t)(space - start);
        uint32_t used = space == NULL ? size : size + 1;
        words->data += used;
        words->size -= used;
        if (size == 0)
            continue;
        *word = (rp_slice){start, size};
        return 1;
    }
    return 0;
}

/* Hashes TOPIC#, the prefix and the key. */
static int32_t hash_of(rp_slice topic, const char *prefix, rp_slice key) {
    uint8_t text[TOPIC_SIZE_MAX + 1 + PREFIX_SIZE_MAX + RP_PROPERTIES_SIZE_MAX];
    size_t prefix_size = strlen(prefix), at = topic.size;
    if (topic.size > TOPIC_SIZE_MAX || key.size > RP_PROPERTIES_SIZE_MAX)
        return -1;
    memcpy(text, topic.data, topic.size);
    text[at++] = '#';
    memcpy(text + at, prefix, prefix_size);
    memcpy(text + at + prefix_size, key.data, key.size);
    int32_t hash = rp_hash_java(text, at + prefix_size + key.size);
    return hash == INT32_MIN ? 0 : hash < 0 ? -hash : hash;
}

int rp_index_keys_next(rp_index_keys *keys, int32_t *hash) {
    rp_slice key;
    if (keys->unique.data != NULL) {
        *hash = rp_index_key_hash(keys->topic, keys->unique);
        keys->unique = (rp_slice){0};
        return 1;
    }
    if (next_word(&keys->words, &key)) {
        *hash = rp_index_key_hash(keys->topic, key);
        return 1;
    }
    if (keys->tags.size > 0) {
        *hash = rp_index_tags_hash(keys->topic, keys->tags);
        keys->tags = (rp_slice){0};
        return 1;
    }
    return 0;
}

int32_t rp_index_key_hash(rp_slice topic, rp_slice key) { return hash_of(topic, "", key); }

int32_t rp_index_tags_hash(rp_slice topic, rp_slice tags) { return hash_of(topic, "T#", tags); }
