/* overlap.c: see overlap.h. */
#include "overlap.h"

#include <stddef.h>

#include "../base/bytes_inl.h"
#include "../store/message.h"

/* Finds the last message that ends at `end`, or before padding that ends there; -1: there is none. It searches backwards for a record whose
 * size and physical offset fit its place. Bytes of a body may look like one, which only makes the overlap begin elsewhere. bytes: the log
 * from `base` to `end`. */
static int64_t find_last_message(const uint8_t *bytes, int64_t base, int64_t end) {
    int is_padded = 0;
    for (int64_t at = end - RP_MESSAGE_BLANK_SIZE_MIN; at >= base; at--) {
        const uint8_t *record = bytes + (at - base);
        rp_message message;
        if (rp_get_u32(record) != (uint64_t)(end - at))
            continue;
        int kind = rp_message_decode(record, (uint64_t)(end - at), RP_CHECK_NO_CRC, &message, NULL);
        if (kind == RP_RECORD_MESSAGE && message.physical_offset == at)
            return at;
        if (kind == RP_RECORD_BLANK && !is_padded) {
            is_padded = 1;
            end = at; /* the next candidate ends here: at most one byte before `at`, which is not the start of a record */
        }
    }
    return -1;
}

int rp_overlap_begin(rp_overlap *overlap, rp_commit_log *log, rp_error *error) {
    int64_t end = rp_commit_log_max_offset(log), whole = rp_commit_log_dispatched_offset(log), limit = end - RP_OVERLAP_RECORD_MAX;
    rp_log_range last;
    *overlap = (rp_overlap){end, end};
    int status = end == 0 ? RP_E_RANGE : rp_commit_log_read(log, end - 1, 1, &last);
    if (status == RP_E_RANGE)
        return RP_OK; /* nothing is there: the log begins where it ends */
    if (status != RP_OK)
        return rp_error_set(error, status, 0, NULL, end - 1, "our own last bytes cannot be read: %s", rp_status_text(status));
    int64_t begin = end - RP_OVERLAP_BYTES_MAX, base = end - 1 - last.file_offset;
    base = base > limit ? base : limit;
    int64_t message = -1;
    if (whole > base)
        message = find_last_message(last.address - (end - 1 - base), base, whole);
    int64_t head = message >= 0 ? message : whole >= base ? whole : begin;
    rp_log_range_release(last.pin);
    begin = head < begin ? head : begin;
    begin = begin > base ? begin : base;
    overlap->at = begin < 1 ? 1 : begin; /* a report of 0 would mean that we are empty */
    return RP_OK;
}

int64_t rp_overlap_take(rp_overlap *overlap, rp_commit_log *log, const uint8_t *bytes, uint32_t size, rp_error *error) {
    int64_t left = overlap->end - overlap->at;
    uint32_t taken = size < left ? size : (uint32_t)left, same = 0;
    rp_log_range ours;
    int status = rp_commit_log_read(log, overlap->at, taken, &ours);
    if (status != RP_OK)
        return rp_error_set(error, status, 0, NULL, overlap->at, "our own last bytes cannot be read");
    while (same < taken && bytes[same] == ours.address[same])
        same++;
    rp_log_range_release(ours.pin);
    overlap->at += same;
    if (same < taken)
        return rp_error_set(error, RP_E_RANGE, 0, NULL, overlap->at,
                            "its log differs from ours at offset %lld: one of the two lost or replaced messages; to follow this master "
                            "let the slave start with an empty store",
                            (long long)overlap->at);
    return taken;
}
