/* log_staging.c: see log_staging.h. */
#include "log_staging.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_SIZE 4096 /* the block size of most file systems, also where the kernel's pages are larger */

int rp_log_staging_open(rp_log_staging *staging, const rp_file_ops *ops) {
    *staging = (rp_log_staging){.ops = ops, .bytes = malloc(RP_STAGING_BYTES + PAGE_SIZE), .capacity = RP_STAGING_BYTES};
    return staging->bytes != NULL ? RP_OK : RP_E_NO_MEMORY;
}

void rp_log_staging_close(rp_log_staging *staging) {
    free(staging->bytes);
    staging->bytes = NULL;
}

int rp_log_staging_fits(const rp_log_staging *staging, uint32_t size) {
    return staging->size == 0 || size <= staging->capacity - staging->size;
}

uint8_t *rp_log_staging_take(rp_log_staging *staging, int64_t offset, uint32_t size) {
    if (staging->size == 0) {
        staging->begin = offset;
        if (size > staging->capacity) {
            uint8_t *larger = realloc(staging->bytes, (size_t)size + PAGE_SIZE);
            if (larger == NULL) {
                return NULL;
            }
            staging->bytes = larger;
            staging->capacity = size;
        }
    }
    uint8_t *target = staging->bytes + staging->size;
    staging->size += size;
    return target;
}

int rp_log_staging_clear(rp_log_staging *staging, int64_t begin, int fd, int64_t base, int64_t file_size) {
    int64_t end = staging->torn_end < base + file_size ? staging->torn_end : base + file_size;
    begin = staging->torn_begin > begin ? staging->torn_begin : begin;
    if (end > begin && rp_file_write_zeros(staging->ops, fd, end - begin, begin - base) != 0) {
        return rp_status_from_errno(errno);
    }
    staging->torn_begin = end;
    staging->torn_end = end < staging->torn_end ? staging->torn_end : 0;
    return RP_OK;
}

void rp_log_staging_tear(rp_log_staging *staging, int64_t begin, int64_t end) {
    staging->torn_begin = staging->torn_end == 0 || begin < staging->torn_begin ? begin : staging->torn_begin;
    staging->torn_end = end > staging->torn_end ? end : staging->torn_end;
}

/* Adds zeros up to the end of the last page, as far as the file goes. Returns how many bytes there are to write. */
static uint32_t fill_page(rp_log_staging *staging, int64_t base, int64_t file_size) {
    int64_t end = staging->begin - base + staging->size, page_end = (end + PAGE_SIZE - 1) & ~(int64_t)(PAGE_SIZE - 1);
    uint32_t more = (uint32_t)((page_end < file_size ? page_end : file_size) - end);
    memset(staging->bytes + staging->size, 0, more);
    return staging->size + more;
}

int rp_log_staging_write(rp_log_staging *staging, int fd, int64_t base, int64_t file_size) {
    int64_t end = staging->begin + staging->size;
    int rc = staging->torn_end != 0 ? rp_log_staging_clear(staging, staging->begin, fd, base, file_size) : RP_OK;
    uint32_t size = fill_page(staging, base, file_size);
    if (rc == RP_OK && rp_file_write_all(staging->ops, fd, staging->bytes, size, staging->begin - base) != 0) {
        rc = rp_status_from_errno(errno);
        rp_log_staging_tear(staging, staging->begin, end);
    }
    staging->size = 0;
    return rc;
}
