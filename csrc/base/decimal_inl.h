/* decimal_inl.h: formats numbers as decimal digits. C only. */
#ifndef RP_BASE_DECIMAL_INL_H
#define RP_BASE_DECIMAL_INL_H

#include <stdint.h>
#include <string.h>

#define RP_DECIMAL_SIZE_MAX 20 /* for an int64_t */

/* Writes the number, two digits at a time. Returns the end of what it wrote, at most RP_DECIMAL_SIZE_MAX bytes. */
static inline uint8_t *rp_decimal(uint8_t *at, int64_t value) {
    static const char pairs[] = "0001020304050607080910111213141516171819202122232425262728293031323334353637383940414243444546474849"
                                "5051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899";
    uint8_t digits[RP_DECIMAL_SIZE_MAX];
    uint32_t place = sizeof digits;
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    while (rest >= 100) {
        place -= 2;
        memcpy(digits + place, pairs + rest % 100 * 2, 2);
        rest /= 100;
    }
    if (rest >= 10) {
        place -= 2;
        memcpy(digits + place, pairs + rest * 2, 2);
    } else {
        digits[--place] = (uint8_t)('0' + rest);
    }
    *at = '-';
    at += value < 0;
    memcpy(at, digits + place, sizeof digits - place);
    return at + sizeof digits - place;
}

#endif
