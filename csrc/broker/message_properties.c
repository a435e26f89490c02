/* message_properties.c: see message_properties.h. One pass cuts the text into pairs and looks each name up by its length; nothing is
 * copied unless a pair has to be removed. */
#include "message_properties.h"

#include <string.h>

#include "../base/error.h"
#include "../base/hash.h"
#include "../remoting/command.h"
#include "../store/light_queue.h"
#include "property_pair_inl.h"

enum pair_meaning {
    PLAIN,
    DROPPED,
    TAGS,
    KEYS,
    UNIQUE_KEY,
    LIGHT_NAMES,
    LITE_TOPIC,
    WAIT,
    DELAY,
    TRAN_MSG,
    SHARDING_KEY,
    TIMER_DELAY_MS,
    TIMER_DELAY_SEC,
    TIMER_DELIVER_MS,
    TIMER_OUT_MS,
    PRIORITY
};

/* Bits of `special`, one per name, until all pairs were seen: of a repeated name the later value counts, as in RocketMQ's parser. A
 * timed message that RocketMQ has delivered keeps TIMER_OUT_MS: sending it on sends a plain message. */
#define BIT(meaning) (1 << ((meaning) - DELAY))
#define IS_SPECIAL BIT(DELAY)
#define SAYS_YES(meaning) (BIT(meaning) << 16)
#define HAS_LEVEL (1 << 15) /* whatever it is */
#define HAS_TIMER (BIT(TIMER_DELAY_MS) | BIT(TIMER_DELAY_SEC) | BIT(TIMER_DELIVER_MS))

static int equals(rp_slice left, const char *text, size_t size) { return left.size == size && memcmp(left.data, text, size) == 0; }
#define IS(text) equals(name, text, sizeof(text) - 1)

/* DROPPED pairs are replaced by the broker's own or, like POP_CK and __CRC32#, never accepted from outside. */
static int meaning_of(rp_slice name) {
    switch (name.size) {
    case 4:
        return IS("TAGS") ? TAGS : IS("KEYS") ? KEYS : IS("WAIT") ? WAIT : PLAIN;
    case 5:
        return IS("DELAY") ? DELAY : PLAIN;
    case 6:
        return IS("POP_CK") ? DROPPED : PLAIN;
    case 7:
        return IS("CLUSTER") ? DROPPED : PLAIN;
    case 8:
        return IS("UNIQ_KEY") ? UNIQUE_KEY : IS("TRACE_ON") || IS("__CRC32#") ? DROPPED : IS("TRAN_MSG") ? TRAN_MSG : PLAIN;
    case 9:
        return IS("INNER_NUM") ? DROPPED : PLAIN;
    case 10:
        return IS("MSG_REGION") || IS("INNER_BASE") ? DROPPED : PLAIN;
    case 12:
        return IS("TIMER_OUT_MS") ? TIMER_OUT_MS : IS(RP_LITE_TOPIC) ? LITE_TOPIC : PLAIN;
    case 13:
        return IS("__SHARDINGKEY") ? SHARDING_KEY : PLAIN;
    case 14:
        return IS("TIMER_DELAY_MS") ? TIMER_DELAY_MS : PLAIN;
    case 15:
        return IS("TIMER_DELAY_SEC") ? TIMER_DELAY_SEC : PLAIN;
    case 16:
        return IS("TIMER_DELIVER_MS") ? TIMER_DELIVER_MS : PLAIN;
    case 18:
        return IS("_SYS_MSG_PRIORITY_") ? PRIORITY : PLAIN;
    case 20:
        return IS(RP_LIGHT_NAMES) ? LIGHT_NAMES : PLAIN;
    case 24:
        return IS(RP_LIGHT_OFFSETS) ? DROPPED : PLAIN;
    default:
        return PLAIN;
    }
}

/* Plain sends of some clients contain DELAY=0; a negative level does not delay either. broker/send.py has the same rule. */
static inline int says_yes(rp_slice value) { return !((value.size == 1 && value.data[0] == '0') || value.data[0] == '-'); }

static inline void note_special(rp_sent_properties *properties, int meaning, int is_set) {
    properties->special = is_set ? properties->special | BIT(meaning) : properties->special & ~BIT(meaning);
}

/* Python refuses a value that is not a number. */
static inline void note_delay(rp_sent_properties *properties, rp_slice value) {
    int64_t level = 0;
    int is_number = !says_yes(value) || (rp_slice_to_i64(value, &level) == RP_OK && level <= INT32_MAX);
    properties->delay_level = is_number ? (int32_t)level : 0;
    note_special(properties, DELAY, !is_number);
    properties->special |= HAS_LEVEL;
}

