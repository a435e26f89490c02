/* fields_inl.h: tables of a C struct's fields by name, by which base.pyx fills options from keywords and turns numbers into dicts.
 *
 * A table is a list of RP_FIELD_ROW(struct, member), ended by RP_FIELD_END; the member's kind comes from its C type.
 * tests/unit/test_wrapper_fields.py compares every table with its header. */
#ifndef RP_CORE_FIELDS_INL_H
#define RP_CORE_FIELDS_INL_H

#include <stddef.h>
#include <stdint.h>

enum rp_field_kind {
    RP_FIELD_NONE, /* not settable from Python: clocks, seams, borrowed pointers */
    RP_FIELD_I32,
    RP_FIELD_U16,
    RP_FIELD_U32,
    RP_FIELD_I64,
    RP_FIELD_U64,
    RP_FIELD_F64,
    RP_FIELD_TEXT, /* const char *, borrowed from a bytes object that the wrapper keeps */
    RP_FIELD_CHARS, /* char[n], zero-terminated, cut at n - 1 */
    RP_FIELD_BYTES, /* uint8_t[n] */
    RP_FIELD_U64S /* uint64_t[n] */
};

typedef struct rp_field_row {
    const char *name;
    size_t offset, size;
    int kind;
} rp_field_row;

/* An array decays to a pointer here, which distinguishes it from a scalar. */
#define RP_FIELD_KIND(value)                                                                                                               \
    _Generic((value),                                                                                                                      \
        int32_t: RP_FIELD_I32,                                                                                                             \
        uint16_t: RP_FIELD_U16,                                                                                                            \
        uint32_t: RP_FIELD_U32,                                                                                                            \
        int64_t: RP_FIELD_I64,                                                                                                             \
        uint64_t: RP_FIELD_U64,                                                                                                            \
        double: RP_FIELD_F64,                                                                                                              \
        const char *: RP_FIELD_TEXT,                                                                                                       \
        char *: RP_FIELD_CHARS,                                                                                                            \
        uint8_t *: RP_FIELD_BYTES,                                                                                                         \
        uint64_t *: RP_FIELD_U64S,                                                                                                         \
        default: RP_FIELD_NONE)
#define RP_FIELD_ROW(type, member) {#member, offsetof(type, member), sizeof(((type *)0)->member), RP_FIELD_KIND(((type *)0)->member)}
#define RP_FIELD_END {NULL, 0, 0, RP_FIELD_NONE}

#endif
