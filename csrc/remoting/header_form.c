/* header_form.c: see header_form.h. */
#include "header_form.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "json_escape.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define BLOCK 64u
#define BLOCKS_MAX (RP_HEADER_FORM_BYTES / BLOCK)
#define FIELDS_MAX 32
#define DIGITS_MAX 10u /* digits of an int32 without sign */
#define PATIENCE 8u    /* a place is given up after this many headers in a row that it did not match */

typedef struct formed_field {
    uint16_t key, key_size, value, value_size; /* of the escaped text, without quotes */
    bool has_escape;
} formed_field;

typedef struct header_form {
    uint32_t size; /* 0: no header was learned yet */
    uint32_t misses; /* headers in a row that it did not match */
    int32_t code, version, flag;
    uint8_t language;
    uint16_t opaque, opaque_digits, field_count;
    /* For the 64 bytes of each block: those that may change, and those that are quotes or backslashes (and may not). The last block ends
     * with the header. */
    uint64_t may_change[BLOCKS_MAX], special[BLOCKS_MAX];
    formed_field fields[FIELDS_MAX];
    uint8_t bytes[RP_HEADER_FORM_BYTES];
} header_form;

struct rp_header_forms {
    header_form forms[RP_HEADER_FORMS]; /* indexed by size */
};

rp_header_forms *rp_header_forms_create(void) { return calloc(1, sizeof(rp_header_forms)); }

void rp_header_forms_destroy(rp_header_forms *forms) { free(forms); }

static inline uint32_t block_count(uint32_t size) { return (size + BLOCK - 1) / BLOCK; }

static inline uint32_t block_start(uint32_t block, uint32_t size) { return (block + 1) * BLOCK <= size ? block * BLOCK : size - BLOCK; }

/* ---- comparing ---- */

#ifdef __SSE2__
typedef struct block_masks {
    uint64_t differs, special;
} block_masks;

static inline block_masks compare_block(const uint8_t *header, const uint8_t *known) {
    const __m128i quote = _mm_set1_epi8('"'), backslash = _mm_set1_epi8('\\');
    block_masks masks = {0, 0};
#define PART(i)                                                                                                                            \
    do {                                                                                                                                   \
        __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)(header + 16 * (i)));                                               \
        __m128i other = _mm_loadu_si128((const __m128i *)(const void *)(known + 16 * (i)));                                                \
        __m128i specials = _mm_or_si128(_mm_cmpeq_epi8(bytes, quote), _mm_cmpeq_epi8(bytes, backslash));                                   \
        uint32_t same = (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, other));                                                         \
        masks.differs |= (uint64_t)(same ^ 0xFFFFu) << (16 * (i));                                                                         \
        masks.special |= (uint64_t)(uint32_t)_mm_movemask_epi8(specials) << (16 * (i));                                                    \
    } while (0)
    PART(0);
    PART(1);
    PART(2);
    PART(3);
#undef PART
    return masks;
}

static bool is_of_form(const header_form *form, const uint8_t *header, uint32_t size) {
    uint64_t wrong = 0;
    for (uint32_t block = 0, blocks = block_count(size); block < blocks; block++) {
        uint32_t start = block_start(block, size);
        block_masks masks = compare_block(header + start, form->bytes + start);
        wrong |= (masks.differs & ~form->may_change[block]) | (masks.special ^ form->special[block]);
    }
    return wrong == 0;
}
#else
static bool is_of_form(const header_form *form, const uint8_t *header, uint32_t size) {
    for (uint32_t block = 0, blocks = block_count(size); block < blocks; block++) {
        uint32_t start = block_start(block, size);
        for (uint32_t i = 0; i < BLOCK; i++) {
            uint8_t byte = header[start + i];
            bool may_change = (form->may_change[block] >> i & 1) != 0;
            if (byte != form->bytes[start + i] && (!may_change || byte == '"' || byte == '\\')) {
                return false;
            }
        }
    }
    return true;
}
#endif

static bool read_opaque(const header_form *form, const uint8_t *header, int32_t *opaque) {
    int64_t sum = 0;
    for (uint32_t i = 0; i < form->opaque_digits; i++) {
        uint32_t digit = (uint32_t)header[form->opaque + i] - '0';
        if (digit > 9) {
            return false;
        }
        sum = sum * 10 + digit;
    }
    *opaque = (int32_t)sum;
    return sum <= INT32_MAX; /* otherwise the general parser says what is wrong */
}

static bool unescape(const uint8_t *header, const formed_field *field, rp_arena *arena, rp_slice *text) {
    uint8_t *target = arena != NULL ? rp_arena_take(arena, field->value_size + 1u) : NULL;
    const uint8_t *cursor = header + field->value;
    int64_t size = target != NULL ? rp_json_unescape(&cursor, header + field->value + field->value_size + 1, target) : -1;
    if (size < 0) {
        return false;
    }
    rp_arena_give_back(arena, target + size);
    *text = (rp_slice){target, (uint32_t)size};
    return true;
}

int rp_header_forms_read(rp_header_forms *forms, const uint8_t *header, uint32_t size, rp_arena *arena, rp_command *command) {
    header_form *form = &forms->forms[size % RP_HEADER_FORMS];
    if (form->size != size || size == 0 || !is_of_form(form, header, size) || !read_opaque(form, header, &command->opaque)) {
        form->misses++;
        return 0;
    }
    for (uint32_t i = 0; i < form->field_count; i++) {
        const formed_field *known = &form->fields[i];
        rp_field *field = &command->fields[i];
        field->key = (rp_slice){header + known->key, known->key_size};
        field->value = (rp_slice){header + known->value, known->value_size};
        if (known->has_escape && !unescape(header, known, arena, &field->value)) {
            return 0;
        }
    }
    form->misses = 0;
    command->code = form->code;
    command->version = form->version;
    command->flag = form->flag;
    command->language = form->language;
    command->field_count = form->field_count;
    command->remark = (rp_slice){NULL, 0};
    return 1;
}