/* A value that is no number, or negative, counts as none. */
static inline void note_priority(rp_sent_properties *properties, rp_slice value) {
    int32_t priority;
    int is_one = rp_slice_to_i32(value, &priority) == RP_OK && priority >= 0;
    properties->priority = is_one ? priority : RP_PRIORITY_NONE;
}

static inline int note_pair(rp_sent_properties *properties, rp_slice name, rp_slice value) {
    int meaning = meaning_of(name);
    switch (meaning) {
    case TAGS:
        properties->tags = value;
        properties->tags_code = rp_hash_java(value.data, value.size);
        break;
    case KEYS:
        properties->has_keys = 1;
        break;
    case UNIQUE_KEY:
        properties->unique_key = value;
        break;
    case LIGHT_NAMES:
        properties->light_names = value;
        properties->light_lists++;
        break;
    case LITE_TOPIC:
        properties->lite_topic = value;
        break;
    case WAIT:
        properties->wait = rp_slice_to_bool(value);
        break;
    case DELAY:
        note_delay(properties, value);
        break;
    case TIMER_DELAY_MS:
    case TIMER_DELAY_SEC:
    case TIMER_DELIVER_MS:
        note_special(properties, meaning, 1);
        properties->special = says_yes(value) ? properties->special | SAYS_YES(meaning) : properties->special & ~SAYS_YES(meaning);
        break;
    case TIMER_OUT_MS: /* whatever its value */
        note_special(properties, meaning, 1);
        break;
    case SHARDING_KEY:
        properties->sharded = 1;
        break;
    case PRIORITY:
        note_priority(properties, value);
        break;
    case TRAN_MSG: /* "true" in any case, as Java reads it; any other value means no */
        properties->prepared = rp_slice_to_bool(value);
        break;
    default:
        break;
    }
    return meaning;
}

/* Called when all pairs were seen. A delay level takes precedence over a timer. */
static void settle_special(rp_sent_properties *properties) {
    int special = properties->special;
    int is_timed = (special & HAS_TIMER) != 0 && (special & BIT(TIMER_OUT_MS)) == 0 && properties->delay_level <= 0;
    properties->timed = is_timed ? 1 + ((special & HAS_TIMER << 16) != 0) : 0;
    if (properties->priority >= 0 && (properties->prepared || properties->sharded || (special & (HAS_TIMER | HAS_LEVEL)) != 0))
        properties->priority = RP_PRIORITY_DROPPED;
    properties->special = (special & IS_SPECIAL) != 0;
}

/* Copies the pairs that stay. The first `kept` bytes of the text were checked and stay as they are. */
static int copy_rest(rp_slice text, uint32_t kept, rp_arena *arena, rp_sent_properties *properties) {
    uint8_t *copy = rp_arena_take(arena, (size_t)text.size + 1);
    if (copy == NULL)
        return RP_E_NO_MEMORY;
    memcpy(copy, text.data, kept);
    uint32_t size = kept;
    while (kept < text.size) {
        rp_slice pair = rp_next_pair(text, &kept), name, value;
        if (rp_split_pair(pair, &name, &value) && note_pair(properties, name, value) != DROPPED) {
            memcpy(copy + size, pair.data, pair.size);
            size += pair.size;
            copy[size++] = RP_PROPERTY_VALUE_END;
        }
    }
    properties->text = (rp_slice){copy, size};
    settle_special(properties);
    return RP_OK;
}

/* Scans up to the first pair that must not be stored; returns how many bytes that are. */
static uint32_t look_at_stored(rp_slice text, rp_sent_properties *properties) {
    *properties = (rp_sent_properties){.text = text, .wait = 1, .priority = RP_PRIORITY_NONE};
    uint32_t at = 0;
    while (at < text.size) {
        uint32_t next = at;
        rp_slice pair = rp_next_pair(text, &next), name, value;
        if (!rp_split_pair(pair, &name, &value) || note_pair(properties, name, value) == DROPPED)
            break;
        at = next;
    }
    return at;
}

int rp_sent_properties_scan(rp_slice text, rp_arena *arena, rp_sent_properties *properties) {
    uint32_t at = look_at_stored(text, properties);
    if (at < text.size)
        return copy_rest(text, at, arena, properties);
    settle_special(properties);
    return RP_OK;
}

int rp_batch_properties_scan(rp_slice text, rp_sent_properties *properties) {
    int is_whole = look_at_stored(text, properties) >= text.size;
    settle_special(properties);
    return is_whole;
}
