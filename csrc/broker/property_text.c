/* property_text.c: see property_text.h. */
#include "property_text.h"

#include "response_writer_inl.h"

const char *const rp_pairs_before_delay[] = {"DELAY",           "REAL_TOPIC",     "REAL_QID", "TIMER_DELIVER_MS",
                                             "TIMER_DELAY_SEC", "TIMER_DELAY_MS", NULL};

static int is_among(rp_slice name, const char *const *names) {
    for (; *names != NULL; names++) {
        if (strlen(*names) == name.size && memcmp(*names, name.data, name.size) == 0)
            return 1;
    }
    return 0;
}

uint8_t *rp_copy_pairs_without(uint8_t *at, rp_slice text, const char *const *names) {
    uint32_t position = 0;
    while (position < text.size) {
        rp_slice pair = rp_next_pair(text, &position), name, value;
        if (!rp_split_pair(pair, &name, &value) || is_among(name, names))
            continue;
        memcpy(at, pair.data, pair.size);
        at += pair.size;
        *at++ = RP_PROPERTY_VALUE_END;
    }
    return at;
}

uint8_t *rp_put_pair(uint8_t *at, const char *name, rp_slice value) {
    size_t size = strlen(name);
    memcpy(at, name, size);
    at += size;
    *at++ = RP_PROPERTY_NAME_END;
    memcpy(at, value.data, value.size);
    at += value.size;
    *at++ = RP_PROPERTY_VALUE_END;
    return at;
}

uint8_t *rp_put_number_pair(uint8_t *at, const char *name, int64_t number) {
    uint8_t digits[24];
    return rp_put_pair(at, name, (rp_slice){digits, (uint32_t)(rp_decimal(digits, number) - digits)});
}

uint8_t *rp_put_real_place(uint8_t *at, rp_slice topic, int32_t queue_id) {
    return rp_put_number_pair(rp_put_pair(at, "REAL_TOPIC", topic), "REAL_QID", queue_id);
}