/* ---- learning ---- */

static void mark(header_form *form, uint64_t *masks, uint32_t from, uint32_t size) {
    for (uint32_t block = 0, blocks = block_count(form->size); block < blocks; block++) { /* the last two blocks may overlap */
        uint32_t start = block_start(block, form->size);
        for (uint32_t at = from > start ? from : start; at < from + size && at < start + BLOCK; at++) {
            masks[block] |= UINT64_C(1) << (at - start);
        }
    }
}

/* How many objects and arrays are open at an offset outside of strings. */
static int depth_at(const uint8_t *header, uint32_t offset) {
    int depth = 0;
    bool is_text = false;
    for (uint32_t at = 0; at < offset; at++) {
        uint8_t byte = header[at];
        if (is_text) {
            at += byte == '\\';
        } else {
            depth += (byte == '{' || byte == '[') - (byte == '}' || byte == ']');
        }
        is_text = is_text != (byte == '"');
    }
    return depth;
}

/* Returns where a string's escaped text ends, at its closing quote. There is one, because the general parser has read the header. */
static uint32_t string_end(const uint8_t *header, uint32_t size, uint32_t at, bool *has_escape) {
    while (at < size && header[at] != '"') {
        *has_escape = *has_escape || header[at] == '\\';
        at += header[at] == '\\' ? 2 : 1;
    }
    return at;
}

/* Learns a field that is written `"key":"value"`, with a key that has no escapes. */
static bool learn_field(header_form *form, const uint8_t *header, const rp_field *field, formed_field *known) {
    uintptr_t base = (uintptr_t)header, key = (uintptr_t)field->key.data;
    if (key <= base || key - base > form->size || field->key.size + 4 > form->size - (key - base)) {
        return false;
    }
    uint32_t at = (uint32_t)(key - base), end = at + field->key.size;
    if (memcmp(header + end, "\":\"", 3) != 0) {
        return false;
    }
    known->key = (uint16_t)at;
    known->key_size = (uint16_t)field->key.size;
    known->value = (uint16_t)(end + 3);
    known->has_escape = false;
    uint32_t value_end = string_end(header, form->size, end + 3, &known->has_escape);
    if (value_end >= form->size || (!known->has_escape && field->value.data != header + known->value)) {
        return false;
    }
    known->value_size = (uint16_t)(value_end - known->value);
    mark(form, form->may_change, known->value, known->value_size);
    return true;
}

/* Learns the digits behind the only `"opaque":` of the header. */
static bool learn_opaque(header_form *form, const uint8_t *header, int32_t opaque) {
    static const char name[] = "\"opaque\":";
    const uint8_t *found = memmem(header, form->size, name, sizeof name - 1), *digits = found == NULL ? NULL : found + sizeof name - 1;
    if (digits == NULL || memmem(digits, form->size - (size_t)(digits - header), name, sizeof name - 1) != NULL) {
        return false;
    }
    form->opaque = (uint16_t)(digits - header);
    if (depth_at(header, form->opaque) != 1) {
        return false;
    }
    form->opaque_digits = 0;
    while (digits < header + form->size && *digits >= '0' && *digits <= '9') {
        digits++;
        form->opaque_digits++;
    }
    int32_t read;
    if (form->opaque_digits == 0 || form->opaque_digits > DIGITS_MAX || !read_opaque(form, header, &read) || read != opaque ||
        digits == header + form->size || (*digits != ',' && *digits != '}')) {
        return false;
    }
    mark(form, form->may_change, form->opaque, form->opaque_digits);
    return true;
}

/* A place tries to learn the first header that hashes to it. Whether or not that succeeds, it tries the next one only when its patience
 * ends: learning costs more than parsing. */
static bool may_learn(const header_form *form) {
    bool is_untried = form->size == 0 && form->misses <= 1;
    return is_untried || form->misses % PATIENCE == 0;
}

void rp_header_forms_learn(rp_header_forms *forms, const uint8_t *header, uint32_t size, const rp_command *command) {
    header_form *form = &forms->forms[size % RP_HEADER_FORMS];
    if (size < BLOCK || size > RP_HEADER_FORM_BYTES || command->remark.data != NULL || command->field_count > FIELDS_MAX ||
        !may_learn(form)) {
        return;
    }
    memset(form->may_change, 0, sizeof form->may_change);
    memset(form->special, 0, sizeof form->special);
    form->size = size;
    bool is_known = learn_opaque(form, header, command->opaque);
    for (uint32_t i = 0; is_known && i < command->field_count; i++) {
        is_known = learn_field(form, header, &command->fields[i], &form->fields[i]);
    }
    for (uint32_t at = 0; is_known && at < size; at++) {
        if (header[at] == '"' || header[at] == '\\') {
            mark(form, form->special, at, 1);
        }
    }
    for (uint32_t block = 0; block < BLOCKS_MAX; block++) {
        form->may_change[block] &= ~form->special[block];
    }
    form->size = is_known ? size : 0;
    form->misses = is_known ? 0 : 1;
    form->code = command->code;
    form->version = command->version;
    form->flag = command->flag;
    form->language = command->language;
    form->field_count = command->field_count;
    memcpy(form->bytes, header, size);
}
