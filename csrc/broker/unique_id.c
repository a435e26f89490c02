/* unique_id.c: see unique_id.h. */
#include "unique_id.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../base/hex_inl.h"

void rp_unique_id_init(rp_unique_id *id, const uint8_t address[4], uint64_t random) {
    *id = (rp_unique_id){0};
    memcpy(id->fixed, address, 4);
    rp_put_u16(id->fixed + 4, (uint16_t)getpid());
    rp_put_u32(id->fixed + 6, (uint32_t)random);
}

static void set_month(rp_unique_id *id, int64_t wall_ms) {
    time_t seconds = (time_t)(wall_ms / 1000);
    struct tm month;
    localtime_r(&seconds, &month);
    /* Uses the present UTC offset: mktime would read the time zone again on every reactor, under a lock of the C library. */
    struct tm begin = {.tm_year = month.tm_year, .tm_mon = month.tm_mon, .tm_mday = 1};
    struct tm end = {.tm_year = month.tm_year, .tm_mon = month.tm_mon + 1, .tm_mday = 1};
    id->month_begin_ms = ((int64_t)timegm(&begin) - month.tm_gmtoff) * 1000;
    id->month_end_ms = ((int64_t)timegm(&end) - month.tm_gmtoff) * 1000;
}

void rp_unique_id_next(rp_unique_id *id, int64_t wall_ms, uint8_t text[RP_UNIQUE_ID_SIZE]) {
    if (wall_ms >= id->month_end_ms || wall_ms < id->month_begin_ms)
        set_month(id, wall_ms);
    uint8_t bytes[16];
    memcpy(bytes, id->fixed, sizeof id->fixed);
    rp_put_u32(bytes + 10, (uint32_t)(wall_ms - id->month_begin_ms));
    rp_put_u16(bytes + 14, id->counter++);
    rp_put_hex_bytes(text, bytes, sizeof bytes);
}
